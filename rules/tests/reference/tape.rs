//! Recordings of shipped rules, made from the numbers of the works in the agent's format, and their replay.
//! Has no tests itself.

use recording::{
    Captured, CapturedType, Header, MissingReason, ProbeDefinition, ProbeKey, ProbePlace, Reader, Record,
    RecordedHit, RecordingWriter,
};
use rules::{
    Base, CheckedRule, Layout, LoopNumber, Machine, Measure, Observation, PlannedCapture, PlannedProbe,
    ProbeId, ProcessId, RuleId, Site, Time,
};

use crate::bench::{Bench, checked, facts, shipped, teams};

/// Builds a recording: the activity of ranks under one rule. Times are in milliseconds.
pub(crate) struct Tape {
    rule: CheckedRule,
    functions: Vec<Function>,
    ranks: u32,
    records: Vec<Record>,
}

/// A function, with the labels of all captures at its hits.
struct Function {
    name: String,
    is_span: bool,
    captures: Vec<String>,
}

impl Tape {
    pub(crate) fn new(rule: &str, ranks: u32) -> Tape {
        let rule = checked(shipped(rule), &[]);
        let mut functions: Vec<Function> = Vec::new();
        for probe in &rule.plan().probes {
            let known = functions.iter().position(|known| known.name == probe.function);
            let place = known.unwrap_or_else(|| {
                functions.push(Function {
                    name: probe.function.clone(),
                    is_span: false,
                    captures: Vec::new(),
                });
                functions.len() - 1
            });
            functions[place].is_span |= probe.site != Site::Entry;
            for capture in &probe.captures {
                let label = label(capture, probe.site);
                if !functions[place].captures.contains(&label) {
                    functions[place].captures.push(label);
                }
            }
        }
        Tape {
            rule,
            functions,
            ranks,
            records: Vec::new(),
        }
    }

    /// Adds a hit of a probe of the rule: end, duration, captured values. A function's return is one hit for
    /// all probes on it.
    pub(crate) fn hit(&mut self, probe: &str, rank: u32, end_ms: f64, took_ms: f64, reads: &[f64]) {
        let probe = self.planned(probe).clone();
        let (place, function) = self.function(&probe);
        let read = |label: &String| {
            let mine = probe
                .captures
                .iter()
                .position(|capture| self::label(capture, probe.site) == *label);
            match mine.and_then(|mine| reads.get(mine)) {
                Some(value) if value.is_nan() => Captured::None(MissingReason::NotMeasured),
                Some(value) if label.contains(" as f") => Captured::Float(*value),
                Some(value) => Captured::Signed(*value as i64),
                None => Captured::None(MissingReason::NotMeasured),
            }
        };
        let is_return = probe.site != Site::Entry;
        let hit = RecordedHit {
            probe: key(place, is_return),
            process: ProcessId(rank),
            thread: 0,
            time: ms(end_ms),
            duration_ns: is_return.then(|| ms(took_ms).0),
            captures: function.captures.iter().map(read).collect(),
        };
        self.records.push(Record::Hit(hit));
    }

    /// Adds the totals of a probe in a rank: hits, and the sum of their durations.
    pub(crate) fn totals(&mut self, probe: &str, rank: u32, at_ms: f64, count: u64, took_ms: f64) {
        let probe = self.planned(probe).clone();
        let (place, _) = self.function(&probe);
        self.records.push(Record::ProbeTotals {
            probe: key(place, probe.site != Site::Entry),
            process: ProcessId(rank),
            time: ms(at_ms),
            count,
            duration_sum_ns: ms(took_ms).0,
        });
    }

    /// Adds a reading of a measure of a rank.
    pub(crate) fn gauge(&mut self, measure: Measure, rank: u32, at_ms: f64, value: f64) {
        self.measured(measure, Some(ProcessId(rank)), at_ms, value);
    }

