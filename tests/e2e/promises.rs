//! The promises of README.md. The name of a test begins with the promise that it tests:
//!
//! - watching: `o1` same results, `o2` no probe disturbs exceptions and jumps, `o3` no stop, no debugger, no signal, `o5` detaching
//!   leaves nothing, `o6` strangers pay nothing, or the session says so;
//! - changing: `c1` watching cannot write, `c2` only validated writes, `c3` the journal is written first, `c4` at the requested place or
//!   not at all, `c5` reverted at exit, `c6` a crash of ours leaves the old value or the new one;
//! - who may: `w2` one writer, any number of watchers.
//!
//! Tests that need more than a small program are elsewhere: O1 `lammps`; O2 `joining` (exceptions) and agent/tests/kernel (longjmp,
//! recursion, threads); C2 and C3 tuner/tests/suite (`writing`, `binding`, `refused`, `actuator`, `crashes`) and `kills`; C4
//! `standing`; C5 `change`; W1, least privilege, `rights` and `control`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::knobs::{Knobs, open_folder};
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::sight::Ranks;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, family, programs, require};

use crate::expected::{SOON, start_busywork, with_folder};
use crate::rights::SET_KNOB;

const WATCH: [&str; 2] = ["--probe", "step"];

/// Ends the program and checks that it computed the same as without the agent.
pub(crate) fn computes_what_it_should(mut knobs: Knobs) -> Outcome {
    let end = knobs.end()?;
    let rounds = end["rounds"].as_u64().ok_or("no rounds")?;
    assert_eq!(end["state"], Knobs::state_after(rounds), "after {rounds} rounds");
    Ok(())
}

/// Starts a session with a rule that acts on `knobs`, and waits until it has acted.
fn applied(knobs: &Knobs, folder: &Path, more: &[&str]) -> Outcome<Agent> {
    let rule = folder.join("set-knob.yaml");
    fs::write(&rule, SET_KNOB)?;
    let rule = rule.to_string_lossy().into_owned();
    let flags = [&["--rules", "none", &rule, "--apply"], more].concat();
    let state = folder.join("state");
    let agent = Agent::attach_in(Some(&state), knobs.pid(), &flags)?;
    agent.lines.wait_for_line("written and read back", SOON)?;
    Ok(agent)
}

#[test]
fn o1_the_results_are_the_same_with_us() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let knobs = Knobs::start()?;
    let mut agent = Agent::attach_armed(knobs.pid(), &WATCH)?;
    let report = agent.stop()?;
    assert_eq!(report["completeness"]["status"], "complete", "{report}");
    computes_what_it_should(knobs)
}

#[test]
fn o2_a_probe_does_not_abort_what_jumps_out_of_it() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut job = start_busywork("3000")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--probe", "may_jump", "step_inner"])?;
    job.open("go")?;
    let own_count = job.events("tally", 1, SOON)?.remove(0);
    assert_eq!(own_count["jumps"], 1000);
    let report = agent.stop()?;
    let seen = crate::expected::counts(&report["processes"][0]["functions"])?;
    assert_eq!(
        seen.get("may_jump").map(|(calls, _)| *calls),
        own_count["may_jump"].as_u64()
    );
    job.end(SOON)
}

/// A field of /proc/PID/status.
fn status(pid: u32, key: &str) -> Outcome<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    Ok(line.ok_or("no such line")?.trim().to_owned())
}

#[test]
fn o3_watching_never_stops_it_nor_debugs_it_nor_signals_it() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let knobs = Knobs::start()?;
    let mut agent = Agent::attach(knobs.pid(), &WATCH)?;
    // From before the probes are attached until the agent has detached.
    let mut looks = 0;
    let mut signal = Some(Signal::INT);
    loop {
        assert_eq!(status(knobs.pid(), "TracerPid:")?, "0");
        let state = status(knobs.pid(), "State:")?;
        assert!(state.starts_with(['R', 'S', 'D']), "{state}");
        for pending in ["SigPnd:", "ShdPnd:"] {
            assert_eq!(status(knobs.pid(), pending)?, "0000000000000000");
        }
        looks += 1;
        if agent.lines.has_ended() {
            break;
        }
        if agent.lines.text().contains("armed")
            && let Some(signal) = signal.take()
        {
            agent.signal(signal)?;
        }
    }
    assert_eq!(agent.wait(SOON)?, 0, "{}", agent.lines.text());
    assert!(looks > 10, "{looks}");
    computes_what_it_should(knobs)
}

