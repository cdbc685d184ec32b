//! Diagnostics as plain data: the error, its place, and its remedy.
//!
//! Nothing is printed here: the agent renders a [`Diagnostic`] in colour, [`render`] in plain text. Every
//! code has its page in the crate `rules`.

use std::cmp::Reverse;
use std::fmt::Write as _;

/// A half-open range of bytes, `start..end`, in the text of a rule file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The range `start..end`; an `end` before `start` gives an empty range at `start`.
    pub fn new(start: usize, end: usize) -> Span {
        Span {
            start,
            end: end.max(start),
        }
    }

    /// The smallest range that covers both.
    pub fn to(self, other: Span) -> Span {
        Span {
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// Whether the rule can be used in spite of the diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The rule cannot run.
    Error,
    /// The rule can run; its author should check it.
    Warning,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code such as `E0107`; `rules::explain` has its page.
    pub code: &'static str,
    /// Whether the rule can run in spite of it.
    pub severity: Severity,
    /// One sentence, lower case, without a full stop.
    pub message: String,
    /// Places in the file, the most important first, each with a possibly empty remark.
    pub labels: Vec<(Span, String)>,
    pub help: Option<String>,
}

impl Diagnostic {
    pub fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity: Severity::Error,
            message: message.into(),
            labels: Vec::new(),
            help: None,
        }
    }

    /// An error at one place, without a remark.
    pub fn wrong(code: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic::error(code, message).at(span, "")
    }

    pub fn warning(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            ..Diagnostic::error(code, message)
        }
    }

    pub fn at(mut self, span: Span, remark: impl Into<String>) -> Diagnostic {
        self.labels.push((span, remark.into()));
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }

    pub fn help_if(self, help: Option<String>) -> Diagnostic {
        Diagnostic {
            help: help.or(self.help.clone()),
            ..self
        }
    }
}

/// Whether any of `diagnostics` keeps the rule from running.
pub fn has_errors(diagnostics: &[Diagnostic]) -> bool {
    diagnostics.iter().any(|d| d.severity == Severity::Error)
}

/// Line and column, both from 1, of byte `offset` in `source`; columns count characters.
pub fn line_column(source: &str, offset: usize) -> (usize, usize) {
    let before = source.get(..offset.min(source.len())).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// `diagnostics` as plain text, one paragraph each: code, message, place, the underlined line, help.
///
/// `name` is the displayed name of the file.
pub fn render(name: &str, source: &str, diagnostics: &[Diagnostic]) -> String {
    let mut out = String::new();
    for diagnostic in diagnostics {
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let _ = writeln!(out, "{severity}[{}]: {}", diagnostic.code, diagnostic.message);
        for (span, remark) in &diagnostic.labels {
            render_label(&mut out, name, source, *span, remark);
        }
        if let Some(help) = &diagnostic.help {
            let _ = writeln!(out, "  help: {help}");
        }
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    out
}

fn render_label(out: &mut String, name: &str, source: &str, span: Span, remark: &str) {
    let (line, column) = line_column(source, span.start);
    let text = source.lines().nth(line - 1).unwrap_or("");
    let width = source.get(span.start..span.end).map_or(1, |covered| {
        covered.lines().next().unwrap_or("").chars().count().max(1)
    });
    let _ = writeln!(out, "  --> {name}:{line}:{column}");
    let _ = writeln!(out, "{line:>4} | {text}");
    let under = format!("     | {}{} {remark}", " ".repeat(column - 1), "^".repeat(width));
    let _ = writeln!(out, "{}", under.trim_end());
}

/// "did you mean `x`?" for the candidate nearest to `word`, if there is one.
pub fn did_you_mean<S: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = S>) -> Option<String> {
    nearest(word, candidates).map(|near| format!("did you mean `{}`?", near.as_ref()))
}

/// What to write instead of `word`: "did you mean `x`?", or all candidates if none is near and they are few.
pub fn names_help<S: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = S>) -> Option<String> {
    let candidates: Vec<S> = candidates.into_iter().collect();
    let names: Vec<&str> = candidates.iter().map(AsRef::as_ref).collect();
    let near = did_you_mean(word, names.iter().copied());
    // Of `window.length`: what the window has.
    let part = word.rsplit_once('.').map(|(before, _)| format!("{before}."));
    let of_part = |name: &&str| part.as_ref().is_some_and(|part| name.starts_with(part));
    let parts: Vec<&str> = names.iter().copied().filter(of_part).collect();
    let listed = if parts.is_empty() { names } else { parts };
    let is_list = (1..=LISTED_MAX).contains(&listed.len());
    near.or_else(|| is_list.then(|| format!("known: {}", listed.join(", "))))
}

