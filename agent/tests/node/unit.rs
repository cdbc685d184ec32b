//! The unit of systemd: it is valid, exposes little, and permits what the service does.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use probe::kernel::{Kernel, LoadOptions};
use tuneagent_e2e::{Outcome, knobs::ANA, lines::succeed, require};

use super::{
    attach,
    harness::{Node, Programs, as_user},
};

const UNIT: &str = include_str!("../../packaging/tuneagent.service");

/// Values of a setting of the unit, in order.
pub(crate) fn values(name: &str) -> Vec<&'static str> {
    let lines = UNIT
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    lines.collect()
}

#[test]
fn the_unit_is_valid_and_exposes_little() -> Outcome {
    require!(SystemdAnalyze);
    let folder = tempfile::tempdir()?;
    let unit = folder.path().join("tuneagent.service");
    // The program is not installed.
    fs::write(
        &unit,
        UNIT.replace("/usr/bin/tuneagent", env!("CARGO_BIN_EXE_tuneagent")),
    )?;
    let said = succeed(
        Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&unit),
    )?;
    assert_eq!(said, "");
    let mut security = Command::new("systemd-analyze");
    security.args(["security", "--offline=true", "--threshold=40", "--no-pager"]);
    succeed(security.arg(&unit))?;
    assert_eq!(values("CapabilityBoundingSet"), values("AmbientCapabilities"));
    Ok(())
}

/// The calls of a group of systemd, and of the groups in it.
fn calls(group: &str, into: &mut BTreeSet<String>) -> Outcome {
    let text = succeed(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", group]))?;
    let words = text
        .lines()
        .skip(1)
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    for word in words {
        match word.starts_with('@') {
            true => calls(word, into)?,
            false => drop(into.insert(word.to_owned())),
        }
    }
    Ok(())
}

/// The calls that the unit permits.
fn permitted() -> Outcome<BTreeSet<String>> {
    let mut permitted = BTreeSet::new();
    for value in values("SystemCallFilter") {
        let (removes, names) = value
            .strip_prefix('~')
            .map_or((false, value), |names| (true, names));
        let mut named = BTreeSet::new();
        for name in names.split_whitespace() {
            match name.starts_with('@') {
                true => calls(name, &mut named)?,
                false => drop(named.insert(name.to_owned())),
            }
        }
        match removes {
            true => permitted.retain(|name| !named.contains(name)),
            false => permitted.append(&mut named),
        }
    }
    Ok(permitted)
}

/// The calls in a record of strace, from the start of the service on.
fn made(record: &Path) -> Outcome<BTreeSet<String>> {
    let text = fs::read_to_string(record)?;
    let (_, service) = text
        .rsplit_once("\"node\", \"serve\"")
        .ok_or("the service was not started")?;
    let lines = service.lines().skip(1).filter_map(|line| line.split_once(' '));
    let names = lines.filter_map(|(_, call)| {
        let call = call.trim_start().trim_start_matches("<... ");
        let name = call
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next()?;
        Some(name.to_owned()).filter(|name| !name.is_empty())
    });
    Ok(names.collect())
}

#[test]
fn the_unit_permits_every_system_call_of_the_service() -> Outcome {
    let _machine = require!(shared: Root, Cc, Strace, SystemdAnalyze);
    let folder = tempfile::tempdir()?;
    let record = folder.path().join("record");
    let record_name = record.to_string_lossy();
    let node = Node::start_under(&["strace", "-f", "-qq", "-o", &record_name], "")?;
    let programs = Programs::build()?;
    let program = programs.start(ANA, "own")?;
    as_user(ANA, || {
        let mut kernel = Kernel::load_by(node.wait_for_place(), LoadOptions::ONE_PROBE).unwrap();
        drop(attach(&mut kernel, &programs, "own", program.pid()));
    });
    node.signal("HUP")?;
    node.entries(&[("TUNEAGENT_EVENT", "policy")])?;
    node.entries(&[("TUNEAGENT_EVENT", "end")])?;
    node.signal("TERM")?;
    node.end()?;
    let (made, permitted) = (made(&record)?, permitted()?);
    assert!(made.contains("bpf") && permitted.len() > 100, "{made:?}");
    let refused: Vec<_> = made.difference(&permitted).collect();
    assert!(refused.is_empty(), "{refused:?}");
    Ok(())
}
