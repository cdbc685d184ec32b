//! Values that rules want captured at a hit: which the kernel side reads for a function, over all rules that share it, and of
//! which type each is.

use abi::{Capture, CaptureKind};

use super::Wanted;
use crate::discover::Job;

/// Where a value is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// An integer argument, counted from 0, as at entry.
    Argument(u8),
    /// What the function returns.
    ReturnValue,
    /// A variable of the program.
    Variable(String),
}

/// A value that someone wants at the hits of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCapture {
    /// Where.
    pub read: Read,
    /// A variable is read when the function returns, not when it is entered.
    pub at_return: bool,
    /// Its type (`i32`, `f64` …), where the rule states it.
    pub type_name: Option<&'static str>,
}

/// A value that the kernel side reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeCapture {
    /// Where.
    pub read: Read,
    /// As in [`WantedCapture`].
    pub at_return: bool,
    /// Its type.
    pub type_name: &'static str,
    /// Which of the registers for integers holds it, for an argument.
    pub register: u8,
}

/// Why a function cannot be probed as asked for.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// Nobody knows the type.
    #[error(
        "{function}: the type of {what} is not known (no debug information); state it in the rule, as in `{what} as i32`"
    )]
    TypeUnknown {
        /// The function.
        function: String,
        /// What is captured, as a rule writes it.
        what: String,
    },
    /// The type is not one that can be read.
    #[error("{function}: {what} cannot be captured as {type_name}")]
    NotReadable {
        /// The function.
        function: String,
        /// What is captured.
        what: String,
        /// As stated.
        type_name: &'static str,
    },
    /// There is no room.
    #[error(
        "{function}: the rules want {wanted} values at its hits, and {} are read at most",
        abi::MAX_CAPTURES
    )]
    TooMany {
        /// The function.
        function: String,
        /// How many.
        wanted: usize,
    },
}

impl Read {
    fn text(&self) -> String {
        match self {
            Read::Argument(index) => format!("arg({index})"),
            Read::ReturnValue => "ret".to_owned(),
            Read::Variable(name) => name.clone(),
        }
    }
}

impl ProbeCapture {
    /// Its name in a recording, which [`ProbeCapture::from_label`] understands.
    pub fn label(&self) -> String {
        let moment = if self.at_return { " at return" } else { "" };
        format!("{} as {}{moment}", self.read.text(), self.type_name)
    }

    /// A capture by its name in a recording; `None` for a name that was not made by [`ProbeCapture::label`].
    pub fn from_label(label: &str) -> Option<ProbeCapture> {
        let (label, at_return) = match label.strip_suffix(" at return") {
            Some(rest) => (rest, true),
            None => (label, false),
        };
        let (read, stated) = label.rsplit_once(" as ")?;
        let type_name = TYPES.iter().find(|known| **known == stated)?;
        let argument = read.strip_prefix("arg(").and_then(|rest| rest.strip_suffix(')'));
        let read = match argument {
            Some(index) => Read::Argument(index.parse().ok()?),
            None if read == "ret" => Read::ReturnValue,
            None => Read::Variable(read.to_owned()),
        };
        // A recording is read from, not a register.
        Some(ProbeCapture {
            read,
            at_return,
            type_name,
            register: 0,
        })
    }

    /// What the kernel side is told.
    pub fn spec(&self) -> Capture {
        let width = width(self.type_name).unwrap_or(8);
        let (kind, index) = match (&self.read, self.at_return) {
            (Read::Argument(_), _) => (CaptureKind::Argument, self.register),
            (Read::ReturnValue, _) => (CaptureKind::Return, 0),
            (Read::Variable(_), false) => (CaptureKind::VariableAtEntry, 0),
            (Read::Variable(_), true) => (CaptureKind::VariableAtReturn, 0),
        };
        Capture {
            kind: kind as u8,
            index,
            width,
            zero: 0,
        }
    }
}

/// Everything that is wanted at the hits of a function, each value once.
pub(super) fn of_function(
    function: &str,
    wanted: &[Wanted],
    job: &Job,
) -> Result<Vec<ProbeCapture>, CaptureError> {
    let mut captures: Vec<ProbeCapture> = Vec::new();
    for want in wanted
        .iter()
        .filter(|want| want.function == function)
        .flat_map(|want| &want.captures)
    {
        let capture = resolve(function, want, job)?;
        if !captures.contains(&capture) {
            captures.push(capture);
        }
    }
    if captures.len() > abi::MAX_CAPTURES {
        return Err(CaptureError::TooMany {
            function: function.to_owned(),
            wanted: captures.len(),
        });
    }
    Ok(captures)
}

