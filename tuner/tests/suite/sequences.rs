//! Random series of changes and undos on one running program: its results stay right, each change has its effect as long as it
//! is in force, and at the end its code is, byte for byte, what it was.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tuner::action::{ActionError, InsertPlace, PatchRequest, Reason};
use tuner::journal::RevertOutcome;
use tuner::writer::{Writer, WriterError};

use crate::actions::{FINE, Load, QUIET, argument, insert, remove, replace};
use crate::programs::long;

/// What is done next.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// What every step shrinks to.
    Nothing,
    Change(usize),
    Undo(prop::sample::Index),
    UndoAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Nothing),
        10 => (0..requests().len()).prop_map(Step::Change),
        8 => any::<prop::sample::Index>().prop_map(Step::Undo),
        1 => Just(Step::UndoAll),
    ]
}

/// Changes, and what the program then says differently.
fn requests() -> Vec<(PatchRequest, &'static str, &'static str)> {
    let note = "note(5, 0.5, \"noted\")";
    vec![
        (replace("sort_a", "sort_b"), "a=1 b=0", "a=0 b=1"),
        (replace("part_work", "part_other"), "", ""),
        (insert(note, "step", InsertPlace::Entry), "noted=0", "noted=1"),
        (
            insert(note, "calls_first", InsertPlace::Entry),
            "noted=0",
            "noted=1",
        ),
        (
            insert(note, "part_work", InsertPlace::Entry),
            "noted=0",
            "noted=1",
        ),
        (
            insert(note, "two_returns", InsertPlace::Return),
            "noted=0",
            "noted=1",
        ),
        (insert(note, "step", InsertPlace::Return), "noted=0", "noted=1"),
        (remove("log_state", Some("step")), "logged=1", "logged=0"),
        (
            argument("send_block", 2, "original / 4 + 1"),
            "size=4096",
            "size=1025",
        ),
        (
            argument("send_block", 1, "original * 2"),
            "weight=2500",
            "weight=5000",
        ),
    ]
}

struct Series {
    load: Load,
    writer: Writer,
    code: Vec<(String, Vec<u8>)>,
    /// Change and index of its request.
    in_force: Vec<(u64, usize)>,
    requests: Vec<(PatchRequest, &'static str, &'static str)>,
}

impl Series {
    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Change(index) => match self.writer.patch(&self.requests[index].0, Reason::default()) {
                Ok(receipt) => self.in_force.push((receipt.change, index)),
                Err(WriterError::Action(error)) if matches!(*error, ActionError::AlreadyChanged { .. }) => {
                    prop_assert!(!self.in_force.is_empty(), "{error}");
                }
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            },
            Step::Undo(which) if !self.in_force.is_empty() => {
                let (change, _) = self.in_force.swap_remove(which.index(self.in_force.len()));
                self.undo(change)?;
            }
            Step::Undo(_) | Step::Nothing => {}
            Step::UndoAll => {
                for (change, _) in std::mem::take(&mut self.in_force).into_iter().rev() {
                    self.undo(change)?;
                }
            }
        }
        Ok(())
    }

    fn undo(&mut self, change: u64) -> Result<(), TestCaseError> {
        let undone = self.writer.undo(change);
        let undone = undone.map_err(|error| TestCaseError::fail(format!("{change}: {error}")))?;
        prop_assert_eq!(undone.outcome, RevertOutcome::Reverted);
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut wanted = QUIET.to_owned();
        for (_, index) in &self.in_force {
            let (_, from, to) = self.requests[*index];
            wanted = wanted.replace(from, to);
        }
        prop_assert_eq!(self.load.runs(), wanted);
        Ok(())
    }
}

#[test]
fn any_series_of_changes_and_undos_leaves_the_code_and_the_results_as_they_were() {
    let (steps, between_checks) = if long() { (10_000, 50) } else { (150, 10) };
    let Some(first) = Load::start() else { return };
    drop(first);
    let config = Config {
        cases: 1,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    };
    // The same series every time; another number is another series.
    let seed = [7; 32];
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let series = proptest::collection::vec(step(), steps..=steps);
    let outcome = runner.run(&series, |steps| {
        let load = Load::start().ok_or_else(|| TestCaseError::fail("the program did not start"))?;
        let (code, writer) = (load.code(), load.writer());
        let mut series = Series {
            load,
            writer,
            code,
            in_force: Vec::new(),
            requests: requests(),
        };
        for (index, step) in steps.into_iter().enumerate() {
            series.take(step)?;
            if index % between_checks == 0 {
                series.check()?;
            }
        }
        series.take(Step::UndoAll)?;
        series.check()?;
        let now = series.load.code();
        prop_assert!(now == series.code, "the code differs");
        prop_assert_eq!(series.load.ends(), FINE);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
