//! Ordered Gauss-Jordan elimination of sparse systems, in exact fractions or in floating point.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use num_traits::{CheckedDiv, CheckedMul, CheckedSub, Zero};

use super::exact::{Exact, near, to_f64};

/// The numbers of an elimination.
pub(crate) trait Number: Copy + PartialEq + Default {
    fn from_exact(value: Exact) -> Self;
    /// `self - factor * other`; `None` if it cannot be represented.
    fn less(self, factor: Self, other: Self) -> Option<Self>;
    fn over(self, divisor: Self) -> Option<Self>;
    fn is_nothing(self) -> bool;
    fn number(self) -> f64;
    /// The simplest number near a result of floating point.
    fn near(value: f64) -> Option<Self>;
    /// Sums smaller than this, relative to their terms, are 0.
    const TOLERANCE: f64;
}

impl Number for Exact {
    fn from_exact(value: Exact) -> Exact {
        value
    }

    fn less(self, factor: Exact, other: Exact) -> Option<Exact> {
        self.checked_sub(&factor.checked_mul(&other)?)
    }

    fn over(self, divisor: Exact) -> Option<Exact> {
        self.checked_div(&divisor)
    }

    fn is_nothing(self) -> bool {
        self.is_zero()
    }

    fn number(self) -> f64 {
        to_f64(self)
    }

    fn near(value: f64) -> Option<Exact> {
        near(value)
    }

    const TOLERANCE: f64 = 0.0;
}

/// A difference this small against its operands is rounding.
const ROUNDING: f64 = 1e-11;

impl Number for f64 {
    fn from_exact(value: Exact) -> f64 {
        to_f64(value)
    }

    fn less(self, factor: f64, other: f64) -> Option<f64> {
        let product = factor * other;
        let difference = self - product;
        Some(
            match difference.abs() <= ROUNDING * (self.abs() + product.abs()) {
                true => 0.0,
                false => difference,
            },
        )
    }

    fn over(self, divisor: f64) -> Option<f64> {
        Some(self / divisor)
    }

    fn is_nothing(self) -> bool {
        self == 0.0
    }

    fn number(self) -> f64 {
        self
    }

    fn near(value: f64) -> Option<f64> {
        Some(value)
    }

    const TOLERANCE: f64 = 1e-9;
}

/// A sum over columns that is 0, with the coefficient of each.
pub(crate) type SparseRow<N> = BTreeMap<usize, N>;

/// A system in reduced echelon form, with the columns `last` behind all others.
pub(crate) struct Reduced<N> {
    /// For each pivot column, its equation: `x[pivot] = sum of coefficient * x[column]`.
    pub(crate) solved: BTreeMap<usize, SparseRow<N>>,
    /// Independent equations between columns of `last` alone.
    pub(crate) relations: Vec<SparseRow<N>>,
    /// Columns other than `last` without a pivot: nothing determines them.
    pub(crate) free: Vec<usize>,
}

/// Reduces a system; `None` if a fraction becomes too large.
pub(crate) fn reduce<N: Number>(
    rows: Vec<SparseRow<N>>,
    columns: usize,
    last: &[usize],
) -> Option<Reduced<N>> {
    let constrained: BTreeSet<usize> = last.iter().copied().collect();
    let mut elimination = Elimination::new(rows, columns);
    let pivots = elimination.eliminate(|column| !constrained.contains(&column))?;
    // What is left has constrained columns only; a second pass makes it independent.
    let left = (0..elimination.rows.len()).filter(|row| !pivots.contains_key(row));
    let left: Vec<SparseRow<N>> = left.map(|row| elimination.rows[row].clone()).collect();
    let mut relations = Elimination::new(left, columns);
    let independent = relations.eliminate(|_| true)?;
    let solved: BTreeMap<usize, SparseRow<N>> = pivots
        .iter()
        .map(|(row, pivot)| (*pivot, elimination.solved(*row, *pivot)))
        .collect();
    let free = (0..columns).filter(|column| !constrained.contains(column) && !solved.contains_key(column));
    Some(Reduced {
        free: free.collect(),
        relations: independent
            .keys()
            .map(|row| relations.rows[*row].clone())
            .collect(),
        solved,
    })
}

struct Elimination<N> {
    rows: Vec<SparseRow<N>>,
    /// The rows in which a column occurs.
    users: Vec<BTreeSet<usize>>,
}

impl<N: Number> Elimination<N> {
    fn new(rows: Vec<SparseRow<N>>, columns: usize) -> Elimination<N> {
        let mut users = vec![BTreeSet::new(); columns];
        for (at, row) in rows.iter().enumerate() {
            for column in row.keys() {
                users[*column].insert(at);
            }
        }
        Elimination { rows, users }
    }

