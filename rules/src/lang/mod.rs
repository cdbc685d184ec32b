//! The expression language: text to tree and back. Names and types are resolved in `check`.

pub(crate) mod ast;
pub(crate) mod lexer;
pub(crate) mod parser;
mod print;
#[cfg(test)]
mod tests;
pub(crate) mod text;
