//! The JSON Schema of a rule file.

use syntax::json::Object;
use syntax::schema::{document, mapping};

use super::keys::RULE;

/// The JSON Schema of a rule file, as text.
pub fn schema() -> String {
    let mut definitions = Object::new();
    let schema = mapping(&RULE, &mut definitions);
    document(schema, definitions, "A rule of tuneagent")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use syntax::keys::{KeyDeclaration, NameForm, Shape};
    use syntax::yaml;

    use super::super::keys::ALL;
    use super::super::tests::schemas::{self, as_json, kept};
    use super::*;
    use crate::file::RuleFile;

    fn accepted(source: &str) -> Result<(), String> {
        schemas::accepted(&schema(), source)
    }

    fn example() -> &'static str {
        let page = include_str!("../../LANGUAGE.md");
        page.split("```")
            .find_map(|block| block.strip_prefix("yaml\n"))
            .unwrap()
    }

    #[test]
    fn the_schema_accepts_every_shipped_rule_and_the_example_of_the_language() {
        let shipped = crate::library()
            .iter()
            .chain(crate::models())
            .map(|(_, text)| *text);
        for source in shipped.chain([example()]) {
            accepted(source).unwrap_or_else(|wrong| panic!("{source}\n{wrong}"));
        }
    }

    #[test]
    fn the_schema_refuses_what_the_reader_refuses() {
        let least = "rule: a\nabout: b\nroles: {r: rank == 0}\nwindows: {w: {every: 1s}}\n";
        assert_eq!(accepted(least), Ok(()));
        let more = [
            "abuot: c",
            "call: f",
            "names: {2x: y}",
            "names: [x]",
            "capture: {x: y}",
            "probes: {p: {role: r}}",
            "probes: {p: {role: r, entry: f, span: f}}",
            "probes: {p: {role: r, entry: f, hook: f}}",
            "join: {j: {of: [p, q]}}",
            "metrics: {x: {value: 1}}",
            "metrics: {T(1): 1}",
            "metrics: 3",
            "tune: {finding: x, when: true}",
            "tune: [{finding: x, when: true, guard: {maximize: x, minimize: y, over: 1, undo_if_worse_by: 1%}}]",
            "tune: [{finding: x, when: true, at: {}}]",
            "tune: [{set: x, when: true}]",
        ];
        for line in more {
            let source = format!("{least}{line}\n");
            assert!(accepted(&source).is_err(), "{line}");
            let read = RuleFile::parse(&source).and_then(|file| file.check(&Default::default()));
            assert!(read.is_err(), "{line}");
        }
        for window in ["{}", "{every: 1s, from: p}", "{every: 1s, straddle: maybe}", "1s"] {
            let source = least.replace("{every: 1s}", window);
            assert!(accepted(&source).is_err(), "{window}");
        }
    }

    #[test]
    fn what_the_table_calls_required_the_reader_and_the_check_require() {
        let rule = "rule: a\nabout: b\nparameters: {l: {value: 3, about: c}}\nroles: {r: rank == 0}\nprobes: {p: {role: r, entry: f}, q: {role: r, entry: f}}\n\
            join: {j: {of: [p, q], by: [p.process = q.process]}}\nwindows: {w: {every: 1s}}\n\
            metrics: {m: {in: w, value: sum(cpu.time)}}\n\
            tune: [{set: x, role: r, value: 1, when: m > 1s, guard: {maximize: m, over: 1, undo_if_worse_by: 1%}}]\n";
        let (tree, _) = yaml::read(rule, None);
        let whole = as_json(&tree.unwrap());
        let check = |value: &Value| {
            // JSON is a subset of YAML.
            let source = value.to_string();
            RuleFile::parse(&source)
                .and_then(|file| file.check(&Default::default()))
                .is_ok()
        };
        assert!(check(&whole) && accepted(rule).is_ok());
        let places = [
            ("a rule", ""),
            ("a parameter", "/parameters/l"),
            ("a probe", "/probes/p"),
            ("a join", "/join/j"),
            ("a metric", "/metrics/m"),
            ("a guard", "/tune/0/guard"),
            ("a tune", "/tune/0"),
        ];
        for (place, at) in places {
            let keys = ALL.iter().find(|keys| keys.place == place).unwrap();
            let there =
                |key: &&KeyDeclaration| whole.pointer(at).is_some_and(|of| of.get(key.name).is_some());
            let beside = keys.known.iter().filter(there);
            let beside = beside.flat_map(|key| key.beside.iter().copied());
            let required = keys.known.iter().filter(|key| key.required).map(|key| key.name);
            for name in required.chain(beside) {
                let mut less = whole.clone();
                let removed = less
                    .pointer_mut(at)
                    .unwrap()
                    .as_object_mut()
                    .unwrap()
                    .remove(name);
                assert!(removed.is_some(), "{place}: {name}");
                assert!(!check(&less), "{place}: {name}");
            }
        }
    }

    fn row(key: &KeyDeclaration) -> String {
        let must = if key.required { "yes" } else { "" };
        format!("| `{}` | {} | {must} | {} |", key.name, what(&key.shape), key.doc)
    }

    fn what(shape: &Shape) -> String {
        match shape {
            Shape::Text => "text".into(),
            Shape::Template => "text with formulas".into(),
            Shape::Formula => "formula".into(),
            Shape::Name => "name in the rule".into(),
            Shape::Symbol => "name in the program".into(),
            Shape::Words(words) => words.join(", "),
            Shape::Mapping(keys) => keys.place.into(),
            Shape::Entries(NameForm::Plain, of) => format!("`name:` {}", what(of)),
            Shape::Entries(NameForm::Captured, of) => format!("`probe.name:` {}", what(of)),
            Shape::Entries(NameForm::Metric, of) => format!("`name:` or `T(n):` {}", what(of)),
            Shape::Entries(NameForm::PlainOrEnd, of) => format!("`name:` or `module.stream:` {}", what(of)),
            Shape::List(of) => format!("list, each {}", what(of)),
            Shape::Either(shapes) => shapes.iter().map(what).collect::<Vec<_>>().join(", or "),
        }
    }

    #[test]
    fn the_schema_beside_the_shipped_rules_is_made_of_the_table_and_each_of_them_names_it() {
        kept("library/rule.schema.json", |_| schema() + "\n");
        for (name, text) in crate::library().iter().chain(crate::models()) {
            let first = "# yaml-language-server: $schema=../rule.schema.json\n";
            assert!(text.starts_with(first), "{name}");
        }
    }

    #[test]
    fn the_dictionary_of_the_fuzz_target_has_the_words_of_the_language() {
        let keys = ALL.iter().flat_map(|keys| keys.names());
        let functions = crate::FUNCTIONS.iter().map(|function| function.name);
        let measures = crate::Measure::ALL.iter().map(|measure| measure.name());
        let others = [
            "by process",
            " where ",
            " for ",
            " in ",
            " to ",
            " over ",
            " as i32",
            " as bool",
            "500ms",
            "1KiB",
            "5%",
        ];
        let words: std::collections::BTreeSet<&str> = keys
            .chain(functions)
            .chain(measures)
            .chain(syntax::lexer::WORDS.iter().copied())
            .chain(others)
            .collect();
        let lines = words.iter().map(|word| format!("\"{word}\"\n"));
        kept("fuzz/rule_file.dict", |_| lines.collect());
    }

    #[test]
    fn the_page_of_the_language_has_every_key() {
        let mut tables = String::new();
        for keys in ALL {
            tables += &format!(
                "| in {} | its value | must be there | |\n|---|---|---|---|\n",
                keys.place
            );
            tables.extend(keys.known.iter().map(|key| row(key) + "\n"));
            tables += "\n";
        }
        kept("LANGUAGE.md", |page| {
            let (before, rest) = page.split_once("<!-- keys -->\n").unwrap();
            let (_, after) = rest.split_once("<!-- end of keys -->").unwrap();
            format!("{before}<!-- keys -->\n{tables}<!-- end of keys -->{after}")
        });
    }
}
