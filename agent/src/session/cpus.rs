//! CPUs that the job may use, for display: the last reading, and the periods of quotas since the session
//! began.

use job::os_metrics::{CpuShare, Periods, online};
use profile::CpusView;

#[derive(Debug, Default)]
pub(super) struct Cpus {
    first: Option<Periods>,
    last: Option<CpuShare>,
}

impl Cpus {
    pub(super) fn take(&mut self, share: CpuShare) {
        self.first = self.first.or(share.periods);
        self.last = Some(share);
    }

    pub(super) fn view(&self) -> Option<CpusView> {
        let share = self.last.as_ref()?;
        let throttled = share.periods.zip(self.first).map(|(now, first)| {
            let throttled = now.throttled.saturating_sub(first.throttled);
            (throttled, now.all.saturating_sub(first.all))
        });
        Some(CpusView {
            allowed: share.cpus(),
            is_quota: share
                .quota
                .is_some_and(|quota| quota < share.allowed.len() as f64),
            online: online(),
            throttled,
        })
    }
}
