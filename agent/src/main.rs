//! The program `tuneagent`: parses the command line, runs the command, and turns its end into an exit code.

use std::process::ExitCode;

use clap::Parser;
use report::{console, view::Diagnostics};
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::SubscriberExt,
    util::SubscriberInitExt,
};
use tuneagent::{
    cli::{self, Cli},
    commands,
    exit::Failure,
};

/// Exits with clap's message. If the first word is a number, it probably is a process id, so suggests
/// `attach`. No value starts with `--`, so clap's tip to pass an unknown flag as a value is left out.
fn mistyped(mut error: clap::Error) -> ! {
    error.remove(clap::error::ContextKind::Suggested);
    cli::suggest_only_visible(&mut error);
    let is_number = |word: &String| word.parse::<u32>().is_ok();
    match std::env::args().nth(1).filter(is_number) {
        Some(pid) if error.kind() == clap::error::ErrorKind::InvalidSubcommand => {
            console::error_line(format_args!(
                "tuneagent: to watch process {pid}: tuneagent attach {pid}"
            ));
            std::process::exit(2)
        }
        _ => error.exit(),
    }
}

fn main() -> ExitCode {
    let filter = std::env::var("TUNEAGENT_LOG").ok();
    let filter = filter.and_then(|text| text.parse().ok());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(Diagnostics::default)
        .without_time()
        .with_target(false)
        .with_level(false);
    tracing_subscriber::registry()
        .with(filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN)))
        .with(lines)
        .init();
    let outcome = commands::run(
        Cli::try_parse_from(cli::with_help_flag(std::env::args_os())).unwrap_or_else(|error| mistyped(error)),
    );
    let unwritten = console::failure()
        .filter(|_| outcome.is_ok())
        .map(|error| Failure::failed("standard output could not be written").caused_by(&error));
    match unwritten.map_or(outcome, Err) {
        Ok(code) => code.into(),
        Err(failure) => {
            console::error_line(format_args!("tuneagent: {}", failure.error));
            failure.code.into()
        }
    }
}
