//! Tables of events and effects; `vocabulary` has the functions that build them.

mod attached;
mod command;
mod random;
mod vocabulary;
