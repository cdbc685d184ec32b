//! Bytes counted at the ends of pipes, as the items of streams: an [`ObservedGraph`].

use super::pipes::{Pipe, Pipeline, Slice, Stage, StageCounts};
use super::{End, ItemsAre, ModuleProcesses, NotLearned, ObservedGraph, ObservedModule, ObservedStream};
use crate::format::{percent, plural, significant};
use crate::statistics::rate;

/// CPU time below which a process without traffic only holds ends of pipes, as a shell does that waits.
const IDLE_CPU_NS: u64 = 5_000_000;

/// What a pipe can hold unless it was enlarged; the counts of its ends may differ by it.
const PIPE_BYTES: f64 = 65536.0;

/// Relative difference of the counts at the two ends of a pipe that is reported.
const ENDS_DIFFER: f64 = 0.02;

/// Fewer samples say little about shares of time.
const SAMPLES_MIN: u32 = 100;

/// What was seen of the processes of a pipeline, to learn from.
///
/// # Errors
/// If a pipe carried nothing, or the bytes of pipes cannot be distinguished.
pub fn observed(pipeline: &Pipeline, slices: &[Slice]) -> Result<ObservedGraph, NotLearned> {
    let (totals, mut doubts) = (totals(pipeline, slices), Vec::new());
    let mut used = Pipeline {
        pipes: used_ends(&pipeline.pipes, &totals),
        ..pipeline.clone()
    };
    leave_out_still(&mut used, &totals, &mut doubts);
    let mut seen = counted(&used, slices)?;
    let still = seen.streams.iter().find(|stream| {
        let items = stream.received.iter().flat_map(|end| &end.items);
        items.sum::<f64>() == 0.0
    });
    if let Some(still) = still {
        let [from, to] = [&still.sent, &still.received].map(|ends| seen.modules[ends[0].module].name.clone());
        let seconds = seen.duration_s();
        return Err(NotLearned::Still { from, to, seconds });
    }
    seen.doubts.splice(0..0, doubts);
    let looks = |total: &StageCounts| total.running + total.reading + total.writing + total.elsewhere;
    let looks = totals.iter().map(looks).min().unwrap_or_default();
    if looks < SAMPLES_MIN {
        let times = plural(looks as usize, "time");
        seen.doubts
            .push(format!("what the processes do was looked at {times} only"));
    }
    give_items(&mut seen);
    Ok(seen)
}

fn totals(pipeline: &Pipeline, slices: &[Slice]) -> Vec<StageCounts> {
    let mut totals = vec![StageCounts::default(); pipeline.stages.len()];
    for slice in slices {
        let stages = totals.iter_mut().zip(&slice.stages);
        stages.for_each(|(total, one)| total.add(one));
    }
    totals
}

/// Modules and streams of a pipeline, whose items are bytes. A pipe may have carried nothing.
///
/// # Errors
/// If the bytes of pipes cannot be distinguished.
pub fn counted(pipeline: &Pipeline, slices: &[Slice]) -> Result<ObservedGraph, NotLearned> {
    let totals = totals(pipeline, slices);
    let pipes = &pipeline.pipes;
    let counted = Counted {
        pipeline,
        slices,
        totals: &totals,
    };
    let mut seen = ObservedGraph {
        slices_ns: slices.iter().map(|slice| slice.ns).collect(),
        ..ObservedGraph::default()
    };
    let (parts, mut names) = pipeline.modules();
    let index = |stage: usize| parts.iter().position(|part| *part == stage);
    let ns = slices.iter().map(|slice| slice.ns).sum();
    for (&at, name) in parts.iter().zip(names.0.clone()) {
        let has = |side: fn(&Pipe) -> &Vec<usize>| pipes.iter().any(|pipe| side(pipe).contains(&at));
        seen.modules.push(ObservedModule {
            name,
            about: pipeline.stages[at].about.clone(),
            shares: totals[at].shares(ns, has(|pipe| &pipe.to), has(|pipe| &pipe.from)),
            workers: totals[at].workers.max(1),
            processes: ModuleProcesses::Stage {
                pid: pipeline.stages[at].pid,
                program: pipeline.stages[at].program.clone(),
            },
            counted: (totals[at].read_bytes + totals[at].written_bytes) as f64,
            has_computations: false,
        });
    }
    for pipe in pipes {
        let mut stream = counted.stream(pipe, &mut seen.doubts)?;
        let ends = stream.sent.iter_mut().chain(&mut stream.received);
        ends.for_each(|end| end.module = index(end.module).unwrap_or_default());
        let ends = [&stream.sent, &stream.received].map(|ends| seen.modules[ends[0].module].name.as_str());
        stream.name = names.unique(&ends.join("_to_"));
        seen.streams.push(stream);
    }
    Ok(seen)
}

impl Pipeline {
    /// The stages that are modules, and their names. A shell that only holds ends is none.
    fn modules(&self) -> (Vec<usize>, Names) {
        let takes_part = |at: &usize| {
            let mut pipes = self.pipes.iter();
            pipes.any(|pipe| pipe.from.contains(at) || pipe.to.contains(at))
        };
        let parts: Vec<usize> = (0..self.stages.len()).filter(takes_part).collect();
        let mut names = Names::default();
        parts.iter().for_each(|&at| {
            names.unique(&self.stages[at].name);
        });
        (parts, names)
    }

