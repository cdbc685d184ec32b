//! Random sequences of code changes, variable changes and reverts on a running program. Its results must stay
//! correct, each change must have its effect while it is in force, and at the end the code must be the
//! original one, byte for byte.

use plan::{Moment, PatchRequest, Value};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use tuneagent_e2e::needs::is_long;
use tuner::journal::{Outcome, Reason, RevertOutcome, Status};
use tuner::{ActionError, WritablePlace, Writer, WriterError};

use crate::programs::to;
use crate::underload::{FINE, Load, QUIET, argument, insert, remove, replace};

/// One step of a sequence.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// The simplest step for shrinking.
    Nothing,
    Change(usize),
    /// Index of the variable, and the new value.
    Set(usize, i8),
    Revert(prop::sample::Index),
    RevertAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => Just(Step::Nothing),
        10 => (0..requests().len()).prop_map(Step::Change),
        4 => (0..VARIABLES.len(), any::<i8>()).prop_map(|(variable, value)| Step::Set(variable, value)),
        11 => any::<prop::sample::Index>().prop_map(Step::Revert),
        1 => Just(Step::RevertAll),
    ]
}

/// Code changes, and the resulting difference in the program's output.
fn requests() -> Vec<(PatchRequest, &'static str, &'static str)> {
    let note = "note(5, 0.5, \"noted\")";
    vec![
        (replace("sort_a", "sort_b"), "a=1 b=0", "a=0 b=1"),
        (replace("part_work", "part_other"), "", ""),
        (insert(note, "step", Moment::Entry), "noted=0", "noted=1"),
        (insert(note, "calls_first", Moment::Entry), "noted=0", "noted=1"),
        (insert(note, "part_work", Moment::Entry), "noted=0", "noted=1"),
        (insert(note, "two_returns", Moment::Return), "noted=0", "noted=1"),
        (insert(note, "step", Moment::Return), "noted=0", "noted=1"),
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

type Valued = fn(i64) -> Value;

/// Variables of the program, their initial values, and the conversion from a number.
const VARIABLES: [(&str, i64, Valued); 3] = [
    ("knob", 1, |value| Value::I32(value as i32)),
    ("settings.chunk", 64, Value::I64),
    ("chosen_settings->rate", 8, |value| Value::F64(value as f64)),
];

/// A step that can be reverted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    /// Index of its request.
    Patch(usize),
    /// Index of the variable, and its previous value.
    Set(usize, i64),
}

struct Series {
    load: Load,
    writer: Writer,
    slots: Vec<WritablePlace>,
    values: Vec<i64>,
    in_force: Vec<(u64, Done)>,
    requests: Vec<(PatchRequest, &'static str, &'static str)>,
}

impl Series {
    fn start() -> Result<Series, TestCaseError> {
        let load = Load::start().ok_or_else(|| TestCaseError::fail("the program did not start"))?;
        let writer = load.writer();
        let place = |(name, ..): &(&str, i64, Valued)| load.program.place(name, None).unwrap();
        let slots = VARIABLES.iter().map(place).collect();
        Ok(Series {
            load,
            writer,
            slots,
            values: VARIABLES.iter().map(|(_, value, _)| *value).collect(),
            in_force: Vec::new(),
            requests: requests(),
        })
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Change(index) => match self.writer.patch(&self.requests[index].0, Reason::default()) {
                Ok(receipt) => self.in_force.push((receipt.change, Done::Patch(index))),
                Err(WriterError::Action(error)) if matches!(*error, ActionError::AlreadyChanged { .. }) => {
                    prop_assert!(!self.in_force.is_empty(), "{error}");
                }
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            },
            Step::Set(variable, value) => self.set(variable, i64::from(value))?,
            Step::Revert(which) if !self.in_force.is_empty() => {
                self.revert(which.index(self.in_force.len()))?;
            }
            Step::Revert(_) | Step::Nothing => {}
            Step::RevertAll => {
                for index in (0..self.in_force.len()).rev() {
                    self.revert(index)?;
                }
            }
        }
        Ok(())
    }

    fn set(&mut self, variable: usize, value: i64) -> Result<(), TestCaseError> {
        let before = self.values[variable];
        let receipt = self
            .writer
            .set(&self.slots[variable], to(VARIABLES[variable].2(value)));
        let receipt = receipt.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(receipt.outcome, Outcome::Applied);
        prop_assert_eq!(receipt.change.is_none(), value == before);
        self.values[variable] = value;
        let change = receipt.change.map(|change| (change, Done::Set(variable, before)));
        self.in_force.extend(change);
        Ok(())
    }

    /// A value that was overwritten is not in force, so its revert changes nothing.
    fn revert(&mut self, index: usize) -> Result<(), TestCaseError> {
        let (change, done) = self.in_force[index];
        let is_of = |variable, done: &Done| matches!(done, Done::Set(of, _) if *of == variable);
        let reverted = self.writer.revert(change);
        if let Done::Set(variable, before) = done {
            if self.in_force[index + 1..]
                .iter()
                .any(|(_, later)| is_of(variable, later))
            {
                let is_refused = matches!(
                    reverted,
                    Err(WriterError::NotInForce {
                        status: Status::Superseded { .. },
                        ..
                    })
                );
                prop_assert!(is_refused, "{change} was overwritten: {reverted:?}");
                return Ok(());
            }
            self.values[variable] = before;
        }
        let reverted = reverted.map_err(|error| TestCaseError::fail(format!("{change}: {error}")))?;
        prop_assert_eq!(reverted.outcome, RevertOutcome::Reverted);
        self.in_force.remove(index);
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut wanted = QUIET.to_owned();
        for (_, done) in &self.in_force {
            if let Done::Patch(index) = done {
                let (_, from, to) = self.requests[*index];
                wanted = wanted.replace(from, to);
            }
        }
        prop_assert_eq!(self.load.runs(), wanted);
        let &[knob, chunk, rate] = self.values.as_slice() else {
            unreachable!("there are three variables")
        };
        let seen = self.load.program.say("knobs");
        prop_assert_eq!(seen, format!("knob={knob} chunk={chunk} rate={rate}"));
        Ok(())
    }
}

#[test]
fn any_series_of_changes_and_reverts_leaves_the_code_and_the_results_as_they_were() {
    let (steps, between_checks) = if is_long() { (10_000, 50) } else { (150, 10) };
    let first = or_skip!(Load::start());
    drop(first);
    let config = Config {
        cases: 1,
        max_shrink_iters: 200,
        failure_persistence: None,
        ..Config::default()
    };
    // A fixed seed, for the same sequences in every run.
    let seed = [7; 32];
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let series = proptest::collection::vec(step(), steps..=steps);
    let outcome = runner.run(&series, |steps| {
        let mut series = Series::start()?;
        for (index, step) in steps.into_iter().enumerate() {
            series.take(step)?;
            if index % between_checks == 0 {
                series.check()?;
            }
        }
        series.take(Step::RevertAll)?;
        series.check()?;
        series.load.has_its_first_code("");
        prop_assert_eq!(series.load.ends(), FINE);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
