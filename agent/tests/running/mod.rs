//! A program for tests: builds and starts it, queries it line by line, and ends it with the test.
#![allow(dead_code, reason = "not every test asks everything")]

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) path: PathBuf,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Builds a C program from its text, starts it, and waits until it is ready.
    pub(crate) fn built(directory: &Path, text: &str, flags: &[&str]) -> Running {
        let (source, path) = (directory.join("target.c"), directory.join("target"));
        std::fs::write(&source, text).unwrap();
        let mut cc = Command::new("cc");
        let built = cc
            .arg("-O1")
            .args(flags)
            .arg("-o")
            .args([&path, &source])
            .status();
        assert!(built.unwrap().success());
        Running::start(&path, &[])
    }

    /// Starts a program and waits until it is ready.
    pub(crate) fn start(path: &Path, arguments: &[&str]) -> Running {
        let mut command = Command::new(path);
        command
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut running = Running {
            path: path.to_owned(),
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        assert_eq!(running.line(), "ready");
        running
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Sends a line and returns the answer.
    pub(crate) fn answers(&mut self, line: &str) -> String {
        writeln!(self.input, "{line}").unwrap();
        self.line()
    }

    /// Sends a line after which the program ends by itself, and waits for the end.
    pub(crate) fn ends(mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Address of the first mapping of its file. Mappings of the kernel for probes may be below.
    pub(crate) fn base(&self) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid())).unwrap();
        let path = self.path.to_str().unwrap();
        let own = maps.lines().find(|line| line.ends_with(path)).unwrap();
        u64::from_str_radix(own.split('-').next().unwrap(), 16).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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

/// Compiles a program of `tests/programs`.
pub(crate) fn built(directory: &Path, name: &str) -> PathBuf {
    let flags = ["-g", "-pthread", "-fno-optimize-sibling-calls"];
    compiled(directory, name, name, "cc", &flags)
}

/// Compiles a program for `openmpi` or `mpich`.
pub(crate) fn program_of_mpi(directory: &Path, name: &str, mpi: &str) -> PathBuf {
    compiled(
        directory,
        name,
        &format!("{name}.{mpi}"),
        &format!("mpicc.{mpi}"),
        &[],
    )
}

fn compiled(directory: &Path, name: &str, program: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    // A folder with compiled programs, for machines without a compiler.
    if let Some(programs) = std::env::var_os("TUNEAGENT_SYNC_PROGRAMS") {
        return Path::new(&programs).join(program);
    }
    let program = directory.join(program);
    let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let done = Command::new(compiler)
        .arg("-O1")
        .args(flags)
        .arg("-o")
        .arg(&program)
        .arg(source)
        .status();
    assert!(done.unwrap().success());
    program
}
