use super::*;

const CONTRACT: &str = "contract: film\nstreams: {s: {from: a, to: b}}\nmodules:\n  a: {gives: {s: 1}}\n  \
     b: {kind: task-parallel, takes: [s], work: encode, workers: 2}\nwork: {encode: {time: 40ms}}\nrequire: [s >= 10/s]\n";

struct Program {
    contract: Contract,
    drift: Drift,
}

fn program(source: &str) -> Program {
    let contract =
        Contract::parse(source).unwrap_or_else(|wrong| panic!("{}", rules::render("c.yaml", source, &wrong)));
    Program {
        drift: Drift::of(&contract),
        contract,
    }
}

impl Program {
    /// A window in which a module was busy for this share, and had so many activations a second.
    fn take(&mut self, module: &str, busy: f64, rate: f64) -> Option<String> {
        let drifted: Vec<Drifted> = self.drift.take(module, busy, rate).into_iter().collect();
        let lines = self.drift.settle(&self.contract, &drifted);
        assert!(lines.len() <= 1, "{lines:?}");
        lines.into_iter().next()
    }

    fn number(&mut self, number: &StatedNumber, value: f64) -> Option<String> {
        let drifted: Vec<Drifted> = self
            .drift
            .compare(number.clone(), value, 0.0)
            .into_iter()
            .collect();
        let lines = self.drift.settle(&self.contract, &drifted);
        assert!(lines.len() <= 1, "{lines:?}");
        lines.into_iter().next()
    }
}

#[test]
fn a_service_time_that_is_not_the_stated_one_for_three_windows_is_said_once() {
    // Two workers take 40 ms each: an activation every 20 ms.
    let mut it = program(CONTRACT);
    assert_eq!(it.take("b", 1.0, 20.0), None);
    assert_eq!(it.take("b", 1.0, 20.0), None);
    let line = it.take("b", 1.0, 20.0).unwrap();
    assert!(
        line.starts_with("b takes 50 ms for an activation, and the contract states 20 ms: "),
        "{line}"
    );
    // Three windows of 49, 50 and 51 ms: the mean within 2.92 times its error of 0.577 ms.
    let mut it = program(CONTRACT);
    let lines = [0.98, 1.0, 1.02].map(|busy| it.take("b", busy, 20.0));
    let line = lines[2].as_deref().unwrap();
    assert!(
        line.contains(": measured [48.3 ms, 51.7 ms]; `contract learn` makes"),
        "{line}"
    );
    for _ in 0..4 {
        assert_eq!(it.take("b", 1.0, 20.0), None);
    }
    // Another time is news, and so is the stated one.
    let lines: Vec<String> = (0..3).filter_map(|_| it.take("b", 1.0, 10.0)).collect();
    assert!(
        lines.len() == 1
            && lines[0].starts_with("b takes 100 ms for an activation, and the contract states 20 ms"),
        "{lines:?}"
    );
    let lines: Vec<String> = (0..4).filter_map(|_| it.take("b", 1.0, 48.0)).collect();
    assert_eq!(
        lines,
        ["b takes 20.8 ms for an activation, as the contract states: measured [20.8 ms, 20.8 ms]"]
    );
}

#[test]
fn less_work_is_drift_too_and_windows_must_agree() {
    let mut it = program(CONTRACT);
    for rate in [100.0, 20.0, 100.0, 100.0] {
        assert_eq!(it.take("b", 1.0, rate), None, "{rate}");
    }
    assert!(it.take("b", 1.0, 100.0).unwrap().starts_with("b takes 10 ms"));
}

#[test]
fn noise_modules_without_a_time_and_other_numbers_of_workers_are_no_drift() {
    let mut it = program(CONTRACT);
    for (module, busy, rate) in [
        ("b", 1.0, 45.0),
        ("b", 0.01, 20.0),
        ("b", 1.0, 0.0),
        ("a", 1.0, 1.0),
    ] {
        for _ in 0..4 {
            assert_eq!(it.take(module, busy, rate), None, "{module} {busy} {rate}");
        }
    }
    it.drift.end();
    for _ in 0..4 {
        assert_eq!(it.take("b", 1.0, 20.0), None);
    }
}

/// Encoding depends on the size of pictures, and rendering has a heavy phase.
const PHASES: &str = "
contract: phases
streams: {pictures: {from: render, to: encode, item: 100KB}}
modules: {render: {gives: {pictures: 1}, work: rendering}, encode: {takes: [pictures], work: encoding}}
work:
  rendering: [{if: {render: 50ms}, time: 80ms}, {time: 20ms}]
  encoding: [{if: {pictures: 1MB}, time: 40ms}, {if: {pictures: 50KB}, time: 10ms}]
