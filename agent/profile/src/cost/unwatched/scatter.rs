//! How the pace of calls varies in windows, which bounds what is said about the time between them.

use abi::Totals;

use super::CountTime;
use crate::statistics::ratio;

/// Readings that are kept.
const MARKS_MAX: usize = 16;

/// The calls of all functions at readings, modulo 2^32: sessions watch many processes.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks(Vec<(CountTime, Box<[u32]>)>);

impl Marks {
    pub(super) fn add(&mut self, at: CountTime, counted: &[Totals]) {
        if self.0.len() >= MARKS_MAX {
            // Longer slices, all of about the same length.
            let mut is_kept = false;
            self.0.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        let calls = counted.iter().map(|totals| totals.calls as u32);
        self.0.push((at, calls.collect()));
    }

    /// The calls of a function from reading to reading, from its first call to the end of a window.
    pub(super) fn slices(
        &self,
        probe: u32,
        (opened, before): (CountTime, &[Totals]),
        (at, counted): (CountTime, &[Totals]),
    ) -> Vec<PaceSlice> {
        let index = probe as usize;
        let calls = |totals: &[Totals]| totals.get(index).map_or(0, |totals| totals.calls as u32);
        let marks = self.0.iter().filter(|(of, _)| of.at_ns < at.at_ns);
        let calls_of = |calls: &[u32]| calls.get(index).copied().unwrap_or_default();
        let mut ends: Vec<(CountTime, u32)> = marks.map(|(of, calls)| (*of, calls_of(calls))).collect();
        if ends.first().is_none_or(|(of, _)| of.at_ns > opened.at_ns) {
            ends.insert(0, (opened, calls(before)));
        }
        ends.push((at, calls(counted)));
        let pairs = ends.iter().zip(&ends[1..]);
        let slices = pairs.map(|((begin, before), (end, calls))| PaceSlice {
            length: end.since(*begin),
            calls: f64::from(calls.wrapping_sub(*before)),
        });
        slices.skip_while(|slice| slice.calls == 0.0).collect()
    }
}

/// Calls of a function in a part of a window, between two readings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PaceSlice {
    pub(super) length: CountTime,
    pub(super) calls: f64,
}

/// The slices of the windows from which a gap is estimated, and of the time just before.
#[derive(Clone, Debug, Default)]
pub(super) struct Slices {
    pub(super) of: Vec<PaceSlice>,
    pub(super) windows: usize,
    /// Calls in the windows.
    pub(super) calls: f64,
}

impl Slices {
    /// Half the width of the 90 % interval of the calls in a gap, as a share of their estimate. `clock` is the
    /// time by which they are estimated, in lengths of all windows together. One slice says nothing about how the
    /// pace varies: 1.
    pub(super) fn share(&self, clock: impl Fn(CountTime) -> f64, gap: CountTime) -> f64 {
        let calls: Vec<f64> = self.of.iter().map(|slice| slice.calls).collect();
        let clocks: Vec<f64> = self.of.iter().map(|slice| clock(slice.length)).collect();
        let pace = ratio(&calls, &clocks);
        let (all, count) = (clocks.iter().sum::<f64>(), calls.len());
        if count < 2 || pace.value <= 0.0 || self.calls <= 0.0 {
            return 1.0;
        }
        let of_slice = pace.half / pace.value * (count as f64).sqrt();
        let length = all / count as f64;
        // The longer windows and gap are, the nearer they are to the mean pace. Each window is used for several
        // gaps, so the errors of these gaps add up instead of cancelling out.
        let of_windows = length * self.windows as f64;
        let of_gap = (length / clock(gap).max(f64::MIN_POSITIVE)).min(1.0);
        // At both ends of a window up to one call more or less is seen.
        let of_ends = (self.windows as f64 / 6.0).sqrt() / self.calls;
        (of_slice * (of_windows + of_gap).sqrt()).hypot(of_ends)
    }
}
