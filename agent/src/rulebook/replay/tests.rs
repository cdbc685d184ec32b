use recording::{
    Captured, CapturedType, Header, ProbeDefinition, ProbeKey, ProbePlace, Record, RecordedHit,
    RecordingWriter,
};
use rules::{Measure, ProcessFacts, ProcessId, Time};
use session::request::Settings;

use super::{Act, ReplayError, ReplayEvent, replay};
use crate::rulebook::RuleBook;

/// The master begins and ends an iteration; workers on another host compute for it.
const RULE: &str = "\
rule: joined
about: an iteration of processes on two hosts
roles:
  master: rank == 0
  worker: rank > 0
probes:
  begin: {role: master, entry: begin_iteration}
  end: {role: master, return: end_iteration}
  compute: {role: worker, span: compute_task}
capture:
  begin.number: iteration
  compute.number: current
windows:
  iteration: {from: begin, to: end, key: number}
  pulse: {every: 100ms}
metrics:
  busy: {in: iteration, value: sum(compute.duration)}
  cpu: {in: pulse, value: sum(cpu.time) / pulse.duration}
  cpus: {in: pulse, value: job.cpus}
tune:
  - every: iteration
    when: busy > 20ms
    finding: workers are busy for {busy}
";

const MS: u64 = 1_000_000;

/// The recording of one host, whose clock has a different origin.
struct Host {
    writer: RecordingWriter,
    origin_ns: u64,
}

impl Host {
    fn new(name: &str, origin_ns: u64, ranks: &[u32]) -> Host {
        let header = Header {
            host: name.into(),
            program: "simulate".into(),
            wall_start_ns: 1_700_000_000_000_000_000,
            origin: Time(origin_ns),
            notes: [].into(),
        };
        let mut host = Host {
            writer: RecordingWriter::new(&header).unwrap(),
            origin_ns,
        };
        // Numbers of probes and processes are independent on each host.
        let functions = match ranks {
            [0] => vec![
                ("begin_iteration", ProbePlace::Entry, "iteration as i32"),
                ("end_iteration", ProbePlace::Span, ""),
            ],
            _ => vec![("compute_task", ProbePlace::Span, "current as i32")],
        };
        for (probe, (function, place, capture)) in (0..).zip(functions) {
            let captures = Some(capture).filter(|capture| !capture.is_empty());
            host.put(Record::ProbeDefined {
                probe: ProbeKey(probe),
                definition: ProbeDefinition {
                    name: function.into(),
                    function: function.into(),
                    place,
                    captures: captures
                        .map(|name| (name.to_string(), CapturedType::Signed))
                        .into_iter()
                        .collect(),
                },
            });
        }
        for (slot, rank) in (0..).zip(ranks) {
            let facts = ProcessFacts {
                rank: Some(*rank),
                exe: "simulate".into(),
                host: Some(name.into()),
                ..ProcessFacts::default()
            };
            let time = host.at(0);
            host.put(Record::ProcessJoined {
                process: ProcessId(slot),
                time,
                facts,
            });
        }
        host
    }

    fn at(&self, ms: u64) -> Time {
        Time(self.origin_ns + ms * MS)
    }

    fn put(&mut self, record: Record) {
        self.writer.write(&record).unwrap();
    }

    fn hit(&mut self, probe: u32, slot: u32, ms: u64, duration_ms: Option<u64>, number: Option<i64>) {
        let hit = RecordedHit {
            probe: ProbeKey(probe),
            process: ProcessId(slot),
            thread: 1,
            time: self.at(ms),
            duration_ns: duration_ms.map(|ms| ms * MS),
            captures: number.map(Captured::Signed).into_iter().collect(),
        };
        self.put(Record::Hit(hit));
    }

    /// Records that every host writes every 50 ms: the CPU time of its processes, and a watermark for each.
    fn pulse(&mut self, ms: u64, slots: u32) {
        let time = self.at(ms);
        for process in (0..slots).map(ProcessId) {
            self.put(Record::Counter {
                process: Some(process),
                measure: Measure::CpuTime,
                time,
                total: ms * MS / 2,
            });
            self.put(Record::Watermark { process, time });
        }
        self.put(Record::Gauge {
            process: None,
            measure: Measure::JobCpus,
            time,
            value: 2.0,
        });
        self.put(Record::Tick { time });
    }
}

