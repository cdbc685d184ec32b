//! `tuneagent rule plan`: what rules compute and where, as text or for Graphviz. Attaches nothing.

use session::request::Settings;

use crate::{
    exit::{Code, CommandResult},
    rulebook::load,
};

/// Shows the plan of the named rules, built-in ones and files, together, because they would share probes.
pub(super) fn run(names: &[String], dot: bool) -> CommandResult {
    let paths: Vec<String> = std::iter::once("none".to_owned())
        .chain(names.iter().cloned())
        .collect();
    let settings = Settings {
        parameters: &[],
        bindings: &[],
    };
    let graph = rules::graph(&load(&paths, settings, true)?);
    let text = if dot { graph.dot() } else { graph.text() };
    say!("{}", text.trim_end());
    Ok(Code::Done)
}
