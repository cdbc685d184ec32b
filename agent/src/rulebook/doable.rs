//! What of a decision this version can do, and what the tuner is asked for it: what cannot be done is refused with a reason, never
//! left out.

use std::collections::BTreeSet;

use rules::{Action, Affinity, Argument, Computed, Scalar, Site, SyncPoint, Target};
use tuner::{
    action::{self, CallRequest, FunctionName, InsertPlace, PatchRequest, ReturnType},
    expression::{Expression, Operator},
};

use super::{Change, Decision, Deed, Switch, Write};
use crate::evidence::Cores;

/// So long a function that a rule calls is waited for; one that takes longer goes on, and its result is in the journal later.
const CALL_WAIT_MS: u64 = 2_000;
/// So long the dynamic linker is waited for.
const LOAD_WAIT_MS: u64 = 8_000;
/// From here on whole numbers are no i64.
const WHOLE_MAX: f64 = 9_223_372_036_854_775_808.0;

/// One change, as the session makes it.
enum Done {
    Deed(Deed),
    Switch(Switch),
}

/// A decision as the session carries it out; one of which a part cannot be done is refused as a whole.
pub(super) fn decided(decision: rules::Decision) -> Decision {
    let (mut changes, mut switches, mut refused) = (Vec::new(), Vec::new(), None);
    for change in &decision.changes {
        match done(change, decision.rule.0) {
            Ok(Done::Deed(deed)) => changes.push(named(change, deed)),
            Ok(Done::Switch(switch)) => switches.push(switch),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    let at = decision.at.as_ref().map(place).transpose();
    let refused = refused
        .or_else(|| at.as_ref().err().cloned())
        .or_else(|| {
            let at = decision.at.as_ref()?;
            decision.changes.iter().find_map(|change| nowhere(&change.action, at))
        })
        .or_else(|| {
            // All or none needs every process stopped at its boundary before the first write: a bounded hold cannot promise that.
            let window = decision.together.as_ref()?;
            Some(format!(
                "changes of all processes together at {window} need them stopped, which this version cannot, and does not do by halves"
            ))
        });
    let asked = decision
        .changes
        .iter()
        .map(|change| format!("{} in process {}", change.action, change.process.0));
    Decision {
        id: decision.id.0,
        rule: decision.rule_name,
        because: decision
            .because
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect(),
        asked: asked.collect(),
        changes,
        switches,
        at: at.ok().flatten(),
        refused,
    }
}

fn named(change: &rules::Change, deed: Deed) -> Change {
    let text = match &deed {
        Deed::Write(write) => write.variable.clone(),
        Deed::Act(_) | Deed::Bind(_) => change.action.to_string(),
    };
    Change {
        slot: change.process.0,
        keyword: change.action.keyword(),
        label: change.action.label(),
        text,
        deed,
    }
}

/// Why an action has no place in the program, if it has none.
fn nowhere(action: &Action, at: &SyncPoint) -> Option<String> {
    let why = match action {
        Action::Set { .. } | Action::Call { .. } => return None,
        Action::Load { .. } => "a library is loaded by whichever thread can",
        Action::Replace { .. }
        | Action::InsertCall { .. }
        | Action::RemoveCall { .. }
        | Action::SetArgument { .. } => "code is changed while no thread runs, wherever each stands",
        Action::Affinity(_) => "threads are bound from outside, wherever they stand",
        Action::Enable { .. } | Action::Disable { .. } => "a probe is switched by the session",
    };
    Some(format!(
        "`{}` has no place such as {}: {why}",
        action.label(),
        at.target
    ))
}

/// A sync point as it is typed: `entry:step`.
fn place(at: &SyncPoint) -> Result<String, String> {
    let moment = match at.site {
        Site::Return => "return",
        Site::Entry | Site::Span => "entry",
    };
    match &at.target {
        Target::Function(_) if at.decide => Err(format!(
            "that {} waits for a decision is not done by this version",
            at.target
        )),
        Target::Function(function) => Ok(format!("{moment}:{function}")),
        Target::Pattern(_) | Target::Set(_) => Err(format!(
            "changes at {} are not made by this version: that is more than one function",
            at.target
        )),
    }
}

/// What each kind of action comes to: the one place that knows what the session and the tuner can do.
fn done(change: &rules::Change, rule: usize) -> Result<Done, String> {
    let slot = change.process.0;
    let switch = |probe: rules::ProbeId, on| {
        let probe = probe.0;
        Ok(Done::Switch(Switch {
            rule,
            probe,
            slot,
            on,
        }))
    };
    let act = |action| Ok(Done::Deed(Deed::Act(action)));
    let patch = |request| act(action::Action::Patch(request));
    match &change.action {
        Action::Set {
            variable,
            layout,
            everywhere,
            value,
        } => Ok(Done::Deed(Deed::Write(Write {
            variable: variable.to_string(),
            everywhere: *everywhere,
            value: value.to_string(),
            type_name: match (layout, value) {
                (Some(layout), _) => Some(layout.name()),
                (None, Scalar::Boolean(_)) => Some("bool".to_owned()),
                (None, _) => None,
            },
        }))),
        Action::Enable { probe } => switch(*probe, true),
        Action::Disable { probe } => switch(*probe, false),
        Action::Call { function, arguments } => act(action::Action::Call(CallRequest {
            function: name(function),
            arguments: arguments.iter().map(argument).collect::<Result<_, _>>()?,
            returns: Some(ReturnType::IfKnown),
            wait_ms: CALL_WAIT_MS,
            thread: None,
        })),
        Action::Load { library } => act(action::Action::Load {
            path: library.clone(),
            wait_ms: LOAD_WAIT_MS,
        }),
        Action::Replace { function, with } => patch(PatchRequest::Replace {
            function: name(function),
            with: name(with),
        }),
        Action::InsertCall {
            function,
            arguments,
            inside,
            place,
        } => patch(PatchRequest::InsertCall {
            function: name(function),
            arguments: arguments.iter().map(constant).collect::<Result<_, _>>()?,
            into: name(inside),
            place: match place {
                Site::Return => InsertPlace::Return,
                Site::Entry | Site::Span => InsertPlace::Entry,
            },
        }),
        Action::RemoveCall { function, inside } => patch(PatchRequest::RemoveCall {
            function: name(function),
            within: inside.as_deref().map(name),
        }),
        Action::SetArgument {
            function,
            argument,
            value,
        } => patch(PatchRequest::SetArgument {
            function: name(function),
            index: usize::from(*argument),
            value_type: None,
            value: expression(value)?,
        }),
        Action::Affinity(affinity) => Ok(Done::Deed(Deed::Bind(match affinity {
            Affinity::Spread => Cores::Spread,
            Affinity::Compact => Cores::Compact,
        }))),
    }
}

fn name(text: &str) -> FunctionName {
    FunctionName::from(text)
}

/// What a function is called with. Where the debug information tells no type, a whole number is passed as one.
fn argument(given: &Argument) -> Result<action::Argument, String> {
    Ok(match given {
        Argument::Variable(source) => action::Argument::Variable(source.to_string()),
        Argument::Value(Scalar::Text(text)) => action::Argument::Text(text.clone()),
        Argument::Value(value) => match number(value)? {
            Expression::Float(number) => action::Argument::Double(number),
            Expression::Integer(number) => action::Argument::Integer(number),
            Expression::Original | Expression::Both(..) => return Err(format!("{value} is no constant")),
        },
    })
}

/// What an inserted call passes, always the same.
fn constant(given: &Argument) -> Result<action::Argument, String> {
    match given {
        Argument::Variable(source) => Err(format!(
            "an inserted call passes constants, and {source} would have to be read at each call"
        )),
        Argument::Value(_) => argument(given),
    }
}

fn number(value: &Scalar) -> Result<Expression, String> {
    match value {
        Scalar::Boolean(value) => Ok(Expression::Integer(i64::from(*value))),
        Scalar::Number(number) if !number.is_finite() => Err(format!("{number} cannot be passed")),
        Scalar::Number(number) if number.fract() == 0.0 && number.abs() < WHOLE_MAX => {
            Ok(Expression::Integer(*number as i64))
        }
        Scalar::Number(number) => Ok(Expression::Float(*number)),
        Scalar::Text(text) => Err(format!("`{text}` is no number")),
    }
}

fn expression(value: &Computed) -> Result<Expression, String> {
    let both = |operator, a: &Computed, b: &Computed| {
        let (a, b) = (expression(a)?, expression(b)?);
        Ok(Expression::Both(operator, Box::new(a), Box::new(b)))
    };
    match value {
        Computed::Constant(value) => number(value),
        Computed::Original => Ok(Expression::Original),
        Computed::Add(a, b) => both(Operator::Add, a, b),
        Computed::Subtract(a, b) => both(Operator::Subtract, a, b),
        Computed::Multiply(a, b) => both(Operator::Multiply, a, b),
        Computed::Divide(a, b) => both(Operator::Divide, a, b),
        Computed::Min(parts) => best(Operator::Min, parts),
        Computed::Max(parts) => best(Operator::Max, parts),
    }
}

fn best(operator: Operator, parts: &[Computed]) -> Result<Expression, String> {
    let parts: Vec<Expression> = parts.iter().map(expression).collect::<Result<_, _>>()?;
    let both = |a, b| Expression::Both(operator, Box::new(a), Box::new(b));
    parts
        .into_iter()
        .reduce(both)
        .ok_or_else(|| "there is nothing to choose from".to_owned())
}

/// The processes of which a verdict is said, by their slots.
pub(super) fn slots(verdict: &rules::Verdict) -> Option<BTreeSet<u32>> {
    let processes = verdict.processes.as_ref()?;
    Some(processes.iter().map(|process| process.0).collect())
}

#[cfg(test)]
mod tests {
    use rules::{ProbeId, ProcessId, Source, Step};

    use super::*;

    fn deed(action: Action) -> Result<Deed, String> {
        let process = ProcessId(3);
        match done(&rules::Change { process, action }, 1)? {
            Done::Deed(deed) => Ok(deed),
            Done::Switch(_) => Err("it is a switch".to_owned()),
        }
    }

    fn chunk() -> Source {
        let mut part = Source::global("cfg");
        part.steps.push(Step::Field("chunk".into()));
        part
    }

    fn number(value: f64) -> Argument {
        Argument::Value(Scalar::Number(value))
    }

    #[test]
    fn a_part_of_a_variable_and_every_copy_of_one_are_written() {
        let set = Action::Set {
            variable: chunk(),
            layout: None,
            everywhere: true,
            value: Scalar::Number(2.0),
        };
        let expected = Write {
            variable: "cfg.chunk".to_owned(),
            everywhere: true,
            value: "2".to_owned(),
            type_name: None,
        };
        assert_eq!(deed(set), Ok(Deed::Write(expected)));
    }

    #[test]
    fn what_is_passed_is_a_whole_number_where_it_is_one() {
        let arguments = vec![
            number(2.0),
            number(2.5),
            Argument::Value(Scalar::Boolean(true)),
            Argument::Variable(chunk()),
        ];
        let call = Action::Call {
            function: "libm:f".into(),
            arguments,
        };
        let Ok(Deed::Act(action::Action::Call(request))) = deed(call) else {
            panic!("it is a call");
        };
        assert_eq!(request.function.module.as_deref(), Some("libm"));
        assert_eq!(
            request.arguments,
            [
                action::Argument::Integer(2),
                action::Argument::Double(2.5),
                action::Argument::Integer(1),
                action::Argument::Variable("cfg.chunk".to_owned()),
            ]
        );
    }

    #[test]
    fn what_an_argument_becomes_is_computed_in_the_program() {
        let constant = |value| Computed::Constant(Scalar::Number(value));
        let value = Computed::Max(vec![
            Computed::Add(Box::new(Computed::Original), Box::new(constant(1.0))),
            constant(4.0),
            constant(0.5),
        ]);
        let both = |operator, a, b| Expression::Both(operator, Box::new(a), Box::new(b));
        let sum = both(Operator::Add, Expression::Original, Expression::Integer(1));
        let greater = both(Operator::Max, sum, Expression::Integer(4));
        assert_eq!(
            expression(&value),
            Ok(both(Operator::Max, greater, Expression::Float(0.5)))
        );
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_its_reason() {
        let inserted = Action::InsertCall {
            function: "log".into(),
            arguments: vec![Argument::Variable(chunk())],
            inside: "step".into(),
            place: Site::Entry,
        };
        assert_eq!(
            deed(inserted),
            Err("an inserted call passes constants, and cfg.chunk would have to be read at each call".into())
        );
        let call = Action::Call {
            function: "f".into(),
            arguments: vec![number(f64::INFINITY)],
        };
        assert_eq!(deed(call), Err("inf cannot be passed".into()));
        let at = SyncPoint {
            site: Site::Entry,
            target: Target::Function("step".into()),
            decide: false,
        };
        let replace = Action::Replace {
            function: "a".into(),
            with: "b".into(),
        };
        assert_eq!(
            nowhere(&replace, &at).as_deref(),
            Some(
                "`replace a` has no place such as step: code is changed while no thread runs, wherever each stands"
            )
        );
        let call = Action::Call {
            function: "f".into(),
            arguments: Vec::new(),
        };
        assert_eq!(nowhere(&call, &at), None);
        let enable = Action::Enable { probe: ProbeId(0) };
        assert!(
            done(
                &rules::Change {
                    process: ProcessId(3),
                    action: enable
                },
                1
            )
            .is_ok()
        );
    }
}
