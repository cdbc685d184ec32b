//! Assessment: projects the requirements of a contract to all its features, level by level.

use std::collections::BTreeMap;

use serde::Serialize;
use syntax::diag::Diagnostic;

use super::deadlock::{deadlock, steady};
use super::exact::{Exact, to_f64};
use super::model::Contract;
use super::reduce::SparseRow;
use super::reduce::{Number, Reduced, reduce};
use super::satisfy::{Constraint, Unsolved, Values, relation, repaired, sufficient, sum};
use super::system::{Feature, System, end_of_part};

/// An assessed contract: the rate of every feature.
#[derive(Clone, Debug, Serialize)]
pub struct Assessment {
    pub contract: String,
    pub degrees_of_freedom: usize,
    pub specification: Specification,
    pub arithmetic: Arithmetic,
    /// Equations between the required features, which the requirements must satisfy.
    pub relations: Vec<String>,
    /// Requirements that were raised; none if they hold as stated.
    pub raised: Vec<Raise>,
    /// Other repairs with the same sum of raises.
    pub alternatives: Vec<Vec<Raise>>,
    /// How requirements that were stated as times became rates.
    pub conversions: Vec<String>,
    pub features: Vec<FeatureRate>,
    /// The contracts of modules that are programs themselves, by module.
    pub parts: BTreeMap<String, Assessment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Specification {
    /// As many requirements as there are degrees of freedom.
    Exact,
    /// More requirements, with relations between them.
    OverSpecified,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arithmetic {
    ExactFractions,
    /// Fractions became too large. The largest residual of an equation, relative to its terms.
    FloatingPoint {
        residual: f64,
    },
}

/// A requirement that was raised, per second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Raise {
    pub feature: String,
    pub from: f64,
    pub to: f64,
}

/// The rate of a feature per second.
#[derive(Clone, Debug, Serialize)]
pub struct FeatureRate {
    pub feature: String,
    pub rate: f64,
    /// The required rate, as stated.
    pub required: Option<f64>,
}

impl Assessment {
    /// The rate of a feature.
    pub fn rate(&self, feature: &str) -> Option<f64> {
        let found = self.features.iter().find(|one| one.feature == feature)?;
        Some(found.rate)
    }
}

impl Contract {
    /// The rate of every feature if the requirements hold.
    ///
    /// # Errors
    /// If the program deadlocks, requirements are insufficient, or nothing can satisfy them.
    pub fn assess(&self) -> Result<Assessment, Vec<Diagnostic>> {
        let exact = level::<Exact>(self, &BTreeMap::new());
        let result = match exact {
            Err(Unsolved::Arithmetic) => level::<f64>(self, &BTreeMap::new()),
            other => other,
        };
        result.map_err(|stop| match stop {
            Unsolved::Wrong(wrong) => wrong,
            Unsolved::Arithmetic => {
                let message = "the equations of the contract could not be solved numerically";
                vec![Diagnostic::wrong("E0178", self.span, message)]
            }
        })
    }
}

/// Assesses one level, then its parts. `outside` has the rates of the open streams of a part.
fn level<N: Number>(contract: &Contract, outside: &BTreeMap<usize, N>) -> Result<Assessment, Unsolved> {
    let system = System::of(contract);
    let steady = steady::<N>(&system, &|_| false).ok_or(Unsolved::Arithmetic)?;
    if !steady.dead.is_empty() {
        return Err(deadlock(contract, &system, &steady).into());
    }
    let constraints = constraints(contract, &system, outside)?;
    let last: Vec<usize> = constraints.iter().map(|one| one.column).collect();
    let rows = system.rows_in::<N>(|_| true);
    let reduced = reduce(rows, system.features.len(), &last).ok_or(Unsolved::Arithmetic)?;
    sufficient(contract, &system, &reduced)?;
    let (values, alternatives) = repaired(contract, &system, &reduced, &constraints)?;
    let rates = rates(&reduced, &values, system.features.len()).ok_or(Unsolved::Arithmetic)?;
    let name = |column| system.name(contract, column);
    let raises = |values: &BTreeMap<usize, f64>| -> Vec<Raise> {
        let raised = constraints.iter().filter_map(|one| {
            let (from, to) = (one.value.number(), *values.get(&one.column)?);
            (to > from * (1.0 + 1e-9)).then(|| Raise {
                feature: name(one.column),
                from,
                to,
            })
        });
        raised.collect()
    };
    let chosen = values
        .iter()
        .map(|(column, value)| (*column, value.number()))
        .collect();
    let stated: BTreeMap<usize, f64> = constraints
        .iter()
        .map(|one| (one.column, one.value.number()))
        .collect();
    Ok(Assessment {
        contract: contract.name.clone(),
        degrees_of_freedom: steady.degrees_of_freedom,
        specification: match reduced.relations.is_empty() {
            true => Specification::Exact,
            false => Specification::OverSpecified,
        },
        arithmetic: match N::TOLERANCE == 0.0 {
            true => Arithmetic::ExactFractions,
            false => Arithmetic::FloatingPoint {
                residual: residual(&system, &rates),
            },
        },
        relations: reduced
            .relations
            .iter()
            .map(|row| relation(contract, &system, row))
            .collect(),
        raised: raises(&chosen),
        alternatives: alternatives.iter().map(raises).collect(),
        conversions: conversions(contract),
        features: rates
            .iter()
            .enumerate()
            .map(|(column, rate)| FeatureRate {
                feature: name(column),
                rate: rate.number(),
                required: stated.get(&column).copied(),
            })
            .collect(),
        parts: parts(contract, &system, &rates)?,
    })
}

/// The requirements by feature: of two on one feature the greater counts.
fn constraints<N: Number>(
    contract: &Contract,
    system: &System,
    outside: &BTreeMap<usize, N>,
) -> Result<Vec<Constraint<N>>, Unsolved> {
    let constraint = |column, value, fixed| Constraint { column, value, fixed };
    let mut out: BTreeMap<usize, Constraint<N>> = BTreeMap::new();
    for (stream, value) in outside {
        if let Some(column) = system.column(Feature::Outside { stream: *stream }) {
            out.insert(column, constraint(column, *value, true));
        }
    }
    for one in &contract.requirements {
        let column = system.resolve(contract, &one.feature, one.span)?;
        let value = N::from_exact(one.least);
        let known = out.get(&column);
        if known.is_some_and(|known| known.fixed && known.value.number() < value.number()) {
            let message = format!(
                "the outer contract gives `{}` less than required here",
                one.feature
            );
            return Err(Diagnostic::wrong("E0178", one.span, message).into());
        }
        if known.is_none_or(|known| !known.fixed && known.value.number() < value.number()) {
            out.insert(column, constraint(column, value, false));
        }
    }
    Ok(out.into_values().collect())
}

fn rates<N: Number>(reduced: &Reduced<N>, values: &Values<N>, columns: usize) -> Option<Vec<N>> {
    let rate = |column: usize| match (values.get(&column), reduced.solved.get(&column)) {
        (Some(value), _) => Some(*value),
        (None, Some(row)) => Some(sum(row, values)?.0),
        (None, None) => None,
    };
    (0..columns).map(rate).collect()
}

/// The largest residual of an equation, relative to its terms.
fn residual<N: Number>(system: &System, rates: &[N]) -> f64 {
    let residual = |row: &SparseRow<Exact>| {
        let terms = row
            .iter()
            .map(|(column, value)| to_f64(*value) * rates[*column].number());
        let size: f64 = terms.clone().map(f64::abs).sum();
        terms.sum::<f64>().abs() / size.max(f64::MIN_POSITIVE)
    };
    system
        .rows
        .iter()
        .map(|(_, row)| residual(row))
        .fold(0.0, f64::max)
}

fn conversions(contract: &Contract) -> Vec<String> {
    let converted = contract.requirements.iter().filter_map(|one| {
        let conversion = one.conversion.as_ref()?;
        Some(format!("{} >= {}/s: {conversion}", one.feature, one.least))
    });
    converted.collect()
}

/// Assesses the contracts of modules with the rates at their ends.
fn parts<N: Number>(
    contract: &Contract,
    system: &System,
    rates: &[N],
) -> Result<BTreeMap<String, Assessment>, Unsolved> {
    let mut out = BTreeMap::new();
    for (module, one) in contract.modules.iter().enumerate() {
        let Some(part) = &one.part else {
            continue;
        };
        let inner = &contract.parts[part.contract];
        let rate = |outer: usize, stream: usize| {
            let end = end_of_part(module, outer, &inner.streams[stream]);
            Some((stream, rates[system.column(end)?]))
        };
        let outside = part
            .map
            .iter()
            .filter_map(|(outer, stream)| rate(*outer, *stream));
        out.insert(one.name.clone(), level::<N>(inner, &outside.collect())?);
    }
    Ok(out)
}
