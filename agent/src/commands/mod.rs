//! The commands, one file each: from the arguments to the exit code.

mod attach;
mod by_hand;
mod completions;
mod contract;
mod cpus;
mod doctor;
mod explain;
mod graph;
mod history;
mod node;
mod patch;
mod probe_access;
mod ps;
mod refusals;
mod replay;
mod replay_session;
mod rule;
mod run;
mod session;
mod symbols;
mod target;

use probe::kernel;

use crate::{
    cli::{Cli, Command},
    exit::{Code, CommandResult, Failure},
    nodes, priority, rights,
};

/// Prints data for other programs, as JSON.
fn print_json(data: &impl serde::Serialize) -> CommandResult {
    let text = serde_json::to_string_pretty(data).map_err(Failure::failed)?;
    report::console::complete(&(text + "\n")).map_err(Failure::failed)?;
    Ok(Code::Done)
}

/// Runs the requested command.
pub fn run(cli: Cli) -> CommandResult {
    let environment = run::Environment::given();
    rights::begin().map_err(Failure::not_permitted)?;
    // The command of `run` would inherit the setting.
    if !matches!(cli.command, Command::Run(_) | Command::Gate { .. }) {
        kernel::ignore_file_size_signal();
    }
    if let Command::WriteReport { .. }
    | Command::Actuator { .. }
    | Command::StandIn { .. }
    | Command::Carrier { .. }
    | Command::NodeStarter
    | Command::Closer = cli.command
    {
        priority::leave_real_time();
    }
    match cli.command {
        Command::Ps(args) => ps::run(&args),
        Command::Attach(args) => attach::run(args),
        Command::Run(args) => run::run(&args, &environment),
        Command::Undo(args) => history::undo(&args),
        Command::Journal(args) => history::journal(&args),
        Command::Session(command) => session::run(&command),
        Command::Rule(command) => rule::run(&command),
        Command::Contract(command) => contract::run(&command),
        Command::Replay(args) => replay::run(&args),
        Command::Explain { id } => explain::run(&id),
        Command::Symbols(args) => symbols::run(&args),
        Command::Get(args) => by_hand::get(&args),
        Command::Set(args) => by_hand::set(&args),
        Command::Call(args) => patch::call(&args),
        Command::Patch(args) => patch::patch(&args),
        Command::Node(command) => node::run(command),
        Command::Doctor(args) => doctor::run(&args),
        Command::Completions { shell } => completions::run(shell),
        Command::Attend(args) => run::attend(args),
        Command::Gate { door, command } => run::pass(&door, &command, &environment),
        Command::WriteReport { name } => {
            crate::report_file::serve(&name);
            Ok(Code::Done)
        }
        Command::Actuator { sync, guarded } => crate::actuator::serve(sync, guarded)
            .map(|()| Code::Done)
            .map_err(Failure::invalid),
        Command::StandIn { sync } => crate::actuator::stand_in(sync)
            .map(|()| Code::Done)
            .map_err(Failure::invalid),
        Command::Carrier { server } => match server.as_slice() {
            [program, configuration] => Err(Failure::failed(nodes::run_server(program, configuration))),
            _ => nodes::serve_carrier().map(|()| Code::Done),
        },
        Command::NodeStarter => nodes::serve_node_starter().map(|()| Code::Done),
        Command::Closer => {
            rights::only_close().map_err(Failure::not_permitted)?;
            kernel::serve_closer()
                .map(|()| Code::Done)
                .map_err(Failure::failed)
        }
    }
}
