//! `--record`: writes all observations of a session's rules to a recording on which rules can be replayed.
//! Evaluates nothing. If something cannot be recorded, it is counted, and the session continues.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, Write},
    time::{SystemTime, UNIX_EPOCH},
};

use abi::{HitKind, HitRecord};
use job::monotonic_ns;
use plan::MarkKind;
use profile::cost::Estimate;
use profile::probe::{Probe, number_of};
use profile::{Iterations, MatrixView, Messages, Reading, RegionsView};
use recording::{
    Captured, CapturedType, Header, MissingReason, PAIRS_MAX, ProbeDefinition, ProbeKey, ProbePlace, Record,
    RecordingWriter,
};
use rules::{Observation, ProcessFacts, ProcessId, Scalar, Time};

use super::texts::Texts;
use crate::{exit::Failure, output_name::cannot_be_written};

/// Maximum size of the file; later records are counted.
const BYTES_MAX: u64 = 1 << 30;
/// Reserved for the end of the file, which may contain the last block of records.
const TAIL_BYTES: u64 = 1 << 20;

pub(crate) struct Recorder {
    /// `None` once the recording is finished.
    writer: Option<RecordingWriter>,
    file: File,
    name: String,
    /// Current and maximum size of the file in bytes.
    bytes: u64,
    limit: u64,
    /// Records that are not in the file yet.
    unwritten: u64,
    /// Why nothing more is written.
    stopped: Option<Stop>,
    /// The user was informed that the recording has stopped.
    is_reported: bool,
    /// The recorded definitions of the probes are up to date.
    defined: bool,
    probes: Vec<Defined>,
    /// Functions that were recorded as estimated.
    estimated: BTreeSet<(ProcessId, ProbeKey)>,
    /// Functions with calls that had not returned at the last reading.
    open: BTreeSet<(ProcessId, ProbeKey)>,
    /// What ranks had sent to each other at the last record of it.
    sent: BTreeMap<(u32, u32), Messages>,
    /// The number of the next definition.
    next: u32,
    /// Records that are missing: too large, or after the recording stopped.
    lacks: u64,
}

/// Why a recording has stopped.
#[derive(Debug, thiserror::Error)]
enum Stop {
    /// The file has its maximum size.
    #[error("it would have more than {0} bytes")]
    Full(u64),
    #[error("it could not be written: {0}")]
    Failed(io::Error),
}

/// A recording is not complete.
#[derive(Debug, thiserror::Error)]
#[error("{name} lacks {lacks} records{}", why(.stop.as_ref()))]
pub(crate) struct RecordingIncomplete {
    name: String,
    lacks: u64,
    /// None where only records that were too large are left out.
    stop: Option<Stop>,
}

fn why(stop: Option<&Stop>) -> String {
    stop.map_or_else(|| " that were too large".to_owned(), |stop| format!(": {stop}"))
}

/// The last definition of a probe.
struct Defined {
    captures: Vec<(String, CapturedType)>,
    is_timed: bool,
    entry: ProbeKey,
    span: ProbeKey,
}

impl Recorder {
    /// Begins a recording in a new file. `about` contains additional information about the job.
    pub(crate) fn create(
        name: &str,
        host: &str,
        program: String,
        about: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Recorder, Failure> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let version = ("tuneagent", env!("CARGO_PKG_VERSION").to_owned());
        let notes = about.into_iter().chain([version]);
        let header = Header {
            host: host.to_owned(),
            program,
            wall_start_ns: u64::try_from(wall.as_nanos()).unwrap_or(u64::MAX),
            origin: Time(monotonic_ns()),
            notes: notes.map(|(name, text)| (name.to_owned(), text)).collect(),
        };
        let writer = RecordingWriter::new(&header)
            .map_err(|error| Failure::invalid(format!("{name} cannot be written")).caused_by(&error))?;
        let file = File::create(name).map_err(|error| cannot_be_written(name, &error))?;
        Ok(Recorder {
            writer: Some(writer),
            file,
            name: name.to_owned(),
            bytes: 0,
            limit: BYTES_MAX,
            unwritten: 0,
            stopped: None,
            is_reported: false,
            defined: false,
            probes: Vec::new(),
            estimated: BTreeSet::new(),
            open: BTreeSet::new(),
            sent: BTreeMap::new(),
            next: 0,
            lacks: 0,
        })
    }

    /// The probed functions or their captures have changed.
    pub(super) fn redefine(&mut self) {
        self.defined = false;
    }

