//! `tuneagent call` and `tuneagent patch`: call functions and change code by hand, in every process of a job.

use std::time::Duration;

use job::Discovery;
use plan::{
    Action, Affinity, CallRequest, Expression, FunctionName, Inverse, Invocation, Moment, PatchRequest,
    ReturnType,
};
use profile::format::duration;
use tuner::actuator::{ActCommand, ClientError};
use tuner::journal::{Mechanism, Reason};
use tuner::{ActionOutcome, ActionReceipt, Pid};

use super::by_hand::{code, members, parse_type};
use super::{refusals::Outcomes, target};
use crate::{
    actuator::Actuator,
    cli::{CallArgs, PatchArgs, PatchCommand},
    exit::{Code, CommandResult, Failure},
    rights, similar_name,
};

/// Must be less than the time after which an actuator without an answer is considered dead.
const WAIT_MAX: Duration = Duration::from_secs(8);

pub(super) fn call(args: &CallArgs) -> CommandResult {
    let Invocation { function, arguments } =
        Invocation::parse(&args.call.join(" ")).map_err(Failure::invalid)?;
    if args.wait > WAIT_MAX {
        return Err(Failure::invalid(format!(
            "--wait is at most {} s; a call that takes longer continues, and `tuneagent journal` shows later what it returned",
            WAIT_MAX.as_secs()
        )));
    }
    let returns = args.returns.as_deref().map(return_type).transpose()?;
    let request = CallRequest {
        function,
        arguments,
        returns,
        wait_ms: u64::try_from(args.wait.as_millis()).unwrap_or(u64::MAX),
        thread: args.thread,
        inverse: inverse(args)?,
    };
    let by_hand = ByHand {
        target: &args.target,
        only: args.only,
        any_user: args.users.any_user,
        despite_seccomp: args.despite_seccomp,
    };
    let is_lasting = request.inverse == Inverse::Unstated;
    let code = act(&by_hand, &Action::Call(request))?;
    if is_lasting {
        say!(
            "note: undo can revert a call only if --inverse 'CALL' states how; `was` in it is the result of --was 'CALL', called just before"
        );
    }
    Ok(code)
}

fn inverse(args: &CallArgs) -> Result<Inverse, Failure> {
    let Some(inverse) = &args.inverse else {
        return Ok(Inverse::Unstated);
    };
    let was = args.was.as_deref().map(Invocation::parse).transpose();
    Ok(Inverse::Call {
        call: Invocation::parse(inverse).map_err(Failure::invalid)?,
        was: was.map_err(Failure::invalid)?,
        remains: None,
    })
}

fn return_type(text: &str) -> Result<ReturnType, Failure> {
    Ok(match text {
        "nothing" | "void" => ReturnType::Nothing,
        "pointer" => ReturnType::Pointer,
        text => ReturnType::Value(parse_type(text)?),
    })
}

pub(super) fn patch(args: &PatchArgs) -> CommandResult {
    let action = action(&args.change)?;
    let by_hand = ByHand {
        target: &args.target,
        only: args.only,
        any_user: args.any_user,
        despite_seccomp: args.despite_seccomp,
    };
    act(&by_hand, &action)
}

fn action(change: &PatchCommand) -> Result<Action, Failure> {
    let request = match change {
        PatchCommand::Replace { function, with } => PatchRequest::Replace {
            function: function.as_str().into(),
            with: with.as_str().into(),
        },
        PatchCommand::Insert {
            call,
            function,
            at_return,
        } => {
            let call = Invocation::parse(call).map_err(Failure::invalid)?;
            PatchRequest::InsertCall {
                function: call.function,
                arguments: call.arguments,
                into: function.as_str().into(),
                place: if *at_return { Moment::Return } else { Moment::Entry },
            }
        }
        PatchCommand::Remove { function, within } => PatchRequest::RemoveCall {
            function: function.as_str().into(),
            within: within.as_deref().map(Into::into),
        },
        PatchCommand::Argument {
            argument,
            value,
            value_type,
        } => {
            let (function, index) = indexed(argument)?;
            PatchRequest::SetArgument {
                function: function.into(),
                index,
                value_type: value_type.as_deref().map(parse_type).transpose()?,
                value: Expression::parse(value).map_err(Failure::invalid)?,
            }
        }
        PatchCommand::Load { path } => {
            let path = std::path::absolute(path).map_err(Failure::invalid)?;
            let path = path.to_string_lossy().into_owned();
            return Ok(Action::load(path));
        }
        PatchCommand::Affinity { cpus } => return Ok(Action::Affinity(Affinity::Cpus(cpus.clone()))),
    };
    Ok(Action::Patch(request))
}

