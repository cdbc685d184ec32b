//! Processes of a command that join while functions are not watched.

use super::*;

fn in_gap() -> Budget {
    let mut budget = budget();
    looks(&mut budget, [0.05, 0.05, 0.0, 0.0], 4, STATE);
    budget
}

#[test]
fn a_process_that_joins_outside_a_gap_gets_no_window() {
    let mut budget = budget();
    assert!(!budget.sampling.join(7, Detaching::Possible, S));
    assert_eq!(budget.missing().count(), 0);
}

#[test]
fn a_process_that_joins_in_a_gap_gets_a_window_of_two_seconds() {
    let mut budget = in_gap();
    let now_ns = 4 * S + S / 2;
    assert!(budget.sampling.join(7, Detaching::Possible, now_ns));
    budget.sampling.open(now_ns);
    budget.sampling.attached(now_ns);
    budget.sampling.stay_open(now_ns);
    assert!(budget.sampling.next_ns() >= Some(now_ns + 2 * S));
    // Whatever it costs.
    assert_eq!(budget.sampling.due(now_ns + S, || 1e12), None);
}

#[test]
fn a_process_that_joins_while_links_are_closed_is_seen_afterwards() {
    let mut budget = in_gap();
    let now_ns = 4 * S + S / 2;
    assert!(budget.sampling.join(7, Detaching::Possible, now_ns));
    budget.sampling.wait_for_links();
    budget.sampling.stay_open(now_ns);
    assert_eq!(budget.sampling.take_waiting(), Some(now_ns + 2 * S));
}

#[test]
fn where_so_many_come_that_the_budget_would_not_be_kept_their_begins_are_missing() {
    let mut budget = in_gap();
    let mut now_ns = 4 * S + 1;
    let mut seen = 0;
    for pid in 0..20 {
        if budget.sampling.join(pid, Detaching::Possible, now_ns) {
            seen += 1;
            budget.sampling.open(now_ns);
            budget.sampling.attached(now_ns);
            let opened = Spent {
                at_ns: now_ns,
                ..spent(4, [0.05, 0.05, 0.0, 0.0])
            };
            budget.sampling.opened(opened);
            budget.sampling.stay_open(now_ns);
            now_ns = budget.sampling.next_ns().unwrap();
            let mut after = spent(4, [0.05, 0.05, 0.0, 0.0]);
            after.at_ns = now_ns;
            after.costs.insert(0, after.costs[&0] + 0.1 * S as f64);
            budget.close_window(after, &functions(), STATE);
        }
        now_ns += 1;
    }
    assert!((1..20).contains(&seen), "{seen}");
    let missing: Vec<String> = budget.missing().collect();
    assert!(
        missing
            .iter()
            .any(|text| text.contains("loaded MPI outside a sampling window")),
        "{missing:?}"
    );
}

#[test]
fn where_no_window_can_begin_for_one_its_begin_is_missing() {
    let mut budget = in_gap();
    assert!(!budget.sampling.join(7, Detaching::Impossible, 5 * S));
    assert_eq!(
        budget
            .missing()
            .filter(|text| text.starts_with("1 process"))
            .count(),
        1
    );
}
