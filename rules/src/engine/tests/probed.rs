//! Windows from probe to probe: a master that begins and ends iterations, and workers that compute in them.

use super::*;

pub(super) const FRAME: &str = "\
rule: farm
about: a master and its workers
roles:
  master: rank == 0
  worker: rank > 0
probes:
  begin:   {role: master, entry: begin}
  end:     {role: master, return: end}
  send:    {role: master, span: send}
  compute: {role: worker, span: compute}
capture:
  begin.number: iteration
  begin.workers: nw
  end.number: iteration
  send.bytes: arg(2) * 1B
  compute.number: current
windows:
  iteration: {from: begin, to: end, key: number}
metrics:
  bytes: sum(send.bytes)
  busy: sum(compute.duration) by process
  total: sum(busy)
  workers: begin.workers
";

/// A job of three processes whose hits are passed in explicitly.
pub(super) struct Farm {
    pub(super) engine: Engine,
}

/// `probe`, process, end and duration in ms, reads.
pub(super) type Sent = (&'static str, u32, u64, u64, Vec<f64>);

impl Farm {
    pub(super) fn new(source: &str, processes: u32) -> Farm {
        Farm {
            engine: of_ranks(source, processes),
        }
    }

    pub(super) fn join(&mut self, rank: u32, ms: u64) {
        self.engine
            .process_joined(ProcessId(rank), ProcessFacts::of_rank(rank), Time(ms * MS));
    }

    pub(super) fn probe(&self, name: &str) -> ProbeId {
        let (_, rule, _) = self.engine.rules().next().unwrap();
        ProbeId(
            rule.plan()
                .probes
                .iter()
                .position(|probe| probe.name == name)
                .unwrap(),
        )
    }

    pub(super) fn hit(&mut self, (probe, process, ms, duration, reads): Sent) {
        let (process, time) = (ProcessId(process), Time(ms * MS));
        let hit = hit(self.probe(probe), process, time, duration * MS, &reads);
        self.engine.observe(hit);
    }

    pub(super) fn hits(&mut self, hits: &[Sent]) {
        hits.iter().for_each(|hit| self.hit(hit.clone()));
    }

    pub(super) fn watermark(&mut self, process: u32, ms: u64) {
        let (process, time) = (ProcessId(process), Time(ms * MS));
        self.engine.observe(Observation::Watermark { process, time });
        self.engine.observe(Observation::LoopWatermark { process, time });
    }

    /// All processes have passed in everything up to this time.
    pub(super) fn all_until(&mut self, ms: u64) -> Vec<Output> {
        let there: Vec<ProcessId> = self.engine.members(RuleId(0)).into_keys().collect();
        there.iter().for_each(|process| self.watermark(process.0, ms));
        self.engine.tick(Time(ms * MS))
    }

    /// The closed windows: index and metrics.
    pub(super) fn closed(&mut self) -> Vec<String> {
        let line = |window: ClosedWindow| {
            let metrics: Vec<String> = window
                .metrics
                .iter()
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            format!("{} {}: {}", window.window, window.index, metrics.join(", "))
        };
        self.engine.drain_windows().into_iter().map(line).collect()
    }

    pub(super) fn dropped(&self) -> Dropped {
        self.engine.dropped(RuleId(0))
    }
}

/// One iteration of 100 ms with two workers that compute 30 and 40 ms.
pub(super) fn iteration(number: u64, start: u64) -> Vec<Sent> {
    let n = number as f64;
    vec![
        ("begin", 0, start, 0, vec![n, 2.0]),
        ("send", 0, start + 10, 5, vec![100.0]),
        ("send", 0, start + 20, 5, vec![200.0]),
        ("compute", 1, start + 50, 30, vec![n]),
        ("compute", 2, start + 60, 40, vec![n]),
        ("end", 0, start + 90, 0, vec![n]),
    ]
}

const FULL: &str = "bytes 300 B, busy 30 ms to 40 ms over 2 processes, total 70 ms, workers 2";

#[test]
fn a_decision_may_follow_the_hit_that_ends_a_window_of_a_rule_that_applies_and_no_other() {
    let tune =
        "tune:\n  - set: knob\n    role: master\n    value: begin.workers + 1\n    range: 1 <= value\n";
    let mut farm = Farm::new(&format!("{FRAME}{tune}"), 3);
    let reported = |farm: &Farm| {
        let probes = ["begin", "end", "send", "compute"];
        probes.map(|probe| farm.engine.may_decide_at(RuleId(0), farm.probe(probe)))
    };
    assert_eq!(reported(&farm), [false; 4], "it only advises");
    farm.engine.set_mode(RuleId(0), Mode::Applying);
    assert_eq!(reported(&farm), [false, true, false, false]);
    let unending = FRAME.replace("to: end, ", "");
    let mut farm = Farm::new(&format!("{unending}{tune}"), 3);
    farm.engine.set_mode(RuleId(0), Mode::Applying);
    assert_eq!(
        reported(&farm),
        [true, false, false, false],
        "the next begin ends it"
    );
    let mut advice = Farm::new(FRAME, 3);
    advice.engine.set_mode(RuleId(0), Mode::Applying);
    assert_eq!(reported(&advice), [false; 4], "it changes nothing");
}

#[test]
fn hits_belong_by_their_key_or_by_their_time_and_the_window_closes_behind_every_watermark() {
    let mut farm = Farm::new(FRAME, 3);
    farm.hits(&iteration(7, 100));
    farm.watermark(0, 300);
    farm.watermark(1, 300);
    farm.watermark(2, 180);
    farm.engine.tick(Time(300 * MS));
    assert_eq!(
        farm.closed(),
        [] as [&str; 0],
        "rank 2 could still send something"
    );
    farm.watermark(2, 190);
    farm.engine.tick(Time(310 * MS));
    assert_eq!(farm.closed(), [format!("iteration 0: {FULL}")]);
    assert_eq!(farm.dropped(), Dropped::default());
}

#[test]
fn a_process_that_has_left_is_not_waited_for_and_is_left_out() {
    let mut farm = Farm::new(FRAME, 3);
    farm.hits(&iteration(7, 100));
    farm.engine.process_left(ProcessId(2), Time(170 * MS));
    farm.watermark(0, 300);
    farm.watermark(1, 300);
    farm.engine.tick(Time(300 * MS));
    let expected = "iteration 0: bytes 300 B, busy 30 ms over 1 process, total 30 ms, workers 2";
    assert_eq!(farm.closed(), [expected]);
    assert_eq!(farm.engine.status(), []);
}

#[test]
fn a_late_attach_drops_what_came_before_the_first_boundary() {
    let mut farm = Farm::new(FRAME, 3);
    farm.hits(&iteration(6, 0)[3..]);
    farm.hits(&[("send", 0, 95, 5, vec![1.0])]);
    (7..10).for_each(|number| farm.hits(&iteration(number, number * 100 - 600)));
    farm.all_until(400);
    let all: Vec<String> = (0..3).map(|index| format!("iteration {index}: {FULL}")).collect();
    assert_eq!(farm.closed(), all);
    assert_eq!(
        farm.dropped(),
        Dropped {
            outside: 4,
            ..Dropped::default()
        }
    );
}

#[test]
fn iterations_overlap_and_what_is_awaited_holds_the_next_back() {
    let source = FRAME.replace(
        "key: number}",
        "key: number, complete: {worker: count(compute) == 1}}",
    );
    let mut farm = Farm::new(&source, 3);
    let mut first = iteration(1, 100);
    // Rank 2 computes for the first iteration until after the end of the second one.
    first[4] = ("compute", 2, 350, 240, vec![1.0]);
    farm.hits(&first);
    farm.hits(&iteration(2, 200));
    farm.all_until(300);
    assert_eq!(farm.closed(), [] as [&str; 0]);
    farm.all_until(351);
    let slow = "iteration 0: bytes 300 B, busy 30 ms to 240 ms over 2 processes, total 270 ms, workers 2";
    assert_eq!(farm.closed(), [slow.to_string(), format!("iteration 1: {FULL}")]);
}

#[test]
fn a_timeout_closes_what_is_not_complete_and_says_what_is_missing() {
    let source = FRAME.replace(
        "key: number}",
        "key: number, timeout: 200ms, complete: {worker: count(compute) == 1}}",
    );
    let mut farm = Farm::new(&source, 3);
    let mut first = iteration(1, 100);
    first.remove(4);
    farm.hits(&first);
    farm.hits(&iteration(2, 200));
    farm.all_until(389);
    assert_eq!(farm.closed(), [] as [&str; 0]);
    farm.all_until(390);
    let closed = farm.closed();
    assert!(
        closed[0].contains("none (the window is partial: the condition on rank 2 does not hold)"),
        "{closed:?}"
    );
    assert_eq!(closed[1], format!("iteration 1: {FULL}"));
    assert_eq!(farm.dropped().partial, 1);
    // The timeout also ends the wait for a process without a watermark.
    farm.hits(&iteration(3, 400));
    farm.watermark(0, 900);
    farm.watermark(1, 900);
    farm.engine.tick(Time(900 * MS));
    assert!(farm.closed()[0].contains("rank 2 was not observed until its end"));
}

#[test]
fn late_and_doubled_and_lost_hits_are_counted_and_never_make_a_sum_too_small() {
    let mut farm = Farm::new(FRAME, 3);
    farm.hits(&iteration(1, 100)[..5]);
    farm.hits(&iteration(1, 100)[1..2]);
    farm.all_until(170);
    farm.hit(("send", 0, 165, 5, vec![100.0]));
    farm.hits(&iteration(1, 100)[5..]);
    farm.hits(&iteration(2, 200));
    farm.engine.observe(lost(1, (310, 320)));
    farm.hits(&iteration(3, 300));
    farm.hits(&iteration(4, 400));
    farm.all_until(500);
    let closed = farm.closed();
    assert!(
        closed[0].contains("none (the window is partial: a hit came late)"),
        "{closed:?}"
    );
    assert_eq!(closed[1], format!("iteration 1: {FULL}"));
    assert!(
        closed[2].contains("none (the window is partial: hits were lost in it)"),
        "{closed:?}"
    );
    assert_eq!(closed[3], format!("iteration 3: {FULL}"));
    let dropped = farm.dropped();
    assert_eq!((dropped.late, dropped.duplicate, dropped.partial), (1, 1, 2));
}

#[test]
fn the_first_and_the_disturbed_are_left_out_and_spans_across_a_boundary_on_demand() {
    let source = FRAME.replace(
        "key: number}",
        "key: number, skip: 1, discard: any(send.bytes > 1KiB), straddle: drop}",
    );
    let mut farm = Farm::new(&source, 3);
    farm.hits(&iteration(1, 100));
    farm.hits(&iteration(2, 200));
    farm.hit(("send", 0, 215, 1, vec![2000.0]));
    farm.hits(&iteration(3, 300));
    farm.hit(("send", 0, 302, 4, vec![50.0]));
    farm.all_until(400);
    assert_eq!(farm.closed(), [format!("iteration 2: {FULL}")]);
    let dropped = farm.dropped();
    assert_eq!(
        (dropped.skipped, dropped.discarded, dropped.straddling),
        (1, 1, 1)
    );
}

#[test]
fn a_window_of_many_processes_is_joined_by_its_key() {
    let source = "rule: p\nabout: b\nroles:\n  r: rank >= 0\nprobes:\n  enter: {role: r, entry: a}\n  leave: {role: r, return: a}\n  work: {role: r, span: w}\ncapture:\n  enter.n: n\n  leave.n: n\nwindows:\n  region: {from: enter, to: leave, key: n}\nmetrics:\n  w: sum(work.duration) by process\n  d: region.duration\n";
    let mut farm = Farm::new(source, 2);
    farm.hits(&[
        ("enter", 0, 10, 0, vec![1.0]),
        ("enter", 1, 30, 0, vec![1.0]),
        ("work", 0, 20, 5, vec![]),
        ("leave", 0, 40, 0, vec![1.0]),
        ("work", 0, 45, 7, vec![]),
        ("work", 1, 50, 9, vec![]),
        ("enter", 0, 60, 0, vec![2.0]),
        ("leave", 1, 70, 0, vec![1.0]),
    ]);
    farm.all_until(100);
    assert_eq!(
        farm.closed(),
        ["region 0: w 5 ms to 9 ms over 2 processes, d 60 ms"]
    );
    assert_eq!(farm.dropped().outside, 1);
    // Without a key, regions of two processes are not joined.
    let unkeyed = source.replace(", key: n", "");
    let mut farm = Farm::new(&unkeyed, 2);
    farm.hits(&[("enter", 0, 10, 0, vec![1.0]), ("leave", 0, 20, 0, vec![1.0])]);
    farm.engine.process_left(ProcessId(1), Time(30 * MS));
    farm.all_until(40);
    let closed = farm.closed();
    assert!(closed[0].contains("it has no key to join them by"), "{closed:?}");
}

#[test]
fn without_an_end_each_hit_ends_one_and_begins_the_next_and_several_windows_live_in_one_rule() {
    let source = "rule: p\nabout: b\nroles:\n  r: rank == 0\nprobes:\n  loop: {role: r, return: a}\n  outer: {role: r, entry: o}\n  work: {role: r, span: w}\nwindows:\n  turn: {from: loop}\n  phase: {from: outer}\nmetrics:\n  w: {in: turn, value: sum(work.duration)}\n  d: turn.duration\n  p: {in: phase, value: count(work)}\n  twice: p * 2\n";
    let mut farm = Farm::new(source, 1);
    farm.hits(&[
        ("outer", 0, 5, 0, vec![]),
        ("loop", 0, 10, 0, vec![]),
        ("work", 0, 14, 3, vec![]),
        ("loop", 0, 20, 0, vec![]),
        ("work", 0, 24, 2, vec![]),
        ("loop", 0, 35, 0, vec![]),
        ("outer", 0, 40, 0, vec![]),
    ]);
    farm.all_until(50);
    assert_eq!(
        farm.closed(),
        [
            "turn 0: w 3 ms, d 10 ms",
            "turn 1: w 2 ms, d 15 ms",
            "phase 0: p 2, twice 4"
        ]
    );
}

#[test]
fn measures_are_taken_between_the_boundaries_of_an_instance() {
    let source = format!("{FRAME}  cpu: sum(cpu.time)\n  rate: cpu / iteration.duration\n");
    let mut farm = Farm::new(&source, 2);
    farm.hits(&[
        ("begin", 0, 100, 0, vec![1.0, 1.0]),
        ("end", 0, 300, 0, vec![1.0]),
    ]);
    for (ms, total) in [(100, 0), (200, 30), (300, 50), (400, 90)] {
        for process in [0, 1] {
            farm.engine.observe(cpu_time(process, Time(ms * MS), total * MS));
        }
    }
    farm.all_until(400);
    let closed = farm.closed();
    assert!(closed[0].ends_with("cpu 100 ms, rate 0.5"), "{closed:?}");
}

#[test]
fn formulas_look_back_to_the_windows_that_were_evaluated() {
    let more = "  sends: count(send)\n  trend: mean(sends over 2 + 1)\n  seen: count(sends over 3)\n  oldest: first(sends over 3)\n  before: busy[-1]\n  twice: sends - sends[-2]\n";
    let source = format!("{FRAME}{more}").replace("mean(sends over 2 + 1)", "mean(sends over 2) + 1");
    let source = source.replace("key: number}", "key: number, discard: any(send.bytes > 1KiB)}");
    let mut farm = Farm::new(&source, 3);
    for number in 1..=4 {
        farm.hits(&iteration(number, number * 100));
        (0..number).for_each(|i| farm.hit(("send", 0, number * 100 + 40 + i, 1, vec![1.0])));
    }
    // Formulas do not refer back to a discarded window.
    farm.hits(&iteration(5, 500));
    farm.hit(("send", 0, 545, 1, vec![5000.0]));
    farm.hits(&iteration(6, 600));
    farm.all_until(700);
    let shown: Vec<String> = farm
        .closed()
        .iter()
        .map(|line| line.split_once("sends ").map_or("", |(_, rest)| rest).to_string())
        .collect();
    let none = "none (there were not 2 windows before this one)";
    let busy = "30 ms to 40 ms over 2 processes";
    assert_eq!(
        shown,
        [
            format!(
                "3, trend 4, seen 1, oldest 3, before none (there was no window before this one), twice {none}"
            ),
            format!("4, trend 4.5, seen 2, oldest 3, before {busy}, twice {none}"),
            format!("5, trend 5.5, seen 3, oldest 3, before {busy}, twice 2"),
            format!("6, trend 6.5, seen 3, oldest 4, before {busy}, twice 2"),
            format!("2, trend 5, seen 3, oldest 5, before {busy}, twice -3"),
        ]
    );
}

#[test]
fn a_tune_acts_at_the_close_of_its_window_with_the_values_of_that_window() {
    let tune = "tune:\n  - set: chunk\n    role: master\n    value: workers * 8\n    when: total > 60ms\n    guard: {minimize: iteration.duration, over: 2, undo_if_worse_by: 5%}\n";
    let mut farm = Farm::new(&format!("{FRAME}{tune}"), 3);
    farm.engine.set_mode(RuleId(0), Mode::Applying);
    farm.hits(&iteration(1, 100));
    assert!(matches!(
        farm.all_until(195).as_slice(),
        [Output::FindingOpened(_)]
    ));
    farm.hits(&iteration(2, 200));
    let outputs = farm.all_until(299);
    let [Output::Decision(decision)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(decision.changes[0].action.value(), Some(&Scalar::Number(16.0)));
    farm.engine
        .receipt(decision.id, DecisionOutcome::Applied, Time(305 * MS));
    (3..6).for_each(|number| farm.hits(&iteration(number, number * 100)));
    let outputs = farm.all_until(600);
    assert_eq!(
        verdicts(&outputs)[0].text,
        "iteration.duration: 90 ms -> 90 ms (2 windows each): +0.0 % [+0.0, +0.0] (less is better), no effect"
    );
}

#[test]
fn what_is_made_of_the_hits_of_a_probe_that_no_process_has_is_none_and_never_zero() {
    let mut farm = Farm::new(FRAME, 3);
    let lacks = |farm: &mut Farm, probe| {
        let absent = [(farm.probe(probe).0, format!("no process has {probe}"))];
        farm.engine.lacks(RuleId(0), absent.into());
    };
    lacks(&mut farm, "send");
    let hits = iteration(0, 0).into_iter().filter(|hit| hit.0 != "send");
    farm.hits(&hits.collect::<Vec<Sent>>());
    farm.all_until(200);
    let closed = farm.closed();
    assert_eq!(
        closed,
        [
            "iteration 0: bytes none (no process has send), busy 30 ms to 40 ms over 2 processes, total 70 ms, workers 2"
        ]
    );
    let mut job = Job::new(COUNTED, 2.0);
    let absent = [(0, "no process has flush_bacth".to_owned())];
    job.engine.lacks(RuleId(0), absent.into());
    job.windows(2, SPINNING);
    let (standing, why) = job.status();
    assert_eq!(standing, Standing::NoValue);
    assert!(why.contains("no process has flush_bacth"), "{why}");
}

const COUNTED: &str = "\
rule: counted
about: a function that is misspelt
roles: {process: true}
probes:
  flush: {span: flush_bacth}
windows:
  pulse: {every: 100ms}
metrics:
  share: sum(flush.duration) / pulse.duration
tune:
  - when: share > 0.5
    finding: it flushes
";
