//! What rules cost the program that they watch. With TUNEAGENT_LONG more is measured, as `cargo xtask bench rules` does.

use std::fs;

use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder};

/// Batches of calls that are measured of each state, and how often all states are gone through.
const BATCHES: usize = 5;
const ROUNDS: usize = 4;

/// A call every 20 us, which is a lot: each hit is sent, and 50 000 a second are evaluated by five rules.
const GAP_NS: &str = "20000";

/// Five rules on one function: totals and hits, each with something of its own.
const RULES: [&str; 5] = [
    "probes: {p: {span: called}}\nwindows: {w: {every: 500ms}}\nmetrics: {m: mean(p.duration)}\n",
    "probes: {p: {span: called}}\ncapture: {p.number: arg(0)}\nwindows: {w: {every: 500ms}}\nmetrics: {m: max(p.number)}\n",
    "probes: {p: {entry: called}}\nwindows: {w: {every: 500ms}}\nmetrics: {m: count(p)}\n",
    "probes: {p: {span: called}}\ncapture: {p.serial: serial}\nwindows: {w: {every: 500ms}}\nmetrics: {m: max(p.serial)}\n",
    "probes: {p: {span: called}}\ncapture: {p.more: ret as i64}\nwindows: {w: {every: 500ms}}\nmetrics: {m: sum(p.more)}\n",
];

fn rules(folder: &TempDir) -> Outcome<Vec<String>> {
    let file = |(number, text): (usize, &&str)| {
        let file = folder.path().join(format!("rule{number}.yaml"));
        fs::write(&file, format!("rule: rule{number}\nabout: for a test\n{text}"))?;
        Ok(file.to_string_lossy().into_owned())
    };
    RULES.iter().enumerate().map(file).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What a call takes now, of several batches.
fn pace(job: &Job) -> Outcome<Vec<f64>> {
    let seen = job.events("pace", 0, SOON)?.len();
    // The first was under way when the state changed.
    let events = job.events("pace", seen + 1 + BATCHES, SOON)?;
    let fresh = events.iter().skip(seen + 1);
    Ok(fresh.filter_map(|event| event["ns"].as_f64()).collect())
}

/// The medians without a rule, with the second one, and with all.
fn measure(agent: &Agent, job: &Job, rules: &[String], rounds: usize) -> Outcome<[f64; 3]> {
    let mut seen = [const { Vec::new() }; 3];
    for _ in 0..rounds {
        seen[0].extend(pace(job)?);
        for (place, group) in [(1, &rules[1..2]), (2, rules)] {
            for rule in group.iter().filter(|rule| place == 1 || **rule != rules[1]) {
                let (code, text) = agent.ask("add", &[rule])?;
                assert_eq!(code, 0, "{text}");
            }
            seen[place].extend(pace(job)?);
        }
        for number in 0..rules.len() {
            let (code, text) = agent.ask("remove", &[&format!("rule{number}")])?;
            assert_eq!(code, 0, "{text}");
        }
    }
    Ok(seen.map(median))
}

#[test]
fn five_rules_on_one_function_cost_the_program_at_most_a_fifth_more_than_one_as_root() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let long = std::env::var_os("TUNEAGENT_LONG").is_some();
    let rounds = if long { 5 * ROUNDS } else { ROUNDS };
    let folder = tempfile::tempdir()?;
    let rules = rules(&folder)?;
    let job = Job::alone(&programs::c("calls")?, |folder| {
        with_folder(folder, vec![GAP_NS.into()])
    })?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", "--probe", "idle"])?;
    agent.armed()?;
    job.open("go")?;
    // A machine that is busy with something else is asked again.
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let [none, one, five] = measure(&agent, &job, &rules, rounds)?;
        let ratio = (five - none) / (one - none);
        println!(
            "a call: {none} ns, with one rule {one} ns, with five {five} ns: {ratio:.2} times the cost of one"
        );
        assert!(one > none, "a probed call costs nothing: is it probed?");
        ratios.push(ratio);
        if ratio <= 1.2 {
            break;
        }
    }
    assert!(ratios.iter().any(|ratio| *ratio <= 1.2), "{ratios:?}");
    agent.stop()?;
    job.open("end")?;
    Ok(())
}
