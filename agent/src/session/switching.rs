//! Switches of probes that rules ask for: the session's own, so that nothing is written and they are done at once.

use std::collections::BTreeSet;

use super::{Session, act::time_of_day, orders::Ordered};
use crate::{
    clock::monotonic_ns,
    format::plural,
    rulebook::{Decision, NotDone, Switch},
};

impl Session {
    /// Probes are the session's own: nothing is written, and it is done at once.
    pub(super) fn carry_out_switches(&mut self, decision: Decision) {
        let text = switched(&decision.asked);
        let outcome = self.switch_probes(&decision.switches);
        let said = outcome
            .as_ref()
            .map_or_else(|error| format!("not done: {error}"), |()| text);
        self.painter
            .say(&format!("{}  {}   {said}", time_of_day(), decision.rule));
        let outcome = outcome.map_err(NotDone::for_good);
        self.rules.receipt(decision.id, outcome, monotonic_ns());
        let (id, parts) = (decision.id, Vec::new());
        self.decisions.insert(id, Ordered::new(decision, parts));
    }

    /// What is counted up to now belongs to the state before.
    fn switch_probes(&mut self, switches: &[Switch]) -> Result<(), String> {
        let in_words = |error: crate::kernel::KernelError| error.to_string();
        self.take_all_hits().map_err(in_words)?;
        self.read().map_err(in_words)?;
        self.rules.switch_probes(switches);
        let living = self.processes.iter().filter(|process| process.is_watched());
        let members =
            living.filter_map(|process| Some((process.slot, self.job.members.get(process.slot as usize)?)));
        let members: Vec<_> = members.collect();
        for (want, on) in self.rules.switched() {
            self.probes.switch(want, on, &members).map_err(in_words)?;
        }
        self.read().map_err(in_words)
    }

    /// Puts switches back that a verdict takes back.
    pub(super) fn switch_back(&mut self, decision: u64, slots: Option<&BTreeSet<u32>>) {
        let made = self
            .decisions
            .get(&decision)
            .map(|known| known.decision.switches.as_slice());
        let back = Switch::back(made.unwrap_or_default(), slots);
        if back.is_empty() {
            return;
        }
        if let Err(error) = self.switch_probes(&back) {
            self.painter.say(&format!(
                "{}  probes could not be switched back: {error}",
                time_of_day()
            ));
        }
    }
}

/// What was switched, in one line for all processes.
pub(super) fn switched(asked: &[String]) -> String {
    let what = asked.first().map_or("", String::as_str);
    let what = what.split(" in process").next().unwrap_or(what);
    format!("{what}: done in {}", plural(asked.len(), "process"))
}
