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
}

/// Where a function may be used and what it does there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Meaning {
    /// What is folded is the first argument.
    Reduction(Reduction),
    /// With one argument a reduction, with several a function of single values.
    Both(Reduction, ScalarFunction),
    Scalar(ScalarFunction),
    /// About a process: in roles only.
    Loads,
    Has,
}

/// A built-in function.
#[derive(Debug)]
pub struct Function {
    /// Its name in formulas.
    pub name: &'static str,
    /// How it is called.
    pub usage: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    /// A formula that uses it.
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
        doc: "The greatest whole number that is not above a plain number.",
        example: "floor(mean(cpus.available))",
        arguments: 1..=1,
        meaning: Meaning::Scalar(ScalarFunction::Floor),
    },
    Function {
        name: "ceil",
        usage: "ceil(x)",
        doc: "The least whole number that is not below a plain number.",
        example: "ceil(2.5)",
        arguments: 1..=1,
        meaning: Meaning::Scalar(ScalarFunction::Ceil),
    },
    Function {
        name: "round",
        usage: "round(x)",
        doc: "The whole number nearest to a plain number, halves away from 0.",
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
