//! Several programs at once that fight for the same cores, and what each says of its own pace.
//!
//! The programs (`teams.c`, `churn.c`, `products.py`) print `{"event":"pace","seconds":…,"count":…,"sum":…}` a few times a
//! second by their own clock, and end when they find a gate open. Nothing here believes the agent.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::agent::Agent;
use crate::job::Job;
use crate::lines::Line;
use crate::{Outcome, Problem};

/// A slow program on a busy machine needs its time for a few lines.
const PATIENCE: Duration = Duration::from_secs(120);

/// Programs that run side by side.
pub struct Crowd {
    jobs: Vec<Job>,
}

/// What one of them has said: seconds since it began, and what it had done by then.
#[derive(Clone, Copy, Debug)]
struct Said {
    seconds: f64,
    count: f64,
    sum: i64,
}

impl Crowd {
    /// Starts `number` of them, with more in their environment (`NAME=VALUE`).
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
        Ok(Crowd { jobs })
    }

    /// Their processes.
    pub fn pids(&self) -> Vec<String> {
        self.jobs.iter().map(|job| job.pid().to_string()).collect()
    }

    /// What each does in a second, over the next `lines` lines of each.
    pub fn pace(&self, lines: usize) -> Outcome<Vec<f64>> {
        let begun: Vec<usize> = self.jobs.iter().map(|job| said(&job.lines.all()).len()).collect();
        let over = |(job, begun): (&Job, &usize)| {
            let wanted = begun + lines;
            let all = job.lines.wait_for("lines about its pace", PATIENCE, |lines| {
                let all = said(lines);
                (all.len() > wanted).then_some(all)
            })?;
            let (first, last) = (all[*begun], all[wanted]);
            Ok((last.count - first.count) / (last.seconds - first.seconds))
        };
        self.jobs.iter().zip(&begun).map(over).collect()
    }

    /// Attaches to all of them together and lets a rule act, until its guard has judged; what it kept stays. What was printed.
    pub fn repair(&self, rule: &str) -> Outcome<String> {
        let pids = self.pids();
        let mut words = vec!["attach"];
        words.extend(pids.iter().map(String::as_str));
        let apply = format!("--apply={rule}");
        words.extend(["--plain", &apply, "--keep"]);
        let mut agent = Agent::command(&words)?;
        agent.lines.wait_for_line("  guard  ", PATIENCE)?;
        agent.signal(Signal::INT)?;
        match agent.wait(PATIENCE)? {
            0 => Ok(agent.lines.text()),
            code => Err(Problem::new(format!(
                "tuneagent ended with {code}:\n{}",
                agent.lines.text()
            ))),
        }
    }

    /// Ends them all; the sums that they have printed, each once: one if all results were the same.
    pub fn finish(mut self) -> Outcome<BTreeSet<i64>> {
        self.jobs.iter().try_for_each(|job| job.open("end"))?;
        self.jobs.iter_mut().try_for_each(|job| job.finish(PATIENCE))?;
        let all = self.jobs.iter().flat_map(|job| said(&job.lines.all()));
        Ok(all.map(|said| said.sum).collect())
    }
}

fn said(lines: &[Line]) -> Vec<Said> {
    let parsed = lines
        .iter()
        .filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
    let pace = parsed.filter(|value| value["event"] == "pace");
    let said = |value: Value| {
        Some(Said {
            seconds: value["seconds"].as_f64()?,
            count: value["count"].as_f64()?,
            sum: value["sum"].as_i64()?,
        })
    };
    pace.filter_map(said).collect()
}
