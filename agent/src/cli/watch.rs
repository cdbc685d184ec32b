//! Arguments of `ps`, `attach` and `run`: what is watched, and what is written.

use std::{ffi::OsString, net::SocketAddr, path::PathBuf, time::Duration};

use clap::Args;
use plan::CpuList;
use profile::cost::BudgetShare;
use profile::progress::ProgressSource;
use profile::streams::StageFunctions;

use super::{
    rule::RuleArgs,
    values::{self, duration, number, period, progress, share, size},
};

/// `tuneagent ps`
#[derive(Debug, Args)]
pub struct PsArgs {
    /// How long to measure: 500ms, 10s, 2min or 1h; a bare number is seconds
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "TIME")]
    pub duration: Duration,
    /// Show every program, not only those that lose time
    #[arg(long)]
    pub all: bool,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// `tuneagent attach`
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// A process of the program, its launcher, the program's name, slurm:4711 or container:3f9c; several are
    /// watched in one session
    #[arg(value_name = "TARGET")]
    pub targets: Vec<String>,
    /// What is watched, and what is done with it
    #[command(flatten)]
    pub watch: WatchArgs,
    /// Watch the job on this machine (here), on all of its machines (all), or also on those of a list: n[1-4],b. Agents are
    /// started there by srun or ssh, as you, and end with the session. Without it: all where TARGET is a launcher or a
    /// Slurm job, but here with --apply or --join-file, and for every other TARGET
    #[arg(
        long,
        value_name = "here|all|LIST",
        help_heading = "Other machines of the job"
    )]
    pub nodes: Option<String>,
    /// Write a file with which another machine joins this session: `tuneagent node join FILE` there, once for each
    /// file. Then the job is shown as one
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "apply",
        help_heading = "Other machines of the job"
    )]
    pub join_file: Vec<PathBuf>,
    /// Machines that have joined stop watching after this time without a message from this session: 500ms, 10s, 2min or
    /// 1h; a bare number is seconds
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration, help_heading = "Other machines of the job")]
    pub orphan: Duration,
    /// Lines instead of the live view
    #[arg(long, help_heading = "Session")]
    pub plain: bool,
    /// Also programs of other users
    #[arg(long, help_heading = "What is watched")]
    pub any_user: bool,
    /// Attach with tracefs even where the kernel has better
    #[arg(long, hide = true)]
    pub tracefs: bool,
}

