//! Structure of the source: sizes, and where unsafe code and writes may be. `arrows` and `pure` check dependencies.
//!
//! Text search without a parser, because rustfmt makes the text regular. For the kernel side only sizes and
//! unsafe code are checked.

mod unsafe_code;
mod writes;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::Chars;

use tuneagent_e2e::Outcome;
use tuneagent_e2e::problem::Context;

const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Maximum number of lines on the kernel side: they run at every hit, and all of them must pass the verifier. New
/// work belongs to the user side, or replaces other work.
const KERNEL_LINES_MAX: usize = 3_260;

/// A source file of the product without its unit tests.
pub(crate) struct Source {
    /// Path relative to the checkout.
    pub(crate) name: String,
    /// Text without the unit tests in the same file.
    pub(crate) product: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// Text of a file of the checkout.
pub(crate) fn read(name: &str) -> Outcome<String> {
    fs::read_to_string(root().join(name)).context(name)
}

/// All Rust sources in these folders, sorted, without unit tests.
pub(crate) fn sources(folders: &[&str]) -> Outcome<Vec<Source>> {
    let mut sources = Vec::new();
    for (name, text) in texts(folders, &["rs"])? {
        if !is_test(&name) {
            let product = without_tests(&text).to_owned();
            sources.push(Source { name, product });
        }
    }
    Ok(sources)
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// Text up to the unit tests at its end; the complete text if they are in another file.
fn without_tests(text: &str) -> &str {
    let mut heads = text.match_indices("\n#[cfg(test)]\nmod ");
    let is_block = |at: usize, head: &str| {
        let line = text[at + head.len()..].lines().next();
        line.is_some_and(|line| line.ends_with('{'))
    };
    let end = heads.find(|(at, head)| is_block(*at, head));
    end.map_or(text, |(at, _)| &text[..at])
}

/// All files in these folders with one of these endings: path relative to the checkout, and text. Sorted.
pub(crate) fn texts(folders: &[&str], endings: &[&str]) -> Outcome<Vec<(String, String)>> {
    let mut folders: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).context(folder.display())? {
            let path = entry?.path();
            let ending = path.extension().and_then(OsStr::to_str);
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if ending.is_some_and(|ending| endings.contains(&ending)) {
                let name = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy();
                texts.push((name.to_string(), read(&name)?));
            }
        }
    }
    texts.sort();
    Ok(texts)
}

/// Lines of code with their numbers; comments may contain any word.
pub(crate) fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    numbered.filter(|(_, line)| !line.trim_start().starts_with("//"))
}

pub(crate) fn assert_none(found: &[String], rule: &str) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// All `std::…` paths of a text, with groups expanded: `use std::{fs, io::Read}` gives fs and io::Read.
pub(crate) fn std_paths(text: &str) -> BTreeSet<String> {
    paths_below("std::", text)
}

/// All paths that begin with `head`, without `head`.
pub(crate) fn paths_below(head: &str, text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut dense = String::new();
    for word in code(text).flat_map(|(_, line)| line.split_whitespace()) {
        if dense.ends_with(is_word) && word.starts_with(is_word) {
            dense.push(' ');
        }
        dense.push_str(word);
    }
    let mut paths = BTreeSet::new();
    for (at, _) in dense.match_indices(head) {
        if dense[..at].ends_with(is_word) {
            continue;
        }
        let rest = &dense[at + head.len()..];
        let end = rest
            .find(|c: char| !(is_word(c) || c == ':'))
            .unwrap_or(rest.len());
        let (path, rest) = rest.split_at(end);
        match rest.strip_prefix('{') {
            Some(group) => spell_out(path, &mut group.chars(), &mut paths),
            None => {
                paths.insert(path.to_owned());
            }
        }
    }
    paths
}

/// Members of a group up to its closing brace, each with the path before the group.
fn spell_out(head: &str, group: &mut Chars<'_>, into: &mut BTreeSet<String>) {
    let mut member = String::new();
    while let Some(c) = group.next() {
        match c {
            '{' => spell_out(&format!("{head}{}", std::mem::take(&mut member)), group, into),
            ',' | '}' => {
                if !member.is_empty() {
                    into.insert(format!("{head}{}", std::mem::take(&mut member)));
                }
                if c == '}' {
                    return;
                }
            }
            _ => member.push(c),
        }
    }
}

