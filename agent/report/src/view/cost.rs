//! The cost of watching, in one line.

use std::time::Duration;

use profile::Snapshot;
use profile::cost::{CostView, Slowdown, TOO_MUCH, WindowsView};
use profile::format::{bytes, duration, in_sentence, percent, plural};
use rules::is_built_in;

use super::parts;

/// In a shorter session the functions that are probed at its start may cost more than the budget.
const BUDGET_HOLDS: Duration = Duration::from_secs(60);

/// A start that takes less CPU time is not shown.
const STARTING_SHOWN_NS: u64 = 50_000_000;

/// Recent cost. Empty if nothing is probed, and before the first period has ended.
pub(super) fn now(snapshot: &Snapshot) -> Vec<String> {
    let Some(cost) = &snapshot.cost else {
        return Vec::new();
    };
    let late = &cost.recent;
    let most_expensive = late.most_expensive.as_ref().map(|(name, _)| name.as_str());
    let shown = Shown {
        most_expensive,
        agent: late.agent,
        starting_ns: None,
        of_cpu: late.probes,
        is_over_all: false,
    };
    let line = |slowdown| lines(snapshot, cost, slowdown, &shown);
    late.slowdown.map(line).unwrap_or_default()
}

/// Cost over the entire session.
pub(super) fn over_all(snapshot: &Snapshot) -> Vec<String> {
    let Some(cost) = &snapshot.cost else {
        return Vec::new();
    };
    let most_expensive = cost.probes.first().map(|probe| probe.name.as_str());
    let elapsed_ns = snapshot.elapsed.as_nanos() as f64;
    let agent = (elapsed_ns > 0.0).then(|| cost.agent.cpu_ns as f64 / elapsed_ns);
    let shown = Shown {
        most_expensive,
        agent,
        starting_ns: Some(cost.agent.starting_ns).filter(|cpu_ns| *cpu_ns >= STARTING_SHOWN_NS),
        of_cpu: cost.probes_share(),
        is_over_all: true,
    };
    lines(snapshot, cost, cost.slowdown, &shown)
}

/// From this many times their share of the program's CPU time on, the time that probes take is that of one process.
const UNEQUAL: f64 = 2.0;
/// If a program wants this many times the CPUs that it may use, its threads mostly wait for each other's CPUs: what
/// a hit delays lets another thread run, and the sum of the hits says nothing about the time of the program.
const OVERSUBSCRIBED: f64 = 1.25;
/// The same where other programs take CPUs that it may use, which varies more.
const SHARED: f64 = 1.5;
/// CPUs that are missing at least.
const SHARED_MIN: f64 = 0.25;

/// The displayed values, recent or over the entire session.
struct Shown<'a> {
    most_expensive: Option<&'a str>,
    /// CPUs that the agent uses.
    agent: Option<f64>,
    /// CPU time of the agent until all was probed.
    starting_ns: Option<u64>,
    /// CPU time of hits as a share of the job's CPU time, to which the budget refers.
    of_cpu: Option<f64>,
    /// Over the entire session.
    is_over_all: bool,
}

/// The sentence about the program. What the agent uses follows it.
/// `oversubscribed` is what its threads want and get, if they want many more CPUs.
fn of_program(
    snapshot: &Snapshot,
    slowdown: Slowdown,
    shown: &Shown<'_>,
    oversubscribed: Option<&str>,
) -> String {
    let mostly = shown.most_expensive;
    let mostly = mostly.map_or_else(String::new, |name| format!(", mostly of {}", in_sentence(name)));
    if let Some(wanted) = oversubscribed {
        let probes = shown.of_cpu.filter(|share| *share > 0.0);
        let probes = probes.map_or_else(String::new, |share| {
            format!("; probes use ~{} of its CPU time{mostly}", percent(share))
        });
        return format!("not known how much longer the program takes, as its threads want {wanted}{probes}");
    }
    // The others may wait for that process, or it for them.
    let of_cpu = shown.of_cpu.filter(|share| slowdown.probes > UNEQUAL * share);
    let (mark, whose) = match of_cpu {
        Some(share) => (
            "up to ~",
            format!(
                " in the process that they delay most, {} of all CPU time",
                percent(share)
            ),
        ),
        None => (parts::cost_mark(snapshot), String::new()),
    };
    let probes = match slowdown.probes > 0.0 {
        true => format!(" (probes {}{whose}{mostly})", percent(slowdown.probes)),
        false => String::new(),
    };
    format!(
        "the program takes {mark}{} longer{probes}",
        percent(slowdown.all())
    )
}