    /// Defines every probe twice: its entries, and its returns with their durations. Unchanged definitions
    /// keep their numbers.
    fn define(&mut self, probes: &[Probe]) {
        if std::mem::replace(&mut self.defined, true) {
            return;
        }
        for (index, probe) in probes.iter().enumerate() {
            let captures = probe.captures.iter();
            let captures = captures.map(|capture| (capture.label(), captured_type(capture.type_name)));
            let defined = Defined {
                captures: captures.collect(),
                is_timed: probe.is_timed(),
                entry: ProbeKey(self.next),
                span: ProbeKey(self.next + 1),
            };
            let known = self.probes.get(index);
            if known
                .is_some_and(|known| known.captures == defined.captures && known.is_timed == defined.is_timed)
            {
                continue;
            }
            self.next += 2;
            let places = [
                (ProbePlace::Entry, defined.entry),
                (ProbePlace::Span, defined.span),
            ];
            for (place, key) in places
                .into_iter()
                .filter(|(place, _)| *place == ProbePlace::Entry || defined.is_timed)
            {
                let definition = ProbeDefinition {
                    name: probe.name.clone(),
                    function: probe.name.clone(),
                    place,
                    captures: defined.captures.clone(),
                };
                self.put(&Record::ProbeDefined {
                    probe: key,
                    definition,
                });
            }
            match self.probes.get_mut(index) {
                Some(known) => *known = defined,
                None => self.probes.push(defined),
            }
        }
    }

    pub(super) fn joined(&mut self, process: ProcessId, time: Time, facts: &ProcessFacts) {
        self.put(&Record::ProcessJoined {
            process,
            time,
            facts: facts.clone(),
        });
    }

    /// Records the results of a process's complete iterations. If a part of the time inside MPI was not
    /// measured, its share is unknown, so they are recorded with length zero.
    pub(super) fn iterations(
        &mut self,
        process: ProcessId,
        time: Time,
        iterations: &Iterations,
        knows_mpi: bool,
    ) {
        let overall = iterations.overall();
        self.put(&Record::Iterations {
            process,
            time,
            count: overall.count,
            sum_ns: overall.sum_ns,
            elapsed_ns: if knows_mpi { iterations.elapsed_ns() } else { 0 },
            mpi_ns: if knows_mpi { iterations.mpi_ns() } else { 0 },
            calls_per_1000: (iterations.calls() * 1e3).round() as u64,
        });
    }

    pub(super) fn regions(&mut self, process: ProcessId, time: Time, regions: &RegionsView) {
        self.put(&Record::Regions {
            process,
            time,
            count: regions.regions,
            inside_ns: regions.inside_ns,
            watched_ns: regions.watched_ns,
            until_ns: regions.until_ns,
        });
    }

    /// Records the uncertainty of functions that were sampled in windows. Functions that have an earlier
    /// record are skipped, except at the end.
    pub(super) fn estimates(
        &mut self,
        process: ProcessId,
        time: Time,
        of: impl Iterator<Item = (usize, Estimate)>,
        is_end: bool,
    ) {
        for (index, estimate) in of {
            let Some(probe) = self.probes.get(index).map(|defined| defined.entry) else {
                continue;
            };
            if self.estimated.insert((process, probe)) || is_end {
                self.put(&Record::Estimated {
                    process,
                    probe,
                    time,
                    counted: estimate.counted,
                    counted_bytes: estimate.counted_bytes,
                    from: estimate.from,
                    to: estimate.to,
                    watched: estimate.watched,
                });
            }
        }
    }

    /// Records what ranks have sent to each other, if they have sent more.
    pub(super) fn sent(&mut self, time: Time, matrix: &MatrixView) {
        let more = matrix.sent.iter().filter(|pair| {
            let before = self.sent.insert((pair.from, pair.to), pair.of);
            before != Some(pair.of)
        });
        let more: Vec<(u32, u32, u64, u64)> = more
            .map(|pair| (pair.from, pair.to, pair.of.count, pair.of.bytes))
            .collect();
        for pairs in more.chunks(PAIRS_MAX) {
            let (pairs, cut) = (pairs.to_vec(), matrix.cut as u64);
            self.put(&Record::Sent { time, pairs, cut });
        }
    }

    pub(super) fn left(&mut self, process: ProcessId, time: Time) {
        self.put(&Record::ProcessLeft { process, time });
    }

