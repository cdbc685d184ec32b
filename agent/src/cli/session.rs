//! `session`: requests to running sessions.

use clap::{Args, Subcommand};

use super::rule::SettingArgs;

/// `tuneagent session ...`
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// List your running sessions and their rules
    List {
        /// Only this one: the number of the session's process, or the number or name of a program that it
        /// watches
        session: Option<String>,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the current report of a session, as JSON
    Snapshot {
        /// The number of the session's process, or the number or name of a program that it watches
        session: String,
    },
    /// Change the mode of a rule
    Switch {
        /// The number of the session's process, or the number or name of a program that it watches
        session: String,
        /// The rule
        rule: String,
        /// What it may do
        #[arg(value_parser = super::values::mode())]
        mode: plan::Mode,
    },
    /// Add a rule to those of the session
    Add(AddRuleArgs),
    /// Remove a rule: its probes are detached, and its changes are reverted
    Remove {
        /// The number of the session's process, or the number or name of a program that it watches
        session: String,
        /// The rule
        rule: String,
        /// Leave its changes in place until the session ends
        #[arg(long)]
        keep: bool,
    },
    /// End a session as Ctrl-C does, and wait for its end
    Stop {
        /// The number of the session's process, or the number or name of a program that it watches
        session: String,
    },
}

/// `tuneagent session add`
#[derive(Debug, Args)]
pub struct AddRuleArgs {
    /// The number of the session's process, or the number or name of a program that it watches
    pub session: String,
    /// The name of a built-in rule, or a file
    pub rule: String,
    /// What it may do
    #[arg(long, default_value = "advising", value_parser = super::values::mode())]
    pub mode: plan::Mode,
    /// What is set in it
    #[command(flatten)]
    pub settings: SettingArgs,
}