/// Visible traces of the agent in a process: mappings, number of descriptors, bytes of code.
pub(crate) fn traces(pid: u32) -> Outcome<(Vec<String>, usize, Vec<u8>)> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    // The kernel's page for out-of-line instructions stays until the process ends.
    let ours = |line: &&str| !line.ends_with("[uprobes]");
    let maps: Vec<String> = maps.lines().filter(ours).map(str::to_owned).collect();
    let code = maps.iter().find(|line| line.contains("r-xp")).ok_or("no code")?;
    let (start, end) = code
        .split(' ')
        .next()
        .and_then(|range| range.split_once('-'))
        .ok_or("no range")?;
    let number = |text| u64::from_str_radix(text, 16).map_err(|error| error.to_string());
    let (start, end) = (number(start)?, number(end)?);
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
    let memory = fs::File::open(format!("/proc/{pid}/mem"))?;
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start)?;
    Ok((maps, fs::read_dir(format!("/proc/{pid}/fd"))?.count(), bytes))
}

#[test]
fn o5_detaching_leaves_nothing_also_when_we_are_killed() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let knobs = Knobs::start()?;
    let before = traces(knobs.pid())?;
    // Twice, to check that a session works after the first one was killed.
    for signal in [Signal::KILL, Signal::INT] {
        let mut agent = Agent::attach_armed(knobs.pid(), &WATCH)?;
        assert_ne!(
            traces(knobs.pid())?.2,
            before.2,
            "a probe is there to be taken away"
        );
        agent.signal(signal)?;
        agent.wait(SOON)?;
        // The kernel removes the probes of a killed agent some time after its end.
        let what = format!("nothing to be left after {signal:?}");
        wait_until(&what, SOON, || Ok(traces(knobs.pid())? == before))?;
    }
    computes_what_it_should(knobs)
}

#[test]
fn o6_links_of_a_process_cost_strangers_nothing() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (watched, stranger) = (Knobs::start()?, Knobs::start()?);
    let before = traces(stranger.pid())?;
    let mut agent = Agent::attach_armed(watched.pid(), &WATCH)?;
    assert_eq!(
        traces(stranger.pid())?,
        before,
        "no probe lies in the stranger's code"
    );
    agent.stop()?;
    computes_what_it_should(stranger)?;
    computes_what_it_should(watched)
}

#[test]
fn o6_a_session_of_many_processes_reports_that_strangers_pay() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    for (ranks, is_said) in [(2, false), (9, true)] {
        let mut job = Ranks::Asleep.start(ranks)?;
        let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
        agent.stop()?;
        let text = agent.lines.text();
        assert_eq!(
            text.contains("pay for the probes too"),
            is_said,
            "{ranks} ranks: {text}"
        );
        job.end(SOON)?;
    }
    Ok(())
}

/// Access modes (0: read only) of a process's open descriptors on memory of processes.
fn memory_modes(pid: u32) -> Outcome<BTreeSet<u32>> {
    let mut modes = BTreeSet::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
        if !fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().ends_with("/mem")) {
            continue;
        }
        let info = format!("/proc/{pid}/fdinfo/{}", entry.file_name().to_string_lossy());
        let info = fs::read_to_string(info)?;
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .ok_or("no flags")?;
        let flags = u32::from_str_radix(flags.trim(), 8).map_err(|error| error.to_string())?;
        modes.insert(flags & 3);
    }
    Ok(modes)
}

