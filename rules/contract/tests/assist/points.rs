//! Operating points on conditions: which work of several counts, and when.

use contract::{Contract, ModulePoint, StatedNumber};

use super::capacity::{capacity, used};
use super::{contract, has_mistakes, refused};

/// Larger pictures take longer to encode, and so does a group of more of them; rendering has a heavy phase.
const PHASES: &str = "
contract: phases
streams:
  pictures: {from: render, to: pack, item: 100KB}
  groups: {from: pack, to: encode}
modules:
  render: {gives: {pictures: 1}, work: rendering}
  pack: {takes: [pictures], gives: {groups: 1/12}}
  encode: {takes: [groups], work: encoding, place: {machines: small}}
work:
  rendering:
    - {if: {render: 50ms}, time: 80ms}
    - {time: 20ms}
  encoding:
    - {if: {pictures: 1MB, ram: 64MB}, time: 400ms}
    - {if: {pictures: 1MB}, time: 800ms}
    - {if: {pack.groups: 1/6}, time: 120ms}
    - {time: 240ms}
machines: {small: {properties: {ram: 32MB}}, big: {properties: {ram: 256MB}}}
require: [render >= 1/s]
";

fn size(stream: &str) -> StatedNumber {
    let stream = stream.to_owned();
    StatedNumber::Size { stream }
}

fn items(module: &str, stream: &str) -> StatedNumber {
    let [module, stream] = [module, stream].map(str::to_owned);
    StatedNumber::Items { module, stream }
}

fn time(module: &str) -> StatedNumber {
    let module = module.to_owned();
    StatedNumber::Time { module }
}

/// The conditions of the points that rendering and encoding are at.
fn at(contract: &Contract) -> Vec<String> {
    let points = contract.operating_points().into_iter();
    points.map(|ModulePoint { condition, .. }| condition).collect()
}

/// What was measured; the points of rendering and encoding; their service times in ms.
type PointsRow<'a> = (&'a [(StatedNumber, f64)], [&'a str; 2], [f64; 2]);

#[test]
fn an_operating_point_holds_by_what_was_measured_or_else_is_stated() {
    let rows: [PointsRow<'_>; 7] = [
        (&[], ["", ""], [20.0, 240.0]),
        (&[(size("pictures"), 0.99e6)], ["", ""], [20.0, 240.0]),
        (&[(size("pictures"), 1e6)], ["", "pictures: 1MB"], [20.0, 800.0]),
        (
            &[(items("pack", "groups"), 0.2)],
            ["", "pack.groups: 1/6"],
            [20.0, 120.0],
        ),
        // The first of two that hold.
        (
            &[(items("pack", "groups"), 0.2), (size("pictures"), 2e6)],
            ["", "pictures: 1MB"],
            [20.0, 800.0],
        ),
        (&[(time("render"), 0.049)], ["", ""], [20.0, 240.0]),
        (&[(time("render"), 0.06)], ["render: 50ms", ""], [80.0, 240.0]),
    ];
    for (measured, points, times) in rows {
        let mut phases = contract(PHASES);
        for (number, value) in measured {
            phases.observe(number, *value).unwrap();
        }
        assert_eq!(at(&phases), points, "{measured:?}");
        let busy_ms = ["render", "encode"].map(|module| (phases.busy_s(module).unwrap() * 1e3).round());
        assert_eq!(busy_ms, times, "{measured:?}");
    }
    // What is measured replaces what is stated once more when it is back.
    let mut phases = contract(PHASES);
    phases.observe(&size("pictures"), 2e6).unwrap();
    phases.observe(&size("pictures"), 1e5).unwrap();
    assert_eq!(at(&phases), ["", ""]);
    for (work, number, expected) in [
        ("encoding", size("pictures"), true),
        ("rendering", time("render"), true),
        ("rendering", size("pictures"), false),
        ("encode", size("pictures"), false),
    ] {
        assert_eq!(phases.depends_on(work, &number), expected, "{work} {number:?}");
    }
}

#[test]
fn capacity_and_what_if_take_the_point_that_holds() {
    let phases = contract(PHASES);
    let found = capacity(&phases);
    let shown: Vec<String> = found
        .points
        .iter()
        .map(|one| format!("{} {} {}", one.module, one.work, one.condition))
        .collect();
    assert_eq!(shown, ["render rendering ", "encode encoding "]);
    let used_with = |change: &str, resource: &str| {
        let mut changed = contract(PHASES);
        changed.suppose(change).unwrap_or_else(|why| panic!("{why}"));
        used(&capacity(&changed), resource)
    };
    // A picture a second is a twelfth of a group.
    near!(used(&found, "machine small") => 0.24 / 12.0, 9, "the last point");
    near!(used_with("pictures.item = 1MB", "machine small") => 0.8 / 12.0, 9, "the point of large pictures");
    near!(used_with("render.time = 60ms", "render") => 0.06, 9, "the time that is supposed");
    // On the large machine the point for it holds.
    let mut large = contract(&PHASES.replace("machines: small}", "machines: big}"));
    large.suppose("pictures.item = 1MB").unwrap();
    near!(used(&capacity(&large), "machine big") => 0.4 / 12.0, 9, "enough memory");
    // Without a point for all other cases, one may be missing.
    let mut holey = contract(&PHASES.replace("    - {time: 240ms}\n", ""));
    let why = capacity(&holey).unknown.join(" ");
    assert!(
        why.contains("no operating point of `encoding` holds on `small`"),
        "{why}"
    );
    holey.suppose("pictures.item = 1MB").unwrap();
    assert_eq!(capacity(&holey).unknown, [""; 0]);
    let alone = contract(&PHASES.replace("    - {time: 20ms}\n", ""));
    let why = capacity(&alone).unknown.join(" ");
    assert!(why.contains("no operating point of `rendering` holds"), "{why}");
    for wrong in [
        "pictures.item = 2",
        "pictures.item = 0B",
        "pictures.time = 2ms",
        "render.time = 2MB",
        "film.item = 2MB",
    ] {
        assert!(contract(PHASES).suppose(wrong).is_err(), "{wrong}");
    }
}

/// What is replaced, by what; the code, the underlined text, and a part of the message.
const MISTAKES: &str = "\
{pictures: 1MB} | {picturs: 1MB} | E0174 | picturs | did you mean `pictures`
{pictures: 1MB} | {pictures: 1s} | E0173 | 1s | `pictures` is bytes
{pictures: 1MB} | {pictures: 0MB} | E0172 | 0MB | cannot be 0
{render: 50ms} | {render: 50} | E0173 | 50 | `render` is a time
pack.groups: 1/6 | pack.groups: 1s | E0173 | 1s | `pack.groups` is a plain number
pack.groups: 1/6 | pack.group: 1/6 | E0174 | pack.group | there is no stream, module
pack.groups: 1/6 | render.groups: 1/6 | E0174 | render.groups | no single computation that sends
ram: 32MB | pictures: 32MB | E0107 | pictures | a property of machines, and a stream
{render: 50ms} | {encode: 50ms} | E0174 | encode | no single computation whose time
";

#[test]
fn conditions_on_what_is_not_there_or_cannot_be_measured_are_refused_at_their_place() {
    let several =
        "encode: {computations: {a: {takes: [groups], work: encoding}, b: {}}, place: {machines: small}}";
    has_mistakes(PHASES, MISTAKES, |by, source| match by {
        "{encode: 50ms}" => source.replace(
            "encode: {takes: [groups], work: encoding, place: {machines: small}}",
            several,
        ),
        _ => source,
    });
    assert!(refused(&PHASES.replace("if: {render: 50ms}", "if: 3")).contains("a mapping"));
}
