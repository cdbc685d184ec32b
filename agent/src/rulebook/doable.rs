//! What of a decision this version can do: what it cannot is refused with a reason, never left out.

use std::collections::BTreeSet;

use rules::{Action, Base, Boundary, Layout, Scalar, Site, Source, SyncPoint, Target, Together};
use tuner::sync::KeyName;

use super::{Decision, Meeting, Switch, Write};

/// One change, as the session makes it.
enum Done {
    Write(Write),
    Switch(Switch),
}

/// A decision as the session carries it out; one of which a part cannot be done is refused as a whole.
pub(super) fn decided(decision: rules::Decision) -> Decision {
    let (mut writes, mut switches, mut refused) = (Vec::new(), Vec::new(), None);
    for change in &decision.changes {
        match done(change, decision.rule.0) {
            Ok(Done::Write(write)) => writes.push(write),
            Ok(Done::Switch(switch)) => switches.push(switch),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    let at = decision.at.as_ref().map(place).transpose();
    let together = decision.together.as_ref().map(meeting).transpose();
    let refused = refused
        .or_else(|| at.as_ref().err().cloned())
        .or_else(|| together.as_ref().err().cloned())
        .or_else(|| unlike_others(&decision));
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
        changes: writes,
        switches,
        at: at.ok().flatten(),
        together: together.ok().flatten(),
        refused,
    }
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
        Target::Pattern(_) | Target::Set(_) => Err(format!(
            "changes at {} are not made by this version: that is more than one function",
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
        (Base::Argument(number), []) => KeyName::Argument {
            number: *number,
            bytes,
        },
        (Base::NamedArgument(name), []) => KeyName::NamedArgument { name: name.clone() },
        (Base::Global(name), []) => KeyName::Variable {
            name: name.clone(),
            bytes,
        },
        _ => {
            return Err(format!(
                "the key of `{}` is {}: processes meet by an argument or a global variable, a whole number",
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
    let not_yet = || Err(format!("`{}` is not done by this version", change.action.label()));
    match &change.action {
        Action::Set {
            variable,
            everywhere,
            value,
        } => written(variable, *everywhere, value, slot).map(Done::Write),
        Action::Enable { probe } => switch(*probe, true),
        Action::Disable { probe } => switch(*probe, false),
        Action::Call { .. } => not_yet(),
        Action::Load { .. } => not_yet(),
        Action::Replace { .. } => not_yet(),
        Action::InsertCall { .. } => not_yet(),
        Action::RemoveCall { .. } => not_yet(),
        Action::SetArgument { .. } => not_yet(),
        Action::Affinity(_) => not_yet(),
    }
}

fn written(variable: &Source, everywhere: bool, value: &Scalar, slot: u32) -> Result<Write, String> {
    if everywhere {
        return Err(format!(
            "every copy of {variable} at once is not written by this version"
        ));
    }
    let Some(name) = variable.whole_global() else {
        return Err(format!(
            "a part of a variable ({variable}) is not written by this version"
        ));
    };
    Ok(Write {
        slot,
        variable: name.to_owned(),
        value: value.to_string(),
        is_boolean: matches!(value, Scalar::Boolean(_)),
    })
}

/// The processes of which a verdict is said, by their slots.
pub(super) fn slots(verdict: &rules::Verdict) -> Option<BTreeSet<u32>> {
    let processes = verdict.processes.as_ref()?;
    Some(processes.iter().map(|process| process.0).collect())
}

#[cfg(test)]
mod tests {
    use rules::{ProbeId, ProcessId, Step};

    use super::*;

    fn refused(action: Action) -> Option<String> {
        let process = ProcessId(3);
        done(&rules::Change { process, action }, 1).err()
    }

    #[test]
    fn what_this_version_cannot_do_is_refused_with_its_reason() {
        let set = |variable, everywhere| Action::Set {
            variable,
            everywhere,
            value: Scalar::Number(2.0),
        };
        let mut part = Source::global("cfg");
        part.steps.push(Step::Field("chunk".into()));
        assert_eq!(refused(set(Source::global("n"), false)), None);
        assert_eq!(
            refused(set(part, false)).as_deref(),
            Some("a part of a variable (cfg.chunk) is not written by this version")
        );
        assert_eq!(
            refused(set(Source::global("n"), true)).as_deref(),
            Some("every copy of n at once is not written by this version")
        );
        let load = Action::Load {
            library: "libtuned.so".into(),
        };
        assert_eq!(
            refused(load).as_deref(),
            Some("`load libtuned.so` is not done by this version")
        );
        assert_eq!(refused(Action::Enable { probe: ProbeId(0) }), None);
    }
}