#[test]
fn c1_looking_cannot_write() -> Outcome {
    let _machine = require!(shared: Root, Cc, Strace);
    let mut knobs = Knobs::start()?;
    let folder = open_folder()?;
    let rule = folder.path().join("set-knob.yaml");
    fs::write(&rule, SET_KNOB)?;
    // A rule with an action, in a session without `--apply`: it only advises.
    let rule = rule.to_string_lossy().into_owned();
    let mut agent = Agent::attach(knobs.pid(), &["--rules", "none", &rule])?;
    agent.lines.wait_for_line("finding  set-knob", SOON)?;
    assert_eq!(
        status(agent.pid(), "Seccomp:")?,
        "2",
        "what opens files for writing is filtered"
    );
    assert!(agent.actuators().is_empty(), "there is no actuator");
    assert_eq!(
        memory_modes(agent.pid())?,
        BTreeSet::from([0]),
        "memory is open to be read only"
    );
    // The report writer cannot open files for writing, either.
    for process in family::descendants(agent.pid()) {
        assert_eq!(status(process.pid, "Seccomp:")?, "2");
        assert_eq!(status(process.pid, "CapPrm:")?, "0000000000000000");
    }
    let report = agent.stop()?;
    assert_eq!(report["changes"], serde_json::json!([]), "{report}");
    assert_eq!(knobs.knob()?, 10);
    looking_by_hand_opens_nothing_for_writing(&knobs)?;
    computes_what_it_should(knobs)
}

/// Checks with strace that commands that only read open nothing for writing.
fn looking_by_hand_opens_nothing_for_writing(knobs: &Knobs) -> Outcome {
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("trace");
    let pid = knobs.pid().to_string();
    let commands = [
        vec!["get", &pid, "knob"],
        vec!["ps", "--all", "--duration", "100ms"],
        vec!["journal"],
        vec!["symbols", &pid, "knob"],
    ];
    for command in commands {
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-e", "trace=openat,seccomp,process_vm_writev", "-o"])
            .arg(&trace);
        let output = strace.arg(binary()?).args(&command).output()?;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let calls = fs::read_to_string(&trace)?;
        let is_writing = |line: &&str| {
            ["O_WRONLY", "O_RDWR", "process_vm_writev("]
                .iter()
                .any(|word| line.contains(word))
        };
        let writing: Vec<&str> = calls.lines().filter(is_writing).collect();
        assert!(writing.is_empty(), "{command:?}: {writing:?}");
        assert!(calls.contains("SECCOMP_SET_MODE_FILTER"), "{command:?}");
    }
    Ok(())
}

#[test]
fn c2_only_what_was_validated_is_written() -> Outcome {
    require!(Root, Cc);
    let mut knobs = Knobs::start()?;
    let state = tempfile::tempdir()?;
    let pid = knobs.pid().to_string();
    let before = knobs.values()?;
    let cases: [(&[&str], &str); 8] = [
        (&["fixed=4"], "is read-only"),
        (&["knob=3000000000"], "does not fit into i32"),
        (&["knob=1.5"], "is no"),
        (&["knob=1", "--type", "f32"], "`knob` is i32, not f32"),
        (&["knob=1", "--type", "i64"], "`knob` takes 4 bytes, i64 takes 8"),
        (&["main=1", "--type", "u64"], "main"),
        (&["no_such_variable=1"], "no_such_variable"),
        (&["libc:knob=1"], "knob"),
    ];
    for (assignment, expected) in cases {
        let arguments = [&["set", &pid], assignment].concat();
        let (code, text) = Agent::run_in(state.path(), &arguments)?;
        assert!(code == 1 || code == 2, "{assignment:?}: {code}: {text}");
        assert!(
            text.contains(expected),
            "{assignment:?}: {expected} is not in: {text}"
        );
    }
    let (code, text) = Agent::run_in(state.path(), &["journal"])?;
    assert_eq!(
        (code, text.contains("no change is recorded in ")),
        (0, true),
        "{text}"
    );
    let after = knobs.values()?;
    for name in ["knob", "rate", "fixed"] {
        assert_eq!(before[name], after[name]);
    }
    computes_what_it_should(knobs)
}

