//! Puts lines on the terminal. On a screen the newest block takes the place of the last one; into a pipe or a file every
//! line is written once.

use std::io::{self, IsTerminal, Write};

/// Writes to standard output.
#[derive(Debug)]
pub struct Painter {
    is_screen: bool,
    painted: usize,
}

impl Painter {
    /// Repaints when standard output is a terminal and `plain` was not asked for.
    pub fn new(plain: bool) -> Painter {
        let knows_cursor = std::env::var("TERM").is_ok_and(|term| term != "dumb");
        Painter {
            is_screen: !plain && knows_cursor && io::stdout().is_terminal(),
            painted: 0,
        }
    }

    /// Whether blocks are repainted.
    pub fn is_screen(&self) -> bool {
        self.is_screen
    }

    /// Columns and rows that there are.
    pub fn size(&self) -> (usize, usize) {
        let size = rustix::termios::tcgetwinsize(io::stdout())
            .ok()
            .filter(|_| self.is_screen);
        size.map_or((120, usize::MAX), |size| {
            (usize::from(size.ws_col).max(40), usize::from(size.ws_row).max(10))
        })
    }

    /// A line that stays.
    pub fn say(&mut self, line: &str) {
        let mut text = self.erase();
        text.push_str(line);
        text.push('\n');
        write(&text);
    }

    /// A block that the next one replaces. Not shown where nothing can be replaced.
    pub fn paint(&mut self, lines: &[String]) {
        if !self.is_screen {
            return;
        }
        let (columns, rows) = self.size();
        let shown = lines.len().min(rows - 1);
        let mut text = self.erase();
        for line in &lines[..shown] {
            text.extend(line.chars().take(columns - 1));
            text.push('\n');
        }
        self.painted = shown;
        write(&text);
    }

    /// Moves up over the painted block and clears to the end of the screen.
    fn erase(&mut self) -> String {
        match std::mem::take(&mut self.painted) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }
}

/// A reader that went away (`| head`) is no reason to stop watching.
fn write(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
