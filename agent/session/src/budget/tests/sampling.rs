//! When a sampling window begins and ends, and which functions are detached.

use abi::Frame;

use super::*;

const CHEAP: [f64; 4] = [0.002, 0.002, 0.0, 0.0];
const EXPENSIVE: [f64; 4] = [0.02, 0.02, 0.0, 0.0];
const POLLING: [f64; 4] = [0.001, 0.04, 0.0, 0.0];

#[test]
fn functions_within_the_budget_are_watched_all_the_time() {
    let mut budget = budget();
    assert!(looks(&mut budget, CHEAP, 20, STATE).iter().all(Vec::is_empty));
    assert_eq!(budget.sampling.next_ns(), None);
    assert!(!budget.sampling.has_gaps() && !budget.sampling.has_windows());
}

#[test]
fn expensive_functions_are_detached_at_the_third_look_that_finds_them_so() {
    let mut budget = budget();
    let effects = looks(&mut budget, EXPENSIVE, 4, STATE);
    // The first check has nothing to compare with.
    assert!(effects[..3].iter().all(Vec::is_empty), "{effects:?}");
    assert_eq!(effects[3][0], BudgetEffect::BeginSampling);
    assert_eq!(detached(&effects[3]), Some([0, 1].into()));
    assert!(budget.sampling.has_gaps() && budget.sampling.is_gap());
    assert!(budget.sampling.next_ns() > Some(4 * S));
}

#[test]
fn a_function_that_takes_more_than_a_fifth_of_the_job_is_detached_at_once() {
    let mut budget = budget();
    let effects = looks(&mut budget, [0.25, 0.0, 0.0, 0.0], 2, STATE);
    // The other one is not called: it costs nothing.
    assert_eq!(detached(&effects[1]), Some([0].into()));
}

#[test]
fn where_polling_is_what_costs_the_sequence_of_calls_stays_complete() {
    let mut budget = budget();
    let effects = looks(&mut budget, POLLING, 4, STATE);
    assert_eq!(detached(&effects[3]), Some([1].into()));
    assert!(!budget.sampling.cuts_sequence && !budget.sampling.is_sequence_cut());
    assert_eq!(budget.missing().count(), 0);
    let lines = said(&effects[3]);
    assert!(
        lines[0].starts_with("note: MPI_Iprobe is sampled from now on, "),
        "{lines:?}"
    );
    assert!(
        lines[0].contains("estimates (~). Everything else is reported as before"),
        "{lines:?}"
    );
}

#[test]
fn where_the_sequence_of_calls_is_cut_that_is_said_and_missing() {
    let mut budget = budget();
    let effects = looks(&mut budget, EXPENSIVE, 4, STATE);
    assert!(budget.sampling.is_sequence_cut());
    assert!(said(&effects[3])[0].contains("iterations cover the sampled time only"));
    let missing: Vec<String> = budget.missing().collect();
    assert!(
        missing[0].starts_with("MPI was sampled (--budget)"),
        "{missing:?}"
    );
}

#[test]
fn while_a_change_is_judged_no_window_begins() {
    let mut budget = budget();
    let state = SamplingState {
        is_judged: true,
        ..STATE
    };
    assert!(looks(&mut budget, EXPENSIVE, 9, state).iter().all(Vec::is_empty));
}

#[test]
fn where_nothing_can_be_detached_advice_is_given_once() {
    let mut budget = budget();
    let state = SamplingState {
        detaching: Detaching::Impossible,
        ..STATE
    };
    let effects = looks(&mut budget, EXPENSIVE, 9, state).concat();
    let lines = said(&effects);
    assert_eq!((effects.len(), lines.len()), (1, 1), "{effects:?}");
    assert!(
        lines[0].contains("costs most, and this session cannot detach probes"),
        "{lines:?}"
    );
}

#[test]
fn a_function_of_which_a_rule_needs_each_call_is_never_left_out_and_named() {
    for (is_recorded, why) in [
        (
            false,
            "a rule needs every call of solve: use --rules none or remove the rule, or give",
        ),
        (
            true,
            "a rule or the recording needs every call of solve: use --rules none or remove the rule, and no --record, or give",
        ),
    ] {
        let state = SamplingState { is_recorded, ..STATE };
        let effects = looks(&mut budget(), [0.0, 0.0, 0.05, 0.0], 9, state).concat();
        let lines = said(&effects);
        assert_eq!((effects.len(), lines.len()), (1, 1), "{effects:?}");
        assert!(lines[0].contains(why), "{lines:?}");
    }
}

