//! Dimensions, and the units of literals.
//!
//! A number is stored in seconds and bytes to the powers of its [`Dimension`]. Nothing is evaluated here.

use std::fmt;

/// The dimension of a number: a power of time times a power of bytes. Counts and shares have neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Dimension {
    /// Power of time; the unit is the second.
    pub time: i8,
    pub bytes: i8,
}

impl Dimension {
    /// The base unit of its numbers, for tables: `s`, `B/s`, `1/s`; empty for a plain number.
    pub fn unit(self) -> String {
        let powers = [("s", self.time), ("B", self.bytes)];
        let part = |(name, power): (&str, i8)| match power {
            1 => name.to_string(),
            power => format!("{name}^{power}"),
        };
        let joined = |sign: i8| {
            let of = powers.iter().filter(|(_, power)| power.signum() == sign);
            let parts: Vec<String> = of.map(|(name, power)| part((name, power.abs()))).collect();
            parts.join("*")
        };
        match (joined(1), joined(-1)) {
            (over, under) if under.is_empty() => over,
            (over, under) if over.is_empty() => format!("1/{under}"),
            (over, under) => format!("{over}/{under}"),
        }
    }

    /// A count, a share, a ratio.
    pub const NONE: Dimension = Dimension { time: 0, bytes: 0 };
    /// A duration, in seconds.
    pub const TIME: Dimension = Dimension { time: 1, bytes: 0 };
    /// An amount of data, in bytes.
    pub const BYTES: Dimension = Dimension { time: 0, bytes: 1 };

    pub fn times(self, other: Dimension) -> Option<Dimension> {
        Some(Dimension {
            time: self.time.checked_add(other.time)?,
            bytes: self.bytes.checked_add(other.bytes)?,
        })
    }

    pub fn over(self, other: Dimension) -> Option<Dimension> {
        Some(Dimension {
            time: self.time.checked_sub(other.time)?,
            bytes: self.bytes.checked_sub(other.bytes)?,
        })
    }

    /// The dimension whose square this is.
    pub fn root(self) -> Option<Dimension> {
        (self.time % 2 == 0 && self.bytes % 2 == 0).then_some(Dimension {
            time: self.time / 2,
            bytes: self.bytes / 2,
        })
    }

    pub fn power(self, exponent: i8) -> Option<Dimension> {
        Some(Dimension {
            time: self.time.checked_mul(exponent)?,
            bytes: self.bytes.checked_mul(exponent)?,
        })
    }

    /// The simplest literal of this dimension, such as `1B/1s`, for messages that propose a factor.
    pub fn as_factor(self) -> String {
        let part = |power: i8, unit: &str| match power.unsigned_abs() {
            1 => format!("1{unit}"),
            n => format!("1{unit}^{n}"),
        };
        let parts = [
            (self.bytes, part(self.bytes, "B")),
            (self.time, part(self.time, "s")),
        ];
        let joined = |sign: i8| {
            let parts = parts.iter().filter(|(power, _)| power.signum() == sign);
            parts.map(|(_, text)| text.clone()).collect::<Vec<_>>()
        };
        let (above, below) = (joined(1), joined(-1));
        let above = if above.is_empty() {
            "1".to_string()
        } else {
            above.join(" * ")
        };
        below.iter().fold(above, |text, part| format!("{text} / {part}"))
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match (self.time, self.bytes) {
            (0, 0) => "a plain number",
            (1, 0) => "a time",
            (0, 1) => "bytes",
            (-1, 0) => "a rate (1/time)",
            (-1, 1) => "bytes per time",
            (1, -1) => "time per byte",
            (time, bytes) => {
                let part = |name: &str, power: i8| match power {
                    0 => None,
                    1 => Some(name.to_string()),
                    power => Some(format!("{name}^{power}")),
                };
                let parts = [part("time", time), part("bytes", bytes)];
                return f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" * "));
            }
        };
        f.write_str(name)
    }
}

/// A unit of a literal.
#[derive(Debug)]
pub struct Unit {
    pub name: &'static str,
    pub factor: f64,
    pub dimension: Dimension,
}

const fn unit(name: &'static str, factor: f64, dimension: Dimension) -> Unit {
    Unit {
        name,
        factor,
        dimension,
    }
}

/// Every unit of the language; `%` is the dimensionless hundredth.
pub const UNITS: &[Unit] = &[
    unit("%", 0.01, Dimension::NONE),
    unit("ns", 1e-9, Dimension::TIME),
    unit("us", 1e-6, Dimension::TIME),
    unit("ms", 1e-3, Dimension::TIME),
    unit("s", 1.0, Dimension::TIME),
    unit("min", 60.0, Dimension::TIME),
    unit("B", 1.0, Dimension::BYTES),
    unit("KB", 1e3, Dimension::BYTES),
    unit("MB", 1e6, Dimension::BYTES),
    unit("GB", 1e9, Dimension::BYTES),
    unit("KiB", 1024.0, Dimension::BYTES),
    unit("MiB", 1048576.0, Dimension::BYTES),
    unit("GiB", 1073741824.0, Dimension::BYTES),
    unit("bit", 0.125, Dimension::BYTES),
    unit("kbit", 125.0, Dimension::BYTES),
    unit("Mbit", 125e3, Dimension::BYTES),
    unit("Gbit", 125e6, Dimension::BYTES),
    unit("Mibit", 131072.0, Dimension::BYTES),
];

pub fn unit_named(name: &str) -> Option<&'static Unit> {
    UNITS.iter().find(|unit| unit.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_is_a_formula_of_the_language() {
        assert_eq!(Dimension { time: -1, bytes: 1 }.as_factor(), "1B / 1s");
        assert_eq!(Dimension { time: -2, bytes: 0 }.as_factor(), "1 / 1s^2");
        assert_eq!(Dimension::TIME.as_factor(), "1s");
    }
}