/// The CPUs that the program wants, and may use or has, if these are far fewer.
fn oversubscribed(snapshot: &Snapshot, slowdown: Slowdown) -> Option<String> {
    let allowed = snapshot.cpus.as_ref()?.allowed;
    let wanted = slowdown.wanted;
    // Other programs may take the CPUs that it may use.
    let rates = snapshot.overall();
    let used: f64 = rates.iter().map(|rates| rates.cpu).sum();
    let has_few = !rates.is_empty() && wanted > SHARED * used && wanted - used > SHARED_MIN;
    match () {
        () if wanted > OVERSUBSCRIBED * allowed => Some(format!("{wanted:.1} CPUs and may use {allowed:.1}")),
        () if has_few => Some(format!("{wanted:.1} CPUs and have {used:.1}")),
        () => None,
    }
}

/// The slowdown of the program, and its causes.
fn lines(snapshot: &Snapshot, cost: &CostView, slowdown: Slowdown, shown: &Shown<'_>) -> Vec<String> {
    let is_full = slowdown.is_full;
    let uses = shown.agent.map(|agent| {
        let idle = if is_full { "a" } else { "an idle" };
        format!("; tuneagent uses {} of {idle} CPU", percent(agent))
    });
    let resident = cost.agent.resident_bytes;
    let resident = resident.map(|resident| format!(", {}", bytes(resident as f64)));
    let starting = shown.starting_ns.map(|cpu_ns| duration(cpu_ns as f64));
    let starting = starting.map(|cpu_time| format!(", and used {cpu_time} of CPU time to start"));
    let oversubscribed = oversubscribed(snapshot, slowdown);
    let of_program = of_program(snapshot, slowdown, shown, oversubscribed.as_deref());
    let [uses, resident, starting] = [uses, resident, starting].map(Option::unwrap_or_default);
    let mut lines = vec![format!(" cost: {of_program}{uses}{resident}{starting}")];
    let is_much = slowdown.all() > TOO_MUCH;
    if is_full && is_much && slowdown.probes > 0.0 && oversubscribed.is_none() {
        lines.push(
            "    no CPU is idle: hits may cost more than was measured, and slow the program more".to_owned(),
        );
    }
    let of_windows = |view| windows(view, snapshot, shown.is_over_all);
    lines.extend(cost.windows.as_ref().map(of_windows));
    lines.extend(above(cost, snapshot.elapsed));
    if is_much && cost.windows.is_none() {
        let is_short = slowdown.probes > TOO_MUCH && snapshot.elapsed < BUDGET_HOLDS;
        let why = if is_short {
            " (which holds over minutes: a session of seconds may cost more)"
        } else {
            ""
        };
        let less = less(snapshot, cost, slowdown, why);
        lines.extend(less.map(|less| format!("    to lower the cost: {less}")));
    }
    lines
}

/// The budget, if the mean since the start is above it, and until when.
fn above(cost: &CostView, elapsed: Duration) -> Option<String> {
    let above = cost.above_budget(elapsed)?;
    let budget = cost.windows.as_ref()?.budget;
    let until = above.until_ns.map_or_else(String::new, |until_ns| {
        let minutes = (until_ns / 60e9).ceil() as usize;
        format!("; within the budget after ~{}", plural(minutes, "minute"))
    });
    let of = match above.is_of_one_cpu {
        true => "a CPU, as the job uses less than one",
        false => "its CPU time",
    };
    Some(format!(
        "    budget: {budget} of {of}; used since the start: {} (probes {}, tuneagent {}){until}",
        percent(above.share),
        percent(above.share - above.agent),
        percent(above.agent),
    ))
}

