//! A job of ranks with hits supplied by tests, and the resulting numbers of a rule. Has no tests itself.

use std::collections::BTreeMap;

use rules::{
    CheckedRule, Decision, DecisionOutcome, Engine, IterationTeams, LoopIteration, LoopNumber, Measure,
    MetricReading, Mode, Observation, Output, ProbeId, ProcessFacts, ProcessId, RuleFile, RuleId, Scalar,
    Subject, Time,
};

const RULE: RuleId = RuleId(0);

/// Text of a shipped model or metric.
pub(crate) fn shipped(name: &str) -> &'static str {
    let mut all = rules::models().iter().chain(rules::library());
    let (_, text) = all
        .find(|(known, _)| *known == name)
        .unwrap_or_else(|| panic!("no rule {name}"));
    text
}

/// A closed window: its name, and its metrics as numbers and as displayed texts.
#[derive(Clone, Debug)]
pub(crate) struct Shut {
    pub(crate) window: String,
    metrics: BTreeMap<String, (Option<MetricReading>, String)>,
}

impl Shut {
    /// The value; for a table, the mean of its rows.
    pub(crate) fn value(&self, metric: &str) -> f64 {
        self.reading(metric).mean
    }

    /// The least and the greatest row.
    pub(crate) fn rows(&self, metric: &str) -> (f64, f64) {
        let reading = self.reading(metric);
        (reading.low, reading.high)
    }

    /// The displayed text, or the reason why there is no value.
    pub(crate) fn reported(&self, metric: &str) -> &str {
        &self.metrics[metric].1
    }

    /// Name and displayed text of every metric.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.metrics.iter();
        all.map(|(name, (_, reported))| (name.as_str(), reported.as_str()))
    }

    fn reading(&self, metric: &str) -> MetricReading {
        let (reading, reported) = self
            .metrics
            .get(metric)
            .unwrap_or_else(|| panic!("no metric {metric} in {self:?}"));
        reading.unwrap_or_else(|| panic!("{metric}: {reported}"))
    }
}

/// A job of ranks under one rule. Times are in milliseconds.
pub(crate) struct Bench {
    engine: Engine,
    probes: Vec<String>,
    ranks: u32,
    outputs: Vec<Output>,
}

impl Bench {
    pub(crate) fn new(source: &str, ranks: u32) -> Bench {
        Bench::with(source, &[], ranks)
    }

    /// A job with some parameters of the rule replaced.
    pub(crate) fn with(source: &str, parameters: &[(&str, &str)], ranks: u32) -> Bench {
        let mut bench = Bench::empty(checked(source, parameters));
        for rank in 0..ranks {
            bench.join(ProcessId(rank), facts(rank), Time(0));
        }
        bench
    }

    /// A job without processes.
    pub(crate) fn empty(rule: CheckedRule) -> Bench {
        let probes = rule.plan().probes.iter().map(|probe| probe.name.clone());
        Bench {
            probes: probes.collect(),
            engine: Engine::new(vec![rule], Time(0)).unwrap_or_else(|conflict| panic!("{conflict}")),
            ranks: 0,
            outputs: Vec::new(),
        }
    }

    pub(crate) fn join(&mut self, process: ProcessId, facts: ProcessFacts, time: Time) {
        self.engine.process_joined(process, facts, time);
        self.ranks += 1;
    }

    /// Switches the rule to applying; every decision is then confirmed at once.
    pub(crate) fn applying(mut self) -> Bench {
        self.engine.set_mode(RULE, Mode::Applying);
        self
    }

    /// Adds a hit of a probe in a rank: end, duration, captured values.
    pub(crate) fn hit(&mut self, probe: &str, rank: u32, end_ms: f64, took_ms: f64, reads: &[f64]) {
        let reads = reads.iter().map(|value| Scalar::Number(*value));
        self.hit_with(probe, rank, (end_ms, took_ms), reads);
    }

    fn hit_with(
        &mut self,
        probe: &str,
        rank: u32,
        (end_ms, took_ms): (f64, f64),
        reads: impl IntoIterator<Item = Scalar>,
    ) {
        self.engine.observe(Observation::Hit {
            rule: RULE,
            probe: self.probe(probe),
            process: ProcessId(rank),
            thread: 0,
            time: time(end_ms),
            duration_ns: time(took_ms).0,
            captures: reads.into_iter().map(Ok).collect(),
        });
    }

    fn probe(&self, name: &str) -> ProbeId {
        let place = self.probes.iter().position(|known| known == name);
        ProbeId(place.unwrap_or_else(|| panic!("no probe {name}")))
    }

    /// Adds a call of an MPI function, for rules that probe all calls.
    pub(crate) fn call(&mut self, function: &str, rank: u32, end_ms: f64, took_ms: f64) {
        let reads = [Scalar::Text(function.to_string()), Scalar::Number(0.0)];
        self.hit_with("mpi.*", rank, (end_ms, took_ms), reads);
    }

    /// Adds the totals of a probe in a rank: hits, and the sum of their durations.
    pub(crate) fn totals(&mut self, probe: &str, rank: u32, ms: f64, count: u64, took_ms: f64) {
        self.engine.observe(Observation::ProbeTotals {
            rule: RULE,
            probe: self.probe(probe),
            process: ProcessId(rank),
            time: time(ms),
            count,
            duration_sum_ns: time(took_ms).0,
        });
    }

