//! A change of all processes at the same iteration: one order for all, and a receipt for each.

use job::Job;
use plan::CommonIteration;
use tuner::actuator::{SetCommand, TogetherCommand};

use super::{
    actuator_queue::{ProcessTask, SYNC_WAIT},
    changes::OrderPart,
    orders::ProcessWork,
};

/// Why processes cannot change together.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum TogetherError {
    #[error(
        "nothing states how many ranks the job has: where some run on other machines, they would not change with those here"
    )]
    SizeUnknown,
    #[error("{here} of {all} ranks run on this machine, and the others would not change with them")]
    Elsewhere { here: usize, all: usize },
    #[error("only values change in all processes together, not `{0}`")]
    NoValue(String),
}

/// One command for all parts.
pub(super) fn together(
    job: &Job,
    common: &CommonIteration,
    parts: &[OrderPart],
    work: &[ProcessWork],
) -> Result<TogetherCommand, TogetherError> {
    is_complete(job.size_here(), job.size())?;
    let sets = parts.iter().zip(work);
    Ok(TogetherCommand {
        sets: sets
            .map(|(part, work)| set(part, &work.task))
            .collect::<Result<_, _>>()?,
        at: common.at.clone(),
        key: common.key.clone(),
        within_ms: SYNC_WAIT.as_millis() as u64,
    })
}

/// Whether all ranks of the job are watched here: otherwise a part of them would change without the others.
fn is_complete(here: usize, size: Option<usize>) -> Result<(), TogetherError> {
    match size {
        None => Err(TogetherError::SizeUnknown),
        Some(all) if here < all => Err(TogetherError::Elsewhere { here, all }),
        Some(_) => Ok(()),
    }
}

fn set(part: &OrderPart, task: &ProcessTask) -> Result<SetCommand, TogetherError> {
    match task {
        ProcessTask::Set(command) => Ok((**command).clone()),
        ProcessTask::Act(_) => Err(TogetherError::NoValue(part.label.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::{TogetherError, is_complete};

    #[test]
    fn ranks_change_together_only_where_it_is_known_that_all_are_here() {
        assert_eq!(is_complete(4, Some(4)), Ok(()));
        let elsewhere = TogetherError::Elsewhere { here: 2, all: 4 };
        assert_eq!(is_complete(2, Some(4)), Err(elsewhere));
        assert_eq!(is_complete(2, None), Err(TogetherError::SizeUnknown));
    }
}
