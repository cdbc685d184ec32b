use proptest::prelude::*;

use super::*;

fn function(probe: u32, cost: f64, is_apart: bool) -> BudgetFunction {
    BudgetFunction {
        probe,
        cost,
        is_apart,
    }
}

/// A job that takes one CPU, with these functions.
fn job<const N: usize>(functions: [BudgetFunction; N]) -> Load {
    Load {
        job: 1.0,
        functions: functions.into(),
        ..Load::default()
    }
}

fn loads() -> impl Strategy<Value = Load> {
    let functions = prop::collection::vec((0.0..2.0_f64, any::<bool>()), 1..8);
    (functions, 0.1..16.0_f64, 0.0..0.5_f64, 0.0..0.5_f64).prop_map(|(functions, job, agent, requested)| {
        let functions = (0..).zip(functions);
        let functions = functions.map(|(probe, (cost, is_apart))| function(probe, cost, is_apart));
        Load {
            counted: 0.0,
            job,
            agent,
            requested,
            functions: functions.collect(),
        }
    })
}

#[test]
fn a_function_that_is_rarely_called_is_watched_all_the_time() {
    let functions = [
        (0, 0.5, true),
        (1, 1e-6, true),
        (2, 0.02, true),
        (3, 0.001, false),
    ];
    let load = job(functions.map(|(probe, cost, is_apart)| function(probe, cost, is_apart)));
    assert_eq!(chosen(&load, 0.01), BTreeSet::from([0, 2]));
    // One that belongs to a sequence which is sampled is sampled with it.
    let functions = [(0, 0.5, false), (1, 1e-6, true), (3, 1e-6, false)];
    let load = job(functions.map(|(probe, cost, is_apart)| function(probe, cost, is_apart)));
    assert_eq!(chosen(&load, 0.01), BTreeSet::from([0, 3]));
}

proptest! {
    #[test]
    fn the_plan_costs_no_more_than_the_rest_of_the_budget(load in loads(), share in 0.001..0.2_f64) {
        let functions = chosen(&load, share);
        let part = part(&load, share, &functions);
        let [expensive, others] = [true, false].map(|is_chosen| load.of(|probe| functions.contains(&probe) == is_chosen));
        // The shortest part of the time is a separate bound.
        prop_assert!(others + part * expensive <= load.left(share).max(others + 1e-4 * expensive) + 1e-9, "{functions:?}: {part}");
    }

    /// A trial begins at a random moment of a sampled program: from then on there is a window in each half
    /// second, and half of the time is watched at most. Afterwards the gaps are those of the budget again.
    #[test]
    fn each_half_second_of_a_trial_has_a_window(
        (cost, begin_ms, seed) in (0.05..1.8_f64, 10_000..60_000_u64, any::<u64>()),
    ) {
        const MS: u64 = 1_000_000;
        let load = Load { job: 2.0, agent: 0.0, functions: vec![function(0, cost, false)], ..Load::default() };
        let mut windows = Windows::new(BudgetShare(Some(0.01)), seed);
        let trial = begin_ms..begin_ms + 20_000;
        let (mut watched_ms, mut last_ms, mut opened_after) = (0, begin_ms, 0);
        for ms in 0..trial.end + 60_000 {
            windows.judge(trial.contains(&ms), ms * MS);
            match (windows.next_ns(), windows.most_ns()) {
                (None, _) if ms % 1000 == 0 => drop(windows.look(&load, ms * MS)),
                (Some(next), None) if ms * MS >= next => {
                    windows.open(ms * MS);
                    windows.attached(ms * MS);
                    opened_after += u64::from(ms >= trial.end);
                }
                (Some(next), Some(_)) if ms * MS >= next => drop(windows.close_window(&load, ms * MS)),
                _ => {}
            }
            let is_open = windows.next_ns().is_some() && windows.most_ns().is_some();
            if trial.contains(&ms) && is_open {
                watched_ms += 1;
                prop_assert!(ms - last_ms <= 400, "no window for {} ms", ms - last_ms);
                last_ms = ms;
            }
        }
        prop_assert!(trial.end - last_ms <= 400);
        prop_assert!(watched_ms <= 10_100, "{watched_ms} ms");
        prop_assert!(opened_after <= 16, "{opened_after} windows in the minute after the trial");
    }

    /// The complete state machine over an hour: a program whose costs do not change stays within the budget,
    /// and probes change a bounded number of times a minute.
    #[test]
    fn a_steady_program_costs_what_it_may_and_probes_change_rarely(
        (cost, share, seed) in (0.05..1.8_f64, 0.005..0.1_f64, any::<u64>()),
    ) {
        const HOUR_NS: u64 = 3_600_000_000_000;
        let load = Load { job: 2.0, agent: 0.0, functions: vec![function(0, cost, false)], ..Load::default() };
        let mut windows = Windows::new(BudgetShare(Some(share)), seed);
        let (mut now, mut watched, mut changes, mut began) = (0, 0, 0_u64, None);
        while now < HOUR_NS {
            now = windows.next_ns().unwrap_or(now + 1_000_000_000);
            let turn = match (windows.next_ns(), windows.most_ns()) {
                (None, _) => windows.look(&load, now),
                (Some(_), None) => windows.open(now),
                (Some(_), Some(_)) => windows.close_window(&load, now),
            };
            match turn {
                SamplingStep::Open => began = Some(now),
                SamplingStep::Close => watched += now - began.take().unwrap_or(now),
                _ => {}
            }
            changes += u64::from(turn != SamplingStep::Stay);
        }
        if cost > 2.0 * share {
            let estimated = watched as f64 / HOUR_NS as f64 * cost / 2.0;
            // Gaps have a maximum length, beyond which the cost of the shortest window cannot be reduced.
            prop_assert!(estimated <= share, "{estimated} of {share}");
            prop_assert!(estimated > 0.4 * share, "{estimated} of {share}: more could have been watched");
            prop_assert!(changes <= 60 * 31, "{changes} in an hour");
        } else {
            prop_assert_eq!(changes, 0);
        }
    }
}

