//! Hits exactly at the boundaries of an instance, and between the boundaries of each process.

use super::probed::Farm;
use super::*;

/// Regions of several processes, joined by a number; a test appends its measurements.
const REGIONS: &str = "\
rule: regions
about: regions of several processes
roles:
  rank: rank >= 0
probes:
  begin: {role: rank, entry: begin}
  end: {role: rank, return: end}
  work: {role: rank, span: work}
capture:
  begin.vt: arg(0)
windows:
  region: {from: begin, to: end, key: vt}
metrics:
";

#[test]
fn the_counters_of_a_process_are_taken_between_its_own_boundaries() {
    let source = &format!("{REGIONS}  gain: cpu.time\n");
    let mut farm = Farm::new(source, 2);
    for (process, ms, total) in [
        (0, 10, 4),
        (0, 30, 15),
        (0, 50, 18),
        (1, 10, 0),
        (1, 20, 5),
        (1, 50, 25),
    ] {
        farm.engine.observe(cpu_time(process, Time(ms * MS), total * MS));
    }
    farm.hits(&[
        ("begin", 0, 10, 0, vec![7.0]),
        ("begin", 1, 20, 0, vec![7.0]),
        ("end", 0, 30, 0, vec![]),
        ("end", 1, 50, 0, vec![]),
    ]);
    farm.all_until(100);
    // 15 - 4 between 10 and 30 ms, 25 - 5 between 20 and 50 ms (PMSL, section 3.2.2).
    assert_eq!(farm.closed(), ["region 0: gain 11 ms to 20 ms over 2 processes"]);
}

/// Probes were attached, or hits lost, in the middle of a region of one process: that region has no value,
/// and later regions do not wait for it.
#[test]
fn a_region_whose_begin_was_not_seen_in_a_process_does_not_keep_later_ones_waiting() {
    let source = &format!("{REGIONS}  time: sum(work.duration)\n");
    let rest = |farm: &mut Farm, process, at: u64| {
        farm.hit(("work", process, at + 5, 5, vec![]));
        farm.hit(("end", process, at + 8, 0, vec![]));
    };
    let region = |farm: &mut Farm, processes: &[u32], at: u64, key: f64| {
        for process in 0..2 {
            if processes.contains(&process) {
                farm.hit(("begin", process, at, 0, vec![key]));
            }
            rest(farm, process, at);
        }
        farm.all_until(at + 9);
    };
    let mut farm = Farm::new(source, 2);
    region(&mut farm, &[1], 10, 7.0);
    assert_eq!(farm.closed(), [] as [&str; 0]);
    region(&mut farm, &[0, 1], 20, 8.0);
    let middle = "a process was not watched from its begin";
    assert_eq!(
        farm.closed(),
        [
            &format!("region 0: time none (the window is partial: {middle})"),
            "region 1: time 10 ms"
        ]
    );
    // Hits of process 0 are lost from 30 to 35 ms.
    farm.engine.observe(lost(0, (30, 35)));
    region(&mut farm, &[1], 30, 9.0);
    region(&mut farm, &[0, 1], 40, 10.0);
    let closed = farm.closed();
    assert_eq!(closed.len(), 2, "{closed:?}");
    assert_eq!(closed[1], "region 3: time 10 ms");
    // Without a loss a process may begin them in another order.
    for (process, at, key) in [(0, 50, 11.0), (1, 50, 12.0), (0, 60, 12.0), (1, 60, 11.0)] {
        farm.hit(("begin", process, at, 0, vec![key]));
        rest(&mut farm, process, at);
    }
    farm.all_until(70);
    assert_eq!(farm.closed(), ["region 4: time 10 ms", "region 5: time 10 ms"]);
}

