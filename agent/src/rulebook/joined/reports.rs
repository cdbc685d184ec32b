//! What a session on an MPI job, or on stages, would have reported, second by second: contracts are judged by it.

use std::collections::BTreeMap;

use profile::FunctionTotals;
use profile::streams::{CalledTotals, RankReport, RankTotals, RankWindows, SentMessages, SentPair};
use recording::{ProbeDefinition, ProbeKey, Record};
use rules::Measure;

use super::{Recorded, take};
use crate::rulebook::replay::{Unreadable, merged, named};

/// The time between two reports.
const EVERY_NS: u64 = RankWindows::REPORT_EVERY.as_nanos() as u64;

/// The data of a job up to a record.
#[derive(Default)]
struct Reported {
    processes: BTreeMap<u32, Recorded>,
    definitions: BTreeMap<ProbeKey, ProbeDefinition>,
    /// How long calls last that have not returned, in nanoseconds; by process and function.
    open_ns: BTreeMap<(u32, String), u64>,
    sent: BTreeMap<(u32, u32), SentPair>,
    pairs_cut: u64,
    start_ns: Option<u64>,
    /// Time of the last record, and when the next report is due.
    now_ns: u64,
    next_ns: u64,
    /// The last record was of messages: those of all pairs have been read, after all totals.
    was_sent: bool,
    /// A report waits for the messages of its second, which come last.
    has_messages: bool,
}

/// A report for each second; `has_messages` if that is of an MPI job, whose messages it waits for.
///
/// # Errors
/// If a file is no recording. A later error is where a recording is damaged.
pub(crate) fn rank_reports(
    recordings: &[(String, Vec<u8>)],
    has_messages: bool,
) -> Result<impl Iterator<Item = Result<RankReport, Unreadable>>, Unreadable> {
    let mut job = Reported {
        has_messages,
        ..Reported::default()
    };
    let merge = merged(recordings)?;
    Ok(merge.filter_map(move |merged| match merged {
        Err(broken) => Some(Err(named(recordings, broken))),
        Ok(merged) => {
            let report = job.is_complete(&merged.record).then(|| job.report());
            job.take(merged.source, merged.record);
            report.map(Ok)
        }
    }))
}

impl Reported {
    /// Whether a report is due before this record: behind the messages of its second, or if there are none.
    fn is_complete(&self, next: &Record) -> bool {
        let is_due = self.start_ns.is_some() && self.now_ns >= self.next_ns;
        let was_sent = self.was_sent && !matches!(next, Record::Sent { .. });
        let waits_ns = if self.has_messages { EVERY_NS } else { 0 };
        let is_overdue = matches!(next, Record::Tick { .. }) && self.now_ns >= self.next_ns + waits_ns;
        is_due && (was_sent || is_overdue)
    }

    fn take(&mut self, source: usize, record: Record) {
        if let Some(time) = record.time() {
            if self.start_ns.is_none() {
                (self.start_ns, self.next_ns) = (Some(time.0), time.0 + EVERY_NS);
            }
            self.now_ns = self.now_ns.max(time.0);
        }
        self.was_sent = matches!(record, Record::Sent { .. });
        match record {
            Record::Sent { pairs, cut, .. } => {
                self.pairs_cut = self.pairs_cut.max(cut);
                let pairs = pairs.into_iter().map(|(from, to, messages, bytes)| SentPair {
                    from,
                    to,
                    messages,
                    bytes,
                });
                self.sent.extend(pairs.map(|pair| ((pair.from, pair.to), pair)));
            }
            Record::OpenCalls {
                probe,
                process,
                open_ns,
                ..
            } => {
                if let Some(definition) = self.definitions.get(&probe) {
                    self.open_ns
                        .insert((process.0, definition.function.clone()), open_ns);
                }
            }
            other => take(source, other, &mut self.processes, &mut self.definitions),
        }
    }

    fn report(&mut self) -> RankReport {
        self.next_ns = self.now_ns + EVERY_NS;
        RankReport {
            elapsed_s: seconds(self.now_ns.saturating_sub(self.start_ns.unwrap_or_default())),
            processes: self
                .processes
                .iter()
                .map(|process| self.totals(process))
                .collect(),
            matrix: Some(SentMessages {
                sent: self.sent.values().cloned().collect(),
                pairs_cut: self.pairs_cut,
            }),
            changes: Vec::new(),
        }
    }

