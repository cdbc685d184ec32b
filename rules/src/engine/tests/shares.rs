//! One value for each process, tunes that compete for a variable, and recurring conditions.

use super::*;

#[test]
fn a_value_by_process_acts_on_each_with_its_own_row_and_a_range_refuses() {
    let mut job = Job::new(SHARES, 3.0).applying();
    let outputs = job.window(HEALTHY);
    let [Output::FindingOpened(_), Output::Decision(decision)] = outputs.as_slice() else {
        panic!("{outputs:?}")
    };
    assert_eq!(decision.changes.len(), 5);
    assert_eq!(decision.changes[0].action.value(), Some(&Scalar::Number(6.0)));
    let mut job = Job::new(SHARES, 5.0).applying();
    assert_eq!(decisions(&job.windows(9, HEALTHY)), 0);
    assert_eq!(
        job.status().1,
        "no change: 10 is outside the range 1 <= value <= 8"
    );
}

#[test]
fn a_condition_that_returns_acts_again_after_the_cooldown_and_only_on_what_differs() {
    let mut job = Job::new(SHARES, 3.0).applying();
    job.until_applied(HEALTHY);
    assert_eq!(verdicts(&job.windows(2, HEALTHY)).len(), 1);
    job.cpus = 1.0;
    job.windows(1, HEALTHY);
    job.cpus = 3.0;
    assert_eq!(
        decisions(&job.windows(9, HEALTHY)),
        0,
        "the value was written already"
    );
    job.cpus = 1.0;
    job.windows(1, HEALTHY);
    job.cpus = 4.0;
    assert_eq!(decisions(&job.windows(2, HEALTHY)), 1);
}

/// A job under two applying rules.
fn of_two(rules: [CheckedRule; 2]) -> Job {
    let mut job = Job::new(SHARES, 3.0);
    job.engine = Engine::new(rules.into(), Time(0)).unwrap();
    (0..6).for_each(|rank| job.join(rank));
    job.observe();
    for id in [RuleId(0), RuleId(1)] {
        job.engine.set_mode(id, Mode::Applying);
    }
    job
}

#[test]
fn of_two_rules_that_change_the_same_the_one_of_the_higher_priority_goes_first() {
    let rule = |name: &str, priority: i32| {
        let named = format!("rule: {name}\npriority: {priority}");
        CheckedRule::from_source(&SHARES.replace("rule: shares", &named)).unwrap()
    };
    let equal = Engine::new(vec![rule("a", 1), rule("b", 1)], Time(0));
    assert!(equal.is_err());
    let mut job = of_two([rule("low", -1), rule("high", 2)]);
    let mut rules = Vec::new();
    for _ in 0..4 {
        for decision in decided(&job.windows(1, HEALTHY)) {
            job.receipt(decision.id.0, DecisionOutcome::Applied);
            rules.push(decision.rule_name.clone());
        }
    }
    assert_eq!(rules, ["high"], "{:?}", job.engine.status());
    let low = job.engine.status().remove(0);
    assert_eq!(
        (low.standing, low.why.as_str()),
        (
            Standing::GivesWay,
            "the variable nthreads is claimed by high, whose priority is 2"
        )
    );
    // After the other rule is removed, this rule has the variable for itself.
    job.engine.remove(RuleId(1));
    let outputs = job.windows(2, HEALTHY);
    assert_eq!(decisions(&outputs), 1, "{:?}", job.engine.status());
}

#[test]
fn one_change_at_a_time_is_on_trial_and_two_rules_may_not_claim_one_variable() {
    let rule = |name: &str, variable: &str| {
        let source = SHARES
            .replace("rule: shares", &format!("rule: {name}"))
            .replace("nthreads", variable);
        CheckedRule::from_source(&source).unwrap()
    };
    let conflict = Engine::new(vec![rule("a", "x"), rule("b", "x")], Time(0)).unwrap_err();
    assert_eq!(
        conflict.to_string(),
        "the rules a and b both claim the variable x; leave one of them out, or give them priorities"
    );
    assert!(Engine::new(vec![rule("a", "x"), rule("a", "y")], Time(0)).is_err());

    let mut job = of_two([rule("a", "x"), rule("b", "y")]);
    assert_eq!(decisions(&job.windows(3, HEALTHY)), 1);
    let other = job.engine.status().remove(1);
    assert_eq!(
        (other.standing, other.why.as_str()),
        (Standing::GivesWay, "another change is on trial, of a")
    );
    job.receipt(1, DecisionOutcome::Applied);
    assert_eq!(decisions(&job.windows(2, HEALTHY)), 1);
}
