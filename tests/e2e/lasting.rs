//! Leaks: many sessions on one program, and one long session. `cargo xtask attack` runs more of both
//! (TUNEAGENT_CYCLES, TUNEAGENT_SOAK_S).

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::knobs::{Knobs, open_folder};
use tuneagent_e2e::needs::amount;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, prometheus, require};

use crate::expected::{SOON, written};
use crate::promises::{computes_what_it_should, traces};
use crate::rights::SET_KNOB;

/// Maximum growth of private memory during a soak, which allows for the allocator.
const GROWTH_KIB: u64 = 4 << 10;

/// Maximum number of mapped pieces of BPF maps in a session of one program.
const MAPPED_PIECES: usize = 400;

/// Tags of BPF programs that no process holds: those of links that were not removed with their session.
fn orphaned_programs() -> Outcome<BTreeSet<String>> {
    let symbols = fs::read_to_string("/proc/kallsyms")?;
    let names = symbols.lines().filter_map(|line| line.split("bpf_prog_").nth(1));
    let mut tags: BTreeSet<String> = names
        .filter_map(|name| name.get(..16))
        .map(str::to_owned)
        .collect();
    for process in fs::read_dir("/proc")?.flatten() {
        let held = fs::read_dir(process.path().join("fdinfo"));
        for descriptor in held.into_iter().flatten().flatten() {
            let text = fs::read_to_string(descriptor.path()).unwrap_or_default();
            for tag in text.lines().filter_map(|line| line.strip_prefix("prog_tag:")) {
                tags.remove(tag.trim());
            }
        }
    }
    Ok(tags)
}

/// Number of sockets in a folder and its subfolders.
fn sockets(folder: &Path) -> usize {
    use std::os::unix::fs::FileTypeExt;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => sockets(&entry.path()),
            Ok(kind) => usize::from(kind.is_socket()),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn sessions_that_come_and_go_leave_nothing_in_the_program_nor_in_the_kernel() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let cycles = amount("TUNEAGENT_CYCLES", 6, 1000)?;
    let knobs = Knobs::start()?;
    let folder = open_folder()?;
    let rule = written(folder.path(), "set-knob.yaml", SET_KNOB)?;
    let (before, programs) = (traces(knobs.pid())?, orphaned_programs()?);
    for cycle in 0..cycles {
        // Every third session writes; every seventh is killed.
        let acts = cycle % 3 == 2;
        let mut flags = vec!["--rules", "none"];
        if acts {
            flags.extend([rule.as_str(), "--apply"]);
        }
        flags.extend(["--probe", "step"]);
        let mut agent = Agent::attach(knobs.pid(), &flags)?;
        match acts {
            true => drop(agent.lines.wait_for_line("written and read back", SOON)?),
            false => agent.armed()?,
        }
        let is_killed = cycle % 7 == 6;
        agent.signal(if is_killed { Signal::KILL } else { Signal::INT })?;
        let code = agent.wait(SOON)?;
        assert!(
            is_killed || code == 0,
            "cycle {cycle}: {code}: {}",
            agent.lines.text()
        );
        // An ending session may not remove files, so the next command that lists sessions removes its socket.
        agent.request("stop", &[])?;
        assert!(
            is_killed || sockets(agent.folder()) == 0,
            "cycle {cycle} leaves its socket"
        );
        wait_until("nothing of the session in the program", SOON, || {
            Ok(traces(knobs.pid())? == before)
        })?;
    }
    wait_until("the end of the BPF programs", SOON, || {
        Ok(orphaned_programs()?.is_subset(&programs))
    })?;
    println!("{cycles} sessions came and went");
    computes_what_it_should(knobs)
}

/// Resources that a process holds.
#[derive(Clone, Copy, Debug)]
struct Holdings {
    descriptors: usize,
    /// Without mappings of BPF maps, which are mapped in pieces when they are first used.
    mappings: usize,
    of_bpf_maps: usize,
    /// Private memory in KiB.
    private_kib: u64,
}

impl Holdings {
    fn of(pid: u32) -> Outcome<Holdings> {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let of_bpf_maps = maps.lines().filter(|line| line.ends_with("bpf-map")).count();
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let private = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let private = private.and_then(|line| line.split_whitespace().next()?.parse().ok());
        Ok(Holdings {
            descriptors: fs::read_dir(format!("/proc/{pid}/fd"))?.count(),
            mappings: maps.lines().count() - of_bpf_maps,
            of_bpf_maps,
            private_kib: private.ok_or("no private memory")?,
        })
    }
}

#[test]
fn a_session_that_stays_takes_no_more_than_at_its_beginning() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let length = Duration::from_secs(amount("TUNEAGENT_SOAK_S", 3, 450)?);
    let knobs = Knobs::start()?;
    let folder = open_folder()?;
    let file = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    fs::write(file("rule"), SET_KNOB)?;
    let (rule, record, snapshots) = (file("rule"), file("record"), file("snapshots"));
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let flags = format!(
        "--rules none {rule} --probe step --record {record} --snapshots {snapshots} --every 1s --metrics {address}"
    );
    let flags: Vec<&str> = flags.split(' ').collect();
    let mut agent = Agent::attach(knobs.pid(), &flags)?;
    agent.lines.wait_for_line("finding  set-knob", SOON)?;
    let scrape = || -> Outcome {
        let (head, page) = prometheus::get(address, "/metrics")?;
        assert!(head.contains(" 200 ") && page.contains("tuneagent_"), "{head}");
        Ok(())
    };
    // A fifth of the time for buffers to reach their size.
    let began = Instant::now();
    while began.elapsed() < length / 5 {
        scrape()?;
    }
    let first = Holdings::of(agent.pid())?;
    let mut scrapes = 0;
    while began.elapsed() < length {
        scrape()?;
        scrapes += 1;
        #[expect(clippy::disallowed_methods, reason = "the rate at which pages are read")]
        std::thread::sleep(Duration::from_millis(100));
    }
    scrape()?;
    let last = Holdings::of(agent.pid())?;
    println!("{length:?}, {scrapes} scrapes: {first:?} -> {last:?}");
    // One connection more or less: those of the last and the first scrape may still be open.
    assert!(last.descriptors <= first.descriptors + 1, "{first:?} -> {last:?}");
    assert!(last.mappings <= first.mappings + 8, "{first:?} -> {last:?}");
    assert!(last.of_bpf_maps <= MAPPED_PIECES, "{first:?} -> {last:?}");
    assert!(
        last.private_kib <= first.private_kib + GROWTH_KIB,
        "{first:?} -> {last:?}"
    );
    let report = agent.stop()?;
    assert_eq!(
        report["completeness"]["status"], "complete",
        "{}",
        report["completeness"]
    );
    computes_what_it_should(knobs)
}
