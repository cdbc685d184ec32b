//! Determines the path to a captured value: where a probe starts and what it reads from there, by the types
//! in the debug information. Reads no memory of a process.

use job::{Job, Member};
use thiserror::Error;
use tuner::dwarf::{self, ArgumentError, ArgumentName, Leaf, StepError, ValueKind};
use tuner::{MarkArgument, MarkPlace, NoArgument, PathStep, VariableName, mark_arguments};

use super::{CaptureStep, Probe, Read, WantedCapture};

/// Why there is no path to a value.
#[derive(Debug, Error)]
pub enum UnreadableCapture {
    #[error("{0}")]
    MarkArgument(NoArgument),
    #[error("the mark passes {0} values")]
    MarkArguments(usize),
    #[error("the layout of a value that a mark passes is not known")]
    MarkLayout,
    #[error("the mark passes only {0}")]
    MarkWidth(&'static str),
    #[error("it is {0}, and no pointer")]
    NoPointer(&'static str),
    #[error("it is a constant")]
    Constant,
    #[error("there is no debug information on it, so the place of its parts is not known")]
    UnknownLayout,
    #[error("there is no debug information on the function, so it is not known which argument is {0}")]
    UnknownArgument(String),
    #[error("it is {0} and no text")]
    NoText(String),
    #[error("it lies more than 2 GiB behind what it is a part of")]
    TooFar,
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    #[error(transparent)]
    Step(#[from] StepError),
}

/// The path to a value.
#[derive(Clone, Debug, Default)]
pub(super) struct CapturePath {
    /// For an argument, the index of its integer register.
    pub(super) register: u8,
    /// The offset added before each read; empty if the register is the value.
    pub(super) reads: Vec<i32>,
    /// For an argument of a mark, its location.
    pub(super) mark: Option<MarkPlace>,
    /// The type of the value, if known.
    leaf: Option<Leaf>,
    /// The type, if it is a number whose type is known without debug information.
    of: Option<&'static str>,
}

impl CapturePath {
    /// The path to a value in the first process that has it. Without debug information only pointers can be
    /// followed, and the type is unknown.
    pub(super) fn to(
        want: &WantedCapture,
        probe: &Probe,
        job: &Job,
    ) -> Result<CapturePath, UnreadableCapture> {
        if let (Some(text), Read::Argument(number)) = (&probe.mark, &want.read) {
            return CapturePath::of_mark(want, &mark_arguments(text), *number);
        }
        let mut why = None;
        for member in &job.members {
            match CapturePath::by_types(want, probe, member) {
                Ok(Some(way)) => return way.with_text(want),
                Ok(None) => {}
                Err(error) => why = why.or(Some(error)),
            }
        }
        match why {
            Some(why) => Err(why),
            None => CapturePath::by_pointers(want),
        }
    }

    /// Its type in the syntax of rules, if it is a number.
    pub(super) fn type_name(&self) -> Option<&'static str> {
        let of = self.leaf.as_ref().map(|leaf| leaf.of);
        let number = of.and_then(|of| Some(of.value_type()?.name()));
        let named = of
            .filter(|of| of.kind == ValueKind::Enum)
            .and_then(|of| match of.size {
                1 => Some("i8"),
                2 => Some("i16"),
                4 => Some("i32"),
                8 => Some("i64"),
                _ => None,
            });
        self.of.or(number).or(named)
    }

    /// `None` if there is no debug information about it.
    fn by_types(
        want: &WantedCapture,
        probe: &Probe,
        member: &Member,
    ) -> Result<Option<CapturePath>, UnreadableCapture> {
        let steps = want.steps.iter().map(|step| match step {
            CaptureStep::Field(name) => PathStep::Field(name.clone()),
            CaptureStep::Index(index) => PathStep::Index(i64::from(*index)),
            CaptureStep::Dereference => PathStep::Deref,
        });
        let steps: Vec<PathStep> = steps.collect();
        match &want.read {
            Read::Argument(number) => of_argument(&ArgumentName::Number(*number), &steps, probe, member),
            Read::NamedArgument(name) => {
                of_argument(&ArgumentName::Name(name.clone()), &steps, probe, member)
            }
            Read::Variable(name) => of_variable(name, &steps, member),
            Read::ReturnValue | Read::Bytes => Ok(None),
        }
    }

    /// A value of a mark has a size, but its parts are unknown.
    fn of_mark(
        want: &WantedCapture,
        arguments: &[Result<MarkArgument, NoArgument>],
        number: u8,
    ) -> Result<CapturePath, UnreadableCapture> {
        let argument = match arguments.get(usize::from(number)) {
            Some(Ok(argument)) => argument,
            Some(Err(why)) => return Err(UnreadableCapture::MarkArgument(why.clone())),
            None => return Err(UnreadableCapture::MarkArguments(arguments.len())),
        };
        let of = argument.type_name;
        let is_text = want.stated.is_some_and(|(_, length)| length > 0);
        let follows = want.steps.len() + usize::from(is_text);
        if want.steps.iter().any(|step| *step != CaptureStep::Dereference) {
            return Err(UnreadableCapture::MarkLayout);
        }
        let width = profile::probe::width;
        if follows > 0 && width(of) != Some(8) {
            return Err(UnreadableCapture::NoPointer(of));
        }
        let is_wider = |(stated, _): (&str, u8)| width(stated) > width(of);
        if follows == 0 && want.stated.is_some_and(is_wider) {
            return Err(UnreadableCapture::MarkWidth(of));
        }
        let first = match argument.place {
            MarkPlace::Memory { offset, .. } => Some(offset),
            MarkPlace::Register(_) => None,
            MarkPlace::Constant(_) if follows > 0 => return Err(UnreadableCapture::Constant),
            MarkPlace::Constant(_) => None,
        };
        Ok(CapturePath {
            reads: first.into_iter().chain(vec![0; follows]).collect(),
            mark: Some(argument.place),
            of: (follows == 0).then_some(of),
            ..CapturePath::default()
        })
    }

    fn by_pointers(want: &WantedCapture) -> Result<CapturePath, UnreadableCapture> {
        if want.steps.iter().any(|step| *step != CaptureStep::Dereference) {
            return Err(UnreadableCapture::UnknownLayout);
        }
        // For a text, a register contains a pointer to it; a variable that is a text is read in place.
        let is_text = want.stated.is_some_and(|(_, length)| length > 0);
        let more = match &want.read {
            Read::Bytes => 0,
            Read::Variable(_) => 1,
            _ => usize::from(is_text),
        };
        Ok(CapturePath {
            register: match &want.read {
                // Without debug information all preceding parameters are assumed to be integers.
                Read::Argument(number) => *number,
                Read::NamedArgument(name) => return Err(UnreadableCapture::UnknownArgument(name.clone())),
                _ => 0,
            },
            reads: vec![0; want.steps.len() + more],
            mark: None,
            leaf: None,
            of: (want.read == Read::Bytes).then_some("u64"),
        })
    }

    /// If a text is given as a pointer, the pointer is followed too.
    fn with_text(mut self, want: &WantedCapture) -> Result<CapturePath, UnreadableCapture> {
        let (Some((_, 1..)), Some(leaf)) = (want.stated, &self.leaf) else {
            return Ok(self);
        };
        if leaf.of.kind == ValueKind::Pointer {
            self.reads.push(0);
        } else if leaf.text_bytes.is_none() && !leaf.is_char {
            return Err(UnreadableCapture::NoText(leaf.type_name.clone()));
        }
        Ok(self)
    }
}

fn of_argument(
    argument: &ArgumentName,
    steps: &[PathStep],
    probe: &Probe,
    member: &Member,
) -> Result<Option<CapturePath>, UnreadableCapture> {
    let symbols: Vec<&str> = probe.symbols.iter().map(String::as_str).collect();
    for (module, function) in member.space.functions(&symbols).unwrap_or_default() {
        match dwarf::argument(&module.image, function.address, argument, steps) {
            Ok(value) => {
                return Ok(Some(CapturePath {
                    register: value.register,
                    reads: offsets(value.reads)?,
                    mark: None,
                    leaf: Some(value.leaf),
                    of: None,
                }));
            }
            Err(ArgumentError::Unknown) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn of_variable(
    name: &str,
    steps: &[PathStep],
    member: &Member,
) -> Result<Option<CapturePath>, UnreadableCapture> {
    // A missing variable is reported where its address is resolved.
    let Ok(root) = member.space.variable(&VariableName::from(name)) else {
        return Ok(None);
    };
    let trail = dwarf::trail(&root.module.image, root.link_address, steps);
    let Some(trail) = trail? else {
        return Ok(None);
    };
    Ok(Some(CapturePath {
        register: 0,
        reads: offsets(trail.hops.into_iter().chain([trail.offset]).collect())?,
        mark: None,
        leaf: Some(trail.leaf),
        of: None,
    }))
}

fn offsets(reads: Vec<u64>) -> Result<Vec<i32>, UnreadableCapture> {
    let offsets = reads.into_iter().map(i32::try_from);
    let offsets: Result<Vec<i32>, _> = offsets.collect();
    offsets.map_err(|_| UnreadableCapture::TooFar)
}
