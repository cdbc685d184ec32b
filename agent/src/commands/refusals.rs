//! Messages of commands by hand: each reason for a refusal once, and a summary of the rest.

use std::collections::{BTreeMap, BTreeSet};

use job::Job;
use profile::format::plural;
use tuner::Pid;

use super::history;

/// Results of a command in many processes.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    done: usize,
    /// Number of further refusals by reason; the process id is replaced in the reason.
    refused: BTreeMap<String, usize>,
    /// Processes that ended meanwhile.
    ended: usize,
    /// Processes and numbers of the changes that can be reverted.
    changes: Vec<(i32, u64)>,
}

impl Outcomes {
    pub(super) fn done(&mut self) {
        self.done += 1;
    }

    /// A change that can be reverted was made.
    pub(super) fn changed(&mut self, pid: Pid, change: u64) {
        self.changes.push((pid.number, change));
    }

    /// The number of processes with a change.
    pub(super) fn changed_processes(&self) -> usize {
        let pids: BTreeSet<i32> = self.changes.iter().map(|(pid, _)| *pid).collect();
        pids.len()
    }

    /// Prints how the changes in a target are reverted.
    pub(super) fn say_revert(&self, target: &str, job: &Job) {
        let pids: Vec<Pid> = job.members.iter().map(|member| member.process.pid).collect();
        let are_all = self.changes.len() > 1 && history::stand_alone(&pids, &self.changes);
        for command in crate::hint::undo_each(target, &self.changes, are_all) {
            say!("revert: {command}");
        }
    }

    /// Prints why it was refused in a process, once for all refusals with the same reason.
    pub(super) fn refused(&mut self, pid: Pid, why: &str) {
        let reason = why.replace(&pid.to_string(), "PID");
        match self.refused.get_mut(&reason) {
            Some(more) => *more += 1,
            None => {
                warn!("{why}");
                self.refused.insert(reason, 0);
            }
        }
    }

    /// A process ended before it was processed.
    pub(super) fn ended(&mut self, why: &str) {
        self.ended += 1;
        warn!("{why}");
    }

    /// Nothing was done because all processes have ended.
    pub(super) fn have_all_ended(&self) -> bool {
        self.ended > 0 && self.done == 0 && self.refused.is_empty()
    }

    /// The last sentence after values were read; `None` if all were.
    pub(super) fn reading(&self) -> Option<String> {
        let refused = self.refused.values().sum::<usize>() + self.refused.len();
        match (self.done, refused) {
            (0, _) => Some("nothing could be read".to_owned()),
            (_, 0) => None,
            (read, refused) => Some(format!(
                "{read} of {} could be read",
                plural(read + refused, "value")
            )),
        }
    }

    /// The last sentence; `did` is `written` or `done`.
    pub(super) fn conclusion(&self, did: &str) -> String {
        let more: usize = self.refused.values().sum();
        let refused = more + self.refused.len();
        let same = match more {
            0 => String::new(),
            more => format!(" ({}: the same)", plural(more, "more process")),
        };
        match self.done {
            0 => format!("nothing was {did}{same}"),
            1 => format!(
                "1 of {} was {did}{same}, and stays; `tuneagent undo` reverts it",
                1 + refused
            ),
            done => format!(
                "{done} of {} were {did}{same}, and stay; `tuneagent undo` reverts them",
                done + refused
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_said_once_and_the_last_sentence_counts() {
        let pid = |number| Pid {
            number,
            start_time: 1,
        };
        let mut outcomes = Outcomes::default();
        for number in [500, 501, 502] {
            outcomes.refused(pid(number), &format!("process {number} has no variable `x`"));
        }
        assert_eq!(
            outcomes.conclusion("written"),
            "nothing was written (2 more processes: the same)"
        );
        outcomes.done();
        assert!(outcomes.conclusion("done").starts_with("1 of 4 was done (2 more"));
        assert_eq!(Outcomes::default().conclusion("written"), "nothing was written");
    }

    #[test]
    fn reading_only_some_of_the_values_is_a_failure() {
        let pid = Pid {
            number: 500,
            start_time: 1,
        };
        let mut outcomes = Outcomes::default();
        assert_eq!(outcomes.reading().as_deref(), Some("nothing could be read"));
        outcomes.done();
        assert_eq!(outcomes.reading(), None);
        outcomes.refused(pid, "process 500 has no variable `x`");
        assert_eq!(outcomes.reading().as_deref(), Some("1 of 2 values could be read"));
    }

    #[test]
    fn a_process_that_ended_meanwhile_is_no_failure_unless_no_process_is_left() {
        let mut outcomes = Outcomes::default();
        outcomes.ended("process 7 has ended");
        assert!(outcomes.have_all_ended());
        outcomes.done();
        assert!(!outcomes.have_all_ended());
    }
}
