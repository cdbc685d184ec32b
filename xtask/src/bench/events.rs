//! `cargo xtask bench events`: measures how many hits per second the agent reads from its ring, and checks
//! that each hit is read or counted as lost.
//!
//! The agent is attached to a program that sleeps. A synthetic producer in the kernel
//! (`agent/benches/events.rs`) writes hits of the agent's one probe into the ring. Every run checks that
//! events read + events lost (from the report) = events produced. Further runs do the same while the agent is
//! stopped. For comparison, a bare reader drains a ring of its own and does nothing else. Before each round,
//! `stops` measures how long the machine keeps a thread off its CPU: the ring must hold the hits of that
//! time.

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::usage::Usage;
use tuneagent_e2e::{Outcome, Problem, programs};

use super::stops::Stops;
use crate::Result;
use crate::measure::stats::Spread;
use crate::measure::table::{Cell, Table, cells};
use crate::measure::{self, Claim, Section, Settings};
use crate::process::capture;

const SOON: Duration = Duration::from_secs(60);

/// Probed function of the program, which never calls it. The probe makes the agent create a ring.
const FUNCTION: &str = "named";

/// Maximum number of producers; each number from 1 up to it is measured.
const PRODUCERS: f64 = 4.0;

/// Target P3: hits per second of all producers together.
const RATE: f64 = 5e6;
/// Requested rate. The extra 1 % makes up for delays of the producers.
const REQUESTED: f64 = 1.01 * RATE;
/// Requested rate that means: as fast as possible.
const FASTEST: f64 = 0.0;

/// Maximum duration of runs with the bare reader and of runs at the fastest rate.
const LONG_ENOUGH_S: f64 = 10.0;

/// Result of one run: reader, and the numbers of hits produced, read and lost.
#[derive(Clone, Debug, Default, Serialize)]
struct Run {
    reader: &'static str,
    producers: u32,
    #[serde(rename = "asked_per_s")]
    rate: f64,
    made: u64,
    read: u64,
    lost: u64,
    seconds: f64,
    producers_cpu_s: f64,
    reader_cpu_s: f64,
    #[serde(rename = "reader_resident_kib")]
    resident_kib: Option<u64>,
    unread_s_most: Option<f64>,
}

const AGENT: &str = "agent";
const BARE: &str = "bare reader";
const STOPPED: &str = "agent, stopped";

pub(super) fn run(settings: &Settings) -> Result<measure::Outcome> {
    let seconds = settings.number("--seconds", 2.0, 60.0);
    let producers = settings.number("--producers", PRODUCERS, PRODUCERS) as u32;
    let (stops, runs) = measured(settings.repeats, seconds, producers)?;
    let longest = stops.iter().map(|stops| stops.longest.as_secs_f64());
    Ok(measure::Outcome {
        sections: vec![Section::new(
            "Hits made, read and lost",
            table(&runs),
            [stops_note(&stops)],
        )],
        claims: claims(&runs, producers),
        figures: Some(json!({
            "runs": runs,
            "machine_stops_s_most": longest.collect::<Vec<f64>>(),
        })),
    })
}

fn measured(repeats: usize, seconds: f64, producers_most: u32) -> Outcome<(Vec<Stops>, Vec<Run>)> {
    let target = Target::new()?;
    let short = seconds.min(LONG_ENOUGH_S);
    let mut stops = Vec::new();
    let mut runs = Vec::new();
    let mut keep = |run: Run| {
        println!("{run:?}");
        runs.push(run);
    };
    for _ in 0..repeats {
        stops.push(Stops::of_this_machine(Duration::from_secs_f64(seconds))?);
        for producers in 1..=producers_most {
            keep(bare(producers, REQUESTED, short)?);
            keep(target.watched(AGENT, producers, REQUESTED, seconds)?);
        }
        for producers in 1..=producers_most.min(2) {
            keep(bare(producers, FASTEST, short)?);
            keep(target.watched(AGENT, producers, FASTEST, short)?);
        }
    }
    keep(target.watched(STOPPED, 1, REQUESTED, short.min(1.0))?);
    Ok((stops, runs))
}