    /// Records a measure, a watermark or a loss, in the form in which the engine gets it.
    pub(super) fn observed(&mut self, observation: &Observation) {
        let record = match *observation {
            Observation::Variable {
                process,
                ref name,
                time,
                ref value,
            } => Record::Variable {
                process,
                time,
                name: name.clone(),
                value: match value {
                    Scalar::Boolean(value) => f64::from(u8::from(*value)),
                    Scalar::Number(value) => *value,
                    Scalar::Text(_) => return,
                },
            },
            Observation::Counter {
                of,
                measure,
                time,
                total,
            } => Record::Counter {
                process: of.process(),
                measure,
                time,
                total,
            },
            Observation::Gauge {
                of,
                measure,
                time,
                value,
            } => Record::Gauge {
                process: of.process(),
                measure,
                time,
                value,
            },
            Observation::Watermark { process, time } => Record::Watermark { process, time },
            Observation::LoopWatermark { process, time } => Record::LoopWatermark { process, time },
            Observation::IterationBegan {
                process,
                thread,
                number,
                time,
            } => Record::IterationBegan {
                process,
                time,
                thread,
                number,
            },
            Observation::IterationEnded(ref iteration) => Record::IterationEnded {
                process: iteration.process,
                time: iteration.end,
                duration_ns: iteration.end.since(iteration.begin),
                thread: iteration.thread,
                number: iteration.number,
                teams: iteration.teams.clone(),
            },
            Observation::Lost { process, from, to } => Record::HitsLost { process, from, to },
            // For probes, the data of the function is recorded (`totals` and `hit`), not that of each rule.
            // While recording, nothing is aggregated in the kernel.
            Observation::ProbeTotals { .. }
            | Observation::CallCounter { .. }
            | Observation::Hit { .. }
            | Observation::PartialSum { .. } => return,
        };
        self.put(&record);
    }

    /// Records the counters of a process for each probed function.
    pub(super) fn totals(&mut self, slot: u32, reading: &Reading, probes: &[Probe]) {
        self.define(probes);
        let (process, time, mut calls) = (ProcessId(slot), Time(reading.at_ns), Vec::new());
        for (index, totals) in reading.totals.iter().enumerate() {
            let Some(defined) = self.probes.get(index) else {
                break;
            };
            let of_entry = (defined.entry, totals.calls, 0);
            let of_span = defined
                .is_timed
                .then_some((defined.span, totals.timed, totals.time_ns));
            for (probe, count, duration_sum_ns) in std::iter::once(of_entry).chain(of_span) {
                self.put(&Record::ProbeTotals {
                    probe,
                    process,
                    time,
                    count,
                    duration_sum_ns,
                });
            }
        }
        for (index, defined) in (0..).zip(&self.probes).filter(|(_, defined)| defined.is_timed) {
            let probe = defined.span;
            let open = reading.open.iter().filter(|(open, _)| *open == index);
            let open_ns: u64 = open.map(|(_, lasted_ns)| lasted_ns).sum();
            let was_open = self.open.remove(&(process, probe));
            if open_ns > 0 {
                self.open.insert((process, probe));
            }
            if open_ns > 0 || was_open {
                calls.push(Record::OpenCalls {
                    probe,
                    process,
                    time,
                    open_ns,
                });
            }
        }
        calls.iter().for_each(|record| self.put(record));
    }

    pub(super) fn hit(&mut self, hit: &HitRecord, texts: &Texts, probes: &[Probe]) {
        self.define(probes);
        let index = hit.probe as usize;
        let Some((probe, defined)) = probes.get(index).zip(self.probes.get(index)) else {
            return;
        };
        let (entry, span) = (defined.entry, defined.span);
        let is_return = hit.kind == HitKind::Return as u16;
        let captures = probe.captures.iter().enumerate();
        let captured = captures.map(|(place, capture)| match hit.valid & (1 << place) {
            0 => Captured::None(MissingReason::Unreadable),
            _ if capture.length > 0 => match texts.get(place).cloned().flatten() {
                Some(text) => Captured::Text(text),
                None => Captured::None(MissingReason::Lost),
            },
            _ => captured(
                hit.captures.get(place).copied().unwrap_or_default(),
                capture.type_name,
            ),
        });
        self.put(&Record::Hit(recording::RecordedHit {
            probe: if is_return { span } else { entry },
            process: ProcessId(hit.process),
            thread: hit.thread,
            time: Time(hit.time_ns),
            duration_ns: is_return.then_some(hit.duration_ns),
            captures: captured.collect(),
        }));
    }

