//! Arguments of `node`: watching for a session on another machine, and the service for users without rights.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::UserArgs;

/// Where the service listens, and where sessions look for it. Not the folder of root's control sockets, which
/// users may not enter.
pub(crate) const NODE_SOCKET: &str = "/run/tuneagent-node/node.sock";

/// `tuneagent node ...`
#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// Join the session that has written this file (`attach … --join-file FILE`)
    #[command(after_help = JOIN_HELP)]
    Join(JoinArgs),
    /// Run the service: users without rights then watch their own programs with probes. systemd starts it:
    /// systemctl enable --now tuneagent
    Serve(ServeArgs),
    /// Find mistakes in a policy, and say in words what it permits
    Check {
        /// The file
        #[arg(default_value = "/etc/tuneagent/policy.yaml")]
        file: PathBuf,
    },
    /// Print the JSON Schema of policy files, for editors
    Schema,
}

/// `tuneagent node join`
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// The file, which is removed when it has been read; - for standard input
    pub file: PathBuf,
    /// The processes here, if nothing in their environment names the job: as the TARGET of `attach`
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
}

/// `tuneagent node serve`
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Listen here
    #[arg(long, value_name = "PATH", default_value = NODE_SOCKET)]
    pub socket: PathBuf,
    /// The policy; without the file its defaults apply
    #[arg(long, value_name = "FILE", default_value = "/etc/tuneagent/policy.yaml")]
    pub policy: PathBuf,
    /// The socket of the journal that is written to
    #[arg(long, value_name = "PATH", default_value = "/run/systemd/journal/socket")]
    pub journal: PathBuf,
    /// The socket of syslog, where there is no journal
    #[arg(long, value_name = "PATH", default_value = "/dev/log")]
    pub syslog: PathBuf,
}

const JOIN_HELP: &str = "\
Example, for a job on the machines a and b:
  a:  sudo tuneagent attach PID --join-file b.join
  b:  ssh a sudo cat b.join | sudo tuneagent node join -\n\n\
Exit codes: 0 the session has ended; 1 the session does not answer; 2 it cannot be reached, it refused this node, or no process of the job is here.";
