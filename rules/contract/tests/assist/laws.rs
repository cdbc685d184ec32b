//! Laws on generated programs: the solver against the simulator, and what must not change a result.

use contract::{Contract, Scenario, Simulation};
use proptest::prelude::*;

/// Items per activation of generated programs.
const ITEMS: [(u64, u64); 5] = [(1, 1), (2, 1), (1, 2), (1, 1), (1, 1)];

/// Kinds of modules, with numbers of workers.
const KINDS: [(&str, u32); 5] = [
    ("sequential", 1),
    ("sequential", 1),
    ("task-parallel", 3),
    ("data-parallel", 2),
    ("task-parallel", 1),
];

/// A program with one module that starts by itself.
#[derive(Clone, Debug, Default)]
struct Program {
    modules: Vec<Module>,
    streams: Vec<Stream>,
    /// It has a merge or a cycle: a sender may fill the buffer that another, which a join waits for, needs.
    may_fill_up: bool,
}

#[derive(Clone, Debug)]
struct Module {
    service_time: u64,
    kind: (&'static str, u32),
    takes: Vec<usize>,
    /// Streams, each with items per activation as a fraction.
    gives: Vec<(usize, (u64, u64))>,
}

#[derive(Clone, Debug)]
struct Stream {
    from: Vec<usize>,
    to: Vec<usize>,
    latency_ms: u64,
}

/// What an input of a module is.
#[derive(Clone, Copy, Debug)]
enum Input {
    /// A stream of its own.
    Unicast,
    /// The first stream of the sender, with other receivers.
    Broadcast,
    /// A stream that another module sends on, too.
    Merge,
}

/// Service time, kind, and inputs: the sender (as a share of the earlier modules), items per activation.
type Drawn = (u64, usize, Vec<(prop::sample::Index, usize, Input)>);

fn program() -> impl Strategy<Value = Program> {
    let shape = prop_oneof![
        4 => Just(Input::Unicast),
        3 => Just(Input::Broadcast),
        1 => Just(Input::Merge)
    ];
    let input = (any::<prop::sample::Index>(), 0..ITEMS.len(), shape);
    let module = (1_u64..20, 0..KINDS.len(), prop::collection::vec(input, 1..3));
    let cycle = prop::option::weighted(
        0.25,
        (
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            0..2_u64,
        ),
    );
    (1_u64..20, prop::collection::vec(module, 1..6), cycle).prop_map(|(first, rest, cycle)| {
        let mut program = built(first, &rest);
        if let Some((stream, sender, half)) = cycle {
            program.close(
                stream.index(program.streams.len()),
                sender,
                [(1, 2), (1, 4)][half as usize],
            );
        }
        program
    })
}

fn built(first: u64, rest: &[Drawn]) -> Program {
    let mut program = Program::default();
    program.module(first, KINDS[0]);
    for (service_time, kind, inputs) in rest {
        let module = program.module(*service_time, KINDS[*kind]);
        for (earlier, items, input) in inputs {
            let from = earlier.index(module);
            let known = program.modules[from].gives.first().map(|(stream, _)| *stream);
            let known = known.filter(|stream| !program.streams[*stream].to.contains(&module));
            match (input, known) {
                (Input::Broadcast, Some(stream)) => {
                    program.streams[stream].to.push(module);
                    program.modules[module].takes.push(stream);
                }
                (Input::Merge, _) if module > 1 => {
                    let stream = program.stream(from, module, ITEMS[*items]);
                    program.sender(stream, (from + 1) % module, (1, 1));
                }
                _ => drop(program.stream(from, module, ITEMS[*items])),
            }
        }
    }
    program
}

impl Program {
    fn module(&mut self, service_time: u64, kind: (&'static str, u32)) -> usize {
        self.modules.push(Module {
            service_time,
            kind,
            takes: Vec::new(),
            gives: Vec::new(),
        });
        self.modules.len() - 1
    }

    fn stream(&mut self, from: usize, to: usize, items: (u64, u64)) -> usize {
        let stream = self.streams.len();
        self.streams.push(Stream {
            from: Vec::new(),
            to: vec![to],
            latency_ms: self.modules[to].service_time * 50,
        });
        self.sender(stream, from, items);
        self.modules[to].takes.push(stream);
        stream
    }

    fn sender(&mut self, stream: usize, from: usize, items: (u64, u64)) {
        self.streams[stream].from.push(from);
        self.modules[from].gives.push((stream, items));
        self.may_fill_up |= self.streams[stream].from.len() > 1;
    }

    /// A receiver of a stream, or a later module, sends on it too.
    fn close(&mut self, stream: usize, sender: prop::sample::Index, items: (u64, u64)) {
        let first = self.streams[stream].to[0];
        let sender = first + sender.index(self.modules.len() - first);
        if !self.streams[stream].from.contains(&sender) {
            self.sender(stream, sender, items);
        }
    }

    /// Its contract; `backwards` with all sections in the other order.
    fn source(&self, backwards: bool, required: Option<f64>) -> String {
        let names = |letter: &str, numbers: &[usize]| {
            let names: Vec<String> = numbers.iter().map(|number| format!("{letter}{number}")).collect();
            names.join(", ")
        };
        let streams = self.streams.iter().enumerate().map(|(at, stream)| {
            format!(
                "  s{at}: {{from: [{}], to: [{}], latency: {}ms}}\n",
                names("M", &stream.from),
                names("M", &stream.to),
                stream.latency_ms
            )
        });
        let mut streams: Vec<String> = streams.collect();
        let mut modules: Vec<String> = Vec::new();
        let mut works: Vec<String> = Vec::new();
        for (at, module) in self.modules.iter().enumerate() {
            let gives = module
                .gives
                .iter()
                .map(|(to, (over, under))| format!("s{to}: {over}/{under}"));
            let gives = gives.collect::<Vec<_>>().join(", ");
            let workers = match module.kind {
                ("sequential", _) => String::new(),
                (_, workers) => format!(", workers: {workers}"),
            };
            modules.push(format!(
                "  M{at}: {{kind: {}{workers}, takes: [{}], gives: {{{gives}}}, work: w{at}}}\n",
                module.kind.0,
                names("s", &module.takes)
            ));
            works.push(format!("  w{at}: {{time: {}s}}\n", module.service_time));
        }
        if backwards {
            streams.reverse();
            modules.reverse();
            works.reverse();
        }
        let mut source = format!(
            "contract: drawn\nstreams:\n{}modules:\n{}work:\n{}",
            streams.concat(),
            modules.concat(),
            works.concat()
        );
        if let Some(rate) = required {
            source.push_str(&format!("require: [M0 >= {rate:.9}/s]\n"));
        }
        source
    }

    fn contract(&self, backwards: bool, required: Option<f64>) -> Contract {
        super::contract(&self.source(backwards, required))
    }
}

/// Items that a receiver can have waiting: few, because a program runs at other rates until its buffers are full.
const BUFFER: u64 = 4;

/// Runs a program, with larger buffers if it stalls only because they are too small. The slowest module, which
/// has this rate, has 500 activations for each item of a buffer.
fn simulated(contract: &Contract, slowest: f64, buffer: u64, scenario: Scenario) -> Simulation {
    let long = |buffer: u64| Scenario {
        items: u64::MAX,
        duration_s: 500.0 * buffer as f64 / slowest,
        buffer,
        ..scenario
    };
    let simulation = contract.simulate(&long(buffer)).expect("it can be simulated");
    match simulation.stall.as_ref().and_then(|stall| stall.enough_buffer) {
        Some(buffer) => contract.simulate(&long(buffer)).expect("it can be simulated"),
        None => simulation,
    }
}

/// Whether a run did not stall, and has the rates of the solver.
fn as_expected(run: &Simulation) -> Result<(), String> {
    let expected = |feature: &str| run.rates.iter().find(|one| one.feature == feature)?.expected;
    match &run.stall {
        Some(stall) => Err(format!("it stalls: {stall:?}")),
        None => agree(run, expected),
    }
}

/// Whether counts and expected rates agree within 1 %, but for what buffers may have at the ends.
fn agree(simulation: &Simulation, expected: impl Fn(&str) -> Option<f64>) -> Result<(), String> {
    let span_s = simulation.end_s - simulation.measured_from_s;
    for one in &simulation.rates {
        let expected = expected(&one.feature).ok_or_else(|| format!("{} has no rate", one.feature))? * span_s;
        if (one.count as f64 - expected).abs() > 0.01 * expected + 3.0 {
            return Err(format!("{}: {} is not {expected}", one.feature, one.count));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn s3_39_steady_rates_and_deadlocks_are_those_of_the_simulator(program in program(), seed in any::<u64>()) {
        let source = program.source(false, Some(1.0));
        let contract = program.contract(false, Some(1.0));
        let (assessment, capacity) = match contract.capacity() {
            Ok(found) => found,
            Err(wrong) => {
                prop_assert_eq!(wrong[0].code, "E0177");
                let run = contract.simulate(&Scenario { items: u64::MAX, duration_s: 200_000.0, buffer: BUFFER, seed, ..Scenario::default() }).unwrap();
                match wrong[0].message.split_once("in a steady state: ") {
                    // The rest, such as a cycle that returns what it is given, may go on, ten times as often.
                    Some((_, dead)) if run.stall.is_none() => for one in run.rates.iter().filter(|one| dead.split(", ").any(|name| name == one.feature)) {
                        prop_assert!(one.count < 1000, "{} goes on:\n{}", one.feature, source);
                    },
                    _ => prop_assert!(run.stall.is_some_and(|stall| !stall.waits.is_empty()), "the simulation does not stall:\n{source}"),
                }
                return Ok(());
            }
        };
        let rates = (0..program.modules.len()).filter_map(|at| assessment.rate(&format!("M{at}")));
        // A merge or a cycle that is given more than it can take may fill up and stall with any finite buffers.
        let greatest = capacity.greatest.unwrap_or_default() * if program.may_fill_up { 0.5 } else { 1.0 };
        let contract = program.contract(false, Some(greatest));
        let slowest = rates.fold(f64::INFINITY, f64::min) * greatest;
        let scenario = Scenario { is_paced: program.may_fill_up, seed, ..Scenario::default() };
        // Few items that may wait beside a long way limit the rate; with more it is that of the solver.
        let run = simulated(&contract, slowest, BUFFER, scenario);
        let agreed = as_expected(&run).or_else(|_| as_expected(&simulated(&contract, slowest, 16 * BUFFER, scenario)));
        prop_assert!(agreed.is_ok(), "{agreed:?}\n{source}");
    }

    #[test]
    fn the_order_of_a_file_changes_nothing_and_requirements_scale_all_rates(program in program()) {
        let one = program.contract(false, Some(1.0)).assess();
        let other = program.contract(true, Some(3.0)).assess();
        match (one, other) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(one.degrees_of_freedom, 1);
                for feature in &one.features {
                    let scaled = other.rate(&feature.feature).unwrap_or_default();
                    prop_assert!((feature.rate * 3.0 - scaled).abs() <= 1e-12 * scaled, "{feature:?} is not {scaled}");
                }
            }
            (Err(one), Err(other)) => prop_assert_eq!(one[0].code, other[0].code),
            _ => prop_assert!(false, "one order can be assessed and the other cannot"),
        }
    }

    /// Two producers, a merge and a required total: the least raise is what is missing.
    #[test]
    fn repairs_are_never_below_the_request_and_never_worse_than_by_hand(a in 1_u32..20, b in 1_u32..20, total in 1_u32..60) {
        let source = format!(
            "contract: merged\nstreams: {{s: {{from: [A, B], to: M}}}}\nmodules:\n  A: {{gives: {{s: 2}}}}\n  B: {{gives: {{s: 1}}}}\n  M: {{takes: [s]}}\nrequire: [A >= {a}/s, B >= {b}/s, M >= {total}/s]\n"
        );
        let assessment = super::assessed(&source);
        let rate = |feature: &str| assessment.rate(feature).unwrap_or_default();
        prop_assert!(rate("A") >= f64::from(a) && rate("B") >= f64::from(b) && rate("M") >= f64::from(total));
        prop_assert_eq!(2.0 * rate("A") + rate("B"), rate("M"));
        let raised: f64 = assessment.raised.iter().map(|one| one.to - one.from).sum();
        // A gives two items: raising it is the cheapest way to more; else M must follow.
        let missing = f64::from(total) - 2.0 * f64::from(a) - f64::from(b);
        let least = if missing > 0.0 { missing / 2.0 } else { -missing };
        prop_assert!((raised - least).abs() < 1e-9, "{raised} is not {least}");
        prop_assert!(assessment.alternatives.is_empty());
    }
}

proptest! {
    // A farm has one shape, and its simulation takes ten times as long as that of a drawn program.
    #![proptest_config(cases(200))]

    /// Receivers on demand share what is sent by how fast they are. Their share, given to the solver, determines
    /// all else.
    #[test]
    fn s3_eq_32_receivers_on_demand_share_what_is_sent(times in prop::collection::vec(1_u64..20, 2..5), source_time in 1_u64..20, seed in any::<u64>()) {
        let workers: Vec<String> = (0..times.len()).map(|at| format!("W{at}")).collect();
        let names = workers.join(", ");
        let gives = |at: usize| format!("  W{at}: {{takes: [tasks], gives: {{results: 1}}, work: w{at}}}\n");
        let source = format!(
            "contract: farm\nstreams:\n  tasks: {{from: M0, to: [{names}], kind: on-demand}}\n  results: {{from: [{names}], to: S}}\n\
             modules:\n  M0: {{gives: {{tasks: 1}}, work: w}}\n{}  S: {{takes: [results]}}\nwork:\n  w: {{time: {source_time}s}}\n{}",
            (0..times.len()).map(gives).collect::<String>(),
            times.iter().enumerate().map(|(at, time)| format!("  w{at}: {{time: {time}s}}\n")).collect::<String>(),
        );
        let contract = super::contract(&source);
        let run = contract.simulate(&Scenario { items: 4_000, buffer: BUFFER, seed, ..Scenario::default() }).unwrap();
        prop_assert!(run.stall.is_none() && run.not_expected.is_some());
        // Either the source or all receivers are used up.
        let used = |names: &[&str]| run.resources.iter().filter(|one| names.contains(&one.resource.as_str())).all(|one| one.utilisation > 0.99);
        let receivers: Vec<&str> = workers.iter().map(String::as_str).collect();
        prop_assert!(used(&["M0"]) || used(&receivers), "{:?}", run.resources);
        let mut required = contract.clone();
        for one in run.rates.iter().filter(|one| one.feature.starts_with('W')) {
            let measured = format!("{} >= {:.9}/s", one.feature, one.measured);
            prop_assert_eq!(required.require(&measured), Ok(()));
        }
        let assessment = required.assess().unwrap();
        let expected = |feature: &str| match feature {
            "tasks" => assessment.rate("M0"),
            "results" => assessment.rate("S"),
            module => assessment.rate(module),
        };
        prop_assert_eq!(agree(&run, expected), Ok(()));
    }
}

/// So many in each run of the tests, and 20 000 in the long ones.
fn cases(number: u32) -> ProptestConfig {
    ProptestConfig {
        cases: match std::env::var_os("TUNEAGENT_LONG") {
            Some(_) => 20_000,
            None => number,
        },
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
