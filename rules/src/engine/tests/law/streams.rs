//! Streams of hits of a master and its workers: the events of each iteration at the probes of a rule, for any
//! probe names, with losses and duplicates.

use proptest::prelude::*;

use super::*;
use crate::rule::CheckedProbe;

/// Process 0 is the master, the others are workers.
pub(super) const PROCESSES: u32 = 6;
/// Length of an iteration, ms.
pub(super) const TURN: u64 = 500;

/// A hit: end and duration in ms, and its reads; `None` for a failed read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sent {
    pub(super) probe: usize,
    pub(super) process: u32,
    pub(super) end: u64,
    pub(super) duration: u64,
    pub(super) reads: Vec<Option<f64>>,
}

#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) workers: u32,
    pub(super) computes: Vec<u64>,
    /// Tenths, so that their sums are inexact in binary.
    pub(super) work: Vec<u32>,
    /// The lead of a worker's clock, ms: it may work on after the end of its iteration.
    pub(super) skew: u64,
    pub(super) missing: usize,
    pub(super) doubled: usize,
    /// The hit whose reads fail.
    pub(super) unread: usize,
    /// A late worker assumes the previous iteration.
    pub(super) behind: bool,
}

pub(super) fn any_turn() -> impl Strategy<Value = Turn> {
    (
        1..PROCESSES,
        prop::collection::vec(1u64..400, PROCESSES as usize),
        prop::collection::vec(0u32..50, PROCESSES as usize),
        0u64..150,
        0usize..300,
        0usize..100,
        0usize..250,
        prop::bool::weighted(0.1),
    )
        .prop_map(
            |(workers, computes, work, skew, missing, doubled, unread, behind)| Turn {
                workers,
                computes,
                work,
                skew,
                missing,
                doubled,
                unread,
                behind,
            },
        )
}

/// An activity of a process: end and duration, the other process, and its batch.
struct Interval {
    end: u64,
    duration: u64,
    other: u32,
    batch: u32,
    believed: u64,
}

/// One iteration of one process.
struct ProcessIteration<'a> {
    turn: &'a Turn,
    number: u64,
    process: u32,
}

impl ProcessIteration<'_> {
    fn start(&self) -> u64 {
        self.number * TURN
    }

    /// A time on the clock of a process, which leads that of the first.
    fn own(&self, offset: u64) -> u64 {
        self.start() + offset + 3 * u64::from(self.process)
    }

    fn interval(&self, end: u64, duration: u64) -> Interval {
        Interval {
            end,
            duration,
            other: self.process,
            batch: 1,
            believed: self.number,
        }
    }

    fn begun(&self, worker: u32) -> u64 {
        self.start() + 10 * u64::from(worker)
    }

    fn of(values: &[u64], process: u32) -> u64 {
        values.get(process as usize).copied().unwrap_or(1)
    }

    /// Its activities at the probe of this name.
    fn intervals(&self, probe: &str) -> Vec<Interval> {
        let workers = 1..=self.turn.workers;
        let works = self.process <= self.turn.workers;
        let begun = self.begun(self.process);
        let compute = Self::of(&self.turn.computes, self.process);
        match probe {
            "begin" | "start" | "loop.entry" => vec![self.interval(self.own(0), 0)],
            "step.entry" => vec![self.interval(self.own(4), 0)],
            "end" | "stop" => vec![self.interval(self.own(490 - 15), 0)],
            "step" => vec![self.interval(self.own(489 - 15), 470)],
            "iteration" => vec![self.interval(self.own(480 - 15), 0)],
            "divide" => vec![self.interval(self.own(7), 0)],
            "finalize" => vec![self.interval(self.own(488 - 15), 9)],
            "answer" => vec![self.interval(self.own(440), 0)],
            "loop" => vec![self.interval(self.own(475), 475)],
            "enter" => vec![self.interval(begun, 0)],
            "leave" => vec![self.interval(begun + 400, 0)],
            "batch" => {
                let batch = |batch: u32| Interval {
                    batch,
                    ..self.interval(self.start() + 5 + 165 * u64::from(batch - 1), 0)
                };
                (1..=2).map(batch).collect()
            }
            "send" => {
                let send = |(worker, batch): (u32, u32)| Interval {
                    other: worker,
                    batch,
                    ..self.interval(self.begun(worker) + 180 * u64::from(batch - 1), u64::from(worker))
                };
                workers
                    .flat_map(|worker| [(worker, 1), (worker, 2)])
                    .map(send)
                    .collect()
            }
            "reply" | "receive" => {
                let reply = |worker: u32| Interval {
                    other: worker,
                    ..self.interval(self.begun(worker) + Self::of(&self.turn.computes, worker) + 20, 0)
                };
                workers.map(reply).collect()
            }
            "compute" | "work" | "process" | "barrier" if works => {
                let behind = u64::from(self.turn.behind && self.process == 1);
                let long = Interval {
                    believed: self.number - behind,
                    ..self.interval(begun + compute + self.turn.skew, compute)
                };
                let short = self.interval(begun + compute / 2, compute / 2);
                vec![long, Interval { batch: 2, ..short }]
            }
            _ => Vec::new(),
        }
    }

    /// The value of a read.
    fn read(&self, capture: &str, interval: &Interval) -> f64 {
        let n = interval.believed as f64;
        let work = f64::from(self.turn.work[self.process as usize]) / 10.0;
        match capture {
            "number" | "vt" | "loop.instance" => n,
            "workers" | "threads" => self.turn.workers.into(),
            "id" | "batch" => interval.batch.into(),
            "chunks" => self.turn.workers.into(),
            "bytes" => 1000.0 * n,
            "tasks" => 100.0 / f64::from(interval.batch),
            "chunk" => 50.0,
            "to" | "from" => interval.other.into(),
            "work" if interval.batch == 1 => work,
            "work" => work + 0.3,
            _ => 8.0,
        }
    }
}