#[test]
fn what_happens_at_the_instant_of_an_end_is_in_it_whatever_the_order_of_the_probes() {
    let [begin, end, step] = [
        "  begin: {role: rank, entry: f}\n",
        "  end: {role: rank, return: f}\n",
        "  step: {role: rank, span: f}\n",
    ];
    for probes in [[begin, end, step], [begin, step, end], [step, end, begin]] {
        let source = format!(
            "rule: steps\nabout: spans that end with their window\nroles:\n  rank: rank >= 0\nprobes:\n{}windows:\n  w: {{from: begin, to: end}}\nmetrics:\n  steps: count(step)\n",
            probes.concat()
        );
        let mut farm = Farm::new(&source, 1);
        for start in [100, 200] {
            farm.hits(&[
                ("begin", 0, start, 0, vec![]),
                ("end", 0, start + 50, 0, vec![]),
                ("step", 0, start + 50, 50, vec![]),
            ]);
        }
        farm.all_until(1000);
        assert_eq!(farm.closed(), ["w 0: steps 1", "w 1: steps 1"], "{source}");
    }
}

#[test]
fn hits_are_waited_for_where_a_window_may_close_with_them_or_something_is_looked_at_with_them() {
    let turns = super::probed::FRAME.replace("to: end, ", "");
    let complete = super::probed::FRAME.replace(
        "key: number}",
        "key: number, complete: {worker: count(compute) == 1}}",
    );
    let inner = super::probed::FRAME.replace(
        "key: number}",
        "key: number}\n  batch: {from: iteration, within: iteration, until: count(send) == 2}",
    );
    let paired = inner.replace("count(send) == 2", "count(chunk) == 2").replace(
        "windows:",
        "join:\n  chunk: {of: [send, compute], by: [send.to = compute.process]}\nwindows:",
    );
    let paired = paired.replace("capture:\n", "capture:\n  send.to: arg(1)\n");
    for (source, expected) in [
        (super::probed::FRAME, &["end"][..]),
        // The hit that ends an instance begins the next.
        (&turns, &["begin"]),
        // The instance may be waiting for a hit of any probe that affects it.
        (&complete, &["begin", "end", "send", "compute"]),
        (&inner, &["end", "send"]),
        (&paired, &["end", "send", "compute"]),
    ] {
        let rule = checked(source);
        let probes = rule.plan().probes.iter();
        let waited_for: Vec<&str> = probes
            .filter(|probe| probe.decides)
            .map(|probe| probe.name.as_str())
            .collect();
        assert_eq!(waited_for, expected, "{source}");
    }
}

#[test]
fn a_rule_whose_boundary_no_process_can_hit_says_that() {
    let source = "\
rule: master
about: steps of a master
roles: {master: rank == 7}
probes:
  begin: {role: master, entry: step}
windows:
  step: {from: begin, to: begin}
metrics:
  steps: count(begin)
tune:
  - {when: steps > 1, finding: 'slow'}
";
    let farm = Farm::new(source, 1);
    assert_eq!(
        farm.engine.status().remove(0).why,
        "the first window has not closed: no process has the role `master` of its boundary `begin`"
    );
}

#[test]
fn a_window_that_begins_and_ends_at_one_probe_closes_at_each_hit_of_it() {
    let source = "\
rule: steps
about: steps of a program
roles: {rank: rank >= 0}
probes:
  begin: {role: rank, entry: step}
  work: {role: rank, span: work}
windows:
  step: {from: begin, to: begin}
metrics:
  time: sum(work.duration)
tune:
  - {when: time > 1min, finding: 'slow'}
";
    for source in [source.to_owned(), source.replace(", to: begin", "")] {
        let mut farm = Farm::new(&source, 1);
        let why = |farm: &Farm| farm.engine.status().remove(0).why;
        assert_eq!(
            why(&farm),
            "the first window has not closed: its boundary `begin` was not hit"
        );
        for at in [10, 20, 30] {
            farm.hits(&[("begin", 0, at, 0, vec![]), ("work", 0, at + 6, 5, vec![])]);
        }
        assert_eq!(why(&farm), "the first window has not closed");
        farm.all_until(100);
        assert_eq!(farm.closed(), ["step 0: time 5 ms", "step 1: time 5 ms"]);
    }
}
