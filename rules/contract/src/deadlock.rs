//! Features that are 0 in every steady state, and the join or the cycle that forces them.

use std::collections::BTreeSet;

use syntax::diag::Diagnostic;

use super::model::{Computation, Contract};
use super::reduce::{Number, reduce};
use super::repair::can_be_positive;
use super::system::{Feature, Origin, System, cycle_through, listed};

/// Maximum number of joins and of cycles that are tried as the cause.
const TRIED_MAX: usize = 64;

/// The dimension of the set of steady states, and the features that are 0 in all of them without negative
/// rates.
pub(super) struct Steady {
    pub(super) degrees_of_freedom: usize,
    pub(super) dead: Vec<usize>,
}

/// `None` if a fraction becomes too large.
pub(super) fn steady<N: Number>(system: &System, without: &dyn Fn(Origin) -> bool) -> Option<Steady> {
    let columns = system.features.len();
    let reduced = reduce::<N>(system.rows_in(|origin| !without(origin)), columns, &[])?;
    let free = &reduced.free;
    let row = |column: usize| -> Vec<f64> {
        let value = |free: &usize| match reduced.solved.get(&column) {
            Some(row) => row.get(free).map_or(0.0, |value| value.number()),
            None if *free == column => 1.0,
            None => 0.0,
        };
        free.iter().map(value).collect()
    };
    let dead = match free.len() {
        0 => (0..columns).collect(),
        1 => {
            // One degree of freedom: all rates have the sign of one of them.
            let values: Vec<f64> = (0..columns).map(|column| row(column)[0]).collect();
            let mixed = values.iter().any(|value| *value < 0.0);
            (0..columns)
                .filter(|column| mixed || values[*column] == 0.0)
                .collect()
        }
        _ => {
            let rows: Vec<Vec<f64>> = (0..columns).map(row).collect();
            let positive = can_be_positive(&rows)?;
            (0..columns).filter(|column| !positive[*column]).collect()
        }
    };
    Some(Steady {
        degrees_of_freedom: free.len(),
        dead,
    })
}

/// The error for features that are always 0: which, and why.
pub(super) fn deadlock(contract: &Contract, system: &System, steady: &Steady) -> Diagnostic {
    let all = steady.dead.len() == system.features.len();
    let names: Vec<String> = stopped(contract, system, &steady.dead);
    let message = match all {
        true => "the program deadlocks: in the steady state no rate is above 0".to_string(),
        false => format!(
            "these are never activated in a steady state: {}",
            listed(&names, 8)
        ),
    };
    let wrong = Diagnostic::error("E0177", message);
    let cause = join(contract, system, steady).or_else(|| cycle(contract, system, steady));
    let Some((span, reason)) = cause else {
        let first = first_dead(contract, system, &steady.dead).unwrap_or(contract.span);
        return wrong.at(first, "never activated");
    };
    wrong.at(span, reason)
}

fn stopped(contract: &Contract, system: &System, dead: &[usize]) -> Vec<String> {
    let activations = dead
        .iter()
        .filter(|column| matches!(system.features[**column], Feature::Activation { .. }));
    activations.map(|column| system.name(contract, *column)).collect()
}

fn first_dead(contract: &Contract, system: &System, dead: &[usize]) -> Option<syntax::diag::Span> {
    dead.iter().find_map(|column| match system.features[*column] {
        Feature::Activation { module, .. } => Some(contract.modules[module].span),
        _ => None,
    })
}

/// Whether features revive if these equations are left out.
fn revives(system: &System, steady_now: &Steady, without: &dyn Fn(Origin) -> bool) -> bool {
    let exact = steady::<super::exact::Exact>(system, without);
    let relaxed = exact.or_else(|| steady::<f64>(system, without));
    // Features that are dead for another reason stay dead.
    relaxed.is_some_and(|relaxed| relaxed.dead.len() < steady_now.dead.len())
}

/// A computation whose inputs arrive at rates that cannot be equal.
fn join(contract: &Contract, system: &System, now: &Steady) -> Option<(syntax::diag::Span, String)> {
    let dead: BTreeSet<usize> = now.dead.iter().copied().collect();
    let joins = contract.modules.iter().enumerate().flat_map(|(module, one)| {
        let computations = one.computations.iter().enumerate();
        computations.map(move |(computation, it)| (module, computation, it))
    });
    let joins = joins.filter(|&(module, computation, it)| {
        let column = system.column(Feature::Activation { module, computation });
        it.takes.len() > 1 && column.is_some_and(|column| dead.contains(&column))
    });
    for (module, computation, it) in joins.take(TRIED_MAX) {
        for &stream in &it.takes {
            let dropped = Origin::Takes {
                module,
                computation,
                stream,
            };
            if revives(system, now, &|origin| origin == dropped) {
                let reason = join_reason(contract, module, it, stream);
                return Some((contract.modules[module].span, reason));
            }
        }
    }
    None
}

fn join_reason(contract: &Contract, module: usize, it: &Computation, stream: usize) -> String {
    let name = |stream: usize| format!("`{}`", contract.streams[stream].name);
    let others: Vec<String> = it
        .takes
        .iter()
        .filter(|one| **one != stream)
        .map(|one| name(*one))
        .collect();
    let module_name = &contract.modules[module].name;
    let mut rounds = it.takes.iter().filter_map(|stream| cycle_of(contract, *stream));
    let round = rounds.find(|modules| modules.contains(&module));
    let round = round.map_or(String::new(), |modules| {
        format!(" (what it sends comes back to it: {})", path(contract, &modules))
    });
    format!(
        "`{module_name}` takes one item of {} with each item of {}{round}: the rates at which they arrive are not equal",
        others.join(", "),
        name(stream)
    )
}

/// A cycle that returns at least as many items as it is given.
fn cycle(contract: &Contract, system: &System, now: &Steady) -> Option<(syntax::diag::Span, String)> {
    let mut tried = 0;
    for stream in 0..contract.streams.len() {
        let Some(modules) = cycle_of(contract, stream) else {
            continue;
        };
        tried += 1;
        if tried > TRIED_MAX {
            return None;
        }
        if revives(system, now, &|origin| origin == Origin::Stream { stream }) {
            let reason = format!(
                "the cycle {} returns at least as many items as it is given, so nothing can be added to it",
                path(contract, &modules)
            );
            return Some((contract.streams[stream].span, reason));
        }
    }
    None
}

fn path(contract: &Contract, modules: &[usize]) -> String {
    let names = modules.iter().chain(modules.first());
    let names: Vec<&str> = names
        .map(|module| contract.modules[*module].name.as_str())
        .collect();
    names.join(" -> ")
}

/// The modules of a shortest cycle through a stream, beginning with its sender.
fn cycle_of(contract: &Contract, stream: usize) -> Option<Vec<usize>> {
    let one = &contract.streams[stream];
    let sent_by = |module: usize| {
        let sent = contract.streams.iter();
        let sent = sent.filter(|stream| stream.from.contains(&module));
        sent.flat_map(|stream| stream.to.iter().copied()).collect()
    };
    let mut senders = one.from.iter();
    senders.find_map(|&sender| {
        let next = |module: usize| match module == sender {
            true => one.to.clone(),
            false => sent_by(module),
        };
        cycle_through(contract.modules.len(), sender, next)
    })
}
