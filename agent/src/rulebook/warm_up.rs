//! Evaluates a decision without effect shortly before one is likely. The data that a decision needs has left
//! the caches since the last one, and fetching it from memory takes longer than the decision. Works on copies
//! of the engine, so that nothing follows from it.

use std::hint::black_box;

use job::monotonic_ns;
use rules::{Engine, Observation, ProcessId, Time};

use super::{Act, ResolvedDecision, RuleBook};

/// A warm-up that takes longer than this is too slow, in nanoseconds.
const WARM_UP_NS_MAX: u64 = 500_000;

/// Consecutive slow warm-ups after which they end. An interruption may make a single one slow.
const SLOW_MAX: u32 = 3;

/// The hit that the last decision followed or could have followed, and the cost of warm-ups.
#[derive(Debug, Default)]
pub(super) struct EngineWarmUp {
    last: Option<Observation>,
    /// Such a hit was observed since the last tick.
    is_due: bool,
    /// A warm-up was done.
    is_used: bool,
    /// The engine before a tick that decided, and the time of that tick.
    before: Option<(Engine, Time)>,
    /// Consecutive warm-ups that took too long.
    slow: u32,
}

impl EngineWarmUp {
    /// A decision may follow this hit.
    pub(super) fn remember(&mut self, hit: &Observation) {
        self.last = Some(hit.clone());
        self.is_due = true;
    }

    /// At a tick: a copy of the engine if one from before a decision is missing, and this tick may decide.
    pub(super) fn copy(&mut self, engine: &Engine) -> Option<Engine> {
        let is_due = std::mem::take(&mut self.is_due);
        let is_wanted = is_due && self.is_used && self.before.is_none() && self.slow < SLOW_MAX;
        is_wanted.then(|| engine.clone())
    }

    /// Processes the results of that tick. Decisions that are based on a window are repeated in warm-ups.
    pub(super) fn keep(&mut self, copy: Option<Engine>, now: Time, acts: &[Act]) {
        let is_of_window = |act: &Act| matches!(act, Act::Decided(decision) if decision.window_ns.is_some());
        if let Some(engine) = copy
            && acts.iter().any(is_of_window)
        {
            self.before = Some((engine, now));
        }
    }

    /// Rules or processes have changed.
    pub(super) fn forget(&mut self) {
        self.before = None;
    }
}

impl RuleBook {
    /// Evaluates as if the hit that a decision may follow came now. Then repeats the last decision, because
    /// within a window too little is known for a new one. Returns that decision, which is over and must not
    /// be carried out.
    pub(crate) fn warm_up(&mut self, now_ns: u64) -> Option<ResolvedDecision> {
        if self.warm_up.slow >= SLOW_MAX {
            return None;
        }
        let last = self.warm_up.last.clone()?;
        let began_ns = monotonic_ns();
        self.warm_up.is_used = true;
        self.decide_now(last, now_ns);
        let decision = self.decide_again();
        let took_ns = monotonic_ns().saturating_sub(began_ns);
        self.warm_up.slow = match took_ns > WARM_UP_NS_MAX {
            true => self.warm_up.slow + 1,
            false => 0,
        };
        decision
    }

    fn decide_now(&self, mut hit: Observation, now_ns: u64) {
        if let Observation::Hit { time, .. } = &mut hit {
            *time = Time(now_ns);
        }
        let mut engine = self.engine.clone();
        engine.observe(hit);
        for &slot in &self.slots {
            let (process, time) = (ProcessId(slot), Time(now_ns));
            engine.observe(Observation::Watermark { process, time });
        }
        black_box(engine.tick(Time(now_ns)));
    }

    fn decide_again(&self) -> Option<ResolvedDecision> {
        let (before, now) = self.warm_up.before.as_ref()?;
        let outputs = before.clone().tick(*now);
        let mut acts = outputs.into_iter().filter_map(|output| self.act(output));
        acts.find_map(|act| match act {
            Act::Decided(decision) => Some(*decision),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use rules::{CheckedRule, ProbeId, ProcessFacts, Scalar};

    use super::*;

    const RULE: &str = "rule: a\nabout: b\nroles:\n  master: rank == 0\nprobes:\n  begin: {role: master, entry: f}\n  \
                        end: {role: master, return: f}\ncapture:\n  begin.number: arg(1)\nwindows:\n  \
                        iteration: {from: begin, to: end, key: number}\nmetrics:\n  next: begin.number + 1\ntune:\n  - set: knob\n    \
                        role: master\n    value: next\n    range: 1 <= value\n";

    const MS: u64 = 1_000_000;

    fn book() -> RuleBook {
        let rule = CheckedRule::from_source(RULE).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let mut book = RuleBook::of(vec![rule], Some(&[])).unwrap_or_else(|_| panic!("the rule is loaded"));
        book.start(1);
        let facts = ProcessFacts {
            rank: Some(0),
            ..ProcessFacts::default()
        };
        book.join_facts(0, facts, 1);
        book
    }

    /// Observes a hit as in a session.
    fn hit(book: &mut RuleBook, (probe, number): (usize, Option<u64>), time_ns: u64) {
        let (rule, _, _) = book.engine.rules().next().expect("it has a rule");
        let observed = Observation::Hit {
            rule,
            probe: ProbeId(probe),
            process: ProcessId(0),
            thread: 1,
            time: Time(time_ns),
            duration_ns: 0,
            captures: number
                .map(|number| Ok(Scalar::Number(number as f64)))
                .into_iter()
                .collect(),
        };
        if book.engine.may_decide_at(rule, ProbeId(probe)) {
            book.warm_up.remember(&observed);
        }
        book.engine.observe(observed);
    }

    /// Independent of the load of the machine.
    fn warmed_up(book: &mut RuleBook, now_ns: u64) -> Option<ResolvedDecision> {
        book.warm_up.slow = 0;
        book.warm_up(now_ns)
    }

    /// The decisions in six iterations.
    fn decided(book: &mut RuleBook, warm_up: bool) -> Vec<ResolvedDecision> {
        let mut decisions = Vec::new();
        for number in 1..=6 {
            let at = number * 10 * MS;
            hit(book, (0, Some(number)), at);
            if warm_up {
                warmed_up(book, at + 5 * MS);
            }
            hit(book, (1, None), at + 8 * MS);
            book.watermark(std::iter::once(0), at + 9 * MS);
            for act in book.tick(at + 9 * MS) {
                if let Act::Decided(decision) = act {
                    assert!(book.receipt(decision.id, Ok(()), at + 9 * MS));
                    decisions.push(*decision);
                }
            }
        }
        decisions
    }

    #[test]
    fn rules_that_are_warmed_up_decide_what_they_decide_without() {
        let (mut plain, mut practised) = (book(), book());
        let expected = decided(&mut plain, false);
        assert!(expected.len() >= 5, "{expected:?}");
        assert_eq!(decided(&mut practised, true), expected);
        assert!(plain.warm_up.before.is_none());
    }

    #[test]
    fn what_was_decided_is_decided_again_until_rules_or_processes_are_others() {
        let mut book = book();
        let decisions = decided(&mut book, true);
        for _ in 0..2 {
            let again = warmed_up(&mut book, 100 * MS).expect("it was decided before");
            assert!(
                again.window_ns.is_some() && decisions.contains(&again),
                "{again:?}"
            );
        }
        book.leave(0, 100 * MS);
        assert_eq!(warmed_up(&mut book, 100 * MS), None);
    }
}
