//! The report of a snapshot that has all values, and of one that lacks some.

use std::time::Duration;

use profile::cost::Estimate;
use profile::outcome::{ChangeOutcome, GuardVerdict};
use profile::{
    Counters, EfficienciesView, Frequency, GuardView, IterationView, JobView, LoopBegin, MatrixView,
    Messages, PaceView, PairView, RegionsView, RuleView, SequenceView, Standing, TeamTotals, TimeView,
};
use serde_json::Value;

use super::*;
use crate::example;

fn teams() -> TeamTotals {
    TeamTotals {
        regions: 4,
        threads_least: 2,
        threads_most: 2,
        team_ns: 1_600_000_000,
        working_ns: 1_200_000_000,
        starting_ns: 100_000_000,
        waiting_ns: 200_000_000,
        ending_ns: 100_000_000,
        ..TeamTotals::default()
    }
}

/// A rank with all values.
fn rank() -> ProcessView {
    let send = FunctionTotals {
        name: "MPI_Send".into(),
        calls: 12,
        nested: 1,
        time_ns: Some(250_000_000),
        bytes: Some(96),
        bytes_kind: Some("sent"),
        sizes: vec![2, 0, 0, 0, 10],
        estimate: Some(Estimate {
            counted: 6,
            counted_bytes: 48,
            from: 9,
            to: None,
            watched: 0.5,
        }),
        ..FunctionTotals::default()
    };
    let mut calls = vec![0; abi::Durations::bucket(5_000)];
    calls.push(1);
    let step = FunctionTotals {
        name: "step".into(),
        calls: 1,
        durations: Some(Histogram::of(calls)),
        ..FunctionTotals::default()
    };
    ProcessView {
        pid: 8120,
        rank: Some(0),
        watched_ns: 2_000_000_000,
        functions: vec![send, step],
        counters: Some(Counters {
            cpu_ns: 1_500_000_000,
            runqueue_ns: 400_000_000,
            switches_involuntary: 7,
            switches_voluntary: 8,
            faults_minor: 9,
            faults_major: 1,
            resident_bytes: 4096,
            resident_peak_bytes: Some(8192),
            threads: 2,
            ..Counters::default()
        }),
        mpi_ns: Some(500_000_000),
        mpi_waited_ns: Some(100_000_000),
        useful: Some(0.75),
        load: vec![LoadView {
            until: Duration::from_secs(2),
            mpi: Some(0.25),
            cpu: Some(0.75),
            runqueue: None,
        }],
        regions: Some(RegionsView {
            regions: 5,
            inside_ns: Some(900_000_000),
            watched_ns: 1_000_000_000,
            teams: Some(teams().into()),
            ..RegionsView::default()
        }),
        ..ProcessView::default()
    }
}

fn sequence() -> SequenceView {
    SequenceView {
        iteration: Some(IterationView {
            begins_at: Some(LoopBegin {
                function: "MPI_Send".into(),
                place: example::call_site("MPI_Send", 88, 1, 1, 1).place,
                build_id: Some("5f0c".into()),
                address: 0x11d3,
            }),
            rank: Some(0),
            calls: 3.0,
            count: 8,
            mean_ns: 2e8,
            change: Some(0.5),
            parts: vec![PaceView {
                until: Duration::from_secs(1),
                count: 8,
                mean_ns: 2e8,
                least_ns: 1.5e8,
                most_ns: 3e8,
            }],
            ..IterationView::default()
        }),
        efficiencies: Some(EfficienciesView {
            split: Some(example::split(8)),
            useful_ns: Some(3e8),
            ..example::efficiencies([0.75, 0.5])
        }),
        call_sites: vec![example::call_site("MPI_Send", 12, 12, 1, 1)],
        unseen: 3,
        ..SequenceView::default()
    }
}

fn change() -> ChangeView {
    ChangeView {
        number: 1,
        rule: "openmpi-busy-wait".into(),
        pid: 8120,
        rank: Some(0),
        action: plan::Keyword::Set,
        decision: 1,
        at: Duration::from_millis(1_500),
        because: vec!["wanted = 2".into()],
        variable: "opal_progress_yield_when_idle".into(),
        old: "0".into(),
        new: "1".into(),
        mechanism: "written".into(),
        outcome: ChangeOutcome::Written,
        guard: Some(GuardView {
            before: Some(1.0),
            after: Some(2.0),
            ratio: Some(2.0),
            verdict: GuardVerdict::Kept,
            text: "pace: 1/s -> 2/s".into(),
            ..GuardView::default()
        }),
        reaction: None,
        ..ChangeView::default()
    }
}

fn time() -> TimeView {
    TimeView {
        total: TimeParts {
            on_cpu: TimeByMpi {
                outside_ns: 500_000_000,
                inside_ns: 250_000_000,
                unknown_ns: 250_000_000,
            },
            ..TimeParts::default()
        },
        ..TimeView::default()
    }
}

