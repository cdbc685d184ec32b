//! `node`: watching for a session on another machine.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `tuneagent node ...`
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Join the session that has written this file (`attach … --join-file FILE`)
    #[command(after_help = JOIN_HELP)]
    Join(JoinArgs),
}

/// `tuneagent node join`
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// The file, which is removed when it has been read; - for standard input
    pub file: PathBuf,
    /// The processes here, if nothing in their environment names the job: as the TARGET of `attach`
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

const JOIN_HELP: &str = "\
Example, for a job on the machines a and b:
  a:  sudo tuneagent attach PID --join-file b.join
  b:  ssh a sudo cat b.join | sudo tuneagent node join -\n\n\
Exit codes: 0 the session has ended; 1 the session does not answer; 2 it cannot be reached, it refused this node, or no process of the job is here.";
