use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use profile::cost::{AgentCost, CostView, HoldTotals, Prices, ProbeCost, RecentCost, Slowdown, UnreadView};
use profile::progress::{Eta, ProgressView};
use profile::streams::{TimeShares, WatchedModule, WatchedWindow, WindowRate};
use profile::{
    Counters, EfficienciesView, GuardView, Inflation, IterationView, JobView, Losses, MatrixView, Messages,
    PredictedSize, RULE_VALUES_MAX, RankMessages, Reaction, RegionsView, RuleValue, RuleView, Scalability,
    ScalingLaw, ScalingPrediction, TeamTotals, TeamsView,
};

use super::*;
use crate::example;

fn prediction() -> ScalingPrediction {
    let size = |power: u32| PredictedSize {
        threads: 1 << power,
        time_ns: 1e9,
        within_ns: 1e8,
        speedup: 4.0,
    };
    ScalingPrediction {
        law: ScalingLaw::Amdahl,
        sizes: (0..9).map(size).collect(),
        fastest: None,
    }
}

fn progress() -> ProgressView {
    ProgressView {
        done: Some(1_200.0),
        total: 5_000.0,
        steps_per_s: Some(120.0),
        eta: Ok(Eta {
            remaining: Duration::from_secs(30),
            least: Duration::from_secs(25),
            most: Some(Duration::from_secs(40)),
        }),
        limit: None,
    }
}

fn size(threads: u32) -> SizeView {
    SizeView {
        threads,
        iterations: 100,
        age: Duration::from_secs(u64::from(threads)),
        time_ns: 1e9 / f64::from(threads),
        within_ns: None,
        losses: Losses {
            threads,
            speedup: 0.75 * f64::from(threads),
            sequential: 0.25 * f64::from(threads),
            imbalance: 0.0,
            starting_and_ending: 0.0,
            small_teams: 0.0,
            inflation: Inflation::Measured(0.0),
        },
        ratio: None,
    }
}

fn samples(text: &str) -> String {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.collect::<Vec<_>>().join("\n")
}

fn job() -> JobView {
    JobView {
        id: "4711".into(),
        host: "n1".into(),
        ..example::job(None)
    }
}

