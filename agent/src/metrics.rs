//! /metrics: every metric is declared once, in [`METRICS`], and filled from a snapshot at each scrape.

use prometheus::{CounterVec, GaugeVec, Opts, Registry, TextEncoder};

use crate::snapshot::{ChangeView, ProcessView, Snapshot};

/// A metric as it is published.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name, units last.
    pub name: &'static str,
    /// Labels.
    pub labels: &'static [&'static str],
    /// It only grows.
    pub is_counter: bool,
    /// Its meaning.
    pub help: &'static str,
}

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric {
        name,
        labels,
        is_counter: true,
        help,
    }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric {
        name,
        labels,
        is_counter: false,
        help,
    }
}

/// Changes that are published one by one; the report has all.
const CHANGES_MAX: usize = 100;

const RANK: &[&str] = &["program", "rank", "pid"];
const FUNCTION: &[&str] = &["program", "rank", "pid", "function"];

/// Everything that is published.
pub const METRICS: &[Metric] = &[
    gauge(
        "tuneagent_processes",
        &["program"],
        "Processes of the job that are watched and run.",
    ),
    gauge(
        "tuneagent_session_seconds",
        &["program"],
        "Time since all probes were armed.",
    ),
    counter(
        "tuneagent_mpi_calls_total",
        FUNCTION,
        "Outermost MPI calls since the probes were armed.",
    ),
    counter(
        "tuneagent_mpi_time_seconds_total",
        FUNCTION,
        "Time inside the function, open call included.",
    ),
    counter(
        "tuneagent_mpi_bytes_total",
        &["program", "rank", "pid", "function", "kind"],
        "Count times size of the datatype: sent, or posted for receiving.",
    ),
    counter(
        "tuneagent_mpi_bytes_unknown_calls_total",
        FUNCTION,
        "Calls whose bytes could not be told.",
    ),
    counter(
        "tuneagent_cpu_seconds_total",
        RANK,
        "Time on a CPU since the process started.",
    ),
    counter(
        "tuneagent_runqueue_seconds_total",
        RANK,
        "Time ready to run, waiting for a CPU, since the process started.",
    ),
    counter(
        "tuneagent_switches_involuntary_total",
        RANK,
        "Times that the kernel took the CPU away.",
    ),
    gauge(
        "tuneagent_finding",
        &["program", "rule"],
        "1 while the rule's condition holds.",
    ),
    gauge(
        "tuneagent_change",
        &["program", "rule", "rank", "variable", "outcome"],
        "Changes of this session.",
    ),
    gauge(
        "tuneagent_guard_ratio",
        &["program", "rule"],
        "How many times better the objective is after the change.",
    ),
    gauge(
        "tuneagent_guard_objective",
        &["program", "rule", "moment"],
        "The objective before and after the change that was judged last, in seconds, bytes or a plain number.",
    ),
    gauge(
        "tuneagent_change_info",
        &[
            "program", "rule", "rank", "decision", "variable", "old", "new", "expect", "because", "outcome",
            "verdict", "result",
        ],
        "1 for each of the newest changes: what was promised of it, what it was decided from, and what came of it.",
    ),
    counter(
        "tuneagent_reactions_total",
        &["program", "rule"],
        "Changes whose way from the end of a window to the write was timed.",
    ),
    counter(
        "tuneagent_reaction_seconds_total",
        &["program", "rule", "part"],
        "Time from the ends of windows to the writes: update, evaluate, order, write.",
    ),
    counter(
        "tuneagent_lost_total",
        &["kind"],
        "What was lost on the kernel side.",
    ),
];

/// The metrics of a snapshot in the text format of Prometheus.
pub fn render(snapshot: &Snapshot) -> prometheus::Result<String> {
    let mut page = Page::new()?;
    let program = snapshot.job.program.as_str();
    page.set(
        "tuneagent_processes",
        &[program],
        snapshot.running().count() as f64,
    );
    page.set(
        "tuneagent_session_seconds",
        &[program],
        snapshot.elapsed.as_secs_f64(),
    );
    for process in &snapshot.processes {
        fill_process(&mut page, program, process);
    }
    for finding in &snapshot.findings {
        page.set(
            "tuneagent_finding",
            &[program, &finding.rule],
            f64::from(u8::from(!finding.repaired)),
        );
    }
    for change in &snapshot.changes {
        let rank = label(change.rank);
        page.add(
            "tuneagent_change",
            &[program, &change.rule, &rank, &change.variable, &change.outcome],
            1.0,
        );
        if let Some(reaction) = &change.reaction {
            page.set("tuneagent_reactions_total", &[program, &change.rule], 1.0);
            for (part, ns) in [
                ("update", reaction.update_ns),
                ("evaluate", reaction.evaluate_ns),
                ("order", reaction.order_ns),
                ("write", reaction.write_ns),
            ] {
                let labels = [program, &change.rule, part];
                page.set("tuneagent_reaction_seconds_total", &labels, ns as f64 / 1e9);
            }
        }
        if let Some(ratio) = change.guard.as_ref().and_then(|guard| guard.ratio) {
            page.set("tuneagent_guard_ratio", &[program, &change.rule], ratio);
        }
    }
    fill_history(&mut page, program, &snapshot.changes);
    for (kind, count) in &snapshot.lost {
        page.set("tuneagent_lost_total", &[kind], *count as f64);
    }
    TextEncoder::new().encode_to_string(&page.registry.gather())
}

