//! Writes traces of synthetic calls and reads them back.

use serde_json::Value;

use super::*;

fn probes(names: &[&str]) -> Vec<Probe> {
    let probe = |name: &&str| Probe::new(name, None, abi::ProbeSpec::default());
    names.iter().map(probe).collect()
}

fn call(probe: u32, entered_ns: u64, duration_ns: u64) -> Option<Call> {
    Some(Call {
        probe,
        entered_ns,
        duration_ns,
        thread: 7,
        ..Call::default()
    })
}

const RANK: ProcessRank = ProcessRank {
    pid: 7,
    rank: Some(3),
};

/// The trace that `fill` wrote, and its summary.
fn written(limit: u64, fill: impl FnOnce(&mut Trace)) -> (Value, TraceView) {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut trace = Trace::new(file.reopen().unwrap(), "t.json".into(), limit);
    trace.armed(1_000_000);
    fill(&mut trace);
    let ending = TraceEnd {
        program: "a \"program\"",
        not_seen: 5,
        ..TraceEnd::default()
    };
    let (view, result) = trace.finish(&ending);
    result.unwrap();
    let text = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(text.len() as u64, view.bytes);
    (serde_json::from_str(&text).unwrap(), view)
}

#[test]
fn findings_and_changes_are_marked_at_their_time() {
    let (trace, view) = written(BYTES_MIN, |trace| {
        trace.mark("finding", "busy", "4 ranks \"spin\"\nand wait", 1_500_000);
        trace.mark("change", "busy", "4 changes written and read back", 1_750_500);
    });
    let marks = events(&trace, "i");
    let of = |mark: &Value| {
        (
            mark["cat"].clone(),
            mark["ts"].clone(),
            mark["args"]["text"].clone(),
        )
    };
    assert_eq!(
        of(&marks[0]),
        (
            "finding".into(),
            500.0.into(),
            "4 ranks \"spin\"\nand wait".into()
        )
    );
    assert_eq!(of(&marks[1]).1, Value::from(750.5));
    assert_eq!((view.marks, view.marks_dropped), (2, 0));
    assert_eq!(trace["otherData"]["marks"], 2);
}

fn events(trace: &Value, kind: &str) -> Vec<Value> {
    let all = trace["traceEvents"].as_array().unwrap();
    all.iter().filter(|event| event["ph"] == kind).cloned().collect()
}

#[test]
fn calls_are_spans_in_microseconds_since_the_probes_were_armed() {
    let (trace, view) = written(1 << 20, |trace| {
        let calls = [call(0, 1_002_345, 1_500), None, call(1, 1_010_000, 7)];
        trace.calls(RANK, &calls, &probes(&["MPI_Send", "f(\"x\", A<B, C>)"]));
    });
    let spans = events(&trace, "X");
    assert_eq!(spans.len(), 2);
    assert_eq!((&spans[0]["ts"], &spans[0]["dur"]), (&2.345.into(), &1.5.into()));
    assert_eq!((&spans[0]["pid"], &spans[0]["tid"]), (&7.into(), &7.into()));
    assert_eq!(spans[1]["name"], "f(\"x\", A<B, C>)");
    assert_eq!(spans[1]["dur"], 0.007);
    let names: Vec<String> = events(&trace, "M")
        .iter()
        .map(|event| event["args"]["name"].to_string())
        .collect();
    assert!(names.contains(&"\"rank 3\"".into()) && names.contains(&"\"main thread\"".into()));
    assert_eq!((view.calls, view.dropped, view.not_seen), (2, 0, 5));
    assert_eq!(trace["otherData"]["program"], "a \"program\"");
    assert_eq!(trace["otherData"]["calls_not_seen"], 5);
}

#[test]
fn iterations_have_a_track_of_their_own_on_which_none_overlap() {
    let (trace, view) = written(1 << 20, |trace| {
        for iteration in [
            2_000_000..3_000_000,
            3_000_000..4_000_000,
            3_500_000..5_000_000,
            5_000_000..6_000_000,
        ] {
            trace.iteration(RANK, 7, &iteration);
        }
    });
    let spans = events(&trace, "X");
    let begins: Vec<f64> = spans.iter().map(|span| span["ts"].as_f64().unwrap()).collect();
    assert_eq!(begins, [1000.0, 2000.0, 4000.0]);
    assert!(spans.iter().all(|span| span["tid"] != 7));
    assert_eq!((view.iterations, view.iterations_dropped), (3, 1));
}

#[test]
fn beyond_its_bound_a_trace_counts_and_what_is_there_is_complete() {
    let (trace, view) = written(0, |trace| {
        let calls: Vec<_> = (0..10_000)
            .map(|number| call(0, 1_000_000 + 10 * number, 5))
            .collect();
        trace.calls(RANK, &calls, &probes(&["MPI_Send"]));
    });
    assert!(view.bytes <= BYTES_MIN, "{view:?}");
    assert_eq!(view.calls + view.dropped, 10_000);
    let spans = events(&trace, "X");
    assert_eq!(spans.len() as u64, view.calls);
    // The trace is complete up to its end.
    for (number, span) in spans.iter().enumerate() {
        let ts = span["ts"].as_f64().unwrap();
        assert!((ts - 0.01 * number as f64).abs() < 1e-6, "{span}");
    }
    assert_eq!(trace["otherData"]["dropped_calls"], view.dropped);
}
