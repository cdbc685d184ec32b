//! Streams with several ends, by the counts of each pair of modules (S3, equations (30) to (32)): merged senders add
//! up, a broadcast gives every item to each receiver, and receivers on demand share the items. What counts alone do
//! not show is a doubt.

use std::collections::{BTreeMap, btree_map::Entry};

use super::{End, NotLearned, ObservedGraph, ObservedStream};
use crate::format::{count, percent, significant};
use crate::statistics::ratio;

/// Relative difference of the mean sizes of items of one kind.
const SIZES_DIFFER: f64 = 0.02;

/// Relative difference of the counts of two inputs that belong to one activation.
const INPUTS_DIFFER: f64 = 0.05;

/// Items by which counts that keep step differ at most: those on their way while they are read.
const ON_THE_WAY: f64 = 2.0;

/// Shares of time of two modules that exceed 1 by this much overlap, although they are not exact.
const OVERLAP_MIN: f64 = 0.1;

/// Streams that are one, by index.
pub(super) struct SameStream {
    pub(super) parts: Vec<usize>,
    pub(super) is_on_demand: bool,
}

/// Finds streams with several ends in those between two modules each.
///
/// # Errors
/// If a module takes from several streams, and it is not known which of them start an activation.
pub(super) fn with_patterns(mut seen: ObservedGraph) -> Result<ObservedGraph, NotLearned> {
    let (mut shared, mut doubts) = (Vec::new(), Vec::new());
    for module in 0..seen.modules.len() {
        for outputs in of_one_size(&seen, streams(&seen.outputs(module))) {
            shared.extend(divided(&seen, module, outputs, &mut doubts));
        }
    }
    seen.join(&shared);
    let mut merged = Vec::new();
    for module in 0..seen.modules.len() {
        match taken(&seen, module, &mut doubts)? {
            InputsAre::Joined => {}
            InputsAre::Merged(same) => merged.push(same),
            InputsAre::Apart => seen.modules[module].has_computations = true,
        }
    }
    seen.join(&merged);
    seen.doubts.extend(doubts);
    Ok(seen)
}

fn streams(ends: &[(usize, &End)]) -> Vec<usize> {
    ends.iter().map(|(stream, _)| *stream).collect()
}

