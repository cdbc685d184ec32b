//! Windows of the detected loop: iterations of ranks are joined by their numbers, those of other processes are
//! windows of their own.

use super::*;
use crate::engine::{IterationTeams, LoopIteration, LoopNumber};

const STEPS: &str = "\
rule: steps
about: iterations of any program
probes:
  step: {span: loop.iteration}
  send: {span: send}
windows:
  iteration: {detect: period, discard: any(step.threads < 2)}
metrics:
  took: iteration.duration
  processes: count(step)
  sends: count(send)
  team: max(step.threads)
  sequential: sum(step.sequential)
";

/// The engine, and whether the processes are ranks.
struct Loops(Engine, bool);

impl Loops {
    fn new(are_ranks: bool, processes: u32) -> Loops {
        let mut engine = Engine::new(vec![checked(STEPS)], Time(0)).unwrap();
        for process in 0..processes {
            let facts = match are_ranks {
                true => ProcessFacts::of_rank(process),
                false => ProcessFacts::default(),
            };
            engine.process_joined(ProcessId(process), facts, Time(0));
        }
        Loops(engine, are_ranks)
    }

    /// Processes that are no ranks have loops of their own.
    fn number(&self, process: u32, iteration: u64) -> LoopNumber {
        let of = if self.1 { 1 } else { 1 + process };
        LoopNumber { of, iteration }
    }

    fn begin(&mut self, process: u32, number: u64, ms: u64) {
        self.0.observe(Observation::IterationBegan {
            process: ProcessId(process),
            thread: 7,
            number: self.number(process, number),
            time: Time(ms * MS),
        });
    }

    fn end(&mut self, process: u32, number: u64, (from, to): (u64, u64), threads: Result<u32, &str>) {
        let teams = threads.map_err(str::to_owned).map(|threads| IterationTeams {
            threads,
            sequential_ns: MS,
            working_ns: 0,
            overhead_ns: 0,
            waiting_ns: 0,
        });
        self.0.observe(Observation::IterationEnded(LoopIteration {
            process: ProcessId(process),
            thread: 7,
            number: self.number(process, number),
            begin: Time(from * MS),
            end: Time(to * MS),
            teams,
        }));
    }

    /// Iterations of 10 ms each, one after the other.
    fn iterate(&mut self, process: u32, numbers: std::ops::Range<u64>, from: u64) {
        for (number, from) in numbers.zip((from..).step_by(10)) {
            self.begin(process, number, from);
            self.end(process, number, (from, from + 10), Ok(4));
        }
    }

    fn send(&mut self, process: u32, ms: u64) {
        let (_, rule, _) = self.0.rules().next().unwrap();
        let probes = &rule.plan().probes;
        let send = ProbeId(probes.iter().position(|probe| probe.name == "send").unwrap());
        self.0
            .observe(hit(send, ProcessId(process), Time(ms * MS), MS / 2, &[]));
    }

    /// All hits, and all boundaries of the loop up to `ms`, are known; returns the closed windows.
    fn until(&mut self, ms: u64) -> Vec<String> {
        let there: Vec<ProcessId> = self.0.members(RuleId(0)).into_keys().collect();
        for process in there {
            let (ahead, time) = (Time((ms + 500) * MS), Time(ms * MS));
            self.0.observe(Observation::Watermark { process, time: ahead });
            self.0.observe(Observation::LoopWatermark { process, time });
        }
        self.0.tick(Time((ms + 500) * MS));
        let line = |window: ClosedWindow| {
            let metrics = window
                .metrics
                .iter()
                .map(|(name, value)| format!("{name} {value}"));
            metrics.collect::<Vec<_>>().join(", ")
        };
        self.0.drain_windows().into_iter().map(line).collect()
    }
}

