//! Programs that run until they are ended, one or several at once, and the pace that each reports.
//!
//! The programs of this project (`teams.c`, `churn.c`, `allreduce.c`, `sums.py`, `products.py`, `products.c`,
//! `trees.py`) print `{"event":"pace","seconds":…,"count":…,"sum":…}` a few times per second, by their own
//! clock, and end when a gate is open. Other programs have their own parser. No number comes from the agent.

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

/// Maximum time for a slow program on a busy machine to print a few lines.
const PATIENCE: Duration = Duration::from_secs(180);

/// Maximum time of a trial: 400 windows of 0.5 s, plus a margin for a busy machine.
pub(crate) const TRIAL_MAX: Duration = Duration::from_secs(300);

/// Seconds until an agent has finished its start-up work.
const SETTLING: f64 = 2.0;

/// Results as printed, by the part of the work.
pub type Results = BTreeMap<u64, BTreeSet<String>>;

/// A result as printed, with its part of the work.
pub type Printed = (u64, String);

/// Programs that run side by side.
pub struct Crowd {
    jobs: Vec<Job>,
    program: Program,
    /// Dropped after the jobs.
    _group: Option<Group>,
}

/// How to read the progress and the results of one kind of program.
#[derive(Clone, Copy)]
pub struct Program {
    /// Parses the progress from the output.
    pub said: fn(&[Line]) -> Vec<Said>,
    /// Reads the results so far, with their parts of the work.
    pub results: fn(&Job) -> Outcome<Vec<Printed>>,
    /// Whether the program ends when a gate is open.
    pub has_gate: bool,
}

/// Progress of one program.
#[derive(Clone, Copy, Debug)]
pub struct Said {
    /// Seconds since a fixed time.
    pub seconds: f64,
    /// Work done until then.
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
    /// Starts `number` programs of this project, with additional environment variables (`NAME=VALUE`).
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

    /// A running job of a program of this project.
    pub fn of(job: Job) -> Crowd {
        Crowd::of_others(job, OURS)
    }

    /// A running job of another program.
    pub fn of_others(job: Job, program: Program) -> Crowd {
        Crowd {
            jobs: vec![job],
            program,
            _group: None,
        }
    }

    /// Moves the programs into a control group, which is removed after their end.
    pub fn within(self, group: Group) -> Outcome<Crowd> {
        self.pids().iter().try_for_each(|pid| group.take(pid))?;
        Ok(Crowd {
            _group: Some(group),
            ..self
        })
    }

    /// Process numbers of the programs.
    pub fn pids(&self) -> Vec<String> {
        self.jobs.iter().map(|job| job.pid().to_string()).collect()
    }

    /// Value of `key` in the newest pace line of each program of this project.
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

    /// Work per second of all programs together, over at least `over` seconds from their next lines on.
    pub fn pace(&self, over: f64) -> Outcome<f64> {
        let begun: Vec<usize> = self
            .jobs
            .iter()
            .map(|job| (self.program.said)(&job.lines.all()).len())
            .collect();
        let since = Instant::now();
        let of = |(job, begun): (&Job, &usize)| {
            let (first, last) = job.lines.wait_for("lines about its pace", PATIENCE, |lines| {
                // Parsing the output at every line would take CPU time from the program.
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

    /// Paces of `self` and `others` in turns `self, others, others, self`, so that a disturbance of the
    /// machine affects both. The programs without a turn are stopped.
    pub fn paces_beside(&self, others: &Crowd, over: f64) -> Outcome<(f64, f64)> {
        let first = self.turn(others, over)?;
        let theirs = others.turn(self, over)? + others.turn(self, over)?;
        let ours = first + self.turn(others, over)?;
        others.resume()?;
        Ok((ours / 2.0, theirs / 2.0))
    }

    /// Pace while the others are stopped.
    fn turn(&self, others: &Crowd, over: f64) -> Outcome<f64> {
        others.pause()?;
        self.resume()?;
        self.pace(over)
    }

    /// Pace with an attached agent, as a share of the pace of the same program without one, and the output of
    /// the agent. Measures `pairs` turns of `over` seconds, in both orders. The programs without a turn, and
    /// the agent, are stopped, so that the agent's cost falls only on the attached program.
    fn attached_beside(
        &self,
        others: &Crowd,
        words: &[&str],
        (pairs, over): (usize, f64),
    ) -> Outcome<(Vec<f64>, String)> {
        self.turn(others, over)?;
        let agent = self.attach(words)?;
        agent.armed()?;
        // The agent's start-up work is not measured.
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
        others.resume()?;
        // 1 if the guard has reverted a change.
        Ok((shares, left_with(agent, &[0, 1])?))
    }

    /// Stops the programs until `resume`.
    pub fn pause(&self) -> Outcome {
        self.jobs.iter().try_for_each(Job::pause)
    }

    /// Continues the stopped programs.
    pub fn resume(&self) -> Outcome {
        self.jobs.iter().try_for_each(Job::resume)
    }

    /// Attaches one agent to all of them, with additional arguments.
    pub fn attach(&self, more: &[&str]) -> Outcome<Agent> {
        let pids = self.pids();
        let mut words = vec!["attach", "--plain"];
        words.extend(pids.iter().map(String::as_str));
        words.extend(more);
        Agent::command(&words)
    }

    /// Lets a rule act on all of them until the change is made and, if `verdict` is not empty, judged.
    /// Changes that were kept stay. Returns the output.
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

    /// Attaches with these arguments and waits for a guard's verdict.
    pub fn judged(&self, words: &[&str]) -> Outcome<Agent> {
        let agent = self.attach(words)?;
        agent.lines.wait_for("a verdict", TRIAL_MAX, |lines| {
            lines.iter().any(|line| is_verdict(&line.text)).then_some(())
        })?;
        Ok(agent)
    }

    /// Ends the programs, in order if they have a gate. Returns the results.
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

/// Whether a line has a guard's verdict. The guard also prints lines about probes that are switched off.
pub fn is_verdict(line: &str) -> bool {
    let is_no_verdict = ["its condition no longer holds", "reverted to compare"];
    line.contains("  guard  ") && !is_no_verdict.iter().any(|words| line.contains(words))
}

/// Ends a session with SIGINT. Returns the output.
pub fn leave(agent: Agent) -> Outcome<String> {
    left_with(agent, &[0])
}

/// The same for a session that ends with one of these exit codes.
fn left_with(mut agent: Agent, codes: &[i32]) -> Outcome<String> {
    agent.signal(Signal::INT)?;
    match agent.wait(PATIENCE)? {
        code if codes.contains(&code) => Ok(agent.lines.text()),
        code => Err(Problem::new(format!(
            "tuneagent ended with {code}:\n{}",
            agent.lines.text()
        ))),
    }
}

/// Progress and sums of a program of this project.
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

/// Pace with an attached agent, as a share of the pace of an equal program without one, by pair. In half of
/// the pairs the two have changed roles, and the geometric mean of both removes differences between the two,
/// such as the placement of their memory. `look` gets the output of each session.
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
