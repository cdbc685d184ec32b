//! The command line: what users type. Every flag and command is declared here once, with its help.

mod values;

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use tuner::sync::SyncPlace;

pub use self::values::Cpus;
use self::values::{assignment, cpus, duration, period, size};
use crate::cost::Budget;

/// Attach to a running parallel program, see where its time goes, and make it faster while it runs.
#[derive(Debug, Parser)]
#[command(
    name = "tuneagent",
    version,
    max_term_width = 110,
    disable_help_subcommand = true
)]
#[command(
    after_help = "Exit codes: 0 done; 1 done, and the answer is no; 2 not understood or not there; 3 not permitted.\n\
    TARGET is any process of the program, its launcher, the program's name, or what its processes belong to: slurm:4711,\n\
    slurm:4711.0, container:3f9c."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Programs here that lose time, and why (from /proc alone, no probes, no root)
    Ps(PsArgs),
    /// Watch a running program; --apply lets rules change it
    Attach(AttachArgs),
    /// Start a command and watch it from its first instruction, with everything that it starts: tuneagent run -- mpirun -n 4 ./app
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Put back what was changed
    Undo(UndoArgs),
    /// What was changed, when, why, by whom
    Journal(JournalArgs),
    /// Sessions that run now: list, snapshot, switch, add and remove rules, stop
    #[command(subcommand)]
    Session(SessionCommand),
    /// Rules: list, show, new, check, plan, schema
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Rules on recordings: needs no program, no root, no kernel
    Replay(ReplayArgs),
    /// What an error (E0107), a finding (openmpi-busy-wait) or a change (change 1) means
    Explain {
        /// What was printed: the code of an error, the name of a finding, `change` and its number
        #[arg(required = true, num_args = 1..)]
        id: Vec<String>,
    },
    /// Functions and variables, and what can be done with them
    Symbols(SymbolsArgs),
    /// Read variables of a program
    Get(GetArgs),
    /// Write variables of a program
    Set(SetArgs),
    /// Call a function of a program once
    Call(CallArgs),
    /// Change the code of a program: every change can be taken back with undo
    Patch(PatchArgs),
    /// What works on this machine, and what would change it
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Watches for `run`, with the rights that probes need; started by it, with its orders as standard input.
    #[command(hide = true)]
    Attend(RunArgs),
    /// Waits until `run` says so, then becomes the command.
    #[command(hide = true)]
    Gate {
        /// Where it hears that.
        door: String,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// The process that writes for a session; started by the agent itself, with its socket as standard input.
    #[command(hide = true)]
    Actuator {
        /// Prepare for changes at sync points.
        #[arg(long)]
        sync: bool,
    },
}

/// How to read what the doctor says.
const DOCTOR_HELP: &str = "\
works: as it should be. lacks: a session does without, and the text says what it then cannot do. FAILS: what sessions need is not there; \
what does without still works (ps, and `attach` with what /proc tells).\n\n\
Exit codes: 0 nothing fails; 1 something does; 2 TARGET is not there.";

/// What users of `run` must know beside its flags.
const RUN_HELP: &str = "\
The command runs as you and in your environment, with your terminal, input and output; what tuneagent says goes to standard error. \
The probes come from a second process, which sudo starts where your own rights do not suffice: so never type sudo before it.\n\n\
Probes sit on the files before the command runs, in every process of this machine: other programs that use the same libraries pay \
about 1 us for each call of a probed function as long as it runs, and are not looked at.\n\n\
Exit codes: the command's own (128 + the signal that ended it); 125 it was not started; 126 it cannot be executed; 127 it is not \
there. If tuneagent is killed the command goes on unwatched.";

/// `tuneagent ps`
#[derive(Debug, Args)]
pub struct PsArgs {
    /// How long to look
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "TIME")]
    pub duration: Duration,
    /// Show every program, not only those that lose time
    #[arg(long)]
    pub all: bool,
}

/// `tuneagent attach`
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// A process of the program, its launcher, the program's name, slurm:4711 or container:3f9c; several that share CPUs are looked
    /// at together
    #[arg(required_unless_present = "pids", value_name = "TARGET")]
    pub targets: Vec<String>,
    /// The same, as gdb, strace and perf write it
    #[arg(short = 'p', long = "pid", value_name = "PID", conflicts_with = "targets")]
    pub pids: Vec<String>,
    /// What is watched, and what is done with it
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Lines instead of the live view
    #[arg(long)]
    pub plain: bool,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
    /// Attach with tracefs even where the kernel has better
    #[arg(long, hide = true)]
    pub tracefs: bool,
}

