//! Decisions of the policy about a program whose rates follow from its work and its workers.

use contract::Contract;

use crate::snapshot::outcome::GuardVerdict;

use super::*;

const PACKED: &str = "
contract: packed
parameters: {renderers: 1, packers: 1}
streams: {tasks: {from: source, to: render}, pictures: {from: render, to: pack}}
modules:
  source: {gives: {tasks: 1}}
  render: {takes: [tasks], kind: task-parallel, gives: {pictures: 1}, workers: renderers}
  pack: {takes: [pictures], kind: task-parallel, workers: packers}
require: [pictures >= 10/s]
adapt:
  render: {set: renderers, range: 1..16, at: MPI_Recv}
  pack: {set: packers, range: 1..16, at: MPI_Recv}
";

/// A source, renderers and packers: seconds of work for an item, and the workers of each.
struct ModelProgram {
    work: [f64; 3],
    workers: [u32; 3],
    watch: ContractWatch,
    policy: Policy,
    windows: u32,
    /// What becomes of a change when its guard has judged it.
    verdict: GuardVerdict,
    changes: Vec<ReportedChange>,
    /// What was done and said.
    lines: Vec<String>,
}

const MODULES: [&str; 3] = ["source", "render", "pack"];

impl ModelProgram {
    fn of(work: [f64; 3], workers: [u32; 3]) -> ModelProgram {
        let contract = Contract::parse(PACKED).unwrap();
        let (assessment, _) = contract.capacity().unwrap();
        ModelProgram {
            work,
            workers,
            watch: ContractWatch::of(&contract, &assessment).unwrap(),
            policy: Policy::of(contract),
            windows: 0,
            verdict: GuardVerdict::Kept,
            changes: Vec::new(),
            lines: Vec::new(),
        }
    }

    /// Four seconds: the module that needs longest for an item is busy, those before it are blocked, and those
    /// behind it are starved.
    fn seen(&self) -> ObservedGraph {
        let needs: Vec<f64> = (0..3)
            .map(|at| self.work[at] / f64::from(self.workers[at]))
            .collect();
        let slowest = (0..3).max_by(|a, b| needs[*a].total_cmp(&needs[*b])).unwrap();
        let rate = 1.0 / needs[slowest];
        let module = |at: usize| {
            let busy = rate * needs[at];
            let [starved, blocked] = if at < slowest {
                [0.0, 1.0 - busy]
            } else {
                [1.0 - busy, 0.0]
            };
            ObservedModule {
                name: MODULES[at].to_owned(),
                about: String::new(),
                shares: TimeShares::of(busy, 0.0, 0.0, starved, blocked),
                workers: 1,
                processes: ModuleProcesses::Ranks(vec![at as u32]),
                counted: rate * 4.0,
                has_computations: false,
            }
        };
        let stream = |at: usize| {
            let end = |module| {
                vec![End {
                    module,
                    items: vec![rate; 4],
                }]
            };
            ObservedStream {
                name: format!("from {}", MODULES[at]),
                items_are: ItemsAre::Messages,
                item_bytes: 1.0,
                is_on_demand: false,
                item: Some("1B".to_owned()),
                sent: end(at),
                received: end(at + 1),
                basis: String::new(),
            }
        };
        ObservedGraph {
            slices_ns: vec![1_000_000_000; 4],
            modules: (0..3).map(module).collect(),
            streams: (0..2).map(stream).collect(),
            doubts: Vec::new(),
        }
    }

    /// Some windows: decisions are carried out at once, and judged in the next window.
    fn runs(&mut self, windows: u32) {
        for _ in 0..windows {
            self.windows += 1;
            let seen = self.seen();
            self.watch.window(f64::from(4 * self.windows), &seen).unwrap();
            if self.policy.is_on_trial() {
                for change in &mut self.changes {
                    change.guard = Some(ReportedGuard {
                        verdict: self.verdict,
                        text: String::new(),
                    });
                }
                self.policy.judge(&mut self.watch, &self.changes).unwrap();
                if self.verdict != GuardVerdict::Kept {
                    self.set(|one| one.from);
                }
                continue;
            }
            let workers = [1, 2].map(|at| (MODULES[at].to_owned(), Ok(self.workers[at])));
            match self
                .policy
                .decide(&self.watch, &workers.into_iter().collect())
                .unwrap()
            {
                PolicyAction::Wait => {}
                PolicyAction::Say(line) => self.lines.push(line),
                PolicyAction::Make(step) => {
                    self.lines.push(step.sentence());
                    self.changes.push(ReportedChange {
                        rule: Some(step.rule),
                        pid: 1,
                        outcome: "written".to_owned(),
                        guard: None,
                    });
                    self.set(|one| one.to);
                }
            }
        }
    }

    /// The workers of the last step's modules.
    fn set(&mut self, number: fn(&contract::WorkersStep) -> u32) {
        let step = self.policy.steps().last().unwrap().step.clone();
        for one in &step.modules {
            let at = MODULES.iter().position(|module| *module == one.module).unwrap();
            self.workers[at] = number(one);
        }
    }

    /// What was done and said since the last time.
    fn said(&mut self, windows: u32) -> Vec<String> {
        self.runs(windows);
        std::mem::take(&mut self.lines)
    }
}

