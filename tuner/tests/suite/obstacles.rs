//! Processes that must not be changed, and processes that end during a change: typed errors without a write.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use plan::Moment;
use rustix::process::{Pid as RawPid, Signal, kill_process};
use tuneagent_e2e::needs::skip;
use tuneagent_e2e::wait::{SOON, wait_for};
use tuner::journal::{ActionRecord, Reason, RevertOutcome, Status};
use tuner::{ActionError, PtraceError, Stopped, Writer, WriterError};

use crate::programs::fails;
use crate::underload::{Load, QUIET, call, code, insert, patch, remove, replace, try_call, try_patch};

/// Checks that all actions that stop threads are refused with the same error, and announce nothing.
fn all_refused(writer: &mut Writer, library: &str, is_it: impl Fn(&ActionError) -> bool) {
    let reason = Reason::default;
    let outcomes = [
        writer.call(call("nothing()", None), reason()),
        writer.load(library, 1000, reason()),
        writer.patch(&replace("sort_a", "sort_b"), reason()),
        writer.patch(&remove("log_state", Some("step")), reason()),
        writer.patch(&insert("nothing()", "step", Moment::Entry), reason()),
        writer.affinity(&"0".parse().unwrap(), reason()),
    ];
    for outcome in outcomes {
        match outcome {
            Err(WriterError::Action(error)) if is_it(&error) => {}
            outcome => panic!("{outcome:?}"),
        }
    }
    let in_force = writer
        .changes()
        .iter()
        .any(|change| change.status == Status::Applied);
    assert!(!in_force);
}

fn is_traced(error: &ActionError) -> bool {
    matches!(error, ActionError::Ptrace(PtraceError::Traced { .. }))
}

/// Waits until the process is traced. Returns false if the tracer ends before.
fn await_tracer(load: &Load, tracer: &mut Child) -> bool {
    let is_traced = || match load.program.process().tracer().unwrap() {
        Some(_) => Ok(Some(true)),
        None => Ok(tracer.try_wait().unwrap().map(|_| false)),
    };
    wait_for("the tracer", SOON, is_traced).unwrap()
}

fn under(tracer: &str, arguments: &[&str]) {
    let mut load = or_skip!(Load::start());
    let pid = load.program.pid().to_string();
    let mut command = Command::new(tracer);
    command.args(arguments).args(["-p", &pid]);
    let quiet = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let Ok(mut tracer_process) = quiet.spawn() else {
        return skip(&format!("there is no {tracer}"));
    };
    if !await_tracer(&load, &mut tracer_process) {
        let _ = tracer_process.kill();
        return skip(&format!("{tracer} could not attach"));
    }
    let mut writer = load.writer();
    all_refused(&mut writer, &load.library(), is_traced);
    load.has_its_first_code("");
    tracer_process.kill().unwrap();
    tracer_process.wait().unwrap();
    let _ = kill_process(RawPid::from_raw(load.program.pid()).unwrap(), Signal::CONT);
    assert_eq!(load.runs(), QUIET);
    let receipt = patch(&mut writer, &replace("sort_a", "sort_b"));
    writer.revert(receipt.change).unwrap();
    assert!(load.ends().starts_with("errors=0"));
}

#[test]
fn a_program_under_gdb_is_left_alone() {
    under("gdb", &["-q", "-nx"]);
}

#[test]
fn a_program_under_strace_is_left_alone() {
    under("strace", &["-f", "-qq", "-e", "trace=none"]);
}

#[test]
fn a_process_that_ends_in_a_call_is_reported_and_the_journal_is_closed() {
    let load = or_skip!(Load::start());
    let mut writer = load.writer();
    fails(try_call(&mut writer, call("leave(0)", None)), "has ended");
    fails(try_patch(&mut writer, &replace("sort_a", "sort_b")), "has ended");
}

#[test]
fn a_process_that_is_killed_during_actions_is_reported() {
    let load = or_skip!(Load::start());
    let mut writer = load.writer();
    let pid = RawPid::from_raw(load.program.pid()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            kill_process(pid, Signal::KILL).unwrap();
        });
        let error = loop {
            match try_patch(&mut writer, &insert("nothing()", "step", Moment::Entry)) {
                Ok(receipt) => match writer.revert(receipt.change) {
                    Ok(reverted) if reverted.outcome == RevertOutcome::Reverted => {}
                    Ok(reverted) => break format!("{reverted:?}"),
                    Err(error) => break error.to_string(),
                },
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("ended") || error.contains("no process"), "{error}");
    });
}

#[test]
fn a_process_stopped_by_a_signal_is_patched_but_calls_nothing() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let pid = RawPid::from_raw(load.program.pid()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    fails(
        try_call(&mut writer, call("nothing()", None)),
        "the process is stopped by a signal",
    );
    let receipt = patch(&mut writer, &replace("sort_a", "sort_b"));
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(load.runs(), QUIET.replace("a=1 b=0", "a=0 b=1"));
    writer.revert(receipt.change).unwrap();
    load.ends_well();
}

