//! Adds and removes rules while a session runs. The session attaches and detaches their probes.

use job::Member;
use plan::Mode;
use profile::probe::Wanted;
use rules::{CheckedRule, RuleId, Time};

use super::{Act, RuleBook, modes, probe_requests};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleConflict {
    /// Another rule has its name, or makes the same change.
    Conflict(String),
}

/// A rule that is being added. It is loaded, but evaluates nothing until its probes are attached.
#[derive(Clone, Debug)]
pub(crate) struct Added {
    id: RuleId,
    pub wanted: Vec<Wanted>,
    numbers: std::ops::Range<usize>,
}

impl RuleBook {
    /// Loads a further rule; `first` is the number of its first probe request.
    pub(crate) fn add(
        &mut self,
        rule: CheckedRule,
        first: usize,
        now_ns: u64,
    ) -> Result<Added, RuleConflict> {
        let name = rule.name().to_owned();
        let id = self
            .engine
            .add(rule, Time(now_ns))
            .map_err(|conflict| RuleConflict::Conflict(conflict.to_string()))?;
        tracing::debug!(rule = name, "added");
        self.has_only_builtin_rules = false;
        let requests = self
            .engine
            .rule(id)
            .map(|rule| probe_requests::requests(id, rule));
        let requests = requests.unwrap_or_default();
        let wanted: Vec<Wanted> = requests
            .iter()
            .filter_map(|request| self.wanted_of(*request))
            .collect();
        let numbers = first..first + requests.len();
        self.requests.extend(numbers.clone().zip(requests));
        Ok(Added { id, wanted, numbers })
    }

    /// Which of a rule's requests apply to a process.
    pub(crate) fn added_in(&self, added: &Added, member: &Member) -> Vec<bool> {
        let facts = self.facts_of(member);
        let requests = self.requests.range(added.numbers.clone());
        requests
            .map(|(_, request)| request.is_of(&facts, &self.engine))
            .collect()
    }

    /// A message if no process has a role of the rule.
    pub(crate) fn fits_none<'a>(
        &self,
        added: &Added,
        mut members: impl Iterator<Item = &'a Member>,
    ) -> Option<String> {
        let rule = self.engine.rule(added.id)?;
        let has_role = |member: &Member| !rule.roles_of(&self.facts_of(member)).is_empty();
        (!members.any(has_role))
            .then(|| "no process has a role of this rule: it measures nothing until one has".to_owned())
    }

    /// The probes are attached: starts the rule's windows.
    pub(crate) fn begin(&mut self, added: &Added, mode: Mode, now_ns: u64) {
        let name = self.name_of(added.id);
        self.warm_up.forget();
        self.engine.begin(added.id, Time(now_ns));
        self.engine.set_mode(added.id, mode);
        if mode == Mode::Applying {
            // The user named this rule by adding it.
            self.permissions.name(&name);
            self.permissions.apply(&name);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.redefine();
            recorder.ruled(Time(now_ns), &name, modes::ADDED);
            recorder.ruled(Time(now_ns), &name, mode.name());
        }
    }

    /// The probes could not be attached.
    pub(crate) fn give_up(&mut self, added: &Added) {
        self.take_out(added.id);
    }

    /// Removes a rule; returns the numbers of its probe requests, and the resulting acts. `None` if there is
    /// no such rule.
    pub(crate) fn remove(&mut self, name: &str, now_ns: u64) -> Option<(Vec<usize>, Vec<Act>)> {
        let (id, _, _) = self.engine.rules().find(|(_, rule, _)| rule.name() == name)?;
        if let Some(recorder) = &mut self.recorder {
            recorder.redefine();
            recorder.ruled(Time(now_ns), name, modes::REMOVED);
        }
        self.permissions.remove(name);
        Some(self.take_out(id))
    }

    fn take_out(&mut self, id: RuleId) -> (Vec<usize>, Vec<Act>) {
        self.warm_up.forget();
        let outputs = self.engine.remove(id);
        let acts = outputs
            .into_iter()
            .filter_map(|output| self.act(output))
            .collect();
        let gone = self.requests.iter().filter(|(_, request)| request.rule == id);
        let gone: Vec<usize> = gone.map(|(number, _)| *number).collect();
        self.requests.retain(|_, request| request.rule != id);
        self.pairs.forget_rule(id);
        self.switches.forget_rule(id);
        (gone, acts)
    }
}
