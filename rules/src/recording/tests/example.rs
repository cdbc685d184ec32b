//! The example of `docs/recording.md` is what the program writes, and the first seed of the fuzz target.

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
        Record::Hit(Hit {
            probe: ProbeKey(0),
            process: ProcessId(0),
            thread: 4711,
            time: Time(time),
            duration_ns: Some(duration),
            captures: vec![Captured::Signed(number), Captured::Unsigned(bytes)],
        })
    };
    let process = ProcessId(0);
    let time = Time(5_000_100_000);
    vec![
        Record::ProbeDefined {
            probe: ProbeKey(0),
            definition: ProbeDefinition {
                name: "compute".into(),
                function: "compute_task".into(),
                place: Place::Span,
                captures: vec![
                    ("number".into(), CapturedType::Signed),
                    ("bytes".into(), CapturedType::Unsigned),
                ],
            },
        },
        Record::ProcessJoined {
            process,
            time,
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
        Record::Loss {
            time: Time(5_002_000_000),
            kind: "ring_full".into(),
            count: 3,
        },
        Record::Watermark {
            process,
            time: Time(5_002_000_000),
        },
    ]
}

#[test]
fn the_documented_bytes_are_what_is_written() {
    let bytes = written(&header(), &records());
    let listing = DOCUMENT
        .split("```hexdump\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let mut documented = Vec::new();
    for line in listing.lines() {
        // Offset, bytes, two spaces, words.
        let (offset, rest) = line.split_once("  ").unwrap();
        let offset = usize::from_str_radix(offset, 16).unwrap();
        assert_eq!(offset, documented.len(), "{line}");
        let hex = rest.split("  ").next().unwrap();
        documented.extend(hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()));
    }
    assert_eq!(documented, bytes, "now it is {bytes:02x?}");
    assert_eq!(SEED, bytes);
    assert_eq!(read(&bytes), (records(), None));
    assert_eq!(Reader::new(&bytes).unwrap().header(), &header());
}

#[test]
fn every_number_of_the_format_is_documented() {
    for constant in [
        MAX_TEXT,
        MAX_CAPTURES,
        MAX_NOTES,
        MAX_RECORD,
        MAX_BLOCK,
        MAX_STREAMS,
    ] {
        assert!(DOCUMENT.contains(&format!("| {constant} |")), "{constant}");
    }
    assert!(DOCUMENT.contains(&format!("version {MAJOR}.{MINOR}")));
}
