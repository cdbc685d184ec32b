//! The program under load of the tuner's tests, for whole-program tests: many threads that check their
//! results, and functions that inspect the program from outside.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::line_program::LineProgram;
use crate::problem::Context;
use crate::{Outcome, Problem};

/// The program as a running process.
pub struct Underload {
    program: LineProgram,
    memory: File,
    folder: TempDir,
}

impl Underload {
    /// Its report on its steps while nothing is changed.
    pub const QUIET: &str = "a=1 b=0 logged=1 noted=0 size=4096 weight=2500 tail=8 loop=0 errors=0";

    /// Builds and starts it.
    pub fn start() -> Outcome<Underload> {
        let folder = tempfile::tempdir()?;
        let here = folder.path();
        build(here, "part.c", "libpart.so", &["-shared", "-fPIC"])?;
        build(here, "tuned.c", "libtuned.so", &["-shared", "-fPIC"])?;
        let run_path = format!("-Wl,-rpath,{}", here.display());
        let with = ["-pthread", "libpart.so", "-Wl,-z,lazy", &run_path];
        let program = build(here, "underload.c", "underload", &with)?;
        let mut command = Command::new("setpriv");
        let program = LineProgram::ready(command.args(["--pdeathsig", "KILL", "--"]).arg(program))?;
        let memory = File::open(format!("/proc/{}/mem", program.pid()))?;
        Ok(Underload {
            program,
            memory,
            folder,
        })
    }

    /// Process number of the program.
    pub fn pid(&self) -> u32 {
        self.program.pid()
    }

    /// A library that it has not loaded.
    pub fn library(&self) -> PathBuf {
        self.folder.path().join("libtuned.so")
    }

    /// Its report on its next steps.
    pub fn runs(&mut self) -> Outcome<String> {
        self.program.say("run")
    }

    /// Number of calls of `tick`.
    pub fn ticks(&mut self) -> Outcome<u64> {
        let answer = self.program.say("ticks")?;
        let count = answer.strip_prefix("ticks=").ok_or("no ticks")?;
        count.parse().context(&answer)
    }

    /// Lets it end by itself and returns its last line.
    pub fn end(&mut self) -> Outcome<String> {
        self.program.close();
        let words = self.program.line()?;
        match self.program.end()?.code() {
            Some(0) => Ok(words),
            code => Err(Problem::new(format!("it ended with {code:?}: {words}"))),
        }
    }

    /// Bytes of its memory.
    pub fn bytes(&self, address: u64, length: usize) -> Outcome<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.memory.read_exact_at(&mut bytes, address);
        read.context(format!("{length} bytes at {address:#x}"))?;
        Ok(bytes)
    }

    /// Allowed CPUs by thread.
    pub fn cpus(&self) -> Outcome<Vec<(u64, String)>> {
        let mut found = Vec::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let task = task?;
            let status = fs::read_to_string(task.path().join("status"))?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            let tid = task.file_name().to_string_lossy().parse();
            found.push((tid.context("a thread")?, line.ok_or("no CPUs")?.trim().to_owned()));
        }
        found.sort();
        Ok(found)
    }

    /// Number of its open descriptors.
    pub fn descriptors(&self) -> Outcome<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.pid()))?.count())
    }

    /// Number of its threads that are traced.
    pub fn tracers(&self) -> Outcome<usize> {
        let mut count = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.pid()))? {
            let status = fs::read_to_string(task?.path().join("status"))?;
            count += usize::from(!status.contains("TracerPid:\t0\n"));
        }
        Ok(count)
    }

    /// Its mappings, one per line.
    pub fn maps(&self) -> Outcome<String> {
        Ok(fs::read_to_string(format!("/proc/{}/maps", self.pid()))?)
    }

    /// All mapped code, with its location and bytes.
    pub fn code(&self) -> Outcome<Vec<(String, Vec<u8>)>> {
        let mut found = Vec::new();
        for line in self.maps()?.lines().filter(|line| line.contains(" r-xp ")) {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let (start, end) = range.ok_or("no range")?;
            let number = |text| u64::from_str_radix(text, 16).context(line);
            let (start, end) = (number(start)?, number(end)?);
            found.push((line.to_owned(), self.bytes(start, (end - start) as usize)?));
        }
        Ok(found)
    }
}

fn build(folder: &Path, source: &str, output: &str, flags: &[&str]) -> Outcome<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tuner/tests/programs");
    let output = folder.join(output);
    let mut command = Command::new("cc");
    command
        .args(["-O1", "-g", "-Wl,--build-id"])
        .arg(sources.join(source));
    command.args(flags).arg("-o").arg(&output).current_dir(folder);
    let done = command.output().context("cc")?;
    match done.status.success() {
        true => Ok(output),
        false => Err(Problem::new(String::from_utf8_lossy(&done.stderr).into_owned())),
    }
}
