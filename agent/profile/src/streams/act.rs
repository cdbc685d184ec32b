//! What is done about a contract that does not hold: the least number of workers by its model, with measured
//! service times, as a rule with a guard.

use std::collections::VecDeque;
use std::fmt::Write as _;

use rules::Diagnostic;
use rules::contract::{Contract, Remedy, WorkersStep};

use crate::format::significant;

/// A module in the newest windows, as far as its workers depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredModule {
    pub name: String,
    /// The share of the time in which it waited for no other: it computed, or waited for a CPU, which it does with
    /// other workers as well.
    pub holds: f64,
    /// Its activations per second.
    pub rate: f64,
    /// The ranks of an MPI job that it consists of.
    pub ranks: Vec<u32>,
    pub calls_per_s: f64,
}

/// A change of workers, and the rule by which a session makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardedStep {
    pub step: WorkersStep,
    pub rule: String,
    pub text: String,
}

/// Activations that a window of the guard has at least, if it has not more than a minute.
const GUARD_ACTIVATIONS: f64 = 10.0;
const GUARD_WINDOW_MAX_S: f64 = 60.0;

impl MeasuredModule {
    /// The modules with their means over windows.
    pub(super) fn means(windows: &VecDeque<Vec<MeasuredModule>>) -> Vec<MeasuredModule> {
        let number = windows.len().max(1) as f64;
        let mean = |last: &MeasuredModule| {
            let same = windows.iter().flatten().filter(|one| one.name == last.name);
            let sum = |value: fn(&MeasuredModule) -> f64| same.clone().map(value).sum::<f64>() / number;
            MeasuredModule {
                holds: sum(|one| one.holds),
                rate: sum(|one| one.rate),
                calls_per_s: sum(|one| one.calls_per_s),
                ..last.clone()
            }
        };
        windows.back().into_iter().flatten().map(mean).collect()
    }

    /// What is to be done so that `contract` holds, if this module is the one to act and has as many workers now.
    /// The measured times of all modules replace those of the contract.
    ///
    /// # Errors
    /// If the contract cannot be assessed then.
    pub fn remedy(
        &self,
        contract: &Contract,
        all: &[MeasuredModule],
        workers: u32,
    ) -> Result<Remedy, Vec<Diagnostic>> {
        let mut contract = contract.clone();
        for one in all.iter().filter(|one| one.rate > 0.0 && one.holds > 0.0) {
            let count = (one.name == self.name).then_some(workers);
            if let Err(why) = contract.measure(&one.name, one.holds / one.rate, count) {
                return Ok(Remedy::Nothing(why));
            }
        }
        contract.remedy(&self.name)
    }

    /// The step as a rule of the session; `number` distinguishes it from earlier ones.
    pub fn guarded(&self, contract: &str, step: WorkersStep, number: usize) -> GuardedStep {
        let rule = rule_name(&format!("contract-{contract}-{}-{number}", self.name));
        let text = self.rule(&rule, contract, &step);
        GuardedStep { step, rule, text }
    }

    /// The objective is the rate of the module's own activations, by its calls of MPI: all rates of a steady state
    /// are proportional, and it has most to count.
    fn rule(&self, rule: &str, contract: &str, step: &WorkersStep) -> String {
        let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        let every_s = (GUARD_ACTIVATIONS / self.rate.max(f64::MIN_POSITIVE)).clamp(1.0, GUARD_WINDOW_MAX_S);
        let calls = self.calls_per_s / self.rate.max(f64::MIN_POSITIVE);
        let (name, variable) = (&step.module, &step.variable);
        let mut out = format!(
            "rule: {rule}\nabout: Sets the workers of {name}, so that the contract {contract} can hold.\n\
             roles:\n  worker: rank in [{}]\n\
             windows:\n  pulse: {{every: {}s}}\n\
             metrics:\n  pace: sum(mpi.calls) / {} / pulse.duration\n  promised: {} / 1s\n\
             tune:\n  - set: {variable:?}\n    role: worker\n    value: {}\n    range: {} <= value <= {}\n",
            ranks.join(", "),
            significant(every_s, 3),
            significant(calls, 6),
            significant(step.module_rate, 6),
            step.to,
            step.range.0,
            step.range.1,
        );
        if let Some(at) = &step.at {
            let _ = writeln!(out, "    at: {{entry: {at:?}}}");
        }
        let _ = write!(
            out,
            "    when: pace < promised\n    expect: promised\n    cooldown: 10s\n    \
             guard: {{maximize: pace, over: 5, undo_if_worse_by: 5%}}\n    \
             finding: \"{name} makes {{pace}} activations, and with {} workers {{promised}} are promised\"\n",
            step.to
        );
        out
    }
}

