//! Service times, utilisation, links, sizes: the render and encode experiment of §11.

use contract::{Capacity, Contract};

use super::{contract, has};

/// Tables 1, 2 and 4. The work of C4 is 58.5 MFLOP: the printed 52 gives other times than those printed.
pub(super) const FILM: &str = "
contract: film
about: A frame a second, rendered, grouped by twelve, compressed and stored.
parameters:
  nrender: 20
streams:
  scenes: {from: C1, to: C2, item: 54B}
  pictures: {from: C2, to: C3, item: 1244164B}
  groups: {from: C3, to: C4, item: 14929924B}
  film: {from: C4, to: C5, item: 2097156B}
modules:
  C1: {gives: {scenes: 1}}
  C2: {kind: task-parallel, takes: [scenes], gives: {pictures: 1}, work: render, workers: nrender, place: {machines: pianosa}}
  C3: {takes: [pictures], gives: {groups: 1/12}}
  C4: {takes: [groups], gives: {film: 1}, work: encode, place: {machines: pianosa}}
  C5: {takes: [film], place: {host: store}}
work:
  render: {flop: 3307e6, memory: 302MB}
  encode: {flop: 58.5e6, memory: 104MB}
machines:
  pianosa: {count: 32, power: {flop: 176.14e6/s, memory: 614MB/s}}
  c1: {count: 8, power: {flop: 317.56e6/s, memory: 1185MB/s}}
  pegaso: {power: {flop: 617.83e6/s, memory: 961MB/s}}
  quanto: {power: {flop: 267.39e6/s, memory: 1185MB/s}}
  pacifico: {power: {flop: 442.41e6/s, memory: 1743MB/s}}
  izar: {power: {flop: 236.84e6/s, memory: 1634MB/s}}
  marte: {power: {flop: 349.84e6/s, memory: 1536MB/s}}
  fuji: {count: 100, power: {flop: 642.43e6/s, memory: 795MB/s}}
links:
  L1: {bandwidth: 100Mbit/s, streams: [scenes]}
  L2: {bandwidth: 100Mbit/s, streams: [pictures]}
  L3: {bandwidth: 100Mbit/s, streams: [groups]}
  L4: {bandwidth: 100Mbit/s, streams: [film]}
require:
  - pictures >= 1/s
adapt:
  C2: {set: nrender, range: 1..100}
";

pub(super) fn capacity(contract: &Contract) -> Capacity {
    contract
        .capacity()
        .map(|(_, capacity)| capacity)
        .unwrap_or_else(|wrong| panic!("{wrong:?}"))
}

#[track_caller]
pub(super) fn used(capacity: &Capacity, resource: &str) -> f64 {
    let found = capacity.resources.iter().find(|one| one.resource == resource);
    found
        .unwrap_or_else(|| panic!("no {resource} in {capacity:?}"))
        .utilisation
}

/// The contract with C2 and C4 on other machines; each with a number, or a kind alone.
fn mapped(render: &str, encode: &str) -> Contract {
    let source = FILM.replace(
        "workers: nrender, place: {machines: pianosa}",
        &format!("place: {{machines: {render}}}"),
    );
    let source = source.replace(
        "work: encode, place: {machines: pianosa}",
        &format!("work: encode, place: {{machines: {encode}}}"),
    );
    contract(&source.replace("adapt:\n  C2: {set: nrender, range: 1..100}\n", ""))
}

#[test]
fn s3_table_3_the_requirement_is_projected_to_every_module() {
    for (required, pictures, groups) in [("pictures >= 1/s", 1.0, 1.0 / 12.0), ("C5 >= 1/s", 12.0, 1.0)] {
        let assessed = contract(&FILM.replace("pictures >= 1/s", required))
            .assess()
            .unwrap();
        for feature in [
            "C1",
            "C1.scenes",
            "C2.scenes",
            "C2",
            "C2.pictures",
            "C3.pictures",
            "C3",
        ] {
            assert_eq!(assessed.rate(feature), Some(pictures), "{feature}");
        }
        for feature in ["C3.groups", "C4.groups", "C4", "C4.film", "C5.film", "C5"] {
            assert_eq!(assessed.rate(feature), Some(groups), "{feature}");
        }
    }
}

