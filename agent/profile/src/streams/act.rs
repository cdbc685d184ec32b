//! A change of workers as a rule with a guard, which a session carries out.

use std::collections::VecDeque;
use std::fmt::Write as _;

use contract::{ContractStep, WorkersStep};

use super::ModuleProcesses;
use crate::format::significant;

/// A module in a window, as far as its workers depend on it.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredModule {
    pub name: String,
    /// The share of the time in which it did not wait for another module: it computed, or waited for a CPU.
    pub holds: f64,
    /// Its activations per second.
    pub rate: f64,
    pub processes: ModuleProcesses,
    /// Calls of MPI, or bytes that were moved.
    pub counted_per_s: f64,
}

/// A change of workers, and the rule by which a session makes it.
#[derive(Clone, Debug, PartialEq)]
pub struct GuardedStep {
    pub step: ContractStep,
    pub rule: String,
    pub text: String,
}

/// The least number of activations in a window of the guard, which lasts a minute at most.
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
                counted_per_s: sum(|one| one.counted_per_s),
                ..last.clone()
            }
        };
        windows.back().into_iter().flatten().map(mean).collect()
    }

    /// How long it takes for an activation with the workers that it has; `None` if it had none.
    pub(super) fn busy_s(&self) -> Option<f64> {
        (self.rate > 0.0 && self.holds > 0.0).then(|| self.holds / self.rate)
    }
}

impl ModuleProcesses {
    /// The condition of a rule's role that has these processes.
    fn role(&self) -> String {
        match self {
            ModuleProcesses::Ranks(ranks) => {
                let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
                format!("rank in [{}]", ranks.join(", "))
            }
            ModuleProcesses::Stage { program, .. } => format!("exe == {program:?}"),
        }
    }

    /// What a rule counts of them: the number of activations is proportional to it.
    fn measure(&self) -> &'static str {
        match self {
            ModuleProcesses::Ranks(_) => "sum(mpi.calls)",
            ModuleProcesses::Stage { .. } => "sum((io.read + io.written) / 1B)",
        }
    }
}

impl GuardedStep {
    /// The step as a rule of the session; `number` distinguishes it from earlier ones.
    pub(super) fn of(
        contract: &str,
        step: ContractStep,
        all: &[MeasuredModule],
        number: usize,
    ) -> GuardedStep {
        let of_step = step
            .modules
            .iter()
            .filter_map(|one| all.iter().find(|module| module.name == one.module));
        let measured: Vec<&MeasuredModule> = of_step.collect();
        let first = step.modules.first().map_or("", |one| one.module.as_str());
        let rule = rule_name(&format!("contract-{contract}-{first}-{number}"));
        let text = text(&rule, contract, &step, &measured);
        GuardedStep { step, rule, text }
    }

    /// Whether the modules get more workers, and do not give them back.
    pub(super) fn adds(&self) -> bool {
        adds(&self.step)
    }

    /// Whether both set the number of workers of some module.
    pub fn shares_a_module(&self, other: &GuardedStep) -> bool {
        let of_other = |one: &WorkersStep| other.step.modules.iter().any(|two| two.module == one.module);
        self.step.modules.iter().any(of_other)
    }

    /// `rank1: render_workers 1 -> 3, rank3: encode_workers 1 -> 2`
    fn change(&self) -> String {
        let one = |one: &WorkersStep| format!("{}: {} {} -> {}", one.module, one.variable, one.from, one.to);
        let all: Vec<String> = self.step.modules.iter().map(one).collect();
        all.join(", ")
    }

    /// `rank1: render_workers 1 -> 3: predicted 33.3/s`, of the rate that the guard compares.
    pub(super) fn prediction(&self) -> String {
        let first = self.step.modules.first();
        let rate = first.map_or(0.0, |one| match self.adds() {
            true => one.predicted_rate,
            false => one.required_rate,
        });
        format!("{}: predicted {}/s", self.change(), significant(rate, 3))
    }

    /// `rank1: render_workers 1 -> 3; film 2.78/s is predicted, then bound by rank1`
    pub fn sentence(&self) -> String {
        let step = &self.step;
        format!(
            "{}; {} {}/s is predicted, then bound by {}",
            self.change(),
            step.feature,
            significant(step.predicted, 3),
            step.then_bound_by
        )
    }
}

fn adds(step: &ContractStep) -> bool {
    step.modules.first().is_some_and(|one| one.to > one.from)
}

