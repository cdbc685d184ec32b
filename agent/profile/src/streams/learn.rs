//! A contract file from what was observed, with the measurement behind each number, compared with what was seen
//! before it is written.

use std::fmt::Write as _;

use contract::{Assessment, Contract};
use rules::Diagnostic;

use super::Bottleneck;
use super::bottleneck::bottleneck;
use super::{End, ObservedGraph, ObservedModule, ObservedStream};
use crate::format::{percent, significant};
use crate::statistics::{Estimate, rate, ratio};

/// A contract as learned.
#[derive(Clone, Debug)]
pub struct Learned {
    /// The text of the contract file.
    pub text: String,
    pub bottleneck: Bottleneck,
    /// Equations of the contract that do not hold in what was seen; none is expected.
    pub wrong: Vec<String>,
    pub doubts: Vec<String>,
}

/// Why no contract is learned.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NotLearned {
    #[error(
        "{to} took nothing from {from} in {} s: a contract states what flows steadily. A sort, say, takes all of \
         its input before it sends anything; or watch for longer (--duration)", significant(*.seconds, 3)
    )]
    Still { from: String, to: String, seconds: f64 },
    #[error(
        "what flows from {from} to {to} cannot be distinguished from the other pipes of the same processes without \
         probes"
    )]
    NotApart { from: String, to: String },
    #[error(
        "nothing arrived at the end of the pipeline in {} s: watch for longer (--duration); a sort, say, takes all \
         of its input before it sends anything", significant(*.seconds, 3)
    )]
    Filling { seconds: f64 },
    #[error("too few messages between ranks, or items of stages, were seen: watch for longer (--duration)")]
    TooFew,
    #[error(
        "{function} of the stage {stage} was not called in {} s: name a function that is called for each item, not the \
         one with the loop around it; or watch for longer (--duration)", significant(*.seconds, 3)
    )]
    NotActivated {
        stage: String,
        function: String,
        seconds: f64,
    },
    #[error("no process has a pipe to another")]
    Nothing,
    #[error("{0}")]
    NoStreamProgram(String),
    /// The contract that follows from the counts is refused by the reader of contracts.
    #[error("the counts make no contract: {0}")]
    Refused(String),
}

/// Relative difference between a predicted and a counted rate that is no contradiction.
const RATES_DIFFER: f64 = 0.02;

/// Code of the error that requirements leave rates undetermined.
const INSUFFICIENT: &str = "E0176";

/// Derives the contract `name` from observed rates; `about` becomes its description.
///
/// # Errors
/// If nothing flowed, or the rates do not determine each other.
pub fn learn(seen: &ObservedGraph, name: &str, about: &str) -> Result<Learned, NotLearned> {
    let bottleneck = bottleneck(seen).ok_or(NotLearned::Nothing)?;
    let body = body(seen);
    let (requirements, assessment) = required(seen, name, &body)?;
    let wrong = contradictions(seen, &assessment);
    let mut text = format!(
        "# Learned by `tuneagent contract learn` in {} s",
        significant(seen.duration_s(), 3)
    );
    let _ = writeln!(
        text,
        " ({} slices).\n# {}.",
        seen.slices_ns.len(),
        bottleneck.sentence()
    );
    let _ = writeln!(text, "# Intervals are of 90 %. Confidence: {}.", confidence(seen));
    for one in &wrong {
        let _ = writeln!(text, "# Does not hold: {one}.");
    }
    let _ = write!(text, "contract: {name}\nabout: {about}\n{body}{requirements}");
    Ok(Learned {
        text,
        bottleneck,
        wrong,
        doubts: seen.doubts.clone(),
    })
}

fn confidence(seen: &ObservedGraph) -> String {
    match seen.doubts.is_empty() {
        true => "good, since all counts agree".to_owned(),
        false => format!("limited, since {}", seen.doubts.join("; ")),
    }
}

/// A number of a contract, with its digits whatever its size.
fn number(value: f64) -> String {
    match value != 0.0 && value.abs() < 0.01 {
        true => format!("{value:.4e}"),
        false => significant(value, 5),
    }
}

/// `1.31 [1.3, 1.32]`
fn with_interval(estimate: Estimate, unit: &str) -> String {
    let value = format!("{}{unit}", significant(estimate.value, 3));
    match estimate.half.is_finite() {
        true => format!(
            "{value} [{}, {}]",
            significant((estimate.value - estimate.half).max(0.0), 3),
            significant(estimate.value + estimate.half, 3)
        ),
        false => value,
    }
}