    fn totals(&self, (slot, process): (&u32, &Recorded)) -> RankTotals {
        let total = |measure| process.totals.get(&measure).map(|total| seconds(total.last));
        let called = |(name, of): (&String, &FunctionTotals)| {
            let open_ns = self
                .open_ns
                .get(&(*slot, name.clone()))
                .copied()
                .filter(|ns| *ns > 0);
            let has_time = of.time_ns.or(open_ns).is_some();
            CalledTotals {
                name: name.clone(),
                calls: of.calls,
                time_s: has_time
                    .then(|| seconds(of.time_ns.unwrap_or_default() + open_ns.unwrap_or_default())),
                estimated: of.estimate.is_some(),
            }
        };
        RankTotals {
            pid: None,
            rank: process.facts.rank,
            runqueue_time_s: total(Measure::RunqueueTime),
            mpi_runqueue_time_s: total(Measure::MpiRunqueueTime),
            functions: process.functions.iter().map(called).collect(),
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use contract::Contract;
    use profile::streams::{ContractFollower, ModuleVerdict};
    use recording::{Header, ProbePlace, RecordingWriter};
    use rules::{ProcessFacts, ProcessId, Time};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The functions that a rank calls, with the share of its time in each.
    const RANKS: [[(&str, f64); 2]; 6] = [
        [("MPI_Ssend", 0.95), ("MPI_Recv", 0.0)],
        [("MPI_Ssend", 0.0), ("MPI_Recv", 0.02)],
        [("MPI_Ssend", 0.0), ("MPI_Recv", 0.02)],
        [("MPI_Ssend", 0.05), ("MPI_Recv", 0.9)],
        [("MPI_Ssend", 0.0), ("MPI_Recv", 0.5)],
        [("MPI_Ssend", 0.0), ("MPI_Recv", 0.99)],
    ];

    /// Sender, receiver, and messages a second.
    const PAIRS: [(u32, u32, u64); 6] = [
        (0, 1, 60),
        (0, 2, 60),
        (1, 3, 60),
        (2, 3, 60),
        (3, 4, 10),
        (4, 5, 10),
    ];

    /// Two probes for each function: its calls, and the time in it.
    fn probes(functions: &[&str], write: &mut impl FnMut(Record)) {
        for (at, name) in (0..).zip(functions) {
            for (probe, place) in [(2 * at, ProbePlace::Entry), (2 * at + 1, ProbePlace::Span)] {
                let definition = ProbeDefinition {
                    name: (*name).to_owned(),
                    function: (*name).to_owned(),
                    place,
                    captures: Vec::new(),
                };
                let probe = ProbeKey(probe);
                write(Record::ProbeDefined { probe, definition });
            }
        }
    }

    /// A recording of the program `pipeline` for this many seconds, in the last of which nothing is sent.
    fn pipeline(seconds: u64, still: u64) -> (String, Vec<u8>) {
        let mut writer = RecordingWriter::new(&Header::default()).unwrap();
        let mut write = |record| writer.write(&record).unwrap();
        let origin = 77 * SECOND;
        for (rank, process) in (0..).zip((0..6).map(ProcessId)) {
            let facts = ProcessFacts {
                rank: Some(rank),
                ..ProcessFacts::default()
            };
            let time = Time(origin);
            write(Record::ProcessJoined { process, time, facts });
        }
        probes(&RANKS[0].map(|(name, _)| name), &mut write);
        for second in 1..=seconds {
            let time = Time(origin + second * SECOND);
            let active = second.min(seconds - still);
            for (process, functions) in (0..).map(ProcessId).zip(RANKS) {
                for measure in [Measure::RunqueueTime, Measure::MpiRunqueueTime] {
                    let (process, total) = (Some(process), 0);
                    write(Record::Counter {
                        process,
                        measure,
                        time,
                        total,
                    });
                }
                for (at, (_, share)) in (0..).zip(functions) {
                    // Rank 0 receives nothing, and the last one sends nothing.
                    let is_called = (process.0, at) != (0, 1) && (process.0, at) != (5, 0);
                    let count = if is_called { 60 * active } else { 0 };
                    let duration_sum_ns = (share * (active * SECOND) as f64) as u64;
                    for (probe, duration_sum_ns) in [(2 * at, 0), (2 * at + 1, duration_sum_ns)] {
                        let probe = ProbeKey(probe);
                        write(Record::ProbeTotals {
                            probe,
                            process,
                            time,
                            count,
                            duration_sum_ns,
                        });
                    }
                    // Each rank waits in the call in which it is most of the time.
                    if second > active && share > 0.9 {
                        let open_ns = (second - active) * SECOND;
                        let probe = ProbeKey(2 * at + 1);
                        write(Record::OpenCalls {
                            probe,
                            process,
                            time,
                            open_ns,
                        });
                    }
                }
            }
            write(Record::Tick { time });
            if second == active {
                let pairs = PAIRS.map(|(from, to, per_s)| (from, to, per_s * second, 8 * per_s * second));
                write(Record::Sent {
                    time,
                    pairs: pairs.to_vec(),
                    cut: 0,
                });
            }
        }
        ("film.rec".to_owned(), writer.finish())
    }

    /// The contract of that program.
    const FILM: &str = include_str!("../../../../tests/programs/pipeline.yaml");

    fn judged(recording: (String, Vec<u8>), rate: &str) -> (Vec<String>, ContractFollower) {
        let contract = Contract::parse(&FILM.replace("RATE", rate)).unwrap();
        let mut follower = ContractFollower::of(&contract, &[]).unwrap();
        let reports = rank_reports(&[recording], true)
            .unwrap()
            .collect::<Result<Vec<_>, _>>()
            .unwrap();
        let lines = reports
            .into_iter()
            .flat_map(|report| follower.take(report))
            .collect();
        (lines, follower)
    }

    #[test]
    fn a_recording_is_judged_by_a_contract_second_by_second() {
        let (lines, follower) = judged(pipeline(40, 0), "9.9");
        assert_eq!(lines, [""; 0]);
        let summary = follower.view().summary;
        assert!(summary.holds, "{:#?}", summary.lines());
        // Five reports make the first window, and four each of the others; the last second ends with the file.
        assert_eq!(summary.windows, 9);

        let (lines, _) = judged(pipeline(40, 0), "20");
        let [violated, bottleneck] = &lines[..] else {
            panic!("{lines:#?}");
        };
        assert_eq!(
            violated,
            "     14 s  film: 10/s of 20/s, violated; also rank0, ranks1_2, rank3, rank4, rank5, scenes, pictures, groups"
        );
        assert!(
            bottleneck.starts_with(
                "     14 s  ranks1_2 holds the pipeline up: busy 98 % of the time; rank0 is blocked"
            ),
            "{bottleneck}"
        );
    }

    /// A recording of two processes for this many seconds, each of which is a stage.
    fn chain(seconds: u64) -> (String, Vec<u8>) {
        // Process, function, calls a second, share of the time.
        const CALLS: [(u32, &str, u64, f64); 4] = [
            (0, "read_scene", 10, 0.1),
            (0, "put_scene", 10, 0.9),
            (1, "take_scene", 10, 0.02),
            (1, "render_scene", 10, 0.9),
        ];
        let mut writer = RecordingWriter::new(&Header::default()).unwrap();
        let mut write = |record| writer.write(&record).unwrap();
        for process in [0, 1].map(ProcessId) {
            let (time, facts) = (Time(0), ProcessFacts::default());
            write(Record::ProcessJoined { process, time, facts });
        }
        probes(&CALLS.map(|(_, name, ..)| name), &mut write);
        for second in 0..=seconds {
            let time = Time(second * SECOND);
            // The second process waits for a CPU for a tenth of its time.
            for (process, waits_ns) in [(0, 0), (1, SECOND / 10)] {
                write(Record::Counter {
                    process: Some(ProcessId(process)),
                    measure: Measure::RunqueueTime,
                    time,
                    total: second * waits_ns,
                });
            }
            for (at, (process, _, per_s, share)) in (0..).zip(CALLS) {
                for (probe, share) in [(2 * at, 0.0), (2 * at + 1, share)] {
                    write(Record::ProbeTotals {
                        probe: ProbeKey(probe),
                        process: ProcessId(process),
                        time,
                        count: per_s * second,
                        duration_sum_ns: (share * (second * SECOND) as f64) as u64,
                    });
                }
            }
            write(Record::Tick { time });
        }
        ("chain.rec".to_owned(), writer.finish())
    }

    #[test]
    fn a_recording_of_stages_is_judged_by_the_calls_of_their_functions() {
        let source = "contract: chain\nstreams: {scenes: {from: read, to: render}}\n\
                      modules: {read: {gives: {scenes: 1}}, render: {takes: [scenes]}}\nrequire: [render >= 12/s]\n";
        let contract = Contract::parse(source).unwrap();
        let stages = ["read=read_scene,,put_scene", "render=render_scene,take_scene"];
        let stages = stages.map(|stage| stage.parse().unwrap());
        let mut follower = ContractFollower::of(&contract, &stages).unwrap();
        let recordings = [chain(20)];
        let reports = rank_reports(&recordings, false).unwrap();
        let lines = reports.flat_map(|report| follower.take(report.unwrap()));
        let lines: Vec<String> = lines.collect();
        let [violated, bottleneck] = &lines[..] else {
            panic!("{lines:#?}");
        };
        assert!(
            violated.ends_with("render: 10/s of 12/s, violated; also read, scenes"),
            "{violated}"
        );
        assert!(
            bottleneck.contains(
                "render holds the pipeline up: busy 88 % of the time, 10 % waiting for a CPU; read is blocked"
            ),
            "{bottleneck}"
        );
        // A report for each of twenty seconds: five in the first window, and four in each of the others.
        assert_eq!(follower.view().summary.windows, 4);
    }

    /// What `attach --record` wrote of the program `pipeline`, whose renderers take 60 ms: `2 1 60000 5000 1244`. Only
    /// what is judged is left of it.
    const SLOW_STAGE: &[u8] = include_bytes!("slow-stage.rec");

    #[test]
    fn a_recorded_session_is_judged_as_it_was_while_it_ran() {
        let recording = || ("slow-stage.rec".to_owned(), SLOW_STAGE.to_vec());
        let (lines, follower) = judged(recording(), "1000");
        let [violated, bottleneck] = &lines[..] else {
            panic!("{lines:#?}");
        };
        // These are the lines that the session printed.
        let expected = "   14.3 s  film: 2.71/s of 1000/s, violated; also rank0, ranks1_2, rank3, rank4, rank5, scenes, \
                        pictures, groups";
        assert_eq!(violated, expected);
        let expected = "   14.3 s  ranks1_2 holds the pipeline up: busy 95 % of the time; rank0 is blocked writing to \
                        ranks1_2 100 %; rank3 waits 100 % for input from ranks1_2; rank4 waits 99 % for input from \
                        rank3; rank5 waits 100 % for input from rank4";
        assert_eq!(bottleneck, expected);
        let summary = follower.view().summary;
        let verdicts: Vec<(&str, &str)> = summary
            .modules
            .iter()
            .map(|one| (one.module.as_str(), one.verdict.words()))
            .collect();
        let expected = [
            ("rank0", "blocked"),
            ("rank3", "starved"),
            ("rank4", "starved"),
            ("rank5", "starved"),
            ("ranks1_2", "compute-bound"),
        ];
        assert_eq!(verdicts, expected);
        let film = summary.rates.iter().find(|rate| rate.feature == "film").unwrap();
        assert_eq!((film.windows_violated, summary.windows), (2, 4));
        let (lines, follower) = judged(recording(), "2.5");
        assert_eq!(lines, [""; 0]);
        assert!(follower.view().summary.holds);
    }

    #[test]
    fn a_job_that_has_stalled_is_judged_although_nothing_is_sent() {
        let (lines, follower) = judged(pipeline(60, 40), "9.9");
        assert!(
            lines
                .iter()
                .any(|line| line.contains("film: 0/s of 9.9/s, violated")),
            "{lines:#?}"
        );
        // The last rank waits in a call that does not return, and is not busy.
        let last = follower.view().window.unwrap().modules;
        let rank5 = last.iter().find(|one| one.module == "rank5").unwrap();
        assert_eq!(
            (rank5.verdict, rank5.shares.starved),
            (ModuleVerdict::Starved, 1.0)
        );
    }

    #[test]
    fn recordings_without_messages_and_damaged_ones_make_no_window() {
        let contract = Contract::parse(&FILM.replace("RATE", "1")).unwrap();
        let mut follower = ContractFollower::of(&contract, &[]).unwrap();
        let (name, mut bytes) = pipeline(40, 0);
        assert!(rank_reports(&[(name.clone(), vec![1, 2, 3])], true).is_err());
        bytes.truncate(bytes.len() / 2);
        let reports: Vec<_> = rank_reports(&[(name, bytes)], true).unwrap().collect();
        assert!(matches!(reports.last(), Some(Err(_))), "{reports:?}");
        let (_, still) = judged(pipeline(40, 40), "1");
        let view = still.view();
        assert_eq!(view.summary.windows, 0);
        assert!(
            view.not_judged
                .unwrap()
                .starts_with("too few messages between ranks")
        );
        let whole = reports.into_iter().flatten();
        whole.for_each(|report| drop(follower.take(report)));
        assert!(!follower.view().summary.lines().is_empty());
    }
}
