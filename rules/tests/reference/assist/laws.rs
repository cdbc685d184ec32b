//! Laws on generated programs: the solver against the simulator, and what must not change a result.

use proptest::prelude::*;
use rules::contract::Contract;

use super::simulator::{Module, Stream, run};

/// Items per activation of generated programs.
const ITEMS: [(u64, u64); 5] = [(1, 1), (2, 1), (1, 2), (1, 1), (1, 1)];

/// A program with one module that starts by itself.
#[derive(Clone, Debug)]
struct Program {
    modules: Vec<Module>,
    streams: Vec<Stream>,
    from: Vec<usize>,
}

/// For each module behind the first: service time, one or two earlier modules that it takes from (as a share of
/// their number), items per activation, and whether it joins a stream that exists.
type Drawn = (u64, Vec<(prop::sample::Index, usize, bool)>);

fn program() -> impl Strategy<Value = Program> {
    let input = (any::<prop::sample::Index>(), 0..ITEMS.len(), any::<bool>());
    let module = (1_u64..20, prop::collection::vec(input, 1..3));
    (1_u64..20, prop::collection::vec(module, 1..6)).prop_map(|(first, rest)| built(first, &rest))
}

fn built(first: u64, rest: &[Drawn]) -> Program {
    let source = Module {
        service_time: first,
        takes: Vec::new(),
        gives: Vec::new(),
    };
    let mut program = Program {
        modules: vec![source],
        streams: Vec::new(),
        from: Vec::new(),
    };
    for (at, (service_time, inputs)) in rest.iter().enumerate() {
        let module = at + 1;
        let mut takes = Vec::new();
        for (earlier, items, broadcast) in inputs {
            let from = earlier.index(module);
            let known = program.modules[from].gives.first().map(|(stream, _)| *stream);
            match known {
                Some(stream) if *broadcast && !program.streams[stream].to.contains(&module) => {
                    program.streams[stream].to.push(module);
                    takes.push(stream);
                }
                _ => {
                    let stream = program.streams.len();
                    program.streams.push(Stream { to: vec![module] });
                    program.from.push(from);
                    program.modules[from].gives.push((stream, ITEMS[*items]));
                    takes.push(stream);
                }
            }
        }
        program.modules.push(Module {
            service_time: *service_time,
            takes,
            gives: Vec::new(),
        });
    }
    program
}

impl Program {
    /// Its contract; `backwards` with all sections in the other order.
    fn source(&self, backwards: bool, required: Option<u32>) -> String {
        let names = |streams: &[usize]| {
            let names: Vec<String> = streams.iter().map(|stream| format!("s{stream}")).collect();
            names.join(", ")
        };
        let mut streams: Vec<String> = (0..self.streams.len())
            .map(|stream| {
                let to: Vec<String> = self.streams[stream]
                    .to
                    .iter()
                    .map(|to| format!("M{to}"))
                    .collect();
                format!(
                    "  s{stream}: {{from: M{}, to: [{}]}}\n",
                    self.from[stream],
                    to.join(", ")
                )
            })
            .collect();
        let mut modules: Vec<String> = Vec::new();
        let mut works: Vec<String> = Vec::new();
        for (at, module) in self.modules.iter().enumerate() {
            let gives = module
                .gives
                .iter()
                .map(|(to, (over, under))| format!("s{to}: {over}/{under}"));
            let gives = gives.collect::<Vec<_>>().join(", ");
            modules.push(format!(
                "  M{at}: {{takes: [{}], gives: {{{gives}}}, work: w{at}}}\n",
                names(&module.takes)
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
            source.push_str(&format!("require: [M0 >= {rate}/s]\n"));
        }
        source
    }

    fn contract(&self, backwards: bool, required: Option<u32>) -> Contract {
        super::contract(&self.source(backwards, required))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn s3_39_steady_rates_and_deadlocks_are_those_of_the_simulator(program in program()) {
        const END: u64 = 100_000;
        let run = run(&program.modules, &program.streams, 40, END);
        match program.contract(false, Some(1)).capacity() {
            Err(wrong) => {
                prop_assert_eq!(wrong[0].code, "E0177");
                prop_assert!(run.stalled, "the simulation does not stall:\n{}", program.source(false, Some(1)));
            }
            Ok((assessment, capacity)) => {
                prop_assert!(!run.stalled, "the simulation stalls:\n{}", program.source(false, Some(1)));
                let greatest = capacity.greatest.unwrap_or_default();
                for (at, count) in run.counts.iter().enumerate() {
                    let expected = assessment.rate(&format!("M{at}")).unwrap_or_default() * greatest * END as f64 / 2.0;
                    let difference = (*count as f64 - expected).abs();
                    prop_assert!(difference <= 0.01 * expected + 3.0, "M{at}: {count} is not {expected}\n{}", program.source(false, Some(1)));
                }
            }
        }
    }

    #[test]
    fn the_order_of_a_file_changes_nothing_and_requirements_scale_all_rates(program in program()) {
        let one = program.contract(false, Some(1)).assess();
        let other = program.contract(true, Some(3)).assess();
        match (one, other) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(one.degrees_of_freedom, 1);
                for feature in &one.features {
                    prop_assert_eq!(Some(feature.rate * 3.0), other.rate(&feature.feature));
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

fn cases() -> u32 {
    match std::env::var_os("TUNEAGENT_LONG") {
        Some(_) => 20_000,
        None => 200,
    }
}