/// Two hosts whose clocks have very different origins: rank 0 on the first, ranks 1 and 2 on the second.
fn hosts() -> [Vec<u8>; 2] {
    hosts_with(&[])
}

/// As `hosts`, with these changes of the rule's mode before the iterations.
fn hosts_with(reported: &[(i64, &str)]) -> [Vec<u8>; 2] {
    let mut here = Host::new("node1", 5_000 * MS, &[0]);
    let mut there = Host::new("node2", 900_000 * MS, &[1, 2]);
    for iteration in 0..4_i64 {
        let start = iteration as u64 * 100;
        for (_, mode) in reported.iter().filter(|(at, _)| *at == iteration) {
            let time = here.at(start + 5);
            let (rule, mode) = ("joined".to_owned(), (*mode).to_owned());
            here.put(Record::RuleSet { time, rule, mode });
        }
        here.hit(0, 0, start + 10, None, Some(iteration));
        for worker in 0..2_u64 {
            let took = 10 + worker + 10 * iteration as u64;
            there.hit(0, worker as u32, start + 60, Some(took), Some(iteration));
        }
        here.hit(1, 0, start + 90, Some(1), None);
        for ms in [50, 100] {
            here.pulse(start + ms, 1);
            there.pulse(start + ms, 2);
        }
    }
    [here.writer.finish(), there.writer.finish()]
}

/// The events of a replay: windows with their metrics, and findings.
fn reported(recordings: &[Vec<u8>]) -> (Vec<String>, Result<(), ReplayError>) {
    replayed_by(RULE, recordings)
}

fn replayed_by(rule: &str, recordings: &[Vec<u8>]) -> (Vec<String>, Result<(), ReplayError>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("joined.yaml");
    std::fs::write(&file, rule).unwrap();
    let settings = Settings {
        parameters: &[],
        bindings: &[],
    };
    let paths = ["none".to_owned(), file.to_string_lossy().into_owned()];
    let mut rules = RuleBook::load(&paths, settings, None, true).unwrap();
    let named: Vec<_> = recordings
        .iter()
        .enumerate()
        .map(|(number, bytes)| (format!("{number}.rec"), bytes.clone()))
        .collect();
    let mut lines = Vec::new();
    let result = replay(&mut rules, &named, |since_ns, what| match what {
        ReplayEvent::Window {
            window,
            index,
            metrics,
            readings,
            ..
        } => {
            assert_eq!(metrics.len(), readings.len());
            for ((metric, value), reading) in metrics.iter().zip(readings) {
                assert_eq!(reading.is_none(), value.starts_with("none"), "{metric}: {value}");
                lines.push(format!("{window} {index}: {metric} {value}"));
            }
        }
        ReplayEvent::Act(Act::Found {
            text, is_new: true, ..
        }) => {
            lines.push(format!("{} ms: {text}", since_ns / MS));
        }
        ReplayEvent::Act(Act::Gone { .. }) => lines.push(format!("{} ms: gone", since_ns / MS)),
        ReplayEvent::Missing { rule, what } => lines.push(format!("missing {rule}: {what}")),
        ReplayEvent::Act(_) | ReplayEvent::Marked { .. } => {}
    });
    (lines, result)
}

#[test]
fn recordings_of_several_hosts_are_one_session_whatever_their_clocks_and_their_order() {
    let [here, there] = hosts();
    let (lines, result) = reported(&[here.clone(), there.clone()]);
    assert_eq!(result, Ok(()));
    for expected in [
        "iteration 0: busy 21 ms",
        "iteration 1: busy 41 ms",
        "iteration 2: busy 61 ms",
        "iteration 3: busy 81 ms",
        // Three processes, half a CPU each.
        "pulse 1: cpu 1.5",
        "pulse 2: cpu 1.5",
        // Two CPUs on each of both machines.
        "pulse 2: cpus 4",
    ] {
        assert!(
            lines.iter().any(|line| line == expected),
            "{expected} is not in {lines:#?}"
        );
    }
    assert!(
        lines
            .iter()
            .any(|line| line.ends_with("ms: workers are busy for 21 ms")),
        "{lines:#?}"
    );
    assert_eq!(reported(&[there.clone(), here.clone()]).0, lines);
}

