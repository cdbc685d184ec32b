//! The functions of the language, declared once with their documents and an example that the tests check.

use std::ops::RangeInclusive;

/// A fold of a table or of the hits of a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Count,
    Mean,
    Stddev,
    Min,
    Max,
    First,
    Last,
    Only,
    Any,
    All,
    /// The share of the values below; the second argument of a call, 0 until the checker has read it.
    Quantile(f64),
    Slope,
    Intercept,
    /// Of tables only: the key of the least and of the greatest.
    ArgMin,
    ArgMax,
}

/// A function of single values; on tables it works row by row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScalarFunction {
    Min,
    Max,
    Floor,
    Ceil,
    Round,
    Abs,
    Sqrt,
    Clamp,
    FactoringX,
}

/// Where a function may be used and what it does there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// What is folded is the first argument.
    Reduction(Reduction),
    /// With one argument a reduction, with several a function of single values.
    Both(Reduction, ScalarFunction),
    Scalar(ScalarFunction),
    Ewma,
    /// Whether the least and the greatest differ.
    Changed,
    /// About a process: in roles only.
    Loads,
    Has,
}

#[derive(Debug)]
pub struct Function {
    pub name: &'static str,
    pub usage: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    pub example: &'static str,
    pub(crate) arguments: RangeInclusive<usize>,
    pub(crate) meaning: Meaning,
}