/// The objective is the rate of the first module's activations, by the calls of MPI or the bytes that are moved: all
/// rates of a steady state are proportional, and a module that has to act has most to count. Where workers are given back, more than is
/// required is worth nothing.
fn text(rule: &str, contract: &str, step: &ContractStep, measured: &[&MeasuredModule]) -> String {
    let first = step.modules.first();
    let rate = measured
        .first()
        .map_or(0.0, |one| one.rate)
        .max(f64::MIN_POSITIVE);
    let every_s = (GUARD_ACTIVATIONS / rate).clamp(1.0, GUARD_WINDOW_MAX_S);
    let counted: f64 = measured.iter().map(|one| one.counted_per_s).sum();
    let measure = measured
        .first()
        .map_or("sum(mpi.calls)", |one| one.processes.measure());
    let per_s = |rate: fn(&WorkersStep) -> f64| significant(first.map_or(0.0, rate), 6);
    let names: Vec<&str> = step.modules.iter().map(|one| one.module.as_str()).collect();
    let names = names.join(" and ");
    let mut out =
        format!("rule: {rule}\nabout: Sets the workers of {names} by the contract {contract}.\nroles:\n");
    for (at, module) in measured.iter().enumerate() {
        let _ = writeln!(out, "  {}: {}", role(at), module.processes.role());
    }
    let _ = write!(
        out,
        "windows:\n  pulse: {{every: {}s}}\n\
         metrics:\n  pace: {measure} / {} / pulse.duration\n  predicted: {} / 1s\n  required: {} / 1s\n\
         tune:\n",
        significant(every_s, 3),
        significant(counted / rate, 6),
        per_s(|one| one.predicted_rate),
        per_s(|one| one.required_rate),
    );
    for (at, one) in step.modules.iter().enumerate() {
        let _ = write!(
            out,
            "  - set: {:?}\n    role: {}\n    value: {}\n    range: {} <= value <= {}\n",
            one.variable,
            role(at),
            one.to,
            one.range.0,
            one.range.1,
        );
        if let Some(at) = &one.at {
            let _ = writeln!(out, "    at: {{entry: {at:?}}}");
        }
        // Tunes that are tried together, and judged by one objective.
        if step.modules.len() > 1 {
            out.push_str("    independent: true\n");
        }
        let _ = write!(out, "    cooldown: 10s\n{}", condition(&names, one, adds(step)));
    }
    out
}

/// When a module's workers are set, and what the guard compares.
fn condition(names: &str, one: &WorkersStep, adds: bool) -> String {
    match adds {
        true => format!(
            "    when: pace < predicted\n    expect: predicted\n    \
             guard: {{maximize: pace, over: 5, undo_if_worse_by: 5%}}\n    \
             finding: \"{names}: {{pace}} activations, and {{predicted}} are predicted with {} workers in {}\"\n",
            one.to, one.module
        ),
        false => format!(
            "    when: pace >= required\n    expect: required\n    \
             guard: {{maximize: 'min(pace, required)', over: 5, undo_if_worse_by: 5%, keep: not_worse}}\n    \
             finding: \"{names}: {{pace}} activations, and {} workers in {} are enough for the {{required}} that are required\"\n",
            one.to, one.module
        ),
    }
}

/// The role of a rule that has the processes of a module.
fn role(at: usize) -> String {
    match at {
        0 => "worker".to_owned(),
        at => format!("worker_{}", at + 1),
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

#[cfg(test)]
mod tests {
    use contract::Contract;

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

    /// The rule that sets the workers of `pack`, which takes 0.48 s of a worker for an item.
    fn guarded(from: u32, to: u32, processes: ModuleProcesses) -> GuardedStep {
        let mut contract = Contract::parse(PACKING).unwrap();
        contract
            .measure("pack", 0.48 / f64::from(from), Some(from))
            .unwrap();
        let module = WorkersStep {
            module: "pack".to_owned(),
            variable: "hands".to_owned(),
            at: Some("MPI_Recv".to_owned()),
            range: (1, 8),
            from,
            to,
            required_rate: 0.0,
            predicted_rate: 0.0,
        };
        let contract::Remedy::Set(step) = contract.step(vec![module]).unwrap() else {
            panic!("{to} workers are enough");
        };
        let measured = MeasuredModule {
            name: "pack".to_owned(),
            holds: 0.96,
            rate: 4.0,
            processes,
            counted_per_s: 8.0,
        };
        GuardedStep::of("packing-up", step, &[measured], 1)
    }

    #[test]
    fn a_step_is_a_rule_with_a_guard_that_sets_what_the_contract_names_where_it_names() {
        let ranks = || ModuleProcesses::Ranks(vec![1, 2]);
        let more = guarded(2, 5, ranks());
        assert_eq!(
            more.sentence(),
            "pack: hands 2 -> 5; pack 10.4/s is predicted, then bound by pack"
        );
        assert_eq!(more.prediction(), "pack: hands 2 -> 5: predicted 10.4/s");
        let less = guarded(8, 6, ranks());
        assert_eq!(less.prediction(), "pack: hands 8 -> 6: predicted 10/s");
        let stage = ModuleProcesses::Stage {
            pid: 7,
            program: "pack".to_owned(),
        };
        let of_stage = guarded(2, 5, stage);
        let of_job = [
            "worker: rank in [1, 2]",
            "pace: sum(mpi.calls) / 2 / pulse.duration",
        ];
        let of_pipe = [
            "worker: exe == \"pack\"",
            "pace: sum((io.read + io.written) / 1B) / 2 / pulse.duration",
        ];
        let of_more = [
            "value: 5\n    range: 1 <= value <= 8\n    at: {entry: \"MPI_Recv\"}",
            "guard: {maximize: pace, over: 5, undo_if_worse_by: 5%}",
        ];
        // More than is required is worth nothing.
        let of_less = [
            "value: 6\n    range: 1 <= value <= 8",
            "guard: {maximize: 'min(pace, required)', over: 5, undo_if_worse_by: 5%, keep: not_worse}",
        ];
        let steps = [
            (more, of_job, of_more),
            (less, of_job, of_less),
            (of_stage, of_pipe, of_more),
        ];
        for (step, of_kind, parts) in steps {
            assert_eq!(step.rule, "contract-packing-up-pack-1");
            let rule = rules::CheckedRule::from_source(&step.text);
            let rule = rule.unwrap_or_else(|wrong| panic!("{}", rules::render("r", &step.text, &wrong)));
            assert_eq!(rule.name(), step.rule);
            for part in ["pulse: {every: 2.5s}"].into_iter().chain(of_kind).chain(parts) {
                assert!(step.text.contains(part), "{part}:\n{}", step.text);
            }
        }
    }
}