#[test]
fn functions_that_are_polled_go_first() {
    let load = |polling, sending| job([function(0, sending, false), function(1, polling, true)]);
    assert_eq!(chosen(&load(0.1, 0.004), 0.01), BTreeSet::from([1]));
    assert_eq!(chosen(&load(0.1, 0.4), 0.01), BTreeSet::from([0, 1]));
    assert_eq!(chosen(&load(0.002, 0.4), 0.01), BTreeSet::from([0, 1]));
}

/// Hundreds of probes take long to attach and detach, but a job calls only a dozen functions of MPI.
#[test]
fn those_that_are_not_called_are_watched_all_the_time_until_they_are_expensive() {
    let load = |costs: [f64; 3]| job([0, 1, 2].map(|probe| function(probe, costs[probe as usize], false)));
    let mut windows = Windows::new(BudgetShare::default(), 1);
    let expensive = load([0.5, 0.0, 0.0]);
    let first = windows.look(&expensive, 0);
    assert_eq!(first, SamplingStep::Sample(BTreeSet::from([0, 1, 2])));
    windows.open(0);
    assert_eq!(*windows.functions(), BTreeSet::from([0]));
    assert_eq!(
        windows.close_window(&load([0.5, 0.001, 0.0]), 0),
        SamplingStep::Close
    );
    windows.open(0);
    let all = SamplingStep::Sample(BTreeSet::from([0, 1, 2]));
    assert_eq!(windows.close_window(&load([0.5, 0.1, 0.0]), 0), all);
    windows.open(0);
    assert_eq!(*windows.functions(), BTreeSet::from([0, 1]));
}

#[test]
fn one_expensive_second_changes_nothing_and_three_in_a_row_do() {
    let load = |cost| job([function(7, cost, false)]);
    let mut windows = Windows::new(BudgetShare::default(), 1);
    let costs = [0.04, 0.04, 0.001, 0.04, 0.04, 0.04];
    let turns = costs.map(|cost| windows.look(&load(cost), 0));
    assert_eq!(turns[..5], [const { SamplingStep::Stay }; 5]);
    assert_eq!(turns[5], SamplingStep::Sample(BTreeSet::from([7])));
    // Three cheap windows are required before everything is watched again, because the program may only
    // pause.
    let mut turn = SamplingStep::Stay;
    let mut cheap = 0;
    while turn != SamplingStep::Watch && cheap < 50 {
        windows.open(0);
        turn = windows.close_window(&load(0.0), 0);
        cheap += 1;
    }
    assert!((IN_A_ROW..50).contains(&cheap), "{cheap} cheap windows");
    assert!(windows.functions().is_empty() && windows.next_ns().is_none());
}

#[test]
fn the_more_a_function_costs_the_fewer_checks_are_waited_for() {
    for (cost, checks) in [(0.04, 3), (0.06, 2), (0.19, 2), (0.21, 1), (0.9, 1)] {
        let load = job([function(7, cost, true)]);
        let mut windows = Windows::new(BudgetShare::default(), 1);
        let waited = (1..9).find(|_| windows.look(&load, 0) != SamplingStep::Stay);
        assert_eq!(waited, Some(checks), "{cost}");
    }
}

