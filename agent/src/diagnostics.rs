//! Shows what is wrong with a rule file: file, line and column, the text underlined, what to do.

use std::io::IsTerminal;

use ariadne::{Config, IndexType, Label, Report, ReportKind, Source};
use rules::{Diagnostic, Severity};

/// All diagnostics of one file, as text; in colour on a terminal.
pub fn render(name: &str, text: &str, diagnostics: &[Diagnostic]) -> String {
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let source = Source::from(text);
    let mut out = Vec::new();
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
            .with_message(&diagnostic.message);
        for (span, remark) in &diagnostic.labels {
            let label = Label::new((name, span.start..span.end));
            report = report.with_label(if remark.is_empty() {
                label.with_message("here")
            } else {
                label.with_message(remark)
            });
        }
        if let Some(help) = &diagnostic.help {
            report = report.with_help(help);
        }
        // Writing into memory does not fail.
        let _ = report.finish().write((name, &source), &mut out);
    }
    String::from_utf8_lossy(&out).into_owned()
}
