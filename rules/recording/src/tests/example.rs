//! A recording in this format, which later programs must read too; the first seed of the fuzz target.

use super::*;

const DOCUMENT: &str = include_str!("../../../../docs/recording.md");
const SEED: &[u8] = include_bytes!("../../../fuzz/corpus/recording/example");

fn header() -> Header {
    Header {
        host: "node1".into(),
        program: "simulate".into(),
        wall_start_ns: 1_700_000_000_000_000_000,
        origin: Time(5_000_000_000),
        notes: [("tuneagent".to_string(), "0.1.0".to_string())].into(),
    }
}

fn records() -> Vec<Record> {
    let hit = |time, duration, number, bytes| {
        Record::Hit(RecordedHit {
            probe: ProbeKey(0),
            process: ProcessId(0),
            thread: 4711,
            time: Time(time),
            duration_ns: Some(duration),
            captures: vec![Captured::Signed(number), Captured::Unsigned(bytes)],
        })
    };
    vec![
        Record::ProbeDefined {
            probe: ProbeKey(0),
            definition: ProbeDefinition {
                name: "compute".into(),
                function: "compute_task".into(),
                place: ProbePlace::Span,
                captures: vec![
                    ("number".into(), CapturedType::Signed),
                    ("bytes".into(), CapturedType::Unsigned),
                ],
            },
        },
        Record::ProcessJoined {
            process: ProcessId(0),
            time: Time(5_000_100_000),
            facts: ProcessFacts {
                rank: Some(0),
                size: Some(2),
                exe: "simulate".into(),
                mpi: Some("Open MPI".into()),
                libraries: ["libmpi.so.40".to_string()].into(),
                host: Some("node1".into()),
                ..ProcessFacts::default()
            },
        },
        hit(5_001_000_000, 250_000, 1, 65_536),
        hit(5_002_000_000, 251_000, 2, 65_536),
        Record::Gauge {
            process: None,
            measure: Measure::CpusOnline,
            time: Time(5_002_000_000),
            value: 4.0,
        },
        loss(5_002_000_000, "ring_full", 3),
        watermark(0, 5_002_000_000),
    ]
}

/// The compressed bytes may change; the contents may not.
#[test]
fn recordings_in_this_format_are_read() {
    assert_eq!(read(SEED), (records(), None));
    assert_eq!(Reader::new(SEED).unwrap().header(), &header());
}

#[test]
fn every_number_of_the_format_is_documented() {
    for constant in [
        TEXT_MAX,
        CAPTURES_MAX,
        NOTES_MAX,
        RECORD_MAX,
        BLOCK_MAX,
        BLOCK_TARGET,
        OPEN_MAX,
    ] {
        assert!(DOCUMENT.contains(&format!("| {constant} |")), "{constant}");
    }
    assert!(DOCUMENT.contains(&format!("version {MAJOR}.{MINOR}")));
}
