use std::io::Write;
use std::time::Duration;

use profile::outcome::{ChangeOutcome, GuardVerdict};
use profile::{
    ChangeView, Efficiencies, EfficienciesView, FindingView, GuardView, IterationView, JobView, LoadView,
    MatrixView, Messages, PaceView, PairView, ProcessView, Rates, SequenceView, Snapshot, TimeBucket,
    TimeByMpi, TimeParts, TimeView,
};

use self::large::of_ranks;
use super::{file, page, sections};

mod firefox;
mod large;
mod pictures;
mod range;
mod schema;

const HOSTILE: &str = "</script><img src=x onerror=alert(1)>";

fn rank(number: u32) -> ProcessView {
    let load = |(until, mpi): (u64, f64)| LoadView {
        until: Duration::from_secs(until),
        mpi: Some(mpi),
        cpu: Some(1.0 - mpi),
        runqueue: Some(0.25 * mpi),
    };
    ProcessView {
        pid: 8120 + number as i32,
        rank: Some(number),
        watched_ns: 20_000_000_000,
        overall: Some(Rates {
            mpi: Some(0.5),
            cpu: 0.5,
            runqueue: 0.125,
            ..Rates::default()
        }),
        load: [(10, 0.9), (20, 0.1)].map(load).into(),
        ..ProcessView::default()
    }
}

fn pair(from: u32, to: u32) -> PairView {
    PairView {
        from,
        to,
        of: Messages {
            bytes: 1 << 20,
            count: 16,
        },
    }
}

/// A second of two ranks, of which they compute for a share, and wait for a CPU for a quarter of the rest.
fn bucket(second: u64, computing: f64) -> TimeBucket {
    let ns = |share: f64| (share * 2e9) as u64;
    let inside = |share: f64| TimeByMpi {
        inside_ns: ns(share),
        ..TimeByMpi::default()
    };
    TimeBucket {
        from: Duration::from_secs(second),
        until: Duration::from_secs(second + 1),
        parts: TimeParts {
            on_cpu: TimeByMpi {
                outside_ns: ns(computing),
                ..TimeByMpi::default()
            },
            ready: inside(0.25 * (1.0 - computing)),
            asleep: inside(0.75 * (1.0 - computing)),
        },
    }
}

fn sequence() -> SequenceView {
    let part = |until, count, mean_ms| PaceView {
        until: Duration::from_secs(until),
        count,
        mean_ns: mean_ms * 1e6,
        least_ns: mean_ms * 0.9e6,
        most_ns: mean_ms * 2e6,
    };
    SequenceView {
        iteration: Some(IterationView {
            calls: 4.0,
            count: 1100,
            mean_ns: 18.2e6,
            parts: vec![part(10, 100, 100.0), part(20, 1000, 10.0)],
            ..IterationView::default()
        }),
        efficiencies: Some(EfficienciesView {
            of: Efficiencies {
                parallel: 0.4,
                load_balance: 0.8,
                within_nodes: 0.8,
                between_nodes: 1.0,
                communication: 0.5,
            },
            between_nodes: Some(1.0),
            ranks: 2,
            nodes: 1,
            over_iterations: true,
            ..EfficienciesView::default()
        }),
        ..SequenceView::default()
    }
}

/// A session of 20 s in which a change after 10 s reduced the time of one iteration to a tenth.
fn session() -> Snapshot {
    let guard = GuardView {
        before: Some(10.0),
        after: Some(100.0),
        ratio: Some(10.0),
        interval: Some((8.0, 12.5)),
        verdict: GuardVerdict::Kept,
        text: "pace: 10/s -> 100/s: 10 times".into(),
        ..GuardView::default()
    };
    Snapshot {
        job: JobView {
            program: HOSTILE.into(),
            user: "alice".into(),
            host: "node7".into(),
            size: Some(2),
            mpi: Some(("Open MPI".into(), Some("4.1.4".into()))),
            ..JobView::default()
        },
        taken_at: "2026-11-26T10:00:00Z".into(),
        armed_unix_s: 1.79e9,
        elapsed: Duration::from_secs(20),
        processes: [0, 1].map(rank).into(),
        time: TimeView {
            total: TimeParts::default(),
            buckets: (0..20)
                .map(|second| bucket(second, if second < 10 { 0.1 } else { 0.9 }))
                .collect(),
        },
        sequence: sequence(),
        findings: vec![FindingView {
            rule: "busy".into(),
            at: Duration::from_secs(5),
            text: format!("2 ranks spin: {HOSTILE}"),
            next_start: Some("mpirun --mca mpi_yield_when_idle 1".into()),
            repaired: true,
            ..FindingView::default()
        }],
        changes: [0, 1]
            .map(|rank| ChangeView {
                number: 1,
                rule: "busy".into(),
                pid: 8120 + rank,
                rank: Some(rank as u32),
                action: plan::Keyword::Set,
                at: Duration::from_secs(10),
                variable: "yield_when_idle".into(),
                old: "false".into(),
                new: "true".into(),
                outcome: ChangeOutcome::InForce,
                guard: Some(guard.clone()),
                ..ChangeView::default()
            })
            .into(),
        matrix: Some(MatrixView {
            sent: vec![pair(0, 1), pair(1, 0)],
            ..MatrixView::default()
        }),
        missing: vec!["rank 2 is on another machine".into()],
        ..Snapshot::default()
    }
}