/// Nothing could be measured for the second rank.
pub(super) fn everything() -> Snapshot {
    let pair = PairView {
        from: 0,
        to: 1,
        of: Messages { bytes: 96, count: 12 },
    };
    Snapshot {
        job: JobView {
            host: "node1".into(),
            launcher: Some(8100),
            library: Some("/usr/lib/libmpi.so.40".into()),
            watched: 159,
            ..example::job(Some(2))
        },
        taken_at: "2026-01-02T03:04:05Z".into(),
        elapsed: Duration::from_millis(2_100),
        time: time(),
        processes: vec![
            rank(),
            ProcessView {
                pid: 8121,
                rank: Some(1),
                ..ProcessView::default()
            },
        ],
        sequence: sequence(),
        frequency: Some(Frequency {
            least_hz: 2e9,
            mean_hz: 2.5e9,
            most_hz: 3e9,
        }),
        matrix: Some(MatrixView {
            sent: vec![pair],
            ..MatrixView::default()
        }),
        rules: vec![RuleView {
            mode: plan::Mode::Applying,
            windows: 12,
            dropped: rules::Dropped {
                late: 3,
                partial: 2,
                ..rules::Dropped::default()
            },
            ..example::rule("openmpi-busy-wait", Standing::Applied, "applied")
        }],
        findings: vec![FindingView {
            next_start: Some("mpirun --mca mpi_yield_when_idle 1".into()),
            repaired: true,
            ..example::finding("openmpi-busy-wait", "2 ranks share a CPU")
        }],
        changes: vec![change()],
        lost: vec![("ring_full", 0)],
        under_way: Some(0),
        trace: Some(TraceView {
            file: "trace.json".into(),
            bytes: 100,
            calls: 12,
            ..TraceView::default()
        }),
        ..Snapshot::default()
    }
}

#[test]
fn a_report_has_all_that_was_measured_in_base_units_and_null_for_what_was_not() {
    let version = format!("\"tuneagent\": \"{}\"", env!("CARGO_PKG_VERSION"));
    let text = render(&everything());
    insta::assert_snapshot!(text.replace(&version, "\"tuneagent\": \"VERSION\""));
}

#[test]
fn of_a_program_that_has_ended_a_report_has_no_advice_that_needs_it_to_run() {
    let mut snapshot = everything();
    snapshot.findings[0].repaired = false;
    snapshot.findings[0].now = Some("tuneagent attach 8120 --apply".into());
    assert!(render(&snapshot).contains("attach 8120"));
    snapshot
        .processes
        .iter_mut()
        .for_each(|process| process.ended = true);
    assert!(!render(&snapshot).contains("attach 8120"));
}

/// Collects the names of all fields, including nested ones.
fn fields(value: &Value, into: &mut std::collections::BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        Value::Object(map) => {
            for (name, value) in map {
                into.insert(name.clone());
                fields(value, into);
            }
        }
        _ => {}
    }
}

#[test]
fn every_field_of_a_report_is_on_its_page() {
    let page = include_str!("../../../../docs/report.md");
    let mut report = report(&everything());
    // The fields of TALP are documented by TALP, and the kinds of losses depend on the run.
    report["talp"] = Value::Null;
    let mut names = std::collections::BTreeSet::new();
    fields(&report, &mut names);
    let is_reported = |name: &&String| {
        let ends = ["`", "[", "."];
        ["`", ".", "]."].iter().any(|begin| {
            ends.iter()
                .any(|end| page.contains(&format!("{begin}{name}{end}")))
        })
    };
    let unstated: Vec<&String> = names.iter().filter(|name| !is_reported(name)).collect();
    assert!(unstated.is_empty(), "docs/report.md says nothing of {unstated:?}");
}

#[test]
fn losses_make_a_report_partial_and_are_in_it() {
    let whole = Snapshot {
        lost: vec![("ring_full", 0)],
        under_way: Some(2),
        ..Snapshot::default()
    };
    assert_eq!(report(&whole)["completeness"]["status"], "complete");
    let lossy = Snapshot {
        lost: vec![("ring_full", 3)],
        ..whole.clone()
    };
    let reported = &report(&lossy)["completeness"];
    assert_eq!(
        (&reported["status"], &reported["lost"]["ring_full"]),
        (&"partial".into(), &3.into())
    );
    let blind = Snapshot {
        missing: vec!["process 7 is not watched: not permitted".to_owned()],
        ..whole
    };
    let reported = &report(&blind)["completeness"];
    assert_eq!(
        (&reported["status"], &reported["missing"]),
        (&"partial".into(), &blind.missing.clone().into())
    );
}
