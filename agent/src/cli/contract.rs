//! Arguments of `contract`, which computes what stream programs can deliver.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Subcommand};
use profile::streams::StageFunctions;

use super::values::{address, duration};

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
        /// Write a picture of the graph with rates, use and the bottleneck (- for standard output)
        #[arg(long, value_name = "FILE")]
        svg: Option<String>,
    },
    /// The greatest rate, what binds it, and what an addition to each resource is worth
    Max(ContractArgs),
    /// The least number of workers, or the cheapest machines, that meet the requirements
    Size(ContractArgs),
    /// Choose machines for all modules together, so that the requirements hold at the least cost
    Map(ContractArgs),
    /// The greatest rate before and after a change: `C2.workers = 4`, `lan.bandwidth = 1Gbit/s`, `C2.time = 60ms`,
    /// `film.item = 2MB`
    WhatIf {
        /// The file, and how its result is shown
        #[command(flatten)]
        args: ContractArgs,
        /// The changes, all made together
        #[arg(required = true, value_name = "CHANGE")]
        changes: Vec<String>,
    },
    /// Run the program of a contract event by event: time to fill, rates and use beside the steady state, stalls
    Simulate {
        /// The file, and how its result is shown
        #[command(flatten)]
        args: ContractArgs,
        /// What is simulated
        #[command(flatten)]
        scenario: ScenarioArgs,
    },
    /// Learn the contract of a running pipeline by watching it (from /proc: no probes, no root), of an MPI job, or of
    /// anything else by functions that are named
    Learn(LearnArgs),
    /// Compare a running program with its contract: which rates are too low, and which module has to act
    Watch(WatchContractArgs),
    /// Print the JSON Schema of contract files, for editors: `tuneagent contract schema > contract.schema.json`
    Schema,
}

/// What a simulation does.
#[derive(Debug, Args)]
pub struct ScenarioArgs {
    /// End after this many items at the modules that send nothing
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub items: u64,
    /// End after this simulated time instead: 500ms, 10s, 2min or 1h; a bare number is seconds
    #[arg(long, value_parser = duration, value_name = "TIME", conflicts_with = "items")]
    pub duration: Option<Duration>,
    /// Chooses what is not determined, such as the order of merged items
    #[arg(long, default_value_t = 1, value_name = "K")]
    pub seed: u64,
    /// Items that a receiver can have waiting, for streams that state no `buffer`
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub buffer: u64,
    /// Modules that take nothing keep to their assessed rates, instead of running as fast as they can
    #[arg(long)]
    pub paced: bool,
}

/// `tuneagent contract watch`
#[derive(Debug, Args)]
pub struct WatchContractArgs {
    /// The file, and how its result is shown
    #[command(flatten)]
    pub contract: ContractArgs,
    /// A process of the pipeline, its group of processes, or the shell that started it; an MPI job; with --stage any
    /// program
    #[arg(required_unless_present = "reports")]
    pub target: Option<String>,
    /// Instead of a running program: the reports of a session on an MPI job, or with --probe on the functions of
    /// --stage, as `attach --snapshots` writes them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "duration", "apply", "metrics"])]
    pub reports: Option<PathBuf>,
    /// Which functions show what the modules do
    #[command(flatten)]
    pub stages: StageArgs,
    /// How long to watch: 500ms, 10s, 2min or 1h; a bare number is seconds
    #[arg(long, default_value = "30s", value_parser = duration, value_name = "TIME")]
    pub duration: Duration,
    /// Give the module that has to act the least number of workers with which the contract holds, by what it states
    /// in `adapt`; guarded, and reverted at the end
    #[arg(long, conflicts_with = "stages")]
    pub apply: bool,
    /// Serve /metrics, read-only: rates, targets, utilisation and verdicts
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9477", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// At the end, draw the graph with the rates that were seen, beside what is required
    #[arg(long, value_name = "FILE")]
    pub svg: Option<String>,
}

/// `tuneagent contract learn`
#[derive(Debug, Args)]
pub struct LearnArgs {
    /// A process of the pipeline, its group of processes, or the shell that started it; an MPI job; with --stage any
    /// program
    #[arg(required_unless_present = "reports")]
    pub target: Option<String>,
    /// Instead of a running program: the reports of a session on an MPI job, or with --probe on the functions of
    /// --stage, as `attach --snapshots` writes them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "duration"])]
    pub reports: Option<PathBuf>,
    /// Which functions show what the modules do
    #[command(flatten)]
    pub stages: StageArgs,
    /// How long to watch: 500ms, 10s, 2min or 1h; a bare number is seconds
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME")]
    pub duration: Duration,
    /// Write the contract here (- for standard output)
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    pub output: String,
}

/// Functions by which a program is seen that has neither MPI nor pipes.
#[derive(Debug, Args)]
pub struct StageArgs {
    /// A stage of the chain, in the order in which items pass: the function that is called for each item, the one that
    /// waits for input, the one that waits for room. Takes the rights of `attach --probe`
    #[arg(long = "stage", value_name = "NAME=WORK[,TAKE[,PUT]]")]
    pub stages: Vec<StageFunctions>,
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