#[test]
fn one_module_knows_nats() -> Outcome {
    let users = sources(&["agent", "rules", "tuner", "xtask"])?;
    let knows = |source: &&Source| source.product.contains("async_nats");
    let users: Vec<String> = users
        .iter()
        .filter(knows)
        .map(|source| source.name.clone())
        .collect();
    assert_eq!(users, ["agent/src/nodes/nats.rs"]);
    Ok(())
}

#[test]
fn two_worlds_meet_in_one_module_each() -> Outcome {
    for (one, other) in [("abi::", "rules::"), ("rules::", "tuner::")] {
        let mut meeting = BTreeSet::new();
        for source in sources(&AGENT)? {
            // `rules::period` is allowed everywhere, because it is arithmetic without rules.
            let names = |world: &str| {
                code(&source.product)
                    .any(|(_, line)| names_crate(line, world) && !line.contains("rules::period"))
            };
            if names(one) && names(other) {
                // A module is a file or a folder directly in the crate's sources.
                let module = source.name.split("src/").nth(1).unwrap_or(&source.name);
                meeting.insert(module.split('/').next().unwrap_or(module).to_owned());
            }
        }
        assert!(
            meeting.len() <= 1,
            "{one} and {other} meet in more than one module of agent: {meeting:?}"
        );
    }
    Ok(())
}

/// Matches `rules::x`, but neither `crate::rules::x` nor `my_rules::x`.
fn names_crate(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
}

/// Source folders of the agent's crates.
pub(crate) const AGENT: [&str; 7] = [
    "agent/src",
    "agent/job/src",
    "agent/page/src",
    "agent/probe/src",
    "agent/profile/src",
    "agent/report/src",
    "agent/session/src",
];

/// Source folders of the product besides the agent's crates.
const OTHERS: [&str; 8] = [
    "ebpf/src",
    "ebpf/abi/src",
    "rules/contract/src",
    "rules/plan/src",
    "rules/recording/src",
    "rules/src",
    "rules/syntax/src",
    "tuner/src",
];

/// All folders with Rust sources.
const FOLDERS: [&str; 6] = ["agent", "ebpf", "rules", "tests", "tuner", "xtask"];

