//! perf and bpftrace doing the same measurements, each at one function of a program that it starts. The
//! program measures and prints the duration of a call.

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

/// What a tool records about the calls of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Telling {
    Count,
    /// Number of calls, and sums over six arguments.
    Arguments,
    /// One record per call.
    Event,
    /// Numbers of entries and of returns.
    BothEnds,
    /// Sum of the durations.
    Time,
    /// Histogram of the durations.
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

/// Group name of the perf probes set by this module.
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

    /// Command that records this about a function while the program runs. `None` if the tool does not support
    /// it.
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

/// The bpftrace program, or `None` if bpftrace does not support it.
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

/// A copy of the program that all tools accept. The perf probes on it are removed on drop.
pub(super) struct Program {
    folder: TempDir,
    path: PathBuf,
    has_probes: bool,
}

impl Program {
    /// The copy has no debug information: if there is any, perf rejects functions that it does not describe,
    /// such as those written in assembler.
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

    /// Duration of a call in ns without a tool.
    pub(super) fn bare_ns(&self, function: &str, calls: u64) -> Result<f64> {
        let mut bare = Command::new(&self.path);
        said_ns(bare.args([function, &calls.to_string()]))
    }

    /// Duration of a call in ns while a tool records. `None` if the tool does not support it.
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

/// Parses the first line that consists of a number.
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
