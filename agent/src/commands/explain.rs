//! `tuneagent explain ID`: the page of an error (`E0107`), of a finding, named after its rule
//! (`openmpi-busy-wait`), or the journal entry of a change (`change 24913:1`).

use profile::format::suggestion;
use rules::{CheckedRule, RuleFile};

use crate::exit::{Code, CommandResult, Failure};

pub(super) fn run(words: &[String]) -> CommandResult {
    let id = words.join(" ");
    let id = id.trim();
    if let Some(page) = rules::explain(id) {
        say!("{}: {}\n\n{}", page.code, page.title, page.text);
        return Ok(Code::Done);
    }
    if let Some((pid, number)) = id.strip_prefix("change ").and_then(change) {
        return super::history::explain(pid, number);
    }
    match page_of_rule(id) {
        Some(page) => {
            say!("{page}\nthe rule itself: tuneagent rule show {id}");
            Ok(Code::Done)
        }
        None => {
            let near = similar(id);
            let stop = if near.is_empty() { "." } else { "" };
            Err(Failure::invalid(format!(
                "there is no page on {id}{near}{stop} Give a rule (tuneagent rule list), an error such as E0107, or a change such as \
                 `change PID:1` (tuneagent journal). For a rule of your own: tuneagent rule check FILE, rule plan FILE"
            )))
        }
    }
}

/// The built-in rule with the nearest name, or those whose names contain the text, as a suffix.
fn similar(id: &str) -> String {
    let names = || rules::shipped().map(|(name, _)| name.to_owned());
    let containing: Vec<String> = names().filter(|name| id.len() > 2 && name.contains(id)).collect();
    match containing.is_empty() {
        true => suggestion(names(), id),
        false => format!(": did you mean {}?", containing.join(" or ")),
    }
}

/// Parses `24913:1`, or `1` alone.
fn change(text: &str) -> Option<(Option<i32>, u64)> {
    match text.split_once(':') {
        Some((pid, number)) => Some((Some(pid.parse().ok()?), number.parse().ok()?)),
        None => Some((None, text.parse().ok()?)),
    }
}

/// The page of a built-in rule: what it measures, its conditions and actions, and its sources.
fn page_of_rule(name: &str) -> Option<String> {
    let text = rules::shipped_text(name)?;
    let (file, rule) = (RuleFile::parse(text).ok()?, CheckedRule::from_source(text).ok()?);
    Some(rules::page(&file, &rule))
}

#[cfg(test)]
mod tests {
    use super::page_of_rule;

    #[test]
    fn every_shipped_rule_has_a_page() {
        for (name, _) in rules::shipped() {
            let page = page_of_rule(name).unwrap_or_default();
            assert!(page.starts_with(&format!("# {name}\n")), "{name}: {page}");
        }
    }
}