/// The hits of the turns at the probes of a rule, unordered.
pub(super) fn stream(turns: &[Turn], rule: &CheckedRule) -> Vec<Sent> {
    let mut out = Vec::new();
    for (number, turn) in (1u64..).zip(turns) {
        let mut hits: Vec<Sent> = Vec::new();
        for (index, probe) in rule.probes.iter().enumerate() {
            for process in 0..PROCESSES {
                let has = rule
                    .roles
                    .get(probe.role)
                    .is_some_and(|role| role.has(&facts(process)));
                let at = ProcessIteration {
                    turn,
                    number,
                    process,
                };
                let intervals = if has {
                    at.intervals(&probe.name)
                } else {
                    Vec::new()
                };
                hits.extend(
                    intervals
                        .into_iter()
                        .map(|interval| sent(&at, (index, probe), &interval)),
                );
            }
        }
        if turn.missing < hits.len() {
            hits.remove(turn.missing);
        }
        if let Some(hit) = hits.get_mut(turn.unread) {
            hit.reads.fill(None);
        }
        out.extend(hits);
    }
    out
}

fn sent(at: &ProcessIteration<'_>, (index, probe): (usize, &CheckedProbe), interval: &Interval) -> Sent {
    let reads = probe.captures.iter().take(probe.reads.len());
    Sent {
        probe: index,
        process: at.process,
        end: interval.end,
        duration: if probe.site == crate::target::Site::Span {
            interval.duration
        } else {
            0
        },
        reads: reads
            .map(|(capture, _)| Some(at.read(capture, interval)))
            .collect(),
    }
}

/// The hits, some of them twice, and the number of duplicates.
pub(super) fn with_doubles(hits: &[Sent], turns: &[Turn]) -> (Vec<Sent>, u64) {
    let mut out = hits.to_vec();
    let mut indices: Vec<usize> = turns.iter().map(|turn| turn.doubled).collect();
    indices.sort_unstable();
    indices.dedup();
    out.extend(indices.into_iter().filter_map(|index| hits.get(index).cloned()));
    let doubled = out.len() - hits.len();
    (out, doubled as u64)
}

pub(super) fn facts(rank: u32) -> ProcessFacts {
    ProcessFacts {
        rank: Some(rank),
        host: Some(format!("host{}", rank % 3)),
        // Windows of threads have their boundaries in one process.
        libraries: (rank == 0)
            .then(|| "libgomp.so.1".to_string())
            .into_iter()
            .chain(["libc.so.6".to_string()])
            .collect(),
        mpi: Some("Open MPI".to_string()),
        symbols: ["opal_progress_yield_when_idle".to_string()].into(),
        ..ProcessFacts::default()
    }
}