#[test]
fn all_threads_are_stopped_and_let_go_again() {
    let mut load = or_skip!(Load::start());
    let states = |load: &Load| -> Vec<char> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", load.program.pid())).unwrap();
        let state = |task: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
        };
        tasks.map(state).collect()
    };
    for _ in 0..20 {
        let stopped = Stopped::all(&load.program.process(), Duration::from_secs(5)).unwrap();
        assert_eq!(stopped.threads().len(), 8);
        assert!(
            states(&load).iter().all(|state| *state == 't'),
            "{:?}",
            states(&load)
        );
        assert!(load.program.process().tracer().unwrap().is_some());
        drop(stopped);
        assert!(load.program.process().tracer().unwrap().is_none());
    }
    assert_eq!(load.runs(), QUIET);
    load.ends_well();
}

#[test]
fn code_changed_by_others_is_kept_and_reported() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let change = patch(&mut writer, &replace("sort_a", "sort_b")).change;
    let ActionRecord::Patch(patch) = writer.changes().remove(0).intent.action else {
        panic!("not a patch")
    };
    let site = &patch.sites[0];
    let place = site.address.0 + site.new.0.len() as u64 - 1;
    // The last byte of the filler after the jump.
    let memory = std::fs::OpenOptions::new()
        .write(true)
        .open(format!("/proc/{}/mem", load.program.pid()));
    let memory = memory.unwrap();
    std::os::unix::fs::FileExt::write_all_at(&memory, &[1], place).unwrap();
    let kept = code(&load.program);
    let outcome = writer.revert(change).unwrap().outcome;
    assert!(matches!(outcome, RevertOutcome::ChangedSince(_)), "{outcome:?}");
    assert_eq!(writer.changes()[0].status, Status::ChangedSince);
    assert!(code(&load.program) == kept, "nothing was reverted");
    assert_eq!(load.runs(), QUIET.replace("a=1 b=0", "a=0 b=1"));
    load.ends_well();
}

#[test]
fn threads_bound_by_others_are_kept_and_reported() {
    let load = or_skip!(Load::start());
    let mut writer = load.writer();
    let bound = writer
        .affinity(&"0".parse().unwrap(), Reason::default())
        .unwrap()
        .change;
    let pid = load.program.pid().to_string();
    let others = Command::new("taskset").args(["-acp", "1", &pid]).output();
    if !others.is_ok_and(|output| output.status.success()) {
        return skip("there is no taskset, or no second CPU");
    }
    let outcome = writer.revert(bound).unwrap().outcome;
    assert!(matches!(outcome, RevertOutcome::ChangedSince(_)), "{outcome:?}");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    assert!(status.contains("Cpus_allowed_list:\t1\n"), "{status}");
    load.ends_well();
}

/// A uprobe, which is removed on drop. It is set through a tracefs that is mounted for this test only.
struct Uprobe(tempfile::TempDir);

impl Uprobe {
    const GROUP: &str = "tuneagent_suite";

    fn on(path: &str, offset: u64) -> Option<Uprobe> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tracefs", "none"])
            .arg(directory.path())
            .stderr(Stdio::null())
            .status();
        if !mounted.is_ok_and(|status| status.success()) {
            return None;
        }
        let probe = Uprobe(directory);
        probe
            .append(&format!("p:{}/probe {path}:{offset:#x}\n", Uprobe::GROUP))
            .ok()?;
        probe.enable("1").ok()?;
        Some(probe)
    }

    fn append(&self, text: &str) -> std::io::Result<()> {
        let events = std::fs::OpenOptions::new()
            .append(true)
            .open(self.0.path().join("uprobe_events"));
        events?.write_all(text.as_bytes())
    }

    fn enable(&self, text: &str) -> std::io::Result<()> {
        std::fs::write(
            self.0.path().join(format!("events/{}/enable", Uprobe::GROUP)),
            text,
        )
    }
}

impl Drop for Uprobe {
    fn drop(&mut self) {
        let _ = self.enable("0");
        let _ = self.append(&format!("-:{}/probe\n", Uprobe::GROUP));
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn code_under_a_uprobe_is_refused_and_a_probe_elsewhere_does_not_matter() {
    const NOTE: &str = "note(5, 0.5, \"noted\")";
    let mut load = or_skip!(Load::start());
    let space = load.program.space();
    let functions = space.functions(&["step"]).unwrap();
    let offset = |name: &str| {
        let found = functions
            .iter()
            .find(|(_, function)| function.names.iter().any(|known| known == name));
        found.unwrap().1.offset.0
    };
    let path = load.workshop.path().join("underload");
    let Some(probe) = Uprobe::on(path.to_str().unwrap(), offset("step")) else {
        return skip("uprobes through tracefs are not permitted here");
    };
    let mut writer = load.writer();
    fails(
        try_patch(&mut writer, &insert(NOTE, "step", Moment::Entry)),
        "carries a uprobe",
    );
    assert!(writer.changes().is_empty());
    let removed = patch(&mut writer, &remove("log_state", Some("step")));
    writer.revert(removed.change).unwrap();
    drop(probe);
    // The old bytes are read from the file, not from the memory with the probe.
    let receipt = patch(&mut writer, &insert(NOTE, "step", Moment::Entry));
    assert_eq!(load.runs(), QUIET.replace("noted=0", "noted=1"));
    writer.revert(receipt.change).unwrap();
    assert_eq!(load.runs(), QUIET);
    load.ends_well();
}
