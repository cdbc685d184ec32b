//! The pure crates have no effects, a decision reaches the actuator as data, and one crate knows BPF.
//!
//! `arrows` has the tables of the crates and their modules.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tuneagent_e2e::{Outcome, each};

use crate::arrows::{members, metadata, metadata_with};
use crate::tidy::{assert_none, code, sources, std_paths};

/// Packages without access to processes, the kernel and clocks, with their sources. This includes their
/// dependencies.
const PURE: [(&str, &str); 7] = [
    ("tuneagent-contract", "rules/contract/src"),
    ("tuneagent-plan", "rules/plan/src"),
    ("tuneagent-profile", "agent/profile/src"),
    ("tuneagent-recording", "rules/recording/src"),
    ("tuneagent-rules", "rules/src"),
    ("tuneagent-session", "agent/session/src"),
    ("tuneagent-syntax", "rules/syntax/src"),
];

#[test]
fn pure_crates_depend_on_nothing_that_waits_or_calls_the_kernel() -> Outcome {
    let banned = [
        "aya", "aya-obj", "hyper", "libc", "nix", "procfs", "rustix", "tokio",
    ];
    let metadata = metadata()?;
    let of_tuner = dependencies(&metadata, "tuneagent-tuner");
    assert!(
        of_tuner.contains("libc"),
        "the search finds nothing: {of_tuner:?}"
    );
    let mut found = Vec::new();
    for (package, _) in PURE {
        let all = dependencies(&metadata, package);
        let wrong = all.iter().filter(|name| banned.contains(&name.as_str()));
        found.extend(wrong.map(|name| format!("{package} depends on {name}")));
    }
    assert_none(&found, "a pure crate has no effects");
    Ok(())
}

#[test]
fn the_tuner_waits_for_nothing_but_the_program() -> Outcome {
    let all = dependencies(&metadata()?, "tuneagent-tuner");
    let is_banned = |name: &&String| {
        ["aya", "async", "tokio", "futures"]
            .iter()
            .any(|ban| name.starts_with(ban))
    };
    assert_eq!(all.iter().find(is_banned), None);
    Ok(())
}

/// Maximum number of crates that `rules` depends on, directly and indirectly, where it runs. Two encode messages
/// between nodes.
const RULES_CRATES_MAX: usize = 20;

#[test]
fn the_rule_language_needs_few_crates() -> Outcome {
    let linux = metadata_with(&["--filter-platform", "x86_64-unknown-linux-gnu"])?;
    let all = dependencies(&linux, "tuneagent-rules");
    assert!(
        all.contains("tuneagent-plan"),
        "the search finds nothing: {all:?}"
    );
    assert!(all.len() <= RULES_CRATES_MAX, "{}: {all:?}", all.len());
    Ok(())
}

#[test]
fn one_crate_of_the_agent_knows_bpf() -> Outcome {
    let metadata = metadata()?;
    let knowing = members(&metadata).filter(|package| {
        let mut names = each(&package["dependencies"]).filter_map(|dependency| dependency["name"].as_str());
        names.any(|name| name.starts_with("aya"))
    });
    let knowing: Vec<&str> = knowing.filter_map(|package| package["name"].as_str()).collect();
    assert_eq!(knowing, ["tuneagent-probe"]);
    Ok(())
}

