//! Checks the stages of the command line before anything is attached.

use job::Discovery;
use plan::FunctionName;
use profile::streams::StageFunctions;

use crate::{commands::target, exit::Failure, rights, similar_name};

/// # Errors
/// If the stages make no chain, or TARGET does not have one of their functions.
pub(super) fn check(stages: &[StageFunctions], target: Option<&str>) -> Result<(), Failure> {
    StageFunctions::check(stages).map_err(|why| Failure::not_there(format!("--stage: {why}")))?;
    let Some(target) = target.filter(|_| !stages.is_empty()) else {
        return Ok(());
    };
    let job = target::job(&mut Discovery::default(), target, false)?;
    let unknown = |function: &FunctionName| {
        let mut spaces = job.members.iter().map(|member| &member.space);
        let first = spaces.next()?;
        let why = first.every_function(function).err()?;
        if spaces.any(|space| space.every_function(function).is_ok()) {
            return None;
        }
        let near = similar_name::of_function(first, function);
        let near = near.map_or_else(String::new, |near| format!("; {near}"));
        Some(format!("{why}{near}"))
    };
    let look = || {
        let mut all = stages.iter().flat_map(|stage| {
            let functions = stage.functions();
            functions.map(|function| (&stage.name, FunctionName::from(function.as_str())))
        });
        all.find_map(|(stage, function)| {
            let why = unknown(&function)?;
            Some(format!("--stage {stage}: {why}\nnothing was attached"))
        })
    };
    let mistake = rights::looking(look).map_err(Failure::not_permitted)?;
    mistake.map_or(Ok(()), |why| Err(Failure::not_there(why)))
}
