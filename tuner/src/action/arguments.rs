//! What a function is called with: as the debug information wants it, with what variables of the program hold, in registers.

use std::fmt;

use super::function::Found;
use super::{ActionError, Argument, ReturnType};
use crate::address::Address;
use crate::arch::x86_64::assemble::{FLOATS_MAX, INTEGERS_MAX, Passed};
use crate::arch::x86_64::stub;
use crate::arena::PAGE;
use crate::dwarf::{self, Kind, VariableType};
use crate::memory::Memory;
use crate::process::Process;
use crate::space::AddressSpace;
use crate::value::{Value, ValueType};
use crate::variable::{Location, VariableName};

/// Texts of one call, all together.
const TEXT_BYTES_MAX: usize = (PAGE - stub::DATA_BYTES) as usize;

/// An argument of a call, found and checked.
#[derive(Debug)]
pub(super) struct Given {
    /// Of a variable what it held when it was found.
    argument: Argument,
    /// The variable and its name; none of what is the same whenever the call is made.
    variable: Option<(String, Location)>,
}

impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variable {
            Some((name, _)) => f.write_str(name),
            None => write!(f, "{}", self.argument),
        }
    }
}

/// Finds the variables among arguments; also what the function returns, where that is known.
pub(super) fn given(
    space: &AddressSpace,
    function: &Found,
    arguments: Vec<Argument>,
) -> Result<(Vec<Given>, Option<ReturnType>), ActionError> {
    let mut variables = Vec::new();
    let mut values = Vec::new();
    for argument in arguments {
        let (value, variable) = match argument {
            Argument::Variable(name) => {
                let error = |why| wrong(&function.name, why);
                let location = space.variable(&VariableName::from(name.as_str()));
                let location = location.map_err(|why| error(why.to_string()))?;
                let value = held(&location, space.memory()).map_err(error)?;
                (value, Some((name, location)))
            }
            argument => (argument, None),
        };
        values.push(value);
        variables.push(variable);
    }
    let (typed, returns) = typed(function, values)?;
    let given = typed.into_iter().zip(variables);
    let given = given.map(|(argument, variable)| Given { argument, variable });
    Ok((given.collect(), returns))
}

/// The arguments as they are at this instant.
pub(super) fn now(function: &str, process: &Process, given: &[Given]) -> Result<Vec<Argument>, ActionError> {
    let memory = Memory::open(process)?;
    let value = |given: &Given| match &given.variable {
        None => Ok(given.argument.clone()),
        Some((_, location)) => {
            let held = held(location, &memory).map_err(|why| wrong(function, why))?;
            Ok(like(&given.argument, held))
        }
    };
    given.iter().map(value).collect()
}

/// What a variable holds.
fn held(location: &Location, memory: &Memory) -> Result<Argument, String> {
    let bytes = location.read(memory).map_err(|error| error.to_string())?;
    let symbol = &location.symbol;
    let Some(of) = location.value_type() else {
        return match location.variable_type() {
            Some(of) if of.kind == Kind::Pointer => Ok(Argument::Integer(bytes.word().cast_signed())),
            _ => Err(format!(
                "{symbol} is no number that could be passed, or no debug information tells that it is"
            )),
        };
    };
    let value = Value::from_bytes(of, bytes).map_err(|error| error.to_string())?;
    Ok(match value {
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
    })
}

/// A value of the kind that the parameter was found to be of.
fn like(kind: &Argument, value: Argument) -> Argument {
    match (kind, value) {
        (Argument::Double(_), Argument::Integer(number)) => Argument::Double(number as f64),
        (Argument::Double(_), Argument::Float(number)) => Argument::Double(f64::from(number)),
        (Argument::Float(_), Argument::Integer(number)) => Argument::Float(number as f32),
        (Argument::Float(_), Argument::Double(number)) => Argument::Float(number as f32),
        (_, value) => value,
    }
}

fn wrong(function: &str, why: String) -> ActionError {
    ActionError::Arguments {
        function: function.to_owned(),
        why,
    }
}

/// Arguments as the debug information wants them, where there is any, and what the function returns.
pub(super) fn typed(
    found: &Found,
    arguments: Vec<Argument>,
) -> Result<(Vec<Argument>, Option<ReturnType>), ActionError> {
    let error = |why: String| wrong(&found.name, why);
    let image = &found.module.image;
    let damaged = |source| {
        ActionError::Module(crate::module::ModuleError::Image {
            path: found.module.path.clone(),
            source,
        })
    };
    let Some(parameters) = dwarf::parameters(image, found.function.address).map_err(damaged)? else {
        return Ok((arguments, None));
    };
    if arguments.len() < parameters.len() {
        let (given, wanted) = (arguments.len(), parameters.len());
        return Err(error(format!("it takes {wanted} arguments, {given} are given")));
    }
    let mut typed = Vec::new();
    for (index, argument) in arguments.into_iter().enumerate() {
        let of = parameters.get(index).map(|parameter| parameter.of);
        typed.push(match (of.map(|of| (of.kind, of.size)), argument) {
            (Some((Kind::Float, 4)), Argument::Integer(number)) => Argument::Float(number as f32),
            (Some((Kind::Float, 4)), Argument::Double(number)) => Argument::Float(number as f32),
            (Some((Kind::Float, 8)), Argument::Integer(number)) => Argument::Double(number as f64),
            (Some((Kind::Float, 8)), Argument::Float(number)) => Argument::Double(f64::from(number)),
            (Some((Kind::Float, _)), Argument::Text(_)) => {
                return Err(error(format!("argument {index} is a number, not a text")));
            }
            (Some((Kind::Float, size)), _) if size > 8 => {
                return Err(error(format!(
                    "argument {index} is a long double, which cannot be passed"
                )));
            }
            (Some((kind, _)), Argument::Double(_) | Argument::Float(_)) if kind != Kind::Float => {
                return Err(error(format!("argument {index} is no floating-point number")));
            }
            (_, argument) => argument,
        });
    }
    let returned = dwarf::return_type(image, found.function.address).map_err(damaged)?;
    Ok((typed, returned.map(return_type)))
}

fn return_type(known: Option<VariableType>) -> ReturnType {
    match known {
        None => ReturnType::Nothing,
        Some(of) if of.kind == Kind::Pointer => ReturnType::Pointer,
        Some(of) if of.kind == Kind::Enum => ReturnType::Value(ValueType::I32),
        Some(of) => of
            .value_type()
            .map_or(ReturnType::Value(ValueType::I64), ReturnType::Value),
    }
}

/// Puts arguments into registers, and texts behind what is in `data`, which will lie at `at`.
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
            Argument::Variable(name) => {
                let why = format!("{name} is a variable, and only constants can be passed here");
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
