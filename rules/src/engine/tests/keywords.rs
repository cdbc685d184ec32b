//! The keys of a tune other than its condition and its value.

use super::*;

fn shares(change: &[(&str, &str)]) -> Job {
    let mut source = SHARES.replace("    cooldown: 2s\n", "");
    for (old, new) in change {
        assert!(source.contains(old), "{old}");
        source = source.replace(old, new);
    }
    Job::new(&source, 3.0).applying()
}

#[test]
fn what_is_in_force_while_a_condition_holds_is_reverted_after_and_done_again() {
    let mut job = shares(&[("when:", "while:")]);
    job.until_applied(HEALTHY);
    assert!(verdicts(&job.windows(2, HEALTHY))[0].keep);
    job.cpus = 1.0;
    let outputs = job.window(HEALTHY);
    let [Output::Verdict(verdict), Output::FindingClosed { .. }] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert!(!verdict.keep);
    assert_eq!(verdict.decision, DecisionId(1));
    assert_eq!(verdict.text, "its condition no longer holds");
    assert_eq!(job.windows(5, HEALTHY), []);
    job.cpus = 3.0;
    assert_eq!(decisions(&job.windows(2, HEALTHY)), 1);
}

#[test]
fn a_decision_without_a_receipt_grows_stale_and_its_late_receipt_is_ignored() {
    let mut job = shares(&[("    range:", "    stale: 2\n    range:")]);
    assert_eq!(decisions(&job.window(HEALTHY)), 1);
    assert_eq!(decisions(&job.windows(2, HEALTHY)), 0);
    assert_eq!(job.status().0, Standing::Pending);
    assert!(job.engine.awaits(DecisionId(1)));
    job.window(HEALTHY);
    assert!(!job.engine.awaits(DecisionId(1)));
    assert_eq!(job.status().1, "1 given up as stale: no receipt within 2 windows");
    assert!(!job.receipt(1, DecisionOutcome::Applied));
    let outputs = job.windows(2, HEALTHY);
    assert!(matches!(
        outputs.as_slice(),
        [Output::Decision(Decision {
            id: DecisionId(2),
            ..
        })]
    ));
}

#[test]
fn a_decision_of_a_rule_that_was_switched_off_or_removed_is_not_awaited() {
    for is_removed in [false, true] {
        let mut job = shares(&[]);
        assert_eq!(decisions(&job.window(HEALTHY)), 1);
        assert!(job.engine.awaits(DecisionId(1)));
        match is_removed {
            true => drop(job.engine.remove(RuleId(0))),
            false => drop(job.engine.set_mode(RuleId(0), Mode::Off)),
        }
        assert!(!job.engine.awaits(DecisionId(1)));
        assert!(!job.receipt(1, DecisionOutcome::Applied));
    }
}

#[test]
fn a_decision_carries_what_it_predicts_and_where_it_takes_effect() {
    let extra = "    expect: sum(mpi.calls) / 1s * 2\n    at: {entry: step}\n    range:";
    let outputs = shares(&[("    range:", extra)]).window(HEALTHY);
    let [Output::FindingOpened(_), Output::Decision(decision)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(decision.expect.as_deref(), Some("100 000/s"));
    assert_eq!(decision.at, "entry:step".parse().ok());
    assert_eq!(decision.together, None);
    let outputs = shares(&[("    range:", "    together: w\n    range:")]).window(HEALTHY);
    let [_, Output::Decision(decision)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    let why = "`w` is a time: processes have no place in the program in common there";
    assert_eq!(decision.together, Some(Err(why.to_string())));
}

#[test]
fn an_initial_value_is_written_to_each_process_once_until_a_window_has_shown_better() {
    let tune = "tune:\n  - set: chunk\n    role: worker\n    value: 3\n    initial: 7\n    range: 1 <= value <= count(worker) + 5\n    when: total > 1s\n    guard: {minimize: iteration.duration, over: 2, undo_if_worse_by: 5%}\n";
    let source = format!("{}{tune}", probed::FRAME);
    let mut farm = probed::Farm::new(&source, 3);
    assert_eq!(farm.all_until(1), [], "a rule that advises writes nothing");
    farm.engine.set_mode(RuleId(0), Mode::Applying);
    let written = |outputs: &[Output]| match outputs {
        [Output::Decision(decision)] => {
            let change = |change: &ProcessAction| (change.process.0, change.action.value().cloned());
            decision.changes.iter().map(change).collect::<Vec<_>>()
        }
        _ => Vec::new(),
    };
    let seven = Some(Scalar::Number(7.0));
    assert_eq!(
        written(&farm.all_until(2)),
        [(1, seven.clone()), (2, seven.clone())]
    );
    assert!(
        farm.engine
            .receipt(DecisionId(1), DecisionOutcome::Applied, Time(3 * MS))
    );
    assert_eq!(farm.all_until(3), []);
    farm.join(3, 4);
    assert_eq!(written(&farm.all_until(5)), [(3, seven)]);
    farm.hits(&probed::iteration(1, 100));
    assert_eq!(farm.all_until(200), []);
    farm.join(4, 201);
    assert_eq!(farm.all_until(202), [], "the first window has closed");
    let outside = source.replace("initial: 7", "initial: 70");
    let mut farm = probed::Farm::new(&outside, 3);
    farm.engine.set_mode(RuleId(0), Mode::Applying);
    assert_eq!(farm.all_until(2), [], "outside its range nothing is written");
}

#[test]
fn one_tune_waits_for_another_and_an_independent_one_does_not_wait() {
    let second = "  - set: other\n    role: worker\n    value: 1\n    when: true\n    guard: {maximize: sum(mpi.calls), over: 1, undo_if_worse_by: 0%, keep: not_worse}\n";
    let mut job = Job::new(&format!("{SHARES}{second}    after: nthreads\n"), 3.0).applying();
    assert_eq!(decisions(&job.window(HEALTHY)), 1);
    assert_eq!(
        job.engine.status()[1].why,
        "after nthreads, which has not been applied"
    );
    job.receipt(1, DecisionOutcome::Applied);
    assert_eq!(decisions(&job.windows(2, HEALTHY)), 1);
    let mut job = Job::new(&format!("{SHARES}{second}    independent: true\n"), 3.0).applying();
    assert_eq!(decisions(&job.window(HEALTHY)), 2);
}