/// Source folders of the agent's crates, and these.
pub(crate) fn agent_and(others: &[&'static str]) -> Vec<&'static str> {
    [&AGENT, others].concat()
}

/// All sources of the product, and those in these folders.
pub(crate) fn product_and(others: &[&str]) -> Outcome<Vec<Source>> {
    sources(&[&AGENT[..], &OTHERS, others].concat())
}

#[test]
fn no_file_and_no_function_is_too_long_to_read() -> Outcome {
    let mut found = Vec::new();
    let texts = texts(&FOLDERS, &["rs"])?;
    assert!(
        texts.iter().any(|(name, _)| name == file!()),
        "the search misses tests"
    );
    for (name, text) in texts {
        let lines = without_tests(&text).lines().count();
        if lines > FILE_LINES_MAX {
            found.push(format!("{name}: {lines} lines"));
        }
        for (function, lines) in functions(&text) {
            if lines > FUNCTION_LINES_MAX {
                found.push(format!("{name}: fn {function} has {lines} lines"));
            }
        }
    }
    assert_none(
        &found,
        &format!("more than {FILE_LINES_MAX} lines in a file, or {FUNCTION_LINES_MAX} in a function"),
    );
    Ok(())
}

#[test]
fn the_kernel_side_stays_small() -> Outcome {
    let sources = sources(&["ebpf/src"])?;
    let lines: usize = sources.iter().map(|source| source.product.lines().count()).sum();
    assert!(lines <= KERNEL_LINES_MAX, "{lines} lines in ebpf/src");
    Ok(())
}

/// Files of tests that sleep once, with the reason. `tests/clippy.toml` checks the tests of complete programs.
const SLEEPS: [(&str, &str); 3] = [
    ("agent/tests/sync/calls.rs", "sets the time of a kill"),
    ("tuner/tests/suite/crashes.rs", "sets the time of a kill"),
    ("tuner/tests/suite/obstacles.rs", "sets the time of a kill"),
];

#[test]
fn tests_do_not_sleep_to_synchronise() -> Outcome {
    let mut sleeping = BTreeSet::new();
    for (name, text) in texts(&["agent", "rules", "tuner", "ebpf"], &["rs"])? {
        let product = if is_test(&name) { "" } else { without_tests(&text) };
        let sleeps = code(&text[product.len()..]).filter(|(_, line)| line.contains("thread::sleep"));
        sleeping.extend((1..=sleeps.count()).map(|number| (name.clone(), number)));
    }
    let allowed = SLEEPS.map(|(file, _)| (file.to_owned(), 1));
    assert_eq!(sleeping, BTreeSet::from(allowed), "use wait::wait_until");
    Ok(())
}

/// Names and lengths of functions: from the line with `fn` to the closing brace at the same indentation.
fn functions(text: &str) -> Vec<(String, usize)> {
    let mut open: Vec<(String, usize, usize)> = Vec::new();
    let mut done = Vec::new();
    for (number, line) in code(text) {
        let indentation = line.len() - line.trim_start().len();
        if line.trim_end() == format!("{}}}", " ".repeat(indentation))
            && open.last().is_some_and(|(_, depth, _)| *depth == indentation)
        {
            let (name, _, start) = open.pop().unwrap_or_default();
            done.push((name, number - start + 1));
        } else if let Some(name) = function_name(line.trim_start())
            && !line.ends_with([';', '}'])
        {
            open.push((name, indentation, number));
        }
    }
    done
}

fn function_name(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = [
        "pub",
        "pub(crate)",
        "pub(super)",
        "const",
        "async",
        "unsafe",
        "extern",
        "\"C\"",
    ];
    before
        .split_whitespace()
        .all(|word| qualifiers.contains(&word))
        .then_some(())?;
    Some(
        after
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect(),
    )
}

/// Maximum number of files with methods of `Session`: begin, loop, events, end.
const SESSION_FILES_MAX: usize = 4;
const SESSION_FIELDS_MAX: usize = 9;
/// Maximum sum of lines of these files.
const SESSION_LINES_MAX: usize = 700;

#[test]
fn a_session_composes_parts_that_do_not_know_it() -> Outcome {
    let sources = sources(&["agent/src/session"])?;
    let files = sources
        .iter()
        .filter(|file| file.product.contains("\nimpl Session {"));
    let lines: usize = files.clone().map(|file| file.product.lines().count()).sum();
    let files: Vec<&str> = files.map(|file| file.name.as_str()).collect();
    assert!((1..=SESSION_FILES_MAX).contains(&files.len()), "{files:?}");
    assert!(lines <= SESSION_LINES_MAX, "{lines} lines in {files:?}");
    let heads = ["super::", "crate::session::"];
    let knows = |file: &&Source| {
        heads
            .iter()
            .any(|head| paths_below(head, &file.product).contains("Session"))
    };
    let others = sources.iter().filter(|file| !files.contains(&file.name.as_str()));
    let others: Vec<String> = others.filter(knows).map(|file| file.name.clone()).collect();
    assert_none(&others, "a part of the session gets what it needs as arguments");
    let mut structs = sources
        .iter()
        .filter_map(|file| file.product.split_once("\npub(crate) struct Session {\n"));
    let (_, fields) = structs.next().ok_or("there is no session")?;
    let fields = fields.split_once("\n}").ok_or("a session does not end")?.0;
    let fields = code(fields).filter(|(_, line)| line.contains(": ")).count();
    assert!((2..=SESSION_FIELDS_MAX).contains(&fields), "{fields} fields");
    Ok(())
}

#[test]
fn nothing_is_left_for_later_in_the_code() -> Outcome {
    // Composed here, so that this file does not match itself.
    let marks = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("#[ig", "nore"),
        concat!("FIX", "ME"),
    ];
    let mut found = Vec::new();
    for (name, text) in texts(&FOLDERS, &["rs"])? {
        let lines = text.lines().enumerate();
        let marked = lines.filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)));
        found.extend(marked.map(|(index, line)| format!("{name}:{}: {line}", index + 1)));
    }
    assert_none(&found, "do it, or write down in an issue why not");
    Ok(())
}

