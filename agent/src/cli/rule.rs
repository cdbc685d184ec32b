//! Arguments of `rule` and `replay`, which use rule files without a program or on recordings; and the flags
//! of all commands that load rules.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use profile::streams::StageFunctions;
use session::request::Settings;

use super::UserArgs;
use super::values::assignment;

/// Which rules are loaded, of `attach`, `run` and `replay` alike.
#[derive(Debug, Args)]
pub struct RuleArgs {
    /// Rules to load beside the built-in ones: files, folders, names; `none`: without the built-in rules
    #[arg(long = "rules", value_name = "FILE|DIR|NAME", num_args = 1.., help_heading = "Rules")]
    pub paths: Vec<String>,
    /// Parameters and bindings
    #[command(flatten)]
    pub settings: SettingArgs,
}

/// What is set in rules.
#[derive(Debug, Args)]
pub struct SettingArgs {
    /// Parameters of the rules
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = assignment, help_heading = "Rules")]
    pub parameters: Vec<(String, String)>,
    /// Names in the rules, and their names in this program
    #[arg(long = "bind", value_name = "NAME=NAME", value_parser = assignment, help_heading = "Rules")]
    pub bindings: Vec<(String, String)>,
}

impl SettingArgs {
    /// In the form that loading rules needs.
    pub fn as_settings(&self) -> Settings<'_> {
        Settings {
            parameters: &self.parameters,
            bindings: &self.bindings,
        }
    }
}

/// `tuneagent rule ...`
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// List the built-in rules
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the text of a rule
    Show {
        /// Its name.
        name: String,
    },
    /// Write a first rule from the symbols of a program
    New(NewRuleArgs),
    /// Find mistakes in rule files, and show what the rules would do
    Check(CheckRuleArgs),
    /// Show the probes, aggregates and formulas of rules, which of them run in the kernel, and which are
    /// shared
    Plan {
        /// Built-in rules by their names, files, folders
        #[arg(required = true)]
        rules: Vec<String>,
        /// For Graphviz
        #[arg(long)]
        dot: bool,
    },
    /// Print the JSON Schema of rule files, for editors: `tuneagent rule schema > rule.schema.json`
    Schema,
}

/// `tuneagent rule check`
#[derive(Debug, Args)]
pub struct CheckRuleArgs {
    /// The files, or names of built-in rules
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// A running program to check against: a process of it, its launcher, or its name
    #[arg(short = 'p', long, value_name = "PID")]
    pub pid: Option<String>,
    /// Parameters and bindings
    #[command(flatten)]
    pub settings: SettingArgs,
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
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
    /// Of which users
    #[command(flatten)]
    pub users: UserArgs,
}

/// `tuneagent replay`
#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Recordings of `--record`, one of each host. Or a session log of `--record-session`: it is listed, and this version
    /// checks that it would do the same
    #[arg(required = true, value_name = "RECORDING")]
    pub recordings: Vec<PathBuf>,
    /// Which rules are loaded
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Show what rules would decide: all loaded ones (but none that must be named), or those named
    #[arg(long, value_name = "RULE,...", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    pub apply: Option<Vec<String>>,
    /// Instead of rules: judge the rates of an MPI job, or of --stage, by this contract, in the windows of `attach --contract`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["apply", "paths", "csv", "json", "html", "svg"])]
    pub contract: Option<PathBuf>,
    /// The stages of the contract, as `attach --contract --stage` had them
    #[arg(long = "stage", value_name = "NAME=WORK[,TAKE[,PUT]]", requires = "contract")]
    pub stages: Vec<StageFunctions>,
    /// Write every metric of every window here (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub csv: Option<String>,
    /// Write the report of the recorded ranks here, of all hosts together; of a session log, its events and
    /// effects (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub json: Option<String>,
    /// Write what was recorded as one page: an HTML file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub html: Option<String>,
    /// Draw the metrics over time, with findings, decisions and verdicts as marks
    #[arg(long, value_name = "FILE")]
    pub svg: Option<String>,
}
