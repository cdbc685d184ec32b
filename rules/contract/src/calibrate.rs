//! Calibration: the work of an activation from its times on machines of different power, by least squares.

use std::collections::BTreeMap;

use serde::Serialize;

/// A work that was fitted to measured times.
#[derive(Clone, Debug, Serialize)]
pub struct FittedWork {
    pub work: String,
    /// The fitted amounts, by metric.
    pub amounts: BTreeMap<String, f64>,
    /// The measured minus the predicted time in seconds, by machine.
    pub residuals_s: BTreeMap<String, f64>,
    /// How much errors of the times can grow in the amounts, at worst, both relative to their size.
    pub condition: f64,
}

/// The least-squares solution of `rows * x = values`, and the condition number of the rows with their columns
/// scaled to one length. `None` if the columns depend on each other, or there are fewer rows than columns.
pub(super) fn least_squares(rows: &[Vec<f64>], values: &[f64]) -> Option<(Vec<f64>, f64)> {
    let width = rows.first()?.len();
    if rows.len() < width || width == 0 {
        return None;
    }
    let column = |at: usize| -> Vec<f64> { rows.iter().map(|row| row[at]).collect() };
    let scales: Vec<f64> = (0..width).map(|at| norm(&column(at))).collect();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut upper = vec![vec![0.0; width]; width];
    // Modified Gram-Schmidt: columns = basis * upper.
    for at in 0..width {
        let mut rest: Vec<f64> = column(at).iter().map(|value| value / scales[at]).collect();
        for (before, unit) in basis.iter().enumerate() {
            let part = dot(unit, &rest);
            upper[before][at] = part;
            rest.iter_mut()
                .zip(unit)
                .for_each(|(value, unit)| *value -= part * unit);
        }
        let length = norm(&rest);
        if length.is_nan() || length <= 1e-8 {
            return None;
        }
        upper[at][at] = length;
        basis.push(rest.iter().map(|value| value / length).collect());
    }
    let mut solution = vec![0.0; width];
    for at in (0..width).rev() {
        let known: f64 = (at + 1..width)
            .map(|other| upper[at][other] * solution[other])
            .sum();
        solution[at] = (dot(&basis[at], values) - known) / upper[at][at];
    }
    let amounts = solution.iter().zip(&scales).map(|(value, scale)| value / scale);
    Some((amounts.collect(), condition(&upper)))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

/// The ratio of the largest and the smallest singular value, by Jacobi rotations of `upper' * upper`.
fn condition(upper: &[Vec<f64>]) -> f64 {
    let width = upper.len();
    let entry = |i: usize, j: usize| upper.iter().map(|row| row[i] * row[j]).sum::<f64>();
    let mut gram: Vec<Vec<f64>> = (0..width)
        .map(|i| (0..width).map(|j| entry(i, j)).collect())
        .collect();
    for _ in 0..30 {
        for p in 0..width {
            for q in p + 1..width {
                rotate(&mut gram, p, q);
            }
        }
    }
    let values = (0..width).map(|at| gram[at][at].max(0.0).sqrt());
    let (most, least) = values.fold((0.0_f64, f64::INFINITY), |(most, least), value| {
        (most.max(value), least.min(value))
    });
    most / least
}

/// A rotation in the plane of `p` and `q` that makes their common entry 0.
fn rotate(gram: &mut [Vec<f64>], p: usize, q: usize) {
    if gram[p][q] == 0.0 {
        return;
    }
    let angle = 0.5 * (2.0 * gram[p][q]).atan2(gram[q][q] - gram[p][p]);
    let (sine, cosine) = angle.sin_cos();
    for row in gram.iter_mut() {
        let (a, b) = (row[p], row[q]);
        (row[p], row[q]) = (cosine * a - sine * b, sine * a + cosine * b);
    }
    let turned = |first: f64, second: f64| -> Vec<f64> {
        let both = gram[p].iter().zip(&gram[q]);
        both.map(|(a, b)| first * a + second * b).collect()
    };
    (gram[p], gram[q]) = (turned(cosine, -sine), turned(sine, cosine));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_points_has_the_known_solution_and_condition() {
        let rows = [vec![1.0, 0.0], vec![1.0, 1.0], vec![1.0, 2.0]];
        let (found, condition) = least_squares(&rows, &[1.0, 2.0, 4.0]).unwrap();
        // Normal equations: 3 a + 3 b = 7, 3 a + 5 b = 10.
        assert!(
            (found[0] - 5.0 / 6.0).abs() < 1e-12 && (found[1] - 1.5).abs() < 1e-12,
            "{found:?}"
        );
        // Columns of one length have the product sqrt(3/5): singular values sqrt(1 +- sqrt(3/5)).
        let cosine = 0.6_f64.sqrt();
        assert!(
            (condition - ((1.0 + cosine) / (1.0 - cosine)).sqrt()).abs() < 1e-9,
            "{condition}"
        );
    }

    #[test]
    fn columns_that_depend_on_each_other_have_no_solution() {
        assert!(least_squares(&[vec![1.0, 2.0], vec![2.0, 4.0]], &[1.0, 2.0]).is_none());
        assert!(least_squares(&[vec![1.0, 2.0]], &[1.0]).is_none());
        assert!(least_squares(&[], &[]).is_none());
    }
}
