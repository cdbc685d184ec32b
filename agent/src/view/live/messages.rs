//! What is said while the view is up: kept to be looked at, and to be printed when the terminal is given back.

use std::collections::VecDeque;

/// Lines that are kept; older ones go, and are counted.
const MESSAGES_MAX: usize = 1000;

/// Lines, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Messages {
    lines: VecDeque<String>,
    gone: usize,
}

impl Messages {
    /// Keeps a line.
    pub(super) fn say(&mut self, line: String) {
        if self.lines.len() == MESSAGES_MAX {
            self.lines.pop_front();
            self.gone += 1;
        }
        self.lines.push_back(line);
    }

    /// All of them, those that are gone as one.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = String> + '_ {
        let gone = (self.gone > 0).then(|| format!("{} lines were said before these", self.gone));
        gone.into_iter().chain(self.lines.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_lines_are_kept_and_the_others_counted() {
        let mut messages = Messages::default();
        for number in 0..MESSAGES_MAX + 7 {
            messages.say(number.to_string());
        }
        let all: Vec<String> = messages.all().collect();
        assert_eq!(all.len(), MESSAGES_MAX + 1);
        assert_eq!(all[..2], ["7 lines were said before these", "7"]);
    }
}