/// Every built-in function, in the order of the documents.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "sum",
        usage: "sum(x) [by key]",
        doc: "The sum over the rows of a table, or over the hits of a probe.",
        example: "sum(cpu.time + runqueue.time)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Sum),
    },
    Function {
        name: "count",
        usage: "count(role), count(probe) [by key], count(x)",
        doc: "The processes of a role, the hits of a probe, or the rows of a table.",
        example: "count(worker)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Count),
    },
    Function {
        name: "mean",
        usage: "mean(x) [by key]",
        doc: "The mean over the rows of a table, or over the hits of a probe.",
        example: "mean(send.duration) by process",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Mean),
    },
    Function {
        name: "min",
        usage: "min(x) [by key], min(a, b, …)",
        doc: "With one argument the least over the rows of a table or the hits of a probe, with several the least.",
        example: "min(cpus.available)",
        arguments: 1..=16,
        meaning: Meaning::Both(Reduction::Min, ScalarFunction::Min),
    },
    Function {
        name: "max",
        usage: "max(x) [by key], max(a, b, …)",
        doc: "With one argument the greatest over the rows of a table or the hits of a probe, with several the greatest.",
        example: "max(1, max(threads))",
        arguments: 1..=16,
        meaning: Meaning::Both(Reduction::Max, ScalarFunction::Max),
    },
    Function {
        name: "product",
        usage: "product(x) [by key]",
        doc: "The product of plain numbers over the rows of a table, or over the hits of a probe.",
        example: "product(send.size / 1KiB)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Product),
    },
    Function {
        name: "stddev",
        usage: "stddev(x) [by key]",
        doc: "The standard deviation: the root of the mean square of the distances from the mean.",
        example: "stddev(send.duration) / mean(send.duration)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Stddev),
    },
    Function {
        name: "first",
        usage: "first(x) [by key]",
        doc: "The value of the earliest hit, or of the least key of a table.",
        example: "first(send.time)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::First),
    },
    Function {
        name: "last",
        usage: "last(x) [by key]",
        doc: "The value of the latest hit, or of the greatest key of a table.",
        example: "last(send.to)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Last),
    },
    Function {
        name: "only",
        usage: "only(x) [by key]",
        doc: "The one value that all hits or rows have; none where they differ.",
        example: "only(send.size where send.to == 1)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Only),
    },
    Function {
        name: "any",
        usage: "any(condition) [by key]",
        doc: "Whether the condition is true of at least one hit or row.",
        example: "any(send.duration > 1s)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Any),
    },
    Function {
        name: "all",
        usage: "all(condition) [by key]",
        doc: "Whether the condition is true of every hit or row.",
        example: "all(cpu.time > 1ms)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::All),
    },
    Function {
        name: "changed",
        usage: "changed(x)",
        doc: "Whether the hits or rows do not all have the same number.",
        example: "changed(send.size)",
        arguments: 1..=1,
        meaning: Meaning::Changed,
    },
    Function {
        name: "quantile",
        usage: "quantile(x, share) [by key]",
        doc: "The value that a share of all values stays below: of up to 64 values between two of them, of more to 1/64 of it.",
        example: "quantile(send.duration, 95%)",
        arguments: 2..=2,
        meaning: Meaning::Reduction(Reduction::Quantile(0.0)),
    },
    Function {
        name: "slope",
        usage: "slope(y, x) [by key]",
        doc: "How much y grows with x: the slope of the straight line of least squares through the hits.",
        example: "slope(send.duration, send.size)",
        arguments: 2..=2,
        meaning: Meaning::Reduction(Reduction::Slope),
    },
    Function {
        name: "intercept",
        usage: "intercept(y, x) [by key]",
        doc: "The y at x = 0 of the straight line of least squares through the hits.",
        example: "intercept(send.duration, send.size)",
        arguments: 2..=2,
        meaning: Meaning::Reduction(Reduction::Intercept),
    },
    Function {
        name: "argmin",
        usage: "argmin(table)",
        doc: "The key of the least value of a table, a process by its rank; among equals the least key.",
        example: "argmin(sum(send.duration) by send.to)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::ArgMin),
    },
    Function {
        name: "argmax",
        usage: "argmax(table)",
        doc: "The key of the greatest value of a table, a process by its rank; among equals the least key.",
        example: "argmax(cpu.time)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::ArgMax),
    },
    Function {
        name: "floor",
        usage: "floor(x)",
        doc: "The greatest integer that is not above a plain number.",
        example: "floor(mean(cpus.available))",
        arguments: 1..=1,
        meaning: Meaning::Scalar(ScalarFunction::Floor),
    },
    Function {
        name: "ceil",
        usage: "ceil(x)",
        doc: "The least integer that is not below a plain number.",
        example: "ceil(2.5)",
        arguments: 1..=1,
        meaning: Meaning::Scalar(ScalarFunction::Ceil),
    },
    Function {
        name: "round",
        usage: "round(x)",
        doc: "The integer nearest to a plain number, halves away from 0.",
        example: "round(2.5)",
        arguments: 1..=1,
        meaning: Meaning::Scalar(ScalarFunction::Round),
    },
    Function {
        name: "abs",
        usage: "abs(x)",
        doc: "A number without its sign.",
        example: "abs(2ms - 3ms)",
        arguments: 1..=1,
        meaning: Meaning::Scalar(ScalarFunction::Abs),
    },
    Function {
        name: "sqrt",
        usage: "sqrt(x)",
        doc: "The square root; of a dimension with even powers. None of what is negative.",
        example: "sqrt(count(worker) / 2)",
        arguments: 1..=1,
        meaning: Meaning::Scalar(ScalarFunction::Sqrt),
    },
    Function {
        name: "clamp",
        usage: "clamp(x, low, high)",
        doc: "The number of low to high nearest to x; none when low is above high.",
        example: "clamp(count(worker), 1, 8)",
        arguments: 3..=3,
        meaning: Meaning::Scalar(ScalarFunction::Clamp),
    },
    Function {
        name: "factoring_x",
        usage: "factoring_x(batch, mean, stddev, workers)",
        doc: "The factor of the factoring model: a batch of the tasks that are left is divided by it and the workers. It is 1 + v for batch 0, for which all workers wait, and 2 + v for those behind it, with v = stddev / mean * sqrt(workers / 2) of the time a task takes.",
        example: "factoring_x(0, mean(send.duration), stddev(send.duration), count(worker))",
        arguments: 4..=4,
        meaning: Meaning::Scalar(ScalarFunction::FactoringX),
    },
    Function {
        name: "ewma",
        usage: "ewma(x, weight [by key] [over run])",
        doc: "The exponentially weighted mean over all instances of the window so far, with this weight of the newest; with a key one for each of its values.",
        example: "ewma(sum(cpu.time), 40%)",
        arguments: 2..=2,
        meaning: Meaning::Ewma,
    },
    Function {
        name: "loads",
        usage: "loads(\"glob\")",
        doc: "In roles: whether the process has a library mapped whose file name fits the pattern (`*`, `?`).",
        example: "loads(\"libgomp*.so*\")",
        arguments: 1..=1,
        meaning: Meaning::Loads,
    },
    Function {
        name: "has",
        usage: "has(symbol)",
        doc: "In roles: whether the process or one of its libraries has the symbol.",
        example: "has(opal_progress_yield_when_idle)",
        arguments: 1..=1,
        meaning: Meaning::Has,
    },
];

