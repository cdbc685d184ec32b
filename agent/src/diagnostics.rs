//! Shows errors in a rule file: file, line and column, the text underlined, and a fix. The file may come from
//! anybody, so control characters are replaced.

use std::{borrow::Cow, io::IsTerminal};

use ariadne::{Config, IndexType, Label, Report, ReportKind, Source};
use rules::{Diagnostic, Severity};

use report::console::{self, is_active, printable, printable_lines};

/// All diagnostics of one file, as text.
pub(crate) fn render(name: &str, text: &str, diagnostics: &[Diagnostic]) -> String {
    rendered(name, text, diagnostics, false)
}

/// Prints all diagnostics of one file to standard error; in colour on a terminal.
pub(crate) fn print(name: &str, text: &str, diagnostics: &[Diagnostic]) {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    console::styled_error(&rendered(name, text, diagnostics, colour));
}

fn rendered(name: &str, text: &str, diagnostics: &[Diagnostic], colour: bool) -> String {
    let mut out = Vec::new();
    let (name, text) = (&*printable(name), &*shown(text));
    let source = Source::from(text);
    for diagnostic in diagnostics {
        let kind = match diagnostic.severity {
            Severity::Error => ReportKind::Error,
            Severity::Warning => ReportKind::Warning,
        };
        let place = diagnostic
            .labels
            .first()
            .map_or(0..0, |(span, _)| span.start..span.end);
        let config = Config::default()
            .with_index_type(IndexType::Byte)
            .with_color(colour);
        let mut report = Report::build(kind, (name, place))
            .with_config(config)
            .with_code(diagnostic.code)
            .with_message(printable_lines(&diagnostic.message));
        for (span, remark) in &diagnostic.labels {
            let label = Label::new((name, span.start..span.end));
            report = report.with_label(if remark.is_empty() {
                label.with_message("here")
            } else {
                label.with_message(printable_lines(remark))
            });
        }
        if let Some(help) = &diagnostic.help {
            report = report.with_help(printable_lines(help));
        }
        // Writing into memory does not fail.
        let _ = report.finish().write((name, &source), &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The text of the file in which every control character is replaced by a text of the same length in bytes,
/// so that positions stay valid.
fn shown(text: &str) -> Cow<'_, str> {
    let is_replaced = |c: char| !matches!(c, '\n' | '\r' | '\t') && is_active(c);
    if !text.contains(is_replaced) && !text.replace("\r\n", "").contains('\r') {
        return Cow::Borrowed(text);
    }
    let next = text.chars().skip(1).chain(['\0']);
    let replaced = text.chars().zip(next).map(|(c, next)| match c.len_utf8() {
        _ if c == '\r' && next == '\n' => c,
        1 if is_replaced(c) || c == '\r' => '?',
        2 if is_replaced(c) => '\u{bf}',
        3 if is_replaced(c) => '\u{fffd}',
        _ => c,
    });
    Cow::Owned(replaced.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_file_cannot_speak_to_the_terminal() {
        let text = "rule: \x1b[2J\u{9b}31m\u{202e}\r\nnext: \r\x07\n";
        let seen = shown(text);
        assert_eq!(seen, "rule: ?[2J\u{bf}31m\u{fffd}\r\nnext: ??\n");
        assert_eq!(seen.len(), text.len());
        let wrong = rules::RuleFile::parse(text)
            .map(drop)
            .expect_err("it is not a rule");
        let rendered = render("evil\x1b\n.yaml", text, &wrong);
        assert!(rendered.contains("evil\\x1b\\x0a.yaml"), "{rendered}");
        let is_active = |c: char| c != '\n' && c != '\r' && is_active(c);
        assert!(!rendered.contains(is_active), "{rendered:?}");
    }
}
