//! The program as users start it, on any supported kernel: the output of `doctor`, and counting of calls.
//! `cargo xtask vm` runs this on other kernels. Needs root; otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use running::{Running, built, session, tuneagent};
use tuneagent_e2e::require_or_return;

const CALLS: u64 = 2000;

#[test]
fn doctor_finds_nothing_that_fails_and_leaves_its_program_alone() {
    require_or_return!(Root);
    let folder = tempfile::tempdir().unwrap();
    let mut target = Running::start(&built("counted"), &[]);
    let said = tuneagent(folder.path())
        .args(["doctor", &target.pid().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&said.stdout);
    println!("{text}");
    assert!(said.status.success(), "{text}");
    let works = |name: &str| {
        let line = format!("works  {name:<17} ");
        assert!(
            text.lines().any(|found| found.starts_with(&line)),
            "{name}: {text}"
        );
    };
    [
        "ring buffer",
        "probes",
        "reading memory",
        "writing memory",
        "target",
        "probing it",
    ]
    .into_iter()
    .for_each(works);
    assert_eq!(counts(&target.answers("1")), (1, None));
}

/// The target's own counts: calls, and nanoseconds if they were requested.
fn counts(answer: &str) -> (u64, Option<u64>) {
    let mut numbers = answer.split(' ').map(|number| number.parse().unwrap());
    let (calls, ns) = (numbers.next().unwrap(), numbers.next());
    (calls, ns.filter(|_| calls > 1))
}

#[test]
fn calls_are_counted_and_timed_as_the_program_does_however_probes_are_attached() {
    require_or_return!(Root);
    for way in [&[][..], &["--tracefs"]] {
        let folder = tempfile::tempdir().unwrap();
        let mut target = Running::start(&built("counted"), &[]);
        let mut said = String::new();
        let flags = [&["--rules", "none", "--probe", "work"], way].concat();
        let pid = target.pid();
        let report = session(folder.path(), pid, &flags, || {
            said = target.answers(&CALLS.to_string());
        });
        let (calls, took_ns) = counts(&said);
        assert_eq!(report["completeness"]["status"], "complete", "{report}");
        let work = &report["processes"][0]["functions"][0];
        assert_eq!(
            (work["name"].as_str(), work["calls"].as_u64()),
            (Some("work"), Some(calls))
        );
        assert_eq!(work["untimed_calls"], 0, "{report}");
        let seen_ns = work["time_s"].as_f64().unwrap() * 1e9;
        let took_ns = took_ns.unwrap() as f64;
        assert!(seen_ns > 0.0 && seen_ns < took_ns, "{seen_ns} of {took_ns} ns");
        let durations = work["durations"]["calls"].as_u64();
        assert_eq!(durations, Some(calls), "{report}");
        assert_eq!(report["completeness"]["events_received"], 0, "none was sent");
    }
}