/// The newest changes with all that is known of them.
fn fill_history(page: &mut Page, program: &str, changes: &[ChangeView]) {
    for change in changes.iter().rev().take(CHANGES_MAX) {
        let guard = change.guard.as_ref();
        let labels = [
            program,
            &change.rule,
            &label(change.rank),
            &change.decision.to_string(),
            &change.variable,
            &change.old,
            &change.new,
            change.expect.as_deref().unwrap_or_default(),
            &change.because.join("; "),
            &change.outcome,
            guard.map_or("", |guard| guard.verdict),
            guard.map_or("", |guard| &guard.text),
        ];
        page.set("tuneagent_change_info", &labels, 1.0);
    }
    let judged = changes
        .iter()
        .filter_map(|change| Some((change, change.guard.as_ref()?)));
    for (change, guard) in judged {
        for (moment, value) in [("before", guard.before), ("after", guard.after)] {
            if let Some(value) = value {
                page.set(
                    "tuneagent_guard_objective",
                    &[program, &change.rule, moment],
                    value,
                );
            }
        }
    }
}

fn fill_process(page: &mut Page, program: &str, process: &ProcessView) {
    let (rank, pid) = (label(process.rank), process.pid.to_string());
    let of_rank = [program, &rank, &pid];
    if let Some(counters) = &process.counters {
        page.set(
            "tuneagent_cpu_seconds_total",
            &of_rank,
            counters.cpu_ns as f64 / 1e9,
        );
        page.set(
            "tuneagent_runqueue_seconds_total",
            &of_rank,
            counters.runqueue_ns as f64 / 1e9,
        );
        page.set(
            "tuneagent_switches_involuntary_total",
            &of_rank,
            counters.switches_involuntary as f64,
        );
    }
    for function in &process.functions {
        let labels = [program, &rank, &pid, function.name.as_str()];
        page.set("tuneagent_mpi_calls_total", &labels, function.calls as f64);
        if let Some(time) = function.time_ns {
            page.set("tuneagent_mpi_time_seconds_total", &labels, time as f64 / 1e9);
        }
        page.set(
            "tuneagent_mpi_bytes_unknown_calls_total",
            &labels,
            function.bytes_unknown as f64,
        );
        if let (Some(bytes), Some(kind)) = (function.bytes, function.bytes_kind) {
            let labels = [program, &rank, &pid, function.name.as_str(), kind];
            page.set("tuneagent_mpi_bytes_total", &labels, bytes as f64);
        }
    }
}

/// A process without a rank has an empty label.
fn label(rank: Option<u32>) -> String {
    rank.map(|rank| rank.to_string()).unwrap_or_default()
}

enum Family {
    Counter(CounterVec),
    Gauge(GaugeVec),
}

struct Page {
    registry: Registry,
    families: Vec<(&'static str, Family)>,
}

impl Page {
    fn new() -> prometheus::Result<Page> {
        let registry = Registry::new();
        let mut families = Vec::with_capacity(METRICS.len());
        for metric in METRICS {
            let options = Opts::new(metric.name, metric.help);
            let family = if metric.is_counter {
                let family = CounterVec::new(options, metric.labels)?;
                registry.register(Box::new(family.clone()))?;
                Family::Counter(family)
            } else {
                let family = GaugeVec::new(options, metric.labels)?;
                registry.register(Box::new(family.clone()))?;
                Family::Gauge(family)
            };
            families.push((metric.name, family));
        }
        Ok(Page { registry, families })
    }

