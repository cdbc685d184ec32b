//! Evaluates rules on a recording, without program, root or kernel: what they would have found and decided.

use std::collections::{BTreeMap, BTreeSet};
use std::{error::Error, fmt};

use abi::{HitKind, HitRecord, SpecFlags};
use plan::{MarkKind, Mode};
use profile::format::suggestion;
use profile::mpi;
use profile::probe::{Probe, ProbeCapture, ProbeSelector};
use recording::{
    self, Broken, ProbeDefinition, ProbeKey, ProbePlace, ReadError, Reader, Record, RecordingMerge,
};
use rules::{Machine, MetricReading, Observation, ProcessId, Time};

use super::{
    Act, ProbeSwitch, RuleBook, ingest::ProbeCounters, modes, probe_requests::ProbeRequest, recorder,
    texts::Texts,
};

/// An event of a replay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReplayEvent {
    Window {
        rule: String,
        window: String,
        index: u64,
        /// In seconds; `None` if one of its ends is unknown.
        duration: Option<f64>,
        /// The metrics with their values for display.
        metrics: Vec<(String, String)>,
        /// The metrics as numbers, in the same order.
        readings: Vec<Option<MetricReading>>,
    },
    /// A rule found, decided or judged something.
    Act(Act),
    /// The session that made the recording reported this of a rule.
    Marked {
        /// The kind of the mark.
        kind: MarkKind,
        rule: String,
        text: String,
    },
    /// A rule needs something that the recording does not have.
    Missing { rule: String, what: String },
}

#[derive(Default)]
struct Functions {
    probes: Vec<Probe>,
    /// By number in the recording: the index of the function, and whether the probe is at its returns.
    keys: std::collections::BTreeMap<ProbeKey, (usize, bool)>,
    /// Totals of one process at one moment, by function, as far as they have been read.
    counted: Vec<ProbeCounters>,
    at: Option<(ProcessId, Time)>,
    /// Probes that decisions have switched.
    switched: std::collections::BTreeMap<rules::DecisionId, Vec<ProbeSwitch>>,
}

/// A recording cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unreadable(String, ReadError);

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

impl Error for Unreadable {
    /// The message has the text of the error in it, so the cause is that of the error.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.1.source()
    }
}

/// Why a replay is not complete.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("{0}, and no window closed before")]
    NoWindow(Unreadable),
}

/// Several recordings, in the order of time.
pub(super) fn merged(recordings: &[(String, Vec<u8>)]) -> Result<RecordingMerge<'_>, Unreadable> {
    let readers = recordings
        .iter()
        .map(|(name, bytes)| Reader::new(bytes).map_err(|error| Unreadable(name.clone(), error)));
    Ok(RecordingMerge::new(readers.collect::<Result<_, _>>()?))
}

