//! Parsers of values on the command line: times, sizes, assignments.

use std::time::Duration;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use plan::{Literal, LiteralError, Mode};

/// `500ms`, `10s`, `2min`, `1h`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text, "a time such as 10s, 500ms or 2min")?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "" | "s" => number,
        "min" | "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("`{unit}` is no unit of time: ms, s, min or h")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// A time of at least a tenth of a second.
pub(super) fn period(text: &str) -> Result<Duration, String> {
    let period = duration(text)?;
    match period < Duration::from_millis(100) {
        true => Err(format!("`{text}` is too short: 100ms at least")),
        false => Ok(period),
    }
}

/// `64KiB`, `100MiB`, `2GiB`, `1GB`; a bare number is bytes.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text, "a size such as 64KiB, 100MiB or 2GiB")?;
    let bytes = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => {
            return Err(format!(
                "`{unit}` is no unit of size: B, KiB, MiB, GiB, kB, MB or GB"
            ));
        }
    };
    Ok((number * bytes) as u64)
}

/// The mode of a rule, by its keyword.
pub(super) fn mode() -> impl TypedValueParser<Value = Mode> {
    let help = |mode| match mode {
        Mode::Off => "It is not evaluated",
        Mode::Advising => "It reports what it finds, and changes nothing",
        Mode::Applying => "It changes the program; only in a session that was started with --apply",
    };
    let values = Mode::ALL.map(|mode| PossibleValue::new(mode.name()).help(help(mode)));
    PossibleValuesParser::new(values).try_map(|word| word.parse::<Mode>())
}

/// Splits a text after its leading number.
fn number_and_unit<'a>(text: &'a str, what: &str) -> Result<(f64, &'a str), String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number = number.parse().map_err(|_| format!("`{text}` is not {what}"))?;
    Ok((number, unit))
}

/// A name and a text.
pub(super) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("`{text}` is not NAME=VALUE")),
    }
}

/// A variable and a value for it.
pub(super) fn variable_assignment(text: &str) -> Result<(String, Literal), String> {
    let (name, value) = assignment(text)?;
    let value = value.parse().map_err(|error: LiteralError| error.to_string())?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5min"), Ok(Duration::from_secs(90)));
        assert!(duration("soon").is_err() && duration("3 weeks").is_err() && duration("").is_err());
        assert!(period("0").is_err() && period("99ms").is_err() && period("100ms").is_ok());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert_eq!(size("2GB"), Ok(2_000_000_000));
        assert!(size("much").is_err() && size("3 MiB").is_err() && size("").is_err());
    }
}
