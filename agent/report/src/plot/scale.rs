//! Axes: map values to positions, with round numbers at the ticks.

use rules::Dimension;

/// Maps a range of values to a range of pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    step: f64,
}

impl Scale {
    /// Covers `low` to `high`, extended to multiples of the step between ticks; aims at about `ticks` ticks.
    pub(super) fn new(range: (f64, f64), place: (f64, f64), ticks: f64, dimension: Dimension) -> Scale {
        // Greater values leave no room for a step.
        let (mut low, mut high) = (range.0.clamp(-1e300, 1e300), range.1.clamp(-1e300, 1e300));
        // Include zero unless the values are far above it compared with their variation.
        if low > 0.0 && low < 0.7 * high {
            low = 0.0;
        }
        if high <= low {
            let room = if low == 0.0 { 1.0 } else { low.abs() * 0.1 };
            (low, high) = if low == 0.0 {
                (0.0, room)
            } else {
                (low - room, high + room)
            };
        }
        let unit = unit(high.abs().max(low.abs()), dimension);
        let step = round_step((high - low) / unit / ticks) * unit;
        Scale {
            low: (low / step + 1e-9).floor() * step,
            high: (high / step - 1e-9).ceil() * step,
            from: place.0,
            to: place.1,
            step,
        }
    }

    /// From 0 to exactly `end`.
    pub(super) fn time(end: f64, place: (f64, f64)) -> Scale {
        let end = if end > 0.0 { end } else { 1.0 };
        Scale {
            low: 0.0,
            high: end,
            ..Scale::new((0.0, end), place, 8.0, Dimension::TIME)
        }
    }

    pub(super) fn place(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The values at the ticks.
    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> + '_ {
        let first = (self.low / self.step).round();
        let count = ((self.high - self.low) / self.step + 1e-6)
            .floor()
            .clamp(0.0, 24.0) as usize;
        (0..=count).map(move |tick| (first + tick as f64) * self.step)
    }
}

/// Ticks of bytes are multiples of powers of 1024, ticks of long times multiples of minutes.
fn unit(size: f64, dimension: Dimension) -> f64 {
    match dimension {
        Dimension { bytes: 1, .. } if size >= 1.0 => 1024_f64.powi(size.log(1024.0).floor() as i32),
        Dimension::TIME if size >= 120.0 => 60.0,
        _ => 1.0,
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powi(step.log10().floor().clamp(-300.0, 300.0) as i32);
    let steps = [1.0, 2.0, 5.0].map(|of| of * power);
    steps
        .into_iter()
        .find(|round| *round >= step * 0.999)
        .unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_in_the_unit_that_people_read() {
        let cases = [
            ((0.0, 0.0914), Dimension::TIME, vec!["0 s", "50 ms", "100 ms"]),
            ((0.2, 0.81), Dimension::NONE, vec!["0", "0.5", "1"]),
            (
                (0.0, 5e6),
                Dimension::BYTES,
                vec!["0 B", "2 MiB", "4 MiB", "6 MiB"],
            ),
            ((980.0, 1000.0), Dimension::NONE, vec!["980", "990", "1 000"]),
            ((3.0, 3.0), Dimension::NONE, vec!["2.6", "2.8", "3", "3.2", "3.4"]),
            ((0.0, 0.0), Dimension::NONE, vec!["0", "0.5", "1"]),
            ((-1.0, 1.0), Dimension::NONE, vec!["-1", "0", "1"]),
            ((0.0, 400.0), Dimension::TIME, vec!["0 s", "5 min", "10 min"]),
        ];
        for (range, dimension, expected) in cases {
            let scale = Scale::new(range, (0.0, 100.0), 3.0, dimension);
            let shown: Vec<String> = scale
                .ticks()
                .map(|tick| rules::quantity::quantity(tick, dimension))
                .collect();
            assert_eq!(shown, expected, "{range:?}");
        }
    }

    #[test]
    fn values_of_any_size_have_a_place_within_the_axis() {
        let sizes = [0.0, 1e-300, 1e-9, 1.0, 1e15, 1e300, f64::MAX];
        for low in sizes.iter().flat_map(|size| [-size, *size]) {
            for high in sizes {
                let scale = Scale::new((low.min(high), high.max(low)), (10.0, 90.0), 3.0, Dimension::NONE);
                for value in [low, high] {
                    let place = scale.place(value);
                    assert!((10.0..=90.0).contains(&place), "{low} {high}: {place}");
                }
                assert!(scale.ticks().count() <= 25);
            }
        }
    }
}
