//! Changes of several processes at the same iteration of all, or of none. The program itself ends if it finds
//! a change in some ranks only.

use std::{
    io::{BufRead, BufReader, Write as _},
    process::{Child, Command, Stdio},
    sync::MutexGuard,
};

use plan::Key;
use rustix::process::{Pid as Number, Signal, kill_process};
use tempfile::TempDir;
use tuner::actuator::TogetherCommand;
use tuner::journal::{Mechanism, StateDir, Status};
use tuner::{AddressSpace, Images, Pid, Process, Receipt, VariableName};

use crate::target::{Actuator, alone_as_root, built, percentile, set, wait_until};

const RANKS: usize = 4;

struct Ranks {
    child: Child,
    spaces: Vec<AddressSpace>,
}

impl Ranks {
    fn start(how: &str) -> Ranks {
        let mut child = Command::new(built("ranks"))
            .args([RANKS.to_string().as_str(), how])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let space = |pid: &str| {
            let process = Process::open(pid.parse().unwrap()).unwrap();
            AddressSpace::read(&process, &Images::new()).unwrap()
        };
        let spaces: Vec<AddressSpace> = line.split_whitespace().map(space).collect();
        assert_eq!(spaces.len(), RANKS);
        Ranks { child, spaces }
    }

    fn pids(&self) -> Vec<Pid> {
        self.spaces.iter().map(|space| space.process.pid).collect()
    }

    fn read(&self, rank: usize, variable: &str) -> i64 {
        let space = &self.spaces[rank];
        let location = space.variable(&VariableName::from(variable)).unwrap();
        let bytes = location.read(space.memory()).unwrap();
        match *bytes.as_slice() {
            [a, b, c, d] => i64::from(i32::from_ne_bytes([a, b, c, d])),
            ref eight => i64::from_ne_bytes(eight.try_into().unwrap()),
        }
    }

    fn all(&self, variable: &str) -> Vec<i64> {
        (0..RANKS).map(|rank| self.read(rank, variable)).collect()
    }

    /// Checks that no rank found a partial change, and that the first ranks continue to iterate.
    fn go_on(&mut self, ranks: usize) {
        for rank in 0..ranks {
            let before = self.read(rank, "iteration");
            wait_until("the rank goes on", || self.read(rank, "iteration") > before + 3);
        }
        assert!(
            self.child.try_wait().unwrap().is_none(),
            "a change was half-applied"
        );
    }

    fn change(&self, variable: &str, value: i64) -> TogetherCommand {
        TogetherCommand {
            sets: self
                .pids()
                .into_iter()
                .map(|pid| set(pid, variable, value))
                .collect(),
            at: "entry:iterate".parse().unwrap(),
            key: Key::NamedArgument {
                name: "number".to_owned(),
            },
            within_ms: 60_000,
        }
    }