/// How to reduce the cost in this session; `None` where nothing would. A budget bounds the cost of probes.
fn less(snapshot: &Snapshot, cost: &CostView, slowdown: Slowdown, of_budget: &str) -> Option<String> {
    // Without rules and probes nothing would be left to watch.
    let has_shipped = snapshot.rules.iter().any(|rule| is_built_in(&rule.name)) && !cost.probes.is_empty();
    if let Some(name) = &cost.required {
        return Some(match (has_shipped, cost.is_recorded) {
            (true, true) => {
                format!("--rules none, and no --record: a rule or the recording needs every call of {name}")
            }
            (true, false) => format!("--rules none: a rule needs every call of {name}"),
            (false, true) => format!("remove the rule or the --record that needs every call of {name}"),
            (false, false) => format!("remove the rule that needs every call of {name}"),
        });
    }
    let has_costly_probes = slowdown.probes > 0.0 && slowdown.probes >= slowdown.agent;
    // Without its rules the session would not have repaired what it has.
    let is_changed = snapshot.changes.iter().any(|change| change.number != 0);
    match (has_shipped && !is_changed, has_costly_probes) {
        (true, true) => Some(format!("--rules none, or a smaller --budget{of_budget}")),
        (true, false) => Some("--rules none".to_owned()),
        (false, true) => Some(format!("a smaller --budget{of_budget}")),
        (false, false) => None,
    }
}

