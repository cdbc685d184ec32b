//! What of a decision this version can do, and what it takes: what cannot be done is refused with a reason, never left out.

use std::collections::BTreeSet;

use rules::{
    Action, Affinity, Argument, Base, Boundary, Computed, Layout, Scalar, Site, SyncPoint, Target, Together,
};

use super::{Change, Decision, Deed, Inverse, Invocation, Key, Meeting, Passed, Switch, Write};
use crate::evidence::Cores;

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
    let together = decision.together.as_ref().map(meeting).transpose();
    let refused = refused
        .or_else(|| at.as_ref().err().cloned())
        .or_else(|| {
            let at = decision.at.as_ref()?;
            decision
                .changes
                .iter()
                .find_map(|change| nowhere(&change.action, at))
        })
        .or_else(|| together.as_ref().err().cloned())
        .or_else(|| unlike_others(&decision));
    let asked = decision
        .changes
        .iter()
        .map(|change| format!("{} in process {}", change.action, change.process.0));
    Decision {
        id: decision.id.0,
        window_ns: decision.window.map(|(from, to)| (from.0, to.0)),
        rule: decision.rule_name,
        because: decision
            .because
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect(),
        asked: asked.collect(),
        expect: decision.expect,
        changes,
        switches,
        at: at.ok().flatten(),
        together: together.ok().flatten(),
        refused,
    }
}

fn named(change: &rules::Change, deed: Deed) -> Change {
    let text = match &deed {
        Deed::Write(write) => write.variable.clone(),
        _ => change.action.to_string(),
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
        // Refused when the rule is loaded; a recording may have it.
        Target::Function(_) if at.decide => {
            Err(format!("{} is not held until a decision is made", at.target))
        }
        Target::Function(function) => Ok(format!("{moment}:{function}")),
        Target::Pattern(_) | Target::Set(_) | Target::Mark(_) => Err(format!(
            "changes at {} are not made by this version: that is not one function",
            at.target
        )),
    }
}

/// Where all processes meet for a change, as the tuner knows it.
fn meeting(together: &Together) -> Result<Meeting, String> {
    let Boundary { site, function, key } = together.boundary.clone()?;
    let moment = match site {
        Site::Return => "return",
        Site::Entry | Site::Span => "entry",
    };
    let bytes = key.layout.map(bytes);
    let key = match (&key.source.base, key.source.steps.as_slice()) {
        (Base::Argument(number), []) => Key::Argument {
            number: *number,
            bytes,
        },
        (Base::NamedArgument(name), []) => Key::NamedArgument { name: name.clone() },
        (Base::Global(name), []) => Key::Variable {
            name: name.clone(),
            bytes,
        },
        _ => {
            return Err(format!(
                "the key of `{}` is {}: it must be an integer argument or an integer global variable",
                together.window, key.source
            ));
        }
    };
    let place = format!("{moment}:{function}");
    Ok(Meeting { place, key })
}

/// 0 for what is no whole number.
fn bytes(layout: Layout) -> u8 {
    match layout {
        Layout::I32 | Layout::U32 => 4,
        Layout::I64 | Layout::U64 => 8,
        Layout::I8 | Layout::U8 | Layout::Char | Layout::Bool | Layout::I16 | Layout::U16 => 1,
        Layout::F32 | Layout::F64 | Layout::Str(_) => 0,
    }
}

/// Several processes can only be written together.
fn unlike_others(decision: &rules::Decision) -> Option<String> {
    decision.together.as_ref()?;
    let other = decision
        .changes
        .iter()
        .find(|change| !matches!(change.action, Action::Set { .. }))?;
    Some(format!(
        "`{}` of all processes together is not done: they are written together",
        other.action.label()
    ))
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
    match &change.action {
        Action::Enable { probe } => switch(*probe, true),
        Action::Disable { probe } => switch(*probe, false),
        action => deed(action).map(Done::Deed),
    }
}

fn deed(action: &Action) -> Result<Deed, String> {
    Ok(match action.clone() {
        Action::Set {
            variable,
            layout,
            everywhere,
            value,
        } => Deed::Write(Write {
            variable: variable.to_string(),
            everywhere,
            value: value.to_string(),
            type_name: match (layout, value) {
                (Some(layout), _) => Some(layout.name()),
                (None, Scalar::Boolean(_)) => Some("bool".to_owned()),
                (None, _) => None,
            },
        }),
        Action::Call {
            function,
            arguments,
            inverse,
        } => Deed::Call {
            call: invocation(&rules::Invocation { function, arguments })?,
            inverse: match &inverse {
                rules::Inverse::Unstated => Inverse::Unstated,
                rules::Inverse::NotNeeded(_) => Inverse::NotNeeded,
                rules::Inverse::Call { reader, call } => Inverse::Call {
                    was: reader.as_ref().map(invocation).transpose()?,
                    call: invocation(call)?,
                },
            },
        },
        Action::Load { library } => Deed::Load { library },
        Action::Replace { function, with } => Deed::Replace { function, with },
        Action::InsertCall {
            function,
            arguments,
            inside,
            place,
        } => Deed::InsertCall {
            function,
            arguments: arguments.iter().map(constant).collect::<Result<_, _>>()?,
            inside,
            at_return: place == Site::Return,
        },
        Action::RemoveCall { function, inside } => Deed::RemoveCall { function, inside },
        Action::SetArgument {
            function,
            argument,
            value,
        } => Deed::SetArgument {
            function,
            argument,
            value: expression(&value)?,
        },
        Action::Affinity(Affinity::Spread) => Deed::Bind(Cores::Spread),
        Action::Affinity(Affinity::Compact) => Deed::Bind(Cores::Compact),
        Action::Enable { .. } | Action::Disable { .. } => {
            return Err("a probe is switched by the session".to_owned());
        }
    })
}

