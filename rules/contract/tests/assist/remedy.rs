//! The least change of workers that lets a contract hold, and workers that it does not need.

use std::collections::BTreeMap;

use contract::{Contract, ContractStep, Remedy, StatedNumber};

use super::capacity::{FILM, capacity, used};
use super::contract;

/// What to do about C2 when it was busy for as long per picture, with as many workers.
fn remedy(source: &str, busy_s: f64, workers: u32) -> Remedy {
    let mut contract = contract(source);
    let measured = contract.measure("C2", busy_s, Some(workers));
    measured.unwrap_or_else(|why| panic!("{why}"));
    let now = [("C2".to_owned(), workers)].into_iter().collect();
    contract
        .remedy("C2", &now)
        .unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

#[test]
fn s3_34_the_least_number_of_workers_follows_from_measured_times() {
    // 19.5 s of a worker for each picture.
    let Remedy::Set(step) = remedy(FILM, 1.95, 10) else {
        panic!("twenty workers are enough");
    };
    let [render] = step.modules.as_slice() else {
        panic!("{step:?}")
    };
    let set = (render.variable.as_str(), render.from, render.to);
    assert_eq!(set, ("nrender", 10, 20));
    assert!((step.predicted - 20.0 / 19.5).abs() < 1e-9, "{step:?}");
    assert_eq!(
        (render.required_rate, render.predicted_rate),
        (1.0, step.predicted)
    );
    assert_eq!((step.feature.as_str(), render.range), ("pictures", (1, 100)));
    assert_eq!(step.then_bound_by, "C2");
    // One worker less cannot deliver it.
    let mut less = contract(FILM);
    less.measure("C2", 1.95, Some(10)).unwrap();
    less.suppose("C2.workers = 19").unwrap();
    assert!(used(&capacity(&less), "C2") > 1.0);
}

/// Rendering and packing, each with workers that can be set; `RANGE` is that of packing.
const PACKED: &str = "
contract: packed
parameters: {renderers: 2, packers: 1}
streams: {pictures: {from: render, to: pack}, packs: {from: pack, to: store}}
modules:
  render: {kind: task-parallel, gives: {pictures: 1}, workers: renderers}
  pack: {kind: task-parallel, takes: [pictures], gives: {packs: 1}, workers: packers, efficiency: {1: 1, 2: 1, 8: 0.5}}
  store: {takes: [packs]}
require: [packs >= 10/s]
adapt:
  render: {set: renderers, range: 1..16}
  pack: {set: packers, range: RANGE}
";

/// Seconds of work for each picture, by module; with two renderers and one packer, unless stated otherwise.
fn packed(range: &str, work: [f64; 2], now: [u32; 2]) -> (Contract, BTreeMap<String, u32>) {
    let mut contract = contract(&PACKED.replace("RANGE", range));
    let modules = ["render", "pack"];
    for ((module, work), count) in modules.iter().zip(work).zip(now) {
        let measured = contract.measure(module, work / f64::from(count), Some(count));
        measured.unwrap_or_else(|why| panic!("{why}"));
    }
    (
        contract,
        modules.map(str::to_owned).into_iter().zip(now).collect(),
    )
}

/// A module with its workers before and after a step.
type Set<'a> = (&'a str, u32, u32);

fn set(step: &ContractStep) -> Vec<Set<'_>> {
    let modules = step.modules.iter();
    modules
        .map(|one| (one.module.as_str(), one.from, one.to))
        .collect()
}

#[test]
fn s3_34_several_modules_get_workers_where_one_alone_moves_the_bottleneck() {
    // Two renderers deliver 5/s, one packer 8/s.
    let (contract, now) = packed("1..8", [0.4, 0.125], [2, 1]);
    let Ok(Remedy::Set(step)) = contract.remedy("render", &now) else {
        panic!("four renderers and two packers are enough");
    };
    assert_eq!(set(&step), [("render", 2, 4), ("pack", 1, 2)]);
    assert_eq!(
        (step.predicted, step.then_bound_by.as_str()),
        (10.0, "render"),
        "{step:?}"
    );
    // A packer that is fast enough stays alone.
    let (contract, now) = packed("1..8", [0.4, 0.1], [2, 1]);
    let Ok(Remedy::Set(step)) = contract.remedy("render", &now) else {
        panic!("four renderers are enough");
    };
    assert_eq!(set(&step), [("render", 2, 4)]);
    // Packing may not be changed, and binds.
    let (contract, now) = packed("1..1", [0.4, 0.125], [2, 1]);
    let Ok(Remedy::Nothing(why)) = contract.remedy("render", &now) else {
        panic!("packing cannot deliver it");
    };
    assert!(
        why.contains("at most 8/s with 4 workers in render, bound by pack"),
        "{why}"
    );
    // No number of packers is enough, since they share what they need.
    let (contract, now) = packed("1..8", [0.4, 0.9], [2, 1]);
    let Ok(Remedy::Nothing(why)) = contract.remedy("render", &now) else {
        panic!("packing cannot deliver it");
    };
    assert!(why.contains("with 4 workers in render and "), "{why}");
}