#[test]
fn s3_table_4_service_times_of_the_mappings_and_with_one_machine_less() {
    // At one picture a second the use of C2 is its service time.
    let several = |c1: u32| format!("{{pegaso: 1, pacifico: 1, marte: 1, c1: {c1}}}");
    for (machines, expected) in [
        ("{pianosa: 20}".to_string(), 0.963),
        ("{pianosa: 19}".to_string(), 1.014),
        (several(7), 0.937),
        (several(6), 1.027),
        ("{fuji: 6}".to_string(), 0.921),
        ("{fuji: 5}".to_string(), 1.106),
    ] {
        let found = used(&capacity(&mapped(&machines, "quanto")), "C2");
        near!(found => expected, 3, "S3 12.6 t(m2) on {machines}");
    }
    for (machine, seconds) in [
        ("pianosa", 19.27),
        ("c1", 10.67),
        ("pegaso", 5.667),
        ("quanto", 12.62),
        ("pacifico", 7.648),
        ("izar", 14.15),
        ("marte", 9.650),
        ("fuji", 5.528),
    ] {
        let source = FILM.replace(
            "work: encode, place: {machines: pianosa}",
            "work: encode, place: {machines: c1}",
        );
        let source = source
            .replace("pianosa}", &format!("{machine}}}"))
            .replace("nrender: 20", "nrender: 1");
        let found = capacity(&contract(&source));
        let resource = if found.resources.iter().any(|one| one.resource == "C2") {
            "C2".to_string()
        } else {
            format!("machine {machine}")
        };
        let used = used(&found, &resource);
        assert!(
            (used / seconds - 1.0).abs() < 5e-4,
            "{machine}: {used} is not {seconds}"
        );
    }
}

#[test]
fn s3_12_6_the_printed_work_of_c4_does_not_give_its_printed_times() {
    let times = |work: &str| -> Vec<f64> {
        let machines = ["{pianosa: 1}", "quanto", "{fuji: 1}"];
        let found = machines.iter().map(|machine| {
            let mut contract = mapped("{c1: 8}", machine);
            if work == "52e6" {
                let source = FILM.replace("58.5e6", work);
                let source = source.replace(
                    "work: encode, place: {machines: pianosa}",
                    &format!("work: encode, place: {{machines: {machine}}}"),
                );
                contract = super::contract(&source);
            }
            let found = capacity(&contract);
            let resource = if *machine == "quanto" {
                "machine quanto"
            } else {
                "C4"
            };
            used(&found, resource) * 12.0
        });
        found.collect()
    };
    for (found, printed) in times("58.5e6").into_iter().zip([0.5, 0.31, 0.22]) {
        near!(found => printed, 2, "S3 12.6 t(m4) with 58.5 MFLOP");
    }
    for (found, expected) in times("52e6").into_iter().zip([0.465, 0.282, 0.212]) {
        near!(found => expected, 3, "S3 12.6 t(m4) with the printed 52 MFLOP");
    }
}

#[test]
fn s3_21_the_hard_requirement_exceeds_two_links_and_ten_frames_a_second_are_possible() {
    let source = FILM
        .replace("pictures >= 1/s", "pictures >= 12/s")
        .replace("machines: pianosa", "machines: fuji");
    let hard = contract(&source.replace("nrender: 20", "nrender: 90"));
    let found = capacity(&hard);
    // 113.9 times 2^20 bit/s are 119.4 times 10^6 bit/s.
    near!(used(&found, "link L2") * 100.0 => 119.4, 1, "S3 12.5 load of S2, Mbit/s");
    near!(used(&found, "link L2") * 100e6 / 1_048_576.0 => 113.9, 1, "S3 12.5 load of S2, Mibit/s");
    near!(used(&found, "link L3") * 100e6 / 1_048_576.0 => 113.9, 1, "S3 12.5 load of S3, Mibit/s");
    near!(found.greatest.unwrap() => 10.05, 2, "S3 12.5 greatest rate, frames/s");
    let wrong = hard.exceeded(&found).unwrap();
    assert_eq!(wrong.code, "E0180");
    has(&wrong.message, &["required at 12/s", "at most 10.05/s"]);
    has(
        wrong.help.as_deref().unwrap(),
        &["link L2 would be used to 119 %", "link L3"],
    );
    let easy = contract(FILM);
    assert!(easy.exceeded(&capacity(&easy)).is_none());
    // The paper's unit.
    let wide = contract(
        &source
            .replace("nrender: 20", "nrender: 90")
            .replace("100Mbit/s", "113.9Mibit/s"),
    );
    near!(capacity(&wide).greatest.unwrap() => 12.0, 2, "S3 12.5 at the required bandwidth");
}

