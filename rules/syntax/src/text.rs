//! A scalar of the file with the place of each of its characters, so that columns in formulas are columns in
//! the file.

use crate::diag::Span;

/// The text of a scalar with its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    pub raw: String,
    /// The complete scalar, quotes included.
    pub span: Span,
    /// Offset in the file for each byte of `raw`; empty if the text was escaped and only the scalar is known.
    places: Vec<usize>,
}

impl Text {
    /// `raw` as it appears in `source` at `span`, with the place of every byte.
    ///
    /// Folding and indentation drop white space, escapes replace characters: white space that is missing in
    /// the value is skipped; at any other difference the places are discarded.
    pub fn locate(raw: &str, source: &str, span: Span, content: usize) -> Text {
        let places = align(raw, source, content, span.end).unwrap_or_default();
        Text {
            raw: raw.to_string(),
            span,
            places,
        }
    }

    /// A text that is not in a file, such as an override on the command line; errors point at `span`.
    pub fn elsewhere(raw: &str, span: Span) -> Text {
        Text {
            raw: raw.to_string(),
            span,
            places: Vec::new(),
        }
    }

    /// Its prefix `raw`, with the place of every byte.
    pub fn beginning(&self, raw: &str) -> Text {
        Text {
            raw: raw.to_string(),
            span: self.span,
            places: self.places.iter().take(raw.len()).copied().collect(),
        }
    }

    /// The place in the file of the bytes `start..end` of the text.
    pub fn place(&self, start: usize, end: usize) -> Span {
        if self.places.is_empty() {
            return self.span;
        }
        let at = |i: usize| self.places.get(i).copied();
        let after_last = self.places.last().map_or(self.span.end, |last| last + 1);
        let first = at(start).unwrap_or(after_last);
        let last = end.checked_sub(1).and_then(at).map_or(first, |last| last + 1);
        Span::new(first, last)
    }

    /// The bytes `start..end` as a separate text.
    pub fn part(&self, start: usize, end: usize) -> Text {
        let raw = self.raw.get(start..end).unwrap_or("").to_string();
        let places = self.places.get(start..end).unwrap_or(&[]).to_vec();
        let span = if self.places.is_empty() {
            self.span
        } else {
            self.place(start, end)
        };
        Text { raw, span, places }
    }
}

fn align(raw: &str, source: &str, content: usize, end: usize) -> Option<Vec<usize>> {
    let mut places = Vec::with_capacity(raw.len());
    let mut at = content;
    for wanted in raw.chars() {
        loop {
            match source.get(at..end).and_then(|rest| rest.chars().next()) {
                Some(found) if found == wanted => break,
                Some(found) if found.is_whitespace() => at += found.len_utf8(),
                // The last line break of a block may lie after the end of the scalar.
                None if wanted.is_whitespace() => break,
                _ => return None,
            }
        }
        places.extend((0..wanted.len_utf8()).map(|i| at + i));
        at = (at + wanted.len_utf8()).min(end.max(at));
    }
    Some(places)
}
