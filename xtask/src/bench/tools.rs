//! The tools that people use for the same: perf and bpftrace, each at a function of a program that it runs.
//! What the program says of itself is what a call took.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::Result;
use crate::process::{capture, find_program};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    Perf,
    Bpftrace,
}

/// What is to be told of a function's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Telling {
    Count,
    /// How many, and sums over six arguments.
    Arguments,
    /// Each one by itself.
    Event,
    /// How many entries, and how many returns.
    BothEnds,
    /// The sum of their times.
    Time,
    /// How many took how long.
    Histogram,
}

impl Telling {
    pub(super) const ALL: [Telling; 6] = [
        Telling::Count,
        Telling::Arguments,
        Telling::Event,
        Telling::BothEnds,
        Telling::Time,
        Telling::Histogram,
    ];
}

/// Under which perf keeps the probes that are set here.
const PERF_GROUP: &str = "tuneagent_bench";

impl Tool {
    pub(super) const ALL: [Tool; 2] = [Tool::Bpftrace, Tool::Perf];

    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Perf => "perf",
            Tool::Bpftrace => "bpftrace",
        }
    }

    pub(super) fn is_here(self) -> bool {
        find_program(self.name()).is_some()
    }

    /// Tells that of a function while the program runs; none where the tool cannot.
    pub(super) fn command(
        self,
        telling: Telling,
        program: &Program,
        function: &str,
        calls: u64,
    ) -> Option<Command> {
        let mut command = Command::new(self.name());
        let path = program.path.to_string_lossy().into_owned();
        match self {
            Tool::Perf => {
                let event = format!("{PERF_GROUP}:{function}");
                match telling {
                    Telling::Count => command.args(["stat", "--event", &event]),
                    Telling::BothEnds => command.args([
                        "stat",
                        "--event",
                        &event,
                        "--event",
                        &format!("{event}_end__return"),
                    ]),
                    Telling::Event => command
                        .args(["record", "--quiet", "--event", &event, "--output"])
                        .arg(program.folder.path().join("perf.data")),
                    Telling::Arguments | Telling::Time | Telling::Histogram => return None,
                };
                command.args(["--", &path, function, &calls.to_string()]);
            }
            Tool::Bpftrace => {
                command.args(["-e", &script(telling, &path, function)?]);
                command.args(["-c", &format!("{path} {function} {calls}")]);
            }
        }
        Some(command)
    }
}

/// What bpftrace is to do.
fn script(telling: Telling, path: &str, function: &str) -> Option<String> {
    let timed = |reported: &str| {
        format!(
            "uprobe:{path}:{function} {{ @began[tid] = nsecs; }} \
             uretprobe:{path}:{function} /@began[tid]/ {{ @ = {reported}(nsecs - @began[tid]); delete(@began[tid]); }}"
        )
    };
    let at_entry = |reported: &str| format!("uprobe:{path}:{function} {{ {reported} }}");
    Some(match telling {
        Telling::Count => at_entry("@ = count();"),
        Telling::Arguments => {
            let sums: Vec<String> = (0..6).map(|n| format!("@a{n} = sum(arg{n});")).collect();
            at_entry(&sums.join(" "))
        }
        Telling::Event => at_entry("printf(\"hit %d\\n\", tid);"),
        Telling::Time => timed("sum"),
        Telling::Histogram => timed("hist"),
        Telling::BothEnds => return None,
    })
}

/// A program as all tools can take it, and the probes that perf has on it until this is dropped.
pub(super) struct Program {
    folder: TempDir,
    path: PathBuf,
    has_probes: bool,
}

impl Program {
    /// Where there is debug information perf takes nothing for a function that it does not tell of, as none
    /// of assembler's: hence a copy without.
    pub(super) fn of(program: &Path, functions: &[&str]) -> Result<Program> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let path = folder.path().join("program");
        capture(
            Command::new("objcopy")
                .arg("--strip-debug")
                .arg(program)
                .arg(&path),
        )?;
        let mut program = Program {
            folder,
            path,
            has_probes: false,
        };
        if Tool::Perf.is_here() {
            program.has_probes = true;
            for function in functions {
                for (name, end) in [("", ""), ("_end", "%return")] {
                    let mut command = Command::new("perf");
                    command.args(["probe", "--quiet", "--exec"]).arg(&program.path);
                    let probe = format!("{PERF_GROUP}:{function}{name}={function}{end}");
                    capture(command.args(["--add", &probe]))?;
                }
            }
        }
        Ok(program)
    }

    /// What a call takes, in ns, while nobody watches.
    pub(super) fn bare_ns(&self, function: &str, calls: u64) -> Result<f64> {
        let mut bare = Command::new(&self.path);
        said_ns(bare.args([function, &calls.to_string()]))
    }

    /// What a call takes, in ns, while a tool tells that of it; none where it cannot.
    pub(super) fn ns_under(
        &self,
        (tool, telling): (Tool, Telling),
        function: &str,
        calls: u64,
    ) -> Result<Option<f64>> {
        let command = tool.command(telling, self, function, calls);
        command.map(|mut command| said_ns(&mut command)).transpose()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.has_probes {
            let all = format!("{PERF_GROUP}:*");
            let _ = Command::new("perf")
                .args(["probe", "--quiet", "--del", &all])
                .output();
        }
    }
}

/// The first number on a line of its own.
fn said_ns(command: &mut Command) -> Result<f64> {
    let text = capture(command)?;
    let number = text.lines().find_map(|line| line.trim().parse().ok());
    number.ok_or_else(|| format!("the program did not say what a call took: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_says_what_it_cannot_measure() {
        assert!(script(Telling::BothEnds, "/p", "f").is_none());
        let reported = script(Telling::Arguments, "/p", "f").unwrap();
        assert!(reported.starts_with("uprobe:/p:f { @a0 = sum(arg0);") && reported.contains("sum(arg5)"));
        let reported = script(Telling::Histogram, "/p", "f").unwrap();
        assert!(
            reported.contains("uretprobe:/p:f") && reported.contains("hist(nsecs"),
            "{reported}"
        );
        let all = Telling::ALL.into_iter();
        assert_eq!(
            all.filter(|telling| script(*telling, "/p", "f").is_some())
                .count(),
            5
        );
    }
}
