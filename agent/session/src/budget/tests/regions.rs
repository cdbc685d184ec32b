//! Parallel regions are detached if their probes cost too much.

use super::*;

/// 2000 calls of a thread in a second: 3.6 % of its time.
const MANY: f64 = 2_000.0;

fn look(calls: f64) -> RegionCounts {
    RegionCounts {
        calls: vec![0.0, calls],
        ..RegionCounts::default()
    }
}

fn probed() -> Regions {
    let mut regions = Regions::new(4..6);
    regions.begin(S, Vec::new());
    regions
}

#[test]
fn they_are_there_once_they_were_probed() {
    assert!(!Regions::new(4..6).is_there());
    let regions = probed();
    assert_eq!(
        (regions.is_there(), regions.since_ns, regions.wanted()),
        (true, Some(S), 4..6)
    );
}

#[test]
fn few_calls_are_probed_all_the_time() {
    let mut regions = probed();
    // Less than 20 ms, and more than that but less than 0.3 %.
    assert_eq!(regions.look(&look(1_000.0), 2 * S), []);
    assert_eq!(regions.look(&look(2_000.0), 31 * S), []);
}

#[test]
fn many_calls_rest_until_what_they_cost_is_made_up_for() {
    let mut regions = probed();
    let effects = regions.look(&look(MANY), 2 * S);
    assert_eq!(effects[0], BudgetEffect::DetachRegions);
    assert!(matches!(effects[1], BudgetEffect::SayRegionsRest(share) if (share - 0.036).abs() < 1e-9));
    regions.rest();
    assert_eq!(regions.since_ns, None);
    // 36 ms are 0.3 % of 12 s, of which one has passed.
    assert_eq!(regions.look(&look(MANY), 12 * S), []);
    assert_eq!(
        regions.look(&look(MANY), 13 * S + 1),
        [BudgetEffect::AttachRegions]
    );
}

#[test]
fn a_program_that_waits_for_a_cpu_is_probed_in_less_of_the_time() {
    // With a tenth of the CPUs that it wants, the same cost is ten times as much of the time that it runs.
    let crowded = |calls| RegionCounts {
        waiting: 0.9,
        ..look(calls)
    };
    let mut regions = probed();
    assert_eq!(regions.look(&crowded(100.0), 2 * S), []);
    let effects = regions.look(&crowded(MANY), 2 * S);
    assert!(matches!(effects[1], BudgetEffect::SayRegionsRest(share) if (share - 0.36).abs() < 1e-9));
    regions.rest();
    assert_eq!(regions.look(&crowded(MANY), 120 * S), []);
    let later = regions.look(&crowded(MANY), 121 * S + 1);
    assert_eq!(later, [BudgetEffect::AttachRegions]);
}

#[test]
fn while_a_change_is_compared_by_iterations_they_are_probed() {
    let mut regions = probed();
    let judged = RegionCounts {
        is_judged: true,
        ..look(MANY)
    };
    assert_eq!(regions.look(&judged, 2 * S), []);
    let effects = regions.look(&look(MANY), 2 * S);
    assert_eq!(effects[0], BudgetEffect::DetachRegions);
    regions.rest();
    assert_eq!(regions.look(&judged, 3 * S), [BudgetEffect::AttachRegions]);
}

#[test]
fn it_is_said_once_and_calls_of_before_do_not_count() {
    let mut regions = probed();
    regions.look(&look(MANY), 2 * S);
    regions.rest();
    regions.begin(20 * S, vec![0.0, MANY]);
    assert_eq!(regions.look(&look(MANY + 1_000.0), 21 * S), []);
    assert_eq!(
        regions.look(&look(2.0 * MANY), 21 * S),
        [BudgetEffect::DetachRegions]
    );
}

#[test]
fn a_rule_that_counts_them_is_not_disturbed() {
    let mut regions = probed();
    let used = RegionCounts {
        is_used: true,
        ..look(0.0)
    };
    assert_eq!(
        regions.look(&used, 2 * S),
        [BudgetEffect::DetachRegions],
        "and nothing is said"
    );
    regions.rest();
    assert_eq!(regions.look(&used, 60 * S), []);
    assert_eq!(regions.look(&look(0.0), 60 * S), [BudgetEffect::AttachRegions]);
}

#[test]
fn they_rest_for_five_seconds_at_least_and_until_links_are_closed() {
    let mut regions = probed();
    let used = RegionCounts {
        is_used: true,
        ..look(0.0)
    };
    regions.look(&used, 2 * S);
    regions.rest();
    let closing = RegionCounts {
        is_closing: true,
        ..look(0.0)
    };
    assert_eq!(regions.look(&look(0.0), 7 * S - 1), []);
    assert_eq!(regions.look(&closing, 7 * S), []);
    assert_eq!(regions.look(&look(0.0), 7 * S), [BudgetEffect::AttachRegions]);
}

#[test]
fn the_line_names_the_rate_and_the_cost() {
    let line = notice_of_rest(54_321.4, 0.036);
    assert_eq!(
        line,
        "note: parallel regions are probed in sampling windows: probing all (54 321 a second) may cost 3.6 %, more than 0.3 % of \
         the time"
    );
}
