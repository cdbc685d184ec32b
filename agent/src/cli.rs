//! The command line. Declares every command once; the modules below declare the flags and their help.

mod change;
mod contract;
mod node;
mod rule;
mod session;
mod values;
mod watch;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, Parser, Subcommand};

pub(crate) use self::node::NODE_SOCKET;
pub use self::{
    change::{CallArgs, GetArgs, JournalArgs, PatchArgs, PatchCommand, SetArgs, SymbolsArgs, UndoArgs},
    contract::{ContractArgs, ContractCommand, LearnArgs, ScenarioArgs, WatchContractArgs},
    node::{JoinArgs, NodeCommand, ServeArgs},
    rule::{CheckRuleArgs, NewRuleArgs, ReplayArgs, RuleArgs, RuleCommand, SettingArgs},
    session::{AddRuleArgs, SessionCommand},
    watch::{AttachArgs, ExportArgs, PsArgs, RunArgs, WatchArgs},
};

/// `cargo xtask release` adds the commit and the target.
pub(crate) const VERSION: &str = match option_env!("TUNEAGENT_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// Attach to a running parallel program, see where its time goes, and make it faster while it runs.
#[derive(Debug, Parser)]
#[command(
    name = "tuneagent",
    version = VERSION,
    max_term_width = 110,
    disable_help_subcommand = true
)]
#[command(
    after_help = "Exit codes: 0 done; 1 a check or an action failed, or a program crashed after a change; 2 wrong usage, or no such process, file or rule; \
    3 not permitted; 4 the session hung and was ended.\n\
    TARGET is any process of the program, its launcher, the program's name, or a job or container:\n\
    slurm:4711, slurm:4711.0, container:3f9c. Where to start: tuneagent ps"
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The declaration without the commands that only tuneagent itself starts, for completions: their generator
    /// does not leave out what is hidden.
    pub fn for_users() -> clap::Command {
        let all = Cli::command();
        let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
        clap::Command::new("tuneagent")
            .version(VERSION)
            .disable_help_subcommand(true)
            .subcommands(shown.cloned())
    }
}

/// Removes the commands that the agent starts by itself from the suggestions for a mistyped one.
pub fn suggest_only_visible(error: &mut clap::Error) {
    let Some(ContextValue::Strings(mut names)) = error.remove(ContextKind::SuggestedSubcommand) else {
        return;
    };
    let all = Cli::command();
    names.retain(|name| all.find_subcommand(name).is_none_or(|known| !known.is_hide_set()));
    if !names.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names));
    }
}

