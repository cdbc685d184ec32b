//! `tuneagent rule list|show|new|check|plan|schema`: the built-in rules, templates for new rules, and
//! mistakes in rule files. Attaches nothing.

mod candidates;
mod check;
mod fit;
mod new;
mod skeleton;

use profile::format::suggestion;

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
    let checked =
        rules::shipped().filter_map(|(name, text)| Some((name, rules::CheckedRule::from_source(text).ok()?)));
    if json {
        let row = |(name, rule): (&str, rules::CheckedRule)| {
            serde_json::json!({
                "name": name,
                "about": rule.about(),
                "acts": rule.acts(),
                "must_be_named": rule.must_be_named(),
                "loaded": rules::is_built_in(name),
            })
        };
        return super::print_json(&checked.map(row).collect::<Vec<_>>());
    }
    let (loaded, others): (Vec<_>, Vec<_>) = checked.partition(|(name, _)| rules::is_built_in(name));
    say!("{:<24} {:<9} about", "rule", "acts");
    let row = |(name, rule): &(&str, rules::CheckedRule)| {
        let when = match (rule.acts(), rule.must_be_named()) {
            (false, _) => "never",
            (true, false) => "--apply",
            (true, true) => "if named",
        };
        say!("{name:<24} {when:<9} {}", rule.about());
    };
    loaded.iter().for_each(row);
    say!("\nOnly loaded with --rules RULE:");
    others.iter().for_each(row);
    say!("\nacts: never (it only reports), with --apply, or only if named (--apply=RULE)");
    Ok(Code::Done)
}

fn show(name: &str) -> CommandResult {
    let Some(text) = rules::shipped_text(name) else {
        let near = suggestion(rules::shipped().map(|(known, _)| known.to_owned()), name);
        return Err(Failure::invalid(format!(
            "no built-in rule is named {name}{near} (all of them: tuneagent rule list). For a rule of your own: tuneagent rule check FILE, \
             rule plan FILE"
        )));
    };
    say!("{}", text.trim_end());
    Ok(Code::Done)
}
