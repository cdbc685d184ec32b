//! The cost of a hit for the thread that makes it, given how the kernel executes the instruction under the
//! probe and what is done at the hit. The model is linear: a price is a sum of parts, each measured
//! separately.

use plan::Cost;

#[derive(Clone, Debug, PartialEq)]
pub enum PriceSource {
    /// Measured on this machine when the probes were armed.
    Measured,
    /// Default values from another machine, with the reason why measuring failed.
    Table(String),
}

/// The parts of a price, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Prices {
    /// A counted entry, on a nop that the kernel replaces by a call.
    pub optimised_ns: f64,
    /// A counted entry, on an instruction that the kernel emulates.
    pub emulated_ns: f64,
    /// A counted entry, on an instruction that is single-stepped.
    pub stepped_ns: f64,
    /// Additional cost of timing a call with probes at the last jumps before its returns.
    pub return_ns: f64,
    /// Additional cost of timing a call with probes at return instructions.
    pub leave_ns: f64,
    /// Additional cost of entering a timed call of a library into the sequence of calls.
    pub sequence_ns: f64,
    pub value_ns: f64,
    pub event_ns: f64,
    /// Aggregating a hit in the kernel.
    pub aggregated_ns: f64,
    /// Each further link at the same instruction, which belongs to another process.
    pub link_ns: f64,
    pub source: PriceSource,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices::table("nothing was measured".to_owned())
    }
}

/// How the end of a call is detected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReturnKind {
    /// Calls are counted at their entries, and not timed.
    #[default]
    Unseen,
    /// The last jumps before return instructions are probed.
    Jump,
    /// Return instructions are probed.
    Instruction,
}

/// The properties of a probed function that decide the cost of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probed {
    /// How the kernel executes the instruction under the entry probe.
    pub entry: Cost,
    /// How returns are detected.
    pub returns: ReturnKind,
    /// The function belongs to a library, and its calls are entered into the sequence of calls.
    pub is_in_sequence: bool,
    pub values: u32,
    pub events: u32,
    /// Hits per call that are aggregated in the kernel.
    pub added: u32,
    /// Links at its instruction: one in total, or one for each process.
    pub links: u32,
}

/// What the two hits of a call cost its thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeTimes {
    /// Between a hit at an entry and what follows in the function.
    pub entry_ns: u64,
    /// Between a hit where the function is left and what follows in its caller.
    pub exit_ns: u64,
}

/// Measured durations of calls of test functions, in nanoseconds each, with nothing subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measured {
    /// A function without probes.
    pub bare: f64,
    /// The entry is counted, on an instruction that the kernel emulates.
    pub emulated: f64,
    /// The entry is counted, on an instruction that is single-stepped.
    pub stepped: f64,
    /// The entry is counted, on a nop that the kernel may replace by a call.
    pub nop: f64,
    /// Entry and last jump are probed.
    pub timed: f64,
    /// Entry and return instruction are probed.
    pub left: f64,
    /// Entry and last jump are probed, and the call is entered into the sequence.
    pub in_sequence: f64,
    /// `values` values are read at the entry.
    pub reading: f64,
    pub values: u32,
    /// Each entry is sent.
    pub sending: f64,
    /// Entry and last jump are probed, and the duration of each call is aggregated in the kernel.
    pub added: f64,
}

impl Prices {
    /// Default prices for when nothing can be measured. They come from the development machine
    /// (docs/performance.md), rounded up.
    pub fn table(why: String) -> Prices {
        Prices {
            optimised_ns: 410.0,
            emulated_ns: 550.0,
            stepped_ns: 8_900.0,
            return_ns: 500.0,
            leave_ns: 8_900.0,
            sequence_ns: 100.0,
            value_ns: 30.0,
            event_ns: 250.0,
            aggregated_ns: 100.0,
            link_ns: LINK_NS,
            source: PriceSource::Table(why),
        }
    }

    /// Computes the parts from complete calls. A part that was measured as negative is within the measurement
    /// error, and becomes 0.
    pub fn from(measured: &Measured) -> Prices {
        let beyond = |overall: f64, part: f64| (overall - part).max(0.0);
        Prices {
            optimised_ns: beyond(measured.nop, measured.bare),
            emulated_ns: beyond(measured.emulated, measured.bare),
            stepped_ns: beyond(measured.stepped, measured.bare),
            return_ns: beyond(measured.timed, measured.emulated),
            leave_ns: beyond(measured.left, measured.emulated),
            sequence_ns: beyond(measured.in_sequence, measured.timed),
            value_ns: beyond(measured.reading, measured.emulated) / f64::from(measured.values.max(1)),
            event_ns: beyond(measured.sending, measured.emulated),
            aggregated_ns: beyond(measured.added, measured.timed),
            link_ns: LINK_NS,
            source: PriceSource::Measured,
        }
    }

    pub(crate) fn entry_ns(&self, site: Cost) -> f64 {
        match site {
            Cost::Optimised => self.optimised_ns,
            Cost::Emulated => self.emulated_ns,
            // Unknown: use the higher price.
            Cost::Stepped | Cost::Unknown => self.stepped_ns,
        }
    }

