//! What watching costs, in one line.

use crate::{
    cost::{CostView, TOO_MUCH, WindowsView},
    format::{bytes, percent},
    snapshot::Snapshot,
};

/// Of late. None where nothing is probed, and before there is a period to speak of.
pub(super) fn now(snapshot: &Snapshot) -> Vec<String> {
    let Some(cost) = &snapshot.cost else {
        return Vec::new();
    };
    let late = &cost.of_late;
    if late.agent.is_none() {
        return Vec::new();
    }
    let mut parts = vec![probes(late.probes, late.dearest.as_ref())];
    parts.extend(late.agent.map(agent));
    line(parts, cost, late.probes)
}

/// Of the whole session.
pub(super) fn over_all(snapshot: &Snapshot) -> Vec<String> {
    let Some(cost) = &snapshot.cost else {
        return Vec::new();
    };
    let share = cost.probes_share();
    let dearest = cost.probes.first();
    let dearest = dearest.and_then(|probe| Some((probe.name.clone(), probe.ns / cost.probes_ns() * share?)));
    let mut parts = vec![probes(share, dearest.as_ref())];
    let elapsed_ns = snapshot.elapsed.as_nanos() as f64;
    if elapsed_ns > 0.0 {
        parts.push(agent(cost.agent.cpu_ns as f64 / elapsed_ns));
    }
    line(parts, cost, share)
}

fn probes(share: Option<f64>, dearest: Option<&(String, f64)>) -> String {
    let Some(share) = share else {
        return "probes: the job's CPU time is not known".to_owned();
    };
    let of = dearest.filter(|(_, part)| *part > 0.0);
    let of = of.map_or_else(String::new, |(name, part)| {
        format!(" ({name} {})", percent(*part))
    });
    format!("probes {} of the job's CPU time{of}", percent(share))
}

fn agent(share: f64) -> String {
    format!("agent {} of a core", percent(share))
}

fn line(mut parts: Vec<String>, cost: &CostView, probes: Option<f64>) -> Vec<String> {
    let resident = cost.agent.resident_bytes;
    parts.extend(resident.map(|resident| bytes(resident as f64)));
    let mut lines = vec![format!(" cost: {}", parts.join(", "))];
    lines.extend(cost.windows.as_ref().map(windows));
    if probes.is_some_and(|share| share > TOO_MUCH) && cost.windows.is_none() {
        lines.push("    that is much: docs/performance.md says what makes it less".to_owned());
    }
    lines
}

fn windows(view: &WindowsView) -> String {
    let what = if view.cuts_sequence {
        "calls, iterations and call sites"
    } else {
        "calls"
    };
    format!(
        "    {} watched {} of the time (--budget {}): {what} of the rest are not seen, ~ is estimated",
        view.names(2),
        percent(view.part),
        view.budget,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{AgentCost, Budget, OfLate, Prices, ProbeCost};
    use std::{collections::BTreeMap, time::Duration};

    fn snapshot(share: f64) -> Snapshot {
        let probe = |name: &str, ns: f64| ProbeCost {
            name: name.to_owned(),
            ns,
            ..ProbeCost::default()
        };
        Snapshot {
            elapsed: Duration::from_secs(10),
            cost: Some(CostView {
                prices: Prices::table("a test".to_owned()),
                arming_ns: 1,
                probes: vec![
                    probe("MPI_Iprobe", 2e10 * share * 0.75),
                    probe("MPI_Send", 2e10 * share * 0.25),
                ],
                job_ns: 20_000_000_000,
                held: BTreeMap::new(),
                agent: AgentCost {
                    cpu_ns: 20_000_000,
                    starting_ns: 1,
                    resident_bytes: Some(21 << 20),
                },
                of_late: OfLate {
                    probes: Some(share),
                    dearest: Some(("MPI_Iprobe".to_owned(), share * 0.75)),
                    agent: Some(0.004),
                    together: Some(share + 0.002),
                },
                unread: None,
                windows: None,
            }),
            ..Snapshot::default()
        }
    }

    #[test]
    fn what_it_costs_is_one_line_and_what_is_much_is_said() {
        let text = |lines: Vec<String>| lines.join("\n");
        insta::assert_snapshot!(text(now(&snapshot(0.0031))), @" cost: probes 0.31 % of the job's CPU time (MPI_Iprobe 0.23 %), agent 0.40 % of a core, 21.0 MiB");
        insta::assert_snapshot!(text(over_all(&snapshot(0.02))), @r"
         cost: probes 2.0 % of the job's CPU time (MPI_Iprobe 1.5 %), agent 0.20 % of a core, 21.0 MiB
            that is much: docs/performance.md says what makes it less
        ");
        assert!(now(&Snapshot::default()).is_empty() && over_all(&Snapshot::default()).is_empty());
    }

    #[test]
    fn memory_that_nobody_tells_is_left_out() {
        let mut snapshot = snapshot(0.0031);
        if let Some(cost) = &mut snapshot.cost {
            cost.agent.resident_bytes = None;
        }
        for lines in [now(&snapshot), over_all(&snapshot)] {
            assert!(lines[0].ends_with(" of a core"), "{lines:?}");
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
            budget: Budget::default(),
            cuts_sequence: true,
        });
        insta::assert_snapshot!(now(&snapshot)[1], @"    MPI_Iprobe, MPI_Recv and 1 more function are watched 5.1 % of the time (--budget 1%): calls, iterations and call sites of the rest are not seen, ~ is estimated");
    }

    #[test]
    fn a_job_whose_cpu_time_nobody_tells_has_no_share() {
        let mut snapshot = snapshot(0.01);
        if let Some(cost) = &mut snapshot.cost {
            (cost.job_ns, cost.of_late.probes) = (0, None);
        }
        for lines in [now(&snapshot), over_all(&snapshot)] {
            assert!(
                lines[0].contains("the job's CPU time is not known, agent"),
                "{lines:?}"
            );
        }
    }
}
