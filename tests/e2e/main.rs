//! Whole-program tests. Each module is one promise or one family of them; read them in this order.

/// A text has all of these parts; else it is shown with the first that it lacks.
macro_rules! assert_has {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let text = &$text;
        $(assert!(text.contains($part), "{:?} is not in:\n{text}", $part);)+
    }};
}

// Profiles are exact: `tuneagent attach` counts what the program itself counted, under both MPIs.
mod attach;

// What calls carry and to whom, against an independent count, for every binding of the language and real programs.
mod truth;

// The loop of a program found by itself, how its time is spent over whole iterations, and where it calls MPI.
mod iterations;

// Parallel regions, what their teams do, and what that costs.
mod openmp;

// What is aggregated in the kernel, against what programs count themselves.
mod aggregates;

// Ranks that come late and go early, namespaces, deleted files.
mod joining;

// Those of them that cannot be probed.
mod refused;

// Jobs of a real Slurm, over nodes that see a part of them.
mod slurm;

// Programs as they come: without symbols, with MPI linked in, in containers, and those that become another one.
mod inputs;

// What a user meets first.
mod first_hour;

// What everybody mistypes once.
mod mistakes;

// Names and files that other users chose.
mod foreign;

// Programs whose code was overwritten in memory.
mod overwritten;

// Beside other tools, and how soon there is something to see.
mod coexist;

// What a rule may ask of a program: patterns, sets, spans between functions, ways to values, probes that are switched.
mod language;

// Commands that are watched from their first instruction on.
mod run;

// Marks of `include/tuneagent.h` and of others, in programs and libraries.
mod marks;

// Every shipped rule on a program whose answer is known.
mod shipped;

// The host of a GPU, on a library that stands for CUDA's.
mod gpu;

// What docs/guide.md and docs/prepare.md tell users to do, done.
mod guide;

// The pages for contributors: the files that they name, their links and lengths.
mod guidance;

// The words of what users read.
mod words;

// The headline: an unmodified LAMMPS becomes several times faster, by its own clock, with the same numbers.
mod lammps;

// The run-time rules: programs that nobody prepared become faster, with the same results.
mod runtime;

// What is written, by hand and by rules, what is put back, and what cannot be written.
mod change;

// The promises of README.md, a test for each.
mod promises;

// Calls of MPI that user code leaves in other ways than by returning.
mod leaving;

// What each capability is for, and what goes without any.
mod rights;

// What a session writes for other programs.
mod exports;

// The page in a browser.
mod web;

// The log of a session, for bug reports.
mod session_logs;

// The control of a running session.
mod control;

// The live view on a terminal.
mod screens;

// What is shipped for Prometheus and Grafana, with a real Prometheus.
mod dashboards;

// Rules that come and go while a session runs.
mod live;

// What rules cost the program.
mod cost;

// What watching may cost, and that it is kept to.
mod budget;

// What the agent takes of the machine while nothing happens.
mod idle;

// What works on this machine and what would change it.
mod doctor;
// Functions called and code changed by hand, and put back.
mod patch;

// The same by rules, with everything else that rules can do to a program.
mod actions;

// Where threads and processes run, and how many there are, changed by rules.
mod teams;

// Bad input: what is wrong, where, what to do, and the exit code.
mod cli;

// The published models, on running programs.
mod models;

// The guard in the loop: wrong decisions are undone, right ones are not.
mod guarded;

// Changes that wait in programs that stand still, and processes that end meanwhile.
mod standing;

// In which order a session ends, and what is said of output that could not be written.
mod ending;

// The fire simulator and the two rules of the 2010 thesis on it.
mod fire;

// The ring of ranks that exchange borders, and the rule that says how wide they are.
mod halo;

// The agent is killed in the middle of every kind of change: the journal says what the memory says, and the next start takes it back.
mod kills;

// The same program watched again and again, and for long: nothing is left, nothing grows.
mod lasting;

// Many processes, many threads, few descriptors.
mod limits;

// Programs that jump, throw, fork, unload and filter: each is the same watched, changed and put back as it is alone.
mod hostile;

// The shape of the source: directions of dependencies, sizes, and where another process is written to.
mod tidy;

// The allowed arrows between the top modules of a crate.
mod arrows;

// What the five works ask for, and where each requirement stands.
mod sources;

// What several of the above expect of the small programs.
mod expected;
