//! Messages that are issued while the view is shown. They are kept with their times for the log tab, and
//! printed when the terminal is released.

use std::{collections::VecDeque, time::Duration};

/// Maximum number of lines; older ones are dropped and counted.
const LINES_MAX: usize = 1000;

/// Lines, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: VecDeque<(Duration, String)>,
    gone: usize,
}

impl Log {
    /// Adds a line, issued when the session had lasted for `elapsed`.
    pub(super) fn say(&mut self, elapsed: Duration, line: String) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
            self.gone += 1;
        }
        self.lines.push_back((elapsed, line));
    }

    /// All lines; one line stands for those that were dropped.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = (Option<Duration>, String)> + '_ {
        let gone = (self.gone > 0).then(|| (None, format!("{} older messages are not kept", self.gone)));
        let lines = self
            .lines
            .iter()
            .map(|(elapsed, line)| (Some(*elapsed), line.clone()));
        gone.into_iter().chain(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_the_others_counted() {
        let mut log = Log::default();
        for number in 0..LINES_MAX + 7 {
            log.say(Duration::ZERO, number.to_string());
        }
        let all: Vec<String> = log.all().map(|(_, line)| line).collect();
        assert_eq!(all.len(), LINES_MAX + 1);
        assert_eq!(all[..2], ["7 older messages are not kept", "7"]);
    }
}