/// Groups of two and more streams whose items have the same mean size.
fn of_one_size(seen: &ObservedGraph, streams: Vec<usize>) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for stream in streams {
        let is_alike = |group: &&mut Vec<usize>| has_size_of(seen, group[0], stream);
        match groups.iter_mut().find(is_alike) {
            Some(group) => group.push(stream),
            None => groups.push(vec![stream]),
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

fn has_size_of(seen: &ObservedGraph, one: usize, other: usize) -> bool {
    let [one, other] = [one, other].map(|stream| seen.streams[stream].item_bytes);
    (one - other).abs() <= SIZES_DIFFER * one.max(other)
}

/// Two counts keep step: there are as many of both at each time, or an integer multiple of one.
fn keep_step(one: &[f64], other: &[f64]) -> Option<f64> {
    let ratio = ratio(other, one).value;
    let (more, less) = if ratio >= 1.0 { (other, one) } else { (one, other) };
    let factor = ratio.max(1.0 / ratio).round();
    let (mut surplus, mut least, mut most) = (0.0, 0.0_f64, 0.0_f64);
    for (more, less) in more.iter().zip(less) {
        surplus += more - factor * less;
        (least, most) = (least.min(surplus), most.max(surplus));
    }
    (most - least <= ON_THE_WAY * factor).then_some(factor)
}

/// What a module sends to several receivers: the same items, shared items, or items of different streams.
fn divided(
    seen: &ObservedGraph,
    sender: usize,
    parts: Vec<usize>,
    doubts: &mut Vec<String>,
) -> Option<SameStream> {
    let received = |part: &usize| &seen.streams[*part].received[0];
    let name = |part: &usize| seen.modules[received(part).module].name.as_str();
    let names: Vec<&str> = parts.iter().map(name).collect();
    let (names, from) = (names.join(" and "), &seen.modules[sender].name);
    let pairs = parts.iter().enumerate().flat_map(|(at, one)| {
        let others = parts[at + 1..].iter();
        others.map(move |other| keep_step(&received(one).items, &received(other).items))
    });
    let steps: Vec<Option<f64>> = pairs.collect();
    if steps.iter().all(|step| *step == Some(1.0)) {
        doubts.push(format!(
            "{from} sends as many items to {names}: each of them to all (a broadcast, as stated), or to each in turn"
        ));
        return Some(SameStream {
            parts,
            is_on_demand: false,
        });
    }
    if steps.iter().any(Option::is_some) {
        doubts.push(format!(
            "{from} sends items to {names} in a fixed ratio: streams of their own, as stated, or receivers on demand \
             that are as regular"
        ));
        return None;
    }
    let blocked = seen.modules[sender].shares.blocked;
    let has_room = |part: &usize| {
        let receiver = received(part).module;
        let is_only_input = seen.inputs(receiver).len() == 1;
        is_only_input && blocked + seen.modules[receiver].shares.starved > 1.0 + OVERLAP_MIN
    };
    // It waits for one receiver while another has nothing to do: it does not send to whichever is free.
    if parts.iter().any(has_room) {
        return None;
    }
    doubts.push(format!(
        "{from} sends items of one size to {names}: to whichever is free (on demand, as stated), or by a choice of its own"
    ));
    Some(SameStream {
        parts,
        is_on_demand: true,
    })
}

/// What starts an activation of a module.
enum InputsAre {
    /// An item of each stream that it takes from.
    Joined,
    /// An item of any.
    Merged(SameStream),
    /// Each stream starts activations of its own.
    Apart,
}

/// What a module takes from several streams: an item of each for an activation, or one of any.
fn taken(seen: &ObservedGraph, module: usize, doubts: &mut Vec<String>) -> Result<InputsAre, NotLearned> {
    let inputs = seen.inputs(module);
    let Some(((first, one), others)) = inputs.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Ok(InputsAre::Joined);
    };
    let outputs = seen.outputs(module);
    let to = &seen.modules[module].name;
    let relative = |end: &End| ratio(&end.items, &one.items).value;
    let is_equal = |end: &End| (relative(end) - 1.0).abs() <= INPUTS_DIFFER;
    let names: Vec<&str> = inputs
        .iter()
        .map(|(stream, _)| seen.streams[*stream].name.as_str())
        .collect();
    let is_of_one_size = others.iter().all(|(other, _)| has_size_of(seen, *first, *other));
    let comes_back = |(input, _): &(usize, &End)| {
        let mut outputs = outputs.iter();
        outputs.any(|(output, _)| seen.comes_back(module, *output, *input))
    };
    let comes_back = inputs.iter().any(comes_back);
    if others.iter().all(|(_, end)| is_equal(end)) {
        let (is, doubt) = of_equal_counts(comes_back, is_of_one_size);
        doubts.extend(
            doubt.map(|doubt| format!("{to} takes as many items of {} {doubt}", names.join(" and "))),
        );
        return Ok(is);
    }
    let is_single = |stream: &ObservedStream| stream.sent.len() == 1 && stream.received.len() == 1;
    let are_single = inputs.iter().all(|(stream, _)| is_single(&seen.streams[*stream]));
    // Several of one for each of the other would wait for what they are the cause of.
    let mut steps = others.iter().filter(|_| !comes_back);
    let multiple =
        steps.find(|(_, end)| keep_step(&one.items, &end.items).is_some_and(|factor| factor > 1.0));
    let why = match multiple {
        _ if !is_of_one_size => "their items differ in size, so they are not merged",
        _ if !are_single => "one of them goes to other modules, too, so they are not merged",
        Some(_) => {
            "they keep step, as several of one for each of the other, or as a merge of regular senders"
        }
        None => {
            return Ok(InputsAre::Merged(SameStream {
                parts: streams(&inputs),
                is_on_demand: false,
            }));
        }
    };
    if outputs.is_empty() {
        // What it sends depends on none of them, so the rates are the same whatever starts an activation.
        doubts.push(format!(
            "{to} takes items of {} at rates of their own: each of them starts an activation, as stated, since {why}",
            names.join(" and ")
        ));
        return Ok(InputsAre::Apart);
    }
    let (other, end) = multiple
        .or(others.iter().find(|(_, end)| !is_equal(end)))
        .unwrap_or(&others[0]);
    Err(NotLearned::NoStreamProgram(format!(
        "{to} takes {} items of {} for one of {}: which of them belong to one activation is not known, since {why}",
        significant(relative(end), 3),
        seen.streams[*other].name,
        seen.streams[*first].name
    )))
}

/// Inputs of which a module takes as many: what they are, and what is in doubt about it.
fn of_equal_counts(comes_back: bool, is_of_one_size: bool) -> (InputsAre, Option<&'static str>) {
    match (comes_back, is_of_one_size) {
        // An activation that waited for what it is the cause of would never begin.
        (true, _) => (
            InputsAre::Apart,
            Some(
                "as come back to it: each of them starts an activation of its own, as stated. If it waits for what comes \
                 back before it takes another item, less than the greatest rate is possible",
            ),
        ),
        (false, true) => (
            InputsAre::Joined,
            Some("at each time: one of each for an activation, as stated, or one of any of them (a merge)"),
        ),
        (false, false) => (InputsAre::Joined, None),
    }
}

impl ObservedGraph {
    /// Makes one stream of each of these groups, of which each has a stream for every pair of a sender and a receiver.
    pub(super) fn join(&mut self, groups: &[SameStream]) {
        let joined: Vec<ObservedStream> = groups.iter().map(|group| self.one_of(group)).collect();
        let streams = std::mem::take(&mut self.streams).into_iter().enumerate();
        self.streams = streams
            .filter_map(
                |(at, stream)| match groups.iter().position(|group| group.parts.contains(&at)) {
                    None => Some(stream),
                    Some(group) if groups[group].parts[0] == at => Some(joined[group].clone()),
                    Some(_) => None,
                },
            )
            .collect();
    }

    fn one_of(&self, group: &SameStream) -> ObservedStream {
        let parts: Vec<&ObservedStream> = group.parts.iter().map(|&at| &self.streams[at]).collect();
        let received = by_module(parts.iter().map(|part| &part.received[0]));
        // A broadcast is sent once to all: what goes to one of them counts.
        let is_counted = |part: &&&ObservedStream| {
            group.is_on_demand || part.received[0].module == parts[0].received[0].module
        };
        let sent = by_module(parts.iter().filter(is_counted).map(|part| &part.sent[0]));
        let total = |end: &End| end.items.iter().sum::<f64>();
        let all: f64 = parts.iter().map(|part| total(&part.received[0])).sum();
        let bytes: f64 = parts
            .iter()
            .map(|part| total(&part.received[0]) * part.item_bytes)
            .sum();
        let item_bytes = bytes / all.max(f64::MIN_POSITIVE);
        let name = |end: &End| self.modules[end.module].name.as_str();
        let names = |ends: &[End]| ends.iter().map(name).collect::<Vec<_>>().join("_and_");
        let share = |end: &End| {
            format!(
                "{} {}",
                percent(total(end) / all.max(f64::MIN_POSITIVE)),
                name(end)
            )
        };
        let shares = |ends: &[End]| ends.iter().map(share).collect::<Vec<_>>().join(", ");
        let basis = match (group.is_on_demand, received.len()) {
            (true, _) => format!("{} messages: {}", count(all), shares(&received)),
            (false, 1) => format!("{} messages: {}", count(all), shares(&sent)),
            (false, receivers) => format!(
                "{} messages, each to {receivers} modules",
                count(all / receivers as f64)
            ),
        };
        ObservedStream {
            name: format!("{}_to_{}", names(&sent), names(&received)),
            items_are: parts[0].items_are,
            item_bytes,
            item: parts[0]
                .item
                .as_ref()
                .map(|_| format!("{}B", significant(item_bytes, 9))),
            is_on_demand: group.is_on_demand,
            sent,
            received,
            basis: format!("{basis}; mean size"),
        }
    }
}

/// Ends with the sums of their items, one for each module.
fn by_module<'a>(ends: impl Iterator<Item = &'a End>) -> Vec<End> {
    let mut sums: BTreeMap<usize, End> = BTreeMap::new();
    for end in ends {
        match sums.entry(end.module) {
            Entry::Vacant(entry) => {
                entry.insert(end.clone());
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut().items.iter_mut();
                known.zip(&end.items).for_each(|(known, items)| *known += items);
            }
        }
    }
    sums.into_values().collect()
}