#[test]
fn a_rank_that_went_on_as_another_program_is_one_series_and_what_proc_counts_of_it_counts_once() {
    let function = |calls| FunctionTotals {
        name: "MPI_Send".into(),
        calls,
        ..FunctionTotals::default()
    };
    let entry = |calls, cpu_ns, ended| ProcessView {
        pid: 7,
        rank: Some(0),
        ended,
        mpi_ns: Some(1_000_000_000),
        functions: vec![function(calls)],
        counters: Some(Counters {
            cpu_ns,
            ..Counters::default()
        }),
        ..ProcessView::default()
    };
    let snapshot = Snapshot {
        processes: vec![entry(2, 4_000_000_000, true), entry(3, 5_000_000_000, false)],
        ..Snapshot::default()
    };
    let text = render(&snapshot).unwrap();
    for line in [
        r#"tuneagent_mpi_rank_calls_total{jobid="",rank="0"} 5"#,
        r#"tuneagent_cpu_seconds_total{jobid="",rank="0"} 5"#,
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

#[test]
fn a_change_is_published_with_when_it_was_made_and_only_the_newest_are() {
    let change = |decision| ChangeView {
        decision,
        number: decision,
        rule: "r".into(),
        variable: "n".into(),
        old: "2".into(),
        new: "7".into(),
        expect: Some("61 ms".into()),
        because: vec!["best: 7".into(), "now: 2".into()],
        outcome: ChangeOutcome::Written,
        at: Duration::from_millis(2500),
        guard: Some(GuardView {
            before: Some(0.1),
            after: Some(0.06),
            ratio: Some(1.6),
            verdict: GuardVerdict::Kept,
            text: "100 ms -> 60 ms".into(),
            ..GuardView::default()
        }),
        ..ChangeView::default()
    };
    let snapshot = Snapshot {
        job: job(),
        armed_unix_s: 1_700_000_000.0,
        changes: (0..2 * CHANGES_MAX as u64).map(change).collect(),
        ..Snapshot::default()
    };
    let text = render(&snapshot).unwrap();
    // In seconds since 1970: the time when all probes were armed plus the time since then.
    let newest = r#"tuneagent_change_timestamp_seconds{decision="199",jobid="4711",new="7",old="2",rank="pid0",rule="r",variable="n"} 1700000002.5"#;
    assert!(text.contains(newest), "{text}");
    let published = text
        .lines()
        .filter(|line| line.starts_with("tuneagent_change_timestamp_seconds{"));
    assert_eq!(published.count(), CHANGES_MAX);
    for line in [
        r#"tuneagent_guard_objective{jobid="4711",moment="after",rule="r"} 0.06"#,
        r#"tuneagent_guard_improvement_ratio{jobid="4711",rule="r"} 1.6"#,
        r#"tuneagent_changes{jobid="4711",rule="r",state="in_force"} 199"#,
        r#"tuneagent_changes{jobid="4711",rule="r",state="refused"} 1"#,
        r#"tuneagent_guard_changes{jobid="4711",rule="r",verdict="reverted"} 0"#,
        r#"tuneagent_unpublished{jobid="4711",kind="changes"} 100"#,
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

fn sequence() -> SequenceView {
    SequenceView {
        iteration: Some(IterationView {
            count: 20,
            mean_ns: 5e7,
            ..IterationView::default()
        }),
        recent_efficiencies: Some(EfficienciesView {
            split: Some(example::split(20)),
            scalability: Some(Scalability {
                strong: 0.9,
                weak: 1.8,
                ranks_before: 2,
            }),
            ..example::efficiencies([1.0, 0.5, 0.5, 0.5])
        }),
        unseen: 3,
        ..SequenceView::default()
    }
}

fn matrix(ranks: u32) -> MatrixView {
    let amount = |count| Messages {
        count,
        bytes: 100 * count,
    };
    let of = |rank| RankMessages {
        rank,
        sent: amount(3),
        received: amount(2),
    };
    MatrixView {
        pairs: 5,
        ranks: (0..ranks).map(of).collect(),
        unresolved_sent: amount(7),
        ..MatrixView::default()
    }
}

fn process(pid: i32, rank: Option<u32>) -> ProcessView {
    let functions = ["MPI_Send", "step"].map(|name| FunctionTotals {
        name: name.into(),
        calls: 3,
        time_ns: (name == "MPI_Send").then_some(2_500_000_000),
        bytes: (name == "MPI_Send").then_some(96),
        bytes_kind: (name == "MPI_Send").then_some("sent"),
        // One message of 0 bytes, one of 17 to 32, one of 65 to 128.
        sizes: if name == "MPI_Send" {
            vec![1, 0, 0, 0, 0, 0, 1, 0, 1]
        } else {
            Vec::new()
        },
        ..FunctionTotals::default()
    });
    ProcessView {
        pid,
        rank,
        mpi_ns: Some(2_500_000_000),
        mpi_waited_ns: Some(500_000_000),
        useful: Some(0.75),
        regions: Some(RegionsView {
            scaling: Some(ScalingView {
                sizes: (1..=10).map(size).collect(),
                threads: 8,
                prediction: Some(prediction()),
                ..ScalingView::default()
            }),
            regions: 40,
            inside_ns: Some(600_000_000),
            inside_to_ns: Some(700_000_000),
            watched_ns: 1_000_000_000,
            teams: Some(TeamsView::from(TeamTotals {
                regions: 39,
                threads_least: 4,
                threads_most: 4,
                threads: 156,
                team_ns: 2_000_000_000,
                longest_ns: 1_900_000_000,
                working_ns: 1_500_000_000,
                waiting_ns: 500_000_000,
                ..TeamTotals::default()
            })),
            ..RegionsView::default()
        }),
        functions: functions.to_vec(),
        counters: Some(profile::Counters {
            cpu_ns: 1_500_000_000,
            resident_bytes: 4096,
            ..Default::default()
        }),
        ..ProcessView::default()
    }
}

#[test]
fn a_snapshot_becomes_the_text_format_in_base_units_by_function_or_by_rank() {
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
        job: job(),
        sequence: sequence(),
        processes: vec![process(42, Some(0)), process(43, Some(1))],
        matrix: Some(matrix(2)),
        rules: vec![RuleView {
            windows: 12,
            dropped: rules::Dropped {
                late: 3,
                partial: 2,
                ..rules::Dropped::default()
            },
            ..example::rule("workers", rules::Standing::Quiet, "condition false")
        }],
        rule_values: vec![RuleValue {
            rule: "workers".into(),
            metric: "best".into(),
            value: 7.0,
            text: "7".into(),
        }],
        findings: vec![example::finding("workers", "")],
        changes: vec![change; 2],
        lost: vec![("ring_full", 7)],
        ..Snapshot::default()
    };
    insta::assert_snapshot!(samples(&render(&snapshot).unwrap()));
}

#[test]
fn processes_without_a_rank_of_their_own_are_distinguished() {
    let snapshot = Snapshot {
        job: job(),
        processes: vec![process(7, None), process(8, Some(0)), process(9, Some(0))],
        ..Snapshot::default()
    };
    let text = render(&snapshot).unwrap();
    for rank in ["pid7", "0:8", "0:9"] {
        let line = format!(r#"tuneagent_cpu_seconds_total{{jobid="4711",rank="{rank}"}} 1.5"#);
        assert!(text.contains(&line), "{line} is not in:\n{text}");
    }
}

/// Twice as many rules as have a series of their own.
fn absurd_rule(number: usize) -> String {
    let label = LABELS.iter().find(|label| label.name == "rule").unwrap();
    format!("rule{}", number % (2 * label.values_max))
}

fn absurd_change(number: usize) -> ChangeView {
    use ChangeOutcome::{LeftAlone, Reverted, Written};
    ChangeView {
        rule: absurd_rule(number),
        variable: "v".repeat(1 + number),
        because: vec!["b".repeat(5000)],
        number: number as u64,
        decision: number as u64,
        outcome: [Written, Reverted, LeftAlone][number % 3].clone(),
        guard: Some(GuardView {
            before: Some(1.0),
            after: Some(1.0),
            ratio: Some(1.0),
            verdict: [GuardVerdict::Kept, GuardVerdict::Reverted][number % 2],
            ..GuardView::default()
        }),
        reaction: Some(Reaction::default()),
        ..ChangeView::default()
    }
}

fn absurd_cost() -> CostView {
    let probe = |number: usize| ProbeCost {
        name: format!("step{number}"),
        ns: 1.0,
        ..ProbeCost::default()
    };
    let actions = "set call load replace insert_call remove_call set_arg affinity".split(' ');
    CostView {
        prices: Prices::table(String::new()),
        arming_ns: 1,
        probes: (0..2000).map(probe).collect(),
        job_ns: 1,
        held: actions.map(|action| (action, HoldTotals::default())).collect(),
        agent: AgentCost {
            resident_bytes: Some(1),
            ..AgentCost::default()
        },
        recent: RecentCost {
            probes: Some(0.1),
            together: Some(0.2),
            slowdown: Some(Slowdown::default()),
            ..RecentCost::default()
        },
        slowdown: Slowdown::default(),
        required: None,
        is_recorded: false,
        unread: Some(UnreadView::default()),
        windows: None,
    }
}

/// A snapshot that exceeds every bound.
fn absurd() -> Snapshot {
    let function = |number: usize, prefix: &str, distinct: usize| FunctionTotals {
        name: format!("{prefix}{}", number % distinct),
        calls: 1,
        time_ns: Some(1),
        bytes: Some(1),
        bytes_kind: Some(["sent", "posted", "written", "read"][number % 4]),
        sizes: vec![1; abi::Sizes::BUCKETS],
        estimate: Some(profile::cost::Estimate::exact(1, 1)),
        ..FunctionTotals::default()
    };
    let processes = (0..5000).map(|number| ProcessView {
        functions: (0..4)
            .map(|step| 4 * number + step)
            .flat_map(|number| [function(number, "MPI_", 300), function(number, "step", 1000)])
            .collect(),
        ..process(number as i32, Some(number as u32))
    });
    let value = |number: usize| RuleValue {
        rule: absurd_rule(number / 20),
        metric: format!("metric{}", number % 20),
        ..RuleValue::default()
    };
    let rule_view = |number: usize| RuleView {
        name: absurd_rule(number),
        mode: Mode::Off,
        dropped: rules::Dropped {
            late: 1,
            duplicate: 1,
            outside: 1,
            unplaced: 1,
            overflow: 1,
            outdated: 1,
            foreign: 1,
            straddling: 1,
            skipped: 1,
            discarded: 1,
            partial: 1,
        },
        ..RuleView::default()
    };
    Snapshot {
        cost: Some(absurd_cost()),
        job: JobView {
            program: "p".repeat(100_000),
            ..job()
        },
        sequence: sequence(),
        progress: Some(progress()),
        processes: processes.collect(),
        matrix: Some(matrix(5000)),
        rules: (0..1000).map(rule_view).collect(),
        rule_values: (0..10_000).map(value).collect(),
        changes: (0..3000).map(absurd_change).collect(),
        lost: vec![("ring_full", 1), ("texts", 2)],
        ..Snapshot::default()
    }
}

/// A contract of more modules than are published.
fn absurd_contract(modules: usize) -> WatchedWindow {
    let names = (0..modules).map(|number| format!("module{number}"));
    let shares = TimeShares {
        busy: 0.7,
        waits_for_cpu: 0.2,
        starved: 0.1,
        ..TimeShares::default()
    };
    WatchedWindow {
        contract: "film".to_owned(),
        end_s: 1.0,
        rates: names
            .clone()
            .map(|feature| WindowRate {
                feature,
                target: 2.0,
                rate: Some(1.5),
                smoothed: None,
                within: None,
                is_violated: false,
            })
            .collect(),
        modules: names
            .map(|module| WatchedModule {
                module,
                verdict: shares.verdict(),
                shares,
            })
            .collect(),
        bottleneck: None,
    }
}

#[test]
fn a_watched_contract_has_rates_targets_utilisation_and_verdicts() {
    let text = render_contract(&absurd_contract(1)).unwrap();
    for line in [
        r#"tuneagent_contract_rate{contract="film",feature="module0"} 1.5"#,
        r#"tuneagent_contract_target{contract="film",feature="module0"} 2"#,
        r#"tuneagent_contract_utilisation{contract="film",feature="module0"} 0.8999999999999999"#,
        r#"tuneagent_contract_verdict{contract="film",feature="module0",verdict="compute-bound"} 1"#,
        r#"tuneagent_contract_verdict{contract="film",feature="module0",verdict="waits for a CPU"} 0"#,
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
    assert!(!text.contains("tuneagent_processes"), "{text}");
}

#[test]
fn no_metric_has_more_series_than_is_stated_and_what_is_left_out_is_counted() {
    let contract = render_contract(&absurd_contract(5000)).unwrap();
    let text = render(&absurd()).unwrap() + &contract;
    let mut series: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let is_distribution = |metric: &&DeclaredMetric| {
            metric.kind == declared::MetricKind::Histogram && name.starts_with(metric.name)
        };
        let name = METRICS
            .iter()
            .find(is_distribution)
            .map_or(name, |metric| metric.name);
        *series.entry(name).or_default() += 1;
        assert!(line.len() < 12 * (TEXT_MAX + 20), "{line}");
    }
    for metric in METRICS {
        let found = series.get(metric.name).copied().unwrap_or_default();
        assert!(found > 0, "{} is never filled", metric.name);
        let stated = metric.series_max();
        assert!(
            found <= stated,
            "{}: {found} series, stated are {stated}",
            metric.name
        );
    }
    for (kind, left_out) in [
        ("ranks", 5000 - 2048),
        ("functions", 300 + 1000 - 768),
        ("rules", 512 - 256),
        ("changes", 3000 - CHANGES_MAX),
    ] {
        let line = format!(r#"tuneagent_unpublished{{jobid="4711",kind="{kind}"}} {left_out}"#);
        assert!(text.contains(&line), "{line} is not on the page");
    }
    assert!(!text.contains(r#"kind="rule_values"} 0"#));
    // Of 5 000 rates and 5 000 modules, 1 024 each are published.
    assert!(contract.contains(r#"tuneagent_unpublished{jobid="",kind="features"} 7952"#));
    assert_eq!(RULE_VALUES_MAX, series_max("tuneagent_rule_value"));
}

#[test]
fn every_watched_mpi_function_has_a_place() {
    let names: usize = profile::mpi::FUNCTIONS
        .iter()
        .map(|function| 1 + usize::from(function.has_large_count))
        .sum();
    let bound = LABELS.iter().find(|label| label.name == "function").unwrap();
    assert!(2 * names <= bound.values_max, "{names} names");
}

#[test]
fn every_kind_of_loss_has_a_place() {
    let bound = LABELS.iter().find(|label| label.name == "kind").unwrap();
    // Two more kinds are counted by the rules.
    let is_reported = |loss: &&abi::Loss| loss.effect() != abi::LossEffect::Nothing;
    let reported = abi::Loss::ALL.iter().filter(is_reported).count();
    assert!(reported + 2 <= bound.values_max);
}

#[test]
fn metrics_are_declared_by_the_conventions_of_prometheus() {
    for metric in METRICS {
        let name = metric.name;
        assert!(name.starts_with("tuneagent_"), "{name}");
        assert_eq!(
            name.ends_with("_total"),
            metric.kind == declared::MetricKind::Counter,
            "{name}"
        );
        let mut words = name.split('_');
        let is_other = |word| ["ns", "us", "ms", "kb", "kib", "mib", "percent", "minutes"].contains(&word);
        assert!(!words.any(is_other), "{name} is not in a base unit");
        assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
        assert!(
            !metric.labels.contains(&"job"),
            "{name}: Prometheus has a label job of its own"
        );
        if metric.series.is_none() {
            for label in metric.labels {
                assert!(
                    LABELS.iter().any(|known| known.name == *label),
                    "{name}: {label} has no bound"
                );
            }
        }
        let is_product = metric.labels.contains(&"rank") && metric.labels.contains(&"function");
        assert!(
            !is_product,
            "{name} would have 100 000 series on a node full of ranks"
        );
    }
}

/// The tables of docs/metrics.md, generated from the declarations.
fn tables() -> String {
    let mut text = "| metric | labels | series at most | meaning |\n|---|---|---|---|\n".to_owned();
    for metric in METRICS {
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let (name, series, help) = (metric.name, metric.series_max(), metric.help);
        let labels = metric.labels.join(", ");
        text += &format!("| `{name}` ({kind}) | `{labels}` | {series} | {help} |\n");
    }
    let all: usize = METRICS.iter().map(DeclaredMetric::series_max).sum();
    text += &format!("\nAll together at most {all} series a session, on a node full of ranks.\n\n");
    text += "| label | values at most | what it says |\n|---|---|---|\n";
    for label in LABELS {
        text += &format!("| `{}` | {} | {} |\n", label.name, label.values_max, label.help);
    }
    text
}

#[test]
fn the_documentation_has_every_metric_and_label() {
    let file = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md"));
    let text = std::fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("<!-- metrics -->\n").unwrap();
    let (there, after) = rest.split_once("<!-- end of metrics -->").unwrap();
    if std::env::var_os("TUNEAGENT_UPDATE").is_some() {
        let new = format!(
            "{before}<!-- metrics -->\n{}<!-- end of metrics -->{after}",
            tables()
        );
        std::fs::write(&file, new).unwrap();
    } else {
        assert_eq!(there, tables(), "docs/metrics.md is behind: cargo xtask docs");
    }
}
