//! The state of the session as it is shown, told and written: puts together what its parts know. Reads nothing new and shows nothing.

use std::time::Duration;

use super::{Session, showing::job_view};
use crate::{
    clock::monotonic_ns,
    kernel::{Kernel, Ring},
    profile::Metered,
    snapshot::{JobView, Snapshot},
};

impl Session {
    /// The state now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let kernel = self.probes.kernel();
        let not_shown = match self.changes.not_shown() {
            0 => None,
            old => Some(format!(
                "the {} before these (tuneagent journal)",
                crate::format::plural(old, "change")
            )),
        };
        Snapshot {
            job: JobView {
                host: self.host.clone(),
                id: self.job_id.clone(),
                ..job_view(&self.job, self.probes.watched())
            },
            taken_at: tuner::clock::now().wall,
            armed_unix_s: self.armed_unix_s,
            elapsed: Duration::from_nanos(monotonic_ns().saturating_sub(self.armed_ns)),
            period: self
                .profile
                .processes
                .iter()
                .map(Metered::period)
                .max()
                .unwrap_or_default(),
            processes: self.process_views(),
            cpus: self.cpus.view(),
            rules: self.rules.views(),
            rule_values: self.rules.values(),
            findings: self.changes.findings.views(),
            changes: self.changes.views(&self.trials()),
            sequence: self.sequence(),
            frequency: self.profile.frequency(),
            cost: self.cost(),
            trace: None,
            matrix: self.matrix(),
            lost: self.lost_by_kind(),
            events: self.events_told(),
            under_way: kernel.map(Kernel::under_way).unwrap_or_default(),
            missing: self
                .probes
                .missing()
                .iter()
                .chain(&self.missing)
                .cloned()
                .chain(self.family_missing())
                .chain(self.budget.missing())
                .chain(kernel.map(Kernel::not_seen).unwrap_or_default())
                .chain(self.hits.as_ref().and_then(Ring::not_seen))
                .chain(not_shown)
                .collect(),
        }
    }
}
