//! Makes untrusted texts safe for a terminal. A name of a program, a file or a symbol may contain anything:
//! sequences that clear the screen or set its title, line ends that forge lines of our output, characters
//! that reverse the order of others.
//!
//! Names of processes and files are made printable where they are read, so that no message can omit it. A
//! name that is used for look-up (a path) stays unchanged, and is made printable where it is printed.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::PathBuf;

/// Whether a character has another effect than appearing at its place.
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            // Directions of writing, and the two separators that some terminals take for line ends.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// A text in one line, with every active character as its number: `\x1b`, `\u202e`.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, is_active)
}

/// As [`printable`], but keeps line ends and tabs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| !matches!(c, '\n' | '\t') && is_active(c))
}

/// Bytes that should be a text.
pub fn printable_bytes(bytes: &[u8]) -> String {
    match String::from_utf8_lossy(bytes) {
        Cow::Borrowed(text) => printable(text).into_owned(),
        Cow::Owned(text) => printable_owned(text),
    }
}

/// A path that is only shown.
pub(crate) fn printable_path(path: PathBuf) -> PathBuf {
    match printable(&path.to_string_lossy()) {
        Cow::Borrowed(_) => path,
        Cow::Owned(text) => PathBuf::from(text),
    }
}

/// A text that is nearly always printable.
pub(crate) fn printable_owned(text: String) -> String {
    match printable(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(text) => text,
    }
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    // Fast path: nearly all names are plain ASCII, and a program may have a million of them.
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain || !text.chars().any(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        let number = u32::from(c);
        // Writing to memory does not fail. Numbers of four digits have the syntax of JSON, so that JSON stays
        // valid.
        let _ = match (is_escaped(c), number) {
            (false, _) => out.write_char(c),
            (true, ..0x20) => write!(out, "\\x{number:02x}"),
            (true, _) => write!(out, "\\u{number:04x}"),
        };
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_shown_by_their_numbers() {
        let cases = [
            ("lmp_mpi (größer)", "lmp_mpi (größer)"),
            ("a\x1b[2Jb", "a\\x1b[2Jb"),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("one\ntwo\tthree\r", "one\\x0atwo\\x09three\\x0d"),
            ("\u{9b}31m\u{7f}", "\\u009b31m\\u007f"),
            ("abc\u{202e}fed\u{2066}", "abc\\u202efed\\u2066"),
        ];
        for (text, expected) in cases {
            assert_eq!(printable(text), expected);
        }
        assert_eq!(printable_lines("one\n\ttwo\x1b"), "one\n\ttwo\\x1b");
        assert_eq!(printable_bytes(b"a\xff\x1b"), "a\u{fffd}\\x1b");
    }

    proptest! {
        #[test]
        fn nothing_active_is_left(text in "\\PC*|(?s).*") {
            let once = printable(&text);
            prop_assert!(!once.chars().any(is_active));
            prop_assert_eq!(printable(&once), &*once);
            let lines = printable_lines(&text);
            prop_assert!(!lines.chars().any(|c| is_active(c) && c != '\n' && c != '\t'));
        }
    }
}
