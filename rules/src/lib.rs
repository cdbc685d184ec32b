//! The rule language of tuneagent.
#![forbid(unsafe_code)]

mod diag;
mod lang;
mod measure;
mod unit;
