//! What of a decision this version can do: what it cannot is refused with a reason, never left out.

use std::collections::BTreeSet;

use rules::{Action, Scalar, Site, Source, SyncPoint, Target};

use super::{Decision, Switch, Write};

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
    let refused = refused.or_else(|| at.as_ref().err().cloned()).or_else(|| {
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
        window_ns: decision.window.map(|(from, to)| (from.0, to.0)),
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