/// Replays recordings of one session (of several hosts, joined by their clocks). `report` is called with the
/// time since the first record, in nanoseconds. What comes before an error was replayed.
pub(crate) fn replay(
    rules: &mut RuleBook,
    recordings: &[(String, Vec<u8>)],
    mut report: impl FnMut(u64, ReplayEvent),
) -> Result<(), ReplayError> {
    let merge = merged(recordings)?;
    rules.hold(&merge);
    let mut found = BTreeSet::new();
    let mut report = |since, what| {
        if let Some(what) = once_a_rule(what, &mut found) {
            report(since, what);
        }
    };
    let mut functions = Functions::default();
    let mut start: Option<u64> = None;
    let (mut broken, mut has_windows) = (None, false);
    for merged in merge {
        let (record, machine) = match merged {
            Ok(merged) => (merged.record, merged.machine),
            Err(error) => {
                broken = broken.or(Some(named(recordings, error)));
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
            Record::RuleSet { time, rule, mode } => {
                rules.take_totals(&mut functions);
                for act in rules.set(&rule, &mode, time, &mut functions) {
                    report(since.unwrap_or_default(), ReplayEvent::Act(act));
                }
            }
            Record::Marked { kind, rule, text, .. } => {
                let kind = MarkKind::named(&kind);
                report(
                    since.unwrap_or_default(),
                    ReplayEvent::Marked { kind, rule, text },
                )
            }
            Record::Tick { time } => {
                rules.take_totals(&mut functions);
                for act in rules.tick(time.0) {
                    rules.pretend(&act, time, &mut functions);
                    report(since.unwrap_or_default(), ReplayEvent::Act(act));
                }
                for window in rules.closed_windows() {
                    has_windows = true;
                    report(since.unwrap_or_default(), window);
                }
            }
            other => rules.take(other, machine, &mut functions),
        }
    }
    rules.take_totals(&mut functions);
    for (rule, what) in rules.not_recorded(&functions) {
        report(0, ReplayEvent::Missing { rule, what });
    }
    match broken {
        None => Ok(()),
        Some(error) if has_windows => Err(error.into()),
        Some(error) => Err(ReplayError::NoWindow(error)),
    }
}

/// The error names the host if there are several recordings, and the file if there is one.
pub(super) fn named(recordings: &[(String, Vec<u8>)], broken: Broken) -> Unreadable {
    match recordings {
        [(name, _)] => Unreadable(name.clone(), broken.error),
        _ => Unreadable(broken.host, broken.error),
    }
}

/// Several tunes of a rule have one finding, as in a session.
fn once_a_rule(what: ReplayEvent, found: &mut BTreeSet<String>) -> Option<ReplayEvent> {
    Some(match what {
        ReplayEvent::Act(Act::Found {
            rule,
            text,
            next_start,
            is_new,
        }) => ReplayEvent::Act(Act::Found {
            is_new: is_new && found.insert(rule.clone()),
            rule,
            text,
            next_start,
        }),
        ReplayEvent::Act(Act::Gone { rule }) if !found.remove(&rule) => return None,
        other => other,
    })
}

impl RuleBook {
    /// Handles a record other than a tick.
    fn take(&mut self, record: Record, machine: Machine, functions: &mut Functions) {
        if !functions.continues(&record) {
            self.take_totals(functions);
        }
        match record {
            Record::ProcessJoined { process, time, facts } => self.join_facts(process.0, facts, time.0),
            Record::ProcessLearned { process, facts, .. } => self.engine.process_learned(process, facts),
            Record::ProcessLeft { process, time } => self.leave(process.0, time.0),
            Record::ProbeDefined { probe, definition } => {
                functions.define(probe, &definition, &self.selector())
            }
            Record::Hit(hit) => {
                if let Some((hit, texts)) = functions.hit(&hit)
                    && let Some(probe) = functions.probes.get(hit.probe as usize)
                {
                    self.ingest(&hit, &texts, probe);
                }
            }
            record @ (Record::Counter { .. }
            | Record::Gauge { .. }
            | Record::Watermark { .. }
            | Record::Variable { .. }
            | Record::IterationBegan { .. }
            | Record::IterationEnded { .. }
            | Record::LoopWatermark { .. }) => {
                let observation = record.observation(machine);
                observation
                    .into_iter()
                    .for_each(|observation| self.report(observation));
            }
            Record::HitsLost { process, from, to } => {
                self.pairs.forget_open();
                self.report(Observation::Lost { process, from, to });
            }
            Record::ProbeTotals {
                probe,
                process,
                time,
                count,
                duration_sum_ns,
            } => {
                functions.count(probe, process, time, count, duration_sum_ns);
            }
            // Losses without a process, calls that last and messages affect no window, and the summary at the end no rule; the caller
            // handles the others.
            Record::Loss { .. }
            | Record::Iterations { .. }
            | Record::Regions { .. }
            | Record::Estimated { .. }
            | Record::OpenCalls { .. }
            | Record::Sent { .. }
            | Record::Marked { .. }
            | Record::Tick { .. }
            | Record::RuleSet { .. } => {}
        }
    }
}

impl RuleBook {
    /// During a replay every decision succeeds; its recorded consequences follow. Probes are switched as in a
    /// session.
    fn pretend(&mut self, act: &Act, time: Time, functions: &mut Functions) {
        match act {
            Act::Decided(decision) => {
                self.switch_probes(&decision.switches);
                functions.switched.insert(decision.id, decision.switches.clone());
                self.receipt(decision.id, Ok(()), time.0);
            }
            Act::Judged(judged) if !judged.keeps => {
                let made = functions.switched.get(&judged.decision);
                let made = made.map_or(&[][..], Vec::as_slice);
                self.switch_probes(&ProbeSwitch::back(made, judged.slots.as_ref()));
            }
            _ => {}
        }
    }

    /// Holds back rules that were added during the recording until the time of their addition.
    fn hold(&mut self, recording: &RecordingMerge<'_>) {
        let records = recording.clone().filter_map(Result::ok);
        let first = records.filter_map(|merged| match merged.record {
            Record::RuleSet { rule, mode, .. } => Some((rule, mode)),
            _ => None,
        });
        let mut reported = BTreeMap::new();
        for (rule, mode) in first {
            reported.entry(rule).or_insert(mode);
        }
        // A rule that was removed and added again was present at the start.
        reported.retain(|_, mode| mode == modes::ADDED);
        let names: Vec<String> = self
            .engine
            .rules()
            .map(|(_, rule, _)| rule.name().to_owned())
            .collect();
        for name in names.into_iter().filter(|name| reported.contains_key(name)) {
            let of = self.engine.rules().find(|(_, rule, _)| rule.name() == name);
            let Some(rule) = of.map(|(_, rule, _)| rule.clone()) else {
                continue;
            };
            self.remove(&name, 0);
            self.held.push(rule);
        }
    }

    /// Applies a recorded change of a rule's mode. The rule acts only if `--apply` permits it.
    fn set(&mut self, name: &str, mode: &str, time: Time, functions: &mut Functions) -> Vec<Act> {
        if mode == modes::ADDED {
            let Some(place) = self.held.iter().position(|rule| rule.name() == name) else {
                return Vec::new();
            };
            let rule = self.held.remove(place);
            let first = self.requests.last_key_value().map_or(0, |(last, _)| last + 1);
            // It was compatible with the others then, so this does not fail.
            if let Ok(added) = self.add(rule.clone(), first, time.0) {
                functions.grow(first, added.wanted.iter().map(|wanted| &wanted.selector));
                self.begin(&added, Mode::Advising, time.0);
            }
            return Vec::new();
        }
        if mode == modes::REMOVED {
            let of = self.engine.rules().find(|(_, rule, _)| rule.name() == name);
            let rule = of.map(|(_, rule, _)| rule.clone());
            let acts = self.remove(name, time.0).map(|(_, acts)| acts);
            // It may be added again.
            self.held.extend(rule);
            return acts.unwrap_or_default();
        }
        let Some(mode) = mode.parse().ok() else {
            return Vec::new();
        };
        let mode = match mode {
            Mode::Applying if !self.permissions.permits(name) => Mode::Advising,
            mode => mode,
        };
        if mode == Mode::Applying {
            self.permissions.name(name);
        }
        self.switch(name, mode, time.0)
            .map(|(_, acts)| acts)
            .unwrap_or_default()
    }

    fn selector(&self) -> Vec<(usize, ProbeSelector)> {
        let planned = |(number, request): (&usize, &ProbeRequest)| {
            let wanted = request.wanted(request.planned(&self.engine)?)?;
            Some((*number, wanted.selector))
        };
        self.requests.iter().filter_map(planned).collect()
    }

    /// Functions of rules that the user named, and that are not in the recording.
    fn not_recorded(&self, functions: &Functions) -> BTreeSet<(String, String)> {
        let recorded = || functions.probes.iter().map(|probe| probe.name.clone());
        let missing = |(number, selector)| {
            let ProbeSelector::Function(name) = selector else {
                return None;
            };
            let rule = self.engine.rule(self.requests[&number].rule)?.name();
            let is_there = functions
                .probes
                .iter()
                .any(|probe| probe.wanted.contains(&number));
            let near = suggestion(recorded(), &name);
            (!is_there && !rules::is_built_in(rule))
                .then(|| (rule.to_owned(), format!("{name} is not in the recording{near}")))
        };
        self.selector().into_iter().filter_map(missing).collect()
    }

    /// Observes the totals that were recorded for one process at one moment.
    fn take_totals(&mut self, functions: &mut Functions) {
        if let Some((process, time)) = functions.at.take() {
            let counted = std::mem::take(&mut functions.counted);
            let places = self.places(&functions.probes);
            self.ingest_totals(process.0, time, &functions.probes, &places, &counted.into());
        }
    }
}

impl Functions {
    /// Whether a record belongs to the totals of the same process and moment.
    fn continues(&self, record: &Record) -> bool {
        let of = match record {
            Record::ProbeTotals { process, time, .. } => Some((*process, *time)),
            _ => None,
        };
        self.at.is_none() || self.at == of
    }

    fn count(&mut self, key: ProbeKey, process: ProcessId, time: Time, count: u64, duration_sum_ns: u64) {
        let Some((index, is_span)) = self.keys.get(&key).copied() else {
            return;
        };
        self.at = Some((process, time));
        self.counted.resize(self.probes.len(), ProbeCounters::default());
        let counted = &mut self.counted[index];
        if is_span {
            counted.timed = count;
            counted.time_ns = duration_sum_ns;
            // Open calls and bytes are not recorded by function.
            counted.time_with_open_ns = duration_sum_ns;
        } else {
            counted.calls = count;
        }
    }

    /// Assigns the requests of an added rule to the probes; `first` is the number of its first request.
    fn grow<'a>(&mut self, first: usize, selector: impl Iterator<Item = &'a ProbeSelector>) {
        for (number, selector) in (first..).zip(selector) {
            for probe in &mut self.probes {
                if selector.means(&probe.name, probe.mpi.is_some()) {
                    probe.wanted.push(number);
                }
            }
        }
    }

    fn define(&mut self, key: ProbeKey, definition: &ProbeDefinition, selector: &[(usize, ProbeSelector)]) {
        let known = self
            .probes
            .iter()
            .position(|probe| probe.name == definition.function);
        let index = known.unwrap_or_else(|| {
            let (name, mpi) = (&definition.function, mpi::find(&definition.function));
            let means = |(_, selector): &&(usize, ProbeSelector)| selector.means(name, mpi.is_some());
            self.probes.push(Probe {
                name: name.clone(),
                mpi: mpi.map(|called| called.function),
                symbols: [].into(),
                wanted: selector.iter().filter(means).map(|(number, _)| *number).collect(),
                ..Probe::default()
            });
            self.probes.len() - 1
        });
        // The captures of a function may increase as rules are added.
        let labels = definition.captures.iter();
        self.probes[index].captures = labels
            .filter_map(|(label, _)| ProbeCapture::from_label(label))
            .collect();
        let is_span = definition.place != ProbePlace::Entry;
        if is_span {
            self.probes[index].spec.flags |= SpecFlags::SPAN;
        }
        self.keys.insert(key, (index, is_span));
    }

    /// Reconstructs the hit as the kernel side sent it.
    fn hit(&self, recorded: &recording::RecordedHit) -> Option<(HitRecord, Texts)> {
        let (index, is_span) = *self.keys.get(&recorded.probe)?;
        let mut hit = HitRecord {
            time_ns: recorded.time.0,
            duration_ns: recorded.duration_ns.unwrap_or(abi::NO_DURATION),
            probe: index as u32,
            process: recorded.process.0,
            thread: recorded.thread,
            kind: if is_span { HitKind::Return } else { HitKind::Entry } as u16,
            ..HitRecord::default()
        };
        let captures = self.probes[index].captures.iter().zip(&recorded.captures);
        let mut texts = Texts::new();
        for (place, (capture, value)) in captures.enumerate().take(abi::CAPTURES_MAX) {
            if let recording::Captured::Text(text) = value {
                texts.resize(place + 1, None);
                texts[place] = Some(text.clone());
                hit.valid |= 1 << place;
            }
            if let Some(raw) = recorder::raw(value, capture.type_name) {
                hit.captures[place] = raw;
                hit.valid |= 1 << place;
            }
        }
        Some((hit, texts))
    }
}

#[cfg(test)]
mod tests;
