//! CPU time of processes that ended before they could be watched, as the children of a shell script do. The
//! kernel adds the time of a child that has ended to its parent's.

use super::{Metered, Profile};
use crate::format::significant;

/// Least CPU time that is mentioned, in CPUs.
const SHOWN_MIN: f64 = 0.05;

impl Profile {
    /// The CPUs that children used which were not watched, as text for what is missing; `None` if that is little.
    pub fn short_lived(&self) -> Option<String> {
        let cpus = self.unwatched_ns() as f64 / self.read_ns.saturating_sub(self.armed_ns).max(1) as f64;
        let text = || {
            format!(
                "children that ended before they could be watched used {} CPUs",
                significant(cpus, 2)
            )
        };
        (cpus >= SHOWN_MIN).then(text)
    }

    /// What the parents were given by their children, without that of the watched ones.
    fn unwatched_ns(&self) -> u64 {
        let children_ns = |reading: Option<&super::Reading>| Some(reading?.counters?.children_ns);
        let given = |process: &Metered| {
            let (first, last) = (children_ns(process.first())?, children_ns(process.last())?);
            Some(last.saturating_sub(first))
        };
        let of_ended = |process: &Metered| {
            let last = process.last()?.counters?;
            process.ended.then_some(last.cpu_ns + last.children_ns)
        };
        let all: u64 = self.processes.iter().filter_map(given).sum();
        all.saturating_sub(self.processes.iter().filter_map(of_ended).sum())
    }
}

#[cfg(test)]
mod tests {
    use crate::os_metrics::Counters;
    use crate::profile::tests::S;
    use crate::profile::{Inputs, Metered, Profile};

    fn process(ends: bool, readings: [(u64, u64); 2]) -> Metered {
        let mut process = Metered::new(100, None, 0);
        for (now_ns, (cpu_ns, children_ns)) in [S, 11 * S].into_iter().zip(readings) {
            let counters = Counters {
                cpu_ns,
                children_ns,
                ..Counters::default()
            };
            process.read(&Inputs {
                counters: Some(counters),
                has_run: Some(true),
                ..Inputs::at(now_ns)
            });
        }
        process.ended = ends;
        process
    }

    #[test]
    fn time_of_children_that_were_never_seen_is_missing() {
        for (shell, child, missing) in [
            // Six of ten seconds.
            ((4 * S, 10 * S), None, Some("0.6 CPUs")),
            // Five of them were a child's that was watched to its end.
            ((4 * S, 10 * S), Some(5 * S), Some("0.1 CPUs")),
            ((4 * S, 9 * S), Some(5 * S), None),
            ((4 * S, 4 * S), None, None),
        ] {
            let mut processes = vec![process(false, [(S, shell.0), (S, shell.1)])];
            processes.extend(child.map(|cpu_ns| process(true, [(0, 0), (cpu_ns, 0)])));
            let profile = Profile {
                processes,
                armed_ns: S,
                read_ns: 11 * S,
                ..Profile::default()
            };
            let text = profile.short_lived();
            assert_eq!(text.is_some(), missing.is_some(), "{text:?}");
            assert!(text.is_none_or(|text| text.ends_with(missing.unwrap_or_default())));
        }
    }
}
