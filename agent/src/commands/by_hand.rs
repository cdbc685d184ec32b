//! `tuneagent get` and `tuneagent set`: variables, by hand, in every process of a job.

use tuner::{
    actuator::{ClientError, RefusalKind, SetCommand},
    process::Process,
    space::AddressSpace,
    value::{Value, ValueType},
    variable::VariableName,
};

use super::target;
use crate::{
    actuator::Actuator,
    cli::{GetArgs, SetArgs},
    discover::Scout,
    exit::{Code, Failure, Outcome},
    rights,
};

pub(super) fn get(args: &GetArgs) -> Outcome {
    let mut scout = Scout::default();
    let job = target::job(&mut scout, &args.target, args.any_user)?;
    // Files that only more rights can open are open by now.
    rights::only_look().map_err(Failure::not_permitted)?;
    let mut found = false;
    for member in &job.members {
        for variable in &args.variables {
            match read(&member.space, variable) {
                Ok(text) => {
                    found = true;
                    say!("{:>8}  {variable} = {text}", member.process.pid);
                }
                Err(error) => eprintln!("tuneagent: {error}"),
            }
        }
    }
    if found {
        Ok(Code::Done)
    } else {
        Err(Failure::not_there("nothing could be read"))
    }
}

fn read(space: &AddressSpace, variable: &str) -> Result<String, String> {
    let location = space
        .variable(&name(variable))
        .map_err(|error| error.to_string())?;
    let bytes = location.read(space.memory()).map_err(|error| error.to_string())?;
    let value = location
        .value_type()
        .and_then(|of| Value::from_bytes(of, bytes).ok());
    Ok(match (value, location.value_type()) {
        (Some(value), Some(of)) => format!("{value} ({})", of.name()),
        _ => {
            let hex: Vec<String> = bytes
                .as_slice()
                .iter()
                .rev()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            format!(
                "0x{} ({} bytes; no debug information tells its type)",
                hex.concat(),
                bytes.as_slice().len()
            )
        }
    })
}

/// `libopen-pal:opal_progress_yield_when_idle` names a variable in a module.
fn name(text: &str) -> VariableName {
    match text.split_once(':') {
        Some((module, name)) if !name.starts_with(':') && !module.is_empty() => VariableName {
            name: name.into(),
            module: Some(module.into()),
        },
        _ => VariableName::from(text),
    }
}

pub(super) fn set(args: &SetArgs) -> Outcome {
    let value_type = args.value_type.as_deref().map(parse_type).transpose()?;
    let mut scout = Scout::default();
    let job = target::job(&mut scout, &args.target, args.any_user)?;
    let only = args.only.then(|| target::pid(&args.target)).transpose()?;
    let processes: Vec<&Process> = job
        .members
        .iter()
        .map(|member| &member.process)
        .filter(|process| only.is_none_or(|pid| process.pid.number == pid))
        .collect();
    if processes.is_empty() {
        return Err(Failure::not_there(format!(
            "{} is no rank of its job; leave --only out",
            args.target
        )));
    }
    let mut actuator = Actuator::start(true).map_err(Failure::not_there)?;
    rights::only_look().map_err(Failure::not_permitted)?;
    let mut failed = None;
    for process in processes {
        for (variable, value) in &args.assignments {
            let done = set_one(&mut actuator, process, variable, value, value_type);
            failed = failed.or(done.err());
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

fn set_one(
    actuator: &mut Actuator,
    process: &Process,
    variable: &str,
    value: &str,
    value_type: Option<ValueType>,
) -> Result<(), Code> {
    let pid = process.pid;
    let VariableName { name, module } = name(variable);
    let written = actuator.client.set(SetCommand {
        pid,
        variable: name,
        module,
        value: value.to_owned(),
        value_type,
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
