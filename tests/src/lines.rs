//! Output of a program by line, with the arrival time of each line, and waiting for a line.
//!
//! Reader threads append to one list, which keeps all lines. Every wait searches the complete list.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::problem::Context;
use crate::{Outcome, Problem};

/// A line with its arrival time.
#[derive(Clone, Debug)]
pub struct Line {
    /// Time at which the line was read.
    pub at: Instant,
    /// Text without the line end.
    pub text: String,
}

/// All lines that a program has printed so far.
#[derive(Clone, Default)]
pub struct Lines {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    lines: Vec<Line>,
    readers: usize,
}

/// Runs a command without input to its end. Returns the exit code and both outputs.
pub fn finish(command: &mut Command) -> Outcome<(i32, String)> {
    let output = command.stdin(Stdio::null()).output()?;
    let text = [output.stdout, output.stderr].concat();
    let code = output.status.code().ok_or("killed by a signal")?;
    Ok((code, String::from_utf8_lossy(&text).into_owned()))
}

/// As `finish`, for a command that must succeed. Returns both outputs.
pub fn succeed(command: &mut Command) -> Outcome<String> {
    match finish(command).context(format!("{command:?}"))? {
        (0, text) => Ok(text),
        (code, text) => Err(Problem::new(format!("{command:?} ended with {code}:\n{text}"))),
    }
}

/// Starts a command without input. Returns the lines of both outputs, too.
pub fn follow(command: &mut Command) -> Outcome<(Child, Lines)> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context(format!("cannot start {command:?}"))?;
    let lines = Lines::default();
    lines.follow(child.stdout.take().ok_or("no output")?);
    lines.follow(child.stderr.take().ok_or("no error output")?);
    Ok((child, lines))
}

impl Lines {
    /// Reads a stream in a thread that ends with the stream.
    pub fn follow(&self, stream: impl Read + Send + 'static) {
        self.locked().readers += 1;
        let lines = self.clone();
        std::thread::spawn(move || lines.read(stream));
    }

    fn read(&self, stream: impl Read) {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        while matches!(stream.read_until(b'\n', &mut bytes), Ok(1..)) {
            let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
            self.locked().lines.push(Line {
                at: Instant::now(),
                text,
            });
            self.shared.changed.notify_all();
            bytes.clear();
        }
        self.locked().readers -= 1;
        self.shared.changed.notify_all();
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a line or an end, at most for this time.
    fn changed<'a>(&self, state: MutexGuard<'a, State>, left: Duration) -> MutexGuard<'a, State> {
        let waited = self.shared.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// All lines so far.
    pub fn all(&self) -> Vec<Line> {
        self.locked().lines.clone()
    }

    /// All lines so far as one text.
    pub fn text(&self) -> String {
        let lines = self.all();
        lines
            .iter()
            .map(|line| line.text.as_str())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Waits until `find` returns a value for the lines so far. Fails with the output at the deadline or at
    /// the end of the output.
    pub fn wait_for<T>(
        &self,
        what: &str,
        within: Duration,
        mut find: impl FnMut(&[Line]) -> Option<T>,
    ) -> Outcome<T> {
        let deadline = Instant::now() + within;
        let mut state = self.locked();
        loop {
            if let Some(found) = find(&state.lines) {
                return Ok(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if state.readers == 0 || left.is_zero() {
                let why = if left.is_zero() {
                    format!("{within:?} passed")
                } else {
                    "its output ended".to_owned()
                };
                drop(state);
                return Err(Problem::new(format!(
                    "waited for {what}, but {why}; it printed:\n{}",
                    self.text()
                )));
            }
            state = self.changed(state, left);
        }
    }

    /// Waits for the first line that contains `part`.
    pub fn wait_for_line(&self, part: &str, within: Duration) -> Outcome<Line> {
        let find = |lines: &[Line]| lines.iter().find(|line| line.text.contains(part)).cloned();
        self.wait_for(&format!("a line with '{part}'"), within, find)
    }

    /// Waits for this many lines of JSON with the event.
    pub fn events(&self, event: &str, count: usize, within: Duration) -> Outcome<Vec<Value>> {
        self.wait_for(
            &format!("{count} lines with the event '{event}'"),
            within,
            |lines| {
                let parsed = lines
                    .iter()
                    .filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
                let matching: Vec<Value> = parsed.filter(|value| value["event"] == event).collect();
                (matching.len() >= count).then_some(matching)
            },
        )
    }

    /// Whether all streams have ended, so that no more lines follow.
    pub fn has_ended(&self) -> bool {
        self.locked().readers == 0
    }

    /// Waits until all streams have ended, so that no more lines follow.
    pub fn wait_for_end(&self, within: Duration) -> Outcome {
        let deadline = Instant::now() + within;
        let mut state = self.locked();
        while state.readers > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Problem::new(format!("its output did not end within {within:?}")));
            }
            state = self.changed(state, left);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_whether_it_came_before_or_after_the_question() -> Outcome {
        let (reader, mut writer) = std::io::pipe()?;
        let lines = Lines::default();
        lines.follow(reader);
        std::io::Write::write_all(&mut writer, b"one\ntwo\n")?;
        assert_eq!(lines.wait_for_line("two", Duration::from_secs(5))?.text, "two");
        assert_eq!(lines.wait_for_line("one", Duration::from_secs(5))?.text, "one");
        Ok(())
    }

    #[test]
    fn waiting_ends_with_the_output_and_shows_it() -> Outcome {
        let lines = Lines::default();
        lines.follow(&b"only this"[..]);
        let problem = lines
            .wait_for_line("that", Duration::from_secs(5))
            .unwrap_err()
            .to_string();
        assert!(
            problem.contains("its output ended") && problem.contains("only this"),
            "{problem}"
        );
        Ok(())
    }
}
