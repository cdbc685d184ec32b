//! Clocks of two machines. Nothing here reads one: each time stamp is an argument.
//!
//! A ping is stamped when it is sent and when its answer arrives, and by the other machine when it arrives there and
//! is answered. The offset is that of NTP (RFC 5905, section 8): half of the difference of the two ways. It is
//! wrong by at most half of the time that both ways took together, so the exchange with the shortest ways counts.

use std::collections::VecDeque;

/// Exchanges that are remembered.
const RECENT_MAX: usize = 64;
/// How far two clocks may drift apart, in nanoseconds a second: each may be wrong by 100 ppm.
const DRIFT_NS_PER_S: u64 = 200_000;
/// The greatest rate at which a conversion follows a new offset: 1/2000. So converted times never run backwards.
const SLEW: i64 = 2_000;

/// The four time stamps of a ping, in nanoseconds: the outer two by one clock, the inner two by the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub sent_ns: u64,
    pub received_ns: u64,
    pub answered_ns: u64,
    pub back_ns: u64,
}

/// The offset of this machine's clock from another machine's.
#[derive(Clone, Debug, Default)]
pub struct ClockEstimate {
    /// Of exchanges: offset, bound, and when the ping was sent, in nanoseconds.
    recent: VecDeque<(i64, u64, u64)>,
}

impl ClockEstimate {
    /// Takes an exchange; one whose time stamps contradict each other is ignored.
    pub fn take(&mut self, exchange: Exchange) {
        let Exchange {
            sent_ns,
            received_ns,
            answered_ns,
            back_ns,
        } = exchange;
        let all = back_ns.checked_sub(sent_ns);
        let there = answered_ns.checked_sub(received_ns);
        let Some(ways) = all.zip(there).and_then(|(all, there)| all.checked_sub(there)) else {
            return;
        };
        let middle = |first: u64, last: u64| i128::from(first) + i128::from(last);
        let twice = middle(sent_ns, back_ns) - middle(received_ns, answered_ns);
        let Ok(offset) = i64::try_from(twice / 2) else {
            return;
        };
        self.recent.push_back((offset, ways.div_ceil(2), sent_ns));
        while self.recent.len() > RECENT_MAX {
            self.recent.pop_front();
        }
    }

    /// The offset, and how far it may be wrong now, in nanoseconds: the clocks drift from the begin of the exchange on.
    pub fn at(&self, now_ns: u64) -> Option<(i64, u64)> {
        let aged = self.recent.iter().map(|(offset, bound, at_ns)| {
            let age_ns = u128::from(now_ns.saturating_sub(*at_ns));
            let drift = age_ns * u128::from(DRIFT_NS_PER_S) / 1_000_000_000;
            (
                *offset,
                bound.saturating_add(u64::try_from(drift).unwrap_or(u64::MAX)),
            )
        });
        aged.min_by_key(|(_, bound)| *bound)
    }

    /// Number of exchanges that are remembered.
    pub fn len(&self) -> usize {
        self.recent.len()
    }

    pub fn is_empty(&self) -> bool {
        self.recent.is_empty()
    }
}

/// Converts times of this machine to the coordinator's clock. It follows new offsets slowly: converted times keep
/// their order.
#[derive(Clone, Copy, Debug)]
pub struct NodeClock {
    /// From this time on, in nanoseconds, the offset moves to the target.
    from_ns: u64,
    offset_ns: i64,
    target_ns: i64,
    /// The segment before, with its own begin, offset and target.
    before: (u64, i64, i64),
    /// The latest time that was converted.
    latest_ns: u64,
}

impl NodeClock {
    pub fn new(offset_ns: i64) -> NodeClock {
        NodeClock {
            from_ns: 0,
            offset_ns,
            target_ns: offset_ns,
            before: (0, offset_ns, offset_ns),
            latest_ns: 0,
        }
    }

    /// A new offset holds for times after those that have been converted.
    pub fn set(&mut self, offset_ns: i64) {
        if offset_ns == self.target_ns {
            return;
        }
        self.before = (self.from_ns, self.offset_ns, self.target_ns);
        self.offset_ns = offset_at(self.before, self.latest_ns);
        (self.from_ns, self.target_ns) = (self.latest_ns, offset_ns);
    }