    /// The stages that are modules, by their names in a contract.
    pub fn named_stages(&self) -> impl Iterator<Item = (String, &Stage)> {
        let (parts, names) = self.modules();
        names
            .0
            .into_iter()
            .zip(parts.into_iter().map(|at| &self.stages[at]))
    }
}

/// The pipes, without ends at stages that moved nothing and computed nothing, if other ends remain.
fn used_ends(pipes: &[Pipe], totals: &[StageCounts]) -> Vec<Pipe> {
    let moved = |at: &usize| {
        let it = &totals[*at];
        it.read_bytes + it.written_bytes > 0 || it.cpu_ns > IDLE_CPU_NS
    };
    let used = |ends: &[usize]| {
        let used: Vec<usize> = ends.iter().copied().filter(moved).collect();
        if used.is_empty() { ends.to_vec() } else { used }
    };
    let ends = pipes.iter().map(|pipe| Pipe {
        from: used(&pipe.from),
        to: used(&pipe.to),
    });
    ends.collect()
}

/// Leaves out pipes from which nothing was taken although their readers sent: what they took before sufficed.
fn leave_out_still(pipeline: &mut Pipeline, totals: &[StageCounts], doubts: &mut Vec<String>) {
    let Pipeline { stages, pipes } = pipeline;
    let sends: Vec<bool> = (0..totals.len())
        .map(|at| totals[at].written_bytes > 0 && pipes.iter().any(|pipe| pipe.from.contains(&at)))
        .collect();
    pipes.retain(|pipe| {
        let took: u64 = pipe.to.iter().map(|&at| totals[at].read_bytes).sum();
        let is_kept = took > 0 || !pipe.to.iter().all(|&at| sends[at]);
        if !is_kept {
            let [from, to] = [&pipe.from, &pipe.to].map(|ends| names(stages, ends));
            doubts.push(format!(
                "{to} took nothing from {from} in this time, which is left out"
            ));
        }
        is_kept
    });
}

fn names(stages: &[Stage], ends: &[usize]) -> String {
    let names: Vec<&str> = ends.iter().map(|&at| stages[at].name.as_str()).collect();
    names.join(" and ")
}

/// Names of a contract, each once.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<String>);

impl Names {
    /// The text as a name.
    pub(super) fn cleaned(text: &str) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let name: String = text.chars().map(letter).collect();
        match contract::is_plain_name(&name) {
            true => name,
            false => format!("p_{name}"),
        }
    }

    /// A name like the text: `xz`, the second time `xz_2`.
    pub(super) fn unique(&mut self, text: &str) -> String {
        let name = Names::cleaned(text);
        let numbered = |number: usize| match number {
            1 => name.clone(),
            number => format!("{name}_{number}"),
        };
        let name = (1..)
            .map(numbered)
            .find(|name| !self.0.contains(name))
            .unwrap_or(name);
        self.0.push(name.clone());
        name
    }
}

struct Counted<'a> {
    pipeline: &'a Pipeline,
    slices: &'a [Slice],
    totals: &'a [StageCounts],
}

/// One side of a pipe: its bytes by stage, if they can be distinguished from other traffic of the stages.
struct Side {
    ends: Vec<End>,
    bytes: f64,
    /// What else the stages have open in this direction.
    others: Vec<String>,
}

impl Counted<'_> {
    /// The counts of a side; `None` if one of its stages has several pipes there.
    fn side(&self, stages: &[usize], is_read: bool) -> Option<Side> {
        let pipes_of = |at: usize| {
            let side = |pipe: &&Pipe| {
                if is_read {
                    pipe.to.contains(&at)
                } else {
                    pipe.from.contains(&at)
                }
            };
            self.pipeline.pipes.iter().filter(side).count()
        };
        if stages.iter().any(|&at| pipes_of(at) > 1) {
            return None;
        }
        let bytes = |counts: &StageCounts| match is_read {
            true => counts.read_bytes,
            false => counts.written_bytes,
        };
        let end = |&module: &usize| End {
            module,
            items: self
                .slices
                .iter()
                .map(|slice| bytes(&slice.stages[module]) as f64)
                .collect(),
        };
        let others = stages.iter().flat_map(|&at| match is_read {
            true => &self.pipeline.stages[at].other_inputs,
            false => &self.pipeline.stages[at].other_outputs,
        });
        Some(Side {
            ends: stages.iter().map(end).collect(),
            bytes: stages.iter().map(|&at| bytes(&self.totals[at]) as f64).sum(),
            others: others.cloned().collect(),
        })
    }

    /// A pipe as a stream whose items are bytes.
    fn stream(&self, pipe: &Pipe, doubts: &mut Vec<String>) -> Result<ObservedStream, NotLearned> {
        let [from, to] = [&pipe.from, &pipe.to].map(|ends| names(&self.pipeline.stages, ends));
        let not_apart = || NotLearned::NotApart {
            from: from.clone(),
            to: to.clone(),
        };
        let (sent, received) = (self.side(&pipe.from, false), self.side(&pipe.to, true));
        // Several stages at one end are distinguished only by their own counts.
        if pipe.from.len() > 1 && sent.is_none() || pipe.to.len() > 1 && received.is_none() {
            return Err(not_apart());
        }
        let (ends, basis) = match (sent, received) {
            (None, None) => return Err(not_apart()),
            (Some(sent), None) => (
                sent.ends,
                only(&format!("written by {from}"), &sent.others, doubts),
            ),
            (None, Some(received)) => (
                received.ends,
                only(&format!("read by {to}"), &received.others, doubts),
            ),
            (Some(sent), Some(received)) => both((&from, sent), (&to, received), doubts),
        };
        let summed = |stages: &[usize], is_read: bool| match stages {
            [module] => {
                let slices = 0..self.slices.len();
                let sum = |slice: usize| ends.iter().map(|end| end.items[slice]).sum();
                vec![End {
                    module: *module,
                    items: slices.map(sum).collect(),
                }]
            }
            several => {
                let of = |&module: &usize| self.side(&[module], is_read);
                several.iter().filter_map(of).flat_map(|side| side.ends).collect()
            }
        };
        Ok(ObservedStream {
            name: String::new(),
            items_are: ItemsAre::Bytes,
            item_bytes: 1.0,
            item: Some("1B".to_owned()),
            is_on_demand: pipe.to.len() > 1,
            sent: summed(&pipe.from, false),
            received: summed(&pipe.to, true),
            basis,
        })
    }
}