#[test]
fn an_agent_with_cpus_of_its_own_takes_nothing_from_the_budget() {
    for (has_own_cpus, is_said) in [(false, true), (true, false)] {
        let mut budget = Budget::new(BudgetShare::default(), has_own_cpus, 0..0, 0, 1);
        let look = |at_s| {
            let spent = Spent {
                agent_ns: at_s * S / 2,
                ..spent(at_s, [0.0; 4])
            };
            budget.look(spent, &functions(), STATE)
        };
        let effects = (1..30).flat_map(look).collect::<BudgetEffects>();
        assert_eq!(said(&effects).len(), usize::from(is_said), "{effects:?}");
    }
}

#[test]
fn costs_are_looked_at_every_second_reading_and_only_without_windows() {
    let mut budget = budget();
    assert!(budget.sampling.is_look_due(S));
    let mut look = |at_s, rows: &[(u64, bool)]| {
        budget.look(spent(at_s, CHEAP), &functions(), STATE);
        for (read_ns, is_due) in rows {
            assert_eq!(budget.sampling.is_look_due(*read_ns), *is_due, "{read_ns}");
        }
    };
    // The first check comes with the first numbers.
    look(1, &[(S + S / 5, false), (S + S * 3 / 10, true)]);
    look(2, &[(2 * S + S / 2, false), (3 * S, true)]);
    looks(&mut budget, EXPENSIVE, 9, STATE);
    assert!(budget.sampling.is_gap() && !budget.sampling.is_look_due(99 * S));
    let unbounded = Budget::new(BudgetShare(None), false, 0..0, 0, 1);
    assert!(!unbounded.sampling.is_look_due(S), "there is nothing to keep to");
}

#[test]
fn an_idle_job_costs_nothing_and_a_pause_is_no_part_of_the_next_reading() {
    let mut budget = budget();
    assert_eq!(budget.check_idle(S, STATE), None, "there was no look yet");
    budget.look(spent(1, EXPENSIVE), &functions(), STATE);
    assert_eq!(budget.check_idle(100 * S, STATE), Some(BudgetEffects::new()));
    // Costs in the second after a pause count for that second only.
    let after = Spent {
        at_ns: 101 * S,
        job_ns: 2 * S,
        ..spent(1, [0.65, 0.05, 0.0, 0.0])
    };
    let effects = budget.look(after, &functions(), STATE);
    assert_eq!(detached(&effects), Some([0, 1].into()));
}

/// Functions 0 and 1 are sampled and in their first gap.
fn in_gap() -> (Budget, u64) {
    let mut budget = budget();
    looks(&mut budget, EXPENSIVE, 4, STATE);
    let next_ns = budget.sampling.next_ns().unwrap();
    (budget, next_ns)
}

/// Begins the window that is due.
fn open(budget: &mut Budget, now_ns: u64) {
    budget.sampling.open(now_ns);
    budget.sampling.attached(now_ns);
    let mut opened = spent(4, EXPENSIVE);
    (opened.at_ns, opened.job_ns) = (now_ns, now_ns);
    budget.sampling.opened(opened);
}

#[test]
fn a_window_begins_when_its_gap_is_over_and_not_before() {
    let (budget, next_ns) = in_gap();
    let due = |now_ns| budget.sampling.due(now_ns, || panic!("no window is open"));
    assert_eq!(due(next_ns - 1), None);
    assert_eq!(due(next_ns), Some(WindowChange::Open));
}

#[test]
fn a_window_is_over_at_its_time_or_when_it_has_cost_far_too_much() {
    let (mut budget, now_ns) = in_gap();
    open(&mut budget, now_ns);
    assert!(budget.sampling.is_open() && !budget.sampling.is_gap());
    let end_ns = budget.sampling.next_ns().unwrap();
    let planned_ns = 0.1 * (end_ns - now_ns) as f64;
    for (at_ns, cost_ns, due) in [
        (now_ns, 0.0, None),
        (end_ns - 1, planned_ns, None),
        (now_ns + 1, 5.0 * planned_ns, Some(WindowChange::Close)),
        (end_ns, 0.0, Some(WindowChange::Close)),
    ] {
        assert_eq!(budget.sampling.due(at_ns, || cost_ns), due, "{at_ns} {cost_ns}");
    }
}

#[test]
fn a_window_that_waits_for_links_begins_when_they_are_closed() {
    let (mut budget, next_ns) = in_gap();
    budget.sampling.wait_for_links();
    assert_eq!(budget.sampling.next_ns(), None, "nothing wakes the loop for it");
    assert_eq!(budget.sampling.due(next_ns, || 0.0), None);
    assert_eq!(budget.sampling.take_waiting(), Some(0));
    assert_eq!(budget.sampling.take_waiting(), None);
    assert_eq!(budget.sampling.due(next_ns, || 0.0), Some(WindowChange::Open));
}

