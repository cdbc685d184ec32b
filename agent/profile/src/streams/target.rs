//! A rate that a contract requires, and how it is counted.

use contract::StreamOutline;

use super::standing::Standing;
use super::{End, ItemsAre, ObservedGraph, ObservedStream};
use crate::format::significant;
use crate::statistics::{Estimate, rate};

/// Bytes that move at once: a count of bytes is uncertain by them.
const BLOCK_BYTES: f64 = 65536.0;

/// A rate that the contract requires of a module or a stream. It needs no other rate to be judged.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) feature: String,
    /// The contract states it; the others follow from it.
    pub(super) is_stated: bool,
    pub(super) least: f64,
    /// The module whose end of the stream is counted.
    pub(super) module: String,
    pub(super) stream: StreamOutline,
    /// Activations per item, for a module that is counted by what it sends.
    pub(super) factor: f64,
    pub(super) is_sent: bool,
    pub(super) standing: Standing,
}

impl Target {
    /// It is this stream, or a part of it.
    pub(super) fn has(&self, stream: &ObservedStream, seen: &ObservedGraph) -> bool {
        let are = |ends: &[End], names: &[String]| {
            ends.iter()
                .all(|end| names.contains(&seen.modules[end.module].name))
        };
        are(&stream.sent, &self.stream.from) && are(&stream.received, &self.stream.to)
    }

    pub(super) fn is(&self, stream: &ObservedStream, seen: &ObservedGraph) -> bool {
        let ends = (stream.sent.len(), stream.received.len());
        ends == (self.stream.from.len(), self.stream.to.len()) && self.has(stream, seen)
    }

    pub(super) fn stream_in<'a>(&self, seen: &'a ObservedGraph) -> Option<&'a ObservedStream> {
        seen.streams.iter().find(|stream| self.is(stream, seen))
    }

    /// The rate in the contract's items or activations; `None` without such a stream. It is uncertain by its
    /// variation in the window, and by a block or a message.
    pub(super) fn counted(&self, seen: &ObservedGraph) -> Option<Estimate> {
        let stream = self.stream_in(seen)?;
        let mut ends = if self.is_sent {
            &stream.sent
        } else {
            &stream.received
        }
        .iter();
        let end = ends.find(|end| seen.modules[end.module].name == self.module)?;
        let (scale, block) = match (stream.items_are, self.stream.item_bytes) {
            (ItemsAre::Bytes, Some(bytes)) => (stream.item_bytes / bytes, BLOCK_BYTES / stream.item_bytes),
            (ItemsAre::Bytes, None) => return None,
            (ItemsAre::Messages, _) => (1.0, 1.0),
        };
        let scale = scale * self.factor;
        let estimate = rate(&end.items, &seen.slices_ns);
        let block = block / seen.duration_s().max(f64::MIN_POSITIVE);
        Some(Estimate {
            value: estimate.value * scale,
            half: estimate.half.max(block) * scale,
        })
    }
}

/// One line for the rates that have become violated, or are no longer: the one that the contract states, and the
/// names of the others.
pub(super) fn line(changed: &[Target], is_violated: bool, end_s: f64) -> Option<String> {
    let mut group: Vec<&Target> = changed
        .iter()
        .filter(|target| target.standing.is_violated == is_violated)
        .collect();
    let stated = group.iter().position(|target| target.is_stated);
    let first = group.remove(stated.or(group.len().checked_sub(1))?);
    let others = match &group[..] {
        [] => String::new(),
        others => {
            let names: Vec<&str> = others.iter().map(|target| target.feature.as_str()).collect();
            format!("; also {}", names.join(", "))
        }
    };
    let what = if is_violated {
        "violated"
    } else {
        "no longer violated"
    };
    let rate = first.standing.last.map_or(0.0, |last| last.value);
    Some(format!(
        "{:>7} s  {}: {}/s of {}/s, {what}{others}",
        significant(end_s, 4),
        first.feature,
        significant(rate, 3),
        significant(first.least, 3)
    ))
}