    /// The time by the coordinator's clock, in nanoseconds; 0 before that began.
    pub fn convert(&mut self, ns: u64) -> u64 {
        self.latest_ns = self.latest_ns.max(ns);
        let segment = match ns < self.from_ns {
            true => self.before,
            false => (self.from_ns, self.offset_ns, self.target_ns),
        };
        let converted = i128::from(ns) + i128::from(offset_at(segment, ns));
        u64::try_from(converted.max(0)).unwrap_or(u64::MAX)
    }
}

fn offset_at((from_ns, offset_ns, target_ns): (u64, i64, i64), ns: u64) -> i64 {
    let most = i64::try_from(ns.saturating_sub(from_ns)).unwrap_or(i64::MAX) / SLEW;
    let way = target_ns.saturating_sub(offset_ns).clamp(-most, most);
    offset_ns.saturating_add(way)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: f64 = 1e9;

    proptest! {
        /// With any offset, drift and ways of any length, the true offset lies within the stated bound.
        #[test]
        fn the_true_offset_lies_within_the_bound(
            offset_s in -1e5f64..1e5,
            ppm in -100.0f64..100.0,
            // Ways that are shorter than the drift while an answer is held (100 ns) make stamps that contradict each other.
            ways in prop::collection::vec((100u64..5_000_000, 100u64..5_000_000, 0u64..1_000_000, 1u64..1_000), 1..80),
        ) {
            let begin = 200_000 * 1_000_000_000u64;
            let node = |ns: u64| {
                let since = ns as f64 - begin as f64;
                (ns as f64 + offset_s * S + since * ppm * 1e-6).round() as u64
            };
            let mut estimate = ClockEstimate::default();
            let mut now = begin;
            for (there, back, held, pause_ms) in ways {
                now += pause_ms * 1_000_000;
                let sent_ns = now;
                let received_ns = node(now + there);
                let answered_ns = node(now + there + held);
                now += there + held + back;
                estimate.take(Exchange { sent_ns, received_ns, answered_ns, back_ns: now });
                let (offset, bound) = estimate.at(now).unwrap();
                let truth = now as f64 - node(now) as f64;
                // Each stamp is rounded to a nanosecond.
                prop_assert!((offset as f64 - truth).abs() <= bound as f64 + 2.0, "{offset} {truth} {bound}");
            }
        }

        /// Converted times keep their order, whatever offsets come, and times that are read late are converted as
        /// before.
        #[test]
        fn converted_times_keep_their_order(
            steps in prop::collection::vec((1u64..2_000_000_000, -50_000_000i64..50_000_000, any::<bool>()), 1..60),
        ) {
            let mut clock = NodeClock::new(1_000_000_000_000);
            let (mut now, mut last, mut watermark) = (0, 0, 0);
            for (pause, change, moves) in steps {
                now += pause;
                // A hit since the last watermark, read late.
                prop_assert!(clock.convert(now - pause / 2) >= watermark);
                let converted = clock.convert(now);
                prop_assert!(converted >= last);
                (last, watermark) = (converted, converted);
                if moves {
                    clock.set(1_000_000_000_000 + change);
                }
            }
        }
    }

    #[test]
    fn the_exchange_with_the_shortest_ways_counts_until_the_clocks_may_have_drifted() {
        let mut estimate = ClockEstimate::default();
        assert_eq!(estimate.at(5), None);
        let exchange = |at: u64, ways: u64| Exchange {
            sent_ns: at,
            received_ns: at + 1_000_000,
            answered_ns: at + 1_000_000,
            back_ns: at + ways,
        };
        estimate.take(exchange(0, 100));
        estimate.take(exchange(1_000_000_000, 4_000));
        assert_eq!(estimate.at(100), Some((50 - 1_000_000, 50)));
        let (offset, bound) = estimate.at(1_000_004_000).unwrap();
        assert_eq!(
            (offset, bound),
            (2_000 - 1_000_000, 2_000),
            "older by 1 s: 200 us"
        );
        // An answer before the question, and stamps of a peer that lies.
        estimate.take(Exchange {
            back_ns: 0,
            ..exchange(7, 9)
        });
        estimate.take(Exchange {
            answered_ns: u64::MAX,
            ..exchange(7, 9)
        });
        assert_eq!(estimate.len(), 2);
    }
}