/// Files that open files by name. Only the first one may open files that a watched process names.
const OPENING: [&str; 36] = [
    "tuner/src/foreign.rs",
    // Files of the kernel: /proc, /sys.
    "tuner/src/action/affinity.rs",
    "tuner/src/actuator/offspring.rs",
    "tuner/src/live_maps.rs",
    "tuner/src/lock.rs",
    "tuner/src/memory.rs",
    "tuner/src/process.rs",
    "tuner/src/ptrace/",
    "tuner/src/remote/mod.rs",
    "tuner/src/rendezvous/gathering.rs",
    "tuner/src/seccomp/mod.rs",
    "tuner/src/writable_place.rs",
    "tuner/src/space.rs",
    "agent/probe/src/awake.rs",
    "agent/job/src/discover/job_selector.rs",
    "agent/job/src/os_metrics/",
    "agent/job/src/pipes/",
    "agent/probe/src/kernel/",
    "agent/src/priority.rs",
    "agent/src/rights/",
    "agent/src/session/system.rs",
    // Files of ours and of the machine.
    "agent/src/nodes/carrier.rs",
    "agent/src/nodes/nats.rs",
    "tuner/src/journal/file.rs",
    "tuner/src/author.rs",
    // Files that the user names.
    "agent/src/commands/contract.rs",
    "agent/src/commands/contract/",
    "agent/src/commands/replay.rs",
    "agent/src/commands/rule/check.rs",
    "agent/src/commands/rule/new.rs",
    "agent/src/commands/run/",
    "agent/report/src/report/reference.rs",
    "agent/src/rulebook/recorder.rs",
    "agent/src/rulebook/sources.rs",
    "agent/src/session/outputs.rs",
    "agent/src/atomic_file.rs",
];

/// Lines of code with one of these words, in files of these folders that are not in the list.
fn lines_with(words: &[&str], folders: &[&str], known: &[&str]) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for source in sources(folders)? {
        if known.iter().any(|known| source.name.starts_with(known)) {
            continue;
        }
        let lines = code(&source.product).filter(|(_, line)| words.iter().any(|word| line.contains(word)));
        found.extend(lines.map(|(number, line)| format!("{}:{number}: {}", source.name, line.trim())));
    }
    Ok(found)
}

#[test]
fn files_that_others_name_are_opened_in_one_module() -> Outcome {
    let opens = [
        "File::open(",
        "File::create(",
        "OpenOptions::new(",
        "fs::read(",
        "fs::read_to_string(",
        "fs::open(",
        "openat(",
        "openat2(",
    ];
    let of_kernel = [
        "(\"/proc/",
        "(\"/sys/",
        "(\"/dev/",
        "(format!(\"/proc/",
        "(format!(\"/sys/",
    ];
    let mut found = lines_with(&opens, &agent_and(&["tuner/src"]), &OPENING)?;
    found.retain(|line| !of_kernel.iter().any(|folder| line.contains(folder)));
    // Output files that the user names; the file that creates them is in OPENING.
    found.retain(|line| !line.contains("AtomicFile::create("));
    assert_none(
        &found,
        "whoever runs a program may have put a FIFO, a device or a link where it says its file is: tuner::foreign opens it",
    );
    Ok(())
}

#[test]
fn everything_is_printed_by_one_module() -> Outcome {
    let prints = ["println!(", "print!(", "dbg!(", "io::stdout()", "io::stderr()"];
    let known = [
        "agent/report/src/console.rs",
        "agent/report/src/view/terminal.rs",
        "agent/report/src/view/live/terminal.rs",
    ];
    let mut found = lines_with(&prints, &agent_and(&OTHERS), &known)?;
    // Queries about the terminal and its width.
    found.retain(|line| !line.contains("is_terminal()") && !line.contains("columns("));
    assert_none(
        &found,
        "names that others chose act on terminals: console makes them printable",
    );
    Ok(())
}

#[test]
fn every_dependency_has_its_reason_beside_it() -> Outcome {
    let manifest = read("Cargo.toml")?;
    let section = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let mut missing = Vec::new();
    let mut above = "";
    for line in section.lines() {
        if let Some((name, _)) = line.split_once(" = ")
            && !line.starts_with('#')
            && above.strip_prefix("# ").is_none_or(|reason| reason.len() < 10)
        {
            missing.push(name.to_owned());
        }
        above = line;
    }
    assert_none(
        &missing,
        "dependencies without a comment in the line above that says why",
    );
    Ok(())
}

#[test]
fn the_text_search_sees_through_grouped_imports() {
    let paths =
        std_paths("use std::{\n    fs,\n    time::{Duration, Instant},\n};\nlet x = std::thread::spawn(f);");
    assert!(
        paths.contains("fs") && paths.contains("thread::spawn"),
        "{paths:?}"
    );
    assert!(
        paths.contains("time::Duration") && paths.contains("time::Instant"),
        "{paths:?}"
    );
    let paths = std_paths("use std::time::{Duration, Instant};\n// std::net in a comment\n");
    assert!(
        paths.contains("time::Instant") && !paths.contains("net"),
        "{paths:?}"
    );
    assert_eq!(
        functions("pub fn a(\n    x: u8,\n) -> u8 {\n    x\n}\n"),
        [("a".to_owned(), 5)]
    );
}
