//! The arguments of a call: converted to the types in the debug information, with the current values of
//! program variables, in registers.

use std::fmt;

use plan::{Argument, ReturnType, Value, ValueError, ValueType};
use thiserror::Error;

use super::function::FoundFunction;
use crate::address::Address;
use crate::arch::x86_64::{
    assemble::{FLOATS_MAX, INTEGERS_MAX, Passed},
    stub,
};
use crate::arena::PAGE;
use crate::dwarf::{self, ValueKind, VariableType};
use crate::error::ActionError;
use crate::memory::Memory;
use crate::process::Process;
use crate::space::AddressSpace;
use crate::variable::{FollowError, Location, VariableName};

/// Bytes of all strings of one call.
const TEXT_BYTES_MAX: usize = (PAGE - stub::DATA_BYTES) as usize;

/// An argument of a call, found and checked.
#[derive(Debug)]
pub(super) struct ResolvedArgument {
    /// For a variable, its value when it was found.
    argument: Argument,
    source: ArgumentSource,
}

/// When an argument gets its value.
#[derive(Debug)]
enum ArgumentSource {
    /// It is the same whenever the call is made.
    Constant,
    /// A variable, by its name: when the call is made.
    Variable(String, Box<Location>),
    /// The value that was read just before the call that is reverted.
    Was,
}

impl fmt::Display for ResolvedArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            ArgumentSource::Variable(name, _) => f.write_str(name),
            ArgumentSource::Was => write!(f, "{}", Argument::Was),
            ArgumentSource::Constant => write!(f, "{}", self.argument),
        }
    }
}

/// Resolves the variables among arguments, and the return type if it is known. `was` has the type of the
/// value read beforehand, if there is one.
pub(super) fn given(
    space: &AddressSpace,
    function: &FoundFunction,
    arguments: Vec<Argument>,
    was: Option<&Argument>,
) -> Result<(Vec<ResolvedArgument>, Option<ReturnType>), ActionError> {
    let error = |why: String| wrong(&function.name, why);
    let mut sources = Vec::new();
    let mut values = Vec::new();
    for argument in arguments {
        let (value, source) = match argument {
            Argument::Variable(name) => {
                let location = space.variable(&VariableName::from(name.as_str()));
                let location = location.map_err(|why| error(why.to_string()))?;
                let value = held(&location, space.memory()).map_err(|why| wrong(&function.name, why))?;
                (value, ArgumentSource::Variable(name, Box::new(location)))
            }
            Argument::Was => {
                let why = "`was` is what is read just before a call; only its inverse passes it".to_owned();
                (of_its_kind(was.ok_or_else(|| error(why))?), ArgumentSource::Was)
            }
            argument => (argument, ArgumentSource::Constant),
        };
        values.push(value);
        sources.push(source);
    }
    let (typed, returns) = typed(function, values)?;
    let given = typed.into_iter().zip(sources);
    let given = given.map(|(argument, source)| match (&source, was) {
        (ArgumentSource::Was, Some(was)) => ResolvedArgument {
            argument: like(&argument, was.clone()),
            source,
        },
        _ => ResolvedArgument { argument, source },
    });
    Ok((given.collect(), returns))
}

/// A value that fits every parameter of its kind: the size of a value that a function of the program returned
/// needs no check.
fn of_its_kind(was: &Argument) -> Argument {
    match was {
        Argument::Double(_) | Argument::Float(_) => Argument::Double(0.0),
        _ => Argument::Integer(0),
    }
}

/// The current values of the arguments.
pub(super) fn now(
    function: &str,
    process: &Process,
    given: &[ResolvedArgument],
) -> Result<Vec<Argument>, ActionError> {
    let memory = Memory::open(process)?;
    let value = |given: &ResolvedArgument| match &given.source {
        ArgumentSource::Constant | ArgumentSource::Was => Ok(given.argument.clone()),
        ArgumentSource::Variable(_, location) => {
            let held = held(location, &memory).map_err(|why| wrong(function, why))?;
            Ok(like(&given.argument, held))
        }
    };
    given.iter().map(value).collect()
}

