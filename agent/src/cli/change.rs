//! Arguments of the commands for reading and changing by hand, `symbols`, `get`, `set`, `call`, `patch`, and
//! for the changes made so far, `undo` and `journal`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use plan::{CpuList, Literal, SyncPoint};

use super::UserArgs;
use super::values::{duration, variable_assignment};

/// `tuneagent symbols`
#[derive(Debug, Args)]
pub struct SymbolsArgs {
    /// A process of the program, the program's name, or a file: its path, or its name if no program of that
    /// name runs
    #[arg(value_name = "TARGET|FILE")]
    pub target: String,
    /// Names as in the source, or patterns with * and ?; by default all of the program's own
    pub pattern: Option<String>,
    /// Only functions
    #[arg(long, conflicts_with = "variables")]
    pub functions: bool,
    /// Only variables
    #[arg(long)]
    pub variables: bool,
    /// Only functions: at which instruction each is probed, and what the kernel does there, which decides the
    /// cost of a hit
    #[arg(long, conflicts_with = "variables")]
    pub sites: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
}

/// `tuneagent get`
#[derive(Debug, Args)]
pub struct GetArgs {
    /// A process of the program, its launcher, or the program's name
    pub target: String,
    /// The variables: limit, cfg.solver.chunk, `limits[2]`, `head->next`, solver.c:limit, libx.so:limit,
    /// Solver::limit
    #[arg(required = true, value_name = "VAR")]
    pub variables: Vec<String>,
    /// Every copy, where several libraries have a variable of that name
    #[arg(long)]
    pub all_copies: bool,
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
}

/// `tuneagent set`
#[derive(Debug, Args)]
pub struct SetArgs {
    /// A process of the program, its launcher, or the program's name: every process of it is written. The ranks
    /// of an MPI job get the value at different iterations: set no variable that decides whether they communicate
    pub target: String,
    /// What to write; VAR as for `get`. Several are all checked before the first is written
    #[arg(required = true, value_name = "VAR=VALUE", value_parser = variable_assignment)]
    pub assignments: Vec<(String, Literal)>,
    /// The type, where the program has no debug information: bool, i8 ... u64, f32, f64
    #[arg(long = "type", value_name = "TYPE")]
    pub value_type: Option<String>,
    /// Every copy, where several libraries have a variable of that name
    #[arg(long)]
    pub all_copies: bool,
    /// Write when a process enters this function, or returns from it, and at no other instant
    #[arg(long, value_name = "entry:FUNCTION|return:FUNCTION")]
    pub at: Option<SyncPoint>,
    /// How long to wait for that: 500ms, 10s, 2min or 1h; a bare number is seconds
    #[arg(long, default_value = "60s", value_parser = duration, value_name = "TIME", requires = "at")]
    pub within: Duration,
    /// Only this process, not all of the job
    #[arg(long)]
    pub only: bool,
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
}

/// `tuneagent call`
#[derive(Debug, Args)]
pub struct CallArgs {
    /// A process of the program, its launcher, or the program's name: every process of it calls
    pub target: String,
    /// The call, as 'f(1, 2.5, "text", true)'; module:f where several files have an f
    #[arg(required = true, num_args = 1..)]
    pub call: Vec<String>,
    /// The call that `undo` makes to take it back, by the same thread: 'set_level(was)'. Without it the call
    /// stays
    #[arg(long, value_name = "CALL")]
    pub inverse: Option<String>,
    /// Called first, by the same thread; its result is `was` in the inverse: 'level()'
    #[arg(long, value_name = "CALL", requires = "inverse")]
    pub was: Option<String>,
    /// What it returns, where the program has no debug information: bool, i8 ... u64, f32, f64, pointer,
    /// nothing
    #[arg(long, value_name = "TYPE")]
    pub returns: Option<String>,
    /// How long to wait for it to return: 500ms or 5s, at most 8s; it is never interrupted
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "TIME")]
    pub wait: Duration,
    /// The thread that makes the call; by default the first that can, the main thread before others
    #[arg(long, value_name = "TID", requires = "only")]
    pub thread: Option<i32>,
    /// Also where the program has a seccomp filter that kills at some system calls, or that cannot be read:
    /// the function may make one
    #[arg(long)]
    pub despite_seccomp: bool,
    /// Only this process, not all of the job
    #[arg(long)]
    pub only: bool,
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
}

/// `tuneagent patch`
#[derive(Debug, Args)]
pub struct PatchArgs {
    /// A process of the program, its launcher, or the program's name: every process of it is changed
    pub target: String,
    /// What to change
    #[command(subcommand)]
    pub change: PatchCommand,
    /// Insert and load also where the program has a seccomp filter that kills at some system calls, or that
    /// cannot be read
    #[arg(long, global = true)]
    pub despite_seccomp: bool,
    /// Only this process, not all of the job
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
    /// Make CALL, as 'f(1, 2.5)', whenever FUNCTION is entered (or returns)
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
    /// Set an argument to VALUE before the function's body runs (numbers, `original`, + - * /, min, max, clamp)
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
        cpus: CpuList,
    },
}

/// `tuneagent undo`
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// A process of the program, its launcher, or the program's name
    pub target: String,
    /// Only the change with this number in the journal: of a launcher in all of its processes, of a rank in that one.
    /// Default: all changes, newest first
    #[arg(conflicts_with = "last")]
    pub change: Option<u64>,
    /// The newest change in force of each process, and no other
    #[arg(long)]
    pub last: bool,
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
}

/// `tuneagent journal`
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// A process of the program, its launcher, or the program's name, also of one that has ended. Without it: all
    /// programs, with no reasons
    pub target: Option<String>,
    /// Also older changes of programs that have ended
    #[arg(long)]
    pub all: bool,
    /// As JSON, without a limit
    #[arg(long)]
    pub json: bool,
}
