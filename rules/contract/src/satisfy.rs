//! Whether requirements are sufficient and hold, and their least repair.

use std::collections::{BTreeMap, BTreeSet};

use syntax::diag::Diagnostic;

use super::exact::Exact;
use super::model::Contract;
use super::reduce::SparseRow;
use super::reduce::{Number, Reduced};
use super::repair::Repair;
use super::system::{System, listed};

/// A value that a feature must have at least.
pub(super) struct Constraint<N> {
    pub(super) column: usize,
    pub(super) value: N,
    /// It must have just this value: an outer contract has determined it.
    pub(super) fixed: bool,
}

/// The arithmetic cannot represent a number, or wrong requirements.
pub(super) enum Unsolved {
    Arithmetic,
    Wrong(Vec<Diagnostic>),
}

impl From<Diagnostic> for Unsolved {
    fn from(wrong: Diagnostic) -> Unsolved {
        Unsolved::Wrong(vec![wrong])
    }
}

/// Fails, naming the features that the requirements leave undetermined.
pub(super) fn sufficient<N: Number>(
    contract: &Contract,
    system: &System,
    reduced: &Reduced<N>,
) -> Result<(), Unsolved> {
    if reduced.free.is_empty() {
        return Ok(());
    }
    let free: BTreeSet<usize> = reduced.free.iter().copied().collect();
    let open = |column: &usize| {
        let row = reduced.solved.get(column);
        free.contains(column) || row.is_some_and(|row| row.keys().any(|other| free.contains(other)))
    };
    let names: Vec<String> = (0..system.features.len())
        .filter(open)
        .map(|column| system.name(contract, column))
        .collect();
    let message = format!(
        "the requirements are not sufficient: {} more {} needed",
        free.len(),
        if free.len() == 1 { "is" } else { "are" }
    );
    let mut wrong = Diagnostic::error("E0176", message);
    for one in &contract.requirements {
        wrong = wrong.at(one.span, "required");
    }
    if contract.requirements.is_empty() {
        wrong = wrong.at(contract.span, "nothing is required");
    }
    for row in &reduced.relations {
        wrong = wrong.at(
            contract
                .requirements
                .first()
                .map_or(contract.span, |one| one.span),
            format!("these depend on each other: {}", relation(contract, system, row)),
        );
    }
    Err(wrong
        .help(format!(
            "undetermined: {}; require one of them too",
            listed(&names, 12)
        ))
        .into())
}

pub(super) type Values<N> = BTreeMap<usize, N>;

/// The required values, raised by the least repair if they do not hold as stated; then other least repairs.
pub(super) fn repaired<N: Number>(
    contract: &Contract,
    system: &System,
    reduced: &Reduced<N>,
    constraints: &[Constraint<N>],
) -> Result<(Values<N>, Vec<Values<f64>>), Unsolved> {
    let stated: Values<N> = constraints.iter().map(|one| (one.column, one.value)).collect();
    if holds(reduced, &stated).ok_or(Unsolved::Arithmetic)? {
        return Ok((stated, Vec::new()));
    }
    let dense = |row: &SparseRow<N>| -> Vec<f64> {
        let value = |one: &Constraint<N>| row.get(&one.column).map_or(0.0, |value| value.number());
        constraints.iter().map(value).collect()
    };
    let mut not_negative: Vec<Vec<f64>> = reduced.solved.values().map(dense).collect();
    not_negative.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    not_negative.dedup();
    let repair = Repair {
        required: constraints.iter().map(|one| one.value.number()).collect(),
        fixed: constraints.iter().map(|one| one.fixed).collect(),
        equalities: reduced.relations.iter().map(dense).collect(),
        not_negative,
    };
    let Some(found) = repair.least() else {
        return Err(infeasible(contract, system, constraints, reduced, repair).into());
    };
    let raised = |raises: &Vec<f64>| -> Values<f64> {
        let raised = constraints.iter().zip(raises);
        raised
            .map(|(one, raise)| (one.column, one.value.number() + raise))
            .collect()
    };
    let first = raised(&found[0]);
    let values = constraints.iter().map(|one| {
        let to = first[&one.column];
        let is_same = (to - one.value.number()).abs() <= 1e-9 * to.abs();
        let value = if is_same { one.value } else { N::near(to)? };
        Some((one.column, value))
    });
    let values = values
        .collect::<Option<Values<N>>>()
        .ok_or(Unsolved::Arithmetic)?;
    // The fractions near the numbers of the linear program must satisfy the equations exactly.
    if !holds(reduced, &values).ok_or(Unsolved::Arithmetic)? {
        return Err(Unsolved::Arithmetic);
    }
    Ok((values, found[1..].iter().map(raised).collect()))
}

