//! The page of a rule for readers, in Markdown, generated from its file alone.

use std::fmt::Write as _;

use syntax::template::{FormulaText, Part};

use crate::file::{GuardEntry, KeyEntry, ProbeEntry, RuleFile, TuneEntry, WindowEntry};
use crate::rule::CheckedRule;
use crate::target::Site;
use crate::types::KeyKind;

/// Writing into memory cannot fail.
macro_rules! line {
    ($out:expr, $($argument:tt)*) => {{ let _ = writeln!($out, $($argument)*); }};
}

/// The page of a rule, in Markdown. `file` is the source of `rule`.
pub fn page(file: &RuleFile, rule: &CheckedRule) -> String {
    let mut out = String::new();
    line!(out, "# {}\n\n{}\n", rule.name(), sentence(rule.about()));
    if let Some(source) = rule.source() {
        line!(out, "Source: {}\n", sentence(source));
    }
    if let Some(gained) = rule.gained() {
        line!(out, "Measured: {}\n", sentence(gained));
    }
    safety(&mut out, file, rule);
    settings(&mut out, file);
    observations(&mut out, file, rule);
    if !file.tunes.is_empty() {
        line!(out, "## Tunes\n");
        file.tunes.iter().for_each(|entry| tune(&mut out, entry));
    }
    let effects: Vec<String> = rule
        .plan()
        .effects
        .iter()
        .map(|effect| upper(&effect.to_string()))
        .collect();
    list(&mut out, "Effects", &effects);
    out.truncate(out.trim_end().len());
    out + "\n"
}

/// Its effects on a program and its results, and how they are reverted.
fn safety(out: &mut String, file: &RuleFile, rule: &CheckedRule) {
    line!(out, "## Is it safe?\n");
    if !rule.acts() {
        line!(out, "It changes nothing: it only reports.\n");
        return;
    }
    if let Some(why) = &file.must_be_named {
        line!(
            out,
            "- It must be named (`--apply={}`): {}",
            rule.name(),
            sentence(why)
        );
    }
    let results = file.results.as_deref().unwrap_or("the rule does not state it");
    let guard = rule.tunes.iter().find_map(|tune| tune.guard());
    let mut acting = file.tunes.iter().filter(|tune| tune.action.is_some());
    let has_inverse = acting.any(|tune| tune.inverse.as_ref().is_none_or(|one| one.call.is_some()));
    let reverted = match guard {
        _ if !has_inverse => "Not reverted: what it does leaves nothing to revert.",
        Some(guard) if guard.keeps_unless_worse => {
            "Reverted: by the guard if the objective gets worse; at the end of the session, unless `--keep` is given; and by \
             `tuneagent undo` at any time."
        }
        Some(_) => {
            "Reverted: by the guard unless it confirms that the objective improves; at the end of the session, unless `--keep` is \
             given; and by `tuneagent undo` at any time."
        }
        None => {
            "Reverted: always at the end of the session, also with `--keep`, because no guard confirms it; and by `tuneagent undo` \
             at any time."
        }
    };
    line!(
        out,
        "- It changes a program only with `--apply`; its changes are listed under Effects."
    );
    line!(out, "- Results: {}", sentence(results));
    line!(out, "- {reverted}\n");
}

/// Assumptions, and settings of the user.
fn settings(out: &mut String, file: &RuleFile) {
    list(out, "Assumptions", &file.assumptions);
    list(out, "Corrections to the source", &file.corrections);
    let parameters = file.parameters.iter().map(|named| {
        let name = &named.name.raw;
        let meaning = file.meanings.get(name).map_or("", String::as_str);
        vec![code(name), code(&named.expr.to_string()), meaning.to_string()]
    });
    table(
        out,
        "Parameters",
        &["`--param`", "default", "meaning"],
        parameters,
    );
    let names = file
        .names
        .iter()
        .map(|(name, what)| vec![code(&name.raw), what.trim_end().to_string()]);
    table(out, "Names of the program", &["`--bind`", "what it is"], names);
}

