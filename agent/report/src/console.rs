//! The only module that writes to standard output and standard error. Printed texts contain names from
//! outside, so every control character except line ends and tabs is escaped ([`tuner::printable`]); our own
//! colours have a separate function.
//!
//! A reader that has closed the pipe (`| head`) is no error; a full disk is one, and makes the command fail
//! at its end ([`failure`]).

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

/// The session is blocked until the output is read.
static IS_PRINTING: AtomicBool = AtomicBool::new(false);

/// Standard output is reserved for data.
static IS_FOR_DATA: AtomicBool = AtomicBool::new(false);

/// From here on lines go to standard error: standard output is reserved for the data that [`complete`] and
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

/// Runs a function that prints, and that a slow reader may block.
pub fn printing<T>(print: impl FnOnce() -> T) -> T {
    IS_PRINTING.store(true, Ordering::Relaxed);
    let printed = print();
    IS_PRINTING.store(false, Ordering::Relaxed);
    printed
}

/// Whether [`printing`] is in progress.
pub fn is_printing() -> bool {
    IS_PRINTING.load(Ordering::Relaxed)
}

/// Records a failure to write, so that the command fails at its end.
pub fn note(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        // Only the first error is kept: it has the cause.
        let _ = FAILED.set(error);
    }
}

/// Why some output was lost. To be called at the end of a command.
pub fn failure() -> Option<&'static io::Error> {
    note(io::stdout().flush());
    FAILED.get()
}

pub fn error_line(text: Arguments<'_>) {
    let _ = write_line(&mut io::stderr(), &text.to_string());
}

/// Prints a text with our own colours to standard error; text from outside in it is already escaped.
pub fn styled_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a report, a table or a picture.
pub fn complete(text: &str) -> io::Result<()> {
    StandardOutput.write_all(text.as_bytes())
}

/// Writes an escaped line.
pub(crate) fn write_line(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", printable_lines(text))
}

/// Standard output as a writer of text in pieces; each piece must be complete UTF-8.
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

/// Writes all bytes of a text, escaped.
pub(crate) fn write_printable(out: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let text = String::from_utf8_lossy(bytes);
    out.write_all(printable_lines(&text).as_bytes())?;
    Ok(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_has_no_control_character_of_a_terminal() {
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
