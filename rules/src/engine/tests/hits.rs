//! Counts and captures of probes, and the reports of their loss.

use super::*;

/// The hits of the probe in rank 0 so far, of 1 ms each.
fn total(ms: u64, count: u64) -> Observation {
    totals((0, 0), Time(ms * MS), (count, count * MS))
}

/// The metrics of the last window.
fn shown(job: &Job) -> Vec<String> {
    let metrics = job.engine.metrics(RuleId(0)).into_iter();
    metrics.map(|(_, value)| value).collect()
}

#[test]
fn probes_are_followed_by_their_totals_and_a_lost_hit_is_no_value() {
    let source = "rule: p\nabout: b\nroles:\n  r: rank == 0\nprobes:\n  f: {role: r, span: f}\nwindows:\n  w: {every: 500ms}\nmetrics:\n  c: count(f)\n  most: max(f.duration)\n";
    let mut job = Job::new(source, 2.0);
    job.engine.observe(total(0, 0));
    for ms in [100, 200] {
        let hit = hit(ProbeId(0), ProcessId(0), Time(ms * MS), ms * 10_000, &[]);
        job.engine.observe(hit);
    }
    job.engine.observe(total(500, 2));
    job.engine.tick(Time(500 * MS));
    assert_eq!(shown(&job), ["2", "2 ms"]);
    job.engine.observe(total(1000, 3));
    job.engine.tick(Time(1000 * MS));
    assert_eq!(shown(&job), ["none (f of rank 0 delivered 0 of its 1 hits)"; 2]);
}

/// A send of 100 ms·`at` with the values of its three reads.
fn send(at: u64, captures: [Result<Scalar, String>; 3]) -> Observation {
    Observation::Hit {
        rule: RuleId(0),
        probe: ProbeId(0),
        process: ProcessId(0),
        thread: 1,
        time: Time(at * 100 * MS),
        duration_ns: MS,
        captures: captures.into_iter().collect(),
    }
}

#[test]
fn captures_are_computed_from_what_is_read_and_a_read_that_failed_is_none() {
    let source = "rule: p\nabout: b\nroles:\n  r: rank == 0\nprobes:\n  f: {role: r, span: f}\ncapture:\n  f.size: arg(2) * unit * 1B\n  f.big: arg(2) > 5\n  f.to: peer\nwindows:\n  w: {every: 500ms}\nmetrics:\n  v: sum(f.size where f.big)\n  n: count(f) by f.to\n";
    let mut job = Job::new(source, 2.0);
    let plan = job.engine.rules().next().unwrap().1.plan().clone();
    let sources = plan.probes[0].captures.iter();
    let sources: Vec<String> = sources.map(|read| read.source.to_string()).collect();
    assert_eq!(sources, ["arg(2)", "unit", "peer"]);
    let number = |value: f64| Ok(Scalar::Number(value));
    job.engine.observe(total(0, 0));
    for (at, size, to) in [(2, 7.0, 1.0), (1, 9.0, 2.0), (3, 5.0, 1.0)] {
        job.engine
            .observe(send(at, [number(size), number(8.0), number(to)]));
    }
    job.engine.observe(total(500, 3));
    job.engine.tick(Time(500 * MS));
    assert_eq!(shown(&job), ["128 B", "1 to 2 over 2 rows"]);
    let unread = Err("the page was not there".into());
    job.engine.observe(send(6, [number(7.0), unread, number(1.0)]));
    job.engine.observe(total(1000, 4));
    job.engine.tick(Time(1000 * MS));
    let without = "none (size was not captured: the page was not there)";
    assert_eq!(shown(&job), [without, "1 over 1 row"]);
}
