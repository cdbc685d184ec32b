//! `session`: what is asked of sessions that run.

use clap::{Args, Subcommand};

use super::rule::SettingArgs;

/// `tuneagent session ...`
#[derive(Debug, Subcommand)]
pub enum SessionCommand {
    /// The sessions of yours that run here, and their rules
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
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
        #[arg(value_parser = super::values::mode())]
        mode: plan::Mode,
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
    #[arg(long, default_value = "advising", value_parser = super::values::mode())]
    pub mode: plan::Mode,
    /// What is set in it
    #[command(flatten)]
    pub settings: SettingArgs,
}
