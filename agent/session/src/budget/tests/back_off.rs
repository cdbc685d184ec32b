//! Activities that the agent suspends if it costs too much, and its wake-up rate while nothing happens.

use std::time::Duration;

use super::*;

/// Consecutive checks that find the agent too expensive before an activity is suspended, and cheap before it
/// resumes.
const EXPENSIVE_LOOKS: usize = 3;
const CHEAP_LOOKS: usize = 10;

#[test]
fn an_agent_that_is_expensive_for_what_rings_bring_reads_them_less_often_until_it_is_cheap() {
    let mut back_off = BackOff::default();
    let mut look = |part: f64, has_filled: bool| {
        back_off.have_read_calls(has_filled);
        let effects = back_off.at_cost(part, 1.0, 2.0);
        (!effects.is_empty()).then(|| back_off.suspends_calls())
    };
    // Not for its other activities.
    assert!((0..9).all(|_| look(2.0, false).is_none()));
    // Nor for a single check.
    let parts = [2.0, 2.0, 0.9];
    assert!(parts.into_iter().all(|part| look(part, true).is_none()));
    assert!((1..EXPENSIVE_LOOKS).all(|_| look(2.0, true).is_none()));
    assert_eq!(look(2.0, true), Some(true));
    // Half of the permitted cost is no reason to read more.
    assert!((0..99).all(|_| look(0.5, false).is_none()));
    assert!((1..CHEAP_LOOKS).all(|_| look(0.1, false).is_none()));
    assert_eq!(look(0.1, false), Some(false));
}

#[test]
fn an_agent_that_is_expensive_predicts_no_decision_until_there_is_room_for_it() {
    let mut back_off = BackOff::default();
    let mut look = |agent: f64, allowed: f64, predicts: bool| {
        if predicts && !back_off.suspends_predictions() {
            back_off.have_predicted();
        }
        let effects = back_off.at_cost(agent, allowed, 2.0);
        (!effects.is_empty()).then(|| back_off.suspends_predictions())
    };
    // Expensive for another activity, or for a single check.
    assert!((0..9).all(|_| look(0.03, 0.02, false).is_none()));
    let agent = [0.03, 0.03, 0.01];
    assert!(agent.into_iter().all(|agent| look(agent, 0.02, true).is_none()));
    assert!((1..EXPENSIVE_LOOKS).all(|_| look(0.03, 0.02, true).is_none()));
    assert_eq!(look(0.03, 0.02, true), Some(true));
    // However cheap it is without predictions: they might make it too expensive again.
    assert!((0..99).all(|_| look(0.001, 0.02, true).is_none()));
    // A job with more CPUs.
    assert!((1..CHEAP_LOOKS).all(|_| look(0.001, 0.11, true).is_none()));
    assert_eq!(look(0.001, 0.11, true), Some(false));
}

#[test]
fn remaining_probes_are_reported_with_their_cost() {
    let mut back_off = BackOff::default();
    let mut effects = BudgetEffects::new();
    for _ in 0..EXPENSIVE_LOOKS {
        back_off.have_read_calls(true);
        effects = back_off.at_cost(0.05, 0.01, 2.0);
    }
    let lines = said(&effects);
    assert_eq!(lines.len(), 1, "decisions were not predicted");
    assert!(
        lines[0].starts_with("note: tuneagent itself takes 5 % of a CPU, more than it may"),
        "{lines:?}"
    );
    assert!(
        lines[0].contains("it reads calls only 2 times a second from now on"),
        "{lines:?}"
    );
}

#[test]
fn a_process_without_cpu_time_is_idle_until_it_runs() {
    let mut back_off = BackOff::default();
    let mut tick = |is_still| (back_off.have_ticked(is_still, 0), back_off.is_idle());
    assert!((1..4).all(|_| tick(true) == (false, false)));
    assert_eq!(tick(true), (true, true));
    assert_eq!(tick(true), (false, true));
    assert_eq!(tick(false), (false, false));
    assert!((1..4).all(|_| tick(true) == (false, false)));
    assert_eq!(tick(true), (false, true), "what is done once was done");
    back_off.end_idle();
    assert!(!back_off.is_idle());
}

#[test]
fn ticks_that_find_nothing_come_the_more_seldom_the_more_they_take() {
    let mut back_off = BackOff::default();
    let mut cpu_ns = 0;
    let mut after = |took_ns| {
        cpu_ns += took_ns;
        back_off.have_ticked(true, cpu_ns);
        back_off.idle_tick().as_millis()
    };
    // The time before is not taken into account.
    assert!((0..4).all(|_| after(900_000_000) == 2_000));
    assert_eq!(after(700_000), 2_000);
    assert_eq!(after(2_800_000), 4_000);
    assert_eq!(after(28_000_000), 5_000);
    assert_eq!(after(700_000), 2_000);
}

#[test]
fn ticks_come_with_the_shortest_window_and_seldom_while_nothing_happens() {
    let ms = Duration::from_millis;
    let (awake, mut idle) = (BackOff::default(), BackOff::default());
    for _ in 0..4 {
        idle.have_ticked(true, 0);
    }
    assert!(idle.is_idle());
    for (back_off, is_still, may_linger, window, tick) in [
        (&awake, false, true, ms(3000), ms(500)),
        (&awake, false, true, ms(200), ms(200)),
        (&awake, false, true, ms(1), ms(50)),
        (&awake, true, true, ms(3000), ms(1000)),
        (&awake, true, true, ms(200), ms(200)),
        (&idle, true, true, ms(200), ms(2000)),
        // A window with its own length, or a viewer.
        (&idle, true, false, ms(3000), ms(1000)),
        (&idle, true, false, ms(200), ms(200)),
        // A process runs again.
        (&idle, false, true, ms(3000), ms(500)),
    ] {
        let next = back_off.tick(is_still, || may_linger, || window);
        assert_eq!(
            next, tick,
            "still {is_still}, may linger {may_linger}, window {window:?}"
        );
    }
}