/// The function called `name`.
pub(crate) fn function_named(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// The three steps of the factoring model: how much task times vary, what that means for so many workers, and the
/// factor of a batch. The errors say why there is none.
pub(crate) mod factoring {
    pub(crate) fn variation(mean: f64, stddev: f64) -> Result<f64, String> {
        if mean <= 0.0 || stddev < 0.0 {
            return Err("factoring needs a mean above 0 and a spread that is not below it".to_string());
        }
        Ok(stddev / mean)
    }

    pub(crate) fn spread(variation: f64, workers: f64) -> Result<f64, String> {
        if workers < 1.0 {
            return Err("factoring needs a worker".to_string());
        }
        Ok(variation * (workers / 2.0).sqrt())
    }

    pub(crate) fn factor(batch: f64, spread: f64) -> Result<f64, String> {
        if batch < 0.0 {
            return Err("batches are numbered from 0".to_string());
        }
        Ok(if batch < 1.0 { 1.0 + spread } else { 2.0 + spread })
    }
}

#[cfg(test)]
mod tests {
    use super::factoring::{factor, spread, variation};

    fn factoring_x(batch: f64, mean: f64, stddev: f64, workers: f64) -> Result<f64, String> {
        factor(batch, spread(variation(mean, stddev)?, workers)?)
    }

    /// Tasks for each worker, batch by batch, until few are left.
    fn batches(tasks: f64, workers: f64, mean: f64, stddev: f64) -> (Vec<f64>, f64) {
        let mut sizes = Vec::new();
        let mut left = tasks;
        while sizes.len() < 10 && left > 2.0 * workers {
            let x = factoring_x(sizes.len() as f64, mean, stddev, workers).unwrap();
            let size = (left / (x * workers)).floor().max(1.0);
            left -= size * workers;
            sizes.push(size);
        }
        (sizes, left)
    }

    #[test]
    fn factoring_gives_the_batches_of_the_corrected_model() {
        let cases: &[(f64, f64, f64, &[f64], f64)] = &[
            (1000.0, 8.0, 0.0, &[125.0], 0.0),
            (1000.0, 8.0, 2.0, &[89.0, 15.0, 8.0, 5.0, 3.0, 2.0, 1.0], 16.0),
            (
                1000.0,
                8.0,
                5.0,
                &[62.0, 21.0, 14.0, 9.0, 6.0, 4.0, 3.0, 2.0, 1.0, 1.0],
                16.0,
            ),
            (
                10000.0,
                25.0,
                10.0,
                &[88.0, 56.0, 46.0, 37.0, 31.0, 25.0, 21.0, 17.0, 14.0, 11.0],
                1350.0,
            ),
        ];
        for (tasks, workers, stddev, sizes, left) in cases {
            let found = batches(*tasks, *workers, 10.0, *stddev);
            assert_eq!(found, (sizes.to_vec(), *left));
        }
    }

    #[test]
    fn factoring_of_nothing_is_none() {
        assert!(factoring_x(0.0, 0.0, 1.0, 8.0).is_err());
        assert!(factoring_x(0.0, 1.0, 1.0, 0.0).is_err());
    }
}
