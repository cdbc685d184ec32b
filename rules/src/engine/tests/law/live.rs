//! The law for rules that are added and removed: other rules are unaffected, and a rule that is added later
//! gives the outputs that it would give alone, had the job begun then.

use super::job::{Totals, add_up, counted, measured, observation};
use super::streams::{PROCESSES, Sent, facts};
use super::*;

/// A rule in advising mode with a unique name.
fn guest(rule: &CheckedRule) -> CheckedRule {
    let mut guest = rule.clone();
    guest.name = "guest".to_string();
    guest.tunes.iter_mut().for_each(|tune| tune.action = None);
    guest
}

/// A rule, its hits in order, and their totals so far.
struct Fed<'a> {
    id: RuleId,
    rule: &'a CheckedRule,
    hits: Vec<Sent>,
    totals: Totals,
}

impl<'a> Fed<'a> {
    fn of(id: usize, rule: &'a CheckedRule, turns: &[Turn]) -> Fed<'a> {
        Fed {
            id: RuleId(id),
            rule,
            hits: stream(turns, rule),
            totals: Totals::new(),
        }
    }

    /// Its hits of the 250 ms up to `ms`, and its totals.
    fn feed(&mut self, engine: &mut Engine, ms: u64) {
        let segment = self.hits.iter().filter(|hit| hit.end <= ms && ms < hit.end + 250);
        let mut segment: Vec<Sent> = segment.cloned().collect();
        segment.sort_by_key(|hit| hit.end);
        for sent in &segment {
            let mut hit = observation(sent);
            if let Observation::Hit { rule, .. } = &mut hit {
                *rule = self.id;
            }
            engine.observe(hit);
        }
        add_up(&mut self.totals, &segment);
        for (_, totals) in counted((self.id, self.rule), ms, &self.totals) {
            engine.observe(totals);
        }
    }
}

/// A window by name and number, with the values of its metrics.
type Closed = (String, u64, Vec<(String, String)>);

/// The outputs and windows of a rule from a moment on, independent of the rule's number.
#[derive(Debug, Default, PartialEq)]
struct Said {
    outputs: Vec<Output>,
    windows: Vec<Closed>,
}

impl Said {
    fn take(&mut self, engine: &mut Engine, outputs: Vec<Output>, id: RuleId) {
        let of = |output: &Output| match output {
            Output::Decision(decision) => decision.rule == id,
            Output::FindingOpened(finding) => finding.rule == id,
            Output::FindingClosed { rule, .. } => *rule == id,
            Output::Verdict(verdict) => verdict.rule == id,
        };
        self.outputs.extend(outputs.into_iter().filter(of));
        let closed = engine
            .drain_windows()
            .into_iter()
            .filter(|window| window.rule == id);
        self.windows
            .extend(closed.map(|window| (window.window, window.index, window.metrics)));
    }
}

fn join_all(engine: &mut Engine) {
    for rank in 0..PROCESSES {
        engine.process_joined(ProcessId(rank), facts(rank), Time(0));
    }
}

/// The measures of both rules, then the watermarks.
fn measure_and_mark(engine: &mut Engine, rules: &[&CheckedRule], ms: u64) {
    for (_, observation) in rules
        .iter()
        .flat_map(|rule| measured(rule, &[0; PROCESSES as usize], ms))
    {
        engine.observe(observation);
    }
    for rank in 0..PROCESSES {
        let (process, time) = (ProcessId(rank), Time(ms * MS));
        engine.observe(Observation::Watermark { process, time });
    }
}

/// A host that applies, without a guest or with one between two moments.
fn hosted(host: &CheckedRule, visitor: &CheckedRule, turns: &[Turn], stay: Option<(u64, u64)>) -> Said {
    let mut engine = Engine::new(vec![host.clone()], Time(0)).unwrap();
    engine.set_mode(RuleId(0), Mode::Applying);
    join_all(&mut engine);
    let (mut of_host, mut of_guest) = (Fed::of(0, host, turns), Fed::of(1, visitor, turns));
    let mut said = Said::default();
    for ms in (0..last(turns)).step_by(250) {
        of_host.feed(&mut engine, ms);
        of_guest.feed(&mut engine, ms);
        measure_and_mark(&mut engine, &[host, visitor], ms);
        let outputs = engine.tick(Time(ms * MS));
        said.take(&mut engine, outputs, RuleId(0));
        if stay.is_some_and(|(from, _)| from == ms) {
            assert_eq!(engine.add(visitor.clone(), Time(ms * MS)), Ok(RuleId(1)));
        }
        if stay.is_some_and(|(_, to)| to == ms) {
            engine.remove(RuleId(1));
        }
    }
    said
}

/// The outputs for a guest from a moment on, alone or together with a host.
fn visiting(host: Option<&CheckedRule>, visitor: &CheckedRule, turns: &[Turn], from: u64) -> Said {
    let rules: Vec<CheckedRule> = host.cloned().into_iter().collect();
    let id = RuleId(rules.len());
    let mut engine = Engine::new(rules, Time(0)).unwrap();
    join_all(&mut engine);
    let mut fed = Fed::of(id.0, visitor, turns);
    fed.hits.retain(|hit| host.is_some() || hit.end >= from);
    let mut said = Said::default();
    for ms in (0..last(turns)).step_by(250) {
        if ms == from {
            engine.add(visitor.clone(), Time(ms * MS)).unwrap();
        }
        fed.feed(&mut engine, ms);
        if host.is_some() || ms >= from {
            measure_and_mark(&mut engine, &[visitor], ms);
        }
        let outputs = engine.tick(Time(ms * MS));
        said.take(&mut engine, outputs, id);
    }
    // Rule numbers are normalised, because they depend on the engine.
    for output in &mut said.outputs {
        match output {
            Output::FindingOpened(finding) => finding.rule = RuleId(0),
            Output::FindingClosed { rule, .. } => *rule = RuleId(0),
            Output::Decision(_) | Output::Verdict(_) => {}
        }
    }
    said
}

fn last(turns: &[Turn]) -> u64 {
    (turns.len() as u64 + 4) * super::streams::TURN
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().cases / 4, ..cases() })]

    #[test]
    fn a_rule_that_comes_and_goes_is_not_noticed_by_the_others(
        host in any_checked(),
        visitor in any_checked(),
        turns in prop::collection::vec(any_turn(), 1..7),
        (from, stay) in (0u64..8, 0u64..8),
    ) {
        let visitor = guest(&visitor.rule);
        let stay = (from * 250, (from + stay) * 250);
        let with = hosted(&host.rule, &visitor, &turns, Some(stay));
        let without = hosted(&host.rule, &visitor, &turns, None);
        prop_assert_eq!(with, without, "{:?}", host);
    }

    #[test]
    fn a_rule_that_comes_later_says_what_it_says_alone_from_then_on(
        host in any_checked(),
        visitor in any_checked(),
        turns in prop::collection::vec(any_turn(), 1..7),
        from in 0u64..8,
    ) {
        let (host, visitor) = (guest(&host.rule), guest(&visitor.rule));
        let host = CheckedRule { name: "host".to_string(), ..host };
        let beside = visiting(Some(&host), &visitor, &turns, from * 250);
        let alone = visiting(None, &visitor, &turns, from * 250);
        prop_assert_eq!(beside, alone);
    }
}