fn body(seen: &ObservedGraph) -> String {
    let mut out = String::from("streams:\n");
    for stream in &seen.streams {
        stream_lines(seen, stream, &mut out);
    }
    out.push_str("modules:\n");
    for at in 0..seen.modules.len() {
        module_lines(seen, at, &mut out);
    }
    if seen.modules.iter().any(has_work) {
        out.push_str("work:\n");
    }
    for (at, module) in seen
        .modules
        .iter()
        .enumerate()
        .filter(|(_, module)| has_work(module))
    {
        work_lines(seen, at, module, &mut out);
    }
    out
}

fn names(seen: &ObservedGraph, ends: &[End]) -> String {
    let name = |end: &End| seen.modules[end.module].name.clone();
    match ends {
        [one] => name(one),
        several => format!("[{}]", several.iter().map(name).collect::<Vec<_>>().join(", ")),
    }
}

fn stream_lines(seen: &ObservedGraph, stream: &ObservedStream, out: &mut String) {
    let slices = 0..seen.slices_ns.len();
    let sum = |at: usize| stream.received.iter().map(|end| end.items[at]).sum();
    let counted: Vec<f64> = slices.map(sum).collect();
    let rate = with_interval(rate(&counted, &seen.slices_ns), "/s");
    let _ = writeln!(out, "  # {rate}: {}", stream.basis);
    let (from, to) = (names(seen, &stream.sent), names(seen, &stream.received));
    let item = stream
        .item
        .as_ref()
        .map_or(String::new(), |item| format!(", item: {item}"));
    let kind = if stream.is_on_demand {
        ", kind: on-demand"
    } else {
        ""
    };
    let _ = writeln!(out, "  {}: {{from: {from}, to: {to}{item}{kind}}}", stream.name);
}

/// Inputs that start activations together, and what these send.
struct LearnedComputation<'a> {
    /// Empty for the only one of a module.
    name: String,
    takes: Vec<&'a str>,
    /// Streams, with the items that an activation sends.
    gives: Vec<(&'a str, Estimate)>,
}

impl LearnedComputation<'_> {
    /// `takes: [s], gives: {t: 1}, work: w`
    fn entries(&self, work: Option<&str>) -> Vec<String> {
        let mut entries = Vec::new();
        if !self.takes.is_empty() {
            entries.push(format!("takes: [{}]", self.takes.join(", ")));
        }
        if !self.gives.is_empty() {
            let gives = self.gives.iter();
            let gives = gives.map(|(name, estimate)| format!("{name}: {}", number(estimate.value)));
            entries.push(format!("gives: {{{}}}", gives.collect::<Vec<_>>().join(", ")));
        }
        entries.extend(work.map(|work| format!("work: {work}")));
        entries
    }
}

fn computations(seen: &ObservedGraph, module: usize) -> Vec<LearnedComputation<'_>> {
    let name = |stream: usize| seen.streams[stream].name.as_str();
    let (inputs, outputs) = (seen.inputs(module), seen.outputs(module));
    let gives = |activations: &[f64], is_own: &dyn Fn(usize) -> bool| {
        let own = outputs.iter().filter(|(stream, _)| is_own(*stream));
        own.map(|(stream, end)| (name(*stream), ratio(&end.items, activations)))
            .collect()
    };
    if !seen.modules[module].has_computations {
        return vec![LearnedComputation {
            name: String::new(),
            takes: inputs.iter().map(|(stream, _)| name(*stream)).collect(),
            gives: gives(seen.activations(module), &|_| true),
        }];
    }
    let of = |(input, end): &(usize, &End)| LearnedComputation {
        name: computation_name(seen, *input),
        takes: vec![name(*input)],
        gives: gives(&end.items, &|output| cause(seen, module, output) == Some(*input)),
    };
    inputs.iter().map(of).collect()
}

/// `from_rank0`, by who sends what starts it.
fn computation_name(seen: &ObservedGraph, input: usize) -> String {
    let senders = seen.streams[input].sent.iter();
    let senders: Vec<&str> = senders
        .map(|end| seen.modules[end.module].name.as_str())
        .collect();
    format!("from_{}", senders.join("_and_"))
}

