//! Patterns with `*` for any text and `?` for one character.

/// Whether a pattern matches the complete text.
pub use rules::matches_glob as matches;

/// Whether a pattern has a wildcard. A pattern without one matches only the identical text.
pub fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}