/// Small letters, digits and single dashes.
fn rule_name(text: &str) -> String {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<String> = words
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words.join("-")
}

impl GuardedStep {
    fn change(&self) -> String {
        let step = &self.step;
        format!("{}: {} {} -> {}", step.module, step.variable, step.from, step.to)
    }

    /// `rank1: render_workers 1 -> 3: promised 33.3/s`, of the rate that the guard compares.
    pub fn promise(&self) -> String {
        let rate = significant(self.step.module_rate, 3);
        format!("{}: promised {rate}/s", self.change())
    }

    /// `rank1: render_workers 1 -> 3; film 2.78/s is promised, then bound by rank1`
    pub fn sentence(&self) -> String {
        let step = &self.step;
        format!(
            "{}; {} {}/s is promised, then bound by {}",
            self.change(),
            step.feature,
            significant(step.promised, 3),
            step.then_bound_by
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKING: &str = "
contract: packing-up
parameters: {hands: 2}
streams: {s: {from: make, to: pack}}
modules:
  make: {gives: {s: 1}}
  pack: {takes: [s], kind: task-parallel, workers: hands}
require: [pack >= 10/s]
adapt: {pack: {set: hands, range: 1..8, at: MPI_Recv}}
";

    fn module(name: &str, holds: f64) -> MeasuredModule {
        MeasuredModule {
            name: name.to_owned(),
            holds,
            rate: 4.0,
            ranks: vec![1, 2],
            calls_per_s: 8.0,
        }
    }

    #[test]
    fn a_step_is_a_rule_with_a_guard_that_sets_what_the_contract_names_where_it_names() {
        let contract = Contract::parse(PACKING).unwrap();
        let all = [module("make", 0.1), module("pack", 0.96)];
        let Remedy::Set(step) = all[1].remedy(&contract, &all, 2).unwrap() else {
            panic!("five workers are enough");
        };
        let guarded = all[1].guarded("packing-up", step, 1);
        assert_eq!(
            guarded.sentence(),
            "pack: hands 2 -> 5; pack 10.4/s is promised, then bound by pack"
        );
        assert_eq!(guarded.promise(), "pack: hands 2 -> 5: promised 10.4/s");
        assert_eq!(guarded.rule, "contract-packing-up-pack-1");
        let rule = rules::CheckedRule::from_source(&guarded.text);
        let rule = rule.unwrap_or_else(|wrong| panic!("{}", rules::render("r", &guarded.text, &wrong)));
        assert_eq!(rule.name(), guarded.rule);
        for line in [
            "worker: rank in [1, 2]",
            "pulse: {every: 2.5s}",
            "pace: sum(mpi.calls) / 2 / pulse.duration",
            "value: 5\n    range: 1 <= value <= 8\n    at: {entry: \"MPI_Recv\"}",
            "guard: {maximize: pace, over: 5, undo_if_worse_by: 5%}",
        ] {
            assert!(guarded.text.contains(line), "{line}:\n{}", guarded.text);
        }
    }

    #[test]
    fn the_times_of_all_modules_are_those_that_were_measured() {
        let contract = Contract::parse(PACKING).unwrap();
        // The source is nearly as slow: it binds however many pack.
        let all = [module("make", 0.9), module("pack", 0.96)];
        let Remedy::Nothing(why) = all[1].remedy(&contract, &all, 2).unwrap() else {
            panic!("the source binds");
        };
        assert_eq!(
            why,
            "pack is required at 10/s, and can be at most 4.444/s with 5 workers in pack, bound by make"
        );
    }
}
