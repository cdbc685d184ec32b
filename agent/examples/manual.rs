//! Writes the manual pages of all commands into a folder, for packages: `cargo run --example manual FOLDER`.

use clap::CommandFactory;

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or(".".into());
    clap_mangen::generate_to(tuneagent::cli::Cli::command(), folder)
}
