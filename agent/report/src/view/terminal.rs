//! Shows a session: as the live view on a terminal that can be taken over, otherwise as consecutive lines. On
//! a terminal, a line that is wider than the screen is wrapped at a word; in a pipe or a file it is not.

use std::{
    io::{self, Write},
    os::fd::AsFd,
};

use profile::Snapshot;
use profile::format::hanging;
use rustix::termios::tcgetwinsize;

use super::live::{Input, Live, UserRequest, can_be_taken};
use crate::console::{self, printable_lines, write_line};

/// The output of a session.
pub struct Painter {
    can_be_live: bool,
    /// Write to standard error, because standard output belongs to the command.
    is_beside: bool,
    live: Option<Live>,
}

impl Painter {
    /// The live view where there is a terminal, else lines.
    pub fn live() -> Painter {
        Painter {
            can_be_live: can_be_taken(),
            ..Painter::lines()
        }
    }

    pub fn lines() -> Painter {
        Painter {
            can_be_live: false,
            is_beside: false,
            live: None,
        }
    }

    /// Shows lines on standard error, next to a command that uses the terminal.
    pub fn beside() -> Painter {
        Painter {
            can_be_live: false,
            is_beside: true,
            live: None,
        }
    }

    /// Takes over the terminal, if there is one. Returns false if lines are shown instead.
    pub fn begin(&mut self, snapshot: Snapshot) -> bool {
        if self.can_be_live {
            self.live = Live::begin(snapshot)
                .inspect_err(
                    |error| tracing::warn!(%error, "the terminal cannot be taken over: lines instead"),
                )
                .ok();
        }
        self.live.is_some()
    }

    /// Releases the terminal, and prints the messages that were issued meanwhile.
    pub fn end(&mut self) {
        self.live = None;
    }

    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    pub fn wants_call_sites(&self) -> bool {
        self.live.as_ref().is_some_and(Live::wants_call_sites)
    }

    pub fn say(&mut self, line: &str) {
        match &mut self.live {
            Some(live) => live.say(line.to_owned()),
            // If standard error cannot be written, the error is dropped.
            None if self.is_beside => drop(console::printing(|| write(&mut io::stderr().lock(), line))),
            None => console::note(console::printing(|| write(&mut io::stdout().lock(), line))),
        }
    }

    /// Shows a new snapshot in the live view; does nothing for lines.
    pub fn show(&mut self, snapshot: Snapshot) {
        if self.live.as_ref().is_some_and(Live::is_over) {
            self.end();
        }
        if let Some(live) = &mut self.live {
            console::printing(|| live.show(snapshot));
        }
    }

    /// Handles input, and returns the resulting request.
    pub fn take(&mut self, input: Input) -> Option<UserRequest> {
        self.live.as_mut()?.take(input)
    }

    pub fn answer(&mut self, answer: String) {
        if let Some(live) = &mut self.live {
            live.answer(answer);
        }
    }
}

/// Width of the terminal; `None` if `out` is no terminal or does not report it.
pub fn columns(out: impl AsFd) -> Option<usize> {
    let size = tcgetwinsize(out).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Writes a line, wrapped if it is wider than the terminal.
pub(super) fn write(out: &mut (impl Write + AsFd), line: &str) -> io::Result<()> {
    let line = &*printable_lines(line);
    let text = match columns(&*out) {
        Some(columns) => hanging(line, columns).join("\n"),
        None => line.to_owned(),
    };
    write_line(out, &text).and_then(|()| out.flush())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD: &str = "TUNEAGENT_TEST_SAYS_A_LONG_LINE";
    const NAME: &str =
        "view::terminal::tests::on_a_terminal_a_long_line_goes_on_at_a_word_and_in_a_pipe_it_stays_one_line";
    const LINE: &str = "note: a line that is longer than the forty columns of this terminal\nand a second";

    /// The test starts itself on a separate terminal (`script`) and in a pipe.
    #[test]
    fn on_a_terminal_a_long_line_goes_on_at_a_word_and_in_a_pipe_it_stays_one_line() {
        if std::env::var_os(CHILD).is_some() {
            Painter::lines().say(LINE);
            return;
        }
        let this = std::env::current_exe().expect("a test has a file");
        let arguments = ["--exact", NAME, "--nocapture"];
        let piped = Command::new(&this).args(arguments).env(CHILD, "1").output();
        let piped = String::from_utf8(piped.expect("it runs").stdout).expect("it is text");
        assert!(piped.contains(LINE), "{piped:?}");
        let command = format!(
            "stty sane rows 24 columns 40; env {CHILD}=1 {} {}",
            this.display(),
            arguments.join(" ")
        );
        let shown = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("SHELL", "/bin/sh")
            .output()
            .expect("script is part of every Debian");
        let shown = String::from_utf8_lossy(&shown.stdout).replace('\r', "");
        let lines =
            "note: a line that is longer than the\n    forty columns of this terminal\n    and a second\n";
        assert!(shown.contains(lines), "{shown:?}");
    }
}
