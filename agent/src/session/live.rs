//! Rules that are added to a running session and removed from it: their probes, their windows, their changes.

use super::{Session, changes::Event};
use crate::{
    clock::monotonic_ns,
    format::plural,
    request::{Answer, Given, Mode, RefusalKind},
    rulebook::NotAdded,
};

impl Session {
    /// Takes a rule in beside the others, which do not notice.
    pub(super) fn add_rule(&mut self, given: &Given, mode: Mode) -> Answer {
        if mode == Mode::Applying && !self.options.applies {
            return Answer::refused(RefusalKind::NotPermitted, super::requests::CANNOT_WRITE);
        }
        let rule = match given.check() {
            Ok(rule) => rule,
            Err(failure) => return Answer::refused(RefusalKind::NotThere, failure.message),
        };
        let name = rule.name().to_owned();
        if let Some(why) = self
            .rules
            .refuses_calls_of(&rule)
            .filter(|_| mode == Mode::Applying)
        {
            return Answer::refused(RefusalKind::NotPermitted, format!("{name}: {why}"));
        }
        let failed =
            |error: crate::kernel::KernelError| Answer::refused(RefusalKind::Failed, error.to_string());
        // What was counted before is not the rule's.
        if let Err(error) = self.take_all_hits().and_then(|()| self.read()) {
            return failed(error);
        }
        let first = self.probes.wanted_count();
        self.written.forget();
        let added = match self.rules.add(rule, first, monotonic_ns()) {
            Ok(added) => added,
            Err(NotAdded::Conflict(text)) => return Answer::refused(RefusalKind::NotThere, text),
        };
        let living = self
            .profile
            .processes
            .iter()
            .filter(|process| process.is_watched());
        let members = living.filter_map(|process| {
            let member = self.job.members.get(process.slot as usize)?;
            Some((process.slot, member, self.rules.added_in(&added, member)))
        });
        let members: Vec<_> = members.collect();
        let before = self.probes.missing().len();
        if let Err(error) = self.probes.grow(&self.job, added.wanted.clone(), &members) {
            self.rules.give_up(&added);
            return Answer::refused(RefusalKind::NotThere, format!("{name} is not added: {error}"));
        }
        if self.probes.take_moved() {
            self.lose_hits();
        }
        if let Err(error) = self.read() {
            return failed(error);
        }
        self.rules.begin(&added, mode, monotonic_ns());
        self.painter.say(&format!("{name} added, {}", mode.name()));
        let missing: Vec<String> = self.probes.missing().iter().skip(before).cloned().collect();
        for missing in &missing {
            self.painter.say(&format!("missing: {missing}"));
        }
        Answer::Added {
            rule: name,
            mode,
            missing,
        }
    }

    /// Lets go of a rule: its probes end, and what it has in force is taken back, unless it is to be kept.
    pub(super) fn remove_rule(&mut self, name: &str, keep: bool) -> Answer {
        let failed =
            |error: crate::kernel::KernelError| Answer::refused(RefusalKind::Failed, error.to_string());
        if let Err(error) = self.take_all_hits() {
            return failed(error);
        }
        self.written.forget();
        let Some((gone, acts)) = self.rules.remove(name, monotonic_ns()) else {
            return Answer::refused(RefusalKind::NotThere, self.rules.unknown(name));
        };
        acts.into_iter().for_each(|act| self.take_note_of(act));
        self.give_up();
        let in_force = self.changes.in_force_of(name).count();
        let (put_back, kept) = match keep {
            true => (0, in_force),
            false => (in_force, 0),
        };
        let rule = name.to_owned();
        self.change(Event::Removed { rule, keeps: keep });
        if let Err(error) = self.probes.shrink(&gone) {
            return failed(error);
        }
        let what = match (put_back, kept) {
            (0, 0) => "it had changed nothing".to_owned(),
            (0, kept) => format!("{} left in place", plural(kept, "change")),
            (put_back, _) => format!("{} reverted", plural(put_back, "change")),
        };
        self.painter.say(&format!("{name} removed; {what}"));
        Answer::Removed { put_back, kept }
    }
}
