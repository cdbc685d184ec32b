//! `tuneagent rule list|show|check`: the built-in rules, and mistakes in rule files. Attaches nothing.

use std::{collections::BTreeMap, fs, path::Path};

use rules::RuleFile;

use crate::{
    cli::RuleCommand,
    diagnostics,
    exit::{Code, Failure, Outcome},
};

pub(super) fn run(command: &RuleCommand) -> Outcome {
    match command {
        RuleCommand::List => list(),
        RuleCommand::Show { name } => show(name),
        RuleCommand::Plan { rules, dot } => super::graph::run(rules, *dot),
        RuleCommand::Check { files } => {
            let mut code = Code::Done;
            for file in files {
                if !check(file)? {
                    code = Code::No;
                }
            }
            Ok(code)
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

/// Says what is wrong, or what the rule would do; true when it can run.
fn check(path: &Path) -> Result<bool, Failure> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|error| Failure::not_there(format!("{name} cannot be read: {error}")))?;
    let library = |used: &str| crate::rulebook::beside(&name, used);
    let file = RuleFile::parse(&text).and_then(|file| file.with_library(&library));
    match file.and_then(|file| file.check(&BTreeMap::new())) {
        Ok(rule) => {
            eprint!("{}", diagnostics::render(&name, &text, rule.warnings()));
            say!("{name}: the rule {} can run", rule.name());
            rule.plan().effects.iter().for_each(|effect| say!("    {effect}"));
            Ok(true)
        }
        Err(wrong) => {
            eprint!("{}", diagnostics::render(&name, &text, &wrong));
            say!("{name}: {} found", crate::format::plural(wrong.len(), "mistake"));
            Ok(false)
        }
    }
}