/// The input on which a module with several computations sends an output: one that does not depend on it, if possible one
/// that has come back itself.
fn cause(seen: &ObservedGraph, module: usize, output: usize) -> Option<usize> {
    let inputs = seen.inputs(module);
    let outputs = seen.outputs(module);
    let has_come_back = |input: usize| {
        outputs
            .iter()
            .any(|(other, _)| seen.comes_back(module, *other, input))
    };
    let free = inputs
        .iter()
        .filter(|(input, _)| !seen.comes_back(module, output, *input));
    free.map(|(input, _)| *input)
        .max_by_key(|input| has_come_back(*input))
}

fn module_lines(seen: &ObservedGraph, at: usize, out: &mut String) {
    let module = &seen.modules[at];
    let _ = writeln!(out, "  # {}", module.about);
    let computations = computations(seen, at);
    for one in computations.iter().filter(|one| !one.takes.is_empty()) {
        for (stream, estimate) in &one.gives {
            let estimate = with_interval(*estimate, "");
            let _ = writeln!(out, "  # {stream} per activation: {estimate}");
        }
    }
    let mut entries = Vec::new();
    if module.workers > 1 {
        entries.push("kind: task-parallel".to_owned());
    }
    let work = has_work(module).then_some(module.name.as_str());
    match computations.as_slice() {
        [only] => entries.extend(only.entries(work)),
        several => {
            // Rates are proportional, so it does not matter whose time it is.
            let work = |at: usize| work.filter(|_| at == 0);
            let several = several.iter().enumerate();
            let several =
                several.map(|(at, one)| format!("{}: {{{}}}", one.name, one.entries(work(at)).join(", ")));
            entries.push(format!(
                "computations: {{{}}}",
                several.collect::<Vec<_>>().join(", ")
            ));
        }
    }
    if work.is_none() {
        let _ = writeln!(
            out,
            "  # waits all the time: its service time is too short to be measured"
        );
    }
    if module.workers > 1 {
        entries.push(format!("workers: {}", module.workers));
    }
    let _ = writeln!(out, "  {}: {{{}}}", module.name, entries.join(", "));
}

/// A service time of 0 is none that was measured.
fn has_work(module: &ObservedModule) -> bool {
    module.shares.busy > 0.0
}

/// The service time: the busy time of all workers by activation, without waiting for others or for a CPU.
fn work_lines(seen: &ObservedGraph, at: usize, module: &ObservedModule, out: &mut String) {
    let shares = &module.shares;
    let percentages = [
        ("busy", shares.busy),
        ("of which asleep", shares.outside),
        ("waiting for a CPU", shares.waits_for_cpu),
        ("starved", shares.starved),
        ("blocked", shares.blocked),
    ];
    let shown = percentages.iter().filter(|(_, share)| *share >= 0.001);
    let shown: Vec<String> = shown
        .map(|(what, share)| format!("{what} {}", percent(*share)))
        .collect();
    let activations: f64 = seen.activations(at).iter().sum();
    // Rounding must not make it more than all of the time.
    let busy_s = shares.busy.min(0.9999) * f64::from(module.workers) * seen.duration_s();
    let time_ms = busy_s * 1e3 / activations.max(f64::MIN_POSITIVE);
    let _ = writeln!(
        out,
        "  # {}; {} activations{}",
        shown.join(", "),
        significant(activations, 4),
        match module.has_computations {
            true => " of the first computation, to which all of its time is attributed",
            false => "",
        }
    );
    let _ = writeln!(out, "  {}: {{time: {}ms}}", module.name, number(time_ms));
}

