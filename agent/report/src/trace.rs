//! `--trace`: MPI calls and iterations as spans, a track for each thread, in the format that ui.perfetto.dev
//! and chrome://tracing read (Trace Event Format, JSON object form). docs/exports.md describes the file.
//!
//! Spans are written as the calls are read from the rings, so that memory does not grow with the run. The
//! file has a maximum size: once it is reached, spans are only counted, so that the trace is complete up to
//! that time.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufWriter, Write},
    ops::Range,
};

use abi::Call;
use profile::probe::Probe;
use profile::{ProcessRank, TraceView};
use serde_json::{Value, json};

/// Reserved for the end of the file.
const TAIL_BYTES: u64 = 4096;

/// Minimum size of the bound.
pub(crate) const BYTES_MIN: u64 = 64 << 10;

/// Maximum number of tracks with names; further threads appear under their numbers.
const TRACKS_MAX: usize = 65_536;

/// The iterations of a thread have their own track, with a number above all thread numbers.
const ITERATIONS_TRACK: u32 = 1 << 30;

/// Values that are known only at the end.
#[derive(Clone, Debug, Default)]
pub struct TraceEnd<'a> {
    pub program: &'a str,
    pub host: &'a str,
    /// Calls that were overwritten before they were read.
    pub not_seen: u64,
    /// Calls of polling functions, which are in no ring.
    pub polling: u64,
}

/// A trace that is being written.
#[derive(Debug)]
pub struct Trace {
    out: BufWriter<File>,
    /// The wall clock time when the probes were armed.
    armed_at: String,
    origin_ns: u64,
    limit: u64,
    view: TraceView,
    /// Processes and tracks that have been named.
    named: BTreeSet<(i32, u32)>,
    /// End of the last iteration on a track: iterations of another loop that is detected later may begin
    /// before it.
    ends: BTreeMap<(i32, u32), u64>,
    is_begun: bool,
    /// A span did not fit; nothing may follow it.
    is_full: bool,
    failed: Option<io::Error>,
    line: Vec<u8>,
}

/// What a trace has and lacks, under the names of the report.
pub(crate) fn counts(view: &TraceView) -> Value {
    json!({
        "calls": view.calls,
        "dropped_calls": view.dropped,
        "calls_not_seen": view.not_seen,
        "polling_calls_not_traced": view.polling,
        "iterations": view.iterations,
        "dropped_iterations": view.iterations_dropped,
        "marks": view.marks,
        "dropped_marks": view.marks_dropped,
    })
}

