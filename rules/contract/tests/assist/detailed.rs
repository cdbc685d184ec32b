//! The detailed model (§3, §4 of S3): what simulations show and the steady state leaves out.

use contract::{Scenario, Simulation, SimulationEnd};

use super::contract;

const DEFAULT: Scenario = Scenario {
    items: 1000,
    duration_s: f64::INFINITY,
    seed: 1,
    buffer: 16,
    is_paced: false,
    events_max: 1_000_000_000,
};

fn simulated(source: &str, scenario: Scenario) -> Simulation {
    let simulation = contract(source).simulate(&scenario);
    simulation.unwrap_or_else(|wrong| panic!("{}", syntax::diag::render("contract.yaml", source, &wrong)))
}

fn rate(simulation: &Simulation, feature: &str) -> f64 {
    let found = simulation.rates.iter().find(|one| one.feature == feature);
    found
        .unwrap_or_else(|| panic!("no {feature} in {simulation:?}"))
        .measured
}

#[track_caller]
fn near(is: f64, should: f64) {
    assert!((is - should).abs() <= 0.01 * should, "{is} is not {should}");
}

/// §3.1: a data-parallel module shares one activation among its workers, a task-parallel one has several. The
/// steady rates are the same, the time to the first item is not.
#[test]
fn s3_5_data_parallel_and_task_parallel_modules_have_one_rate_and_different_latencies() {
    let source = |kind: &str| {
        format!(
            "contract: farm\nstreams: {{s: {{from: A, to: B}}, t: {{from: B, to: C}}}}\nmodules:\n  A: {{gives: {{s: 1}}}}\n  \
             B: {{kind: {kind}, workers: 4, takes: [s], gives: {{t: 1}}, work: w}}\n  C: {{takes: [t]}}\nwork: {{w: {{time: 12s}}}}\n"
        )
    };
    let tasks = simulated(&source("task-parallel"), DEFAULT);
    let data = simulated(&source("data-parallel"), DEFAULT);
    assert_eq!((tasks.fill_s, data.fill_s), (Some(12.0), Some(3.0)));
    near(rate(&tasks, "B"), 1.0 / 3.0);
    near(rate(&data, "B"), 1.0 / 3.0);
    for one in tasks.resources.iter().chain(&data.resources) {
        assert_eq!(one.resource, "B");
        near(one.utilisation, 1.0);
        assert_eq!(one.expected, Some(1.0));
    }
    // A sequential module has one activation at a time, whatever waits.
    let sequential = source("sequential").replace("workers: 4, ", "");
    near(rate(&simulated(&sequential, DEFAULT), "B"), 1.0 / 12.0);
}

const FIGURE_11: &str = "
contract: figure-11
streams:
  a: {from: A, to: [B, C]}
  b: {from: B, to: D}
  c: {from: C, to: D}
modules:
  A: {gives: {a: 1}, work: w}
  B: {takes: [a], gives: {b: 1}, work: w}
  C: {takes: [a], gives: {c: 2}, work: w}
  D: {takes: [b, c], work: w}
work: {w: {time: 1s}}
";

#[test]
fn a_stall_names_who_waits_for_whom_and_the_join() {
    let simulation = simulated(FIGURE_11, DEFAULT);
    assert_eq!(simulation.ended, SimulationEnd::Stalled);
    let stall = simulation.stall.unwrap();
    assert_eq!(
        stall.waits,
        [
            "A cannot send on `a`, which has 16 items for C",
            "C cannot send on `c`, which has 16 items for D",
            "D waits for `b` from B",
            "B waits for `a` from A"
        ]
    );
    assert_eq!(
        stall.join.as_deref(),
        Some("D has items of `c`, and waits for `b` from B")
    );
    assert_eq!(stall.enough_buffer, None);
    assert!(simulation.not_expected.unwrap().contains("deadlocks"));
    // §7: a finite run may end before it stalls.
    let few = simulated(FIGURE_11, Scenario { items: 20, ..DEFAULT });
    assert_eq!((few.ended, few.stall.is_none()), (SimulationEnd::Items, true));
}

/// B sends after twelve items, which must fit beside it.
#[test]
fn buffers_that_are_too_small_are_told_apart_from_a_deadlock() {
    let source = "contract: groups\nstreams: {a: {from: A, to: [B, C]}, b: {from: B, to: D}, c: {from: C, to: D}}\nmodules:\n  \
        A: {gives: {a: 1}, work: w}\n  B: {takes: [a], gives: {b: 1/12}}\n  C: {takes: [a], gives: {c: 1/12}}\n  D: {takes: [b, c]}\nwork: {w: {time: 1s}}\n";
    assert_eq!(simulated(source, DEFAULT).ended, SimulationEnd::Items);
    let grouped = source.replace(
        "D: {takes: [b, c]}",
        "D: {takes: [b, c], gives: {d: 12}}\n  E: {takes: [d, e]}",
    );
    let grouped = grouped.replace("A: {gives: {a: 1}", "A: {gives: {a: 1, e: 1}");
    let grouped = grouped.replace(
        "c: {from: C, to: D}}",
        "c: {from: C, to: D}, d: {from: D, to: E}, e: {from: A, to: E, buffer: 4}}",
    );
    let simulation = simulated(&grouped, Scenario { buffer: 1, ..DEFAULT });
    let stall = simulation.stall.unwrap();
    assert_eq!(stall.enough_buffer, Some(4), "{stall:?}");
    assert!(
        stall
            .waits
            .contains(&"A cannot send on `e`, which has 4 items for E".to_owned()),
        "{stall:?}"
    );
}

