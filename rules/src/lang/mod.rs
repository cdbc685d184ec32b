//! The expression language: text to tree and back. What names mean and what types they have is not known
//! here.

pub(crate) mod ast;
pub(crate) mod lexer;
pub(crate) mod parser;
mod print;
#[cfg(test)]
mod tests;
pub(crate) mod text;
