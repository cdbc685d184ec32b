//! Programs that run for as long as they are looked at, one or several at once, and what each says of its own pace.
//!
//! The programs of ours (`teams.c`, `churn.c`, `allreduce.c`, `sums.py`, `products.py`, `products.c`, `trees.py`) print
//! `{"event":"pace","seconds":…,"count":…,"sum":…}` a few times a second by their own clock, and end when they find a gate open;
//! what others say is read by a function that is given. Nothing here believes the agent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::agent::Agent;
use crate::group::Group;
use crate::job::Job;
use crate::lines::Line;
use crate::sessions::Recorded;
use crate::{Outcome, Problem};

/// A slow program on a busy machine needs its time for a few lines.
const PATIENCE: Duration = Duration::from_secs(180);

/// 400 windows of half a second, and what a busy machine adds to them.
pub(crate) const TRIAL_MAX: Duration = Duration::from_secs(300);

/// Seconds after which an agent does what it does all along.
const SETTLING: f64 = 2.0;

/// Results as printed, by what they are of.
pub type Results = BTreeMap<u64, BTreeSet<String>>;

/// A result as printed, and what it is of.
pub type Printed = (u64, String);

/// Programs that run side by side.
pub struct Crowd {
    jobs: Vec<Job>,
    program: Program,
    /// Dropped after the jobs.
    _group: Option<Group>,
}

/// How one kind of programs tells what it does.
#[derive(Clone, Copy)]
pub struct Program {
    /// Of what it printed.
    pub said: fn(&[Line]) -> Vec<Said>,
    /// What has come out so far, by what it is of.
    pub results: fn(&Job) -> Outcome<Vec<Printed>>,
    /// Whether it ends when it finds a gate open.
    pub has_gate: bool,
}

/// How far one of them was.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Seconds since a moment that is always the same.
    pub seconds: f64,
    /// What it had done by then.
    pub count: f64,
}

/// The programs of this project.
const OURS: Program = Program {
    said: |lines| ours(lines).into_iter().map(|(said, _)| said).collect(),
    results: |job| {
        let all = ours(&job.lines.all()).into_iter();
        Ok(all.map(|(_, sum)| (0, sum.to_string())).collect())
    },
    has_gate: true,
};

impl Crowd {
    /// Starts `number` programs of ours, with more in their environment (`NAME=VALUE`).
    pub fn start(number: usize, environment: &[&str], program: &Path, arguments: &[&str]) -> Outcome<Crowd> {
        let start = || {
            Job::alone(Path::new("env"), |folder| {
                let environment = environment.iter().map(|pair| (*pair).to_owned());
                let mut words: Vec<String> = environment.collect();
                words.push(program.to_string_lossy().into_owned());
                let folder = folder.to_string_lossy().into_owned();
                words.extend(arguments.iter().map(|word| word.replace("DIRECTORY", &folder)));
                words
            })
        };
        let jobs: Vec<Job> = (0..number).map(|_| start()).collect::<Outcome<_>>()?;
        Ok(Crowd {
            jobs,
            program: OURS,
            _group: None,
        })
    }

    /// A job of a program of ours that was started in another way.
    pub fn of(job: Job) -> Crowd {
        Crowd::of_others(job, OURS)
    }

    /// A job of somebody else's program.
    pub fn of_others(job: Job, program: Program) -> Crowd {
        Crowd {
            jobs: vec![job],
            program,
            _group: None,
        }
    }

    /// Moves them into a control group, which lasts as long as they do.
    pub fn within(self, group: Group) -> Outcome<Crowd> {
        self.pids().iter().try_for_each(|pid| group.take(pid))?;
        Ok(Crowd {
            _group: Some(group),
            ..self
        })
    }

    /// Their processes.
    pub fn pids(&self) -> Vec<String> {
        self.jobs.iter().map(|job| job.pid().to_string()).collect()
    }

    /// What each of ours printed last under a key of its lines about its pace.
    pub fn newest(&self, key: &str) -> Vec<Value> {
        let of = |job: &Job| {
            let lines = job.lines.all();
            let parsed = lines
                .iter()
                .rev()
                .filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
            let mut paces = parsed.filter(|value| value["event"] == "pace");
            paces.next().map_or(Value::Null, |value| value[key].clone())
        };
        self.jobs.iter().map(of).collect()
    }

    /// What they do together in a second, over at least so many seconds from their next lines on.
    pub fn pace(&self, over: f64) -> Outcome<f64> {
        let begun: Vec<usize> = self
            .jobs
            .iter()
            .map(|job| (self.program.said)(&job.lines.all()).len())
            .collect();
        let since = Instant::now();
        let of = |(job, begun): (&Job, &usize)| {
            let (first, last) = job.lines.wait_for("lines about its pace", PATIENCE, |lines| {
                // To read everything at every line would take CPU time from the program.
                if since.elapsed().as_secs_f64() < over {
                    return None;
                }
                let all = (self.program.said)(lines);
                let (first, last) = (all.get(*begun)?, all.last()?);
                (last.seconds - first.seconds >= over).then_some((*first, *last))
            })?;
            Ok((last.count - first.count) / (last.seconds - first.seconds))
        };
        self.jobs.iter().zip(&begun).map(of).sum()
    }

    /// The same in turns with others, as `self, others, others, self`: whatever else the machine does meets both. Who has no turn is
    /// stopped. The paces of both.
    pub fn paces_beside(&self, others: &Crowd, over: f64) -> Outcome<(f64, f64)> {
        let first = self.turn(others, over)?;
        let theirs = others.turn(self, over)? + others.turn(self, over)?;
        let ours = first + self.turn(others, over)?;
        others.resume()?;
        Ok((ours / 2.0, theirs / 2.0))
    }