#[test]
fn bottlenecks_come_in_order_with_what_an_addition_is_worth() {
    let found = capacity(&contract(FILM));
    let order: Vec<&str> = found.resources.iter().map(|one| one.resource.as_str()).collect();
    assert_eq!(order, ["C2", "link L2", "link L3", "C4", "link L4", "link L1"]);
    near!(found.greatest.unwrap() => 1.0382, 3, "20 machines of 19.27 s");
    let gain = |addition: &str| {
        found
            .additions
            .iter()
            .find(|one| one.addition == addition)
            .unwrap()
            .gain
    };
    near!(gain("one worker more in C2") => 1.0 / 19.27, 4, "one machine of 19.27 s");
    assert_eq!(gain("10 Mbit/s more on link L2"), 0.0);
    assert!(found.resources.is_sorted_by(|a, b| a.binds_at <= b.binds_at));
    near!(found.resources[1].binds_at => 10.05, 2, "where the second bottleneck binds");
}

#[test]
fn s3_24_modules_get_the_smallest_number_of_equal_machines() {
    for (kind, expected) in [("pianosa", 20), ("fuji", 6)] {
        let source = FILM.replace("machines: pianosa", &format!("machines: {kind}"));
        let (_, sizes) = contract(&source).sizes().unwrap();
        assert_eq!((sizes.len(), sizes[0].workers), (1, expected));
        assert_eq!(sizes[0].machines, [(kind.to_string(), expected)].into());
        assert_eq!(sizes[0].set.as_deref(), Some("nrender"));
    }
    // Eight machines of 10.67 s are not enough.
    let (_, sizes) = contract(&FILM.replace("machines: pianosa", "machines: c1"))
        .sizes()
        .unwrap();
    assert_eq!(
        (sizes[0].workers, sizes[0].insufficient.as_deref()),
        (8, Some("at most 8 workers are possible"))
    );
}

#[test]
fn unequal_machines_are_chosen_by_least_cost() {
    let source = FILM
        .replace(
            "place: {machines: pianosa}}\n  C3",
            "place: {machines: {pegaso: 1, fuji: 1, c1: 1}}}\n  C3",
        )
        .replace("workers: nrender, ", "")
        .replace("adapt:\n  C2: {set: nrender, range: 1..100}\n", "");
    let (_, sizes) = contract(&source).sizes().unwrap();
    assert_eq!(sizes[0].workers, 6);
    // Machines of c1 for a third of the price: 7 of 10.67 s deliver 0.66/s, two fast ones 0.36/s.
    let cheap = source.replace("c1: {count: 8,", "c1: {count: 8, cost: 0.3,");
    let (_, sizes) = contract(&cheap).sizes().unwrap();
    let fast: u32 = sizes[0]
        .machines
        .iter()
        .filter(|(kind, _)| *kind != "c1")
        .map(|(_, count)| count)
        .sum();
    assert_eq!((sizes[0].workers, fast), (9, 2));
    near!(sizes[0].cost => 7.0 * 0.3 + 2.0, 9, "cost");
}

/// One module, whose use at one item a second is its service time.
fn service(work: &str, machines: &str, module: &str) -> f64 {
    let source = format!(
        "
contract: one
streams:
  s: {{from: A, to: B}}
modules:
  A: {{gives: {{s: 1}}, work: w, {module}}}
  B: {{takes: [s]}}
work:
  w: {work}
machines:
{machines}
require: [s >= 1/s]
"
    );
    capacity(&contract(&source)).resources[0].utilisation
}

const TWO: &str =
    "  m1: {power: {flop: 1e9/s, memory: 100MB/s}}\n  m2: {power: {flop: 100e6/s, memory: 1GB/s}}";