    fn signal(&self, rank: usize, signal: Signal) {
        let number = Number::from_raw(self.pids()[rank].number).unwrap();
        kill_process(number, signal).unwrap();
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn receipts(actuator: &mut Actuator, command: TogetherCommand) -> Vec<Result<Receipt, String>> {
    let tickets = actuator.client().together(command).unwrap();
    collected(actuator, tickets)
}

fn collected(actuator: &mut Actuator, mut tickets: Vec<u64>) -> Vec<Result<Receipt, String>> {
    let mut receipts = Vec::new();
    wait_until("all have a receipt", || {
        for (ticket, result) in actuator.client().collect().unwrap().finished {
            tickets.retain(|known| *known != ticket);
            receipts.push(result.map_err(|refusal| refusal.to_string()));
        }
        tickets.is_empty()
    });
    receipts
}

/// Ranks with this kind of iterations, and an actuator that keeps or reverts its changes; `None` without
/// root. The fields are dropped in reverse order.
fn ranks_and_actuator(how: &str, keep: bool) -> Option<(MutexGuard<'static, ()>, TempDir, Ranks, Actuator)> {
    let alone = alone_as_root()?;
    let directory = tempfile::tempdir().unwrap();
    let ranks = Ranks::start(how);
    let actuator = Actuator::start(directory.path(), keep);
    Some((alone, directory, ranks, actuator))
}

/// The reason of the refusal, which must be the same for all.
fn refusal(actuator: &mut Actuator, command: TogetherCommand) -> String {
    let mut reasons: Vec<String> = receipts(actuator, command)
        .into_iter()
        .map(|receipt| receipt.unwrap_err())
        .collect();
    reasons.dedup();
    assert_eq!(reasons.len(), 1, "{reasons:?}");
    reasons.remove(0)
}

#[test]
fn changes_together_are_at_the_same_iteration_of_all_ranks_and_taken_back_so() {
    let Some(_alone) = alone_as_root() else { return };
    let count = if std::env::var_os("TUNEAGENT_LONG").is_some() {
        200
    } else {
        20
    };
    for how in ["even", "odd"] {
        let directory = tempfile::tempdir().unwrap();
        let mut ranks = Ranks::start(how);
        let mut actuator = Actuator::start(directory.path(), false);
        let mut holds = Vec::new();
        for value in 1..=count {
            for receipt in receipts(&mut actuator, ranks.change("block", value)) {
                let receipt = receipt.unwrap();
                assert_eq!(receipt.mechanism, Mechanism::Stop);
                holds.push(receipt.hold_ns);
            }
            wait_until("all ranks see it", || ranks.all("seen") == [value; RANKS]);
        }
        holds.sort_unstable();
        let _ = writeln!(
            std::io::stderr(),
            "{count} changes of {RANKS} ranks together ({how}): a rank was stopped p50 {} us, p99 {} us, most {} us",
            percentile(&holds, 50) / 1000,
            percentile(&holds, 99) / 1000,
            holds[holds.len() - 1] / 1000,
        );
        ranks.go_on(RANKS);
        // The end of the session reverts all at one iteration, within a time limit. On a machine that is too
        // busy for this, all ranks keep the change, and the next actuator retries.
        drop(actuator);
        let mut next = Actuator::start(directory.path(), true);
        let mut tries = 1;
        while ranks.all("block") == [count; RANKS] && tries < 5 {
            next.client().revert_all(&ranks.pids()[..1]).unwrap();
            tries += 1;
        }
        assert_eq!(ranks.all("block"), [0; RANKS]);
        ranks.go_on(RANKS);
        let state = StateDir::at(directory.path());
        for pid in ranks.pids() {
            let changes = state.history(pid).unwrap().changes();
            assert!(changes.iter().all(|change| change.status == Status::Reverted));
            let journal = std::fs::read_to_string(state.journal_path(pid)).unwrap();
            let reverts = journal.matches(r#""record":"revert_intent""#).count();
            assert!(reverts <= tries, "{reverts} in {tries}");
        }
    }
}

#[test]
fn a_change_together_that_lies_under_one_of_a_single_rank_is_taken_back_after_it() {
    let Some((_alone, _directory, mut ranks, mut actuator)) = ranks_and_actuator("even", false) else {
        return;
    };
    // A variable that the program itself does not compare.
    for receipt in receipts(&mut actuator, ranks.change("seen", 100)) {
        receipt.unwrap();
    }
    actuator.client().set(set(ranks.pids()[0], "seen", 200)).unwrap();
    assert_eq!(ranks.all("seen"), [200, 100, 100, 100]);
    let summary = actuator.client().revert_all(&ranks.pids()[..1]).unwrap();
    assert_eq!((summary.reverted.len(), summary.failed.len()), (RANKS + 1, 0));
    assert_eq!(ranks.all("seen"), [0; RANKS]);
    ranks.go_on(RANKS);
}

#[test]
fn a_rank_that_runs_another_program_since_keeps_no_other_from_its_old_value() {
    let Some((_alone, _directory, mut ranks, mut actuator)) = ranks_and_actuator("even", false) else {
        return;
    };
    for receipt in receipts(&mut actuator, ranks.change("block", 5)) {
        receipt.unwrap();
    }
    let pids = ranks.pids();
    let (first, last) = (pids[0], pids[RANKS - 1]);
    ranks.signal(RANKS - 1, Signal::USR1);
    wait_until("it runs another program", || {
        let program = std::fs::read_link(format!("/proc/{}/exe", last.number));
        program.unwrap().ends_with("sleep")
    });
    let summary = actuator.client().revert_all(&[first]).unwrap();
    assert_eq!(summary.reverted.len(), RANKS - 1, "{summary:?}");
    for rank in 0..RANKS - 1 {
        assert_eq!(ranks.read(rank, "block"), 0, "{summary:?}");
    }
    ranks.go_on(RANKS - 1);
}

#[test]
fn a_rank_that_never_arrives_leaves_all_ranks_unwritten() {
    let Some((_alone, _directory, mut ranks, mut actuator)) = ranks_and_actuator("absent", true) else {
        return;
    };
    let mut command = ranks.change("block", 7);
    command.within_ms = 300;
    let why = refusal(&mut actuator, command);
    let absent = ranks.pids()[RANKS - 1];
    assert!(
        why.contains(&format!(
            "entry:iterate was not reached within 300 ms by process {absent}"
        )),
        "{why}"
    );
    assert_eq!(ranks.all("block"), [0; RANKS]);
    ranks.go_on(RANKS - 1);
}

#[test]
fn a_write_that_fails_in_one_rank_is_put_back_in_the_others() {
    let Some((_alone, directory, mut ranks, mut actuator)) = ranks_and_actuator("even", true) else {
        return;
    };
    // The last rank writes this variable in every iteration, so its value differs from the announced one.
    let command = ranks.change("restless", -7);
    let why = refusal(&mut actuator, command);
    assert!(
        why.starts_with("written in no process")
            && why.contains("as expected: the program changed it meanwhile"),
        "{why}"
    );
    assert_eq!(ranks.all("restless")[..RANKS - 1], [0; RANKS - 1]);
    ranks.go_on(RANKS);
    let history = StateDir::at(directory.path()).history(ranks.pids()[0]).unwrap();
    assert_eq!(history.changes()[0].status, Status::Failed);
}

#[test]
fn ranks_with_different_iteration_counts_are_refused() {
    let Some((_alone, _directory, mut ranks, mut actuator)) = ranks_and_actuator("drifting", true) else {
        return;
    };
    let mut command = ranks.change("block", 7);
    command.within_ms = 20_000;
    let why = refusal(&mut actuator, command);
    assert!(why.starts_with("written in no process"), "{why}");
    let _ = writeln!(std::io::stderr(), "drifting ranks: {why}");
    assert_eq!(ranks.all("block"), [0; RANKS]);
    ranks.go_on(RANKS);
    // Iteration numbers that cannot be read are refused, too.
    let mut command = ranks.change("block", 7);
    command.key = Key::NamedArgument {
        name: "nowhere".to_owned(),
    };
    let refusal = actuator.client().together(command).unwrap_err().to_string();
    assert!(
        refusal.contains("which iteration it is cannot be read in process"),
        "{refusal}"
    );
}

#[test]
fn a_rank_that_dies_meanwhile_leaves_the_others_unwritten() {
    let Some((_alone, _directory, mut ranks, mut actuator)) = ranks_and_actuator("absent", true) else {
        return;
    };
    let command = ranks.change("block", 7);
    let tickets = actuator.client().together(command).unwrap();
    assert!(actuator.client().collect().unwrap().finished.is_empty());
    ranks.signal(RANKS - 1, Signal::KILL);
    for receipt in collected(&mut actuator, tickets) {
        let why = receipt.unwrap_err();
        assert!(why.contains("has ended"), "{why}");
    }
    ranks.spaces.truncate(RANKS - 1);
    assert_eq!(
        (0..RANKS - 1).map(|rank| ranks.read(rank, "block")).sum::<i64>(),
        0
    );
    ranks.go_on(RANKS - 1);
}

#[test]
fn an_actuator_killed_while_ranks_are_stopped_leaves_all_unwritten_and_running() {
    let Some(_alone) = alone_as_root() else { return };
    let directory = tempfile::tempdir().unwrap();
    // These ranks never have a common iteration, so the first ones wait for the others.
    let mut ranks = Ranks::start("drifting");
    let mut actuator = Actuator::start(directory.path(), true);
    let command = ranks.change("block", 7);
    actuator.client().together(command).unwrap();
    wait_until("a rank is stopped", || {
        let _ = actuator.client().collect().unwrap();
        let is_stopped = |space: &AddressSpace| space.process.state().unwrap() == 't';
        ranks.spaces.iter().any(is_stopped)
    });
    actuator.signal(Signal::KILL);
    ranks.go_on(RANKS);
    assert_eq!(ranks.all("block"), [0; RANKS]);
    // The next actuator finds that nothing was written.
    let mut next = Actuator::start(directory.path(), true);
    for pid in ranks.pids() {
        let summary = next.client().revert_all(&[pid]).unwrap();
        assert!(
            summary.reverted.is_empty() && summary.failed.is_empty(),
            "{summary:?}"
        );
    }
    ranks.go_on(RANKS);
}