/// What a session is told, of `attach` and `run` alike.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Let rules change the program: all loaded ones, or those named. Those that change code or load libraries must be named
    #[arg(long, value_name = "RULE,...", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub apply: Option<Vec<String>>,
    /// Leave what the guard confirmed in place at the end
    #[arg(long, requires = "apply")]
    pub keep: bool,
    /// Rules to load beside the built-in ones: files, folders, names; `none` for no rule at all
    #[arg(long, value_name = "FILE|DIR|NAME", num_args = 1..)]
    pub rules: Vec<String>,
    /// Parameters of the rules
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Names of the rules as this program has them
    #[arg(long = "bind", value_name = "NAME=NAME", value_parser = assignment)]
    pub bindings: Vec<(String, String)>,
    /// Count and time the calls of these functions, without a rule: how many, their mean, a histogram
    #[arg(long, value_name = "FUNCTION", num_args = 1..)]
    pub probe: Vec<String>,
    /// End by itself after this time
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub duration: Option<Duration>,
    /// Write the report here at the end (- for standard output, %h for the host's name)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Compare with the report of another run of the same problem: how much more the ranks compute for an iteration
    #[arg(long, value_name = "REPORT")]
    pub reference: Option<String>,
    /// Record what the rules are told, to replay rules on it (%h for the host's name)
    #[arg(long, value_name = "FILE")]
    pub record: Option<String>,
    /// What else is written
    #[command(flatten)]
    pub exports: ExportArgs,
    /// What watching may cost, probes and agent together, of the job's CPU time: MPI functions that cost more are watched in windows, and
    /// what is told of them is estimated. `none` for no bound
    #[arg(long, value_name = "SHARE", default_value_t = Budget::default())]
    pub budget: Budget,
    /// CPUs that tuneagent itself runs on
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub agent_cpus: Option<Cpus>,
    /// Never sleep on these CPUs: decisions follow sooner, and a CPU is taken whole
    #[arg(long, requires = "agent_cpus")]
    pub busy_poll: bool,
    /// Serve /metrics, read-only
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "127.0.0.1:9477")]
    pub metrics: Option<SocketAddr>,
}

/// `tuneagent run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What is watched, and what is done with it
    #[command(flatten)]
    pub watch: WatchArgs,
    /// The command and its arguments, as they would be typed without tuneagent
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// What a session writes for other programs, beside its report.
#[derive(Clone, Debug, Default, Args)]
pub struct ExportArgs {
    /// Write the report as a table here at the end: a number in each row (- for standard output, %h for the host's name)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
    /// Write MPI calls and iterations here as they come, for ui.perfetto.dev or chrome://tracing (%h for the host's name)
    #[arg(long, value_name = "FILE")]
    pub trace: Option<String>,
    /// How large that file may become, about 100 bytes a call; later calls are counted
    #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = size, requires = "trace")]
    pub trace_max: u64,
    /// Write the report here again and again, each on a line of its own (%h for the host's name)
    #[arg(long, value_name = "FILE")]
    pub snapshots: Option<String>,
    /// How often that is
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period, requires = "snapshots")]
    pub every: Duration,
}

/// `tuneagent undo`
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// A process of the program, its launcher, or the program's name
    pub target: String,
    /// One change of one process, by its number in the journal; all of them without
    #[arg(conflicts_with_all = ["last", "all"])]
    pub change: Option<u64>,
    /// The newest change in force of each process, and no other
    #[arg(long)]
    pub last: bool,
    /// All of them, newest first, which is meant without as well
    #[arg(long, conflicts_with = "last")]
    pub all: bool,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// `tuneagent journal`
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// A process of the program, its launcher, or the program's name; everything without
    pub target: Option<String>,
}

/// `tuneagent session ...`
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// The sessions of yours that run here, and their rules
    List,
    /// The report of a session as it is now, as JSON
    Snapshot {
        /// The number of the session's process, or of one that it watches
        session: String,
    },
    /// Let a rule do more or less from now on
    Switch {
        /// The number of the session's process, or of one that it watches
        session: String,
        /// The rule
        rule: String,
        /// What it may do
        mode: crate::control::Mode,
    },
    /// Take one more rule in, beside those that are there
    Add(AddRuleArgs),
    /// Let go of a rule: its probes end, and what it changed is put back
    Remove {
        /// The number of the session's process, or of one that it watches
        session: String,
        /// The rule
        rule: String,
        /// Leave what it changed, until the session ends
        #[arg(long)]
        keep: bool,
    },
    /// End a session as Ctrl-C does, and wait until it has ended
    Stop {
        /// The number of the session's process, or of one that it watches
        session: String,
    },
}

