//! CPUs that the job may use, for display: the last reading, and the periods of quotas since the session
//! began.

use job::os_metrics::{CpuShare, Periods, memory_nodes, online};
use profile::CpusView;

#[derive(Debug, Default)]
pub(super) struct Cpus {
    first: Option<Periods>,
    last: Option<CpuShare>,
    /// Number of running processes that `last` is about.
    processes: usize,
}

impl Cpus {
    /// The CPUs of so many running processes. When ranks that are bound to CPUs end one after the other, those of
    /// the remaining ones are not those of the job.
    pub(super) fn take(&mut self, share: CpuShare, processes: usize) {
        self.first = self.first.or(share.periods);
        let had = self.last.as_ref().map_or(0.0, CpuShare::cpus);
        if processes >= self.processes || share.cpus() >= had {
            self.last = Some(share);
            self.processes = processes;
        }
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
            memory_nodes: memory_nodes(),
            throttled,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpus_of_a_job_are_those_of_all_its_ranks_also_when_some_have_ended() {
        let share = |cpus: &[usize]| CpuShare {
            allowed: cpus.iter().copied().collect(),
            quota: None,
            throttled_ns: None,
            periods: None,
        };
        let mut cpus = Cpus::default();
        // CPUs in the masks of so many processes, and the CPUs that are shown.
        for (masks, processes, shown) in [
            (&[0, 1][..], 2, 2.0),
            (&[1], 1, 2.0),
            (&[0, 1, 2], 1, 3.0),
            (&[0], 1, 1.0),
            (&[0, 1], 2, 2.0),
            (&[0], 2, 1.0),
        ] {
            cpus.take(share(masks), processes);
            assert_eq!(
                cpus.view().map(|view| view.allowed),
                Some(shown),
                "{masks:?} of {processes}"
            );
        }
    }
}
