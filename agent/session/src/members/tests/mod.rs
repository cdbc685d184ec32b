//! Tables of events and effects; the words of which they are made are in `vocabulary`.

mod attached;
mod command;
mod random;
mod vocabulary;
