//! Values that rules want captured at a hit: which the kernel side reads for a function, over all rules that share it, and of
//! which type each is.

use abi::{Capture, CaptureKind};
use tuner::mark::MarkPlace;

use super::{Probe, Wanted, ways::Way};
use crate::discover::Job;

/// Where the way to a value begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// An argument, counted from 0, as at entry.
    Argument(u8),
    /// An argument by its name.
    NamedArgument(String),
    /// What the function returns.
    ReturnValue,
    /// A variable of the program.
    Variable(String),
    /// The bytes that an MPI call hands over.
    Bytes,
}

/// A step on the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To a member of a structure.
    Field(String),
    /// To an element of an array.
    Index(u32),
    /// To what a pointer points to.
    Dereference,
}

/// A type as a rule states it: its name, and of a text the longest length.
pub(super) type Stated = (&'static str, u8);

/// A value that someone wants at the hits of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedCapture {
    /// As a rule writes it; tells it from every other value.
    pub what: String,
    /// Where the way to it begins.
    pub read: Read,
    /// The way.
    pub steps: Vec<Step>,
    /// A variable is read when the function returns, not when it is entered.
    pub at_return: bool,
    /// Its type, where the rule states it.
    pub stated: Option<Stated>,
}

/// A value that the kernel side reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeCapture {
    /// As a rule writes it.
    pub what: String,
    /// As in [`WantedCapture`].
    pub at_return: bool,
    /// Its type; `str` for a text.
    pub type_name: &'static str,
    /// The longest text; 0 for a number.
    pub length: u8,
    /// Where the way to it begins.
    pub read: Read,
    /// What the kernel side is told.
    pub spec: Capture,
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
    /// The way to it is not known.
    #[error("{function}: {what} cannot be captured: {why}")]
    NoWay {
        /// The function.
        function: String,
        /// What is captured.
        what: String,
        /// Why.
        why: String,
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

impl ProbeCapture {
    /// Its name in a recording, which [`ProbeCapture::from_label`] understands.
    pub fn label(&self) -> String {
        let moment = if self.at_return { " at return" } else { "" };
        match self.length {
            0 => format!("{} as {}{moment}", self.what, self.type_name),
            length => format!("{} as str({length}){moment}", self.what),
        }
    }

    /// A capture by its name in a recording; `None` for a name that was not made by [`ProbeCapture::label`].
    pub fn from_label(label: &str) -> Option<ProbeCapture> {
        let (label, at_return) = match label.strip_suffix(" at return") {
            Some(rest) => (rest, true),
            None => (label, false),
        };
        let (what, stated) = label.rsplit_once(" as ")?;
        let text = stated
            .strip_prefix("str(")
            .and_then(|rest| rest.strip_suffix(')'));
        let (type_name, length) = match text {
            Some(length) => (TEXT, length.parse().ok().filter(|length| *length > 0)?),
            None => (*TYPES.iter().find(|known| **known == stated)?, 0),
        };
        // A recording is read from, not a register.
        Some(ProbeCapture {
            what: what.to_owned(),
            at_return,
            type_name,
            length,
            read: Read::ReturnValue,
            spec: Capture::default(),
        })
    }

    /// Whether it is what someone wants.
    pub fn is(&self, wanted: &WantedCapture) -> bool {
        let stated = |(name, length): Stated| self.type_name == name && self.length == length;
        self.what == wanted.what && self.at_return == wanted.at_return && wanted.stated.is_none_or(stated)
    }
}

/// Everything that is wanted at the hits of a function, each value once.
pub(super) fn of_probe(
    probe: &Probe,
    wanted: &[Wanted],
    job: &Job,
) -> Result<Vec<ProbeCapture>, CaptureError> {
    let mut captures: Vec<ProbeCapture> = Vec::new();
    let asking = probe.wanted.iter().filter_map(|index| wanted.get(*index));
    for want in asking.flat_map(|want| &want.captures) {
        let capture = resolve(probe, want, job)?;
        if !captures.contains(&capture) {
            captures.push(capture);
        }
    }
    if captures.len() > abi::MAX_CAPTURES {
        return Err(CaptureError::TooMany {
            function: probe.name.clone(),
            wanted: captures.len(),
        });
    }
    Ok(captures)
}

fn resolve(probe: &Probe, want: &WantedCapture, job: &Job) -> Result<ProbeCapture, CaptureError> {
    let function = || (probe.name.clone(), want.what.clone());
    let way = Way::to(want, probe, job).map_err(|why| {
        let (function, what) = function();
        CaptureError::NoWay { function, what, why }
    })?;
    let known = way.type_name().map(|name| (name, 0));
    let Some((type_name, length)) = want.stated.or(known) else {
        let (function, what) = function();
        return Err(CaptureError::TypeUnknown { function, what });
    };
    // A mark hands over the bits of a number with a fraction.
    let in_register = way.reads.is_empty() && way.mark.is_none();
    // Numbers with a fraction are passed in registers that a probe cannot read, and a text is no number.
    let is_readable = match width(type_name) {
        Some(_) => !(in_register && type_name.starts_with('f')),
        None => length > 0 && !way.reads.is_empty(),
    };
    if !is_readable || way.reads.len() > abi::MAX_READS {
        let (function, what) = function();
        return Err(CaptureError::NotReadable {
            function,
            what,
            type_name,
        });
    }
    let kind = match (&want.read, want.at_return) {
        (Read::Argument(_) | Read::NamedArgument(_), _) => CaptureKind::Argument,
        (Read::ReturnValue, _) => CaptureKind::Return,
        (Read::Variable(_), false) => CaptureKind::VariableAtEntry,
        (Read::Variable(_), true) => CaptureKind::VariableAtReturn,
        (Read::Bytes, _) => CaptureKind::Bytes,
    };
    let mut offsets = [0; abi::MAX_READS];
    offsets[..way.reads.len()].copy_from_slice(&way.reads);
    let mut spec = Capture {
        kind: kind as u8,
        index: way.register,
        width: width(type_name).unwrap_or(length),
        reads: way.reads.len() as u8,
        is_text: u8::from(length > 0),
        offsets,
        ..Capture::default()
    };
    if let Some(place) = way.mark {
        of_mark(&mut spec, place);
    }
    Ok(ProbeCapture {
        what: want.what.clone(),
        at_return: want.at_return,
        type_name,
        length,
        read: want.read.clone(),
        spec,
    })
}

/// Begins where the mark has the value.
fn of_mark(spec: &mut Capture, place: MarkPlace) {
    spec.kind = CaptureKind::Register as u8;
    match place {
        MarkPlace::Register(number) => spec.index = number,
        MarkPlace::Memory { base, index, .. } => {
            spec.index = base;
            (spec.second, spec.shift) = index.map_or((0, 0), |(number, shift)| (number + 1, shift));
        }
        MarkPlace::Constant(value) => {
            spec.kind = CaptureKind::Constant as u8;
            spec.offsets[0] = value as i32;
            spec.offsets[1] = (value >> 32) as i32;
        }
    }
}

/// What a text's type is called.
const TEXT: &str = "str";

/// The types that can be read as numbers.
const TYPES: [&str; 12] = [
    "bool", "char", "i8", "u8", "i16", "u16", "i32", "u32", "f32", "i64", "u64", "f64",
];

pub(super) fn width(type_name: &str) -> Option<u8> {
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

    fn labelled(what: &str, at_return: bool, type_name: &'static str, length: u8) -> ProbeCapture {
        ProbeCapture {
            what: what.to_owned(),
            at_return,
            type_name,
            length,
            read: Read::ReturnValue,
            spec: Capture::default(),
        }
    }

    #[test]
    fn a_label_says_everything_about_a_capture() {
        for type_name in TYPES {
            assert!(
                width(type_name).is_some() && number(0, type_name).is_some(),
                "{type_name}"
            );
            for what in [
                "arg(3)",
                "what it returns",
                "cfg.chunk",
                "*arg(1)",
                "Class::member",
                "head->next->n",
            ] {
                for at_return in [false, true] {
                    let capture = labelled(what, at_return, type_name, 0);
                    assert_eq!(ProbeCapture::from_label(&capture.label()), Some(capture));
                }
            }
        }
        let text = labelled("arg(0)", false, TEXT, 32);
        assert_eq!(text.label(), "arg(0) as str(32)");
        assert_eq!(ProbeCapture::from_label(&text.label()), Some(text));
        assert_eq!(ProbeCapture::from_label("arg(0) as str(0)"), None);
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
