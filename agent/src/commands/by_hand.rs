//! `tuneagent get` and `tuneagent set`: variables, by hand, in every process of a job.

use tuner::{
    actuator::{ClientError, RefusalKind, SetCommand},
    dwarf::{Kind, Leaf},
    process::Pid,
    space::AddressSpace,
    value::{Value, ValueType},
    variable::{FollowError, Location, VariableName},
};

use super::target;
use crate::{
    actuator::Actuator,
    cli::{GetArgs, SetArgs},
    discover::{Member, Scout},
    exit::{Code, Failure, Outcome},
};

pub(super) fn get(args: &GetArgs) -> Outcome {
    let mut scout = Scout::default();
    let job = target::job(&mut scout, &args.target, args.any_user)?;
    let mut found = false;
    for member in &job.members {
        for variable in &args.variables {
            let name = VariableName::from(variable.as_str());
            let locations = match args.all_copies {
                true => member.space.every_variable(&name),
                false => member.space.variable(&name).map(|location| vec![location]),
            };
            let locations = locations.unwrap_or_else(|error| {
                eprintln!("tuneagent: {error}");
                Vec::new()
            });
            for location in &locations {
                let copy = match locations.len() {
                    0 | 1 => String::new(),
                    _ => format!("{}:", location.module.file_name()),
                };
                match value_of(&member.space, location) {
                    Ok(text) => {
                        found = true;
                        say!("{:>8}  {copy}{variable} = {text}", member.process.pid);
                    }
                    Err(error) => eprintln!("tuneagent: {error}"),
                }
            }
        }
    }
    if found {
        Ok(Code::Done)
    } else {
        Err(Failure::not_there("nothing could be read"))
    }
}

/// The value of a variable, with its type in brackets.
pub(super) fn read(space: &AddressSpace, variable: &str) -> Result<String, String> {
    let location = space
        .variable(&VariableName::from(variable))
        .map_err(|error| error.to_string())?;
    value_of(space, &location)
}

/// Bytes of a text that are shown.
const TEXT_BYTES_MAX: u64 = 256;

/// What a variable holds, in words.
fn value_of(space: &AddressSpace, location: &Location) -> Result<String, String> {
    let said = |error: FollowError| error.to_string();
    if let Some(Leaf {
        text_bytes: Some(length),
        type_name,
        ..
    }) = &location.leaf
    {
        let mut text = vec![0; (*length).min(TEXT_BYTES_MAX) as usize];
        location.read_into(space.memory(), &mut text).map_err(said)?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        let text = String::from_utf8_lossy(text.get(..end).unwrap_or_default()).into_owned();
        return Ok(format!("{text:?} ({type_name})"));
    }
    let bytes = location.read(space.memory()).map_err(said)?;
    let value_type = location.value_type().or_else(|| enum_type(location));
    let value = value_type.and_then(|of| Value::from_bytes(of, bytes).ok());
    let hex = || -> String {
        bytes
            .as_slice()
            .iter()
            .rev()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    Ok(match (value, &location.leaf) {
        (Some(value), Some(leaf)) => match location.value_type() {
            Some(of) => format!("{value} ({})", of.name()),
            None => format!("{value} ({})", leaf.type_name),
        },
        (_, Some(leaf)) if leaf.of.kind == Kind::Pointer => format!("0x{} ({})", hex(), leaf.type_name),
        (_, Some(leaf)) if leaf.of.kind == Kind::Compound => {
            let (symbol, size) = (&location.symbol, location.size);
            return Err(match leaf.fields.split_first() {
                Some((first, _)) => format!(
                    "{symbol} is {} of {size} bytes; name a field of it, as in `{symbol}.{first}`: it has {}",
                    leaf.type_name,
                    leaf.fields.join(", ")
                ),
                None => format!(
                    "{symbol} is {} of {size} bytes; name an element of it",
                    leaf.type_name
                ),
            });
        }
        (_, Some(leaf)) => format!("0x{} ({})", hex(), leaf.type_name),
        (_, None) => format!(
            "0x{} ({} bytes; no debug information tells its type)",
            hex(),
            bytes.as_slice().len()
        ),
    })
}

/// An enum is shown as its number.
fn enum_type(location: &Location) -> Option<ValueType> {
    let of = location.variable_type().filter(|of| of.kind == Kind::Enum)?;
    ValueType::ALL.iter().copied().find(|known| of.accepts(*known))
}

pub(super) fn set(args: &SetArgs) -> Outcome {
    let value_type = args.value_type.as_deref().map(parse_type).transpose()?;
    let mut scout = Scout::default();
    let job = target::job(&mut scout, &args.target, args.any_user)?;
    let only = args.only.then(|| target::pid(&args.target)).transpose()?;
    let processes: Vec<&Member> = job
        .members
        .iter()
        .filter(|member| only.is_none_or(|pid| member.process.pid.number == pid))
        .collect();
    if processes.is_empty() {
        return Err(Failure::not_there(format!(
            "{} is no rank of its job; leave --only out",
            args.target
        )));
    }
    let mut actuator = Actuator::start(true).map_err(Failure::not_there)?;
    let mut failed = None;
    for member in processes {
        for (variable, value) in &args.assignments {
            for module in copies(member, variable, args.all_copies) {
                let order = Order {
                    variable,
                    module,
                    value,
                    value_type,
                };
                let done = set_one(&mut actuator, member.process.pid, order);
                failed = failed.or(done.err());
            }
        }
    }
    actuator.finish().map_err(Failure::no)?;
    match failed {
        None => Ok(Code::Done),
        Some(code) => Err(Failure {
            code,
            message: "not everything was written; what was written stays".into(),
        }),
    }
}

/// What is to be written.
struct Order<'a> {
    variable: &'a str,
    module: Option<String>,
    value: &'a str,
    value_type: Option<ValueType>,
}