/// The observations of the rule.
fn observations(out: &mut String, file: &RuleFile, rule: &CheckedRule) {
    let roles = file.roles.iter().map(|role| {
        let every = || "every process".to_string();
        let with = role
            .expr
            .as_ref()
            .map_or_else(every, |expr| code(&expr.to_string()));
        vec![code(&role.name.raw), with]
    });
    table(out, "Roles", &["role", "processes with"], roles);
    table(
        out,
        "Probes",
        &["probe", "role", "at", "captures"],
        file.probes
            .iter()
            .filter(|entry| !entry.implied)
            .map(|entry| probe(file, entry)),
    );
    let joins = file.joins.iter().map(|join| {
        let by = join
            .by
            .iter()
            .map(|(left, right)| code(&format!("{} = {}", left.raw, right.raw)));
        vec![
            code(&join.name.raw),
            code(&join.of.0.raw),
            code(&join.of.1.raw),
            by.collect::<Vec<_>>().join(", "),
        ]
    });
    table(out, "Joins", &["join", "each", "with the", "of equal"], joins);
    let windows = file
        .windows
        .iter()
        .map(|entry| vec![code(&entry.name.raw), window(entry)]);
    table(out, "Windows", &["window", ""], windows);
    table(out, "Metrics", &["metric", "formula", "is"], metrics(file, rule));
}

fn list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    line!(out, "## {title}\n");
    for item in items {
        line!(out, "- {}", sentence(item));
    }
    out.push('\n');
}

fn table(out: &mut String, title: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    line!(out, "## {title}\n");
    line!(out, "| {} |", head.join(" | "));
    line!(out, "|{}", "---|".repeat(head.len()));
    for row in rows {
        line!(out, "| {} |", row.join(" | "));
    }
    out.push('\n');
}

fn probe(file: &RuleFile, entry: &ProbeEntry) -> Vec<String> {
    let at = match entry.site {
        Site::Entry => "entry of",
        Site::Return => "return of",
        Site::Span => "span of",
    };
    let captures = file
        .captures
        .iter()
        .filter(|capture| capture.probe.raw == entry.name.raw);
    let captures = captures.map(|capture| code(&format!("{}: {}", capture.field.raw, capture.expr)));
    vec![
        code(&entry.name.raw),
        entry
            .role
            .as_ref()
            .map_or_else(String::new, |role| role.raw.clone()),
        match &entry.to {
            Some(to) => format!(
                "from the entry of {} to the return of {}",
                code(&entry.function.raw),
                code(&to.raw)
            ),
            None => format!("{at} {}", code(&entry.function.raw)),
        },
        captures.collect::<Vec<_>>().join(", "),
    ]
}

fn window(entry: &WindowEntry) -> String {
    let mut parts = Vec::new();
    let mut part = |what: &str, value: Option<String>| {
        parts.extend(value.map(|value| format!("{what} {}", code(&value))));
    };
    part("every", entry.every.as_ref().map(ToString::to_string));
    part("detected", entry.detect.as_ref().map(|text| text.raw.clone()));
    part("within", entry.within.as_ref().map(|text| text.raw.clone()));
    let from: Vec<&str> = entry.from.iter().map(|text| text.raw.as_str()).collect();
    part("from", (!from.is_empty()).then(|| from.join(", ")));
    part("until", entry.until.as_ref().map(ToString::to_string));
    part("to", entry.to.as_ref().map(|text| text.raw.clone()));
    match &entry.key {
        Some(KeyEntry::Same(name)) => part("key", Some(name.raw.clone())),
        Some(KeyEntry::Each(each)) => each
            .iter()
            .for_each(|(probe, field)| part("key", Some(format!("{}.{}", probe.raw, field.raw)))),
        None => {}
    }
    for named in &entry.complete {
        part(
            "complete when",
            Some(format!("{}: {}", named.name.raw, named.expr)),
        );
    }
    part("timeout", entry.timeout.as_ref().map(ToString::to_string));
    part("skip", entry.skip.as_ref().map(ToString::to_string));
    part("discard", entry.discard.as_ref().map(ToString::to_string));
    part("straddle", entry.straddle.as_ref().map(|text| text.raw.clone()));
    parts.join(", ")
}

