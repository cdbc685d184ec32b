//! Patterns with `*` for any text and `?` for one character.

/// Whether a pattern fits all of a text.
pub use rules::fits as matches;

/// Whether a pattern has one of both; else it fits the text that it is, and no other.
pub fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}