/// The modules in which the variable is written: the one that is meant, or every one that has a copy.
fn copies(member: &Member, variable: &str, all: bool) -> Vec<Option<String>> {
    let every = || member.space.every_variable(&VariableName::from(variable)).ok();
    match all.then(every).flatten() {
        Some(locations) if locations.len() > 1 => {
            let mut modules: Vec<Option<String>> = locations
                .into_iter()
                .map(|location| Some(location.module.path))
                .collect();
            modules.dedup();
            modules
        }
        // One, or none: the actuator finds it, or says why not.
        _ => vec![None],
    }
}

fn set_one(actuator: &mut Actuator, pid: Pid, order: Order<'_>) -> Result<(), Code> {
    let variable = order.variable;
    let written = actuator.client.set(SetCommand {
        pid,
        variable: variable.to_owned(),
        module: order.module,
        value: order.value.to_owned(),
        value_type: order.value_type,
        expect_old: None,
        why: vec!["set by hand".into()],
        rule: None,
    });
    // Set by hand is meant to stay: the user is the guard.
    let written = written.and_then(|receipt| {
        if let Some(change) = receipt.change {
            actuator.client.confirm(pid, change)?;
        }
        Ok(receipt)
    });
    match written {
        Ok(receipt) => {
            let show = |bytes| {
                Value::from_bytes(receipt.value_type, bytes)
                    .map_or_else(|_| "?".into(), |value| value.to_string())
            };
            match receipt.change {
                Some(change) => say!(
                    "{pid:>8}  {variable} {} -> {} ({}), change {change}; back: tuneagent undo {pid} {change}",
                    show(receipt.old),
                    show(receipt.new),
                    receipt.value_type.name(),
                ),
                None => say!("{pid:>8}  {variable} is {} already", show(receipt.old)),
            }
            Ok(())
        }
        Err(error) => {
            eprintln!("tuneagent: {error}");
            Err(code(&error))
        }
    }
}

/// The exit code of a refusal.
pub(super) fn code(error: &ClientError) -> Code {
    match error {
        ClientError::Refused(refusal) => match refusal.kind {
            RefusalKind::NotPermitted => Code::NotPermitted,
            RefusalKind::NotFound | RefusalKind::Ended | RefusalKind::Protocol => Code::NotThere,
            RefusalKind::Busy | RefusalKind::Refused | RefusalKind::Failed => Code::No,
        },
        ClientError::Ended | ClientError::Io(_) | ClientError::OutOfStep => Code::No,
    }
}

fn parse_type(text: &str) -> Result<ValueType, Failure> {
    ValueType::ALL
        .iter()
        .copied()
        .find(|known| known.name() == text)
        .ok_or_else(|| {
            let known: Vec<&str> = ValueType::ALL.iter().map(|known| known.name()).collect();
            Failure::not_there(format!("`{text}` is no type; there are {}", known.join(", ")))
        })
}
