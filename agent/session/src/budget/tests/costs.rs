//! The costs of a session, and their view.

use std::collections::BTreeMap;

use plan::Cost;
use profile::cost::{AgentCost, Prices, Probed, ReturnKind};
use profile::probe::Probe;
use profile::{Baseline, Counters, Inputs, Metered, Profile};

use super::*;

fn agent(cpu_ns: u64) -> AgentCost {
    AgentCost {
        cpu_ns,
        ..AgentCost::default()
    }
}

/// A function whose entry is counted.
fn probed() -> Probed {
    Probed {
        entry: Cost::Emulated,
        returns: ReturnKind::Unseen,
        is_in_sequence: false,
        values: 0,
        events: 0,
        added: 0,
        links: 1,
    }
}

#[test]
fn the_agents_time_before_the_first_reading_is_separate() {
    let mut costs = Costs::armed_in(5);
    assert_eq!(costs.agent(), AgentCost::default());
    costs.take(S, agent(700));
    costs.take(2 * S, agent(1_000));
    assert_eq!((costs.agent().starting_ns, costs.agent().cpu_ns), (700, 300));
}

#[test]
fn the_time_of_an_actuator_that_has_ended_stays() {
    let mut costs = Costs::default();
    for (cpu_ns, shown_ns) in [(700, 0), (1_000, 300), (900, 300), (1_100, 400)] {
        costs.take(S, agent(cpu_ns));
        assert_eq!(costs.agent().cpu_ns, shown_ns);
    }
}

#[test]
fn the_agent_is_looked_at_every_400_ms_at_most() {
    let mut costs = Costs::default();
    assert!(costs.is_due(0));
    costs.take(S, agent(0));
    for (now_ns, is_due) in [(S, false), (S + 399_999_999, false), (S + 400_000_000, true)] {
        assert_eq!(costs.is_due(now_ns), is_due, "{now_ns}");
    }
}

#[test]
fn costs_of_probed_functions_are_read_again_when_there_are_others_and_what_was_detached_is_known() {
    let mut costs = Costs::default();
    costs.take_probed((1, 1), || BTreeMap::from([(0, probed())]));
    costs.take_probed((1, 1), || panic!("nothing has changed"));
    costs.take_probed((0, 1), BTreeMap::new);
    assert_eq!(costs.probed().len(), 1);
}

/// Two processes that called function 0 in 10 s, the second one more often.
fn processes() -> Profile {
    let mut profile = Profile::new(0, Baseline::default());
    for (slot, calls) in [(0, 1_000_000), (1, 3_000_000)] {
        let mut process = Metered::new(100 + slot as i32, Some(slot), slot);
        for (at_s, calls) in [(0, 0), (10, calls)] {
            process.count(Some(vec![abi::Totals {
                calls,
                ..abi::Totals::default()
            }]));
            let counters = Counters {
                cpu_ns: at_s * S,
                ..Default::default()
            };
            process.read(&Inputs {
                counters: Some(counters),
                ..Inputs::at(at_s * S)
            });
        }
        profile.processes.push(process);
    }
    profile.read_ns = 10 * S;
    profile
}

fn view(costs: &Costs, recent: Option<Option<(f64, f64)>>) -> CostView {
    let probe = Probe::new("step", None, abi::ProbeSpec::default());
    let shown = CostContext {
        prices: Prices::table("a test".to_owned()),
        profile: &processes(),
        probes: &[probe],
        held: BTreeMap::new(),
        unread: None,
        armed_ns: 0,
        is_recorded: false,
    };
    costs.view(shown, recent)
}

#[test]
fn hits_cost_their_prices_and_the_process_that_they_delay_most_is_the_slowdown() {
    let mut costs = Costs::armed_in(7);
    costs.take_probed((1, 1), || BTreeMap::from([(0, probed())]));
    let view = view(&costs, None);
    assert_eq!((view.arming_ns, view.job_ns), (7, 20 * S));
    let [probe] = &view.probes[..] else {
        panic!("{:?}", view.probes)
    };
    assert_eq!(
        (probe.name.as_str(), probe.site, probe.calls),
        ("step", "emulated", 4_000_000)
    );
    assert_eq!(probe.ns, 4e6 * 550.0);
    assert!(
        (view.slowdown.probes - 3e6 * 550.0 / 10e9).abs() < 1e-9,
        "{:?}",
        view.slowdown
    );
}

#[test]
fn functions_without_probes_cost_nothing() {
    let view = view(&Costs::default(), None);
    assert!(view.probes.is_empty() && view.slowdown.probes == 0.0);
}

#[test]
fn the_agent_slows_the_program_down_only_where_no_cpu_is_idle() {
    for (idle, slowdown) in [(0.0, 0.1), (0.5, 0.05), (1.0, 0.0), (7.0, 0.0)] {
        let mut costs = Costs::default();
        costs.take(S, agent(0));
        costs.take(10 * S, agent(S));
        // The first call has no earlier time.
        costs.see_idle(0.0, S);
        costs.see_idle(idle, 2 * S);
        let found = view(&costs, None).slowdown.agent;
        assert!((found - slowdown).abs() < 1e-9, "{idle}: {found}");
    }
}

#[test]
fn where_functions_are_sampled_shares_of_late_are_those_of_window_and_gap() {
    let mut costs = Costs::default();
    costs.take_probed((1, 1), || BTreeMap::from([(0, probed())]));
    let late = view(&costs, Some(Some((0.25, 0.5)))).recent;
    assert_eq!(
        (late.probes, late.together, late.most_expensive),
        (Some(0.25), Some(0.5), None)
    );
    let late = view(&costs, Some(None)).recent;
    assert_eq!(
        (late.probes, late.together),
        (None, None),
        "no window is over yet"
    );
    let late = view(&costs, None).recent;
    assert_eq!(late.most_expensive.map(|(name, _)| name), Some("step".to_owned()));
}