#[test]
fn c3_the_journal_speaks_before_the_first_byte_changes() -> Outcome {
    require!(Root, Cc, Strace);
    let mut knobs = Knobs::start()?;
    let folder = tempfile::tempdir()?;
    let trace = folder.path().join("trace");
    let pid = knobs.pid().to_string();
    // strace shows the actuator's system calls in order.
    let mut command = Command::new("strace");
    command.args("-f -s 64 -e trace=write,pwrite64,process_vm_writev -o".split(' '));
    command.arg(&trace).arg(binary()?).args(["set", &pid, "knob=11"]);
    let output = command
        .env("TUNEAGENT_STATE_DIR", folder.path().join("state"))
        .output()?;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(knobs.knob()?, 11);
    let calls = fs::read_to_string(trace)?;
    let place = |part: &str| calls.lines().position(|line| line.contains(part));
    let intent = place(r#"{\"record\":\"intent\""#).ok_or("no intent")?;
    let writes = calls
        .lines()
        .enumerate()
        .filter(|(_, line)| line.contains("process_vm_writev(") || line.contains("pwrite64("));
    let writes: Vec<usize> = writes.map(|(place, _)| place).collect();
    let outcome = place(r#"{\"record\":\"outcome\""#).ok_or("no outcome")?;
    assert_eq!(writes.len(), 1, "{calls}");
    assert!(intent < writes[0] && writes[0] < outcome, "{calls}");
    computes_what_it_should(knobs)
}

/// Sets `block` of blocks.c at the place that replaces WHEN.
pub(crate) const SET_BLOCK: &str = "rule: set-block\nabout: sets block in whatever has it\nroles:\n  rank: has(block)\n\
    probes:\n  begin: {role: rank, entry: iterate}\ncapture:\n  begin.number: arg(number)\n\
    windows:\n  pulse: {every: 500ms}\n  iteration: {from: begin, key: number}\n\
    metrics:\n  used: {in: pulse, value: sum(cpu.time) / pulse.duration}\ntune:\n  - set: block\n    role: rank\n    every: pulse\n    \
    value: 512\n    WHEN\n    range: 1 <= value <= 4096\n    when: used >= 0\n    \
    guard: {maximize: used, over: 2, undo_if_worse_by: 90%, keep: not_worse}\n    finding: block is not 512\n";

/// Changes the program and leaves. The program checks each iteration, sees both values, and ends with the
/// right result.
fn block_is_changed(mpi: Mpi, ranks: usize, when: &str, said: &str) -> Outcome {
    let program = programs::mpi("blocks", mpi)?;
    let mut job = Job::mpi(mpi, Waiting::Yielding, ranks, &program, |folder| {
        with_folder(folder, Vec::new())
    })?;
    let count = job.events("ready", ranks, SOON)?.len();
    assert_eq!(count, ranks);
    let folder = open_folder()?;
    let rule = folder.path().join("set-block.yaml");
    fs::write(&rule, SET_BLOCK.replace("WHEN", when))?;
    let rule = rule.to_string_lossy().into_owned();
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", &rule, "--apply"])?;
    agent.lines.wait_for_line("written and read back", SOON)?;
    let seen = job.events("block", 2, SOON)?;
    assert_eq!((&seen[0]["block"], &seen[1]["block"]), (&64.into(), &512.into()));
    let report = agent.stop()?;
    let changes = report["changes"].as_array().ok_or("no changes")?;
    assert_eq!(changes.len(), ranks, "{report}");
    for change in changes {
        let mechanism = change["mechanism"].as_str().ok_or("no mechanism")?;
        assert!(mechanism.contains(said), "{mechanism}");
    }
    // The change is reverted at the same place.
    job.events("block", 3, SOON)?;
    job.open("end")?;
    for end in job.events("end", ranks, SOON)? {
        assert_eq!((&end["block"], &end["right"]), (&64.into(), &1.into()), "{end}");
    }
    job.finish(SOON)
}

#[test]
fn c4_a_change_is_at_its_sync_point_and_in_all_ranks_together() -> Outcome {
    let _machine = require!(shared: Root, Cc, OpenMpi, Mpich);
    let at = ("at: {entry: iterate}", "at entry:iterate");
    block_is_changed(Mpi::OpenMpi, 1, at.0, at.1)?;
    let together = ("together: iteration", "at entry:iterate, its thread stopped for");
    block_is_changed(Mpi::OpenMpi, 4, together.0, together.1)?;
    // Under MPICH the tests of `halo` change ranks together in every run.
    match is_long() {
        true => block_is_changed(Mpi::Mpich, 4, together.0, together.1),
        false => Ok(()),
    }
}

#[test]
fn c5_when_we_leave_it_is_as_it_was_unless_it_was_to_be_kept() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut knobs = Knobs::start()?;
    let (folder, state) = (open_folder()?, tempfile::tempdir()?);
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut agent = applied(&knobs, folder.path(), &[])?;
        assert_eq!(knobs.knob()?, 20);
        agent.signal(signal)?;
        assert_eq!(agent.wait(SOON)?, 0, "{}", agent.lines.text());
        assert_eq!(knobs.knob()?, 10, "{signal:?}");
    }
    // End by the time limit.
    let mut agent = applied(&knobs, folder.path(), &["--duration", "1s"])?;
    agent.finish(SOON)?;
    assert_eq!(knobs.knob()?, 10);
    // With --keep the session ends by itself, and the last line has the command that reverts the change.
    let mut agent = applied(&knobs, folder.path(), &["--keep"])?;
    agent.finish(SOON)?;
    assert_eq!(knobs.knob()?, 20);
    let said = agent.lines.text();
    let command = format!("tuneagent undo {}", knobs.pid());
    assert!(
        said.lines().last().is_some_and(|line| line.contains(&command)),
        "{said}"
    );
    // A value that the program has changed since is left alone and reported.
    let pid = knobs.pid().to_string();
    Agent::succeed_in(state.path(), &["set", &pid, "knob=30"])?;
    knobs.change(33)?;
    let (code, text) = Agent::run_in(state.path(), &["undo", &pid])?;
    assert_eq!(code, 1, "{text}");
    assert_has!(text, "left alone: the program has changed ");
    assert_eq!(knobs.knob()?, 33);
    computes_what_it_should(knobs)
}