    /// Adds the CPU time of a rank, in ms.
    pub(crate) fn cpu_time(&mut self, rank: u32, ms: u64, total: u64) {
        self.engine.observe(Observation::counter(
            Subject::Process(ProcessId(rank)),
            Measure::CpuTime,
            time(ms as f64),
            total * 1_000_000,
        ));
    }

    /// Adds an observation of any kind.
    pub(crate) fn observe(&mut self, observation: Observation) {
        self.engine.observe(observation);
    }

    /// Adds an iteration of the detected loop of rank 0: its begin and end, and what its regions do.
    pub(crate) fn iteration(
        &mut self,
        number: u64,
        (from, to): (f64, f64),
        teams: Result<IterationTeams, String>,
    ) {
        let (process, thread) = (ProcessId(0), 0);
        let number = LoopNumber {
            of: 1,
            iteration: number,
        };
        self.observe(Observation::IterationBegan {
            process,
            thread,
            number,
            time: time(from),
        });
        self.loop_until(from);
        self.observe(Observation::IterationEnded(LoopIteration {
            process,
            thread,
            number,
            begin: time(from),
            end: time(to),
            teams,
        }));
    }

    /// Advances the watermark of the detected loop of rank 0, and ticks.
    pub(crate) fn loop_until(&mut self, ms: f64) {
        let (process, time) = (ProcessId(0), time(ms));
        self.observe(Observation::LoopWatermark { process, time });
        self.tick(ms);
    }

    /// Advances the watermark of a rank: all its earlier hits have been added.
    pub(crate) fn watermark(&mut self, rank: u32, ms: f64) {
        let (process, time) = (ProcessId(rank), time(ms));
        self.engine.observe(Observation::Watermark { process, time });
    }

    /// Advances the watermarks of all ranks and ticks. Returns the decisions, which are confirmed.
    pub(crate) fn until(&mut self, ms: f64) -> Vec<Decision> {
        (0..self.ranks).for_each(|rank| self.watermark(rank, ms));
        self.tick(ms)
    }

    pub(crate) fn tick(&mut self, ms: f64) -> Vec<Decision> {
        let outputs = self.engine.tick(time(ms));
        let mut decisions = Vec::new();
        for output in &outputs {
            if let Output::Decision(decision) = output {
                self.engine
                    .receipt(decision.id, DecisionOutcome::Applied, time(ms));
                decisions.push(decision.clone());
            }
        }
        self.outputs.extend(outputs);
        decisions
    }

    /// Windows closed since the last call.
    pub(crate) fn shut(&mut self) -> Vec<Shut> {
        let shut = |closed: rules::ClosedWindow| Shut {
            window: closed.window,
            metrics: closed
                .metrics
                .into_iter()
                .zip(closed.readings)
                .map(|((name, reported), reading)| (name, (reading, reported)))
                .collect(),
        };
        self.engine.drain_windows().into_iter().map(shut).collect()
    }

    /// All decisions so far.
    pub(crate) fn decided(&self) -> Vec<&Decision> {
        let all = self.outputs.iter();
        all.filter_map(|output| match output {
            Output::Decision(decision) => Some(decision),
            _ => None,
        })
        .collect()
    }

    /// For each change that a guard has judged, whether it was kept.
    pub(crate) fn verdicts(&self) -> Vec<bool> {
        let all = self.outputs.iter();
        all.filter_map(|output| match output {
            Output::Verdict(verdict) => Some(verdict.keep),
            _ => None,
        })
        .collect()
    }

    /// The reason why a rule does not act.
    pub(crate) fn why(&self) -> String {
        format!("{:?} {:?}", self.engine.status(), self.engine.dropped(RULE))
    }
}

/// The parallel regions of an iteration: ms of sequential code and in regions, and threads, all of which work.
pub(crate) fn teams((sequential, parallel, threads): (f64, f64, u32)) -> IterationTeams {
    IterationTeams {
        threads,
        sequential_ns: time(sequential).0,
        working_ns: time(parallel * f64::from(threads)).0,
        overhead_ns: 0,
        waiting_ns: 0,
    }
}

/// Facts of a rank: its number, and that it may start thread teams.
pub(crate) fn facts(rank: u32) -> ProcessFacts {
    ProcessFacts {
        rank: Some(rank),
        libraries: ["libgomp.so.1".to_string()].into(),
        ..ProcessFacts::default()
    }
}

/// The rule of a text, with some parameters replaced.
pub(crate) fn checked(source: &str, parameters: &[(&str, &str)]) -> CheckedRule {
    let overrides = parameters
        .iter()
        .map(|(name, value)| ((*name).to_string(), (*value).to_string()));
    RuleFile::parse(source)
        .and_then(|file| file.check(&overrides.collect()))
        .unwrap_or_else(|wrong| panic!("{}", rules::render("rule.yaml", source, &wrong)))
}

/// The value that a decision writes to a variable.
pub(crate) fn written(decision: &Decision, variable: &str) -> Option<f64> {
    decision
        .changes
        .iter()
        .find_map(|change| match change.action.value() {
            Some(Scalar::Number(value)) if change.action.target() == variable => Some(*value),
            _ => None,
        })
}

fn time(ms: f64) -> Time {
    Time((ms * 1e6).round() as u64)
}