    /// Eliminates the columns that `may` be pivots. Returns the pivot of each row that has one.
    ///
    /// The shortest row comes first, with its column in the fewest rows, so that the system stays sparse.
    fn eliminate(&mut self, may: impl Fn(usize) -> bool) -> Option<BTreeMap<usize, usize>> {
        let mut pivots = BTreeMap::new();
        let mut queue: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
        queue.extend(
            self.rows
                .iter()
                .enumerate()
                .map(|(at, row)| Reverse((row.len(), at))),
        );
        while let Some(Reverse((length, at))) = queue.pop() {
            if pivots.contains_key(&at) || self.rows[at].is_empty() {
                continue;
            }
            if length != self.rows[at].len() {
                queue.push(Reverse((self.rows[at].len(), at)));
                continue;
            }
            let Some(pivot) = self.pivot(at, &may) else {
                continue;
            };
            self.normalise(at, pivot)?;
            pivots.insert(at, pivot);
            let row = self.rows[at].clone();
            let others: Vec<usize> = self.users[pivot]
                .iter()
                .copied()
                .filter(|other| *other != at)
                .collect();
            for other in others {
                self.subtract(other, pivot, &row)?;
                if !pivots.contains_key(&other) {
                    queue.push(Reverse((self.rows[other].len(), other)));
                }
            }
        }
        Some(pivots)
    }

    /// The column that occurs in the fewest rows, of those whose coefficient is not small.
    fn pivot(&self, at: usize, may: impl Fn(usize) -> bool) -> Option<usize> {
        let row = self.rows[at].iter().filter(|(column, _)| may(**column));
        let largest = row
            .clone()
            .map(|(_, value)| value.number().abs())
            .fold(0.0, f64::max);
        row.filter(|(_, value)| value.number().abs() >= 0.01 * largest)
            .map(|(column, _)| *column)
            .min_by_key(|column| (self.users[*column].len(), *column))
    }

    fn normalise(&mut self, at: usize, pivot: usize) -> Option<()> {
        let divisor = self.rows[at][&pivot];
        for value in self.rows[at].values_mut() {
            *value = value.over(divisor)?;
        }
        Some(())
    }

    fn subtract(&mut self, other: usize, pivot: usize, row: &SparseRow<N>) -> Option<()> {
        let factor = self.rows[other][&pivot];
        for (column, value) in row {
            let target = self.rows[other].entry(*column).or_default();
            let result = match *column == pivot {
                true => N::default(),
                false => target.less(factor, *value)?,
            };
            *target = result;
            if result.is_nothing() {
                self.rows[other].remove(column);
                self.users[*column].remove(&other);
            } else {
                self.users[*column].insert(other);
            }
        }
        Some(())
    }

    /// The row of a pivot as an equation for it.
    fn solved(&self, at: usize, pivot: usize) -> SparseRow<N> {
        let others = self.rows[at].iter().filter(|(column, _)| **column != pivot);
        others
            .filter_map(|(column, value)| {
                Some((
                    *column,
                    N::default().less(*value, N::from_exact(Exact::from_integer(1)))?,
                ))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::Contract;
    use super::super::system::System;
    use super::*;

    include!("../benches/generated/contracts.rs");

    thread_local! {
        static OPERATIONS: Cell<u64> = const { Cell::new(0) };
    }

    /// A number that counts the multiplications of an elimination.
    #[derive(Clone, Copy, Default, PartialEq)]
    struct Counted(f64);

    impl Number for Counted {
        fn from_exact(value: Exact) -> Counted {
            Counted(to_f64(value))
        }

        fn less(self, factor: Counted, other: Counted) -> Option<Counted> {
            OPERATIONS.set(OPERATIONS.get() + 1);
            self.0.less(factor.0, other.0).map(Counted)
        }

        fn over(self, divisor: Counted) -> Option<Counted> {
            self.0.over(divisor.0).map(Counted)
        }

        fn is_nothing(self) -> bool {
            self.0.is_nothing()
        }

        fn number(self) -> f64 {
            self.0
        }

        fn near(value: f64) -> Option<Counted> {
            Some(Counted(value))
        }

        const TOLERANCE: f64 = f64::TOLERANCE;
    }

    /// Variables of a contract, and multiplications to reduce it.
    fn counted(source: &str) -> (usize, u64) {
        let contract = Contract::parse(source).unwrap();
        let system = System::of(&contract);
        OPERATIONS.set(0);
        let columns = system.features.len();
        assert!(reduce::<Counted>(system.rows_in(|_| true), columns, &[0]).is_some());
        (columns, OPERATIONS.get())
    }

    /// Elimination without an order for sparse systems takes the cube of the number of variables.
    #[test]
    fn the_work_of_an_elimination_grows_like_the_number_of_variables() {
        for (program, most) in [(pipeline as fn(usize) -> String, 4), (mesh, 6)] {
            let [small, large] = [100, 1000].map(|modules| counted(&program(modules)));
            assert!(large.1 <= most * large.0 as u64, "{large:?}");
            let growth = (large.1 / small.1) as f64 / (large.0 / small.0) as f64;
            assert!(growth < 1.2, "{small:?} {large:?}");
        }
    }
}
