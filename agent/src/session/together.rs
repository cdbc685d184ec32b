//! A change of all processes at the same iteration: one order for all, and a receipt for each.

use job::Job;
use plan::Meeting;
use tuner::actuator::{SetCommand, TogetherCommand};

use super::{
    actuator_queue::{ProcessTask, SYNC_WAIT},
    changes::OrderPart,
    orders::ProcessWork,
};

/// One command for all parts; the error states why they cannot change together.
pub(super) fn together(
    job: &Job,
    meeting: &Meeting,
    parts: &[OrderPart],
    work: &[ProcessWork],
) -> Result<TogetherCommand, String> {
    is_complete(job.size_here(), job.size())?;
    let sets = parts.iter().zip(work);
    Ok(TogetherCommand {
        sets: sets
            .map(|(part, work)| set(part, &work.task))
            .collect::<Result<_, _>>()?,
        at: meeting.at.clone(),
        key: meeting.key.clone(),
        within_ms: SYNC_WAIT.as_millis() as u64,
    })
}

/// Whether all ranks of the job are watched here: otherwise a part of them would change without the others.
fn is_complete(here: usize, size: Option<usize>) -> Result<(), String> {
    match size {
        None => Err(
            "nothing states how many ranks the job has: where some run on other machines, they would not change with those here"
                .to_owned(),
        ),
        Some(all) if here < all => Err(format!(
            "{here} of {all} ranks run on this machine, and the others would not change with them"
        )),
        Some(_) => Ok(()),
    }
}

fn set(part: &OrderPart, task: &ProcessTask) -> Result<SetCommand, String> {
    match task {
        ProcessTask::Set(command) => Ok((**command).clone()),
        ProcessTask::Act(_) => Err(format!(
            "only values change in all processes together, not `{}`",
            part.label
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::is_complete;

    #[test]
    fn ranks_change_together_only_where_it_is_known_that_all_are_here() {
        assert_eq!(is_complete(4, Some(4)), Ok(()));
        assert!(
            is_complete(2, Some(4))
                .unwrap_err()
                .starts_with("2 of 4 ranks run on this machine")
        );
        assert!(
            is_complete(2, None)
                .unwrap_err()
                .starts_with("nothing states how many ranks")
        );
    }
}
