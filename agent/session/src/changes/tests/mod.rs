//! Tables of events and effects; `vocabulary` has the functions that build them.

mod decisions;
mod ends;
mod judgements;
mod long;
mod random;
mod vocabulary;
