//! The JSON Schema of a contract file, generated from the table of its keys.

use syntax::json::{Json, Object, object};
use syntax::schema::{document, mapping, reference};

use super::keys::CONTRACT;

/// The JSON Schema of a contract file, as text.
pub fn schema() -> String {
    let mut definitions = Object::new();
    let mut contract = mapping(&CONTRACT, &mut definitions);
    let parts = object([
        ("type", "object".into()),
        ("additionalProperties", reference("part").into()),
    ]);
    if let Some(Json::Object(properties)) = contract.get_mut("properties") {
        properties.insert("contracts".into(), parts.into());
    }
    // The contract of a module has the name of its entry.
    let mut part = contract.clone();
    part.insert("required".into(), ["modules", "streams"].into_iter().collect());
    definitions.insert("part".into(), part.into());
    document(contract, definitions, "A contract of tuneagent")
}

#[cfg(test)]
mod tests {
    use super::super::Contract;
    use super::*;
    use crate::tests::{accepted, kept};

    const LEAST: &str =
        "contract: a\nstreams: {s: {from: A, to: B}}\nmodules: {A: {gives: {s: 1}}, B: {takes: [s]}}\n";

    #[test]
    fn the_schema_in_the_repository_is_made_of_the_table() {
        kept("../library/contract.schema.json", |_| schema() + "\n");
    }

    #[test]
    fn the_schema_accepts_the_contract_of_the_documentation_and_one_with_parts() {
        let page = include_str!("../../../docs/contracts.md");
        let film = page
            .split("```")
            .find_map(|block| block.strip_prefix("yaml film.yaml\n"));
        let parts = "contract: outer\nstreams: {s: {from: A, to: P}}\nmodules: {A: {gives: {s: 1}}, P: {contract: inner, map: {s: i}}}\n\
            contracts: {inner: {streams: {i: {to: B, latency: 2ms, buffer: 4}}, modules: {B: {takes: [i]}}}}\n";
        let works = format!(
            "{LEAST}work: {{fitted: {{measured: {{m: 1s}}}}, points: [{{if: {{s: 1MB, A.s: 1, B: 1ms, ram: 1MB}}, flop: 1e6}}, {{time: 1s}}]}}\n\
             machines: {{m: {{power: {{flop: 1e6/s}}, properties: {{ram: 1MB}}}}}}\n"
        );
        for source in [film.unwrap(), parts, LEAST, &works] {
            assert_eq!(accepted(&schema(), source), Ok(()), "{source}");
            assert!(Contract::parse(source).is_ok(), "{source}");
        }
    }

    #[test]
    fn the_schema_refuses_what_the_reader_refuses() {
        let more = [
            "abuot: c",
            "work: 3",
            "links: {l: {streams: [s]}}",
            "require: film",
            "require: [{feature: B, items: 3}]",
            "adapt: {B: {set: n}}",
            "contracts: {inner: {streams: {}}}",
            "machines: {2x: {}}",
        ];
        for line in more {
            let source = format!("{LEAST}{line}\n");
            assert!(accepted(&schema(), &source).is_err(), "{line}");
            assert!(Contract::parse(&source).is_err(), "{line}");
        }
        for (from, to) in [
            ("takes: [s]", "kind: parallel"),
            ("to: B", "to: B, kind: random"),
            ("contract: a\n", ""),
        ] {
            let source = LEAST.replace(from, to);
            assert!(accepted(&schema(), &source).is_err(), "{to}");
            assert!(Contract::parse(&source).is_err(), "{to}");
        }
    }

    #[test]
    fn the_dictionary_of_the_fuzz_target_has_the_keys() {
        let words = super::super::keys::ALL.iter().flat_map(|keys| keys.names());
        let others = [
            "1/12s",
            "100Mbit/s",
            "1e30",
            "2/3",
            " >= ",
            "1..16",
            "on-demand",
            "task-parallel",
        ];
        let words: std::collections::BTreeSet<&str> = words.chain(others).collect();
        kept("../fuzz/contract_file.dict", |_| {
            words.iter().map(|word| format!("\"{word}\"\n")).collect()
        });
    }

    #[test]
    fn the_page_on_contracts_has_every_section() {
        let page = include_str!("../../../docs/contracts.md");
        for name in CONTRACT.names() {
            assert!(
                page.contains(&format!("`{name}`")) || page.contains(&format!("\n{name}:")),
                "{name}"
            );
        }
    }
}