/// What is on the way occupies the receiver's buffer, so that latency limits the rate where the buffer is small.
#[test]
fn latency_and_links_limit_rates() {
    let source = "contract: far\nstreams: {s: {from: A, to: B, item: 1MB, latency: 4s}}\nmodules:\n  A: {gives: {s: 1}, work: w}\n  B: {takes: [s]}\n\
        work: {w: {time: 1s}}\nlinks: {lan: {bandwidth: 10MB/s, streams: [s]}}\n";
    let large = simulated(source, DEFAULT);
    near(rate(&large, "B"), 1.0);
    near(large.fill_s.unwrap(), 5.1);
    let small = simulated(source, Scenario { buffer: 2, ..DEFAULT });
    near(rate(&small, "B"), 2.0 / 4.1);
    let slow = simulated(&source.replace("10MB/s", "250KB/s"), DEFAULT);
    near(rate(&slow, "B"), 0.25);
    let link = slow
        .resources
        .iter()
        .find(|one| one.resource == "link lan")
        .unwrap();
    near(link.utilisation, 1.0);
    near(link.expected.unwrap(), 1.0);
}

/// A cycle through a join begins only if items are there at the start.
#[test]
fn a_cycle_of_joins_needs_items_at_the_start() {
    let source = "contract: round\nstreams: {tasks: {from: M, to: W}, results: {from: W, to: M}}\nmodules:\n  \
        M: {takes: [results], gives: {tasks: 1}, work: w}\n  W: {takes: [tasks], gives: {results: 1}, work: w}\nwork: {w: {time: 1s}}\nrequire: [M >= 1/s]\n";
    let stall = simulated(source, DEFAULT).stall.unwrap();
    assert_eq!(
        stall.waits,
        ["M waits for `results` from W", "W waits for `tasks` from M"]
    );
    for (initial, greatest) in [(1, 0.5), (2, 1.0)] {
        let begun = source.replace("to: M}", &format!("to: M, initial: {initial}}}"));
        near(rate(&simulated(&begun, DEFAULT), "M"), greatest);
    }
}

/// Figure 12, whose cycle would fill up if the sources ran as fast as they can.
#[test]
fn paced_sources_keep_to_the_assessed_rates() {
    let source = format!("{}  - N3.a >= 1/s\n  - N5 >= 2/s\n", super::solving::THREE_CASES);
    let simulation = simulated(
        &source,
        Scenario {
            is_paced: true,
            items: 20_000,
            ..DEFAULT
        },
    );
    assert_eq!(simulation.ended, SimulationEnd::Items);
    for one in &simulation.rates {
        near(one.measured, one.expected.unwrap());
    }
}

#[test]
fn a_seed_chooses_what_is_not_determined() {
    let source = "contract: farm\nstreams: {s: {from: A, to: [B, C], kind: on-demand}}\nmodules:\n  A: {gives: {s: 1}, work: w}\n  \
        B: {takes: [s]}\n  C: {takes: [s]}\nwork: {w: {time: 1s}}\n";
    let with = |seed: u64| {
        let run = simulated(source, Scenario { seed, ..DEFAULT });
        run.rates.iter().map(|one| one.count).collect::<Vec<_>>()
    };
    assert_eq!(with(1), with(1));
    assert!((2..10).any(|seed| with(seed) != with(1)));
}

/// The contract of a module runs in its place.
#[test]
fn parts_are_simulated_as_what_they_are() {
    let source = "contract: outer\nstreams: {s: {from: A, to: P}, t: {from: P, to: Z}}\nmodules:\n  A: {gives: {s: 1}, work: a}\n  \
        P: {contract: inner, map: {s: i, t: o}}\n  Z: {takes: [t]}\nwork: {a: {time: 1s}}\ncontracts:\n  inner:\n    \
        streams: {i: {to: B}, x: {from: B, to: C}, o: {from: C}}\n    modules:\n      B: {takes: [i], gives: {x: 2}, work: b}\n      \
        C: {takes: [x], gives: {o: 1/4}, work: b}\n    work: {b: {time: 2s}}\n";
    let simulation = simulated(source, DEFAULT);
    near(rate(&simulation, "P.C"), 0.5);
    for one in &simulation.rates {
        near(one.measured, one.expected.unwrap());
    }
    let names: Vec<&str> = simulation
        .resources
        .iter()
        .map(|one| one.resource.as_str())
        .collect();
    assert_eq!(names, ["A", "P.B", "P.C"]);
}

#[test]
fn what_takes_no_time_is_refused() {
    let source = "contract: idle\nstreams: {s: {from: A, to: B}}\nmodules: {A: {gives: {s: 1}}, B: {takes: [s]}}\nrequire: [B >= 1/s]\n";
    let wrong = contract(source).simulate(&DEFAULT).unwrap_err();
    super::has(
        &syntax::diag::render("c.yaml", source, &wrong),
        &["E0181", "nothing in the contract takes time"],
    );
    let paced = simulated(
        source,
        Scenario {
            is_paced: true,
            ..DEFAULT
        },
    );
    near(rate(&paced, "B"), 1.0);
    // Beside it something takes time: two programs in one file.
    let two = source
        .replace("streams: {", "streams: {u: {from: C, to: D}, ")
        .replace(
            "modules: {",
            "modules: {C: {gives: {u: 1}, work: w}, D: {takes: [u]}, ",
        );
    let two = two.replace("require: [B >= 1/s]", "work: {w: {time: 1s}}");
    let wrong = contract(&two)
        .simulate(&Scenario {
            items: u64::MAX,
            ..DEFAULT
        })
        .unwrap_err();
    super::has(
        &syntax::diag::render("c.yaml", &two, &wrong),
        &["E0181", "no time passes: `A`, `B` take none"],
    );
}