/// What a count at one end only is based on.
fn only(what: &str, others: &[String], doubts: &mut Vec<String>) -> String {
    if others.is_empty() {
        return format!("{what}, whose only traffic it is");
    }
    let basis = format!(
        "at most: {what}, with its traffic to or from {}",
        others.join(", ")
    );
    doubts.push(basis.clone());
    basis
}

/// Each end's count contains what else the process moved, so the smaller one is nearer to the truth.
fn both(sent: (&str, Side), received: (&str, Side), doubts: &mut Vec<String>) -> (Vec<End>, String) {
    let ((from, sent), (to, received)) = (sent, received);
    let (most, difference) = (
        sent.bytes.max(received.bytes),
        (sent.bytes - received.bytes).abs(),
    );
    if difference <= ENDS_DIFFER * most + 2.0 * PIPE_BYTES {
        let basis = format!(
            "written by {from} and read by {to}; the two counts differ by {}",
            percent(difference / most.max(1.0))
        );
        return (received.ends, basis);
    }
    // What is moved by splice is counted at neither end, and then the other end is all there is.
    let takes_sent = received.bytes == 0.0
        || sent.bytes > 0.0
            && (sent.others.is_empty(), received.bytes) > (received.others.is_empty(), sent.bytes);
    let (name, side, other) = match takes_sent {
        true => (format!("written by {from}"), sent, (to, received)),
        false => (format!("read by {to}"), received, (from, sent)),
    };
    let basis = format!(
        "{name}; {} moved {} times as much, by {}",
        other.0,
        significant(other.1.bytes / side.bytes.max(1.0), 3),
        match other.1.others.is_empty() {
            true => "what is not known".to_owned(),
            false => other.1.others.join(", "),
        }
    );
    doubts.push(basis.clone());
    (side.ends, basis)
}

/// Sizes of items in contracts, largest first.
const ITEMS: [(f64, &str); 4] = [(1e9, "1GB"), (1e6, "1MB"), (1e3, "1KB"), (1.0, "1B")];

/// Chooses the size of the items of each stream: the largest of which one or more a second flow. A module that
/// takes from several streams takes an item of each, so all but its first have the size that makes it so.
fn give_items(seen: &mut ObservedGraph) {
    let bytes_per_s = |stream: &ObservedStream| -> f64 {
        let ends = stream.received.iter();
        ends.map(|end| rate(&end.items, &seen.slices_ns).value).sum()
    };
    let speeds: Vec<f64> = seen.streams.iter().map(bytes_per_s).collect();
    for (stream, speed) in seen.streams.iter_mut().zip(&speeds) {
        let item = ITEMS.iter().find(|(size, _)| speed / size >= 1.0);
        let (size, item) = item.copied().unwrap_or(ITEMS[3]);
        (stream.item_bytes, stream.item) = (size, Some(item.to_owned()));
    }
    for module in 0..seen.modules.len() {
        let inputs: Vec<usize> = seen.inputs(module).iter().map(|(stream, _)| *stream).collect();
        let Some((&first, others)) = inputs.split_first() else {
            continue;
        };
        for &other in others {
            let size = seen.streams[first].item_bytes * speeds[other] / speeds[first];
            let item = significant(size, 6);
            seen.streams[other].item_bytes = item.parse().unwrap_or(size);
            seen.streams[other].item = Some(format!("{item}B"));
        }
    }
    for stream in &mut seen.streams {
        let size = stream.item_bytes;
        let ends = stream.sent.iter_mut().chain(&mut stream.received);
        ends.for_each(|end| end.items.iter_mut().for_each(|items| *items /= size));
    }
}
