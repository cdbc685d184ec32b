//! Machines for all modules together.

use contract::{Contract, MachineMap};

use super::capacity::FILM;
use super::{contract, has};

fn mapped(source: &str) -> MachineMap {
    let found = contract(source).mapping();
    found.unwrap_or_else(|wrong| panic!("{}", syntax::diag::render("contract.yaml", source, &wrong)))
}

fn refused(source: &str) -> String {
    let wrong = contract(source).mapping().expect_err("it can be mapped");
    syntax::diag::render("contract.yaml", source, &wrong)
}

/// `C2: 20 pianosa`, of each module.
fn shown(mapping: &MachineMap) -> Vec<String> {
    let of_one = |one: &contract::Size| {
        let machines = one.machines.iter().map(|(kind, count)| format!("{count} {kind}"));
        format!("{}: {}", one.module, machines.collect::<Vec<_>>().join(" + "))
    };
    mapping.modules.iter().map(of_one).collect()
}

#[test]
fn modules_compete_for_the_machines_of_a_kind() {
    // By itself each module has enough: 20 and 1.
    let with = |count: u32| FILM.replace("pianosa: {count: 32,", &format!("pianosa: {{count: {count},"));
    assert_eq!(shown(&mapped(&with(21))), ["C2: 20 pianosa", "C4: 1 pianosa"]);
    let (_, sizes) = contract(&with(20)).sizes().unwrap();
    assert_eq!((sizes[0].workers, &sizes[0].insufficient), (20, &None));
    // 19 of 19.27 s are left for it.
    has(
        &refused(&with(20)),
        &["E0180", "`pictures` is required at 1/s, and can be at most 0.986"],
    );
    has(&refused(&with(1)), &["E0179", "fewer machines than modules"]);
}

#[test]
fn a_module_without_machines_gets_the_cheapest_that_meets_its_conditions() {
    let free = FILM
        .replace(", place: {machines: pianosa}}\n  C3", "}\n  C3")
        .replace("place: {machines: pianosa}", "place: {has: [ffmpeg]}")
        .replace("marte: {power", "marte: {cost: 0.5, has: [ffmpeg], power")
        .replace("izar: {power", "izar: {has: [ffmpeg], power")
        .replace("fuji: {count: 100,", "fuji: {count: 100, cost: 0.9,");
    let mapping = mapped(&free);
    // Six machines of 5.6 s render a picture a second.
    assert_eq!(shown(&mapping), ["C2: 6 fuji", "C4: 1 marte"]);
    near!(mapping.cost => 6.0 * 0.9 + 0.5, 9, "cost");
    let most = mapping.capacity.resources.iter().map(|one| one.utilisation);
    assert!(most.fold(0.0, f64::max) <= 1.0, "{:?}", mapping.capacity);
    let nowhere = free.replace("[ffmpeg]}}\n  C5", "[x265]}}\n  C5");
    has(
        &refused(&nowhere),
        &["E0179", "no machine fits `C4`: `pianosa` does not have `x265`"],
    );
}

/// Two modules with these works, on machines, at one item a second.
fn two(works: [f64; 2], parallel: [&str; 2], machines: &str) -> String {
    format!(
        "
contract: two
streams: {{s: {{from: A, to: B}}}}
modules:
  A: {{gives: {{s: 1}}, work: a{}}}
  B: {{takes: [s], work: b{}}}
work: {{a: {{flop: {}}}, b: {{flop: {}}}}}
machines:
{machines}
require: [s >= 1/s]
",
        parallel[0], parallel[1], works[0], works[1]
    )
}

#[test]
fn one_machine_of_its_own_kind_is_shared_as_far_as_its_time_reaches() {
    let machines = "  big: {power: {flop: 10/s}, cost: 3}\n  small: {count: 5, power: {flop: 5/s}}";
    for (works, expected, cost) in [
        ([6.0, 4.0], ["A: 1 big", "B: 1 big"], 3.0),
        ([6.0, 4.5], ["A: 1 big", "B: 1 small"], 4.0),
        ([5.0, 4.0], ["A: 1 small", "B: 1 small"], 2.0),
    ] {
        let mapping = mapped(&two(works, ["", ""], machines));
        assert_eq!(
            (shown(&mapping).as_slice(), mapping.cost),
            (&expected.map(str::to_owned)[..], cost)
        );
    }
}

#[test]
fn the_efficiency_of_so_many_workers_and_their_range_are_kept() {
    let machines = "  m: {count: 9, power: {flop: 1/s}}";
    let parallel = ", kind: task-parallel, workers: 1, efficiency: {1: 1, 2: 0.9, 4: 0.7, 8: 0.5}";
    // Four at 70 % do 2.8, of five at 65 % 3.25.
    let mapping = mapped(&two([3.0, 0.5], [parallel, ""], machines));
    assert_eq!(shown(&mapping), ["A: 5 m", "B: 1 m"]);
    has(
        &refused(&two([4.5, 0.5], [parallel, ""], machines)),
        &["at most 0.88"],
    );
    let ranged = two([3.0, 0.5], [", kind: task-parallel, workers: n", ""], machines)
        + "adapt: {A: {set: n, range: 4..6}}\n";
    let mapping = mapped(&ranged);
    assert_eq!(shown(&mapping), ["A: 4 m", "B: 1 m"]);
    assert_eq!(mapping.modules[0].set.as_deref(), Some("n"));
}

#[test]
fn no_other_choice_is_cheaper() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut next = |most: u64| random.u64(..most);
    for _ in 0..200 {
        let works = [1 + next(9), 1 + next(9)];
        let (counts, powers) = ([2 + next(3), 2 + next(3)], [1 + next(4), 1 + next(4)]);
        let costs = [1 + next(5), 1 + next(5)];
        let machine = |at: usize| {
            format!(
                "  m{at}: {{count: {}, power: {{flop: {}/s}}, cost: {}}}",
                counts[at], powers[at], costs[at]
            )
        };
        let source = two(
            works.map(|work| work as f64),
            [", kind: task-parallel, workers: 1"; 2],
            &format!("{}\n{}", machine(0), machine(1)),
        );
        let mut least = None;
        for a in (0..=counts[0]).flat_map(|one| (0..=counts[1]).map(move |two| [one, two])) {
            for b in (0..=counts[0] - a[0]).flat_map(|one| (0..=counts[1] - a[1]).map(move |two| [one, two]))
            {
                let power = |of: [u64; 2]| of[0] * powers[0] + of[1] * powers[1];
                let cost = (a[0] + b[0]) * costs[0] + (a[1] + b[1]) * costs[1];
                if power(a) >= works[0] && power(b) >= works[1] && least.is_none_or(|known| cost < known) {
                    least = Some(cost);
                }
            }
        }
        let found = Contract::parse(&source).unwrap().mapping();
        assert_eq!(
            found.ok().map(|mapping| mapping.cost),
            least.map(|cost| cost as f64),
            "{source}"
        );
    }
}