#[test]
fn s3_22_rates_of_unequal_workers_add_up_and_never_their_powers() {
    let work = "{flop: 1e6, memory: 1MB}";
    for machine in ["m1", "m2"] {
        near!(service(work, TWO, &format!("place: {{machines: {machine}}}")) => 0.011, 9, "about 100 tasks/s");
    }
    let both = service(work, TWO, "place: {machines: {m1: 1, m2: 1}}");
    near!(both => 0.0055, 9, "S3 (49) about 200 tasks/s");
    // The sum of the powers, 1.1e9/s and 1.1 GB/s, would promise 550 tasks/s.
    assert!(both > 2.0 * (1e6 / 1.1e9 + 1e6 / 1.1e9));
}

#[test]
fn s3_19_times_of_metrics_are_added_or_overlap() {
    let on = "place: {machines: m1}";
    near!(service("{flop: 1e6, memory: 1MB}", TWO, on) => 0.011, 9, "S3 (46)");
    near!(service("{flop: 1e6, memory: 1MB, combine: max}", TWO, on) => 0.010, 9, "S3 §9 maximum");
    near!(service("{flop: 1e6}", TWO, on) => 0.001, 9, "S3 (45)");
    near!(service("{time: 30ms}", TWO, on) => 0.030, 9, "a measured time");
}

#[test]
fn s3_23_a_table_of_efficiency_reduces_the_power_of_workers() {
    let with = |workers: u32| {
        let module = format!("kind: data-parallel, workers: {workers}, efficiency: {{2: 0.9, 4: 0.7}}");
        service("{time: 1s}", "  m: {}", &module)
    };
    near!(with(1) => 1.0, 9, "one worker");
    near!(with(2) => 1.0 / 1.8, 9, "S3 §9 t = 1 / (eta(n) sum)");
    near!(with(3) => 1.0 / 2.4, 9, "between entries by a line");
    let source = "
contract: one
streams: {s: {from: A, to: B}}
modules:
  A: {gives: {s: 1}, work: w, kind: task-parallel, workers: n, efficiency: {2: 0.9, 4: 0.7}}
  B: {takes: [s]}
work: {w: {time: 1s}}
require: [s >= 2.4/s]
";
    let (_, sizes) = contract(source).sizes().unwrap();
    assert_eq!(sizes[0].workers, 3);
    let (_, sizes) = contract(&source.replace("2.4/s", "3/s")).sizes().unwrap();
    assert_eq!((sizes[0].workers, sizes[0].insufficient.is_some()), (4, true));
    let found = capacity(&contract(source));
    has(
        &found.unknown.join(" "),
        &["the number of workers of `A` is not known"],
    );
}

#[test]
fn s3_25_the_first_operating_point_whose_condition_holds_counts() {
    let work = "\n    - {if: {ram: 64MB}, time: 1s}\n    - {time: 40s}";
    let machines = "  big: {properties: {ram: 256MB}}\n  small: {properties: {ram: 32MB}}";
    near!(service(work, machines, "place: {machines: big}") => 1.0, 9, "enough memory");
    near!(service(work, machines, "place: {machines: small}") => 40.0, 9, "paging");
}

#[test]
fn s3_26_a_place_has_conditions_that_its_machines_must_meet() {
    let check = |place: &str| {
        let source = format!(
            "
contract: one
streams: {{s: {{from: A, to: B}}}}
modules:
  A: {{gives: {{s: 1}}, work: w, place: {place}}}
  B: {{takes: [s]}}
work: {{w: {{time: 1s}}}}
machines:
  near: {{domain: unipi, has: [povray], properties: {{ram: 64MB}}}}
  far: {{count: 2}}
require: [s >= 1/s]
"
        );
        match contract(&source).capacity() {
            Ok(_) => String::new(),
            Err(wrong) => format!("{} {}", wrong[0].code, wrong[0].message),
        }
    };
    assert_eq!(
        check("{machines: near, host: near, domain: unipi, has: [povray], needs: {ram: 64MB}}"),
        ""
    );
    for (place, expected) in [
        ("{machines: far, host: near}", "must run on `near`"),
        ("{machines: far, domain: unipi}", "not in the domain"),
        ("{machines: far, has: [povray]}", "does not have `povray`"),
        ("{machines: near, needs: {ram: 65MB}}", "less than `A` needs"),
        ("{machines: {far: 3}}", "use 3 machines `far`, and there are 2"),
    ] {
        has(&check(place), &["E0179", expected]);
    }
}

