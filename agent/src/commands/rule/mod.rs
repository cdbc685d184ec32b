//! `tuneagent rule list|show|new|check|plan|schema`: the built-in rules, rules to begin with, and mistakes in
//! rule files. Attaches nothing.

mod candidates;
mod check;
mod fit;
mod new;
mod skeleton;

use crate::{
    cli::RuleCommand,
    exit::{Code, CommandResult, Failure},
};

pub(super) fn run(command: &RuleCommand) -> CommandResult {
    match command {
        RuleCommand::List { json } => list(*json),
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

fn list(json: bool) -> CommandResult {
    let shipped = rules::library().iter().chain(rules::models());
    let checked =
        shipped.filter_map(|(name, text)| Some((name, rules::CheckedRule::from_source(text).ok()?)));
    if json {
        let row = |(name, rule): (&&str, rules::CheckedRule)| {
            let plan = rule.plan();
            let acts = !plan.variables.is_empty() || !plan.actions.is_empty();
            serde_json::json!({"name": name, "about": rule.about(), "acts": acts})
        };
        return super::print_json(&checked.map(row).collect::<Vec<_>>());
    }
    checked.for_each(|(name, rule)| say!("{name:<24} {}", rule.about()));
    Ok(Code::Done)
}

fn show(name: &str) -> CommandResult {
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
