//! System calls that an agent without the right to write can still make. A preloaded library makes the calls
//! from inside the agent.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use tuneagent_e2e::wait::{self, SOON};

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    wait::wait_for(what, SOON, || Ok(look())).unwrap()
}

/// A field of /proc/PID/status.
fn status(pid: u32, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line?.strip_prefix(':')?.trim().parse().ok()
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Results of the calls inside `tuneagent` with these arguments, once it has this number of seccomp filters:
/// the errno of each call, 0 for success.
fn calls_inside(folder: &Path, arguments: &[&str], filters: u64, target: u32) -> Vec<(String, i32)> {
    let library = folder.join("refused_calls.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/refused_calls.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source);
    assert!(compiler.status().unwrap().success());
    fs::write(folder.join("kept"), "as it was").unwrap();
    let agent = Command::new(env!("CARGO_BIN_EXE_tuneagent"))
        .args(arguments)
        .env("LD_PRELOAD", &library)
        .env("CALLS", folder)
        .env("TARGET", target.to_string())
        .env("TUNEAGENT_STATE_DIR", folder.join("state"))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let agent = Killed(agent);
    let pid = agent.0.id();
    wait_for("the last filter", || {
        status(pid, "Seccomp_filters").filter(|known| *known == filters)
    });
    let signal = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(signal, rustix::process::Signal::USR2).unwrap();
    let report = wait_for("the end of the report", || {
        let report = fs::read_to_string(folder.join("report")).ok()?;
        report.ends_with("0 end\n").then_some(report)
    });
    assert_eq!(fs::read_to_string(folder.join("kept")).unwrap(), "as it was");
    let lines = report.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(errno, call)| (call.to_owned(), errno.parse().unwrap()))
        .collect()
}

#[test]
fn an_agent_that_only_looks_can_change_nothing() {
    let sleeper = Killed(Command::new("sleep").arg("600").spawn().unwrap());
    let target = sleeper.0.id();
    let number = target.to_string();
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        is_root || std::env::var_os("TUNEAGENT_REQUIRE_ALL").is_none(),
        "root is missing"
    );
    let watching = format!("attach {number} --probe nanosleep --plain --duration 600s");
    let watching: Vec<&str> = watching.split(' ').collect();
    let cases: [(&[&str], u64); 2] = [(&["ps", "--duration", "600s"], 2), (&watching, 3)];
    for (arguments, filters) in &cases[..if is_root { 2 } else { 1 }] {
        let folder = tempfile::tempdir().unwrap();
        let calls = calls_inside(folder.path(), arguments, *filters, target);
        let split = calls
            .iter()
            .position(|(call, _)| call == "permitted from here on")
            .unwrap();
        assert!(split > 60, "{calls:?}");
        for (call, errno) in &calls[..split] {
            assert_eq!(*errno, libc::EPERM, "{call} in {arguments:?}");
        }
        for (call, errno) in &calls[split..] {
            assert_eq!(*errno, 0, "{call} in {arguments:?}");
        }
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        left.sort();
        left.retain(|name| name != "state");
        assert_eq!(left, ["kept", "refused_calls.so", "report"], "{arguments:?}");
    }
}
