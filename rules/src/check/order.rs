//! The order of evaluation of definitions, and the detection of cycles.

use std::collections::{BTreeMap, BTreeSet};

use syntax::diag::Diagnostic;

use crate::file::Named;

/// Indices of `definitions` such that each follows those it uses; definitions in a cycle, or that use one,
/// are left out and reported.
pub(crate) fn order(definitions: &[Named], wrong: &mut Vec<Diagnostic>) -> Vec<usize> {
    let places: BTreeMap<&str, usize> = definitions
        .iter()
        .enumerate()
        .map(|(i, named)| (named.name.raw.as_str(), i))
        .collect();
    let uses: Vec<BTreeSet<usize>> = definitions
        .iter()
        .map(|named| {
            named
                .expr
                .names()
                .iter()
                .filter_map(|(name, _)| places.get(name).copied())
                .collect()
        })
        .collect();
    let mut done = BTreeSet::new();
    let mut out = Vec::new();
    loop {
        let before = out.len();
        for (i, needed) in uses.iter().enumerate() {
            if !done.contains(&i) && needed.is_subset(&done) {
                done.insert(i);
                out.push(i);
            }
        }
        if out.len() == before {
            break;
        }
    }
    if let Some(start) = (0..definitions.len()).find(|i| !done.contains(i)) {
        wrong.push(circle(definitions, &uses, &done, start));
    }
    out
}

/// Each remaining definition uses a remaining one: following these uses leads to a cycle.
fn circle(
    definitions: &[Named],
    uses: &[BTreeSet<usize>],
    done: &BTreeSet<usize>,
    start: usize,
) -> Diagnostic {
    let mut walked = vec![start];
    let around = loop {
        let last = walked.last().copied().unwrap_or(start);
        let next = uses
            .get(last)
            .and_then(|needed| needed.iter().find(|i| !done.contains(i)));
        let Some(&next) = next else { break walked };
        if let Some(first) = walked.iter().position(|i| *i == next) {
            break walked.split_off(first);
        }
        walked.push(next);
    };
    let named: Vec<&Named> = around.iter().filter_map(|i| definitions.get(*i)).collect();
    let names: Vec<&str> = named.iter().map(|named| named.name.raw.as_str()).collect();
    let first = names.first().copied().unwrap_or("");
    let message = format!("this goes round in a circle: {} -> {first}", names.join(" -> "));
    named
        .iter()
        .fold(Diagnostic::error("E0131", message), |d, named| {
            d.at(named.name.span, "")
        })
}
