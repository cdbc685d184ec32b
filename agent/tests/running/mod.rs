//! A program for tests: builds and starts it, queries it line by line, and ends it with the test.
#![allow(dead_code, reason = "not every test asks everything")]

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tuneagent_e2e::{line_program::LineProgram, programs};

pub(crate) struct Running {
    program: LineProgram,
    pub(crate) path: PathBuf,
}

impl Running {
    /// Builds a C program from its text, starts it, and waits until it is ready.
    pub(crate) fn built(directory: &Path, text: &str, flags: &[&str]) -> Running {
        let (source, path) = (directory.join("target.c"), directory.join("target"));
        std::fs::write(&source, text).unwrap();
        programs::compile("cc", flags, &[source], &path).unwrap();
        Running::start(&path, &[])
    }

    /// Starts a program and waits until it is ready.
    pub(crate) fn start(path: &Path, arguments: &[&str]) -> Running {
        Running {
            program: LineProgram::ready(Command::new(path).args(arguments)).unwrap(),
            path: path.to_owned(),
        }
    }

    /// Sends a line and returns the answer.
    pub(crate) fn answers(&mut self, line: &str) -> String {
        self.program.say(line).unwrap()
    }

    /// Sends a line after which the program ends by itself, and waits for the end.
    pub(crate) fn ends(mut self, line: &str) {
        self.program.send(line).unwrap();
        assert!(self.program.end().unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// Address of the first mapping of its file. Mappings of the kernel for probes may be below.
    pub(crate) fn base(&self) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let path = self.path.to_str().unwrap();
        let own = maps.lines().find(|line| line.ends_with(path)).unwrap();
        u64::from_str_radix(own.split('-').next().unwrap(), 16).unwrap()
    }
}

/// The product, with a folder for all files that it writes.
pub(crate) fn tuneagent(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tuneagent"));
    for variable in ["TUNEAGENT_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
        command.env(variable, folder);
    }
    command.stdin(Stdio::null());
    command
}

/// The report of a session on a program, with these flags and with all that `during` does. It has no budget: on
/// other programs' CPUs, or an emulated one, hits are more expensive than the default permits.
pub(crate) fn session(folder: &Path, pid: u32, flags: &[&str], during: impl FnOnce()) -> Value {
    let report = folder.join("report.json");
    let mut agent = tuneagent(folder)
        .args(["attach", &pid.to_string(), "--plain", "--budget", "none"])
        .args(flags)
        .arg("--json")
        .arg(&report)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(agent.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let armed = lines.by_ref().find(|line| line.starts_with("armed"));
    println!(
        "{flags:?} {}",
        armed.expect("the agent ended before it was armed")
    );
    during();
    kill_process(Pid::from_child(&agent), Signal::INT).unwrap();
    lines.for_each(|line| println!("{line}"));
    assert!(agent.wait().unwrap().success());
    serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap()
}

/// A program of `tests/programs`, which is compiled once.
pub(crate) fn built(name: &str) -> PathBuf {
    let flags = ["-pthread", "-fno-optimize-sibling-calls"];
    compiled(name, name, "cc", &flags)
}

/// As `built`, for `openmpi` or `mpich`.
pub(crate) fn program_of_mpi(name: &str, mpi: &str) -> PathBuf {
    compiled(name, &format!("{name}.{mpi}"), &format!("mpicc.{mpi}"), &[])
}

fn compiled(name: &str, program: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    // A folder with compiled programs, for machines without a compiler.
    match std::env::var_os("TUNEAGENT_SYNC_PROGRAMS") {
        Some(programs) => Path::new(&programs).join(program),
        None => programs::elsewhere(&format!("agent/tests/programs/{name}.c"), compiler, flags).unwrap(),
    }
}
