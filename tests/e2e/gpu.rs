//! The host part of a GPU program, with a stub of CUDA's library: whether the host keeps the GPU busy. Needs
//! no GPU.

use std::fs;

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::SOON;
use crate::iterations::{calls_of, number, wait_for_report};

const RULE: &str = "gpu-host-bound";

/// Starts `gpu`, whose host computes for `host_us` microseconds before each launch of a kernel of 100 µs.
fn start(host_us: u32) -> Outcome<Job> {
    let library = programs::library("gpu_library", 1)?;
    let job = Job::alone(&programs::threads("gpu")?, |folder| {
        let [folder, named] =
            [folder, &folder.join("libcudart.so.12")].map(|path| path.display().to_string());
        fs::copy(&library, &named)
            .map(|_| vec![folder, named, host_us.to_string()])
            .unwrap_or_default()
    })?;
    job.events("ready", 1, SOON)?;
    Ok(job)
}

fn rule(report: &Value) -> &Value {
    let mut rules = report["rules"].as_array().into_iter().flatten();
    rules.find(|rule| rule["name"] == RULE).unwrap_or(&Value::Null)
}

fn nested(report: &Value, set: &str) -> u64 {
    let functions = report["processes"][0]["functions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut of = functions.filter(|function| function["name"] == set);
    of.next()
        .and_then(|function| function["nested_calls"].as_u64())
        .unwrap_or_default()
}

#[test]
fn a_host_that_does_not_keep_up_with_its_gpu_is_found_and_one_that_waits_for_it_is_not() -> Outcome {
    let _machine = require!(calm: Root, Cc);
    let job = start(1000)?;
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    wait_for_report(&agent, |now| now["findings"].to_string().contains(RULE))?;
    let report = agent.stop()?;
    let text = report["findings"].to_string();
    assert_has!(text, "Kernels are launched at ", "more data-loader workers");
    // Each call of the runtime library makes one call of the driver library.
    for set in ["gpu.launch", "gpu.copy", "gpu.wait"] {
        let calls = calls_of(&report, set);
        assert!(
            calls > 0 && nested(&report, set).abs_diff(calls) <= 2,
            "{set}: {report:#}"
        );
    }
    drop(job);

    let job = start(0)?;
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    wait_for_report(&agent, |now| number(&rule(now)["windows"]) >= 5.0)?;
    let report = agent.stop()?;
    assert!(!report["findings"].to_string().contains(RULE), "{report:#}");
    // Launches are not even probed in this case.
    assert_eq!(calls_of(&report, "gpu.launch"), 0, "{report:#}");
    assert!(calls_of(&report, "gpu.wait") > 0, "{report:#}");
    Ok(())
}
