//! What of a rule this version can do: what it cannot is refused with a reason, never left out.

use std::collections::BTreeSet;

use rules::{Action, Delivery, Plan, Scalar, Site, SyncPoint, Target};

use super::{Decision, Write};

/// Why a rule cannot run: a probe that cannot be placed.
pub(super) fn cannot_run(plan: &Plan) -> Option<String> {
    let needed = plan
        .probes
        .iter()
        .filter(|probe| probe.delivers != Delivery::Nothing);
    let cannot = |probe: &rules::PlannedProbe| {
        let why = match (&probe.target, &probe.to) {
            (Target::Function(_), None) if probe.off_at_first => "is off at first",
            (Target::Function(_), None) => return None,
            (Target::Function(_), Some(_)) => "goes from one function to another",
            (Target::Pattern(_) | Target::Set(_), _) => "sits in more than one function",
        };
        let (name, function) = (&probe.name, &probe.function);
        Some(format!(
            "its probe {name} ({function}) {why}, which this version cannot place"
        ))
    };
    needed.into_iter().find_map(cannot)
}

/// A decision as the session carries it out; one of which a part cannot be done is refused as a whole.
pub(super) fn decided(decision: rules::Decision) -> Decision {
    let writes: Vec<Result<Write, String>> = decision.changes.iter().map(write_of).collect();
    let refused = writes.iter().find_map(|write| write.as_ref().err().cloned());
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
        rule: decision.rule_name,
        because: decision
            .because
            .into_iter()
            .map(|(name, value)| format!("{name}: {value}"))
            .collect(),
        asked: asked.collect(),
        changes: writes.into_iter().flatten().collect(),
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

fn write_of(change: &rules::Change) -> Result<Write, String> {
    let Action::Set {
        variable,
        everywhere: false,
        value,
    } = &change.action
    else {
        return Err(format!("`{}` is not done by this version", change.action.label()));
    };
    let Some(name) = variable.whole_global() else {
        return Err(format!(
            "a part of a variable ({variable}) is not written by this version"
        ));
    };
    Ok(Write {
        slot: change.process.0,
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
    use rules::{CheckedRule, ProcessId, Source, Step};

    use super::*;

    fn change(action: Action) -> rules::Change {
        rules::Change {
            process: ProcessId(3),
            action,
        }
    }

    #[test]
    fn what_this_version_cannot_do_is_refused_with_its_reason() {
        let set = |variable| Action::Set {
            variable,
            everywhere: false,
            value: Scalar::Number(2.0),
        };
        let mut part = Source::global("cfg");
        part.steps.push(Step::Field("chunk".into()));
        assert_eq!(
            write_of(&change(set(Source::global("n")))).map(|write| write.slot),
            Ok(3)
        );
        assert_eq!(
            write_of(&change(set(part))),
            Err("a part of a variable (cfg.chunk) is not written by this version".into())
        );
        let load = Action::Load {
            library: "libtuned.so".into(),
        };
        assert_eq!(
            write_of(&change(load)),
            Err("`load libtuned.so` is not done by this version".into())
        );
    }

    #[test]
    fn a_rule_whose_probe_cannot_be_placed_does_not_run() {
        let source = |probe: &str| {
            format!(
                "rule: a\nabout: b\nprobes:\n  p: {probe}\nwindows:\n  w: {{every: 1s}}\nmetrics:\n  n: count(p)\n"
            )
        };
        let why = |probe: &str| {
            let rule = CheckedRule::from_source(&source(probe)).expect("the rule is right");
            cannot_run(rule.plan())
        };
        assert_eq!(why("{span: f}"), None);
        assert_eq!(
            why("{span: 'solve_*'}").as_deref(),
            Some("its probe p (solve_*) sits in more than one function, which this version cannot place")
        );
        assert!(why("{span: [f, g]}").is_some_and(|why| why.contains("from one function to another")));
    }
}