    /// What the two hits of a call of a function that is probed in this way cost its thread. A single-stepped
    /// entry delays only what follows it.
    pub fn probe_times(&self, probed: &Probed) -> ProbeTimes {
        ProbeTimes {
            entry_ns: self.emulated_ns as u64,
            exit_ns: self.exit_ns(probed.returns) as u64,
        }
    }

    fn exit_ns(&self, returns: ReturnKind) -> f64 {
        match returns {
            ReturnKind::Unseen => 0.0,
            ReturnKind::Jump => self.return_ns,
            ReturnKind::Instruction => self.leave_ns,
        }
    }

    /// The cost of a call, entry and return, of a function that is probed in this way.
    pub fn call_ns(&self, probed: &Probed) -> f64 {
        let sequence = if probed.is_in_sequence {
            self.sequence_ns
        } else {
            0.0
        };
        // Each link is checked at the entry and, if there is one, at the return.
        let moments = if probed.returns == ReturnKind::Unseen {
            1.0
        } else {
            2.0
        };
        let further = f64::from(probed.links.saturating_sub(1)) * moments;
        self.entry_ns(probed.entry)
            + self.exit_ns(probed.returns)
            + sequence
            + f64::from(probed.values) * self.value_ns
            + f64::from(probed.events) * self.event_ns
            + f64::from(probed.added) * self.aggregated_ns
            + further * self.link_ns
    }
}

/// A link of another process at the same instruction: the kernel checks for each link whether the hit belongs
/// to it. Measuring this takes a second process, so the value is from docs/performance.md.
const LINK_NS: f64 = 28.0;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times() -> impl Strategy<Value = Measured> {
        let ns = || 0.0..20_000.0;
        let parts = (ns(), ns(), ns(), ns(), ns(), ns());
        ((ns(), ns(), ns(), ns()), parts, 1_u32..7).prop_map(
            |(
                (bare, emulated, stepped, nop),
                (timed, left, in_sequence, reading, sending, added),
                values,
            )| {
                Measured {
                    bare,
                    emulated,
                    stepped,
                    nop,
                    timed,
                    left,
                    in_sequence,
                    reading,
                    values,
                    sending,
                    added,
                }
            },
        )
    }

    fn probed() -> impl Strategy<Value = Probed> {
        let sites = prop::sample::select(vec![
            Cost::Optimised,
            Cost::Emulated,
            Cost::Stepped,
            Cost::Unknown,
        ]);
        let returns = prop::sample::select(vec![
            ReturnKind::Unseen,
            ReturnKind::Jump,
            ReturnKind::Instruction,
        ]);
        let hits = (0_u32..3, 0_u32..3);
        (sites, returns, any::<bool>(), 0_u32..9, hits, 1_u32..9).prop_map(
            |(entry, returns, is_in_sequence, values, (events, added), links)| Probed {
                entry,
                returns,
                is_in_sequence,
                values,
                events,
                added,
                links,
            },
        )
    }

    proptest! {
        #[test]
        fn no_price_is_negative_whatever_was_measured(measured in times(), probed in probed()) {
            prop_assert!(Prices::from(&measured).call_ns(&probed) >= 0.0);
        }

        #[test]
        fn a_hit_with_more_work_has_no_lower_price(measured in times(), probed in probed()) {
            let prices = Prices::from(&measured);
            let cost = prices.call_ns(&probed);
            let more = [
                Probed { values: probed.values + 1, ..probed },
                Probed { events: probed.events + 1, ..probed },
                Probed { added: probed.added + 1, ..probed },
                Probed { links: probed.links + 1, ..probed },
                Probed { is_in_sequence: true, ..probed },
            ];
            for more in more {
                prop_assert!(prices.call_ns(&more) >= cost, "{more:?}");
            }
            let uncounted = Probed { returns: ReturnKind::Unseen, ..probed };
            prop_assert!(prices.call_ns(&uncounted) <= cost);
        }

        /// The linear model reproduces its inputs.
        #[test]
        fn a_hit_that_was_measured_in_one_costs_as_much_as_its_parts(
            (bare, entry, more, sequence) in (0.0..10.0_f64, 1.0..9_000.0_f64, 0.0..9_000.0_f64, 0.0..500.0_f64),
            adding in 0.0..500.0_f64,
        ) {
            let measured = Measured {
                bare,
                emulated: bare + entry,
                timed: bare + entry + more,
                in_sequence: bare + entry + more + sequence,
                added: bare + entry + more + adding,
                ..Measured::default()
            };
            let overall = Probed {
                entry: Cost::Emulated,
                returns: ReturnKind::Jump,
                is_in_sequence: true,
                values: 0,
                events: 0,
                added: 0,
                links: 1,
            };
            let prices = Prices::from(&measured);
            prop_assert!((prices.call_ns(&overall) - (entry + more + sequence)).abs() < 1e-6);
            let added = Probed { is_in_sequence: false, added: 1, ..overall };
            prop_assert!((prices.call_ns(&added) - (entry + more + adding)).abs() < 1e-6);
        }
    }

    #[test]
    fn an_unknown_site_counts_as_an_expensive_one() {
        let prices = Prices::table(String::new());
        assert_eq!(prices.entry_ns(Cost::Unknown), prices.stepped_ns);
        assert!(prices.entry_ns(Cost::Emulated) < prices.stepped_ns);
    }
}
