//! A tune whose guard states what a change is compared with also acts during its trial.

use super::*;

/// One process whose first gauge is the load, which the rule writes as the level. The second gauge is the
/// cost, the load divided by the current level.
const FOLLOWING: &str = "\
rule: following
about: b
roles: {every: rank >= 0}
windows: {w: {every: 1s}}
metrics:
  load:  max(threads)
  level: max(memory.resident) / 1B
tune:
  - set: level
    role: every
    value: load
    when: load != level
    guard: {minimize: w.duration / 1s * load / level / (load / was), was: level, over: 3, undo_if_worse_by: 5%, keep: not_worse}
";

/// The engine, and the level in force.
struct Program {
    engine: Engine,
    now: u64,
    level: f64,
}

impl Program {
    fn new(source: &str) -> Program {
        let mut engine = of_ranks(source, 1);
        engine.set_mode(RuleId(0), Mode::Applying);
        Program {
            engine,
            now: 0,
            level: 1.0,
        }
    }

    /// A window with this load; decisions are carried out immediately.
    fn window(&mut self, load: f64) -> Vec<Output> {
        for (measure, value) in [(Measure::Threads, load), (Measure::MemoryResident, self.level)] {
            for time in [self.now, self.now + 999 * MS] {
                self.engine.observe(gauge(0, measure, Time(time), value));
            }
        }
        self.now += 1000 * MS;
        let outputs = carried_out(&mut self.engine, Time(self.now));
        for decision in decided(&outputs) {
            if let Some(Scalar::Number(value)) = decision.changes[0].action.value() {
                self.level = *value;
            }
        }
        outputs
    }

    fn windows(&mut self, loads: &[f64]) -> Vec<Output> {
        loads.iter().flat_map(|load| self.window(*load)).collect()
    }
}

#[test]
fn it_decides_at_the_first_window_and_again_on_trial_and_what_it_did_is_judged_together() {
    let mut program = Program::new(FOLLOWING);
    assert_eq!(decisions(&program.window(4.0)), 1);
    assert_eq!(program.level, 4.0);
    // The window of the change is skipped; in the next one the load differs.
    assert_eq!(decisions(&program.window(8.0)), 0);
    assert_eq!(decisions(&program.window(8.0)), 1);
    assert_eq!(program.level, 8.0);
    let end = program.windows(&[8.0, 8.0, 8.0]);
    let [newest, first] = verdicts(&end)[..] else {
        panic!("{end:?}")
    };
    // Both are compared with the cost that the level before the first change would have, at the load of each
    // window.
    let (before, after) = newest.means.unwrap();
    assert!(newest.keep && before == 1.0);
    assert!(
        (after - (0.25_f64 * 0.125 * 0.125).cbrt()).abs() < 1e-9,
        "{after}"
    );
    assert_eq!((newest.decision, first.decision), (DecisionId(2), DecisionId(1)));
    assert_eq!(
        (first.keep, first.text.as_str()),
        (true, "judged together with decision 2")
    );
    // After it was kept, the tune continues to follow.
    assert_eq!(decisions(&program.windows(&[8.0, 2.0])), 1);
    assert_eq!(program.level, 2.0);
}

#[test]
fn a_reverted_tune_tries_again_after_so_many_windows_and_after_twice_as_many_the_second_time() {
    let retrying = FOLLOWING.replace("undo_if_worse_by: 5%", "undo_if_worse_by: 5%, retry: 4");
    // A wrong model, in which a higher level increases the cost.
    let wrong = retrying.replace("load / level / (load / was)", "level / was");
    let mut program = Program::new(&wrong);
    let mut decided = Vec::new();
    for window in 0..40 {
        let outputs = program.window(4.0);
        if decisions(&outputs) > 0 {
            decided.push(window);
        }
        if verdicts(&outputs).iter().any(|verdict| !verdict.keep) {
            program.level = 1.0;
        }
    }
    // After the first decision: one window is skipped and three are judged, then four are on hold, and one is
    // observed. The second time eight are on hold, the third time sixteen.
    assert_eq!(decided, [0, 9, 22]);
    let status = program.engine.status().remove(0);
    assert_eq!(status.standing, Standing::OnHold);
    assert!(status.why.starts_with("on hold for "), "{}", status.why);
}

#[test]
fn a_rule_that_is_switched_off_on_trial_reverts_everything_of_the_trial_newest_first() {
    let mut program = Program::new(FOLLOWING);
    program.windows(&[4.0, 8.0, 8.0]);
    let reverted = program.engine.set_mode(RuleId(0), Mode::Advising);
    let decisions: Vec<DecisionId> = verdicts(&reverted)
        .iter()
        .map(|verdict| verdict.decision)
        .collect();
    assert_eq!(decisions, [DecisionId(2), DecisionId(1)]);
    assert!(verdicts(&reverted).iter().all(|verdict| !verdict.keep));
}

#[test]
fn what_was_is_a_number_without_a_unit() {
    let wrong = FOLLOWING.replace("was: level", "was: w.duration");
    let reported = CheckedRule::from_source(&wrong).unwrap_err();
    assert!(
        reported
            .iter()
            .any(|one| one.message.contains("`was` is a number without a unit")),
        "{reported:?}"
    );
}