#[test]
fn s3_20_modules_on_one_machine_share_it() {
    let source = "
contract: shared
streams: {s: {from: A, to: B}}
modules:
  A: {gives: {s: 1}, work: first, place: {machines: host}}
  B: {takes: [s], work: second, place: {machines: host}}
work: {first: {time: 200ms}, second: {time: 300ms}}
machines: {host: {}}
require: [s >= 1/s]
";
    let found = capacity(&contract(source));
    near!(used(&found, "machine host") => 0.5, 9, "S3 (47)");
    assert_eq!(found.greatest, Some(2.0));
    // One degree of freedom: the greatest rate needs no requirement.
    let free = capacity(&contract(&source.replace("require: [s >= 1/s]\n", "")));
    assert_eq!((free.feature.as_str(), free.greatest), ("B", Some(2.0)));
}

#[test]
fn what_if_changes_workers_and_bandwidths() {
    let mut film = contract(FILM);
    film.suppose("C2.workers = 25").unwrap();
    near!(capacity(&film).greatest.unwrap() => 25.0 / 19.2672, 3, "25 machines");
    film.suppose("L2.bandwidth = 8Mbit/s").unwrap();
    near!(capacity(&film).greatest.unwrap() => 8e6 / 8.0 / 1_244_164.0, 6, "a slow link");
    film.require("pictures >= 0.5/s").unwrap();
    assert!(film.exceeded(&capacity(&film)).is_none());
    for wrong in [
        "C2.workers",
        "C9.workers = 4",
        "C1.workers = 4",
        "L2.bandwidth = 8",
        "C2.colour = 4",
        "C2.workers = 0",
    ] {
        assert!(film.suppose(wrong).is_err(), "{wrong}");
    }
    assert_eq!(film.require("movie >= 1/s").unwrap_err().code, "E0174");
}

#[test]
fn the_graph_shows_rates_and_the_bottleneck() {
    let film = contract(FILM);
    let (assessment, capacity) = film.capacity().unwrap();
    has(
        &film.dot(&assessment, &capacity),
        &[
            "digraph \"film\"",
            "m1 [label=\"C2\\ntask-parallel\\n1/s\\n96 % used\", style=bold, color=red];",
            "m2 -> m3 [label=\"groups 0.0833/s\"];",
        ],
    );
    let merged = contract(
        "contract: merged\nstreams: {s: {from: [A, B], to: M}}\nmodules:\n  A: {gives: {s: 2}}\n  B: {gives: {s: 1}}\n  \
         M: {takes: [s]}\nrequire: [A >= 1/s, B >= 3/s]\n",
    );
    let (assessment, capacity) = merged.capacity().unwrap();
    has(
        &merged.dot(&assessment, &capacity),
        &["m0 -> m2 [label=\"s 2/s\"];", "m1 -> m2 [label=\"s 3/s\"];"],
    );
}

#[test]
fn s3_27_work_is_fitted_to_times_on_machines_of_different_power() {
    // The times that Tables 2 and 4 give, rounded to four digits as printed in the reference.
    let measured = "render: {measured: {pianosa: 19.27s, c1: 10.67s, pegaso: 5.667s, quanto: 12.62s, pacifico: 7.648s, izar: 14.15s, marte: 9.650s, fuji: 5.528s}}";
    let source = FILM.replace("render: {flop: 3307e6, memory: 302MB}", measured);
    let film = contract(&source);
    let calibration = &film.calibrations()[0];
    near!(calibration.amounts["flop"] / 3307e6 => 1.0, 3, "S3 12.2 MFLOP of C2");
    near!(calibration.amounts["memory"] / 302e6 => 1.0, 2, "S3 12.2 MB of C2");
    assert!(
        calibration
            .residuals_s
            .values()
            .all(|residual| residual.abs() < 0.01),
        "{calibration:?}"
    );
    assert!((1.0..10.0).contains(&calibration.condition), "{calibration:?}");
    near!(used(&capacity(&film), "C2") => 0.963, 3, "as with the stated work");
    let few = source.replace("pianosa: 19.27s, c1: 10.67s, pegaso: 5.667s, quanto: 12.62s, pacifico: 7.648s, izar: 14.15s, marte: 9.650s, ", "");
    has(&super::refused(&few), &["E0181", "do not determine the work"]);
    has(
        &super::refused(&source.replace("fuji: 5.528s", "fuji: 55.28s")),
        &["E0181", "below 0"],
    );
}
