//! Contract files: what is refused, and where.

use super::{assessed, contract, has, has_mistakes, refused};

const FILE: &str = "
contract: film
about: A picture, and a group of twelve.
streams:
  pictures: {from: C2, to: C3, item: 1244164B}
  groups: {from: C3, to: C4}
modules:
  C2: {kind: task-parallel, gives: {pictures: 1}, work: render, workers: nrender}
  C3: {takes: [pictures], gives: {groups: 1/12}}
  C4: {takes: [groups]}
work:
  render: {time: 2s}
require:
  - groups >= 1 / 12s
adapt:
  C2: {set: nrender, range: 1..16}
";

#[test]
fn s3_13_and_s3_35_requirements_and_adaptations_are_in_the_file() {
    let contract = contract(FILE);
    assert_eq!(contract.name(), "film");
    assert_eq!(contract.assess().unwrap().rate("C2"), Some(1.0));
}

/// What is replaced in the file, by what; the code; the underlined text; a part of the message or the help.
const MISTAKES: &str = "\
to: C3, item | item | E0170 | pictures | no module receives
{takes: [groups]} | {} | E0171 | groups | does not take it
gives: {groups: 1/12} | gives: {} | E0171 | groups | does not give it
takes: [groups] | takes: [groups, groups] | E0171 | groups | exactly one computation
groups: 1/12 | groups: 0 | E0172 | groups | no activation sends
groups: 1/12 | groups: -1 | E0172 | -1 | cannot be negative
groups: 1/12 | groups: 1/0 | E0172 | 1/0 | divides by 0
groups: 1/12 | groups: 1e300 | E0172 | 1e300 | too many digits
groups: 1/12 | groups: .inf | E0120 | . | expected a value
1244164B | 1244164 | E0173 | 1244164 | MiB and Mibit 2^20
1244164B | 1244164Mb | E0121 | Mb | there is no unit
1244164B | 12MB/s | E0173 | 12MB/s | bytes per time
to: C4 | to: C | E0174 | C | no module
work: render, | work: rendr, | E0174 | rendr | did you mean `render`
groups >= 1 / 12s | group >= 1 / 12s | E0174 | group | did you mean `groups`
groups >= 1 / 12s | groups <= 1 / 12s | E0175 | groups <= 1 / 12s | a least rate
groups >= 1 / 12s | groups >= 12s | E0173 | 12s | a rate (1/time)
groups >= 1 / 12s | groups >= 0/s | E0175 | 0/s | positive
set: nrender | set: nrendr | E0174 | nrendr | did you mean `nrender`
1..16 | 16..1 | E0145 | 16..1 | two positive integers
kind: task-parallel | kind: parallel | E0174 | parallel | task-parallel
kind: task-parallel, gives | gives | E0171 | C2 | one worker
C4: {takes | groups: {takes | E0107 | groups | a stream and a module
modules: | moduls: | E0110 | moduls | did you mean `modules`
contract: film | contract: Film! | E0113 | Film! | small letters
";

#[test]
fn mistakes_are_reported_at_their_places() {
    has_mistakes(FILE, MISTAKES, |_, source| source);
}

#[test]
fn an_input_of_two_computations_is_shown_at_both() {
    let several = "C4: {computations: {pack: {takes: [groups]}, count: {takes: [groups]}}}";
    let text = refused(&FILE.replace("C4: {takes: [groups]}", several));
    let line = "  10 |   C4: {computations: {pack: {takes: [groups]}, count: {takes: [groups]}}}";
    has(
        &text,
        &[
            "error[E0171]: the stream `groups` is taken twice",
            "contract.yaml:10:64",
            "contract.yaml:10:38",
            line,
            "taken here, too",
            "leave it out of `pack` or of `count`",
        ],
    );
}

#[test]
fn s3_37_completion_and_response_times_become_rates() {
    let require = |form: &str| FILE.replace("groups >= 1 / 12s", form);
    // T = t0 + (n - 1) / rate: 24 items behind the first in 240 s.
    let completion = assessed(&require(
        "{feature: pictures, items: 25, within: 250s, transient: 10s}",
    ));
    assert_eq!(completion.rate("pictures"), None);
    assert_eq!(completion.rate("C2"), Some(0.1));
    has(
        &completion.conversions.join(" "),
        &["pictures >= 1/10/s", "(items - 1) / (time - transient)"],
    );
    // Little: N = rate * R.
    let response = assessed(&require("{feature: pictures, response: 4s, in_flight: 10}"));
    assert_eq!(response.rate("C2"), Some(2.5));
    let impossible = refused(&require(
        "{feature: pictures, items: 25, within: 10s, transient: 10s}",
    ));
    has(&impossible, &["E0175", "no time"]);
    has(&refused(&require("{feature: pictures, items: 25}")), &["E0175"]);
}

/// The bounds of rule files: bytes, entries of a section, depth.
#[test]
fn files_that_are_too_large_are_refused_at_their_place() {
    let modules: String = (0..10_000)
        .map(|at| format!("  m{at}: {{takes: [s]}}\n"))
        .collect();
    let many = format!("contract: many\nstreams: {{s: {{from: m0, to: m1}}}}\nmodules:\n{modules}");
    assert!(many.len() < 256 * 1024);
    has(
        &refused(&many),
        &[
            "E0123",
            "`modules` may have at most 2048 entries, here are 10000",
            "contract.yaml:4:3",
        ],
    );
    let long = format!("{many}# {}\n", "x".repeat(256 * 1024));
    has(&refused(&long), &["a file may have at most 262144 bytes"]);
    let mut deep = "streams: {}, modules: {}".to_owned();
    for _ in 0..5 {
        deep = format!("streams: {{}}, modules: {{}}, contracts: {{part: {{{deep}}}}}");
    }
    has(
        &refused(&format!("{{contract: deep, {deep}}}")),
        &["E0123", "contracts may nest 3 deep"],
    );
    let brackets = format!(
        "contract: deep\nmodules: {}{}\nstreams: {{}}\n",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    has(&refused(&brackets), &["contract.yaml:2:"]);
    // As many modules as a file may have are solved.
    let streams: String = (1..2048)
        .map(|at| format!("  s{at}: {{from: m{}, to: m{at}}}\n", at - 1))
        .collect();
    let modules = (1..2047).map(|at| format!("  m{at}: {{takes: [s{at}], gives: {{s{}: 1}}}}\n", at + 1));
    let chain = format!(
        "contract: chain\nstreams:\n{streams}modules:\n  m0: {{gives: {{s1: 1}}}}\n{}  m2047: {{takes: [s2047]}}\nrequire: [m0 >= 2/s]\n",
        modules.collect::<String>()
    );
    assert_eq!(super::assessed(&chain).rate("m2047"), Some(2.0));
}
