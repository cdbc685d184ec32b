//! The program `tuneagent`: parses the command line, runs the command, and turns its end into an exit code.

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;
use tuneagent::{cli::Cli, commands, console, exit::Failure, view::Diagnostics};

/// Ends with what clap says of the command line. Who types only a number means the process.
fn mistyped(error: &clap::Error) -> ! {
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
    let filter = EnvFilter::try_from_env("TUNEAGENT_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Diagnostics::default)
        .without_time()
        .with_target(false)
        .with_level(false)
        // They may be in a file.
        .with_ansi(false)
        .init();
    let outcome = commands::run(Cli::try_parse().unwrap_or_else(|error| mistyped(&error)));
    let unwritten = console::failure()
        .filter(|_| outcome.is_ok())
        .map(|error| Failure::no(format!("standard output could not be written: {error}")));
    match unwritten.map_or(outcome, Err) {
        Ok(code) => code.into(),
        Err(failure) => {
            console::error_line(format_args!("tuneagent: {}", failure.message));
            failure.code.into()
        }
    }
}
