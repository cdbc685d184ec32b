//! Tables of events and effects; the words of which they are made are in `vocabulary`.

mod decisions;
mod ends;
mod judgements;
mod long;
mod random;
mod vocabulary;
