//! Selects the values that the kernel side reads at a function, over all rules that share it.

use abi::{Capture, CaptureKind};
use job::Job;
use profile::probe::width;
use tuner::MarkPlace;

use super::{
    Probe, ProbeCapture, Read, Wanted, WantedCapture,
    ways::{CapturePath, UnreadableCapture},
};

/// Why a function cannot be probed as requested.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The type is unknown.
    #[error(
        "{function}: the type of {what} is not known (no debug information); state it in the rule, as in `{what} as i32`"
    )]
    TypeUnknown {
        function: String,
        /// The captured value, as a rule writes it.
        what: String,
    },
    /// The type cannot be read.
    #[error("{function}: {what} cannot be captured as {type_name}")]
    NotReadable {
        function: String,
        what: String,
        type_name: &'static str,
    },
    /// The path to the value is unknown.
    #[error("{function}: {what} cannot be captured: {why}")]
    Unreadable {
        function: String,
        what: String,
        why: Box<UnreadableCapture>,
    },
    /// There is no room.
    #[error(
        "{function}: the rules want {wanted} values at its hits, and {} are read at most",
        abi::CAPTURES_MAX
    )]
    TooMany { function: String, wanted: usize },
}

/// All values that are requested at the hits of a function, each once.
pub(super) fn of_probe(
    probe: &Probe,
    wanted: &[Wanted],
    job: &Job,
) -> Result<Vec<ProbeCapture>, CaptureError> {
    let mut captures: Vec<ProbeCapture> = Vec::new();
    let requesting = probe.wanted.iter().filter_map(|index| wanted.get(*index));
    for want in requesting.flat_map(|want| &want.captures) {
        let capture = resolve(probe, want, job)?;
        if !captures.contains(&capture) {
            captures.push(capture);
        }
    }
    if captures.len() > abi::CAPTURES_MAX {
        return Err(CaptureError::TooMany {
            function: probe.name.clone(),
            wanted: captures.len(),
        });
    }
    Ok(captures)
}

fn resolve(probe: &Probe, want: &WantedCapture, job: &Job) -> Result<ProbeCapture, CaptureError> {
    let function = || (probe.name.clone(), want.what.clone());
    let way = CapturePath::to(want, probe, job).map_err(|why| {
        let (function, what) = function();
        let why = Box::new(why);
        CaptureError::Unreadable { function, what, why }
    })?;
    let known = way.type_name().map(|name| (name, 0));
    let Some((type_name, length)) = want.stated.or(known) else {
        let (function, what) = function();
        return Err(CaptureError::TypeUnknown { function, what });
    };
    // A mark passes the bits of a floating-point number.
    let in_register = way.reads.is_empty() && way.mark.is_none();
    // Floating-point arguments are passed in registers that a probe cannot read, and a text is not a number.
    let is_readable = match width(type_name) {
        Some(_) => !(in_register && type_name.starts_with('f')),
        None => length > 0 && !way.reads.is_empty(),
    };
    if !is_readable || way.reads.len() > abi::READS_MAX {
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
    let mut offsets = [0; abi::READS_MAX];
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

/// Starts the path where the mark keeps the value.
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