/// The flags of a session, of `attach` and `run` alike.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Let rules change the program. With names, only those rules may; without, all but those that must be named
    /// (`tuneagent rule list` shows which)
    #[arg(long, value_name = "RULE,...", num_args = 0..=1, require_equals = true, value_delimiter = ',', help_heading = "Changes")]
    pub apply: Option<Vec<String>>,
    /// Show also what each rule measured, and why it found nothing
    #[arg(short, long, help_heading = "Session")]
    pub verbose: bool,
    /// Measure how an OpenMP program scales: iterations run with other team sizes, while at most this share of the time
    /// is lost for that. Needs --apply
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "1%", requires = "apply", value_parser = share, help_heading = "Changes")]
    pub scaling: Option<String>,
    /// Speedups are relative to the largest measured team of at most this many threads (4 by default), or to the smallest
    /// measured team if all are larger
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What is watched")]
    pub baseline: Option<u32>,
    /// At the end of the session keep the changes that the guard confirmed instead of reverting them. The session ends when
    /// all changes are confirmed, or after --duration
    #[arg(long, requires = "apply", help_heading = "Changes")]
    pub keep: bool,
    /// Which rules are loaded
    #[command(flatten)]
    pub rules: RuleArgs,
    /// Count and time the calls of these functions, without a rule: how many, their mean, a histogram. The session
    /// ends at once if no process has any of them
    #[arg(long, value_name = "FUNCTION", num_args = 1.., help_heading = "What is watched")]
    pub probe: Vec<String>,
    /// End the session after this time (500ms, 10s, 2min, 1h; a bare number is seconds). A command of `run` continues unwatched
    #[arg(long, value_parser = duration, value_name = "TIME", allow_hyphen_values = true, help_heading = "Session")]
    pub duration: Option<Duration>,
    /// Write the report here at the end (- for standard output, %h for the host's name)
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub json: Option<String>,
    /// Compare with the report of another run of the same problem: how much more the ranks compute for an
    /// iteration
    #[arg(long, value_name = "REPORT", help_heading = "What is watched")]
    pub reference: Option<String>,
    /// Variables that say how far the program is: its step and its number of steps (or a number), as
    /// `step/nsteps` or `step/5000`; or a rule's metric and a number: `rule.metric/5000`. Shows the time that is left
    #[arg(long, value_name = "STEP/STEPS", value_parser = progress, help_heading = "What is watched")]
    pub progress: Option<ProgressSource>,
    /// How many iterations the detected loop has in all. Shows the time that is left if the program is watched from its
    /// start (`run`); with `attach` the iterations before it are unknown
    #[arg(long, value_name = "N", conflicts_with = "progress", value_parser = number, help_heading = "What is watched")]
    pub iterations: Option<u64>,
    /// Show these speedups beside the measured ones (lines `threads,speedup`); no decision uses them
    #[arg(long, value_name = "FILE", help_heading = "What is watched")]
    pub hint: Option<String>,
    /// Compare the measured rates of a stream program (an MPI job, or the stages of --stage) with this contract, and name
    /// the module that is too slow (`contract watch` does the same for pipelines, and can act)
    #[arg(long, value_name = "FILE", help_heading = "What is watched")]
    pub contract: Option<PathBuf>,
    /// A stage of --contract, for a program without MPI: functions as `contract learn --stage` names them. Their calls are
    /// watched as by --probe
    #[arg(
        long = "stage",
        value_name = "NAME=WORK[,TAKE[,PUT]]",
        requires = "contract",
        help_heading = "What is watched"
    )]
    pub stages: Vec<StageFunctions>,
    /// Record what rules observe, for `replay` (%h for the host's name)
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub record: Option<String>,
    /// What else is written
    #[command(flatten)]
    pub exports: ExportArgs,
    /// What watching may cost, probes and agent together, of the job's CPU time. Above it MPI functions are
    /// watched in sampling windows, and their totals are estimated. `none` for no bound
    #[arg(long, value_name = "SHARE", default_value_t = BudgetShare::default(), help_heading = "What it may cost")]
    pub budget: BudgetShare,
    /// CPUs that tuneagent itself runs on
    #[arg(long, value_name = "LIST", help_heading = "What it may cost")]
    pub agent_cpus: Option<CpuList>,
    /// Never sleep on the CPUs of --agent-cpus: decisions follow sooner, and one CPU is always busy
    #[arg(long, requires = "agent_cpus", help_heading = "What it may cost")]
    pub busy_poll: bool,
    /// Keep idle CPUs awake until the session ends: decisions follow sooner, and programs that often sleep
    /// and wake are faster where waking takes long, as in virtual machines. Costs power
    #[arg(long, help_heading = "What it may cost")]
    pub keep_awake: bool,
    /// Serve /metrics at this address and port, read-only
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9477", value_parser = values::address, help_heading = "What is written")]
    pub metrics: Option<SocketAddr>,
    /// Serve the session as a page for browsers, read-only, as long as it lasts; its address is printed
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9478", value_parser = values::address, help_heading = "What is written")]
    pub web: Option<SocketAddr>,
    /// A further host name under which --web answers, such as that of a reverse proxy
    #[arg(long, value_name = "NAME", requires = "web", help_heading = "What is written")]
    pub web_host: Vec<String>,
}

/// `tuneagent run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// What is watched, and what is done with it
    #[command(flatten)]
    pub watch: WatchArgs,
    /// The command and its arguments, as they would be typed without tuneagent
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub command: Vec<OsString>,
}

/// What a session writes for other programs, beside its report.
#[derive(Clone, Debug, Default, Args)]
pub struct ExportArgs {
    /// Write the session as one page here at the end: an HTML file that needs nothing else (%h for the host's
    /// name)
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub html: Option<String>,
    /// Write the report as a table here at the end: a number in each row (- for standard output, %h for the
    /// host's name)
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub csv: Option<String>,
    /// Write MPI calls, iterations, parallel regions, findings and changes here as they come, for ui.perfetto.dev or
    /// chrome://tracing (%h for the host's name)
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub trace: Option<String>,
    /// Greatest size of the --trace file, about 100 bytes a call; later calls are counted
    #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = size, requires = "trace", help_heading = "What is written")]
    pub trace_max: u64,
    /// Write the report here again and again, one line each time (%h for the host's name)
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub snapshots: Option<String>,
    /// How often --snapshots writes: 500ms, 10s, 2min or 1h; a bare number is seconds
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = period, requires = "snapshots", help_heading = "What is written")]
    pub every: Duration,
    /// Record what the session decided and did, and why, for a bug report (%h for the host's name): processes
    /// with their numbers, users and programs, rules, variables and their values, and what was printed;
    /// `replay` shows it
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub record_session: Option<String>,
}

impl WatchArgs {
    /// The functions whose calls are counted and timed without a rule.
    pub(crate) fn probes(&self) -> Vec<String> {
        let of_stages = self.stages.iter().flat_map(StageFunctions::functions);
        self.probe.iter().chain(of_stages).cloned().collect()
    }
}