/// The requirements that determine all rates: what was seen at the first sink, at all sinks, at all sources, or
/// at as many modules as are needed.
///
/// Coefficients that were counted are not exact. Rates that depend on each other in the program may formally
/// determine a third one in what was counted, which then has any value. So requirements must also give the
/// rates that were counted, or one of them is exchanged.
fn required(seen: &ObservedGraph, name: &str, body: &str) -> Result<(String, Assessment), NotLearned> {
    let assessed = |chosen: &[usize]| {
        let requirements = requirements(seen, chosen);
        let source = format!("contract: {name}\nabout: learned\n{body}{requirements}");
        let (assessment, _) = Contract::parse(&source)?.capacity()?;
        Ok::<_, Vec<Diagnostic>>((requirements, assessment))
    };
    let fitting = |chosen: &[usize]| {
        assessed(chosen).ok().filter(|(_, assessment)| {
            assessment.raised.is_empty() && contradictions(seen, assessment).is_empty()
        })
    };
    let suffices = |chosen: &[usize]| !matches!(assessed(chosen), Err(wrong) if wrong.iter().any(|one| one.code == INSUFFICIENT));
    let all = 0..seen.modules.len();
    let sinks: Vec<usize> = all.clone().filter(|&at| seen.outputs(at).is_empty()).collect();
    let sources: Vec<usize> = all.clone().filter(|&at| seen.inputs(at).is_empty()).collect();
    let is_end = |at: &usize| sinks.contains(at) || sources.contains(at);
    let inner: Vec<usize> = all.filter(|at| !is_end(at)).collect();
    let order = [sinks.as_slice(), &sources, &inner].concat();
    let chosen = least_sufficient(&order, suffices);
    let exchanged = (0..chosen.len()).rev().flat_map(|index| {
        let chosen = &chosen;
        order.iter().filter(|at| !chosen.contains(at)).map(move |&at| {
            let mut other = chosen.clone();
            other[index] = at;
            other
        })
    });
    let first = [&sinks[..sinks.len().min(1)], &sinks, &sources, &chosen];
    let mut candidates = first.map(<[usize]>::to_vec).into_iter().chain(exchanged);
    if let Some(found) = candidates.find_map(|chosen| fitting(&chosen)) {
        return Ok(found);
    }
    // What was counted is no steady state: the contract says where it differs.
    match assessed(&chosen) {
        Ok((requirements, assessment)) if assessment.raised.is_empty() => Ok((requirements, assessment)),
        Ok(_) => Err("requirements that are seen to hold contradict each other".to_owned()),
        Err(wrong) => Err(wrong.first().map_or(String::new(), |wrong| wrong.message.clone())),
    }
    .map_err(NotLearned::Refused)
}

/// The first modules of `order` that suffice, without those that can be left out.
fn least_sufficient(order: &[usize], suffices: impl Fn(&[usize]) -> bool) -> Vec<usize> {
    let length = (1..order.len()).find(|&length| suffices(&order[..length]));
    let mut chosen = order[..length.unwrap_or(order.len())].to_vec();
    for at in chosen.clone().into_iter().rev() {
        let others: Vec<usize> = chosen.iter().copied().filter(|other| *other != at).collect();
        if !others.is_empty() && suffices(&others) {
            chosen = others;
        }
    }
    chosen
}

fn requirements(seen: &ObservedGraph, modules: &[usize]) -> String {
    let mut out = String::from("require:\n");
    for &at in modules {
        let seen_rate = rate(seen.activations(at), &seen.slices_ns);
        // Rounded down, so that what was seen meets it.
        let least = seen_rate.value * 0.999;
        let _ = writeln!(out, "  # seen: {}", with_interval(seen_rate, "/s"));
        let first = computations(seen, at).into_iter().next();
        let computation = first.filter(|one| !one.name.is_empty());
        let computation = computation.map_or(String::new(), |one| format!(".{}", one.name));
        let module = &seen.modules[at].name;
        let _ = writeln!(out, "  - {module}{computation} >= {}/s", number(least));
    }
    out
}

/// Ends of streams at which the contract predicts another rate than was counted.
fn contradictions(seen: &ObservedGraph, assessment: &Assessment) -> Vec<String> {
    let mut wrong = Vec::new();
    for stream in &seen.streams {
        for (end, does) in stream
            .sent
            .iter()
            .map(|end| (end, "sends"))
            .chain(stream.received.iter().map(|end| (end, "takes")))
        {
            let module = &seen.modules[end.module].name;
            let Some(predicted) = assessment.rate(&format!("{module}.{}", stream.name)) else {
                continue;
            };
            let counted = rate(&end.items, &seen.slices_ns);
            let tolerance = (RATES_DIFFER * counted.value).max(counted.half);
            if (predicted - counted.value).abs() > tolerance {
                wrong.push(format!(
                    "{module} {does} {} at {}/s, and the contract says {}/s",
                    stream.name,
                    with_interval(counted, ""),
                    significant(predicted, 3)
                ));
            }
        }
    }
    wrong
}
