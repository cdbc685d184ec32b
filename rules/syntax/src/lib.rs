//! The text of tuneagent's files, rules and contracts: YAML whose values know their places, formulas as trees,
//! units, and diagnostics with places.
//!
//! ```text
//! text ── yaml::read ──▶ Tree ── Fields ──▶ Text ── parse ──▶ Expr
//! ```
//! It does not know what a key, a name or a function means: [`mod@keys`] has the form of a table of keys, and each kind of
//! file its own table. Names and types are resolved by the crates `rules` and `contract`.
#![forbid(unsafe_code)]

pub mod ast;
pub mod diag;
pub mod fields;
pub mod json;
pub mod keys;
pub mod lexer;
pub mod parser;
mod print;
pub mod quantity;
pub mod schema;
pub mod template;
#[cfg(test)]
mod tests;
pub mod text;
pub mod unit;
pub mod yaml;