fn metrics<'a>(file: &'a RuleFile, rule: &'a CheckedRule) -> impl Iterator<Item = Vec<String>> + 'a {
    file.metrics.iter().map(|entry| {
        let name = &entry.named.name.raw;
        let shown = match &entry.parameter {
            Some(parameter) => format!("{name}({})", parameter.raw),
            None => name.clone(),
        };
        let of = rule
            .metrics
            .iter()
            .find(|metric| metric.name == *name)
            .map(|metric| metric.value.type_of);
        let is = of.map_or(String::new(), |of| match of.table.map(KeyKind::what) {
            Some(keys) => format!("{}, {keys}", of.what()),
            None => of.what(),
        });
        vec![code(&shown), code(&entry.named.expr.to_string()), is]
    })
}

/// The rows of a guard.
fn guarded(guard: &GuardEntry, row: &mut impl FnMut(&str, Option<String>)) {
    let verb = if guard.maximize { "maximizes" } else { "minimizes" };
    let margin = guard.margin.as_ref().map_or(String::new(), ToString::to_string);
    let over = guard.over.as_ref().map_or(String::new(), ToString::to_string);
    row(&format!("the guard {verb}"), Some(guard.objective.to_string()));
    row(
        "it compares this many windows before and after the change:",
        Some(over),
    );
    row(
        "the verdict is worse if the loss is significant and exceeds",
        Some(margin),
    );
    let is_lenient = guard.keep.as_ref().is_some_and(|text| text.raw == "not_worse");
    let kept = if is_lenient { "not worse" } else { "confirmed" };
    row("the change is kept only if it is", Some(kept.to_owned()));
    row(
        "where `was`, of before the change, is",
        guard.was.as_ref().map(ToString::to_string),
    );
    row(
        "and tries again after a revert, in windows",
        guard.retry.as_ref().map(ToString::to_string),
    );
}

fn tune(out: &mut String, entry: &TuneEntry) {
    let role = entry.role.as_ref().map_or(String::new(), |role| {
        format!(" in every process of the role {}", code(&role.raw))
    });
    match &entry.action {
        Some(action) => line!(
            out,
            "**{} {}**{role}",
            action.keyword.name(),
            code(&action.target.raw)
        ),
        None => line!(out, "**advice**"),
    }
    let mut row = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            line!(out, "- {what} {}", code(&value));
        }
    };
    let formula = |expr: &Option<syntax::ast::Expr>| expr.as_ref().map(ToString::to_string);
    let text = |text: &Option<syntax::text::Text>| text.as_ref().map(|text| text.raw.clone());
    let inverse = entry.inverse.as_ref().filter(|inverse| inverse.call.is_some());
    row("reverted by", inverse.map(|inverse| inverse.text.raw.clone()));
    row("where `was`, just before the call, is", formula(&entry.was));
    row("there is nothing to revert, because", text(&entry.because));
    row("to", formula(&entry.value));
    row("only where", formula(&entry.range));
    row("when", formula(&entry.when));
    row("as long as", formula(&entry.while_holds));
    row("for this many windows in a row:", formula(&entry.holds_for));
    row("at the close of every", text(&entry.every));
    row("at the start", formula(&entry.initial));
    row("the model predicts", formula(&entry.expect));
    row("at most every", formula(&entry.cooldown));
    row("given up after this many windows:", formula(&entry.stale));
    row("after", text(&entry.after));
    row("all at the beginning of", text(&entry.together));
    if let Some(at) = &entry.at {
        row(
            "at the",
            Some(format!("{} of {}", at.moment.name(), at.function.raw)),
        );
    }
    row("with", text(&entry.with));
    let is_of_every_library = entry.inside.as_ref().is_some_and(|inside| inside.raw == "all");
    let inside = if is_of_every_library {
        "of the libraries that have the variable, in"
    } else {
        "in"
    };
    row(inside, text(&entry.inside));
    row("at its", text(&entry.place));
    entry.guard.iter().for_each(|guard| guarded(guard, &mut row));
    for (what, text) in [("finding", &entry.finding), ("next start", &entry.next_start)] {
        if let Some(text) = text {
            line!(out, "- {what}: {}", code(&written(text)));
        }
    }
    out.push('\n');
}

/// A text with formulas, as it stands in the file.
fn written(text: &FormulaText) -> String {
    let part = |part: &Part| match part {
        Part::Literal(text) => text.replace('{', "{{").replace('}', "}}"),
        Part::Formula { expr, percent } => format!("{{{expr}{}}}", if *percent { ":%" } else { "" }),
    };
    text.parts.iter().map(part).collect()
}

