//! The functions of the language, each declared once with its documentation and an example that the tests
//! check.

mod scalar;

use std::ops::RangeInclusive;

use plan::Operator;
use scalar::{alike, compiled_fold, each, folded};

pub(crate) use scalar::ScalarFunction;

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
    /// The share of values below; the second argument of a call, 0 until the checker has evaluated it.
    Quantile(f64),
    Slope,
    Intercept,
    /// For tables only: the key of the least and of the greatest value.
    ArgMin,
    ArgMax,
}

/// The meaning of a function, which determines where it may be used.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning {
    /// A reduction of the first argument.
    Reduction(Reduction),
    /// A reduction with one argument, a function of single values with several.
    Both(Reduction, ScalarFunction),
    Scalar(ScalarFunction),
    Ewma,
    /// Whether the least and the greatest value differ.
    Changed,
    /// Facts about a process; in roles only.
    Loads,
    Has,
}

#[derive(Debug)]
pub struct FormulaFunction {
    pub name: &'static str,
    pub usage: &'static str,
    /// One or two sentences.
    pub doc: &'static str,
    pub example: &'static str,
    pub(crate) arguments: RangeInclusive<usize>,
    pub(crate) meaning: Meaning,
}

/// One entry per function: name, meaning, number of arguments, usage, example, documentation. The meaning of a function of
/// single values has its type rule and its evaluation.
macro_rules! functions {
    ($($name:literal => $meaning:expr, $arguments:expr, $usage:literal, $example:literal, $doc:literal;)*) => {
        /// Every built-in function, in the order of the documentation.
        pub const FUNCTIONS: &[FormulaFunction] = &[$(FormulaFunction {
            name: $name,
            usage: $usage,
            doc: $doc,
            example: $example,
            arguments: $arguments,
            meaning: $meaning,
        },)*];
    };
}