#[test]
fn the_numbers_of_a_session_become_tiles_findings_marks_and_tables() {
    insta::assert_json_snapshot!(page(&session()), {
        ".timeline.time.until_s" => "those of each bucket",
        ".timeline.time.bands[].shares" => "those of each bucket",
        ".timeline.ranks[].cells" => "those of each part",
        ".tuneagent" => "the version",
    });
}

#[test]
fn the_charts_cover_the_session_and_have_a_text() {
    let page = page(&session());
    let computing = &page.timeline.time.bands[0];
    assert_eq!(
        (computing.shares[0], computing.shares[19]),
        (Some(0.1), Some(0.9))
    );
    let text = file(&page).unwrap();
    assert!(text.contains("Mean time of one iteration over the session: least 10 ms, most 100 ms, last 10 ms; the longest iteration 200 ms"));
    assert!(
        text.contains(
            "at the end computing 90 %, waiting for a CPU inside MPI 2.5 %, asleep inside MPI 7.5 %"
        )
    );
    assert_eq!(text.matches("role=\"img\"").count(), 3);
    assert!(text.contains("src=\"data:image/png;base64,"));
}

#[test]
fn names_of_programs_are_text_and_nothing_is_loaded() {
    let text = file(&page(&session())).unwrap();
    assert!(!text.contains("<img src=x"), "a name became markup");
    assert_eq!(text.matches("</script>").count(), 2, "a name ended the script");
    assert_eq!(text.matches("&lt;/script&gt;&lt;img src=x").count(), 3);
    for address in ["http://", "https://", "//cdn", "@import"] {
        let found = text.find(address).map(|at| &text[at.saturating_sub(40)..at + 40]);
        // Browsers do not load the address of an XML namespace.
        assert!(found.is_none_or(|found| found.contains("xmlns=")), "{found:?}");
    }
}

#[test]
fn the_policy_names_the_style_and_the_script_that_are_in_the_file() {
    use base64::Engine;
    use sha2::Digest;
    let text = file(&page(&session())).unwrap();
    for (from, to, word) in [
        ("<style>", "</style>", "style-src"),
        ("<script type=\"module\">", "</script>", "script-src"),
    ] {
        let body = text.split_once(from).unwrap().1.split_once(to).unwrap().0;
        let sum = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(body.as_bytes()));
        assert!(text.contains(&format!("{word} 'sha256-{sum}'")), "{word}");
    }
    assert!(text.contains("default-src 'none'"));
}

#[test]
fn a_session_that_measured_nothing_is_a_page_too() {
    let text = file(&page(&Snapshot::default())).unwrap();
    assert!(
        text.contains("no process was watched") && !text.contains("<svg"),
        "{text}"
    );
}

#[test]
fn a_change_that_was_kept_is_kept_until_the_session_ended_if_it_was_reverted() {
    let mut ended = session();
    let reverted = |change: &ChangeView| ChangeView {
        outcome: ChangeOutcome::Reverted,
        ..change.clone()
    };
    ended.changes = ended.changes.iter().map(reverted).collect();
    for (snapshot, is_reverted) in [(session(), false), (ended, true)] {
        let text = file(&page(&snapshot)).unwrap();
        assert_eq!(text.contains("kept until the session ended"), is_reverted);
        assert_eq!(text.contains("; kept<"), !is_reverted);
    }
}

/// The guard compares differences if some windows have an objective of 0: then the gain has no interval.
#[test]
fn the_gain_of_a_kept_change_is_shown_without_an_interval_too() {
    let mut snapshot = session();
    for change in &mut snapshot.changes {
        change.guard.as_mut().unwrap().interval = None;
    }
    let tiles = page(&snapshot).tiles;
    let gain = tiles.iter().find(|tile| tile.name == "gain of the change");
    let gain = gain.unwrap();
    assert_eq!(gain.value, "10 times");
    assert!(gain.note.contains("has no interval"), "{}", gain.note);
}

fn compressed(text: &str) -> usize {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap().len()
}

#[test]
fn sizes_are_bounded() {
    let empty = file(&page(&Snapshot::default())).unwrap();
    assert!(empty.len() <= 80_000, "{} bytes without data", empty.len());
    let small = compressed(&empty);
    assert!(small <= 25_000, "{small} compressed bytes without data");
    for (ranks, most) in [(16, 400_000), (1024, 4_000_000)] {
        let bytes = file(&page(&of_ranks(ranks, 0))).unwrap().len();
        assert!(bytes <= most, "{bytes} bytes with {ranks} ranks");
    }
}

#[test]
fn updates_per_second_are_small_with_thousands_of_ranks() {
    let all = |second| sections(&page(&of_ranks(2048, second))).unwrap();
    let before = all(0);
    let changed = all(1).into_iter().filter(|section| !before.contains(section));
    let text: String = changed.map(|section| section.html).collect();
    let bytes = compressed(&text);
    assert!(
        (1..=64_000).contains(&bytes),
        "{bytes} compressed of {} bytes",
        text.len()
    );
}