/// Kills the agent, its actuator and the stand-in of that, so that no process is left to revert the changes.
fn kill_all(mut agent: Agent) -> Outcome {
    let members = family::descendants(agent.pid());
    for word in ["stand-in", "actuator"] {
        let member = members.iter().find(|member| member.has_word(word));
        member.ok_or(word)?.kill();
    }
    agent.signal(Signal::KILL)?;
    agent.wait(SOON)?;
    Ok(())
}

#[test]
fn c5_after_a_crash_of_everything_the_next_start_offers_what_can_be_taken_back() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (mut knobs, mut other) = (Knobs::start()?, Knobs::start()?);
    let folder = open_folder()?;
    let agent = applied(&knobs, folder.path(), &[])?;
    let state = folder.path().join("state");
    kill_all(agent)?;
    assert_eq!(knobs.knob()?, 20, "nobody could put it back");

    let pid = knobs.pid().to_string();
    let watch = format!("attach {pid} --probe step --plain --duration 200ms");
    let watch: Vec<&str> = watch.split(' ').collect();
    let text = Agent::succeed_in(&state, &watch)?;
    assert_has!(
        text,
        "1 change of an earlier session that did not end properly",
        &format!("undo {pid}")
    );
    // For another process of the same program, no change is offered or reverted.
    let other_pid = other.pid().to_string();
    let (code, text) = Agent::run_in(&state, &["undo", &other_pid])?;
    assert_eq!((code, text.trim()), (0, "nothing to revert"));
    let (code, text) = Agent::run_in(&state, &["undo", &pid])?;
    assert_eq!((code, knobs.knob()?), (0, 10), "{text}");
    assert_eq!(other.knob()?, 10);
    computes_what_it_should(knobs)
}