functions! {
    "sum" => Meaning::Reduction(Reduction::Sum), 1..=1, "sum(x) [by key]", "sum(cpu.time + runqueue.time)",
        "The sum over the rows of a table, or over the hits of a probe.";
    "count" => Meaning::Reduction(Reduction::Count), 1..=1, "count(role), count(probe) [by key], count(x)", "count(worker)",
        "The processes of a role, the hits of a probe, or the rows of a table.";
    "mean" => Meaning::Reduction(Reduction::Mean), 1..=1, "mean(x) [by key]", "mean(send.duration) by process",
        "The mean over the rows of a table, or over the hits of a probe.";
    "min" => Meaning::Both(
        Reduction::Min,
        ScalarFunction::new(alike, |values| folded(values, f64::min)).compiled(|parts| compiled_fold(Operator::Min, parts)),
    ), 1..=16, "min(x) [by key], min(a, b, …)", "min(cpus.available)",
        "With one argument the least over the rows of a table or the hits of a probe, with several the least.";
    "max" => Meaning::Both(
        Reduction::Max,
        ScalarFunction::new(alike, |values| folded(values, f64::max)).compiled(|parts| compiled_fold(Operator::Max, parts)),
    ), 1..=16, "max(x) [by key], max(a, b, …)", "max(1, max(threads))",
        "With one argument the greatest over the rows of a table or the hits of a probe, with several the greatest.";
    "product" => Meaning::Reduction(Reduction::Product), 1..=1, "product(x) [by key]", "product(send.size / 1KiB)",
        "The product of plain numbers over the rows of a table, or over the hits of a probe.";
    "stddev" => Meaning::Reduction(Reduction::Stddev), 1..=1, "stddev(x) [by key]", "stddev(send.duration) / mean(send.duration)",
        "The standard deviation: the root of the mean square of the distances from the mean.";
    "first" => Meaning::Reduction(Reduction::First), 1..=1, "first(x) [by key]", "first(send.time)",
        "The value of the earliest hit, or of the least key of a table.";
    "last" => Meaning::Reduction(Reduction::Last), 1..=1, "last(x) [by key]", "last(send.to)",
        "The value of the latest hit, or of the greatest key of a table.";
    "only" => Meaning::Reduction(Reduction::Only), 1..=1, "only(x) [by key]", "only(send.size where send.to == 1)",
        "The one value that all hits or rows have; none where they differ.";
    "any" => Meaning::Reduction(Reduction::Any), 1..=1, "any(condition) [by key]", "any(send.duration > 1s)",
        "Whether the condition is true of at least one hit or row.";
    "all" => Meaning::Reduction(Reduction::All), 1..=1, "all(condition) [by key]", "all(cpu.time > 1ms)",
        "Whether the condition is true of every hit or row.";
    "changed" => Meaning::Changed, 1..=1, "changed(x)", "changed(send.size)",
        "Whether the hits or rows do not all have the same number.";
    "quantile" => Meaning::Reduction(Reduction::Quantile(0.0)), 2..=2,
        "quantile(x, share) [by key]", "quantile(send.duration, 95%)",
        "The value that a share of all values stays below: of up to 64 values between two of them, of more to 1/64 of it.";
    "slope" => Meaning::Reduction(Reduction::Slope), 2..=2, "slope(y, x) [by key]", "slope(send.duration, send.size)",
        "How much y grows with x: the slope of the straight line of least squares through the hits.";
    "intercept" => Meaning::Reduction(Reduction::Intercept), 2..=2,
        "intercept(y, x) [by key]", "intercept(send.duration, send.size)",
        "The y at x = 0 of the straight line of least squares through the hits.";
    "argmin" => Meaning::Reduction(Reduction::ArgMin), 1..=1, "argmin(table)", "argmin(sum(send.duration) by send.to)",
        "The key of the least value of a table, a process by its rank; among equals the least key.";
    "argmax" => Meaning::Reduction(Reduction::ArgMax), 1..=1, "argmax(table)", "argmax(cpu.time)",
        "The key of the greatest value of a table, a process by its rank; among equals the least key.";
    "floor" => Meaning::Scalar(ScalarFunction::new(scalar::rounded, |values| each(values, f64::floor))), 1..=1, "floor(x)", "floor(mean(cpus.available))",
        "The greatest integer that is not above a plain number.";
    "ceil" => Meaning::Scalar(ScalarFunction::new(scalar::rounded, |values| each(values, f64::ceil))), 1..=1, "ceil(x)", "ceil(2.5)",
        "The least integer that is not below a plain number.";
    "round" => Meaning::Scalar(ScalarFunction::new(scalar::rounded, |values| each(values, f64::round))), 1..=1, "round(x)", "round(2.5)",
        "The integer nearest to a plain number, halves away from 0.";
    "abs" => Meaning::Scalar(ScalarFunction::new(alike, |values| each(values, f64::abs))), 1..=1, "abs(x)", "abs(2ms - 3ms)",
        "A number without its sign.";
    "sqrt" => Meaning::Scalar(ScalarFunction::new(scalar::root, scalar::square_root)), 1..=1, "sqrt(x)", "sqrt(count(worker) / 2)",
        "The square root; of a dimension with even powers. None of what is negative.";
    "clamp" => Meaning::Scalar(ScalarFunction::new(alike, scalar::clamped).compiled(scalar::compiled_clamp)), 3..=3, "clamp(x, low, high)", "clamp(count(worker), 1, 8)",
        "The number of low to high nearest to x; none when low is above high.";
    "factoring_x" => Meaning::Scalar(ScalarFunction::new(scalar::factoring, scalar::factoring_x)), 4..=4,
        "factoring_x(batch, mean, stddev, workers)", "factoring_x(0, mean(send.duration), stddev(send.duration), count(worker))",
        "The factor of the factoring model: a batch of the tasks that are left is divided by it and the workers. It is 1 + v for batch 0, for which all workers wait, and 2 + v for those behind it, with v = stddev / mean * sqrt(workers / 2) of the time a task takes.";
    "cpu_shares" => Meaning::Scalar(ScalarFunction::new(scalar::shares, scalar::cpu_shares).of_all_rows()), 3..=3,
        "cpu_shares(cpus, serial, now)", "cpu_shares(8, scaling.serial, scaling.threads)",
        "CPUs for each row: one at least, and the next one always goes to the row whose speedup grows most by it, by Amdahl's law with its serial fraction. What the rows have now stays unless the product of the speedups grows by 5 %. None where a row has no fraction.";
    "ewma" => Meaning::Ewma, 2..=2, "ewma(x, weight [by key] [over run])", "ewma(sum(cpu.time), 40%)",
        "The exponentially weighted mean over all instances of the window so far, with this weight of the newest; with a key one for each of its values.";
    "loads" => Meaning::Loads, 1..=1, "loads(\"glob\")", "loads(\"libgomp*.so*\")",
        "In roles: whether the process has a library mapped whose file name fits the pattern (`*`, `?`).";
    "has" => Meaning::Has, 1..=1, "has(variable)", "has(opal_progress_yield_when_idle)",
        "In roles: whether the process or one of its libraries has a variable of this name.";
}

pub(crate) fn function_named(name: &str) -> Option<&'static FormulaFunction> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

impl Reduction {
    pub(crate) fn name(self) -> &'static str {
        let same = |other: Reduction| std::mem::discriminant(&other) == std::mem::discriminant(&self);
        let is_it = |function: &&FormulaFunction| matches!(function.meaning, Meaning::Reduction(other) | Meaning::Both(other, _) if same(other));
        FUNCTIONS.iter().find(is_it).map_or("", |function| function.name)
    }
}

impl FormulaFunction {
    /// What it is of single values, if it is available for them.
    pub(crate) fn scalar(&self) -> Option<ScalarFunction> {
        match self.meaning {
            Meaning::Both(_, scalar) | Meaning::Scalar(scalar) => Some(scalar),
            Meaning::Reduction(_) | Meaning::Ewma | Meaning::Changed | Meaning::Loads | Meaning::Has => None,
        }
    }
}

/// A function is identified by its name.
impl PartialEq for FormulaFunction {
    fn eq(&self, other: &FormulaFunction) -> bool {
        self.name == other.name
    }
}