/// A program that sleeps.
struct Target(Job);

impl Target {
    fn new() -> Outcome<Target> {
        let job = Job::alone(&programs::c("asleep")?, |_| Vec::new())?;
        job.events("ready", 1, SOON)?;
        Ok(Target(job))
    }

    /// Measures one run with a new agent, which is stopped meanwhile if `reader` is `STOPPED`.
    fn watched(&self, reader: &'static str, producers: u32, rate: f64, seconds: f64) -> Outcome<Run> {
        let flags = ["--rules", "none", "--probe", FUNCTION];
        let mut agent = Agent::attach_armed(self.0.pid(), &flags)?;
        let before = Usage::of(agent.pid())?;
        if reader == STOPPED {
            agent.pause()?;
        }
        let pid = agent.pid().to_string();
        let made = instrument(&["session", &pid], producers, rate, seconds)?;
        let took = Usage::of(agent.pid())?.since(before);
        agent.resume()?;
        let report = agent.stop()?;
        let read = &report["completeness"]["events_received"];
        let run = Run {
            reader,
            read: read.as_u64().ok_or("the report tells no events")?,
            lost: report["completeness"]["lost"]["ring_full"].as_u64().unwrap_or(0),
            reader_cpu_s: took.cpu_ns as f64 / 1e9,
            resident_kib: Some(took.resident_kib),
            unread_s_most: report["cost"]["event_unread_s_most"].as_f64(),
            ..Run::of(&made, producers, rate)?
        };
        run.accounted_for()
    }
}

fn bare(producers: u32, rate: f64, seconds: f64) -> Outcome<Run> {
    let made = instrument(&["bare"], producers, rate, seconds)?;
    let number = |key: &str| made[key].as_u64().ok_or("a figure is missing");
    let run = Run {
        reader: BARE,
        read: number("read")?,
        lost: number("lost")?,
        reader_cpu_s: made["reader_cpu_s"].as_f64().unwrap_or(f64::NAN),
        ..Run::of(&made, producers, rate)?
    };
    run.accounted_for()
}

fn instrument(words: &[&str], producers: u32, rate: f64, seconds: f64) -> Outcome<Value> {
    let mut command = super::instrument("events");
    command.args(words);
    command.args([producers.to_string(), rate.to_string(), seconds.to_string()]);
    Ok(serde_json::from_str(&capture(&mut command)?)?)
}

impl Run {
    fn of(made: &Value, producers: u32, rate: f64) -> Outcome<Run> {
        let number = |key: &str| made[key].as_f64().ok_or("a figure is missing");
        Ok(Run {
            producers,
            rate,
            made: made["made"].as_u64().ok_or("a figure is missing")?,
            seconds: number("seconds")?,
            producers_cpu_s: number("producers_cpu_s")?,
            ..Run::default()
        })
    }

    /// Fails unless each produced hit was read or counted as lost.
    fn accounted_for(self) -> Outcome<Run> {
        if self.made == self.read + self.lost {
            return Ok(self);
        }
        Err(Problem::new(format!(
            "{} hits were made; {} were read and {} counted as lost, which is not the same: {self:?}",
            self.made, self.read, self.lost
        )))
    }

    fn made_per_s(&self) -> f64 {
        self.made as f64 / self.seconds
    }

    fn resident_mib(&self) -> Option<f64> {
        self.resident_kib.map(|kib| kib as f64 / 1024.0)
    }

    fn unread_ms_most(&self) -> Option<f64> {
        self.unread_s_most.map(|seconds| 1e3 * seconds)
    }

    fn lost_share(&self) -> f64 {
        self.lost as f64 / self.made as f64
    }
}