#[test]
fn an_iteration_closes_when_its_end_is_known_although_other_hits_are_known_earlier() {
    let mut loops = Loops::new(true, 1);
    loops.begin(0, 0, 100);
    loops.send(0, 104);
    loops.send(0, 113);
    assert_eq!(loops.until(105), Vec::<String>::new());
    loops.end(0, 0, (100, 110), Ok(4));
    loops.begin(0, 1, 110);
    let expected = "took 10 ms, processes 1, sends 1, team 4, sequential 1 ms";
    assert_eq!(loops.until(110), [expected]);
    loops.end(0, 1, (110, 120), Ok(4));
    assert_eq!(loops.until(120), [expected]);
}

#[test]
fn iterations_of_ranks_with_one_number_are_one_window() {
    let mut loops = Loops::new(true, 2);
    loops.iterate(0, 5..8, 100);
    loops.iterate(1, 6..8, 112);
    loops.send(1, 115);
    let closed = loops.until(140);
    let expected = "took 12 ms, processes 2, sends 1, team 4, sequential 2 ms";
    // The second rank was in the middle of the first one when its loop was detected.
    assert_eq!(closed.len(), 2, "{closed:?}");
    assert_eq!(closed[0], expected);
}

#[test]
fn iterations_of_processes_that_are_no_ranks_are_windows_of_their_own() {
    let mut loops = Loops::new(false, 2);
    loops.iterate(0, 0..3, 100);
    loops.iterate(1, 0..2, 104);
    loops.send(1, 108);
    let closed = loops.until(140);
    assert_eq!(closed.len(), 5, "{closed:?}");
    let with_send = closed
        .iter()
        .filter(|window| window.contains("processes 1, sends 1"));
    assert_eq!(with_send.count(), 1, "{closed:?}");
    assert!(
        closed.iter().all(|window| window.starts_with("took 10 ms")),
        "{closed:?}"
    );
}

#[test]
fn an_iteration_in_which_a_team_changes_is_left_out_with_its_reason() {
    let mut loops = Loops::new(true, 1);
    loops.begin(0, 0, 100);
    loops.end(0, 0, (100, 110), Err("the size of a team changed"));
    loops.iterate(0, 1..2, 110);
    assert_eq!(loops.until(130).len(), 1);
    assert_eq!(loops.0.dropped(RuleId(0)).discarded, 1);
}

/// Calls were missed: the iteration has no end.
#[test]
fn an_iteration_whose_end_was_missed_has_no_value() {
    let mut loops = Loops::new(true, 1);
    loops.begin(0, 0, 100);
    loops.iterate(0, 1..3, 150);
    assert_eq!(loops.until(200).len(), 2);
    assert_eq!(loops.0.dropped(RuleId(0)).discarded, 1);
}

/// Otherwise the windows of all ranks would wait for it.
#[test]
fn an_iteration_that_a_rank_missed_does_not_hold_up_the_others() {
    let mut loops = Loops::new(true, 2);
    loops.iterate(0, 0..5, 100);
    loops.iterate(1, 0..2, 100);
    loops.iterate(1, 3..5, 130);
    let closed = loops.until(160);
    assert_eq!(closed.len(), 4, "{closed:?}");
    assert!(
        closed.iter().all(|window| window.contains("processes 2")),
        "{closed:?}"
    );
    assert_eq!(loops.0.dropped(RuleId(0)).discarded, 1);
}

/// The begin and the end of an iteration are known after its hits, so nothing can be aggregated between them.
#[test]
fn each_hit_in_an_iteration_is_passed_in() {
    let loops = Loops::new(true, 1);
    let (_, rule, _) = loops.0.rules().next().unwrap();
    let probes = rule.plan().probes.iter();
    let send = probes.clone().find(|probe| probe.name == "send").unwrap();
    assert_eq!(send.delivers, crate::plan::Delivery::EachHit);
    assert!(probes.clone().all(|probe| !probe.parts_sums));
}

const FEWER: &str = "\
rule: fewer
about: sets a number of threads on trial
probes:
  step: {span: loop.iteration}
windows:
  iteration: {detect: period}
