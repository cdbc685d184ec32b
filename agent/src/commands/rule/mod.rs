//! `tuneagent rule list|show|new|check|plan|schema`: the built-in rules, rules to begin with, and mistakes in rule files. Attaches
//! nothing.

mod candidates;
mod check;
mod fit;
mod new;
mod skeleton;

use crate::{
    cli::RuleCommand,
    exit::{Code, Failure, Outcome},
};

pub(super) fn run(command: &RuleCommand) -> Outcome {
    match command {
        RuleCommand::List => list(),
        RuleCommand::Show { name } => show(name),
        RuleCommand::Check(args) => check::run(args),
        RuleCommand::New(args) => new::run(args),
        RuleCommand::Plan { rules, dot } => super::graph::run(rules, *dot),
        RuleCommand::Schema => {
            say!("{}", rules::schema());
            Ok(Code::Done)
        }
    }
}

fn list() -> Outcome {
    for (name, text) in rules::library().iter().chain(rules::models()) {
        let about = rules::CheckedRule::from_source(text)
            .map(|rule| rule.about().to_owned())
            .unwrap_or_default();
        say!("{name:<24} {about}");
    }
    Ok(Code::Done)
}

fn show(name: &str) -> Outcome {
    let shipped = || rules::library().iter().chain(rules::models());
    let Some((_, text)) = shipped().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = shipped().map(|(name, _)| *name).collect();
        return Err(Failure::not_there(format!(
            "no built-in rule is named {name}; there are: {}",
            known.join(", ")
        )));
    };
    say!("{}", text.trim_end());
    Ok(Code::Done)
}