#[test]
fn s3_34_workers_that_are_not_needed_are_given_back_with_a_tenth_to_spare() {
    let rows: [([f64; 2], [u32; 2], &[Set<'_>]); 6] = [
        // 10/s need two renderers, and a tenth more needs three.
        ([0.2, 0.1], [6, 1], &[("render", 6, 3)]),
        ([0.2, 0.1], [3, 1], &[]),
        ([0.18, 0.09], [3, 1], &[("render", 3, 2)]),
        ([0.18, 0.09], [2, 1], &[]),
        ([0.05, 0.05], [4, 2], &[("render", 4, 1), ("pack", 2, 1)]),
        // A module that is too slow has none to spare.
        ([0.4, 0.1], [2, 1], &[]),
    ];
    for (work, now, expected) in rows {
        let (contract, now) = packed("1..8", work, now);
        let spare = contract.spare(&now).unwrap_or_else(|wrong| panic!("{wrong:?}"));
        let found = spare.as_ref().map(set).unwrap_or_default();
        assert_eq!(found, expected, "{work:?} {now:?}");
        assert!(
            spare.is_none_or(|step| step.predicted >= 10.0 - 1e-9),
            "the contract holds"
        );
    }
}

#[test]
fn s3_34_nothing_is_changed_where_no_number_of_workers_helps_and_what_binds_is_named() {
    let wide = FILM.replace("range: 1..100", "range: 1..15");
    let narrow = FILM.replace("L2: {bandwidth: 100Mbit/s", "L2: {bandwidth: 5Mbit/s");
    let efficient = FILM
        .replace(
            "workers: nrender",
            "workers: nrender, efficiency: {10: 1, 20: 0.5}",
        )
        .replace("range: 1..100", "range: 1..20");
    let rows = [
        (
            wide,
            1.95,
            10,
            "can be at most 0.7692/s with 15 workers in C2, bound by C2",
        ),
        (narrow, 1.95, 10, "with 20 workers in C2, bound by link L2"),
        // The power that more workers lose counts.
        (
            efficient,
            1.95,
            10,
            "pictures is required at 1/s, and can be at most 0.5769/s with 15 workers in C2, bound by C2",
        ),
        (
            FILM.to_owned(),
            4.0,
            10,
            "C2 and C4 use 33 machines `pianosa`, and there are 32",
        ),
        (
            FILM.to_owned(),
            0.01,
            20,
            "20 workers, which are enough by the contract",
        ),
        (
            FILM.replace(
                "  C2: {set: nrender, range: 1..100}",
                "  C4: {set: m, range: 1..2}",
            ),
            1.95,
            10,
            "nothing to adapt in C2",
        ),
    ];
    for (source, busy_s, workers, part) in rows {
        let Remedy::Nothing(why) = remedy(&source, busy_s, workers) else {
            panic!("{part}");
        };
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn s3_33_measured_items_replace_those_that_the_contract_states() {
    let source = "contract: c\nstreams: {s: {from: a, to: b}, t: {from: b, to: d}}\n\
                  modules: {a: {gives: {s: 1}}, b: {takes: [s], gives: {t: 1/2}}, d: {takes: [t]}}\nrequire: [t >= 1/s]\n";
    let mut contract = Contract::parse(source).unwrap();
    let rate = |contract: &Contract| contract.assess().unwrap().rate("a").unwrap();
    assert_eq!(rate(&contract), 2.0);
    let measure = |contract: &mut Contract, module: &str, stream: &str, items| {
        let (module, stream) = (module.to_owned(), stream.to_owned());
        contract.observe(&StatedNumber::Items { module, stream }, items)
    };
    measure(&mut contract, "b", "t", 0.25).unwrap();
    assert_eq!(rate(&contract), 4.0);
    for (module, stream, items, part) in [
        ("b", "s", 1.0, "`b` does not send on `s`"),
        ("d", "t", 1.0, "`d` does not send on `t`"),
        ("e", "t", 1.0, "`e` does not send on `t`"),
        ("b", "u", 1.0, "`b` does not send on `u`"),
        ("b", "t", 0.0, "0 is no measured number"),
        ("b", "t", -1.0, "-1 is no measured number"),
        ("b", "t", f64::NAN, "NaN is no measured number"),
        ("b", "t", f64::INFINITY, "inf is no measured number"),
    ] {
        assert_eq!(
            measure(&mut contract, module, stream, items).map_err(|why| why.to_string()),
            Err(part.to_owned())
        );
    }
    assert_eq!(rate(&contract), 4.0);
}
