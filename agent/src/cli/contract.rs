//! Arguments of `contract`, which computes what stream programs can deliver.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `tuneagent contract ...`
#[derive(Debug, Subcommand)]
pub enum ContractCommand {
    /// Find mistakes in a contract, and project its requirements to the rate of every module and stream
    Check {
        /// The file, and how its result is shown
        #[command(flatten)]
        args: ContractArgs,
        /// For Graphviz
        #[arg(long, conflicts_with = "json")]
        dot: bool,
    },
    /// The greatest rate, what binds it, and what an addition to each resource is worth
    Max(ContractArgs),
    /// The least number of workers, or the cheapest machines, that meet the requirements
    Size(ContractArgs),
    /// The greatest rate before and after a change: `C2.workers = 4`, `lan.bandwidth = 1Gbit/s`
    WhatIf {
        /// The file, and how its result is shown
        #[command(flatten)]
        args: ContractArgs,
        /// The changes, all made together
        #[arg(required = true, value_name = "CHANGE")]
        changes: Vec<String>,
    },
}

/// What all commands about a contract have.
#[derive(Debug, Args)]
pub struct ContractArgs {
    /// The contract file
    pub file: PathBuf,
    /// Require this rate instead of that in the file: `film >= 2/s`
    #[arg(long = "require", value_name = "REQUIREMENT")]
    pub requirements: Vec<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}
