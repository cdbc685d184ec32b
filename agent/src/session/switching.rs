//! Switches of probes that rules ask for: the session's own, so that nothing is written and they are done at once.

use super::{Session, act::time_of_day};
use crate::{format::plural, rulebook::Switch};

impl Session {
    /// What is counted up to now belongs to the state before.
    pub(super) fn switch_probes(&mut self, switches: &[Switch]) -> Result<(), String> {
        let in_words = |error: crate::kernel::KernelError| error.to_string();
        self.take_all_hits().map_err(in_words)?;
        self.read().map_err(in_words)?;
        self.rules.switch_probes(switches);
        let living = self
            .profile
            .processes
            .iter()
            .filter(|process| process.is_watched());
        let members =
            living.filter_map(|process| Some((process.slot, self.job.members.get(process.slot as usize)?)));
        let members: Vec<_> = members.collect();
        for (want, on) in self.rules.switched() {
            self.probes.switch(want, on, &members).map_err(in_words)?;
        }
        self.read().map_err(in_words)
    }

    /// Puts switches back that a verdict takes back.
    pub(super) fn switch_back(&mut self, back: &[Switch]) {
        if let Err(error) = self.switch_probes(back) {
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