/// Uses the same part of the time as the line above it.
fn windows(view: &WindowsView, snapshot: &Snapshot, is_over_all: bool) -> String {
    let sampled = parts::sampled(&snapshot.functions());
    let regions = snapshot.regions().filter(|_| is_over_all);
    let of_regions = regions.map(|regions| parts::probed(snapshot, &regions));
    let part = sampled.map(|sampled| sampled.watched).or(of_regions);
    let part = part.unwrap_or(view.part);
    let verb = match (view.functions.len(), is_over_all) {
        (1, true) => "was",
        (1, false) => "is",
        (_, true) => "were",
        (_, false) => "are",
    };
    let what = if view.cuts_sequence {
        "calls, iterations and call sites"
    } else {
        "calls"
    };
    format!(
        "    {} {verb} watched {} of the time (to keep the cost within --budget): {what} outside this time are not seen; ~ marks estimates",
        view.names(2),
        percent(part),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use profile::cost::{AgentCost, BudgetShare, Estimate, Fullness, ProbeCost, RecentCost};
    use profile::{FunctionTotals, ProcessView, Rates, Standing};

    fn snapshot(share: f64) -> Snapshot {
        let probe = |name: &str, ns: f64| ProbeCost {
            name: name.to_owned(),
            ns,
            ..ProbeCost::default()
        };
        Snapshot {
            elapsed: Duration::from_secs(10),
            cost: Some(CostView {
                probes: vec![
                    probe("MPI_Iprobe", 2e10 * share * 0.75),
                    probe("MPI_Send", 2e10 * share * 0.25),
                ],
                job_ns: 20_000_000_000,
                slowdown: Slowdown {
                    probes: share,
                    agent: 0.002,
                    wanted: 2.0,
                    is_full: true,
                },
                agent: AgentCost {
                    cpu_ns: 20_000_000,
                    starting_ns: 1,
                    resident_bytes: Some(21 << 20),
                },
                recent: RecentCost {
                    probes: Some(share),
                    most_expensive: Some(("MPI_Iprobe".to_owned(), share * 0.75)),
                    agent: Some(0.004),
                    together: Some(share + 0.002),
                    slowdown: Some(Slowdown {
                        probes: share,
                        ..Slowdown::default()
                    }),
                },
                ..CostView::default()
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn what_it_costs_is_one_line_and_what_is_much_is_said() {
        let text = |lines: Vec<String>| lines.join("\n");
        insta::assert_snapshot!(text(now(&snapshot(0.0031))), @" cost: the program takes ~0.31 % longer (probes 0.31 %, mostly of MPI_Iprobe); tuneagent uses 0.4 % of an idle CPU, 21 MiB");
        let mut much = snapshot(0.02);
        insta::assert_snapshot!(text(over_all(&much)), @r"
         cost: the program takes ~2.2 % longer (probes 2 %, mostly of MPI_Iprobe); tuneagent uses 0.2 % of a CPU, 21 MiB
            no CPU is idle: hits may cost more than was measured, and slow the program more
            to lower the cost: a smaller --budget (which holds over minutes: a session of seconds may cost more)
        ");
        // A rule of the user may be loaded even with `--rules none`.
        for (rule, advice) in [
            ("mine", "a smaller --budget"),
            ("load-imbalance", "--rules none, or a smaller --budget"),
        ] {
            much.rules.push(example::rule(rule, Standing::Quiet, ""));
            let all = text(over_all(&much));
            assert!(
                all.contains(&format!("to lower the cost: {advice} (which holds")),
                "{all}"
            );
        }
        much.elapsed = Duration::from_secs(600);
        let all = text(over_all(&much));
        assert!(all.ends_with("--rules none, or a smaller --budget"), "{all}");
        if let Some(cost) = &mut much.cost {
            cost.required = Some("MPI_Iprobe".to_owned());
        }
        for (is_recorded, advice) in [
            (false, "--rules none: a rule needs every call of MPI_Iprobe"),
            (
                true,
                "--rules none, and no --record: a rule or the recording needs every call of MPI_Iprobe",
            ),
        ] {
            if let Some(cost) = &mut much.cost {
                cost.is_recorded = is_recorded;
            }
            let all = text(over_all(&much));
            assert!(all.ends_with(&format!(": {advice}")), "{all}");
        }
        assert!(now(&Snapshot::default()).is_empty() && over_all(&Snapshot::default()).is_empty());
    }

    #[test]
    fn how_much_longer_a_program_of_more_threads_than_cpus_takes_is_not_known() {
        let mut snapshot = snapshot(0.49);
        let of_cpus = |allowed| {
            Some(profile::CpusView {
                allowed,
                is_quota: false,
                online: None,
                memory_nodes: None,
                throttled: None,
            })
        };
        snapshot.cpus = of_cpus(2.0);
        assert!(
            over_all(&snapshot)[0].contains("the program takes ~49 % longer"),
            "it wants two"
        );
        // Another program takes most of the CPUs that it may use.
        let rates = Rates {
            cpu: 0.5,
            runqueue: 1.5,
            ..Rates::default()
        };
        let mut beside = snapshot.clone();
        beside.processes = vec![ProcessView {
            overall: Some(rates),
            ..ProcessView::default()
        }];
        assert!(
            over_all(&beside)[0].contains("as its threads want 2.0 CPUs and have 0.5"),
            "{}",
            over_all(&beside)[0]
        );
        if let Some(cost) = &mut snapshot.cost {
            cost.slowdown.wanted = 5.94;
        }
        insta::assert_snapshot!(over_all(&snapshot)[0], @" cost: not known how much longer the program takes, as its threads want 5.9 CPUs and may use 2.0; probes use ~49 % of its CPU time, mostly of MPI_Iprobe; tuneagent uses 0.2 % of a CPU, 21 MiB");
        snapshot.cpus = of_cpus(8.0);
        assert!(
            over_all(&snapshot)[0].contains("the program takes ~49 % longer"),
            "it has them"
        );
    }

    #[test]
    fn memory_that_is_not_known_is_left_out() {
        let mut snapshot = snapshot(0.0031);
        if let Some(cost) = &mut snapshot.cost {
            cost.agent.resident_bytes = None;
        }
        for lines in [now(&snapshot), over_all(&snapshot)] {
            assert!(lines[0].ends_with(" CPU"), "{lines:?}");
        }
    }

    #[test]
    fn what_is_watched_in_windows_is_said_with_what_is_not_seen() {
        let mut snapshot = snapshot(0.009);
        let Some(cost) = &mut snapshot.cost else { panic!() };
        let functions = ["MPI_Iprobe", "MPI_Recv", "MPI_Send"].map(str::to_owned);
        cost.windows = Some(WindowsView {
            functions: functions.to_vec(),
            part: 0.051,
            budget: BudgetShare::default(),
            cuts_sequence: true,
        });
        insta::assert_snapshot!(now(&snapshot).join("\n"), @r"
         cost: the program takes ~0.9 % longer (probes 0.9 %, mostly of MPI_Iprobe); tuneagent uses 0.4 % of an idle CPU, 21 MiB
            MPI_Iprobe, MPI_Recv and 1 more function are watched 5.1 % of the time (to keep the cost within --budget): calls, iterations and call sites outside this time are not seen; ~ marks estimates
        ");
        // A rank that hardly ever has a CPU is delayed most.
        if let Some(cost) = &mut snapshot.cost {
            cost.recent.probes = Some(0.001);
        }
        let said = " cost: the program takes up to ~0.9 % longer (probes 0.9 % in the process that they delay most, 0.1 % of all CPU time, \
            mostly of MPI_Iprobe)";
        assert!(now(&snapshot)[0].starts_with(said), "{:?}", now(&snapshot)[0]);
        if let Some(cost) = &mut snapshot.cost {
            cost.probes[0].ns = 1.2e9;
        }
        assert_eq!(
            now(&snapshot).pop().as_deref(),
            Some(
                "    budget: 1% of its CPU time; used since the start: 6.3 % (probes 6.2 %, tuneagent 0.1 %); within the budget after ~3 minutes"
            )
        );
        if let Some(cost) = &mut snapshot.cost {
            cost.probes[0].ns = 1e8;
        }
        // The current part of the windows differs from that over the session.
        snapshot.processes = vec![ProcessView {
            functions: vec![FunctionTotals {
                estimate: Some(Estimate {
                    watched: 0.38,
                    ..Estimate::default()
                }),
                ..FunctionTotals::default()
            }],
            ..ProcessView::default()
        }];
        let last = |snapshot: &Snapshot| over_all(snapshot).pop().unwrap_or_default();
        let line = last(&snapshot);
        assert!(line.contains(" were watched 38 % of the time "), "{line}");
        let first = over_all(&snapshot).swap_remove(0);
        assert!(
            first.contains("the program takes at least "),
            "its pace has no upper bound: {first}"
        );
        if let Some(windows) = snapshot.cost.as_mut().and_then(|cost| cost.windows.as_mut()) {
            windows.functions.truncate(1);
        }
        let line = last(&snapshot);
        assert!(
            line.contains(" MPI_Iprobe was watched 38 % of the time "),
            "{line}"
        );
    }

    #[test]
    fn a_probe_is_a_share_of_the_time_of_the_process_that_it_delays_most() {
        let mut slowdown = Slowdown::default();
        // A process that sleeps: the share refers to elapsed time, not to its little CPU time.
        slowdown.delay(1e6, 2_000_000, 1_000_000_000, 0.002);
        assert_eq!(slowdown.all(), 1e-3);
        // Four busy threads.
        slowdown.delay(8e6, 4_000_000_000, 1_000_000_000, 4.0);
        assert_eq!(slowdown.all(), 2e-3);
        slowdown.delay(0.0, 0, 0, 0.0);
        assert_eq!(slowdown.all(), 2e-3);
        // A process that waited for a CPU for three quarters of the time.
        slowdown.delay(1e6, 250_000_000, 250_000_000, 1.0);
        assert_eq!(slowdown.all(), 4e-3);
    }

    #[test]
    fn a_program_that_sleeps_loses_hardly_anything_to_the_agent() {
        // CPUs that its two processes want, and the part of the agent's 10 % of a CPU that delays them.
        for (wanted, full, delay) in [
            (0.01, 1.0, 0.002),
            (0.01, 0.0, 0.0),
            (2.0, 1.0, 0.1),
            (2.0, 0.2, 0.02),
        ] {
            let mut slowdown = Slowdown::default();
            (0..2).for_each(|_| slowdown.delay(0.0, 1, 1, wanted));
            slowdown.delay_by_agent(0.1, full);
            assert!((slowdown.all() - delay).abs() < 1e-12, "{slowdown:?}");
            assert_eq!(slowdown.is_full, full > 0.5);
        }
    }

    #[test]
    fn the_agent_takes_from_the_program_what_no_idle_cpu_has_for_it() {
        let part = |looks: &[(f64, u64)]| {
            let mut fullness = Fullness::default();
            looks.iter().for_each(|(idle, ns)| fullness.add(*idle, *ns));
            fullness.part()
        };
        assert_eq!(part(&[]), 1.0);
        assert_eq!(part(&[(2.3, 1_000), (1.0, 1_000)]), 0.0);
        assert_eq!(part(&[(0.0, 3_000), (0.5, 1_000), (7.0, 4_000)]), 0.4375);
    }
}
