//! A program for tests: builds and starts it, queries it line by line, and ends it with the test.
#![allow(dead_code, reason = "not every test asks everything")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tuneagent_e2e::line_program::LineProgram;

pub(crate) struct Running {
    program: LineProgram,
    pub(crate) path: PathBuf,
}

impl Running {
    /// Builds a C program from its text, starts it, and waits until it is ready.
    pub(crate) fn built(directory: &Path, text: &str, flags: &[&str]) -> Running {
        let (source, path) = (directory.join("target.c"), directory.join("target"));
        std::fs::write(&source, text).unwrap();
        compile("cc", flags, &path, &source);
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
    compile(compiler, flags, &program, Path::new(&source));
    program
}

fn compile(compiler: &str, flags: &[&str], program: &Path, source: &Path) {
    let mut command = Command::new(compiler);
    command.arg("-O1").args(flags).arg("-o").args([program, source]);
    assert!(command.status().unwrap().success());
}
