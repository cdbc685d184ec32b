//! Traces of calls that a session writes are complete.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Mpi;
use tuneagent_e2e::{Outcome, each, require};

use crate::expected::{SOON, start_count, text};
use crate::exports::{calls, read};

/// Polling functions, which are not sent through the ring.
const POLLING: [&str; 3] = ["MPI_Test", "MPI_Testall", "MPI_Iprobe"];

/// Spans of calls by process and thread, in file order: begin and end in nanoseconds, and the function.
type Tracks = BTreeMap<(u64, u64), Vec<(i64, i64, String)>>;

fn tracks(trace: &Value, kind: &str) -> Outcome<Tracks> {
    let mut tracks = Tracks::new();
    let ns = |value: &Value| value.as_f64().map(|us| (us * 1e3).round() as i64);
    for event in trace["traceEvents"].as_array().ok_or("no events")? {
        if event["ph"] != "X" || event["cat"] != kind {
            continue;
        }
        let whose = event["pid"]
            .as_u64()
            .zip(event["tid"].as_u64())
            .ok_or("a span of nobody")?;
        let (at, length) = ns(&event["ts"])
            .zip(ns(&event["dur"]))
            .ok_or("a span without times")?;
        let name = event["name"].as_str().ok_or("a span without a name")?;
        tracks
            .entry(whose)
            .or_default()
            .push((at, at + length, name.to_owned()));
    }
    Ok(tracks)
}

/// On each track the spans are ordered and do not overlap.
fn assert_in_order(tracks: &Tracks) {
    for (whose, spans) in tracks {
        for pair in spans.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{whose:?}: {pair:?}");
        }
    }
}

#[test]
fn a_trace_has_a_span_for_each_call_of_each_rank_and_says_which_it_has_not() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let mut job = start_count(mpi, 3, &["--iterations", "25"])?;
        let file = job.file("trace-%h.json");
        let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "--trace", &text(&file)])?;
        job.open("go")?;
        job.events("tally", 3, SOON)?;
        job.end(SOON)?;
        // The ranks have ended, so no call is in progress.
        let report = agent.finish(SOON)?;
        let host = report["host"].as_str().ok_or("no host")?;
        let trace = read(&job.file(&format!("trace-{host}.json")))?;
        let tracks = tracks(&trace, "mpi")?;
        assert_in_order(&tracks);
        let mut found: BTreeMap<(u64, String), u64> = BTreeMap::new();
        for ((pid, _), spans) in &tracks {
            for (_, _, name) in spans {
                *found.entry((*pid, name.clone())).or_default() += 1;
            }
        }
        let mut expected = calls(&report);
        let polled: u64 = expected
            .iter()
            .filter(|((_, name), _)| POLLING.contains(&name.as_str()))
            .map(|(_, calls)| calls)
            .sum();
        expected.retain(|(_, name), _| !POLLING.contains(&name.as_str()));
        let about = &trace["otherData"];
        assert_eq!(about["polling_calls_not_traced"], polled, "{about}");
        let all: u64 = expected.values().sum();
        let count = |name: &str| about[name].as_u64().unwrap_or(u64::MAX);
        assert_eq!(
            count("calls") + count("dropped_calls") + count("calls_not_seen"),
            all,
            "{about}"
        );
        if count("calls_not_seen") == 0 {
            assert_eq!(found, expected, "calls of each function and rank");
        }
        assert_eq!(report["trace"]["calls"], about["calls"]);
        let names = each(&trace["traceEvents"]);
        let names = names.filter(|event| event["name"] == "process_name");
        let names: BTreeSet<String> = names.map(|event| event["args"]["name"].to_string()).collect();
        assert_eq!(
            names,
            ["\"rank 0\"", "\"rank 1\"", "\"rank 2\""]
                .map(String::from)
                .into()
        );
    }
    Ok(())
}
