//! The one way to standard output and standard error. What is printed holds names and texts that others chose, so every active character
//! but line ends and tabs is written by its number ([`tuner::printable`]); our own colours have a function of their own.

use std::{
    fmt::Arguments,
    io::{self, Write},
};

pub use tuner::printable::{is_active, printable, printable_bytes, printable_lines};

/// Prints a line. A reader that went away (`| head`) is no reason to fail, as it is for `println!`.
pub fn line(text: Arguments<'_>) {
    let _ = write_line(&mut io::stdout(), &text.to_string());
}

/// Prints a line on standard error.
pub fn error_line(text: Arguments<'_>) {
    let _ = write_line(&mut io::stderr(), &text.to_string());
}

/// Prints a text that has colours of ours on standard error; what others chose in it is printable already.
pub fn styled_error(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Prints a report, a table or a picture.
pub fn whole(text: &str) -> io::Result<()> {
    Output.write_all(text.as_bytes())
}

/// Writes a line to one of them.
pub fn write_line(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", printable_lines(text))
}

/// Standard output, for what is written piece by piece; each piece is a text.
#[derive(Debug)]
pub struct Output;

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_printable(&mut io::stdout(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

/// Writes all of a text's bytes.
pub fn write_printable(out: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
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