    /// Its pace while the others are stopped.
    fn turn(&self, others: &Crowd, over: f64) -> Outcome<f64> {
        others.pause()?;
        self.resume()?;
        self.pace(over)
    }

    /// What attaching with these words makes of its pace, as a share of that of the same program beside it, which nobody looks at: in
    /// `pairs` turns of so many seconds each, in both orders. Who has no turn is stopped, the agent too, so that what it does falls on
    /// those that it looks at alone. And what it printed.
    fn attached_beside(
        &self,
        others: &Crowd,
        words: &[&str],
        (pairs, over): (usize, f64),
    ) -> Outcome<(Vec<f64>, String)> {
        self.turn(others, over)?;
        let agent = self.attach(words)?;
        agent.armed()?;
        // What it does in its first seconds it does once.
        self.pace(SETTLING)?;
        let attached = || {
            agent.resume()?;
            self.turn(others, over)
        };
        let alone = || {
            agent.pause()?;
            others.turn(self, over)
        };
        let pair = |number: usize| -> Outcome<f64> {
            let (ours, theirs) = match number % 2 {
                0 => (attached()?, alone()?),
                _ => {
                    let theirs = alone()?;
                    (attached()?, theirs)
                }
            };
            Ok(ours / theirs)
        };
        let shares = (0..pairs).map(pair).collect::<Outcome<_>>()?;
        agent.resume()?;
        self.resume()?;
        let text = leave(agent)?;
        Ok((shares, text))
    }

    /// Stops them until they are to go on.
    pub fn pause(&self) -> Outcome {
        self.jobs.iter().try_for_each(Job::pause)
    }

    /// Lets them go on.
    pub fn resume(&self) -> Outcome {
        self.jobs.iter().try_for_each(Job::resume)
    }

    /// Attaches to all of them together, with more words.
    pub fn attach(&self, more: &[&str]) -> Outcome<Agent> {
        let pids = self.pids();
        let mut words = vec!["attach", "--plain"];
        words.extend(pids.iter().map(String::as_str));
        words.extend(more);
        Agent::command(&words)
    }

    /// Lets a rule act on all of them until its change is made, and judged if there is a verdict to print; what was kept stays. What was
    /// printed.
    pub fn repair(&self, rule: &str, [change, verdict]: [&str; 2]) -> Outcome<String> {
        let recorded = Recorded::new()?;
        let words = [&*format!("--apply={rule}"), "--keep", &recorded.flag()];
        let text = leave(match verdict {
            "" => {
                let agent = self.attach(&words)?;
                agent.lines.wait_for_line(change, PATIENCE)?;
                agent
            }
            _ => self.judged(&words)?,
        })?;
        recorded.replay(rule)?;
        Ok(text)
    }

    /// Attaches with these words, and waits until a guard has judged.
    pub fn judged(&self, words: &[&str]) -> Outcome<Agent> {
        let agent = self.attach(words)?;
        agent.lines.wait_for("a verdict", TRIAL_MAX, |lines| {
            lines.iter().any(|line| is_verdict(&line.text)).then_some(())
        })?;
        Ok(agent)
    }

    /// Ends them, in order where they know how; what came out.
    pub fn finish(mut self) -> Outcome<Results> {
        if self.program.has_gate {
            self.jobs.iter().try_for_each(|job| job.open("end"))?;
            self.jobs.iter_mut().try_for_each(|job| job.finish(PATIENCE))?;
        }
        let mut results = Results::new();
        for job in &self.jobs {
            for (of, result) in (self.program.results)(job)? {
                results.entry(of).or_default().insert(result);
            }
        }
        Ok(results)
    }
}

/// Whether a line has what a guard found. A probe that is no longer needed is switched off with a line of its own.
pub fn is_verdict(line: &str) -> bool {
    let is_no_verdict = ["its condition no longer holds", "reverted to compare"];
    line.contains("  guard  ") && !is_no_verdict.iter().any(|words| line.contains(words))
}

/// Ends a session in order; what it printed.
pub fn leave(mut agent: Agent) -> Outcome<String> {
    agent.signal(Signal::INT)?;
    match agent.wait(PATIENCE)? {
        0 => Ok(agent.lines.text()),
        code => Err(Problem::new(format!(
            "tuneagent ended with {code}:\n{}",
            agent.lines.text()
        ))),
    }
}

/// How far one of ours was, and the sum that it had come to.
fn ours(lines: &[Line]) -> Vec<(Said, i64)> {
    let parsed = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
    let pace = parsed.filter(|value| value["event"] == "pace");
    let said = |value: Value| {
        let (seconds, count) = (value["seconds"].as_f64()?, value["count"].as_f64()?);
        Some((Said { seconds, count }, value["sum"].as_i64()?))
    };
    pace.filter_map(said).collect()
}

/// What attaching with these words makes of the pace of one of two alike, as a share of that of the other, pair by pair; in half of the pairs
/// they have changed parts. What one of the two has of its own, as where its memory lies, goes out of the product of both. `look` is given
/// what each session printed.
pub fn paired(
    one: &Crowd,
    other: &Crowd,
    words: &[&str],
    (pairs, over): (usize, f64),
    mut look: impl FnMut(&str) -> Outcome,
) -> Outcome<Vec<f64>> {
    let mut half = |ours: &Crowd, theirs: &Crowd| -> Outcome<Vec<f64>> {
        let (shares, text) = ours.attached_beside(theirs, words, (pairs.div_ceil(2), over))?;
        look(&text)?;
        Ok(shares)
    };
    let (first, second) = (half(one, other)?, half(other, one)?);
    let both = first.iter().zip(&second);
    Ok(both.map(|(first, second)| (first * second).sqrt()).collect())
}