    /// A gauge of a process or, without one, of the machine.
    pub(crate) fn measured(&mut self, measure: Measure, process: Option<ProcessId>, at_ms: f64, value: f64) {
        self.records.push(Record::Gauge {
            process,
            measure,
            time: ms(at_ms.max(0.0)),
            value,
        });
    }

    /// Adds an iteration of the detected loop of rank 0: ms of sequential code and in parallel regions, and
    /// threads.
    pub(crate) fn iteration(&mut self, number: u64, at_ms: &mut f64, times: (f64, f64, u32)) {
        let (process, thread) = (ProcessId(0), 0);
        let began = ms(*at_ms);
        let number = LoopNumber {
            of: 1,
            iteration: number,
        };
        self.records.push(Record::IterationBegan {
            process,
            time: began,
            thread,
            number,
        });
        self.loop_until(*at_ms);
        *at_ms += times.0 + times.1;
        let time = ms(*at_ms);
        self.records.push(Record::IterationEnded {
            process,
            time,
            duration_ns: time.since(began),
            thread,
            number,
            teams: Ok(teams(times)),
        });
    }

    /// Adds the watermark of the detected loop of rank 0, and a tick.
    pub(crate) fn loop_until(&mut self, at_ms: f64) {
        let (process, time) = (ProcessId(0), ms(at_ms));
        let records = [Record::LoopWatermark { process, time }, Record::Tick { time }];
        self.records.extend(records);
    }

    /// Adds watermarks of all ranks up to this time, and a tick.
    pub(crate) fn until(&mut self, at_ms: f64) {
        let time = ms(at_ms);
        for rank in 0..self.ranks {
            let process = ProcessId(rank);
            self.records.push(Record::Watermark { process, time });
        }
        self.records.push(Record::Tick { time });
    }

    /// The bytes of the recording, in time order.
    pub(crate) fn bytes(mut self) -> Vec<u8> {
        let header = Header {
            host: "node1".into(),
            program: self.rule.name().into(),
            notes: [(
                "source".to_string(),
                self.rule.source().unwrap_or_default().to_string(),
            )]
            .into(),
            ..Header::default()
        };
        let mut writer = RecordingWriter::new(&header).unwrap_or_else(|large| panic!("{large}"));
        let mut put = |record: &Record| writer.write(record).unwrap_or_else(|large| panic!("{large}"));
        for rank in 0..self.ranks {
            put(&Record::ProcessJoined {
                process: ProcessId(rank),
                time: Time(0),
                facts: facts(rank),
            });
        }
        for (place, function) in self.functions.iter().enumerate() {
            for at in [ProbePlace::Entry, ProbePlace::Span] {
                if at == ProbePlace::Entry || function.is_span {
                    let captures = function
                        .captures
                        .iter()
                        .map(|label| (label.clone(), of_label(label)));
                    put(&Record::ProbeDefined {
                        probe: key(place, at == ProbePlace::Span),
                        definition: ProbeDefinition {
                            name: function.name.clone(),
                            function: function.name.clone(),
                            place: at,
                            captures: captures.collect(),
                        },
                    });
                }
            }
        }
        // A stable sort: at equal times a watermark stays after the hits that it covers.
        self.records.sort_by_key(Record::time);
        self.records.iter().for_each(put);
        writer.finish()
    }

    fn planned(&self, name: &str) -> &PlannedProbe {
        let mut probes = self.rule.plan().probes.iter();
        probes
            .find(|probe| probe.name == name)
            .unwrap_or_else(|| panic!("no probe {name}"))
    }

    fn function(&self, probe: &PlannedProbe) -> (usize, &Function) {
        let mut functions = self.functions.iter().enumerate();
        let found = functions.find(|(_, function)| function.name == probe.function);
        found.unwrap_or_else(|| panic!("{} is not probed", probe.function))
    }
}

fn ms(at: f64) -> Time {
    Time((at * 1e6).round() as u64)
}

/// A function has two probes: its entries, and its returns with durations.
fn key(function: usize, is_return: bool) -> ProbeKey {
    ProbeKey(2 * function as u32 + u32::from(is_return))
}

