//! The functions of the language, declared once with their documents and an example that the tests check.

use std::ops::RangeInclusive;

/// A fold of a table or of the hits of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Count,
    Mean,
    Min,
    Max,
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
    Clamp,
}

/// Where a function may be used and what it does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// With one argument.
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
        usage: "sum(x) [by process]",
        doc: "The sum over the processes of a table, or over the hits of a probe.",
        example: "sum(cpu.time + runqueue.time)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Sum),
    },
    Function {
        name: "count",
        usage: "count(role), count(probe) [by process], count(x)",
        doc: "The processes of a role, the hits of a probe, or the rows of a table.",
        example: "count(worker)",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Count),
    },
    Function {
        name: "mean",
        usage: "mean(x) [by process]",
        doc: "The mean over the processes of a table, or over the hits of a probe.",
        example: "mean(send.duration) by process",
        arguments: 1..=1,
        meaning: Meaning::Reduction(Reduction::Mean),
    },
    Function {
        name: "min",
        usage: "min(x) [by process], min(a, b, …)",
        doc: "With one argument the least over the processes of a table or the hits of a probe, with several the least.",
        example: "min(cpus.available)",
        arguments: 1..=16,
        meaning: Meaning::Both(Reduction::Min, ScalarFunction::Min),
    },
    Function {
        name: "max",
        usage: "max(x) [by process], max(a, b, …)",
        doc: "With one argument the greatest over the processes of a table or the hits of a probe, with several the greatest.",
        example: "max(1, max(threads))",
        arguments: 1..=16,
        meaning: Meaning::Both(Reduction::Max, ScalarFunction::Max),
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