/// Why what a variable holds cannot be passed.
#[derive(Debug, Error)]
enum HeldError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error("{symbol} cannot be passed: it is not a number, or there is no debug information on it")]
    NoNumber { symbol: String },
    #[error(transparent)]
    Value(#[from] ValueError),
}

/// The value of a variable.
fn held(location: &Location, memory: &Memory) -> Result<Argument, HeldError> {
    let bytes = location.read(memory)?;
    let Some(of) = location.value_type() else {
        return match location.variable_type() {
            Some(of) if of.kind == ValueKind::Pointer => Ok(Argument::Integer(bytes.word().cast_signed())),
            _ => Err(HeldError::NoNumber {
                symbol: location.symbol.clone(),
            }),
        };
    };
    Ok(of_value(Value::from_bytes(of, bytes)?))
}

/// A value as an argument.
pub(super) fn of_value(value: Value) -> Argument {
    match value {
        Value::Bool(value) => Argument::Integer(i64::from(value)),
        Value::I8(value) => Argument::Integer(i64::from(value)),
        Value::I16(value) => Argument::Integer(i64::from(value)),
        Value::I32(value) => Argument::Integer(i64::from(value)),
        Value::I64(value) => Argument::Integer(value),
        Value::U8(value) => Argument::Integer(i64::from(value)),
        Value::U16(value) => Argument::Integer(i64::from(value)),
        Value::U32(value) => Argument::Integer(i64::from(value)),
        Value::U64(value) => Argument::Integer(value.cast_signed()),
        Value::F32(value) => Argument::Float(value),
        Value::F64(value) => Argument::Double(value),
    }
}

/// Converts a value to the kind of argument that the parameter takes.
fn like(kind: &Argument, value: Argument) -> Argument {
    match (kind, value) {
        (Argument::Double(_), Argument::Integer(number)) => Argument::Double(number as f64),
        (Argument::Double(_), Argument::Float(number)) => Argument::Double(f64::from(number)),
        (Argument::Float(_), Argument::Integer(number)) => Argument::Float(number as f32),
        (Argument::Float(_), Argument::Double(number)) => Argument::Float(number as f32),
        (_, value) => value,
    }
}

fn wrong(function: &str, why: impl ToString) -> ActionError {
    ActionError::Arguments {
        function: function.to_owned(),
        why: why.to_string(),
    }
}

/// Arguments converted to the types in the debug information, if there is any, and the return type.
pub(super) fn typed(
    found: &FoundFunction,
    arguments: Vec<Argument>,
) -> Result<(Vec<Argument>, Option<ReturnType>), ActionError> {
    let error = |why: String| wrong(&found.name, why);
    let image = &found.module.image;
    let damaged = |error| {
        ActionError::Module(crate::module::ModuleError::Image {
            path: found.module.path.clone(),
            error,
        })
    };
    let address = found.function.address;
    let Some(parameters) = dwarf::parameters(image, address).map_err(damaged)? else {
        return Ok((arguments, None));
    };
    let count = dwarf::parameter_count(image, address).map_err(damaged)?;
    let count = count.unwrap_or_default();
    let (given, takes) = (arguments.len(), count.named);
    if given < takes || (given > takes && !count.takes_more) {
        let more = if count.takes_more { "or more " } else { "" };
        let noun = if takes == 1 { "argument" } else { "arguments" };
        let verb = if given == 1 { "is" } else { "are" };
        return Err(error(format!(
            "it takes {takes} {more}{noun}, {given} {verb} given"
        )));
    }
    if parameters.len() < takes {
        let index = parameters.len();
        return Err(error(format!(
            "argument {index} is of a type that cannot be passed (a struct by value, or one that is not known)"
        )));
    }
    let of = |index: usize| parameters.get(index).map(|parameter| parameter.of);
    let typed = arguments
        .into_iter()
        .enumerate()
        .map(|(index, argument)| match of(index) {
            Some(of) => as_parameter(of, argument).map_err(|why| error(format!("argument {index} {why}"))),
            // A variadic argument.
            None => Ok(argument),
        });
    let typed = typed.collect::<Result<_, _>>()?;
    let returned = dwarf::return_type(image, address).map_err(damaged)?;
    Ok((typed, returned.map(return_type)))
}