fn invocation(call: &rules::Invocation) -> Result<Invocation, String> {
    Ok(Invocation {
        function: call.function.clone(),
        arguments: call.arguments.iter().map(argument).collect::<Result<_, _>>()?,
    })
}

/// What a function is called with. Where the debug information tells no type, a whole number is passed as one.
fn argument(given: &Argument) -> Result<Passed, String> {
    match given {
        Argument::Variable(source) => Ok(Passed::Variable(source.to_string())),
        Argument::Value(Scalar::Text(text)) => Ok(Passed::Text(text.clone())),
        Argument::Value(value) => number(value),
        Argument::Was => Ok(Passed::Was),
    }
}

/// What an inserted call passes, always the same.
fn constant(given: &Argument) -> Result<Passed, String> {
    match given {
        Argument::Variable(source) => Err(format!(
            "an inserted call passes constants, and {source} would have to be read at each call"
        )),
        Argument::Value(_) | Argument::Was => argument(given),
    }
}

fn number(value: &Scalar) -> Result<Passed, String> {
    match value {
        Scalar::Boolean(value) => Ok(Passed::Whole(i64::from(*value))),
        Scalar::Number(number) if !number.is_finite() => Err(format!("{number} cannot be passed")),
        Scalar::Number(number) if number.fract() == 0.0 && number.abs() < WHOLE_MAX => {
            Ok(Passed::Whole(*number as i64))
        }
        Scalar::Number(number) => Ok(Passed::Real(*number)),
        Scalar::Text(text) => Err(format!("`{text}` is no number")),
    }
}

/// As it is written by hand.
fn expression(value: &Computed) -> Result<String, String> {
    let both =
        |sign, a: &Computed, b: &Computed| Ok(format!("({} {sign} {})", expression(a)?, expression(b)?));
    match value {
        Computed::Constant(value) => match number(value)? {
            Passed::Whole(number) => Ok(number.to_string()),
            Passed::Real(number) => Ok(number.to_string()),
            Passed::Text(text) | Passed::Variable(text) => Err(format!("`{text}` is no number")),
            Passed::Was => Err("`was` is no number yet".to_owned()),
        },
        Computed::Original => Ok("original".to_owned()),
        Computed::Add(a, b) => both('+', a, b),
        Computed::Subtract(a, b) => both('-', a, b),
        Computed::Multiply(a, b) => both('*', a, b),
        Computed::Divide(a, b) => both('/', a, b),
        Computed::Min(parts) => best("min", parts),
        Computed::Max(parts) => best("max", parts),
    }
}

fn best(which: &str, parts: &[Computed]) -> Result<String, String> {
    let parts: Vec<String> = parts.iter().map(expression).collect::<Result<_, _>>()?;
    Ok(format!("{which}({})", parts.join(", ")))
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

    fn chunk() -> Source {
        let mut part = Source::global("cfg");
        part.steps.push(Step::Field("chunk".into()));
        part
    }

    fn given(value: f64) -> Argument {
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
        assert_eq!(deed(&set), Ok(Deed::Write(expected)));
    }

    #[test]
    fn what_is_passed_is_a_whole_number_where_it_is_one() {
        let arguments = vec![
            given(2.0),
            given(2.5),
            Argument::Value(Scalar::Boolean(true)),
            Argument::Variable(chunk()),
        ];
        let call = Action::Call {
            function: "libm:f".into(),
            arguments,
            inverse: rules::Inverse::Call {
                reader: None,
                call: rules::Invocation {
                    function: "g".into(),
                    arguments: vec![Argument::Was, given(2.5)],
                },
            },
        };
        let expected = Deed::Call {
            call: Invocation {
                function: "libm:f".into(),
                arguments: vec![
                    Passed::Whole(2),
                    Passed::Real(2.5),
                    Passed::Whole(1),
                    Passed::Variable("cfg.chunk".into()),
                ],
            },
            inverse: Inverse::Call {
                was: None,
                call: Invocation {
                    function: "g".into(),
                    arguments: vec![Passed::Was, Passed::Real(2.5)],
                },
            },
        };
        assert_eq!(deed(&call), Ok(expected));
    }

    #[test]
    fn what_an_argument_becomes_is_written_as_by_hand() {
        let constant = |value| Computed::Constant(Scalar::Number(value));
        let value = Computed::Max(vec![
            Computed::Subtract(Box::new(Computed::Original), Box::new(constant(-1.0))),
            constant(4.0),
            Computed::Constant(Scalar::Boolean(true)),
            constant(0.5),
        ]);
        assert_eq!(
            expression(&value).as_deref(),
            Ok("max((original - -1), 4, 1, 0.5)")
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
            deed(&inserted),
            Err("an inserted call passes constants, and cfg.chunk would have to be read at each call".into())
        );
        let call = Action::Call {
            function: "f".into(),
            arguments: vec![given(f64::INFINITY)],
            inverse: rules::Inverse::Unstated,
        };
        assert_eq!(deed(&call), Err("inf cannot be passed".into()));
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
            inverse: rules::Inverse::Unstated,
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