impl Trace {
    /// Begins a file of at most `limit` bytes.
    pub fn new(file: File, name: String, limit: u64) -> Trace {
        let mut trace = Trace {
            out: BufWriter::with_capacity(1 << 16, file),
            armed_at: tuner::now().wall,
            origin_ns: tuner::monotonic_ns(),
            limit: limit.max(BYTES_MIN),
            view: TraceView {
                file: name,
                ..TraceView::default()
            },
            named: BTreeSet::new(),
            ends: BTreeMap::new(),
            is_begun: false,
            is_full: false,
            failed: None,
            line: Vec::new(),
        };
        trace.put(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        trace
    }

    /// Sets the origin of times.
    pub fn armed(&mut self, now_ns: u64) {
        self.origin_ns = now_ns;
        self.armed_at = tuner::now().wall;
    }

    /// Writes the calls of a process in the order of their returns; `None` for each that was overwritten.
    pub fn calls(&mut self, whose: ProcessRank, calls: &[Option<Call>], probes: &[Probe]) {
        for call in calls.iter().flatten() {
            let probe = probes.get(call.probe as usize);
            let name = probe.map_or("?", |probe| probe.name.as_str());
            let kind = match probe.and_then(Probe::part) {
                Some(_) => "openmp",
                None => "mpi",
            };
            self.name_track(whose, call.thread, false);
            self.span(
                whose.pid,
                call.thread,
                kind,
                name,
                call.entered_ns,
                call.duration_ns,
            );
            let written = self.write_line();
            count_span(written, &mut self.view.calls, &mut self.view.dropped);
        }
    }

    /// Writes a completed iteration of a thread. Iterations must come in order.
    pub fn iteration(&mut self, whose: ProcessRank, thread: u32, iteration: &Range<u64>) {
        let track = ITERATIONS_TRACK.saturating_add(thread);
        let end = self.ends.entry((whose.pid, track)).or_default();
        // Spans on one track must not overlap: the loop that was detected first has priority.
        let fits = iteration.start >= *end;
        if fits {
            *end = iteration.end;
            self.name_track(whose, thread, true);
            let length = iteration.end.saturating_sub(iteration.start);
            self.span(
                whose.pid,
                track,
                "iteration",
                "iteration",
                iteration.start,
                length,
            );
        }
        let written = fits && self.write_line();
        count_span(
            written,
            &mut self.view.iterations,
            &mut self.view.iterations_dropped,
        );
    }

    /// A mark across all tracks: a finding, a change, a verdict.
    pub fn mark(&mut self, kind: &str, name: &str, text: &str, at_ns: u64) {
        self.line.clear();
        let (sign, at) = self.since_origin(at_ns);
        let _ = write!(
            self.line,
            "{{\"ph\":\"i\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":{sign}{}.{:03},\"cat\":\"{kind}\",\"name\":{},\"args\":{}}}",
            at / 1000,
            at % 1000,
            Value::from(name),
            json!({ "text": text }),
        );
        let written = self.write_line();
        count_span(written, &mut self.view.marks, &mut self.view.marks_dropped);
    }

    fn since_origin(&self, at_ns: u64) -> (&'static str, u128) {
        let at = i128::from(at_ns) - i128::from(self.origin_ns);
        (if at < 0 { "-" } else { "" }, at.unsigned_abs())
    }

    /// Ends the file. Returns what was written and what was dropped.
    pub fn finish(mut self, ending: &TraceEnd<'_>) -> (TraceView, io::Result<()>) {
        self.view.not_seen = ending.not_seen;
        self.view.polling = ending.polling;
        let mut about = counts(&self.view);
        about["writer"] = json!(concat!("tuneagent ", env!("CARGO_PKG_VERSION")));
        about["program"] = json!(ending.program);
        about["host"] = json!(ending.host);
        about["times_count_from"] = json!(self.armed_at);
        about["most_bytes"] = json!(self.limit);
        self.put(format!("\n],\"otherData\":{about}}}\n").as_bytes());
        let flushed = self.out.flush();
        (self.view, self.failed.map_or(flushed, Err))
    }

    /// Names the process and the track, once.
    fn name_track(&mut self, whose: ProcessRank, thread: u32, is_iterations: bool) {
        let track = if is_iterations {
            ITERATIONS_TRACK.saturating_add(thread)
        } else {
            thread
        };
        let key = (whose.pid, track);
        if self.named.contains(&key) || self.named.len() >= TRACKS_MAX {
            return;
        }
        if self
            .named
            .range((whose.pid, 0)..=(whose.pid, u32::MAX))
            .next()
            .is_none()
        {
            let name = match whose.rank {
                Some(rank) => format!("rank {rank}"),
                None => "process".to_owned(),
            };
            self.about(whose.pid, 0, "process_name", &json!({ "name": name }));
            let order = whose.rank.map_or(i64::from(whose.pid), i64::from);
            self.about(
                whose.pid,
                0,
                "process_sort_index",
                &json!({ "sort_index": order }),
            );
        }
        self.named.insert(key);
        let name = match (is_iterations, thread == whose.pid.unsigned_abs()) {
            (true, true) => "iterations".to_owned(),
            (true, false) => format!("iterations of thread {thread}"),
            (false, true) => "main thread".to_owned(),
            (false, false) => format!("thread {thread}"),
        };
        self.about(whose.pid, track, "thread_name", &json!({ "name": name }));
        // Sort iterations above the calls that they consist of.
        let order = if is_iterations { 0 } else { 1 };
        self.about(
            whose.pid,
            track,
            "thread_sort_index",
            &json!({ "sort_index": order }),
        );
    }

    fn about(&mut self, pid: i32, track: u32, what: &str, arguments: &Value) {
        self.line.clear();
        // Writing into memory does not fail.
        let _ = write!(
            self.line,
            "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{track},\"name\":\"{what}\",\"args\":{arguments}}}"
        );
        self.write_line();
    }

    /// Writes a span. Times are in microseconds, as the format requires, with three decimals.
    fn span(&mut self, pid: i32, track: u32, kind: &str, name: &str, at_ns: u64, length_ns: u64) {
        let (sign, at) = self.since_origin(at_ns);
        self.line.clear();
        let _ = write!(
            self.line,
            "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{track},\"ts\":{sign}{}.{:03},\"dur\":{}.{:03},\"cat\":\"{kind}\",\"name\":{}}}",
            at / 1000,
            at % 1000,
            length_ns / 1000,
            length_ns % 1000,
            Value::from(name),
        );
    }

    /// Returns false if there is no more room.
    fn write_line(&mut self) -> bool {
        self.is_full |= self.view.bytes + self.line.len() as u64 + TAIL_BYTES > self.limit;
        if self.is_full || self.failed.is_some() {
            return false;
        }
        let between: &[u8] = if std::mem::replace(&mut self.is_begun, true) {
            b",\n"
        } else {
            b"\n"
        };
        let line = std::mem::take(&mut self.line);
        self.put(between);
        self.put(&line);
        self.line = line;
        self.failed.is_none()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.view.bytes += bytes.len() as u64;
        if let Err(error) = self.out.write_all(bytes) {
            self.failed.get_or_insert(error);
        }
    }
}

/// Counts a line as written or as left out.
fn count_span(is_written: bool, written: &mut u64, left_out: &mut u64) {
    *(if is_written { written } else { left_out }) += 1;
}

#[cfg(test)]
mod tests;