/// `tuneagent session add`
#[derive(Debug, Args)]
pub struct AddRuleArgs {
    /// The number of the session's process, or of one that it watches
    pub session: String,
    /// The name of a built-in rule, or a file
    pub rule: String,
    /// What it may do
    #[arg(long, default_value = "advising")]
    pub mode: crate::control::Mode,
    /// Parameters of the rule
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Names of the rule as this program has them
    #[arg(long = "bind", value_name = "NAME=NAME", value_parser = assignment)]
    pub bindings: Vec<(String, String)>,
}

/// `tuneagent rule ...`
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// The built-in rules
    List,
    /// The text of a rule
    Show {
        /// Its name.
        name: String,
    },
    /// A rule to begin with, from the symbols of a program
    New(NewRuleArgs),
    /// Find mistakes in rule files, and show what the rules would do
    Check(CheckRuleArgs),
    /// What rules compute and where: parts they share, probes they share, kernel, node or coordinator
    Plan {
        /// Built-in rules by their names, files, folders
        #[arg(required = true)]
        rules: Vec<String>,
        /// For Graphviz
        #[arg(long)]
        dot: bool,
    },
    /// The JSON Schema of rule files, for editors: `tuneagent rule schema > rule.schema.json`
    Schema,
}

/// `tuneagent rule check`
#[derive(Debug, Args)]
pub struct CheckRuleArgs {
    /// The files, or names of built-in rules
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// A running program that they should fit: a process of it, its launcher, or its name
    #[arg(short = 'p', long, value_name = "PID")]
    pub pid: Option<String>,
    /// Parameters of the rules
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Names of the rules as this program has them
    #[arg(long = "bind", value_name = "NAME=NAME", value_parser = assignment)]
    pub bindings: Vec<(String, String)>,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// `tuneagent rule new`
#[derive(Debug, Args)]
pub struct NewRuleArgs {
    /// Its name; it is written to NAME.yaml in this folder
    pub name: String,
    /// A running program to look at: a process of it, its launcher, or its name
    #[arg(short = 'p', long, value_name = "PID", conflicts_with = "file")]
    pub pid: Option<String>,
    /// The file of a program to look at
    #[arg(long, value_name = "PROGRAM")]
    pub file: Option<PathBuf>,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// `tuneagent replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// What `attach --record` wrote; of several hosts, all of them
    #[arg(required = true, value_name = "RECORDING")]
    pub recordings: Vec<PathBuf>,
    /// Rules to load beside the built-in ones: files, folders, names; `none` for no other rule
    #[arg(long, value_name = "FILE|DIR|NAME", num_args = 1..)]
    pub rules: Vec<String>,
    /// Parameters of the rules
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = assignment)]
    pub parameters: Vec<(String, String)>,
    /// Names of the rules as this program has them
    #[arg(long = "bind", value_name = "NAME=NAME", value_parser = assignment)]
    pub bindings: Vec<(String, String)>,
    /// Show what rules would decide: all loaded ones (but none that change code or load libraries), or those named
    #[arg(long, value_name = "RULE,...", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub apply: Option<Vec<String>>,
    /// Write every metric of every window here (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
    /// Write the report of the recorded ranks here, of all hosts together (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Draw the metrics over time, with findings, decisions and verdicts as marks
    #[arg(long, value_name = "FILE")]
    pub svg: Option<String>,
}

