//! The switch states of rules' probes by process, and totals that exclude what was counted while they were
//! off. Attaches nothing.

use std::collections::BTreeMap;

use rules::{Plan, ProbeId, RuleId};
use session::changes::ProbeSwitch;

/// One probe of a rule in one process.
type MemberProbe = (RuleId, ProbeId, u32);

/// All switches of a session.
#[derive(Debug, Default)]
pub(super) struct Switches {
    state: BTreeMap<MemberProbe, bool>,
    counted: BTreeMap<MemberProbe, SwitchTotals>,
}

/// Totals of a probe that is switched.
#[derive(Clone, Copy, Debug, Default)]
struct SwitchTotals {
    reported: (u64, u64),
    /// Counted while it was off, because another request needed the probe.
    skipped: (u64, u64),
}

impl Switches {
    pub(super) fn set(&mut self, switch: ProbeSwitch) {
        let of = (RuleId(switch.rule), ProbeId(switch.probe), switch.slot);
        self.state.insert(of, switch.on);
    }

    pub(super) fn is_on(&self, of: MemberProbe, plan: &Plan) -> bool {
        let at_first = || plan.probes.get(of.1.0).is_some_and(|probe| !probe.off_at_first);
        self.state.get(&of).copied().unwrap_or_else(at_first)
    }

    /// Whether any of these processes has it on.
    pub(super) fn is_on_in_any(
        &self,
        rule: RuleId,
        probe: ProbeId,
        slots: impl IntoIterator<Item = u32>,
        plan: &Plan,
    ) -> bool {
        slots
            .into_iter()
            .any(|slot| self.is_on((rule, probe, slot), plan))
    }

    /// A new process in a slot begins with the default states.
    pub(super) fn forget(&mut self, slot: u32) {
        self.state.retain(|(_, _, of), _| *of != slot);
        self.counted.retain(|(_, _, of), _| *of != slot);
    }

    pub(super) fn forget_rule(&mut self, rule: RuleId) {
        self.state.retain(|(of, _, _), _| *of != rule);
        self.counted.retain(|(of, _, _), _| *of != rule);
    }

    /// The totals (count, sum) to report for a probe, given those that were read; `None` while it is off.
    pub(super) fn totals(&mut self, of: MemberProbe, is_on: bool, read: (u64, u64)) -> Option<(u64, u64)> {
        let less = |a: (u64, u64), b: (u64, u64)| (a.0.saturating_sub(b.0), a.1.saturating_sub(b.1));
        let counted = self.counted.entry(of).or_default();
        if is_on {
            counted.reported = less(read, counted.skipped);
            Some(counted.reported)
        } else {
            counted.skipped = less(read, counted.reported);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_counted_while_a_probe_is_off_are_not_reported() {
        let of = (RuleId(0), ProbeId(0), 1);
        let switch = |on| ProbeSwitch {
            rule: 0,
            probe: 0,
            slot: 1,
            on,
        };
        let mut switches = Switches::default();
        assert_eq!(switches.totals(of, false, (5, 50)), None);
        switches.set(switch(true));
        assert_eq!(switches.totals(of, true, (7, 70)), Some((2, 20)));
        switches.set(switch(false));
        assert_eq!(switches.totals(of, false, (9, 90)), None);
        switches.set(switch(true));
        assert_eq!(switches.totals(of, true, (10, 100)), Some((3, 30)));
    }
}
