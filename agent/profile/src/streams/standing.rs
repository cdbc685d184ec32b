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

#[cfg(test)]
mod tests {
    use contract::Contract;
    use rules::pseudo_random::mixed;

    use crate::streams::{
        ContractWatch, End, ItemsAre, ModuleProcesses, ObservedGraph, ObservedModule, ObservedStream,
        TimeShares,
    };

    /// Windows of each load.
    const WINDOWS: u32 = 20_000;
    /// Slices of a second each, as in a window of an MPI job.
    const SLICES: usize = 4;

    /// Uniform in (0, 1], from a counter that goes on.
    fn uniform(lot: &mut u64) -> f64 {
        *lot += 1;
        ((mixed(*lot) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Times between arrivals, in seconds, with this mean.
    #[derive(Clone, Copy, Debug)]
    enum Arrivals {
        Poisson,
        Regular,
        /// Regular, and each of them early or late by up to a quarter.
        Jittered,
    }

    impl Arrivals {
        fn pause_s(self, mean_s: f64, lot: &mut u64) -> f64 {
            match self {
                Arrivals::Poisson => -uniform(lot).ln() * mean_s,
                Arrivals::Regular => mean_s,
                Arrivals::Jittered => mean_s * (0.75 + 0.5 * uniform(lot)),
            }
        }
    }

    fn seen(items: &[f64]) -> ObservedGraph {
        let module = |name: &str| ObservedModule {
            name: name.to_owned(),
            about: String::new(),
            shares: TimeShares::default(),
            workers: 1,
            processes: ModuleProcesses::Ranks(Vec::new()),
            counted: 0.0,
            has_computations: false,
        };
        let end = |module| {
            vec![End {
                module,
                items: items.to_vec(),
            }]
        };
        ObservedGraph {
            slices_ns: vec![1_000_000_000; items.len()],
            modules: ["a", "b"].map(module).to_vec(),
            streams: vec![ObservedStream {
                name: "s".to_owned(),
                items_are: ItemsAre::Messages,
                item_bytes: 1.0,
                item: None,
                is_on_demand: false,
                sent: end(0),
                received: end(1),
                basis: String::new(),
            }],
            doubts: Vec::new(),
        }
    }

    /// The share of windows that are called violations, of a load that is this part of what is required.
    fn violated(arrivals: Arrivals, required: f64, part: f64) -> f64 {
        let source = format!(
            "contract: c\nstreams: {{s: {{from: a, to: b}}}}\nmodules: {{a: {{gives: {{s: 1}}}}, b: {{takes: [s]}}}}\n\
             require: [b >= {required}/s]\n"
        );
        let contract = Contract::parse(&source).unwrap();
        let mut watch = ContractWatch::of(&contract, &contract.assess().unwrap()).unwrap();
        let (mut lot, mean_s) = (required.to_bits(), 1.0 / (required * part));
        let mut next_s = uniform(&mut lot) * mean_s;
        for window in 0..WINDOWS {
            let mut items = [0.0; SLICES];
            for (slice, items) in items.iter_mut().enumerate() {
                let end_s = f64::from(window) * SLICES as f64 + slice as f64 + 1.0;
                while next_s < end_s {
                    *items += 1.0;
                    next_s += arrivals.pause_s(mean_s, &mut lot);
                }
            }
            watch.window(f64::from(window), &seen(&items)).unwrap();
        }
        let summary = watch.summary();
        let b = summary.rates.iter().find(|rate| rate.feature == "b").unwrap();
        f64::from(b.windows_violated) / f64::from(WINDOWS)
    }

    #[test]
    fn at_a_load_on_target_one_window_in_a_hundred_or_less_is_called_a_violation() {
        const MOST: f64 = 0.01;
        let standard_error = (MOST * (1.0 - MOST) / f64::from(WINDOWS)).sqrt();
        for arrivals in [Arrivals::Poisson, Arrivals::Regular, Arrivals::Jittered] {
            for required in [2.0, 9.7, 40.0] {
                let share = violated(arrivals, required, 1.0);
                // It must be below the bound by more than chance could have made of it.
                assert!(
                    share + 5.0 * standard_error <= MOST,
                    "{arrivals:?} {required}/s: {share}"
                );
            }
        }
    }

    #[test]
    fn at_a_load_far_below_target_most_windows_are_called_violations() {
        for arrivals in [Arrivals::Poisson, Arrivals::Regular, Arrivals::Jittered] {
            let share = violated(arrivals, 40.0, 0.6);
            assert!(share > 0.9, "{arrivals:?}: {share}");
        }
    }
}