/// So many names are listed where none is near.
const LISTED_MAX: usize = 12;

/// The candidate nearest to `word`, if it is near enough to be a typing error; of equally near ones that with the
/// most letters in common at the begin, and then the first.
pub fn nearest<S: AsRef<str>>(word: &str, candidates: impl IntoIterator<Item = S>) -> Option<S> {
    let typed = compared(word);
    let letters = typed.chars().count();
    let allowed = 1 + letters.saturating_sub(2) / 4;
    let near = |candidate: &S| {
        let candidate = compared(candidate.as_ref());
        let length = candidate.chars().count();
        // The first letters of a name: `find` of `finding`.
        if letters >= SHORT && length <= 2 * letters && candidate.starts_with(&typed) {
            return Some((allowed, Reverse(letters)));
        }
        // Cheap for the many symbols of a program: the distance is at least the difference in length.
        let is_near = length.abs_diff(letters) <= allowed;
        let distance = is_near.then(|| strsim::osa_distance(&typed, &candidate))?;
        let pairs = typed.chars().zip(candidate.chars());
        let common = pairs.take_while(|(typed, other)| typed == other).count();
        // Every name of one letter is near to every other. Of a short one the first letter is rarely mistyped.
        let is_slip = distance < length && (common > 0 || letters.min(length) > SHORT);
        (distance <= allowed && is_slip).then_some((distance, Reverse(common)))
    };
    let rated = candidates.into_iter();
    let rated = rated.filter_map(|candidate| Some((near(&candidate)?, candidate)));
    rated
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, candidate)| candidate)
}

/// Words of so many letters are other words if the first letter differs: `work` is no mistyped `fork`.
const SHORT: usize = 4;

/// Letters of a word that are compared; the time grows with their square.
const COMPARED_MAX: usize = 64;

/// The letters that are compared, whatever their case.
fn compared(word: &str) -> String {
    word.to_lowercase().chars().take(COMPARED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_gets_a_suggestion_and_another_word_gets_none() {
        let names = ["metrics", "roles", "windows"];
        assert_eq!(
            did_you_mean("swep", ["step", "sweep"]),
            Some("did you mean `sweep`?".into())
        );
        assert_eq!(
            did_you_mean("metircs", names),
            Some("did you mean `metrics`?".into())
        );
        assert_eq!(did_you_mean("Role", names), Some("did you mean `roles`?".into()));
        assert_eq!(did_you_mean("latency", names), None);
        assert_eq!(did_you_mean("x", ["y"]), None);
        assert_eq!(did_you_mean("work", ["fork", "warn"]), None);
        assert_eq!(
            did_you_mean("find", ["for", "finding"]),
            Some("did you mean `finding`?".into())
        );
    }

    #[test]
    fn where_no_name_is_near_the_few_that_there_are_get_listed() {
        let help = |word, names: &[&str]| names_help(word, names);
        assert_eq!(
            help("swep", &["step", "sweep"]),
            Some("did you mean `sweep`?".into())
        );
        assert_eq!(
            help("latency", &["step", "sweep"]),
            Some("known: step, sweep".into())
        );
        assert_eq!(help("latency", &[]), None);
        let mut many = vec!["x"; LISTED_MAX + 1];
        assert_eq!(help("latency", &many), None);
        many.extend(["pulse.duration", "pulse.index"]);
        assert_eq!(
            help("pulse.latency", &many),
            Some("known: pulse.duration, pulse.index".into())
        );
    }

    #[test]
    fn columns_count_characters_and_not_bytes() {
        assert_eq!(line_column("a\nλx", 4), (2, 2));
        assert_eq!(line_column("a", 99), (1, 2));
    }
}