metrics:
  took: iteration.duration
tune:
  - set: size
    value: 2
    when: took > 5ms
    guard: {minimize: took, over: 4, undo_if_worse_by: 2%}
";

/// A program under rules that change it. Its iterations are read every 100 ms, so the engine gets to know about
/// ten iterations that began before a change after it was made.
struct Tuned {
    decisions: usize,
    verdicts: Vec<Verdict>,
    is_in_force: bool,
}

impl Tuned {
    /// Until `end` ms; an iteration takes 10 ms, or `changed` ms while a change is in force.
    fn run(rule: &str, changed: u64, end: u64) -> Tuned {
        let mut engine = of_ranks(rule, 1);
        engine.set_mode(RuleId(0), Mode::Applying);
        let mut loops = Loops(engine, true);
        let mut tuned = Tuned {
            decisions: 0,
            verdicts: Vec::new(),
            is_in_force: false,
        };
        let (mut number, mut at) = (0, 100);
        for read in (200..end).step_by(100) {
            while at < read {
                let took = if tuned.is_in_force { changed } else { 10 };
                loops.begin(0, number, at);
                loops.end(0, number, (at, at + took), Ok(4));
                (number, at) = (number + 1, at + took);
            }
            let (process, time) = (ProcessId(0), Time(read * MS));
            loops.0.observe(Observation::LoopWatermark { process, time });
            for output in loops.0.tick(time) {
                tuned.carry_out(output, (&mut loops.0, time));
            }
        }
        tuned
    }

    fn carry_out(&mut self, output: Output, (engine, time): (&mut Engine, Time)) {
        match output {
            Output::Decision(decision) => {
                (self.is_in_force, self.decisions) = (true, self.decisions + 1);
                engine.receipt(decision.id, DecisionOutcome::Applied, time);
            }
            Output::Verdict(verdict) => {
                self.is_in_force &= verdict.keep;
                self.verdicts.extend((!verdict.compares).then_some(verdict));
            }
            _ => {}
        }
    }
}

#[test]
fn a_guard_leaves_out_iterations_that_began_before_a_change_and_are_known_after_it() {
    let tuned = Tuned::run(FEWER, 8, 20_000);
    let [verdict] = &tuned.verdicts[..] else {
        panic!("{:?}", tuned.verdicts)
    };
    assert!(verdict.keep && tuned.is_in_force, "{}", verdict.text);
}

/// The second tune is for the state that the first one has tried.
#[test]
fn no_tune_acts_on_iterations_that_began_before_another_change_was_reverted() {
    let second = "  - set: other\n    value: 1\n    when: took > 11ms\n    guard: {minimize: took, over: 4, undo_if_worse_by: 2%}\n";
    let tuned = Tuned::run(&format!("{FEWER}{second}"), 12, 5_000);
    assert_eq!(tuned.decisions, 1);
    let [verdict] = &tuned.verdicts[..] else {
        panic!("{:?}", tuned.verdicts)
    };
    assert!(!verdict.keep && !tuned.is_in_force, "{}", verdict.text);
}

/// The loop ends, or no iteration with the change can be used.
#[test]
fn a_change_whose_windows_no_longer_close_or_are_discarded_is_reverted() {
    let discarding = FEWER.replace(
        "{detect: period}",
        "{detect: period, discard: iteration.duration > 11ms}",
    );
    for (rule, changed, end, why) in [
        (FEWER, 1_000_000, 15_000, "no window has closed for 10"),
        (&discarding, 12, 3_000, "the last 1"),
    ] {
        let tuned = Tuned::run(rule, changed, end);
        let [verdict] = &tuned.verdicts[..] else {
            panic!("{:?}", tuned.verdicts)
        };
        assert!(!verdict.keep && !tuned.is_in_force);
        let expected = format!("could not be judged: {why}");
        assert!(verdict.text.starts_with(&expected), "{}", verdict.text);
    }
}