#[test]
fn workers_follow_the_load_with_one_change_a_phase_and_the_contract_holds_again() {
    let mut program = ModelProgram::of([0.02, 0.09, 0.01], [1, 1, 1]);
    assert_eq!(program.said(20), [""; 0], "it holds");
    // Pictures have become heavier: render is compute-bound, and the others wait for it.
    program.work[1] = 0.35;
    assert_eq!(
        program.said(20),
        ["render: renderers 1 -> 4; pictures 11.4/s is predicted, then bound by render"]
    );
    assert!(!program.watch.summary().rates.iter().any(|rate| rate.is_violated));
    // With one less it would not hold.
    assert!(3.0 / program.work[1] < 10.0);
    program.work[1] = 0.185;
    assert_eq!(
        program.said(20),
        ["render: renderers 4 -> 3; pictures 16.2/s is predicted, then bound by render"]
    );
    // A little less work is the same phase, though two would be enough now.
    program.work[1] = 0.18;
    assert_eq!(program.said(20), [""; 0]);
    program.work[1] = 0.16;
    assert_eq!(
        program.said(20),
        ["render: renderers 3 -> 2; pictures 12.5/s is predicted, then bound by render"]
    );
    program.work[1] = 0.35;
    assert_eq!(
        program.said(20),
        ["render: renderers 2 -> 4; pictures 11.4/s is predicted, then bound by render"]
    );
}

#[test]
fn workers_are_given_back_where_the_source_is_slow_and_not_below_what_is_required() {
    // The source delivers 12/s, and eight renderers could deliver 33/s.
    let mut program = ModelProgram::of([1.0 / 12.0, 0.24, 0.15], [1, 8, 4]);
    assert_eq!(
        program.said(20),
        ["render: renderers 8 -> 3, pack: packers 4 -> 2; pictures 12/s is predicted, then bound by source"]
    );
    let step = program.policy.steps().last().unwrap();
    assert_eq!(
        step.prediction(),
        "render: renderers 8 -> 3, pack: packers 4 -> 2: predicted 10/s"
    );
    assert!(
        !program
            .watch
            .summary()
            .rates
            .iter()
            .any(|rate| rate.windows_violated > 0)
    );
    // A source that is too slow is no reason to take workers from others, nor to add some.
    let mut program = ModelProgram::of([0.2, 0.05, 0.05], [1, 8, 1]);
    assert_eq!(
        program.said(20),
        ["nothing is changed: the contract states nothing to adapt in source"]
    );
}

#[test]
fn what_did_not_help_or_did_harm_is_left_alone() {
    let mut program = ModelProgram::of([0.02, 0.35, 0.01], [1, 1, 1]);
    program.verdict = GuardVerdict::Reverted;
    assert_eq!(program.said(30).len(), 1, "it is not tried again");
    // It may give workers back, and once that is reverted it does not try again.
    program.workers[1] = 16;
    assert_eq!(
        program.said(30),
        ["render: renderers 16 -> 4; pictures 11.4/s is predicted, then bound by render"]
    );
    // New requirements are a new beginning.
    let contract = Contract::parse(&PACKED.replace("10/s", "8/s")).unwrap();
    program.policy.require(contract);
    assert_eq!(program.said(30).len(), 1);
}

#[test]
fn several_modules_are_set_in_one_step_where_one_alone_only_moves_the_bottleneck() {
    let mut program = ModelProgram::of([0.02, 0.35, 0.15], [1, 1, 1]);
    assert_eq!(
        program.said(20),
        [
            "render: renderers 1 -> 4, pack: packers 1 -> 2; pictures 11.4/s is predicted, then bound by render"
        ]
    );
    let step = program.policy.steps()[0].clone();
    let rule = rules::CheckedRule::from_source(&step.text);
    let rule = rule.unwrap_or_else(|wrong| panic!("{}", rules::render("r", &step.text, &wrong)));
    assert_eq!(rule.name(), "contract-packed-render-1");
    for part in [
        "worker: rank in [1]\n  worker_2: rank in [2]",
        "role: worker\n    value: 4",
        "role: worker_2\n    value: 2",
        "independent: true",
    ] {
        assert!(step.text.contains(part), "{part}:\n{}", step.text);
    }
    // The source binds, whatever the others have.
    let mut program = ModelProgram::of([0.12, 0.35, 0.15], [1, 1, 1]);
    assert_eq!(
        program.said(20),
        [
            "nothing is changed: pictures is required at 10/s, and can be at most 8.333/s with 4 workers in render and 2 \
             in pack, bound by source"
        ]
    );
}

#[test]
fn a_number_of_workers_that_cannot_be_read_is_a_reason_to_do_nothing() {
    let mut program = ModelProgram::of([0.02, 0.35, 0.01], [1, 1, 1]);
    program.watch.window(1.0, &program.seen()).unwrap();
    program.watch.window(2.0, &program.seen()).unwrap();
    program.watch.window(3.0, &program.seen()).unwrap();
    let unknown = UnknownWorkers {
        module: "render".to_owned(),
        variable: "renderers".to_owned(),
        value: None,
    };
    let workers = [("render".to_owned(), Err(unknown))];
    let workers: WorkerCounts = workers.into_iter().collect();
    let decision = program.policy.decide(&program.watch, &workers).unwrap();
    assert_eq!(
        decision,
        PolicyAction::Say(
            "nothing is changed: renderers of render is no number of workers: it has no such variable"
                .to_owned()
        )
    );
    let decision = program.policy.decide(&program.watch, &workers).unwrap();
    assert_eq!(decision, PolicyAction::Wait, "it was said");
}
