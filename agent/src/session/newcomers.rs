//! Ranks that start after the session did join it.

use std::collections::BTreeSet;

use super::{SCAN_PERIOD, Session, ends::Ends, kernel_failure, meter::Metered};
use crate::{clock::monotonic_ns, exit::Failure};

impl Session {
    pub(super) fn look_for_newcomers(&mut self, ends: &Ends) -> Result<(), Failure> {
        let now = monotonic_ns();
        let Some(launcher) = self.job.launcher.clone() else {
            return Ok(());
        };
        if now.saturating_sub(self.scanned_ns) < SCAN_PERIOD.as_nanos() as u64 {
            return Ok(());
        }
        self.scanned_ns = now;
        let known: BTreeSet<i32> = self
            .processes
            .iter()
            .filter(|process| !process.ended)
            .map(|process| process.pid)
            .collect();
        let user = self.job.members.first().map(|member| member.process.uid);
        let newcomers = self.scout.newcomers(&launcher, &known);
        for member in newcomers
            .into_iter()
            .filter(|member| user.is_none_or(|user| user == member.process.uid))
        {
            let asked = super::asked_in(&self.rules, &self.plain, &member);
            let Some(slot) = self.probes.add(&member, asked).map_err(kernel_failure)? else {
                return Ok(());
            };
            let rank = member.rank.map(|rank| rank.number);
            self.processes
                .push(Metered::new(member.process.pid.number, rank, slot));
            self.rules.join(slot, &member, now);
            self.probes
                .watch(slot, member.process.pid.number)
                .map_err(kernel_failure)?;
            ends.watch(member.process.pid.number, slot);
            let who = rank.map_or_else(|| "a process".to_owned(), |rank| format!("rank {rank}"));
            self.painter
                .say(&format!("{who} (pid {}) joined", member.process.pid));
            self.job.members.push(member);
        }
        Ok(())
    }
}
