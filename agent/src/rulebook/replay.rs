//! Rules on a recording, without program, root or kernel: what they would have found and decided.

use abi::{Hit, HitKind, ProbeSpec, SpecFlags};
use rules::{
    Observation, Reading,
    recording::{self, Merge, Place, ProbeDefinition, ProbeKey, Reader, Record},
};

use super::{Act, RuleBook, recorder};
use crate::{
    mpi,
    session::probes::{Probe, ProbeCapture},
};

/// Something that happened in a replay.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// A window closed.
    Window {
        /// The rule.
        rule: String,
        /// The window.
        window: String,
        /// Its number.
        index: u64,
        /// Its metrics with their values as people read them.
        metrics: Vec<(String, String)>,
        /// The same as numbers, in the same order.
        readings: Vec<Option<Reading>>,
    },
    /// A rule found, decided or judged something.
    Act(Act),
}

/// What is known of the recorded probes.
#[derive(Default)]
struct Functions {
    probes: Vec<Probe>,
    /// By the number in the recording: the function, and whether it is its returns.
    keys: std::collections::BTreeMap<ProbeKey, (usize, bool)>,
}

/// Replays recordings of one session (of several hosts, joined by their clocks). `tell` is called with the time since the
/// first record, in nanoseconds. The error says which recording breaks off, and where; what came before was replayed.
pub fn replay(
    mut rules: RuleBook,
    recordings: &[(String, Vec<u8>)],
    mut tell: impl FnMut(u64, Replayed),
) -> Result<(), String> {
    let readers = recordings
        .iter()
        .map(|(name, bytes)| Reader::new(bytes).map_err(|error| format!("{name}: {error}")));
    let merge = Merge::new(readers.collect::<Result<_, _>>()?);
    let mut functions = Functions::default();
    let mut start: Option<u64> = None;
    let mut broken = None;
    for merged in merge {
        let record = match merged {
            Ok(merged) => merged.record,
            Err(error) => {
                broken = broken.or(Some(error.to_string()));
                continue;
            }
        };
        let since = record.time().map(|time| {
            if start.is_none() {
                rules.start(time.0);
            }
            time.0.saturating_sub(*start.get_or_insert(time.0))
        });
        match record {
            Record::Tick { time } => {
                for act in rules.tick(time.0) {
                    if let Act::Decided(decision) = &act {
                        // On a recording everything succeeds; what came of it then is in the record.
                        rules.receipt(decision.id, Ok(()), time.0);
                    }
                    tell(since.unwrap_or_default(), Replayed::Act(act));
                }
                for window in rules.closed_windows() {
                    tell(since.unwrap_or_default(), window);
                }
            }
            other => rules.take(other, &mut functions),
        }
    }
    broken.map_or(Ok(()), Err)
}

impl RuleBook {
    /// One record that is no tick.
    fn take(&mut self, record: Record, functions: &mut Functions) {
        match record {
            Record::ProcessJoined { process, time, facts } => self.join_facts(process.0, facts, time.0),
            Record::ProcessLearned { process, facts, .. } => self.engine.process_learned(process, facts),
            Record::ProcessLeft { process, time } => self.leave(process.0, time.0),
            Record::ProbeDefined { probe, definition } => functions.define(probe, &definition),
            Record::Hit(hit) => {
                if let Some(hit) = functions.hit(&hit) {
                    self.observe_hit(&hit, &functions.probes);
                }
            }
            Record::Counter {
                process,
                measure,
                time,
                total,
            } => {
                self.tell(Observation::Counter {
                    process,
                    measure,
                    time,
                    total,
                });
            }
            Record::Gauge {
                process,
                measure,
                time,
                value,
            } => {
                self.tell(Observation::Gauge {
                    process,
                    measure,
                    time,
                    value,
                });
            }
            Record::Watermark { process, time } => self.tell(Observation::Watermark { process, time }),
            Record::HitsLost { process, from, to } => self.tell(Observation::Lost { process, from, to }),
            Record::ProbeTotals {
                probe,
                process,
                time,
                count,
                duration_sum_ns,
            } => {
                if let Some((index, is_span)) = functions.keys.get(&probe) {
                    let name = functions.probes[*index].name.clone();
                    self.observe_totals(&name, *is_span, process, time, (count, duration_sum_ns));
                }
            }
            // What of no process in particular was lost concerns no window; ticks are taken by the caller.
            Record::Loss { .. } | Record::Tick { .. } => {}
        }
    }
}

impl Functions {
    fn define(&mut self, key: ProbeKey, definition: &ProbeDefinition) {
        let known = self
            .probes
            .iter()
            .position(|probe| probe.name == definition.function);
        let index = known.unwrap_or_else(|| {
            self.probes.push(Probe {
                name: definition.function.clone(),
                mpi: mpi::find(&definition.function).map(|(function, _)| function),
                spec: ProbeSpec::default(),
                captures: definition
                    .captures
                    .iter()
                    .filter_map(|(label, _)| ProbeCapture::from_label(label))
                    .collect(),
            });
            self.probes.len() - 1
        });
        let is_span = definition.place != Place::Entry;
        if is_span {
            self.probes[index].spec.flags |= SpecFlags::SPAN;
        }
        self.keys.insert(key, (index, is_span));
    }

    /// The hit as the kernel side sent it.
    fn hit(&self, recorded: &recording::Hit) -> Option<Hit> {
        let (index, is_span) = *self.keys.get(&recorded.probe)?;
        let mut hit = Hit {
            time_ns: recorded.time.0,
            duration_ns: recorded.duration_ns.unwrap_or(abi::NO_DURATION),
            probe: index as u32,
            process: recorded.process.0,
            thread: recorded.thread,
            kind: if is_span { HitKind::Return } else { HitKind::Entry } as u16,
            ..Hit::default()
        };
        let captures = self.probes[index].captures.iter().zip(&recorded.captures);
        for (place, (capture, value)) in captures.enumerate().take(abi::MAX_CAPTURES) {
            if let Some(raw) = recorder::raw(value, capture.type_name) {
                hit.captures[place] = raw;
                hit.valid |= 1 << place;
            }
        }
        Some(hit)
    }
}

#[cfg(test)]
mod tests;