#[test]
fn what_two_tunes_of_a_rule_find_is_reported_once_and_goes_once() {
    let tune =
        "  - every: iteration\n    when: 20ms < busy < 60ms\n    finding: workers are busy for {busy}\n";
    let (start, _) = RULE.split_once("  - every: iteration\n    when").unwrap();
    let (lines, result) = replayed_by(&format!("{start}{tune}{tune}"), &hosts());
    assert_eq!(result, Ok(()));
    let of = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
    assert_eq!((of("ms: workers are busy"), of("ms: gone")), (1, 1), "{lines:?}");
}

#[test]
fn a_replay_adds_switches_and_removes_rules_as_the_session_did() {
    // The iterations in which the rule measured the busy time of the workers.
    let seen = |modes: &[(i64, &str)]| {
        let (lines, result) = reported(&hosts_with(modes));
        assert_eq!(result, Ok(()));
        let seen = |iteration: &i64| {
            let busy = 21 + 20 * iteration;
            lines
                .iter()
                .any(|line| line.starts_with("iteration ") && line.ends_with(&format!("busy {busy} ms")))
        };
        (0..4).filter(seen).collect::<Vec<i64>>()
    };
    assert_eq!(seen(&[]), [0, 1, 2, 3]);
    assert_eq!(seen(&[(2, "added"), (2, "advising")]), [2, 3]);
    assert_eq!(seen(&[(1, "removed")]), [0]);
    assert_eq!(seen(&[(1, "removed"), (3, "added"), (3, "advising")]), [0, 3]);
    let found = |modes: &[(i64, &str)]| {
        let (lines, _) = reported(&hosts_with(modes));
        lines.iter().any(|line| line.contains("ms: workers are busy"))
    };
    assert!(found(&[]) && found(&[(0, "off"), (2, "advising")]));
    assert!(!found(&[(0, "off")]));
}

#[test]
fn a_recording_that_breaks_off_is_named_and_what_came_before_is_replayed() {
    let [here, there] = hosts();
    let torn = there[..there.len() - 1].to_vec();
    let (lines, result) = reported(&[here, torn]);
    let why = result.unwrap_err().to_string();
    assert!(why.contains("node2"), "{why}");
    assert!(!lines.is_empty());
    let (lines, result) = reported(&[b"no recording".to_vec()]);
    assert!(lines.is_empty() && result.unwrap_err().to_string().starts_with("0.rec: "));
}

#[test]
fn a_function_that_is_not_in_the_recording_is_named_with_the_nearest_that_is() {
    let mistyped = RULE.replace("compute_task", "compute_tsak");
    let (lines, _) = replayed_by(&mistyped, &hosts());
    let last = lines.last().unwrap();
    assert!(
        last.starts_with(
            "missing joined: compute_tsak is not in the recording: did you mean `compute_task`?"
        ),
        "{last}"
    );
}

#[test]
fn the_recordings_of_shipped_rules_are_evaluated_by_the_replay_that_users_have() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/tests/recordings");
    let mut silent = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let rule = path.file_stem().unwrap().to_string_lossy().into_owned();
        let settings = Settings {
            parameters: &[],
            bindings: &[],
        };
        let mut rules = RuleBook::load(&["none".to_owned(), rule.clone()], settings, None, true).unwrap();
        let mut windows = 0;
        let recording = (rule.clone(), std::fs::read(&path).unwrap());
        let replayed = replay(&mut rules, &[recording], |_, what| {
            windows += usize::from(matches!(what, ReplayEvent::Window { .. }));
        });
        assert_eq!(replayed, Ok(()), "{rule}");
        if windows == 0 {
            silent.push((rule, rules.views()[0].state.clone()));
        }
    }
    assert_eq!(silent, []);
}
