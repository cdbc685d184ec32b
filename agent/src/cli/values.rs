//! Parsers of values on the command line: times, sizes, assignments.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, TryFromFloatSecsError};

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use plan::{Literal, LiteralError, Mode};
use profile::progress::{ProgressSource, StepCount};
use thiserror::Error;

/// Why a text is no value of an option.
#[derive(Debug, PartialEq, Error)]
pub(super) enum ValueError {
    #[error("expected {0}")]
    NotA(&'static str),
    #[error("the value after `{0}=` is empty")]
    NoValue(String),
    #[error("unknown unit of time `{0}`; use ms, s, min or h")]
    TimeUnit(String),
    #[error(transparent)]
    Duration(#[from] TryFromFloatSecsError),
    #[error("`{0}` is too short: 100ms at least")]
    TooShort(String),
    #[error("unknown unit of size `{0}`; use B, KiB, MiB, GiB, kB, MB or GB")]
    SizeUnit(String),
    #[error(transparent)]
    Literal(#[from] LiteralError),
    #[error("expected a step and a number of steps, such as `step/nsteps` or `step/5000`")]
    Progress,
}

/// A number of things, 1 at least.
pub(super) fn number(text: &str) -> Result<u64, ValueError> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or(ValueError::NotA("an integer, 1 or more"))
}

/// `500ms`, `10s`, `2min`, `1h`; a bare number is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, ValueError> {
    let (number, unit) = number_and_unit(text, "a time such as 10s, 500ms or 2min")?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "" | "s" => number,
        "min" | "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(ValueError::TimeUnit(unit.to_owned())),
    };
    Ok(Duration::try_from_secs_f64(seconds)?)
}

/// A time of at least a tenth of a second.
pub(super) fn period(text: &str) -> Result<Duration, ValueError> {
    let period = duration(text)?;
    match period < Duration::from_millis(100) {
        true => Err(ValueError::TooShort(text.to_owned())),
        false => Ok(period),
    }
}

/// `127.0.0.1:9478`, `[::1]:9478`; a bare port is of this machine alone.
pub(super) fn address(text: &str) -> Result<SocketAddr, ValueError> {
    let port = text
        .parse()
        .map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| {
        let expected = "a port up to 65535, or an address and a port such as 127.0.0.1:9478";
        ValueError::NotA(expected)
    })
}

/// `64KiB`, `100MiB`, `2GiB`, `1GB`; a bare number is bytes.
pub(super) fn size(text: &str) -> Result<u64, ValueError> {
    let (number, unit) = number_and_unit(text, "a size such as 64KiB, 100MiB or 2GiB")?;
    let bytes = match unit {
        "" | "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "KB" | "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        _ => return Err(ValueError::SizeUnit(unit.to_owned())),
    };
    Ok((number * bytes) as u64)
}

/// `1%`, `0.5%`; as typed.
pub(super) fn share(text: &str) -> Result<String, ValueError> {
    match number_and_unit(text, "a share such as 1% or 0.5%")? {
        (number, "%") if number > 0.0 && number <= 100.0 => Ok(text.to_owned()),
        _ => Err(ValueError::NotA("a share such as 1% or 0.5%")),
    }
}

/// `step/nsteps` or `step/5000`.
pub(super) fn progress(text: &str) -> Result<ProgressSource, ValueError> {
    let parts = text
        .split_once('/')
        .map(|(step, total)| (step.trim(), total.trim()));
    match parts {
        Some((step, total)) if !step.is_empty() && !total.is_empty() => Ok(ProgressSource::Variable {
            step: step.to_owned(),
            total: match total.parse::<f64>() {
                Ok(number) => StepCount::Number(number),
                Err(_) => StepCount::Variable(total.to_owned()),
            },
        }),
        _ => Err(ValueError::Progress),
    }
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
fn number_and_unit<'a>(text: &'a str, what: &'static str) -> Result<(f64, &'a str), ValueError> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number = number.parse();
    let number = number.map_err(|_| ValueError::NotA(what))?;
    Ok((number, unit))
}

/// A name and a text.
pub(super) fn assignment(text: &str) -> Result<(String, String), ValueError> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok((name.into(), value.into())),
        Some((name, "")) if !name.is_empty() => Err(ValueError::NoValue(name.to_owned())),
        _ => Err(ValueError::NotA("NAME=VALUE, without spaces")),
    }
}

/// A variable and a value for it.
pub(super) fn variable_assignment(text: &str) -> Result<(String, Literal), ValueError> {
    let (name, value) = assignment(text)?;
    Ok((name, value.parse()?))
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
    fn an_assignment_without_a_value_is_not_taken_for_a_mistake_of_its_form() {
        for (text, wrong) in [
            ("chunk=", "the value after `chunk=` is empty"),
            ("chunk", "expected NAME=VALUE, without spaces"),
            ("=", "expected NAME=VALUE, without spaces"),
        ] {
            assert_eq!(variable_assignment(text).unwrap_err().to_string(), wrong);
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert_eq!(size("2GB"), Ok(2_000_000_000));
        assert!(size("much").is_err() && size("3 MiB").is_err() && size("").is_err());
    }
}