/// Why a parameter does not take an argument.
#[derive(Debug, Error)]
enum ParameterError {
    #[error("is a long double, which cannot be passed")]
    LongDouble,
    #[error("is a number, not a text")]
    Number,
    #[error("is not a floating-point number")]
    NoFloat,
    #[error("is {0}, not a text")]
    NoText(VariableType),
    #[error("is {of}: {number} does not fit")]
    TooLarge { of: VariableType, number: i64 },
}

/// An argument as a parameter of this type takes it.
fn as_parameter(of: VariableType, argument: Argument) -> Result<Argument, ParameterError> {
    match (of.kind, argument) {
        (ValueKind::Float, _) if of.size > 8 => Err(ParameterError::LongDouble),
        (ValueKind::Float, Argument::Text(_)) => Err(ParameterError::Number),
        (ValueKind::Float, argument) if of.size == 4 => Ok(like(&Argument::Float(0.0), argument)),
        (ValueKind::Float, argument) => Ok(like(&Argument::Double(0.0), argument)),
        (_, Argument::Double(_) | Argument::Float(_)) => Err(ParameterError::NoFloat),
        (ValueKind::Pointer, argument) => Ok(argument),
        (_, Argument::Text(_)) => Err(ParameterError::NoText(of)),
        (_, Argument::Integer(number)) => match fits(of, number) {
            true => Ok(Argument::Integer(number)),
            false => Err(ParameterError::TooLarge { of, number }),
        },
        (_, argument) => Ok(argument),
    }
}

/// Whether an integer is a value of a type. Values of 8 bytes are passed unchanged: unsigned ones above the
/// greatest i64 are negative here.
fn fits(of: VariableType, number: i64) -> bool {
    let bits = of.size.saturating_mul(8);
    let (signed, unsigned) = match u32::try_from(bits) {
        Ok(bits @ 1..64) => (
            -(1_i64 << (bits - 1))..1 << (bits - 1),
            0..1_i64.checked_shl(bits).unwrap_or(i64::MAX),
        ),
        _ => return true,
    };
    match of.kind {
        ValueKind::Bool => matches!(number, 0 | 1),
        ValueKind::Signed => signed.contains(&number),
        ValueKind::Unsigned => unsigned.contains(&number),
        _ => signed.contains(&number) || unsigned.contains(&number),
    }
}

fn return_type(known: Option<VariableType>) -> ReturnType {
    match known {
        None => ReturnType::Nothing,
        Some(of) if of.kind == ValueKind::Pointer => ReturnType::Pointer,
        Some(of) if of.kind == ValueKind::Enum => ReturnType::Value(ValueType::I32),
        Some(of) => of
            .value_type()
            .map_or(ReturnType::Value(ValueType::I64), ReturnType::Value),
    }
}

/// Assigns arguments to registers, and appends strings to `data`, which will be at address `at`.
pub(super) fn pass(
    function: &str,
    arguments: &[Argument],
    data: &mut Vec<u8>,
    at: Address,
) -> Result<Passed, ActionError> {
    let mut passed = Passed::default();
    for argument in arguments {
        match argument {
            Argument::Integer(number) => passed.integers.push(number.cast_unsigned()),
            Argument::Double(number) => passed.floats.push(number.to_bits()),
            Argument::Float(number) => passed.floats.push(u64::from(number.to_bits())),
            Argument::Text(text) => {
                passed.integers.push(at.0 + data.len() as u64);
                data.extend(text.as_bytes());
                data.push(0);
            }
            Argument::Variable(_) | Argument::Was => {
                let why = format!("`{argument}` is not a constant, and only constants can be passed here");
                return Err(wrong(function, why));
            }
        }
    }
    let why = match () {
        () if passed.integers.len() > INTEGERS_MAX => {
            format!("more than {INTEGERS_MAX} numbers, addresses and texts")
        }
        () if passed.floats.len() > FLOATS_MAX => format!("more than {FLOATS_MAX} floating-point numbers"),
        () if data.len() > TEXT_BYTES_MAX => format!("texts of more than {TEXT_BYTES_MAX} bytes"),
        () => return Ok(passed),
    };
    Err(wrong(function, format!("{why} cannot be passed")))
}