/// Parses `f(1)`: argument 1 of f.
fn indexed(text: &str) -> Result<(&str, usize), Failure> {
    let parts = text.strip_suffix(')').and_then(|text| text.split_once('('));
    let parsed = parts.and_then(|(function, index)| Some((function, index.trim().parse().ok()?)));
    parsed.ok_or_else(|| {
        Failure::invalid(format!(
            "`{text}` is not an argument of a function: expected FUNCTION(NUMBER), such as f(1)"
        ))
    })
}

/// The target of a change by hand, and its permissions.
struct ByHand<'a> {
    target: &'a str,
    only: bool,
    any_user: bool,
    despite_seccomp: bool,
}

fn act(by_hand: &ByHand<'_>, action: &Action) -> CommandResult {
    let mut discovery = Discovery::default();
    let job = target::job(&mut discovery, by_hand.target, by_hand.any_user)?;
    let members = members(&job, by_hand.target, by_hand.only)?;
    let mut actuator = Actuator::by_hand(by_hand.despite_seccomp).map_err(Failure::invalid)?;
    rights::only_look().map_err(Failure::not_permitted)?;
    let (mut failed, mut outcomes) = (None, Outcomes::default());
    for member in &members {
        let pid = member.process.pid;
        match act_in(&mut actuator, pid, action) {
            Ok(receipt) => {
                outcomes.done();
                say(pid, &receipt);
                if can_be_reverted(&receipt.outcome) {
                    outcomes.changed(pid, receipt.change);
                }
            }
            Err(error) => {
                outcomes.refused(pid, &error.to_string());
                failed = failed.or(Some(code(&error)));
            }
        }
    }
    outcomes.say_revert(by_hand.target, &job);
    actuator.finish().map_err(Failure::failed)?;
    match failed {
        None => Ok(Code::Done),
        Some(code) => {
            let first = members.first().map(|member| &member.space);
            let hints = functions(action).into_iter();
            let hints = hints.filter_map(|function| similar_name::of_function(first?, function));
            hints.for_each(|hint| warn!("{hint}"));
            Err(Failure::new(code, outcomes.conclusion("done")))
        }
    }
}

/// The functions that an action names.
fn functions(action: &Action) -> Vec<&FunctionName> {
    match action {
        Action::Call(call) => vec![&call.function],
        Action::Patch(patch) => match patch {
            PatchRequest::Replace { function, with } => vec![function, with],
            PatchRequest::InsertCall { function, into, .. } => vec![function, into],
            PatchRequest::RemoveCall { function, within } => {
                [Some(function), within.as_ref()].into_iter().flatten().collect()
            }
            PatchRequest::SetArgument { function, .. } => vec![function],
            PatchRequest::SetTeamSize { .. } => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn act_in(actuator: &mut Actuator, pid: Pid, action: &Action) -> Result<ActionReceipt, ClientError> {
    let receipt = actuator.client.act(ActCommand {
        pid,
        action: action.clone(),
        reason: Reason {
            why: Vec::new(),
            rule: None,
        },
    })?;
    // A change made by hand stays: the user is the guard.
    actuator.client.confirm(pid, receipt.change)?;
    Ok(receipt)
}

fn say(pid: Pid, receipt: &ActionReceipt) {
    let ActionReceipt { change, text, .. } = receipt;
    let hold = duration(receipt.hold_ns as f64);
    let held = match receipt.mechanism {
        Mechanism::Plain | Mechanism::Rendezvous | Mechanism::Store => {
            "without stopping the program".to_owned()
        }
        Mechanism::HoldThread | Mechanism::Stop => format!("one thread was stopped for {hold}"),
        Mechanism::HoldAll => format!("all threads were stopped for {hold}"),
    };
    match &receipt.outcome {
        ActionOutcome::InForce => {
            say!("{pid:>8}  {text} ({held}), change {change}")
        }
        ActionOutcome::Returned {
            result,
            was,
            back: Some(back),
            ..
        } => {
            let was = was
                .as_ref()
                .map_or_else(String::new, |was| format!(", was {was}"));
            say!(
                "{pid:>8}  {text}{}{was} ({held}), change {change}, reverted by {back}",
                equals(result)
            );
        }
        ActionOutcome::Returned { result, .. } => {
            say!(
                "{pid:>8}  {text}{} ({held}), change {change}; it cannot be reverted",
                equals(result)
            )
        }
        ActionOutcome::Running => {
            say!(
                "{pid:>8}  {text} has not returned yet and continues ({held}), change {change}; `tuneagent undo {pid}` checks it later"
            );
        }
    }
}

fn can_be_reverted(outcome: &ActionOutcome) -> bool {
    match outcome {
        ActionOutcome::InForce => true,
        ActionOutcome::Returned { back, .. } => back.is_some(),
        ActionOutcome::Running => false,
    }
}

/// The result of a call, if it has one.
fn equals(result: &str) -> String {
    match result {
        "nothing" => String::new(),
        result => format!(" = {result}"),
    }
}