/// A formula in a table cell, with escaped bars.
fn code(text: &str) -> String {
    format!(
        "`{}`",
        text.replace('|', "\\|")
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    )
}

fn sentence(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.ends_with(['.', '!', '?']) {
        text
    } else {
        text + "."
    }
}

fn upper(text: &str) -> String {
    let mut rest = text.chars();
    rest.next()
        .map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares a file of the documentation with its expected content, or writes the file if requested.
    #[expect(clippy::disallowed_methods, reason = "a test may look at the documents")]
    fn kept(name: &str, should: &str) {
        let file = format!("{}/../docs/rules/{name}", env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("TUNEAGENT_UPDATE").is_some() {
            std::fs::write(file, should).unwrap();
            return;
        }
        let is = std::fs::read_to_string(file).unwrap_or_default();
        assert_eq!(
            is, should,
            "docs/rules/{name} is not what the rule says: cargo xtask docs"
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test may look at the documents")]
    fn every_shipped_rule_has_a_page_that_its_file_makes_and_the_index_names_it() {
        let mut index = String::from(
            "# Built-in rules\n\n`cargo xtask docs` writes each page from the file of the rule; `tuneagent rule show NAME` prints the file.\n",
        );
        let mut pages = vec!["README.md".to_string()];
        let is_in = |folder: &&str, name: &str| {
            let file = format!("{}/library/{folder}/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
            std::path::Path::new(&file).exists()
        };
        for (title, shipped) in [
            ("For any program", crate::library()),
            (
                "Models: for programs with the functions and variables that they name",
                crate::models(),
            ),
        ] {
            index += &format!("\n## {title}\n\n| rule | |\n|---|---|\n");
            for (name, text) in shipped {
                let file = RuleFile::parse(text).unwrap();
                let rule = file.check(&Default::default()).unwrap();
                index += &format!("| [{name}]({name}.md) | {} |\n", sentence(rule.about()));
                if title == "For any program" && rule.acts() {
                    assert!(rule.gained().is_some(), "{name} says nothing of what it gained");
                }
                let folder = ["runtime", "models", "metrics"]
                    .into_iter()
                    .find(|folder| is_in(folder, name))
                    .unwrap();
                let link = format!("\nThe rule: [{name}.yaml](../../rules/library/{folder}/{name}.yaml)\n");
                kept(&format!("{name}.md"), &(page(&file, &rule) + &link));
                pages.push(format!("{name}.md"));
            }
        }
        kept("README.md", &index);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/rules");
        for entry in std::fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(pages.contains(&name), "docs/rules/{name} is the page of no rule");
        }
    }

    #[test]
    fn a_page_is_complete() {
        let source = "rule: whole\nabout: |\n  two\n  lines\nassumptions:\n  - workers are alike\ncorrections: [none is known]\n\
            parameters:\n  p: {value: 3%, about: a share}\n  q: 2\nroles: {r: rank == 0 or exe == \"a|b\"}\n\
            probes: {a: {role: r, entry: f}, b: {role: r, return: g}}\ncapture: {a.n: number, a.m: arg(1) * 1B, b.n: ret}\n\
            join:\n  j: {of: [a, b], by: [a.n = b.n]}\n\
            windows:\n  w: {from: a, to: b, key: {a: n, b: n}, timeout: 2s, skip: 3, discard: w.index > 9, straddle: drop}\n\
            metrics:\n  rows: sum(a.n) by process\n  T(n): n * q\ntune:\n\
            \x20 - {set: x, role: r, value: 1, while: T(2) > p, at: {entry: h}, guard: {minimize: T(1), over: 4, undo_if_worse_by: 5%}}\n\
            \x20 - {when: sum(rows) > 1, finding: \"{{many}} {sum(rows)} of {T(1):%}\"}\n";
        let file =
            RuleFile::parse(source).unwrap_or_else(|wrong| panic!("{}", crate::render("x", source, &wrong)));
        let rule = file
            .check(&Default::default())
            .unwrap_or_else(|wrong| panic!("{}", crate::render("x", source, &wrong)));
        insta::assert_snapshot!(page(&file, &rule));
    }
}
