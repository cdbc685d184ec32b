//! Whole-program tests. Each module tests one promise or a group of them, in reading order.

/// Asserts that a text contains all these parts; shows the text and the first missing part.
macro_rules! assert_has {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(text.contains($part), "{:?} is not in:\n{text}", $part);)+
    }};
}

// Exact profiles: `tuneagent attach` counts what the program counts, under both MPIs.
mod attach;

// Sizes and partners of messages, compared with an independent count, for all language bindings and real
// programs.
mod truth;

// Detected loops, time within iterations, and call sites of MPI.
mod iterations;

// Parallel regions, their teams, and the cost of probing them.
mod openmp;

// How OpenMP programs scale: speedup and lost threads.
mod scaling;

// Rules on the detected loop.
mod detected;

// Aggregation in the kernel, compared with the programs' own counts.
mod aggregates;

// Ranks that start late or end early, namespaces, deleted files.
mod joining;

// Processes that cannot be probed.
mod refused;

// Jobs of a real Slurm, whose nodes each see a part of a job.
mod slurm;

// A job on two machines, seen as one.
mod nodes;

// Kinds of programs: without symbols, with MPI linked statically, in containers, and after exec.
mod inputs;

// What new users see.
mod first_hour;

// Frequent typing mistakes.
mod mistakes;

// Names and files chosen by other users.
mod foreign;

// Programs whose code was overwritten in memory.
mod overwritten;

// Other tools on the same job, and the first output.
mod coexist;

// Features of rules: patterns, sets, spans between functions, paths to values, probes that are switched.
mod language;

// Commands watched from their first instruction.
mod run;

// Marks of `include/tuneagent.h` and of other tools, in programs and libraries.
mod marks;

// Every shipped rule on a program with a known result.
mod shapes;
mod shipped;

// The host part of a GPU program, with a stub of CUDA's library.
mod gpu;

// Contracts of running pipelines.
mod contract_acts;
mod contracts;

// The commands of docs/guide.md and docs/prepare.md.
mod guide;

// Pages for contributors: named files, links, lengths.
mod guidance;

// Words in texts for users.
mod words;

// The time that is left of real programs.
mod remaining;

// An unmodified LAMMPS becomes several times faster by its own clock, with the same numbers.
mod lammps;

// The run-time rules: unprepared programs become faster, with the same results.
mod runtime;

// Several copies of a runtime in one process, as Python wheels bring them.
mod copies;

// Changes by commands and by rules, their revert, and refused writes.
mod change;

// Tests named after the promises of README.md.
mod promises;

// Callbacks of MPI that do not return to it.
mod leaving;

// The use of each capability, and sessions without any.
mod rights;

// Files that a session writes for other programs.
mod exports;

// Traces of calls.
mod traces;

// The HTML page in a browser.
mod web;

// Session logs, for bug reports.
mod session_logs;

// Control of a running session.
mod control;

// The live view on a terminal.
mod screens;

// The shipped files for Prometheus and Grafana, with a real Prometheus.
mod dashboards;

// Rules that are added and removed during a session.
mod live;

// The cost of rules for the program.
mod cost;

// The budget for watching.
mod budget;

// The agent's resource use while nothing happens.
mod idle;

// Checks of this machine, with commands that fix them.
mod doctor;
// Calls and code changes by commands, and their revert.
mod patch;

// All actions of rules.
mod actions;

// Team sizes and CPU binding, changed by rules.
mod teams;

// Errors for invalid input, and exit codes.
mod cli;

// Published models on running programs.
mod models;

// The guard on running programs: wrong decisions are reverted, right ones are kept.
mod guarded;

// Pending changes in stopped programs, and processes that end meanwhile.
mod standing;

// The end of a session, and output that could not be written.
mod ending;

// The fire simulator with the two rules of the 2010 thesis.
mod fire;

// A ring of ranks that exchange boundaries, and the rule that sets the boundary width.
mod halo;

// SIGKILL during every kind of change: journal and memory agree, and the next start reverts the change.
mod kills;

// Many sessions on one program, and one long session: no leaks.
mod lasting;

// Many processes, many threads, few descriptors.
mod limits;

// Programs that jump, throw, fork, unload and filter: each behaves the same watched, changed and reverted as
// alone.
mod hostile;

// Structure of the source: sizes, and where unsafe code and writes may be.
mod tidy;

// Allowed dependencies between crates and modules.
mod arrows;

// What the pure crates depend on.
mod pure;

// Requirements of five published works, and their status.
mod sources;

// Expected output of the test programs, shared by other modules.
mod expected;
