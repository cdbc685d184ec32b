//! The laws of the fuzz targets, tested without a fuzzer: on every seed, and on some thousand deterministic
//! mutations of the seeds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

include!("../fuzz/oracles/contract_file.rs");
include!("../fuzz/oracles/message.rs");
include!("../fuzz/oracles/recording.rs");
include!("../fuzz/oracles/rule_file.rs");

const MUTATIONS: usize = 3000;

/// The seeds of a target: the written ones, which have names, and those found by the fuzzer, which have
/// checksums.
#[expect(clippy::disallowed_methods, reason = "a test may look at its seeds")]
fn seeds(target: &str) -> (Vec<Vec<u8>>, Vec<Vec<u8>>) {
    let folder = format!("{}/fuzz/corpus/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    let is_found = |file: &std::path::PathBuf| file.file_name().is_some_and(|name| name.len() == 40);
    let (found, written): (Vec<_>, Vec<_>) = files.into_iter().partition(is_found);
    let read =
        |files: Vec<std::path::PathBuf>| files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    (read(written), read(found))
}

/// Deterministic pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = rules::pseudo_random::mixed(self.0);
        self.0 as usize % limit.max(1)
    }
}

/// Changes a few places: flips a bit, changes a byte, inserts, removes, duplicates, or copies from another
/// seed.
fn mutate(dice: &mut Dice, seeds: &[Vec<u8>], pieces: &[&[u8]]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len());
        let end = (at + dice.below(40)).min(bytes.len());
        match dice.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xff][dice.below(6)],
            2 => drop(bytes.splice(at..at, pieces[dice.below(pieces.len())].iter().copied())),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let doubled = bytes[at..end].to_vec();
                drop(bytes.splice(at..at, doubled));
            }
            _ => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len());
                let to = (from + dice.below(40)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
        }
    }
    bytes
}

fn hold(target: &str, pieces: &[&[u8]], law: fn(&[u8])) {
    let (seeds, found) = seeds(target);
    assert!(
        seeds.len() >= 2 && found.len() >= 2,
        "the seeds of {target} are not there"
    );
    seeds.iter().chain(&found).for_each(|seed| law(seed));
    let mut dice = Dice(1);
    for number in 0..MUTATIONS {
        let bytes = mutate(&mut dice, &seeds, pieces);
        let held = std::panic::catch_unwind(|| law(&bytes));
        assert!(
            held.is_ok(),
            "mutation {number}: {:?}",
            String::from_utf8_lossy(&bytes)
        );
    }
}

#[test]
fn no_recording_is_too_strange() {
    let pieces: [&[u8]; 7] = [
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[0xff, 0],
        &[0; 9],
        &[0x80],
        br#"{"loss":{"time":1,"kind":""#,
        b"\\u001b",
        b"}}",
    ];
    hold("recording", &pieces, recording);
}

#[test]
fn no_message_is_too_strange() {
    let pieces: [&[u8]; 5] = [
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[0xff, 0xff, 3],
        &[0; 9],
        &[0x80],
        &[0, 0, 0, 0, 0, 0, 0xf0, 0x7f],
    ];
    hold("message", &pieces, message);
}

/// Messages of a coordinator and its nodes, by the names of their files.
fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let mut engine = coordinator();
    let mut node = node(rules::Machine(1), 1);
    observe(&mut node, 1);
    let observed = node.report();
    engine.take_report(observed.clone());
    let mut other = self::node(rules::Machine(0), 1);
    observe(&mut other, 0);
    engine.take_report(other.report());
    engine.tick(rules::Time(2_000));
    let schedule = engine.schedule();
    node.learn(&schedule);
    let folded = node.report();
    assert_eq!(folded.partials.len(), 1);
    vec![
        ("observed", observed.encode().unwrap()),
        ("folded", folded.encode().unwrap()),
        ("schedule", schedule.encode().unwrap()),
    ]
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test may look at its seeds")]
fn the_written_seeds_of_the_messages_are_in_the_present_format() {
    let folder = format!("{}/fuzz/corpus/message", env!("CARGO_MANIFEST_DIR"));
    for (name, message) in messages() {
        let file = format!("{folder}/{name}");
        if std::env::var_os("TUNEAGENT_UPDATE").is_some() {
            std::fs::write(&file, &message).unwrap();
        }
        assert!(
            std::fs::read(&file).unwrap() == message,
            "{name}: TUNEAGENT_UPDATE=1 cargo test -p tuneagent-rules --test fuzzed"
        );
    }
}

#[test]
fn no_rule_file_is_too_strange() {
    let pieces: [&[u8]; 12] = [
        b" - ",
        b"\n  ",
        b": ",
        b"(",
        b"1e308",
        b"-9223372036854775808",
        b" ^ ",
        b" / 0 ",
        b"18446744073709551616ns",
        "\u{201c}\u{e9}".as_bytes(),
        b"\"",
        b"{",
    ];
    hold("rule_file", &pieces, rule_file);
}

#[test]
fn no_contract_file_is_too_strange() {
    let pieces: [&[u8]; 14] = [
        b", ",
        b"\n  ",
        b": ",
        b"1e30",
        b"1/7",
        b"0",
        b"-1",
        b" kind: on-demand",
        b" initial: 1",
        b" latency: 1e9s",
        b"1000000",
        b"1e-30s",
        b"[A, B]",
        b"{",
    ];
    hold("contract_file", &pieces, contract_file);
}

#[test]
fn every_written_seed_of_the_contracts_is_accepted() {
    for seed in seeds("contract_file").0 {
        let text = String::from_utf8(seed).unwrap();
        contract::Contract::parse(&text).unwrap_or_else(|wrong| {
            panic!("{}", rules::render("seed", &text, &wrong));
        });
    }
}

#[test]
fn every_written_seed_of_the_rules_is_accepted() {
    // A refused rule is not evaluated.
    for seed in seeds("rule_file").0 {
        let text = String::from_utf8(seed).unwrap();
        rules::CheckedRule::from_source(&text).unwrap_or_else(|wrong| {
            panic!("{}", rules::render("seed", &text, &wrong));
        });
    }
}
