//! Checks the stages of the command line before anything is attached.

use job::{Discovery, Job};
use plan::FunctionName;
use profile::streams::StageFunctions;

use crate::{commands::target, exit::Failure, rights, similar_name};

/// # Errors
/// If the stages make no chain, or TARGET does not have one of their functions.
pub(super) fn check(stages: &[StageFunctions], target: Option<&str>) -> Result<(), Failure> {
    are_a_chain(stages)?;
    let Some(target) = target.filter(|_| !stages.is_empty()) else {
        return Ok(());
    };
    let job = target::job(&mut Discovery::default(), target, false)?;
    rights::looking(|| are_in(stages, &job)).map_err(Failure::not_permitted)?
}

pub(super) fn are_a_chain(stages: &[StageFunctions]) -> Result<(), Failure> {
    StageFunctions::check(stages).map_err(|why| Failure::invalid(format!("--stage: {why}")))
}

/// # Errors
/// If no process of the job has one of the functions.
pub(in crate::commands) fn are_in(stages: &[StageFunctions], job: &Job) -> Result<(), Failure> {
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
    for stage in stages {
        let names = stage.functions();
        let mut unknown = names.filter_map(|function| unknown(&FunctionName::from(function.as_str())));
        if let Some(why) = unknown.next() {
            let message = format!("--stage {}: {why}\nnothing was attached", stage.name);
            return Err(Failure::invalid(message));
        }
    }
    Ok(())
}