/// Whether the relations hold and no rate is negative.
fn holds<N: Number>(reduced: &Reduced<N>, values: &Values<N>) -> Option<bool> {
    for row in &reduced.relations {
        let (sum, terms) = sum(row, values)?;
        if sum.number().abs() > N::TOLERANCE * terms {
            return Some(false);
        }
    }
    for row in reduced.solved.values() {
        let (sum, terms) = sum(row, values)?;
        if sum.number() < -N::TOLERANCE * terms {
            return Some(false);
        }
    }
    Some(true)
}

/// A sum over values, and the sum of the sizes of its terms.
pub(super) fn sum<N: Number>(row: &SparseRow<N>, values: &Values<N>) -> Option<(N, f64)> {
    let (mut sum, mut terms) = (N::default(), 0.0);
    for (column, coefficient) in row {
        let value = *values.get(column)?;
        let minus = N::default().less(*coefficient, N::from_exact(Exact::from_integer(1)))?;
        sum = sum.less(minus, value)?;
        terms += (coefficient.number() * value.number()).abs();
    }
    Some((sum, terms))
}

/// The error for requirements that nothing satisfies, with a set of them of which none can be left out.
fn infeasible<N: Number>(
    contract: &Contract,
    system: &System,
    constraints: &[Constraint<N>],
    reduced: &Reduced<N>,
    mut repair: Repair,
) -> Diagnostic {
    for (at, one) in constraints.iter().enumerate().filter(|(_, one)| !one.fixed) {
        // Without the requirement its rate may be anything.
        repair.required[at] = 0.0;
        if repair.least().is_some() {
            repair.required[at] = one.value.number();
        }
    }
    let message = "no rates satisfy these requirements together, however much they are raised";
    let mut wrong = Diagnostic::error("E0178", message);
    let left = constraints.iter().zip(&repair.required);
    let left: BTreeSet<usize> = left
        .filter(|(_, least)| **least > 0.0)
        .map(|(one, _)| one.column)
        .collect();
    for one in &contract.requirements {
        let column = system.resolve(contract, &one.feature, one.span);
        if column.is_ok_and(|column| left.contains(&column)) {
            wrong = wrong.at(one.span, "required");
        }
    }
    let fixed = constraints.iter().filter(|one| one.fixed);
    let fixed: Vec<String> = fixed
        .map(|one| format!("{} = {}/s", system.name(contract, one.column), one.value.number()))
        .collect();
    let rows: Vec<String> = reduced
        .relations
        .iter()
        .map(|row| relation(contract, system, row))
        .collect();
    let mut help = format!("they must satisfy {}", rows.join("; "));
    if !fixed.is_empty() {
        help.push_str(&format!("; the outer contract determines {}", fixed.join(", ")));
    }
    wrong.help(help)
}

/// `e3a + e3b - e5 = 0`
pub(super) fn relation<N: Number>(contract: &Contract, system: &System, row: &SparseRow<N>) -> String {
    let mut out = String::new();
    for (column, value) in row {
        let value = value.number();
        let sign = match (out.is_empty(), value < 0.0) {
            (true, true) => "-",
            (true, false) => "",
            (false, true) => " - ",
            (false, false) => " + ",
        };
        let size = match value.abs() {
            1.0 => String::new(),
            size => format!("{} ", syntax::quantity::significant(size, 6)),
        };
        out.push_str(&format!("{sign}{size}{}", system.name(contract, *column)));
    }
    format!("{out} = 0")
}