#[test]
fn pure_crates_use_no_files_processes_threads_sockets_or_clocks() -> Outcome {
    let banned = [
        "env",
        "fs",
        "net",
        "os",
        "process",
        "thread",
        "time::Instant",
        "time::SystemTime",
    ];
    let clocks = [
        "Instant::now",
        "SystemTime::now",
        "clock_gettime",
        "monotonic_ns(",
    ];
    let is_banned = |path: &str| {
        let mut below = banned.iter().filter_map(|ban| path.strip_prefix(ban));
        below.any(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    let mut found = Vec::new();
    let folders = PURE.iter().map(|(_, folder)| *folder);
    for folder in folders.chain(["agent/page/src"]) {
        for source in sources(&[folder])? {
            let paths = std_paths(&source.product);
            let wrong = paths.iter().filter(|path| is_banned(path));
            found.extend(wrong.map(|path| format!("{}: std::{path}", source.name)));
            let reading =
                code(&source.product).filter(|(_, line)| clocks.iter().any(|clock| line.contains(clock)));
            found.extend(reading.map(|(number, line)| format!("{}:{number}: {}", source.name, line.trim())));
        }
    }
    assert_none(
        &found,
        "a pure crate takes data and times, and returns data; effects belong to the agent or the tuner",
    );
    Ok(())
}

/// Sources that a decision passes, and the exceptions that may parse text.
const WAY: &[&str] = &[
    "agent/src/session",
    "agent/src/rulebook",
    "agent/session/src",
    "tuner/src/actuator",
    "tuner/src/action",
    "tuner/src/sync",
    "tuner/src/variable",
    "tuner/src/writer",
];
const READERS: &[(&str, &str)] = &[
    ("agent/src/rulebook/replay.rs", "a recording"),
    ("agent/src/rulebook/sources.rs", "rule files"),
    ("agent/src/session/system.rs", "/proc/self/statm"),
    (
        "tuner/src/action/affinity.rs",
        "the CPUs of a cgroup, of the machine",
    ),
    (
        "tuner/src/variable/naming.rs",
        "`count.0` is a symbol or a path: only the program says which",
    ),
];

#[test]
fn nothing_is_printed_and_parsed_again_between_a_rule_and_the_actuator() -> Outcome {
    let is_edge = |name: &str| READERS.iter().any(|(file, _)| *file == name);
    let reads = |line: &str| {
        [".parse()", ".parse::<", "::parse("]
            .iter()
            .any(|call| line.contains(call))
    };
    let (mut found, mut edges) = (Vec::new(), BTreeSet::new());
    for source in sources(WAY)? {
        for (number, line) in code(&source.product).filter(|(_, line)| reads(line)) {
            match is_edge(&source.name) {
                true => drop(edges.insert(source.name.clone())),
                false => found.push(format!("{}:{number}: {}", source.name, line.trim())),
            }
        }
    }
    assert_none(
        &found,
        "a decision is made of the types of `plan` on its way to the actuator",
    );
    let named: BTreeSet<String> = READERS.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(edges, named, "each exception in READERS is still needed");
    Ok(())
}

/// Stricter than `PURE`: only the session log uses a writer, and it logs a warning on failure.
#[test]
fn the_state_machines_of_a_session_read_and_write_nothing() -> Outcome {
    let banned = ["std::io", "tracing::", "Instant::", "monotonic_ns", "is_alive"];
    let sources = sources(&["agent/session/src"])?;
    let machines = sources
        .iter()
        .filter(|source| !source.name.starts_with("agent/session/src/log/"));
    let mut found = Vec::new();
    for source in machines {
        for (number, line) in code(&source.product) {
            let words = banned.iter().filter(|word| line.contains(**word));
            found.extend(words.map(|word| format!("{}:{number}: {word}", source.name)));
        }
    }
    assert_none(&found, "a state machine takes events and gives effects");
    Ok(())
}

/// Names of all direct and indirect dependencies of a package, without those of its tests and its build
/// script.
fn dependencies(metadata: &Value, package: &str) -> BTreeSet<String> {
    let packages = each(&metadata["packages"]);
    let names: BTreeMap<&str, &str> = packages
        .filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?)))
        .collect();
    let nodes = each(&metadata["resolve"]["nodes"]);
    let nodes: BTreeMap<&str, &Value> = nodes
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let first = names.iter().find(|(_, name)| **name == package);
    let mut open: Vec<&str> = first.map(|(id, _)| *id).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(node) = open.pop().and_then(|id| nodes.get(id)) {
        let used = each(&node["deps"]).filter(|to| each(&to["dep_kinds"]).any(|kind| kind["kind"].is_null()));
        let used = used.filter_map(|to| to["pkg"].as_str());
        open.extend(used.filter(|id| seen.insert(*id)));
    }
    seen.iter()
        .filter_map(|id| names.get(id))
        .map(|name| (*name).to_owned())
        .collect()
}
