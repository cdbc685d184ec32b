//! Whether a rate has reached its target.

use crate::statistics::Estimate;
use crate::stream_views::WINDOWS_BELOW;

/// The weight of the newest window in a smoothed rate.
const NEWEST_WEIGHT: f64 = 0.4;

/// What came of a target, window by window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    pub(super) last: Option<Estimate>,
    /// The exponentially weighted mean over all windows.
    pub(super) smoothed: Option<f64>,
    pub(super) below: u32,
    /// Windows up to now, one after the other, in which the target was reached.
    pub(super) windows_met: u32,
    pub(super) is_violated: bool,
    pub(super) windows_violated: u32,
    pub(super) counted: f64,
    pub(super) seconds: f64,
}

impl Standing {
    /// Whether it has become violated, or is no longer.
    pub(super) fn take(&mut self, counted: Estimate, least: f64, seconds: f64) -> bool {
        let was_violated = self.is_violated;
        match counted.value + counted.half < least {
            true => self.below += 1,
            false => self.below = 0,
        }
        match counted.value >= least {
            true => self.windows_met += 1,
            false => self.windows_met = 0,
        }
        self.is_violated = self.below >= WINDOWS_BELOW;
        self.windows_violated += u32::from(self.is_violated);
        self.last = Some(counted);
        let before = self.smoothed.unwrap_or(counted.value);
        self.smoothed = Some(before + NEWEST_WEIGHT * (counted.value - before));
        self.counted += counted.value * seconds;
        self.seconds += seconds;
        was_violated != self.is_violated
    }
}
