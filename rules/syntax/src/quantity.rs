//! Quantities as people read them, in rules and in reports: three significant digits without zeros at the end,
//! a unit, thousands apart. Shares and counts, of which tables have many, have two digits.

use crate::unit::Dimension;

/// `91.4 ms`. Two minutes or more are easier to read as minutes, 90 s as seconds.
pub fn duration(ns: f64) -> String {
    time(ns / 1e9)
}

fn time(seconds: f64) -> String {
    let (size, unit) = match seconds.abs() {
        0.0 => return "0 s".to_owned(),
        x if x < 999.5e-9 => (1e-9, "ns"),
        x if x < 999.5e-6 => (1e-6, "us"),
        x if x < 999.5e-3 => (1e-3, "ms"),
        x if x < 120.0 => (1.0, "s"),
        x if x < 120.0 * 60.0 => (60.0, "min"),
        x if x < 48.0 * 3600.0 => (3600.0, "h"),
        _ => (24.0 * 3600.0, "d"),
    };
    format!("{} {unit}", number(seconds / size))
}

/// `512 B`, `3.2 KiB`.
pub fn bytes(amount: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (amount, 0);
    while value.abs() >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", number(value), UNITS[unit])
}

/// `80 %`, `3.1 %`.
pub fn percent(share: f64) -> String {
    // The sum of an empty iterator is -0.
    let value = share * 100.0 + 0.0;
    match value {
        // Beside what is left to 100.
        99.5..99.95 => format!("{value:.1} %"),
        value if value == 0.0 || value >= 9.95 => format!("{value:.0} %"),
        value => format!("{} %", significant(value, 2)),
    }
}

/// A count or a rate: `0.5`, `7.3`, `2 100`.
pub fn count(value: f64) -> String {
    match value < 9.95 && value.fract() != 0.0 {
        true => significant(value, 2),
        false => grouped(&format!("{value:.0}")),
    }
}

/// A plain number; integers in full.
fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-4) {
        return format!("{value:.2e}");
    }
    if value.fract() == 0.0 {
        // Fast path: for exact decimals the library uses arbitrary-precision arithmetic.
        return grouped(&(value as i64).to_string());
    }
    grouped(&significant(value, 3))
}

/// The value of a metric: `79.6 %` of one that is a share, since two values are compared with each other.
pub fn metric(value: f64, dimension: Dimension, is_share: bool) -> String {
    match is_share && dimension == Dimension::NONE {
        true => format!("{} %", number(value * 100.0)),
        false => quantity(value, dimension),
    }
}

/// A number of any dimension, in seconds and bytes: `91.4 ms`, `3.2 KiB`, `2 100/s`.
pub fn quantity(value: f64, dimension: Dimension) -> String {
    match (dimension.time, dimension.bytes) {
        (0, 0) => number(value),
        (1, 0) => time(value),
        (0, 1) => bytes(value),
        (-1, 0) => format!("{}/s", number(value)),
        (-1, 1) => format!("{}/s", bytes(value)),
        (1, -1) => format!("{}/B", time(value)),
        (time, bytes) => {
            let part = |unit: &str, power: i8| match power {
                0 => String::new(),
                1 => format!(" {unit}"),
                power => format!(" {unit}^{power}"),
            };
            format!("{}{}{}", number(value), part("s", time), part("B", bytes))
        }
    }
}

/// A number with this many significant digits, without zeros at the end.
pub fn significant(value: f64, digits: usize) -> String {
    let magnitude = match value == 0.0 {
        true => 0,
        // Rounding may add a digit: 9.996 is 10.0.
        false => (value.abs() * (1.0 + 0.5 / 10f64.powi(digits as i32)))
            .log10()
            .floor() as i32,
    };
    let decimals = (digits as i32 - 1 - magnitude).clamp(0, 6) as usize;
    let mut text = format!("{value:.decimals$}");
    if decimals > 0 {
        let needed = text.trim_end_matches('0').trim_end_matches('.').len();
        text.truncate(needed);
    }
    text
}

