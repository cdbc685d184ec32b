//! What is known of calls that were counted in windows only.

use super::Metered;
use crate::{cost::Estimate, profile::Reading};

impl Metered {
    /// What is known of the calls of a function by a reading; none where all were counted.
    pub(super) fn estimate(&self, probe: usize, at: &Reading) -> Option<Estimate> {
        let first_ns = self.first.as_ref().map_or(at.at_ns, |first| first.at_ns);
        let of_ns = at.at_ns.saturating_sub(first_ns);
        self.unwatched
            .estimate(probe as u32, at.moment(), of_ns, &at.counted)
    }

    /// The functions whose calls are estimated by now.
    pub fn estimates(&self) -> impl Iterator<Item = (usize, Estimate)> + '_ {
        let last = self.last().filter(|_| self.unwatched.has_gaps()).into_iter();
        last.flat_map(|last| {
            let of = |probe| Some((probe, self.estimate(probe, last)?));
            (0..last.counted.len()).filter_map(of)
        })
    }
}
