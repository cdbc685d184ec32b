//! The least repair of requirements: linear programs (41) and (44) of the source.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

/// Required values `c`, and the equations that they and the other rates must satisfy.
pub(super) struct Repair {
    pub(super) required: Vec<f64>,
    /// Values that may not be raised: rates that an outer contract has fixed.
    pub(super) fixed: Vec<bool>,
    /// Sums over the required values that are 0.
    pub(super) equalities: Vec<Vec<f64>>,
    /// Sums over the required values that are not negative: the other rates.
    pub(super) not_negative: Vec<Vec<f64>>,
}

/// Two raises closer than this, relative to all raises and required values, are the same.
const SAME: f64 = 1e-6;
/// Sums of raises may differ by this share: rounding of the solver.
const ROUNDING: f64 = 1e-9;
/// Maximum number of requirements for which other least repairs are searched.
const SEARCHED_MAX: usize = 32;

impl Repair {
    /// The least raises of the required values, by their sum. If several repairs have the least sum, the others
    /// that differ most follow the first. `None` if no values at or above the required ones satisfy the equations.
    pub(super) fn least(&self) -> Option<Vec<Vec<f64>>> {
        let scale = self.required.iter().copied().fold(0.0, f64::max);
        let ones = vec![1.0; self.required.len()];
        let first = self.solve(&ones, None, scale)?;
        let total: f64 = first.iter().sum();
        let mut found = vec![first];
        if self.required.len() > SEARCHED_MAX {
            return Some(found);
        }
        for at in 0..self.required.len() {
            for sign in [1.0, -1.0] {
                let mut cost = vec![0.0; self.required.len()];
                cost[at] = sign;
                let other = self.solve(&cost, Some(total), scale);
                let differs = |other: &Vec<f64>| {
                    let near = |one: &Vec<f64>| {
                        let mut pairs = one.iter().zip(other);
                        pairs.all(|(a, b)| (a - b).abs() <= SAME * scale.max(total))
                    };
                    !found.iter().any(near)
                };
                found.extend(other.filter(differs));
            }
        }
        Some(found)
    }

    /// Raises that minimise the cost, with a sum of at most `total`.
    fn solve(&self, cost: &[f64], total: Option<f64>, scale: f64) -> Option<Vec<f64>> {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let raises: Vec<Variable> = cost
            .iter()
            .zip(&self.fixed)
            .map(|(cost, fixed)| problem.add_var(*cost, (0.0, if *fixed { 0.0 } else { f64::INFINITY })))
            .collect();
        let mut constrain = |row: &[f64], operator| {
            let scaled = scaled(row);
            let required = scaled.iter().zip(&self.required);
            let now: f64 = required.map(|(a, c)| a * c / scale).sum();
            let terms: Vec<(Variable, f64)> = raises.iter().copied().zip(scaled).collect();
            problem.add_constraint(terms.as_slice(), operator, -now);
        };
        for row in &self.equalities {
            constrain(row, ComparisonOp::Eq);
        }
        // A row without a negative coefficient holds for all raises.
        let binding = self
            .not_negative
            .iter()
            .filter(|row| row.iter().any(|value| *value < 0.0));
        for row in binding {
            constrain(row, ComparisonOp::Ge);
        }
        if let Some(total) = total {
            let all: Vec<(Variable, f64)> = raises.iter().map(|raise| (*raise, 1.0)).collect();
            problem.add_constraint(
                all.as_slice(),
                ComparisonOp::Le,
                total / scale * (1.0 + ROUNDING) + ROUNDING,
            );
        }
        let solution = problem.solve().ok()?.into_solution().ok()?;
        Some(
            raises
                .iter()
                .map(|raise| solution.var_value(*raise).max(0.0) * scale)
                .collect(),
        )
    }
}

/// A row whose largest coefficient is 1 or -1.
fn scaled(row: &[f64]) -> Vec<f64> {
    let largest = row
        .iter()
        .map(|value| value.abs())
        .fold(f64::MIN_POSITIVE, f64::max);
    row.iter().map(|value| value / largest).collect()
}

/// The rates that can be above 0, of those given as rows over free variables of any sign, where no rate is
/// negative. Rates of a cone can be positive together if each of them can.
pub(super) fn can_be_positive(rows: &[Vec<f64>]) -> Option<Vec<bool>> {
    let Some(width) = rows.first().map(Vec::len) else {
        return Some(Vec::new());
    };
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let free: Vec<Variable> = (0..width)
        .map(|_| problem.add_var(0.0, (f64::NEG_INFINITY, f64::INFINITY)))
        .collect();
    let mut seen: Vec<(Vec<f64>, Variable)> = Vec::new();
    let mut variables = Vec::new();
    for row in rows {
        let scaled = scaled(row);
        if let Some((_, known)) = seen.iter().find(|(known, _)| *known == scaled) {
            variables.push(*known);
            continue;
        }
        let above = problem.add_var(1.0, (0.0, 1.0));
        let mut terms: Vec<(Variable, f64)> = free.iter().copied().zip(scaled.iter().copied()).collect();
        terms.push((above, -1.0));
        problem.add_constraint(terms.as_slice(), ComparisonOp::Ge, 0.0);
        seen.push((scaled, above));
        variables.push(above);
    }
    let solution = problem.solve().ok()?.into_solution().ok()?;
    Some(
        variables
            .iter()
            .map(|variable| solution.var_value(*variable) > 0.5)
            .collect(),
    )
}
