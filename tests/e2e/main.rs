//! Whole-program tests. Each module is one promise or one family of them; read them in this order.

// The programs and the harness themselves, without the agent: is the truth that we compare with true?
mod baseline;

// The programs that models are tried on.
mod workloads;

// Profiles are exact: `tuneagent attach` counts what the program itself counted, under both MPIs.
mod attach;

// Ranks that come late and go early, namespaces, deleted files.
mod joining;

// What a rule may ask of a program: patterns, sets, spans between functions, ways to values, probes that are switched.
mod language;

// The headline: an unmodified LAMMPS becomes several times faster, by its own clock, with the same numbers.
mod lammps;

// What is written, by hand and by rules, what is put back, and what cannot be written.
mod change;

// The promises of README.md, a test for each.
mod promises;

// What each capability is for, and what goes without any.
mod rights;

// The control of a running session.
mod control;

// What works on this machine and what would change it.
mod doctor;
// Functions called and code changed by hand, and put back.
mod patch;

// Bad input: what is wrong, where, what to do, and the exit code.
mod cli;

// The published models, on running programs.
mod models;

// The fire simulator and the two rules of the 2010 thesis on it.
mod fire;

// The agent is killed at any moment: the program goes on and its result is right.
mod killed;

// The shape of the source: directions of dependencies, sizes, and where another process is written to.
mod tidy;

// What the five works ask for, and where each requirement stands.
mod sources;

// What several of the above expect of the small programs.
mod expected;
