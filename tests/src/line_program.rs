//! A program that a test starts and that answers each line with a line. It is killed on drop.

use std::io::Write;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::Outcome;
use crate::lines::{Line, Lines};
use crate::problem::Context;

/// Maximum time for a line. On an emulated processor (`cargo xtask vm`) everything takes a hundred times as long.
const PATIENCE: Duration = Duration::from_secs(1200);

/// A running program with pipes at its input and output.
pub struct LineProgram {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines,
    read: usize,
}

impl LineProgram {
    /// Starts a command.
    pub fn start(command: &mut Command) -> Outcome<LineProgram> {
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.context(format!("cannot start {command:?}"))?;
        let output = Lines::default();
        output.follow(child.stdout.take().ok_or("no output")?);
        let input = child.stdin.take();
        Ok(LineProgram {
            child,
            input,
            output,
            read: 0,
        })
    }

    /// Starts a command and waits for its first line, which must be `ready`.
    pub fn ready(command: &mut Command) -> Outcome<LineProgram> {
        let mut program = LineProgram::start(command)?;
        match program.line()?.as_str() {
            "ready" => Ok(program),
            other => Err(format!("{command:?} is not ready: {other}").into()),
        }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its next line.
    pub fn line(&mut self) -> Outcome<String> {
        let next = |lines: &[Line]| lines.get(self.read).map(|line| line.text.clone());
        let line = self.output.wait_for("its next line", PATIENCE, next)?;
        self.read += 1;
        Ok(line)
    }

    /// Sends a line and waits for the answer.
    pub fn say(&mut self, text: &str) -> Outcome<String> {
        self.send(text)?;
        self.line()
    }

    /// Sends a line that has no answer.
    pub fn send(&mut self, text: &str) -> Outcome {
        let input = self.input.as_mut().ok_or("its input is closed")?;
        // One write, for which the program wakes once.
        Ok(input.write_all(format!("{text}\n").as_bytes())?)
    }

    /// Closes its input, at which it ends. Its last lines can be read.
    pub fn close(&mut self) {
        drop(self.input.take());
    }

    /// Closes its input and waits for its end.
    pub fn end(&mut self) -> Outcome<ExitStatus> {
        self.close();
        Ok(self.child.wait()?)
    }
}

impl Drop for LineProgram {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