    fn family(&self, name: &str) -> Option<&Family> {
        self.families
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, family)| family)
    }

    /// The page is new at each scrape, so a counter is set by adding its total once.
    fn set(&mut self, name: &str, labels: &[&str], value: f64) {
        match self.family(name) {
            Some(Family::Counter(family)) => family.with_label_values(labels).inc_by(value),
            Some(Family::Gauge(family)) => family.with_label_values(labels).set(value),
            None => debug_assert!(false, "{name} is not declared"),
        }
    }

    fn add(&mut self, name: &str, labels: &[&str], value: f64) {
        if let Some(Family::Gauge(family)) = self.family(name) {
            family.with_label_values(labels).add(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{ChangeView, FunctionTotals, GuardView, JobView, Reaction};

    #[test]
    fn a_change_is_published_with_promise_result_and_reasons_and_only_the_newest_are() {
        let change = |decision| ChangeView {
            decision,
            rule: "r".into(),
            variable: "n".into(),
            old: "2".into(),
            new: "7".into(),
            expect: Some("61 ms".into()),
            because: vec!["best: 7".into(), "now: 2".into()],
            outcome: "written".into(),
            guard: Some(GuardView {
                before: Some(0.1),
                after: Some(0.06),
                verdict: "kept",
                text: "100 ms -> 60 ms; kept".into(),
                ..GuardView::default()
            }),
            ..ChangeView::default()
        };
        let snapshot = Snapshot {
            changes: (0..2 * CHANGES_MAX as u64).map(change).collect(),
            ..Snapshot::default()
        };
        let text = render(&snapshot).unwrap();
        let newest = r#"tuneagent_change_info{because="best: 7; now: 2",decision="199",expect="61 ms",new="7",old="2",outcome="written",program="",rank="",result="100 ms -> 60 ms; kept",rule="r",variable="n",verdict="kept"} 1"#;
        assert!(text.contains(newest), "{text}");
        let published = text
            .lines()
            .filter(|line| line.starts_with("tuneagent_change_info{"));
        assert_eq!(published.count(), CHANGES_MAX);
        assert!(
            text.contains(r#"tuneagent_guard_objective{moment="after",program="",rule="r"} 0.06"#),
            "{text}"
        );
    }

    #[test]
    fn a_snapshot_becomes_the_text_format() {
        let function = FunctionTotals {
            name: "MPI_Send".into(),
            calls: 3,
            time_ns: Some(2_500_000_000),
            bytes: Some(96),
            bytes_kind: Some("sent"),
            ..FunctionTotals::default()
        };
        let process = ProcessView {
            pid: 42,
            rank: Some(1),
            functions: vec![function],
            ..ProcessView::default()
        };
        let change = ChangeView {
            rule: "workers".into(),
            variable: "nw".into(),
            reaction: Some(Reaction {
                update_ns: 1000,
                write_ns: 2500,
                ..Reaction::default()
            }),
            ..ChangeView::default()
        };
        let snapshot = Snapshot {
            job: JobView {
                program: "lmp".into(),
                ..JobView::default()
            },
            processes: vec![process],
            changes: vec![change; 2],
            lost: vec![("ring_full", 7)],
            ..Snapshot::default()
        };
        let text = render(&snapshot).unwrap();
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        insta::assert_snapshot!(samples.join("\n"), @r#"
        tuneagent_change{outcome="",program="lmp",rank="",rule="workers",variable="nw"} 2
        tuneagent_change_info{because="",decision="0",expect="",new="",old="",outcome="",program="lmp",rank="",result="",rule="workers",variable="nw",verdict=""} 1
        tuneagent_lost_total{kind="ring_full"} 7
        tuneagent_mpi_bytes_total{function="MPI_Send",kind="sent",pid="42",program="lmp",rank="1"} 96
        tuneagent_mpi_bytes_unknown_calls_total{function="MPI_Send",pid="42",program="lmp",rank="1"} 0
        tuneagent_mpi_calls_total{function="MPI_Send",pid="42",program="lmp",rank="1"} 3
        tuneagent_mpi_time_seconds_total{function="MPI_Send",pid="42",program="lmp",rank="1"} 2.5
        tuneagent_processes{program="lmp"} 1
        tuneagent_reaction_seconds_total{part="evaluate",program="lmp",rule="workers"} 0
        tuneagent_reaction_seconds_total{part="order",program="lmp",rule="workers"} 0
        tuneagent_reaction_seconds_total{part="update",program="lmp",rule="workers"} 0.000002
        tuneagent_reaction_seconds_total{part="write",program="lmp",rule="workers"} 0.000005
        tuneagent_reactions_total{program="lmp",rule="workers"} 2
        tuneagent_session_seconds{program="lmp"} 0
        "#);
    }
}