/// `tuneagent symbols`
#[derive(Debug, Args)]
pub struct SymbolsArgs {
    /// A process of the program, the program's name, or a file
    #[arg(value_name = "TARGET|FILE")]
    pub target: String,
    /// Which: a name as the source has it, or a pattern with * and ?; without, those of the program itself
    pub pattern: Option<String>,
    /// Only functions
    #[arg(long, conflicts_with = "variables")]
    pub functions: bool,
    /// Only variables
    #[arg(long)]
    pub variables: bool,
    /// Only functions: at which instruction each is probed, and what the kernel does there, which decides the cost of a hit
    #[arg(long, conflicts_with = "variables")]
    pub sites: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// `tuneagent get`
#[derive(Debug, Args)]
pub struct GetArgs {
    /// A process of the program, its launcher, or the program's name
    pub target: String,
    /// The variables: limit, cfg.solver.chunk, `limits[2]`, `head->next`, solver.c:limit, libx.so:limit, Solver::limit
    #[arg(required = true, value_name = "VAR")]
    pub variables: Vec<String>,
    /// Every copy, where several libraries have a variable of that name
    #[arg(long)]
    pub all_copies: bool,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// `tuneagent set`
#[derive(Debug, Args)]
pub struct SetArgs {
    /// A process of the program, its launcher, or the program's name: every process of it is written
    pub target: String,
    /// What to write; VAR as for `get`
    #[arg(required = true, value_name = "VAR=VALUE", value_parser = assignment)]
    pub assignments: Vec<(String, String)>,
    /// The type, where the program has no debug information: bool, i8 ... u64, f32, f64
    #[arg(long = "type", value_name = "TYPE")]
    pub value_type: Option<String>,
    /// Every copy, where several libraries have a variable of that name
    #[arg(long)]
    pub all_copies: bool,
    /// Write when a process enters this function, or returns from it, and at no other instant
    #[arg(long, value_name = "entry:FUNCTION|return:FUNCTION")]
    pub at: Option<SyncPlace>,
    /// How long to wait for that
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "TIME", requires = "at")]
    pub within: Duration,
    /// Only this process, not the whole job
    #[arg(long)]
    pub only: bool,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// `tuneagent call`
#[derive(Debug, Args)]
pub struct CallArgs {
    /// A process of the program, its launcher, or the program's name: every process of it calls
    pub target: String,
    /// The call, as 'f(1, 2.5, "text", true)'; module:f where several files have an f
    pub call: String,
    /// What it returns, where the program has no debug information: bool, i8 ... u64, f32, f64, pointer, nothing
    #[arg(long, value_name = "TYPE")]
    pub returns: Option<String>,
    /// How long to wait for it to return, at most 8s; it is never broken off
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "TIME")]
    pub wait: Duration,
    /// Only this thread may do it; else the first that can, the main thread before others
    #[arg(long, value_name = "TID", requires = "only")]
    pub thread: Option<i32>,
    /// Only this process, not the whole job
    #[arg(long)]
    pub only: bool,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// `tuneagent patch`
#[derive(Debug, Args)]
pub struct PatchArgs {
    /// A process of the program, its launcher, or the program's name: every process of it is changed
    pub target: String,
    /// What to change
    #[command(subcommand)]
    pub change: PatchCommand,
    /// Only this process, not the whole job
    #[arg(long, global = true)]
    pub only: bool,
    /// Also programs of other users
    #[arg(long, global = true)]
    pub any_user: bool,
}

/// `tuneagent patch TARGET ...`
#[derive(Debug, Subcommand)]
pub enum PatchCommand {
    /// Every call of FUNCTION goes to WITH, which must take and return the same
    Replace {
        /// The function.
        function: String,
        /// The other one.
        with: String,
    },
    /// CALL, as 'f(1, 2.5)', whenever FUNCTION is entered (or returns)
    Insert {
        /// What is called; constants are passed.
        call: String,
        /// Where.
        function: String,
        /// At its returns, not at its entry
        #[arg(long = "return")]
        at_return: bool,
    },
    /// Calls of FUNCTION are left out, everywhere or in one function
    Remove {
        /// The function.
        function: String,
        /// Only calls in this function
        #[arg(long = "in", value_name = "FUNCTION")]
        within: Option<String>,
    },
    /// An argument becomes VALUE before the function's body runs: numbers, `original`, + - * /, min max clamp
    Argument {
        /// As 'f(1)': argument 1, counted from 0.
        argument: String,
        /// As 'min(original, 64KiB)'.
        value: String,
        /// Its type, where the program has no debug information: bool, i8 ... u64, f32, f64
        #[arg(long = "type", value_name = "TYPE")]
        value_type: Option<String>,
    },
    /// Load a shared library
    Load {
        /// Its file.
        path: PathBuf,
    },
    /// Bind all threads to CPUs
    Affinity {
        /// As '0-3,8'.
        cpus: String,
    },
}

/// `tuneagent doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also look at this program
    pub target: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn apply_takes_rules_or_none() {
        let apply =
            |arguments: &[&str]| match Cli::try_parse_from([&["tuneagent", "attach"], arguments].concat()) {
                Ok(Cli {
                    command: Command::Attach(attach),
                }) => attach.watch.apply,
                other => panic!("{other:?}"),
            };
        assert_eq!(apply(&["1"]), None);
        assert_eq!(apply(&["1", "--apply"]), Some(vec![]));
        assert_eq!(apply(&["--apply=a,b", "1"]), Some(vec!["a".into(), "b".into()]));
        assert_eq!(apply(&["--apply", "-p", "1", "--keep"]), Some(vec![]));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5min"), Ok(Duration::from_secs(90)));
        assert!(duration("soon").is_err() && duration("3 weeks").is_err() && duration("").is_err());
        assert!(period("0").is_err() && period("99ms").is_err() && period("100ms").is_ok());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("512"), Ok(512));
        assert_eq!(size("1.5KiB"), Ok(1536));
        assert_eq!(size("2GB"), Ok(2_000_000_000));
        assert!(size("much").is_err() && size("3 MiB").is_err() && size("").is_err());
    }
}
