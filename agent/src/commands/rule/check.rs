//! `tuneagent rule check`: shows mistakes in rule files, the effects of the rules, and whether they fit a
//! running program. Attaches nothing.

use std::{collections::BTreeMap, fs, path::Path};

use job::{Discovery, Job};
use profile::format::plural;
use rules::{CheckedRule, Diagnostic, RuleFile, has_errors};

use super::fit;
use crate::{
    cli::CheckRuleArgs,
    commands::target,
    diagnostics,
    exit::{Code, CommandResult, Failure, unreadable},
};

pub(super) fn run(args: &CheckRuleArgs) -> CommandResult {
    let job = match &args.pid {
        Some(target) => Some(target::job(
            &mut Discovery::default(),
            target,
            args.users.any_user,
        )?),
        None => None,
    };
    let mut code = Code::Done;
    for file in &args.files {
        if !check(file, args, job.as_ref())? {
            code = Code::Failed;
        }
    }
    Ok(code)
}

/// Prints the errors, or what the rule would do. Returns whether it can run.
fn check(path: &Path, args: &CheckRuleArgs, job: Option<&Job>) -> Result<bool, Failure> {
    let name = path.display().to_string();
    let text = text(path, &name)?;
    let library = |used: &str| crate::rulebook::beside(&name, used);
    let file = RuleFile::parse(&text).and_then(|file| file.with_library(&library));
    let file = match file.and_then(|file| file.bind(&map(&args.settings.bindings))) {
        Ok(file) => file,
        Err(wrong) => return Ok(refuse(&name, &text, &wrong)),
    };
    let rule = match file.check(&map(&args.settings.parameters)) {
        Ok(rule) => rule,
        Err(wrong) => return Ok(refuse(&name, &text, &wrong)),
    };
    diagnostics::print(&name, &text, rule.warnings());
    let Some(job) = job else {
        say!("{name}: the rule {} can run", rule.name());
        rule.plan().effects.iter().for_each(|effect| say!("    {effect}"));
        return Ok(true);
    };
    compare(&name, &text, &file, &rule, job)
}

fn compare(name: &str, text: &str, file: &RuleFile, rule: &CheckedRule, job: &Job) -> Result<bool, Failure> {
    let seen = fit::seen(job, rule);
    let names = fit::all_names(job, &seen, &rule.request());
    let fit = rules::fit(file, rule, &seen, &names);
    let (program, processes) = (job.program(), plural(job.members.len(), "process"));
    if fit.is_for_other_programs {
        diagnostics::print(name, text, &fit.diagnostics);
        say!(
            "{name}: the rule {} does not apply to {program}: no process fits any of its roles",
            rule.name()
        );
        return Ok(false);
    }
    if has_errors(&fit.diagnostics) {
        return Ok(refuse(name, text, &fit.diagnostics));
    }
    diagnostics::print(name, text, &fit.diagnostics);
    say!(
        "{name}: the rule {} can run on {program} ({processes})",
        rule.name()
    );
    rule.plan().effects.iter().for_each(|effect| say!("    {effect}"));
    if !fit.effects.is_empty() {
        say!("in this program:");
    }
    fit.effects.iter().for_each(|effect| say!("    {effect}"));
    Ok(true)
}

pub(super) fn refuse(name: &str, text: &str, wrong: &[Diagnostic]) -> bool {
    diagnostics::print(name, text, wrong);
    say!("{name}: {} found", plural(wrong.len(), "mistake"));
    false
}

/// The text of a file, or of a built-in rule.
pub(super) fn text(path: &Path, name: &str) -> Result<String, Failure> {
    match rules::shipped_text(name) {
        Some(text) if !path.exists() => Ok(text.to_owned()),
        _ => fs::read_to_string(path).map_err(|error| unreadable(path, &error)),
    }
}

fn map(settings: &[(String, String)]) -> BTreeMap<String, String> {
    settings.iter().cloned().collect()
}