/// The words of a command line; `help COMMAND` stands for `COMMAND --help`.
pub fn with_help_flag(typed: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = typed.into_iter().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Whose programs a command may act on.
#[derive(Debug, Args)]
pub struct UserArgs {
    /// Also programs of other users
    #[arg(long)]
    pub any_user: bool,
}

/// Comments of the variants are the help texts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List programs that lose time, and why (from /proc: no probes, no root)
    Ps(PsArgs),
    /// Watch a running program; --apply lets rules change it
    #[command(after_help = ATTACH_HELP)]
    Attach(AttachArgs),
    /// Start a command and watch it from its first instruction, with everything that it starts: tuneagent run
    /// -- mpirun -n 4 ./app
    #[command(after_help = RUN_HELP)]
    Run(RunArgs),
    /// Revert changes
    Undo(UndoArgs),
    /// List changes: what, when, why, by whom
    Journal(JournalArgs),
    /// Control running sessions: list, snapshot, switch, add and remove rules, stop
    #[command(subcommand)]
    Session(SessionCommand),
    /// Rules: list, show, new, check, plan, schema
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Contracts of stream programs: check, max, size, map, what-if, simulate, learn, watch, schema
    #[command(subcommand)]
    Contract(ContractCommand),
    /// Evaluate rules on recordings: needs no program and no root
    Replay(ReplayArgs),
    /// Explain an error (E0107), a rule (openmpi-busy-wait) or a change (change 8123:1)
    Explain {
        /// The code of an error, the name of a rule, or `change` and PID:NUMBER
        #[arg(required = true, num_args = 1..)]
        id: Vec<String>,
    },
    /// List functions and variables, and what can be done with them
    Symbols(SymbolsArgs),
    /// Read variables of a program
    Get(GetArgs),
    /// Write variables of a program
    Set(SetArgs),
    /// Call a function of a program once
    Call(CallArgs),
    /// Change the code of a program: `undo` reverts each change
    Patch(PatchArgs),
    /// Let this machine join a session of another one (join), or probe for users without rights (serve)
    #[command(subcommand)]
    Node(NodeCommand),
    /// Test what works on this machine, and how to fix the rest
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Print the completions of a shell
    #[command(after_help = COMPLETIONS_HELP)]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Watches for `run`, with the rights that probes need; started by it, with its orders as standard input.
    #[command(hide = true)]
    Attend(RunArgs),
    /// Wait for `run`, then execute the command.
    #[command(hide = true)]
    Gate {
        /// The file descriptor to wait on.
        door: String,
        /// The command and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// The process that writes a session's report into a file; started by the agent itself, with the text as
    /// standard input.
    #[command(hide = true)]
    WriteReport {
        /// Path of the report.
        name: String,
    },
    /// The process that writes for a session; started by the agent itself, with its socket as standard input.
    #[command(hide = true)]
    Actuator {
        /// Prepare for changes at sync points.
        #[arg(long)]
        sync: bool,
        /// Start a stand-in.
        #[arg(long)]
        guarded: bool,
    },
    /// The process that reverts what an actuator left that was killed; started by the actuator, with its socket as
    /// standard input.
    #[command(hide = true)]
    StandIn {
        /// Changes at sync points are possible.
        #[arg(long)]
        sync: bool,
    },
    /// The process that carries messages between the machines of a job; started by the agent itself, with its socket as
    /// standard input.
    #[command(hide = true)]
    Carrier {
        /// Become the server instead: its program, and its configuration.
        #[arg(long, num_args = 2)]
        server: Vec<std::path::PathBuf>,
    },
    /// The process that starts agents on other machines; started by the agent itself, with its socket as standard input.
    #[command(hide = true)]
    NodeStarter,
    /// The process that closes the probes of a session; started by the agent itself, with its socket as
    /// standard input.
    #[command(hide = true)]
    Closer,
}

/// How to read the output of `doctor`.
const DOCTOR_HELP: &str = "\
works: nothing is missing. lacks: a session works without it; the text says what it then cannot do. FAILS: something that \
sessions need is missing; the rest still works (ps, and `attach` with the data of /proc).\n\n\
Exit codes: 0 nothing fails; 1 something does; 2 TARGET is not there.";

/// Examples of `attach`.
const ATTACH_HELP: &str = "\
Examples:
  Where its time goes, and what would make it faster:
    sudo tuneagent attach lmp
  Repair what the rules find, keep what helped; a verdict takes seconds to minutes:
    sudo tuneagent attach 8123 --apply --keep --duration 5min
  Count and time a function of the program, and write the report:
    sudo tuneagent attach 8123 --probe solve --json report.json
  All ranks of a job on several machines, which ssh or srun reaches:
    sudo tuneagent attach 8123 --nodes all";

const RUN_HELP: &str = "\
The command runs as you and in your environment, with your terminal, input and output; messages of tuneagent go to standard error. \
The probes come from a second process, which sudo starts if your own rights do not suffice: do not type sudo before it.\n\n\
Probes sit on the files before the command runs, in every process of this machine: other programs that use the same libraries pay \
about 1 us for each call of a probed function while it runs. Nothing of them is recorded.\n\n\
Exit codes: the command's own (128 + the signal that ended it); 125 it was not started; 126 it cannot be executed; 127 it was not \
found. If tuneagent is killed the command continues unwatched.";

/// Where each shell looks for completions of a user.
const COMPLETIONS_HELP: &str = "\
Examples:
  bash:  tuneagent completions bash > ~/.local/share/bash-completion/completions/tuneagent
  zsh:   tuneagent completions zsh > ~/.zfunc/_tuneagent      (with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc)
  fish:  tuneagent completions fish > ~/.config/fish/completions/tuneagent.fish";

/// `tuneagent doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also test this program
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
        Cli::command().debug_assert();
    }

    /// The arguments of a command and of its subcommands.
    fn arguments(command: &clap::Command) -> Vec<&clap::Arg> {
        let own = command.get_arguments();
        own.chain(command.get_subcommands().flat_map(arguments)).collect()
    }

    #[test]
    fn every_command_and_every_argument_has_a_help_text() {
        fn without(command: &clap::Command) -> Vec<String> {
            let arguments = command.get_arguments().filter(|it| it.get_help().is_none());
            let mut names: Vec<String> = arguments.map(|it| it.get_id().to_string()).collect();
            names.extend(command.get_subcommands().flat_map(without));
            names.extend(command.get_about().is_none().then(String::new));
            let said = |name| format!("{} {name}", command.get_name());
            names.into_iter().map(said).collect()
        }
        assert_eq!(without(&Cli::command()), Vec::<String>::new());
    }

    /// Warnings of `man`, which also fails where a page is no page.
    #[test]
    fn the_manual_pages_are_formatted_without_warnings() -> tuneagent_e2e::Outcome {
        tuneagent_e2e::require!(Man);
        let folder = tempfile::tempdir()?;
        clap_mangen::generate_to(Cli::command(), folder.path())?;
        let pages = std::fs::read_dir(folder.path())?.collect::<Result<Vec<_>, _>>()?;
        for page in &pages {
            let mut man = std::process::Command::new("man");
            man.args(["--warnings", "--local-file"]).arg(page.path());
            let output = man.env("MANROFFSEQ", "").output()?;
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.is_empty(), "{page:?}: {said}");
        }
        let has = |name: &str| pages.iter().any(|page| page.file_name() == name);
        assert!(has("tuneagent.1") && has("tuneagent-attach.1"), "{pages:?}");
        assert!(!has("tuneagent-gate.1"), "a command that is hidden has a page");
        Ok(())
    }

    #[test]
    fn the_help_of_a_time_says_how_it_is_written() {
        let command = Cli::command();
        let is_time = |argument: &&clap::Arg| {
            let names = argument.get_value_names().unwrap_or_default();
            names.iter().any(|name| name.as_str() == "TIME")
        };
        let times: Vec<_> = arguments(&command).into_iter().filter(is_time).collect();
        assert!(times.len() >= 5, "{times:?}");
        for time in times {
            let help = time.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("500ms"), "{}: {help}", time.get_id());
        }
    }

    /// Splits a line into words like a shell, without comments.
    fn words(line: &str) -> Vec<String> {
        let mut words = Vec::new();
        for (place, part) in line.split('\'').enumerate() {
            match place % 2 {
                1 => words.push(part.to_owned()),
                _ => words.extend(part.split_whitespace().map(str::to_owned)),
            }
        }
        let comment = words
            .iter()
            .position(|word| word == "#" || word == "|" || word == ">");
        words.truncate(comment.unwrap_or(words.len()));
        words
    }

    #[test]
    fn every_command_line_on_our_pages_is_understood() {
        let pages = [
            include_str!("../../README.md"),
            include_str!("../../docs/guide.md"),
            include_str!("../../docs/prepare.md"),
            include_str!("../../docs/metrics.md"),
            include_str!("../../docs/sites.md"),
            include_str!("../../docs/exports.md"),
            include_str!("../../docs/web.md"),
        ];
        let mut tried = 0;
        for page in pages {
            // Every second part is a block of code.
            let blocks = page.split("\n```").skip(1).step_by(2);
            for line in blocks.flat_map(|block| block.lines().skip(1)) {
                let line = line.strip_prefix("$ ").unwrap_or(line);
                let line = line.strip_prefix("sudo ").unwrap_or(line);
                if !line.starts_with("tuneagent ") || line.contains('…') {
                    continue;
                }
                tried += 1;
                let understood = Cli::try_parse_from(words(line)).map(|_| ());
                assert_eq!(understood.map_err(|error| error.to_string()), Ok(()), "{line}");
            }
        }
        assert!(tried > 20, "{tried} command lines were found");
    }

    #[test]
    fn help_is_a_command_too() {
        let answer = |line: &str| {
            let typed = with_help_flag(words(line).into_iter().map(OsString::from));
            Cli::try_parse_from(typed).unwrap_err().to_string()
        };
        for (typed, same) in [
            ("tuneagent help", "tuneagent --help"),
            ("tuneagent help rule check", "tuneagent rule check --help"),
        ] {
            assert_eq!(answer(typed), answer(same));
        }
        assert!(answer("tuneagent help nothing").contains("unrecognized subcommand 'nothing'"));
    }

    #[test]
    fn no_command_is_suggested_that_help_does_not_list() {
        let mut error = Cli::try_parse_from(["tuneagent", "attch"]).unwrap_err();
        suggest_only_visible(&mut error);
        let text = error.to_string();
        assert!(text.contains("'attach'") && !text.contains("'attend'"), "{text}");
        let mut error = Cli::try_parse_from(["tuneagent", "closr"]).unwrap_err();
        suggest_only_visible(&mut error);
        let text = error.to_string();
        assert!(!text.contains("'closer'"), "{text}");
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
        assert_eq!(apply(&["1", "--apply", "--keep"]), Some(vec![]));
    }
}