    pub(super) fn ticked(&mut self, time: Time) {
        self.put(&Record::Tick { time });
    }

    /// Records a new mode of a rule.
    pub(super) fn ruled(&mut self, time: Time, rule: &str, mode: &str) {
        self.put(&Record::RuleSet {
            time,
            rule: rule.to_owned(),
            mode: mode.to_owned(),
        });
    }

    /// Records a report of the session to its user.
    pub(super) fn marked(&mut self, time: Time, kind: MarkKind, rule: &str, text: &str) {
        self.put(&Record::Marked {
            time,
            kind: kind.name().to_owned(),
            rule: rule.to_owned(),
            text: text.to_owned(),
        });
    }

    fn put(&mut self, record: &Record) {
        let Some(writer) = &mut self.writer else { return };
        let bytes = self.bytes + writer.unflushed() as u64;
        if self.stopped.is_none() && bytes + TAIL_BYTES > self.limit {
            self.stopped = Some(Stop::Full(self.limit));
        }
        if self.stopped.is_some() {
            self.lacks += 1;
            return;
        }
        match writer.write(record) {
            Ok(()) => self.unwritten += 1,
            Err(_) => self.lacks += 1,
        }
        let chunk = writer.take();
        if !chunk.is_empty() {
            self.append(&chunk);
        }
    }

    /// Writes complete blocks. Nothing may follow a failed write, because each block is checked against the
    /// previous one.
    fn append(&mut self, chunk: &[u8]) {
        match self.file.write_all(chunk) {
            Ok(()) => self.bytes += chunk.len() as u64,
            Err(error) => {
                self.lacks += self.unwritten;
                self.stopped = Some(Stop::Failed(error));
            }
        }
        self.unwritten = 0;
    }

    /// A message that the recording has stopped; returned once.
    pub(super) fn news(&mut self) -> Option<String> {
        let stop = self.stopped.as_ref().filter(|_| !self.is_reported)?;
        let text = format!("the recording {} ends here: {stop}", self.name);
        self.is_reported = true;
        Some(text)
    }

    pub(crate) fn finish(mut self) -> Result<(), RecordingIncomplete> {
        if !matches!(self.stopped, Some(Stop::Failed(_))) {
            let end = std::mem::take(&mut self.writer).map(RecordingWriter::finish);
            self.append(&end.unwrap_or_default());
        }
        match (self.stopped, self.lacks) {
            (None, 0) => Ok(()),
            (stop, lacks) => Err(RecordingIncomplete {
                name: self.name,
                lacks,
                stop,
            }),
        }
    }
}

fn captured_type(type_name: &str) -> CapturedType {
    match type_name.as_bytes().first() {
        Some(b'i') => CapturedType::Signed,
        Some(b'f') => CapturedType::Float,
        Some(b'b') => CapturedType::Boolean,
        Some(b's') => CapturedType::Text,
        _ => CapturedType::Unsigned,
    }
}

/// Converts raw bytes of a register or memory to a value of their type.
fn captured(raw: u64, type_name: &str) -> Captured {
    let Some(number) = number_of(raw, type_name) else {
        return Captured::None(MissingReason::Unreadable);
    };
    match captured_type(type_name) {
        CapturedType::Signed if type_name == "i64" => Captured::Signed(raw as i64),
        CapturedType::Unsigned if type_name == "u64" => Captured::Unsigned(raw),
        CapturedType::Signed => Captured::Signed(number as i64),
        CapturedType::Float => Captured::Float(number),
        CapturedType::Boolean => Captured::Boolean(number != 0.0),
        CapturedType::Unsigned | CapturedType::Text => Captured::Unsigned(number as u64),
    }
}

/// Inverse of [`captured`]: the raw bytes of a value.
pub(super) fn raw(captured: &Captured, type_name: &str) -> Option<u64> {
    Some(match captured {
        Captured::None(_) | Captured::Text(_) => return None,
        Captured::Signed(number) => *number as u64,
        Captured::Unsigned(number) => *number,
        Captured::Float(number) if type_name == "f32" => u64::from((*number as f32).to_bits()),
        Captured::Float(number) => number.to_bits(),
        Captured::Boolean(is_true) => u64::from(*is_true),
    })
}

#[cfg(test)]
mod tests;