#[test]
fn after_a_window_the_same_functions_are_detached_and_nothing_is_said() {
    let (mut budget, now_ns) = in_gap();
    open(&mut budget, now_ns);
    let end_ns = budget.sampling.next_ns().unwrap();
    let passed = |part: f64| part * (end_ns - now_ns) as f64;
    let mut after = spent(4, EXPENSIVE);
    (after.at_ns, after.job_ns) = (end_ns, end_ns);
    after.costs.insert(0, after.costs[&0] + passed(0.05));
    after.costs.insert(1, after.costs[&1] + passed(0.05));
    let effects = budget.close_window(after, &functions(), STATE);
    assert_eq!(effects, [BudgetEffect::Detach([0, 1].into())]);
    assert!(budget.sampling.next_ns() > Some(end_ns));
}

#[test]
fn functions_that_have_become_cheap_are_watched_all_the_time_after_some_windows() {
    let (mut budget, mut now_ns) = in_gap();
    let mut effects = BudgetEffects::new();
    for _ in 0..20 {
        open(&mut budget, now_ns);
        now_ns = budget.sampling.next_ns().unwrap();
        let mut after = spent(4, EXPENSIVE);
        (after.at_ns, after.job_ns) = (now_ns, now_ns);
        effects = budget.close_window(after, &functions(), STATE);
        let Some(next_ns) = budget.sampling.next_ns() else {
            break;
        };
        now_ns = next_ns;
    }
    let line = "note: all functions are watched all the time again";
    assert_eq!(effects, [BudgetEffect::Say(line.to_owned())]);
    assert!(!budget.sampling.has_windows() && budget.sampling.has_gaps());
    assert_eq!(budget.sampling.recent(), None);
}

#[test]
fn shares_of_late_are_those_of_the_last_window_and_gap() {
    let mut budget = budget();
    assert_eq!(budget.sampling.recent(), None);
    looks(&mut budget, EXPENSIVE, 4, STATE);
    assert_eq!(budget.sampling.recent(), Some(None), "no window is over yet");
    let now_ns = budget.sampling.next_ns().unwrap();
    open(&mut budget, now_ns);
    let mut after = spent(4, EXPENSIVE);
    // In the second since the last check, hits took a tenth and the agent as much.
    (after.at_ns, after.job_ns, after.agent_ns) = (5 * S, 5 * S, S / 10);
    after.costs.insert(0, after.costs[&0] + 0.1 * S as f64);
    budget.close_window(after, &functions(), STATE);
    let (hits, all) = budget.sampling.recent().flatten().unwrap();
    assert!(
        (hits - 0.1).abs() < 1e-9 && (all - 0.2).abs() < 1e-9,
        "{hits} {all}"
    );
}

#[test]
fn calls_that_were_open_when_their_function_was_detached_are_stale() {
    let (mut budget, now_ns) = in_gap();
    let frame = |probe, entered_ns| Frame {
        probe,
        entered_ns,
        ..Frame::default()
    };
    let is_stale = |budget: &Budget, probe, at_ns| budget.sampling.sampled().is_stale(&frame(probe, at_ns));
    assert!(is_stale(&budget, 0, S) && is_stale(&budget, 0, 5 * S));
    assert!(!is_stale(&budget, 2, S), "it is watched all the time");
    open(&mut budget, now_ns);
    assert!(is_stale(&budget, 0, now_ns - 1) && !is_stale(&budget, 0, now_ns));
}

#[test]
fn windows_name_the_functions_that_cost_most_first_and_not_those_that_were_not_called() {
    let mut budget = budget();
    assert_eq!(budget.sampling.view(&functions()), None);
    looks(&mut budget, [0.02, 0.03, 0.0, 0.0], 4, STATE);
    let view = budget.sampling.view(&functions()).unwrap();
    assert_eq!(view.functions, ["MPI_Iprobe", "MPI_Send"]);
    assert!(view.part < 1.0 && view.cuts_sequence);
    let mut other = super::budget();
    looks(&mut other, [0.03, 0.0, 0.0, 0.0], 4, STATE);
    assert_eq!(other.sampling.view(&functions()).unwrap().functions, ["MPI_Send"]);
}

#[test]
fn costs_of_functions_come_from_the_window_and_others_from_the_cycle() {
    let (before, opened) = (spent(10, [0.0; 4]), spent(18, [0.0; 4]));
    // 1 s of function 0 in the two seconds of the window; 1 s each of 2 and 3 in ten seconds.
    let mut now = spent(20, [0.0; 4]);
    now.costs = (0..4).map(|probe| (probe, S as f64)).collect();
    let sampled = BTreeSet::from([0]);
    let load = now.load_since(&before, Some(&opened), &sampled, &functions());
    assert_eq!((load.job, load.agent), (1.0, 0.0));
    let costs: Vec<(u32, f64)> = (load.functions.iter())
        .map(|function| (function.probe, function.cost))
        .collect();
    assert_eq!(costs, [(0, 0.5), (1, 0.1)]);
    assert_eq!((load.requested, load.counted), (0.1, 0.1));
}
