//! The one way to standard output and standard error. What is printed holds names and texts that others
//! chose, so every active character but line ends and tabs is written by its number ([`tuner::printable`]);
//! our own colours have a function of their own.
//!
//! A reader that went away (`| head`) is no reason to fail; a disk that is full is one, and the command ends
//! with it ([`failure`]).

use std::{
    fmt::Arguments,
    io::{self, Write},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

pub use tuner::{is_active, printable, printable_bytes, printable_lines};

/// The first failure to write to standard output.
static FAILED: OnceLock<io::Error> = OnceLock::new();

/// A session waits until somebody reads what it prints.
static IS_PRINTING: AtomicBool = AtomicBool::new(false);

/// Standard output is for data alone.
static IS_FOR_DATA: AtomicBool = AtomicBool::new(false);

/// From here on lines go to standard error: standard output is for the data that [`complete`] and
/// [`StandardOutput`] write (`--json -`).
pub fn keep_for_data() {
    IS_FOR_DATA.store(true, Ordering::Relaxed);
}

pub(crate) fn is_for_data() -> bool {
    IS_FOR_DATA.load(Ordering::Relaxed)
}

pub fn line(text: Arguments<'_>) {
    match is_for_data() {
        true => error_line(text),
        false => note(write_line(&mut io::stdout(), &text.to_string())),
    }
}

/// Does something that prints, which may take as long as a reader likes.
pub fn printing<T>(print: impl FnOnce() -> T) -> T {
    IS_PRINTING.store(true, Ordering::Relaxed);
    let printed = print();
    IS_PRINTING.store(false, Ordering::Relaxed);
    printed
}

/// Whether something is being printed by [`printing`].
pub fn is_printing() -> bool {
    IS_PRINTING.load(Ordering::Relaxed)
}

/// Keeps a failure to write, so that the command ends with it.
pub fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // The first one says why.
        let _ = FAILED.set(error);
    }
}

/// Why not all of what was printed is there. To be read at the end of a command.
pub fn failure() -> Option<&'static io::Error> {
    note(io::stdout().flush());
    FAILED.get()
}

pub fn error_line(text: Arguments<'_>) {
    let _ = write_line(&mut io::stderr(), &text.to_string());
}

/// Prints a text that has colours of ours on standard error; what others chose in it is printable already.
pub fn styled_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a report, a table or a picture.
pub fn complete(text: &str) -> io::Result<()> {
    StandardOutput.write_all(text.as_bytes())
}

/// Writes a line to one of them.
pub(crate) fn write_line(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", printable_lines(text))
}

/// Standard output, for what is written piece by piece; each piece is a text.
#[derive(Debug)]
pub struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_printable(&mut io::stdout(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Writes all of a text's bytes.
pub(crate) fn write_printable(out: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let text = String::from_utf8_lossy(bytes);
    out.write_all(printable_lines(&text).as_bytes())?;
    Ok(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_holds_no_character_that_a_terminal_acts_on() {
        let mut out = Vec::new();
        write_line(&mut out, "program\x1b[2J\u{9b}m\n\tnext").unwrap();
        write_printable(&mut out, "\u{202e}\x07\n".as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "program\\x1b[2J\\u009bm\n\tnext\n\\u202e\\x07\n"
        );
    }

    #[test]
    fn a_report_stays_json_when_it_is_printed() {
        let name = "a\x1b\u{7f}\u{9b}\u{202e}\n";
        let text = serde_json::to_string(name).unwrap();
        let printed = printable_lines(&text);
        assert!(!printed.contains(is_active));
        assert_eq!(serde_json::from_str::<String>(&printed).unwrap(), name);
    }
}