/// Groups the runs by kind, in the order of each kind's first run.
fn kinds(runs: &[Run]) -> Vec<Vec<&Run>> {
    let mut kinds: Vec<Vec<&Run>> = Vec::new();
    for run in runs {
        let is_same = |kind: &&mut Vec<&Run>| {
            kind.first().is_some_and(|first| {
                (first.reader, first.producers, first.rate) == (run.reader, run.producers, run.rate)
            })
        };
        match kinds.iter_mut().find(is_same) {
            Some(kind) => kind.push(run),
            None => kinds.push(vec![run]),
        }
    }
    kinds
}

/// Spread of a figure over the runs that have it.
fn spread<T: Into<Option<f64>>>(kind: &[&Run], of: impl Fn(&Run) -> T) -> Option<Spread> {
    let values: Vec<f64> = kind.iter().filter_map(|run| of(run).into()).collect();
    Spread::of(&values)
}

fn table(runs: &[Run]) -> Table {
    let mut table = Table::new([
        "reader",
        "producers",
        "asked, M/s",
        "made, M/s",
        "lost, % of them",
        "reader, % of a core",
        "reader, ns a hit",
        "producers, ns a hit",
        "reader, MiB",
        "unread at most, ms",
    ]);
    for kind in kinds(runs) {
        let Some(first) = kind.first() else { continue };
        let requested = match first.rate > 0.0 {
            true => Cell::from(first.rate / 1e6),
            false => "all".into(),
        };
        table.row(cells![
            first.reader,
            u64::from(first.producers),
            requested,
            spread(&kind, |run| run.made_per_s() / 1e6),
            spread(&kind, |run| 100.0 * run.lost_share()),
            spread(&kind, |run| 100.0 * run.reader_cpu_s / run.seconds),
            spread(&kind, |run| 1e9 * run.reader_cpu_s / run.read as f64),
            spread(&kind, |run| 1e9 * run.producers_cpu_s / run.made as f64),
            spread(&kind, Run::resident_mib),
            spread(&kind, Run::unread_ms_most),
        ]);
    }
    table
}

/// Text about the longest time without a CPU, which is a lower bound for any reader.
fn stops_note(stops: &[Stops]) -> String {
    let longest: Vec<f64> = stops
        .iter()
        .map(|stops| 1e3 * stops.longest.as_secs_f64())
        .collect();
    let long: u32 = stops.iter().map(|stops| stops.long).sum();
    let spread = Spread::of(&longest).map_or_else(String::new, |spread| spread.to_string());
    format!(
        "with nothing to do but read the clock, a thread was stopped for up to {spread} ms; for more than 5 ms {long} times in {} rounds",
        stops.len()
    )
}

/// Claims of target P3. Each run has already checked that no hit is unaccounted for.
fn claims(runs: &[Run], producers_most: u32) -> Vec<Claim> {
    let at_rate = |producers: u32| {
        let of = move |run: &&Run| run.reader == AGENT && run.rate > 0.0 && run.producers == producers;
        runs.iter().filter(of).collect::<Vec<&Run>>()
    };
    let median = |spread: Option<Spread>| spread.map_or(f64::NAN, |spread| spread.median);
    let mut claims = Vec::new();
    for producers in 1..=producers_most {
        let kind = at_rate(producers);
        let what = |what: &str| format!("P3, {producers} producers: {what}");
        let made = median(spread(&kind, |run| run.made_per_s() / 1e6));
        claims.push(Claim::at_least(&what("M hits/s"), made, RATE / 1e6, 0.5));
        let lost = median(spread(&kind, |run| run.lost as f64));
        claims.push(Claim::at_most(
            &what("lost, in the median run"),
            lost,
            0.0,
            f64::INFINITY,
        ));
        let unread = median(spread(&kind, |run| 1e3 * run.unread_s_most.unwrap_or(0.0)));
        claims.push(Claim::at_most(
            &what("oldest unread hit, ms"),
            unread,
            5.0,
            f64::INFINITY,
        ));
    }
    let resident = median(spread(&at_rate(1), |run| run.resident_mib().unwrap_or(0.0)));
    claims.push(Claim::at_most("P3: agent, MiB", resident, 30.0, 100.0));
    claims
}