require: [render >= 1/s]
";

#[test]
fn a_module_moves_between_operating_points_when_what_they_depend_on_drifts() {
    let pictures = StatedNumber::Size {
        stream: "pictures".to_owned(),
    };
    // The size of pictures in three windows; what is said; the time that is expected of encoding then.
    let rows = [
        (110e3, "", Some(0.01)),
        (
            2e6,
            "an item of pictures has 1.91 MiB: encode is at the operating point of encoding with pictures: 1MB: it states 40 \
             ms for an activation",
            Some(0.04),
        ),
        // No condition depends on so much.
        (
            4e6,
            "an item of pictures has 3.81 MiB, and the contract states 97.7 KiB: measured [3.81 MiB, 3.81 MiB]; \
             `contract learn` makes one of the program as it is",
            Some(0.04),
        ),
        (
            100e3,
            "an item of pictures has 97.7 KiB: encode is at the operating point of encoding with pictures: 50KB: it states \
             10 ms for an activation",
            Some(0.01),
        ),
        (
            20e3,
            "an item of pictures has 19.5 KiB: no operating point of encoding holds for encode",
            None,
        ),
        (
            60e3,
            "an item of pictures has 58.6 KiB: encode is at the operating point of encoding with pictures: 50KB: it states \
             10 ms for an activation",
            Some(0.01),
        ),
    ];
    let mut it = program(PHASES);
    for (size, expected, busy_s) in rows {
        assert_eq!(
            [it.number(&pictures, size), it.number(&pictures, size)],
            [None, None]
        );
        assert_eq!(it.number(&pictures, size).unwrap_or_default(), expected);
        let measured = it.drift.as_measured(&it.contract);
        assert_eq!(measured.busy_s("encode"), busy_s, "{size}");
        // What is stated where it is now is no drift, and something else is.
        let Some(busy_s) = busy_s else {
            continue;
        };
        for _ in 0..4 {
            assert_eq!(it.take("encode", 1.0, 1.0 / busy_s), None, "{size}");
        }
    }
    let lines: Vec<String> = (0..3).filter_map(|_| it.take("encode", 1.0, 50.0)).collect();
    assert!(
        lines.len() == 1
            && lines[0].starts_with("encode takes 20 ms for an activation, and the contract states 10 ms"),
        "{lines:?}"
    );
}

#[test]
fn a_phase_is_known_by_the_time_of_an_activation() {
    let mut it = program(PHASES);
    let mut windows = |busy_s: f64| {
        (0..5)
            .filter_map(|_| it.take("render", 1.0, 1.0 / busy_s))
            .collect()
    };
    let said: [Vec<String>; 4] = [0.02, 0.078, 0.082, 0.021].map(&mut windows);
    assert_eq!(said[0], [""; 0]);
    assert_eq!(
        said[1],
        [
            "render takes 78 ms for an activation: render is at the operating point of rendering with render: 50ms: it states \
          80 ms for an activation"
        ]
    );
    assert_eq!(said[2], [""; 0]);
    assert_eq!(
        said[3],
        [
            "render takes 21 ms for an activation: render is at the operating point of rendering without a condition: it \
          states 20 ms for an activation"
        ]
    );
}

#[test]
fn other_requirements_keep_what_was_measured_and_a_corrected_file_does_not() {
    let pictures = StatedNumber::Size {
        stream: "pictures".to_owned(),
    };
    let mut it = program(PHASES);
    for _ in 0..3 {
        it.number(&pictures, 2e6);
    }
    let with = |source: &str, before: &Program| {
        let other = program(source);
        let drift = other.drift.with(&other.contract, &before.drift);
        Program { drift, ..other }
    };
    let mut other = with(&PHASES.replace(">= 1/s", ">= 2/s"), &it);
    assert_eq!(other.drift.points(), it.drift.points());
    assert_eq!(other.drift.points()[1].condition, "pictures: 1MB");
    for _ in 0..4 {
        assert_eq!(other.take("encode", 1.0, 25.0), None);
    }
    let corrected = with(&PHASES.replace("item: 100KB", "item: 60KB"), &it);
    assert_eq!(corrected.drift.points()[1].condition, "pictures: 50KB");
    it.drift.end();
    let mut other = with(PHASES, &it);
    assert!((0..4).all(|_| other.take("encode", 1.0, 1.0).is_none()));
}