/// Separates thousands. A number with decimals has fewer digits.
fn grouped(digits: &str) -> String {
    if digits.contains('.') {
        return digits.to_owned();
    }
    let (sign, number) = digits
        .strip_prefix('-')
        .map_or(("", digits), |number| ("-", number));
    let mut text = String::from(sign);
    for (place, digit) in number.chars().enumerate() {
        if place > 0 && (number.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A shown number without the spaces between its thousands, for commands: `2 000` as `2000`, `90 s` as it is.
pub fn ungrouped(shown: &str) -> String {
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    let mut text = String::with_capacity(shown.len());
    let mut rest = shown.chars().peekable();
    while let Some(c) = rest.next() {
        let separates = c == ' ' && is_digit(text.chars().last()) && is_digit(rest.peek().copied());
        if !separates {
            text.push(c);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_commands_have_no_spaces_between_thousands() {
        for (shown, copied) in [
            ("2 000", "2000"),
            ("-1 234 567", "-1234567"),
            ("2 100/s", "2100/s"),
            ("91.4 ms", "91.4 ms"),
            ("64", "64"),
        ] {
            assert_eq!(ungrouped(shown), copied);
        }
    }

    #[test]
    fn quantities_read_as_people_write_them() {
        const RATE: Dimension = Dimension { time: -1, bytes: 0 };
        const BANDWIDTH: Dimension = Dimension { time: -1, bytes: 1 };
        let cases = [
            (duration(0.0), "0 s"),
            (duration(0.003), "0.003 ns"),
            (duration(750.0), "750 ns"),
            (duration(1310.0), "1.31 us"),
            (duration(91.4e6), "91.4 ms"),
            (duration(9.996e6), "10 ms"),
            (duration(-2.0e9), "-2 s"),
            (duration(90e9), "90 s"),
            (duration(150e9), "2.5 min"),
            (duration(3.6e12), "60 min"),
            (duration(86.4e12), "24 h"),
            (duration(5.7e15), "66 d"),
            (bytes(0.0), "0 B"),
            (bytes(0.5), "0.5 B"),
            (bytes(512.0), "512 B"),
            (bytes(3277.0), "3.2 KiB"),
            (bytes(-65536.0), "-64 KiB"),
            (bytes(3.5 * 1024.0 * 1024.0), "3.5 MiB"),
            (percent(std::iter::empty::<f64>().sum()), "0 %"),
            (percent(0.0034), "0.34 %"),
            (percent(0.0312), "3.1 %"),
            (percent(0.8), "80 %"),
            (percent(0.9973), "99.7 %"),
            (percent(0.9998), "100 %"),
            (count(0.5), "0.5"),
            (count(7.0), "7"),
            (count(2100.0), "2 100"),
            (count(1234567.0), "1 234 567"),
            (metric(0.8, Dimension::NONE, true), "80 %"),
            (metric(0.796, Dimension::NONE, true), "79.6 %"),
            (metric(0.0914, Dimension::TIME, false), "91.4 ms"),
            (quantity(0.003, Dimension::NONE), "0.003"),
            (quantity(6.0, Dimension::NONE), "6"),
            (quantity(-2.5, Dimension::NONE), "-2.5"),
            (quantity(1234567.4, Dimension::NONE), "1 234 567"),
            (quantity(2e-9, Dimension::NONE), "2.00e-9"),
            (quantity(2100.0, RATE), "2 100/s"),
            (quantity(1048576.0, BANDWIDTH), "1 MiB/s"),
            (quantity(2e-9, Dimension { time: 1, bytes: -1 }), "2 ns/B"),
            (quantity(2.0, Dimension { time: 2, bytes: 0 }), "2 s^2"),
        ];
        for (text, expected) in cases {
            assert_eq!(text, expected);
        }
    }
}