#[test]
fn a_newcomer_is_seen_for_a_while_and_the_next_gap_makes_up_for_it() {
    const COST: f64 = 0.04;
    let load = job([function(7, COST, false)]);
    let mut windows = Windows::new(BudgetShare::default(), 1);
    // A process that joins resets the count: three more expensive seconds are required.
    let turns = [false, false, true, false, false, false].map(|comes| {
        if comes {
            windows.stay_open(0);
        }
        windows.look(&load, 0)
    });
    assert_eq!(turns[..4], [const { SamplingStep::Stay }; 4]);
    assert_eq!(turns[4], SamplingStep::Sample(BTreeSet::from([7])));
    // A gap may end early.
    let began_ns = 1_000_000;
    assert!(windows.next_ns().unwrap() > began_ns);
    assert_eq!(windows.open(began_ns), SamplingStep::Open);
    windows.attached(began_ns);
    let until_ns = began_ns + 2_000_000_000;
    windows.stay_open(until_ns);
    assert_eq!(
        (windows.next_ns(), windows.most_ns()),
        (Some(until_ns), Some(f64::INFINITY))
    );
    assert_eq!(windows.close_window(&load, until_ns), SamplingStep::Close);
    let gap_ns = windows.next_ns().unwrap() - until_ns;
    let share = 2e9 / (2e9 + gap_ns as f64) * COST;
    assert!(share <= 0.01, "{share}");
}

/// For a job that would cost half a CPU and gets a new process every `every_ms`: the part of an hour in which
/// it is watched, and the number of processes that were watched from their begin.
fn watched_while_they_come(every_ms: u64) -> (f64, u64) {
    const STEP_MS: u64 = 100;
    const HOUR_MS: u64 = 3_600_000;
    const SEEN_NS: u64 = 2_000_000_000;
    let load = job([function(7, 0.5, false)]);
    let mut windows = Windows::new(BudgetShare::default(), 1);
    let is_watched = |windows: &Windows| windows.next_ns().is_none() || windows.most_ns().is_some();
    let (mut steps, mut seen) = (0, 0);
    for ms in (0..HOUR_MS).step_by(STEP_MS as usize) {
        let now = ms * 1_000_000;
        if ms % every_ms == 0 {
            if windows.may_open(now, SEEN_NS) {
                windows.open(now);
                windows.attached(now);
            }
            windows.stay_open(now + SEEN_NS);
            seen += u64::from(is_watched(&windows));
        }
        match (windows.next_ns(), windows.most_ns()) {
            (None, _) if ms % 1000 == 0 => drop(windows.look(&load, now)),
            (Some(next), None) if now >= next => {
                windows.open(now);
                windows.attached(now);
            }
            (Some(next), Some(_)) if now >= next => drop(windows.close_window(&load, now)),
            _ => {}
        }
        steps += u64::from(is_watched(&windows));
    }
    ((steps * STEP_MS) as f64 / HOUR_MS as f64, seen)
}

#[test]
fn a_job_with_new_ranks_stays_in_its_budget_and_the_first_ranks_are_seen() {
    for every_ms in [500, 2_000, 10_000, 60_000] {
        let (watched, seen) = watched_while_they_come(every_ms);
        assert!(
            0.5 * watched <= 0.01,
            "one every {every_ms} ms: {watched} of the time"
        );
        assert!(seen >= 5, "one every {every_ms} ms: {seen} were seen");
    }
}

#[test]
fn without_a_budget_nothing_is_left_out() {
    let load = job([function(0, 0.9, true)]);
    let mut windows = Windows::new(BudgetShare(None), 1);
    assert!((0..9).all(|_| windows.look(&load, 0) == SamplingStep::Stay) && windows.allowed(&load).is_none());
}

#[test]
fn a_budget_is_a_percentage_or_none() {
    assert_eq!("1%".parse(), Ok(BudgetShare::default()));
    assert_eq!("0.5 %".parse(), Ok(BudgetShare(Some(0.005))));
    assert_eq!("none".parse(), Ok(BudgetShare(None)));
    for text in ["", "1", "0%", "-1%", "101%", "%", "NaN%"] {
        assert!(text.parse::<BudgetShare>().is_err(), "{text}");
    }
    for text in ["1%", "0.25%", "none"] {
        assert_eq!(
            text.parse::<BudgetShare>()
                .map(|budget| budget.to_string())
                .as_deref(),
            Ok(text)
        );
    }
}

#[test]
fn probes_of_rules_pause_until_the_budget_has_recovered() {
    let second = 1_000_000_000;
    let load = |counted| Load {
        job: 2.0,
        agent: 0.004,
        counted,
        ..Load::default()
    };
    let windows = Windows::new(BudgetShare(Some(0.01)), 1);
    assert_eq!(
        windows.rest_ns(&load(0.016), second),
        None,
        "within what the agent leaves"
    );
    let rest_ns = windows.rest_ns(&load(0.16), second).unwrap() as f64;
    assert!(
        (rest_ns - 9e9).abs() < 1e3,
        "0.16 CPUs for 1 s are 0.016 CPUs over 10 s: {rest_ns}"
    );
    let most_ns = windows.rest_ns(&load(2.0), 60 * second);
    assert_eq!(most_ns, Some(300 * second), "no rest is longer than a gap may be");
    assert_eq!(
        Windows::new(BudgetShare(None), 1).rest_ns(&load(1.0), second),
        None
    );
}