fn resolve(function: &str, want: &WantedCapture, job: &Job) -> Result<ProbeCapture, CaptureError> {
    let what = || (function.to_owned(), want.read.text());
    let (register, known) = match &want.read {
        Read::Variable(name) => (
            0,
            job.members.iter().find_map(|member| member.variable_type(name)),
        ),
        Read::Argument(index) => {
            let known = job
                .members
                .iter()
                .find_map(|member| member.parameter(function, *index));
            // Without debug information all parameters before it are taken for integers.
            known.map_or((*index, None), |(register, type_name)| {
                (register, Some(type_name))
            })
        }
        Read::ReturnValue => (0, None),
    };
    let type_name = want.type_name.or(known);
    let Some(type_name) = type_name else {
        let (function, what) = what();
        return Err(CaptureError::TypeUnknown { function, what });
    };
    let in_register = !matches!(want.read, Read::Variable(_));
    // Numbers with a fraction are passed in registers that a probe cannot read.
    if width(type_name).is_none() || (in_register && type_name.starts_with('f')) {
        let (function, what) = what();
        return Err(CaptureError::NotReadable {
            function,
            what,
            type_name,
        });
    }
    Ok(ProbeCapture {
        read: want.read.clone(),
        at_return: want.at_return,
        type_name,
        register,
    })
}

/// The types that can be read.
const TYPES: [&str; 12] = [
    "bool", "char", "i8", "u8", "i16", "u16", "i32", "u32", "f32", "i64", "u64", "f64",
];

fn width(type_name: &str) -> Option<u8> {
    Some(match type_name {
        "bool" | "char" | "i8" | "u8" => 1,
        "i16" | "u16" => 2,
        "i32" | "u32" | "f32" => 4,
        "i64" | "u64" | "f64" => 8,
        _ => return None,
    })
}

/// The number that was read, from the bytes that it takes of its register or its place in memory; a boolean is 0 or 1.
pub fn number(raw: u64, type_name: &str) -> Option<f64> {
    Some(match type_name {
        "bool" => f64::from(u8::from(raw as u8 != 0)),
        "i8" => f64::from(raw as i8),
        "u8" | "char" => f64::from(raw as u8),
        "i16" => f64::from(raw as i16),
        "u16" => f64::from(raw as u16),
        "i32" => f64::from(raw as i32),
        "u32" => f64::from(raw as u32),
        "f32" => f64::from(f32::from_bits(raw as u32)),
        "i64" => raw as i64 as f64,
        "u64" => raw as f64,
        "f64" => f64::from_bits(raw),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_says_everything_about_a_capture() {
        for type_name in TYPES {
            assert!(
                width(type_name).is_some() && number(0, type_name).is_some(),
                "{type_name}"
            );
            for read in [
                Read::Argument(3),
                Read::ReturnValue,
                Read::Variable("cfg.chunk".into()),
            ] {
                for at_return in [false, true] {
                    let capture = ProbeCapture {
                        read: read.clone(),
                        at_return,
                        type_name,
                        register: 0,
                    };
                    assert_eq!(ProbeCapture::from_label(&capture.label()), Some(capture));
                }
            }
        }
        assert_eq!(ProbeCapture::from_label("number"), None);
    }

    #[test]
    fn a_register_is_read_as_far_as_its_type_goes() {
        let cases = [
            (0xffff_ffff_ffff_ffff, "i32", -1.0),
            (0x0000_0001_ffff_fffe, "i32", -2.0),
            (0x0000_0001_0000_0007, "u32", 7.0),
            (0x1ff, "u8", 255.0),
            (0x3ff8_0000_0000_0000, "f64", 1.5),
            (0x3fc0_0000, "f32", 1.5),
            (2, "bool", 1.0),
        ];
        for (raw, type_name, expected) in cases {
            assert_eq!(number(raw, type_name), Some(expected), "{raw:#x} as {type_name}");
        }
        assert_eq!(number(1, "str"), None);
    }
}