#[test]
fn c6_the_target_always_goes_on() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let knobs = Knobs::start()?;
    let folder = open_folder()?;
    let goes_on = |knobs: &Knobs| -> Outcome {
        assert!(!status(knobs.pid(), "State:")?.starts_with(['T', 't']));
        Ok(())
    };
    // The times of the kill cover attaching, deciding and writing.
    let rule = folder.path().join("set-knob.yaml");
    fs::write(&rule, SET_KNOB)?;
    let rule = rule.to_string_lossy().into_owned();
    for moment in [5, 20, 50, 100, 200, 300, 400] {
        let mut agent = Agent::attach(
            knobs.pid(),
            &["--rules", "none", &rule, "--probe", "step", "--apply"],
        )?;
        if agent.wait(Duration::from_millis(moment)).is_err() {
            agent.signal(Signal::KILL)?;
            agent.wait(SOON)?;
        }
        goes_on(&knobs)?;
    }
    kill_all(applied(&knobs, folder.path(), &[])?)?;
    goes_on(&knobs)?;
    computes_what_it_should(knobs)
}

#[test]
fn w2_a_second_writer_is_shown_the_first_and_observers_are_let_in() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut knobs = Knobs::start()?;
    let folder = open_folder()?;
    let mut first = applied(&knobs, folder.path(), &[])?;
    let pid = knobs.pid().to_string();
    let (code, text) = Agent::run(&["set", &pid, "rate=2.5"])?;
    assert_eq!(code, 1, "{text}");
    let session = first.pid();
    assert_has!(text, &format!("is being tuned by process {session} of root"));
    // The second session shows the first one at its start, and does not offer to revert its changes.
    let mut second = Agent::attach(knobs.pid(), &["--rules", "none", "--probe", "step", "--apply"])?;
    second.armed()?;
    second.stop()?;
    let said = second.lines.text();
    assert!(said.contains(&format!(" {session} of root may write")), "{said}");
    assert!(!said.contains("tuneagent undo"), "{said}");
    assert_eq!(knobs.values()?["rate"], serde_json::json!(1.5));
    let mut watchers = [
        Agent::attach(knobs.pid(), &WATCH)?,
        Agent::attach(knobs.pid(), &WATCH)?,
    ];
    for watcher in &mut watchers {
        watcher.armed()?;
    }
    for watcher in &mut watchers {
        let report: Value = watcher.stop()?;
        assert_eq!(report["completeness"]["status"], "complete");
    }
    first.stop()?;
    computes_what_it_should(knobs)
}

/// The kernel's current limit for the wake-up latency of CPUs, in µs: the minimum over all requests.
fn wake_latency_us() -> Outcome<i32> {
    let mut bytes = [0; 4];
    fs::File::open("/dev/cpu_dma_latency")?.read_exact(&mut bytes)?;
    Ok(i32::from_ne_bytes(bytes))
}

#[test]
fn cpus_that_were_kept_awake_may_sleep_again_however_the_session_ended() -> Outcome {
    let _machine = require!(machine: Root);
    let before = wake_latency_us()?;
    assert_ne!(before, 0, "somebody else keeps CPUs awake");
    for signal in [Signal::INT, Signal::KILL] {
        let knobs = Knobs::start()?;
        let flags = [&WATCH[..], &["--keep-awake"]].concat();
        let mut agent = Agent::attach_armed(knobs.pid(), &flags)?;
        assert_eq!(wake_latency_us()?, 0);
        // On machines without idle states the agent reports that instead.
        let driver = std::fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver");
        let said = match driver.as_deref().unwrap_or("none").trim() {
            "none" => "--keep-awake changes nothing here",
            _ => "kept awake until this session ends",
        };
        agent.lines.wait_for_line(said, SOON)?;
        agent.signal(signal)?;
        agent.wait(SOON)?;
        assert_eq!(wake_latency_us()?, before, "after {signal:?}");
        computes_what_it_should(knobs)?;
    }
    Ok(())
}