/// Label of a capture in a recording. A type that needs debug information is `int` here.
fn label(capture: &PlannedCapture, site: Site) -> String {
    let what = match &capture.source.base {
        Base::ReturnValue => "ret".to_string(),
        Base::Known(known) => format!("{known:?}").to_lowercase(),
        _ => capture.source.to_string(),
    };
    let layout = Layout::ALL
        .iter()
        .find(|(_, layout)| Some(*layout) == capture.layout);
    let moment = if site == Site::Return { " at return" } else { "" };
    format!("{what} as {}{moment}", layout.map_or("i32", |(name, _)| name))
}

fn of_label(label: &str) -> CapturedType {
    if label.contains(" as f") {
        CapturedType::Float
    } else {
        CapturedType::Signed
    }
}

/// Replays a recording under a rule; all its decisions succeed.
pub(crate) fn replayed(source: &str, recording: &[u8]) -> Bench {
    let rule = checked(source, &[]);
    let probes = rule.plan().probes.clone();
    let mut bench = Bench::empty(rule).applying();
    let mut definitions = std::collections::BTreeMap::new();
    for record in Reader::new(recording).unwrap_or_else(|error| panic!("{error}")) {
        match record.unwrap_or_else(|error| panic!("{error}")) {
            Record::ProcessJoined { process, facts, time } => bench.join(process, facts, time),
            Record::ProbeDefined { probe, definition } => {
                definitions.insert(probe, definition);
            }
            Record::Hit(hit) => {
                let definition = &definitions[&hit.probe];
                for (place, planned) in looking_at(&probes, definition) {
                    bench.observe(observed(place, planned, definition, &hit));
                }
            }
            Record::ProbeTotals {
                probe,
                process,
                time,
                count,
                duration_sum_ns,
            } => {
                for (place, _) in looking_at(&probes, &definitions[&probe]) {
                    bench.observe(Observation::ProbeTotals {
                        rule: RuleId(0),
                        probe: ProbeId(place),
                        process,
                        time,
                        count,
                        duration_sum_ns,
                    });
                }
            }
            record @ (Record::Counter { .. }
            | Record::Gauge { .. }
            | Record::Watermark { .. }
            | Record::LoopWatermark { .. }
            | Record::IterationBegan { .. }
            | Record::IterationEnded { .. }) => {
                let observation = record.observation(Machine(0));
                observation
                    .into_iter()
                    .for_each(|observation| bench.observe(observation));
            }
            Record::Tick { time } => {
                bench.tick(time.0 as f64 / 1e6);
            }
            other => panic!("a recording of these tests has no {other:?}"),
        }
    }
    bench
}

/// The probes of a rule that receive a recorded hit.
fn looking_at<'p>(
    probes: &'p [PlannedProbe],
    definition: &ProbeDefinition,
) -> Vec<(usize, &'p PlannedProbe)> {
    let is_entry = definition.place == ProbePlace::Entry;
    let all = probes.iter().enumerate();
    all.filter(|(_, probe)| probe.function == definition.function && (probe.site == Site::Entry) == is_entry)
        .collect()
}

fn observed(
    place: usize,
    planned: &PlannedProbe,
    definition: &ProbeDefinition,
    hit: &RecordedHit,
) -> Observation {
    let read = |capture: &PlannedCapture| {
        let label = label(capture, planned.site);
        let found = definition.captures.iter().position(|(known, _)| *known == label);
        match found.and_then(|found| hit.captures.get(found)) {
            Some(Captured::Signed(value)) => Ok(rules::Scalar::Number(*value as f64)),
            Some(Captured::Float(value)) => Ok(rules::Scalar::Number(*value)),
            _ => Err("it was not recorded".to_string()),
        }
    };
    Observation::Hit {
        rule: RuleId(0),
        probe: ProbeId(place),
        process: hit.process,
        thread: hit.thread,
        time: hit.time,
        duration_ns: hit.duration_ns.unwrap_or_default(),
        captures: planned.captures.iter().map(read).collect(),
    }
}
