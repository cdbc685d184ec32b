//! The cost of rules for the watched program, and the cost that the agent reports. TUNEAGENT_LONG measures
//! more, as `cargo xtask bench rules` does.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::family::descendants;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::is_long;
use tuneagent_e2e::sight::Ranks;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, each, programs, require};

use crate::expected::{SOON, median, text_file, with_folder};
use crate::language::rule;

/// Measured batches of calls per state, and number of passes over all states.
const BATCHES: usize = 5;
const ROUNDS: usize = 20;

/// A call every 20 µs, a high rate: each hit is sent, and five rules evaluate 50 000 hits per second.
const GAP_NS: &str = "20000";

/// Interval between two requests to a session.
const REQUESTED_EVERY: Duration = Duration::from_millis(500);

/// Five rules on one function, with totals and hits; each reads another value.
const RULES: [&str; 5] = [
    "probes: {p: {span: called}}\nwindows: {w: {every: 500ms}}\nmetrics: {m: mean(p.duration)}\n",
    "probes: {p: {span: called}}\ncapture: {p.number: arg(0)}\nwindows: {w: {every: 500ms}}\nmetrics: {m: max(p.number)}\n",
    "probes: {p: {entry: called}}\nwindows: {w: {every: 500ms}}\nmetrics: {m: count(p)}\n",
    "probes: {p: {span: called}}\ncapture: {p.serial: serial}\nwindows: {w: {every: 500ms}}\nmetrics: {m: max(p.serial)}\n",
    "probes: {p: {span: called}}\ncapture: {p.more: ret as i64}\nwindows: {w: {every: 500ms}}\nmetrics: {m: sum(p.more)}\n",
];

fn rules(folder: &TempDir) -> Outcome<Vec<String>> {
    let file = |(number, text): (usize, &&str)| rule(folder, &format!("rule{number}"), text);
    RULES.iter().enumerate().map(file).collect()
}

/// Nanoseconds per call in each of several batches.
fn pace(job: &Job) -> Outcome<Vec<f64>> {
    let seen = job.events("pace", 0, SOON)?.len();
    // The first batch began before the state changed.
    let events = job.events("pace", seen + 1 + BATCHES, SOON)?;
    let fresh = events.iter().skip(seen + 1);
    Ok(fresh.filter_map(|event| event["ns"].as_f64()).collect())
}

/// Median nanoseconds per call without a rule, with the second rule, and with all rules.
fn measure(agent: &Agent, job: &Job, rules: &[String]) -> Outcome<[f64; 3]> {
    let mut seen = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        seen[0].extend(pace(job)?);
        for (place, group) in [(1, &rules[1..2]), (2, rules)] {
            for rule in group.iter().filter(|rule| place == 1 || **rule != rules[1]) {
                let (code, text) = agent.request("add", &[rule])?;
                assert_eq!(code, 0, "{text}");
            }
            seen[place].extend(pace(job)?);
        }
        for number in 0..rules.len() {
            let (code, text) = agent.request("remove", &[&format!("rule{number}")])?;
            assert_eq!(code, 0, "{text}");
        }
    }
    Ok(seen.map(median))
}

#[test]
fn five_rules_on_one_function_cost_the_program_at_most_a_fifth_more_than_one() -> Outcome {
    if !is_long() {
        return Ok(());
    }
    let _machine = require!(machine: Root, Cc);
    let folder = tempfile::tempdir()?;
    let rules = rules(&folder)?;
    let job = Job::alone(&programs::c("calls")?, |folder| {
        with_folder(folder, vec![GAP_NS.into()])
    })?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "--probe", "idle"])?;
    job.open("go")?;
    // Up to three attempts, because other programs use the machine.
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let [none, one, five] = measure(&agent, &job, &rules)?;
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

/// Entry of a function in the report's costs.
fn cost_of<'a>(report: &'a Value, function: &str) -> Outcome<&'a Value> {
    let functions = each(&report["cost"]["functions"]);
    let mut found = functions.filter(|cost| cost["name"] == function);
    Ok(found
        .next()
        .ok_or_else(|| format!("no cost of {function}: {}", report["cost"]))?)
}

/// A number in an entry of the report's costs.
fn number(of: &Value, name: &str) -> Outcome<f64> {
    Ok(of[name].as_f64().ok_or_else(|| format!("no {name} in {of}"))?)
}

/// Rounds of `busywork`, each of which calls the probed function once.
const CALLS: u64 = 50_000;

/// CPU time of a process's first thread in nanoseconds, by the kernel.
fn cpu_ns(pid: u32) -> Outcome<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat"))?;
    let ns = text.split_whitespace().next().ok_or("no CPU time")?;
    Ok(ns.parse::<f64>().map_err(|error| error.to_string())?)
}

/// CPU time per round with its call, in ns, and the report if the function is probed.
fn work(flags: Option<&[&str]>) -> Outcome<(f64, Option<Value>)> {
    let mut job = Job::alone(&programs::c("busywork")?, |folder| {
        with_folder(folder, vec![CALLS.to_string()])
    })?;
    job.events("ready", 1, SOON)?;
    let mut agent = flags.map(|flags| Agent::attach(job.pid(), flags)).transpose()?;
    agent.iter().try_for_each(Agent::armed)?;
    let before = cpu_ns(job.pid())?;
    job.open("go")?;
    job.events("tally", 1, SOON)?;
    let took = (cpu_ns(job.pid())? - before) / CALLS as f64;
    let report = agent.as_mut().map(Agent::stop).transpose()?;
    job.end(SOON)?;
    Ok((took, report))
}

#[test]
fn the_shown_cost_of_a_probe_is_the_cpu_time_that_calls_take_more_for_it() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let mut ratios = Vec::new();
    // Up to three attempts, because other programs use the machine.
    for _ in 0..3 {
        let (without, _) = work(None)?;
        let (with, report) = work(Some(&["--rules", "none", "--probe", "step_outer"]))?;
        let report = report.ok_or("no report")?;
        let cost = cost_of(&report, "step_outer")?;
        assert_eq!(cost["calls"], CALLS, "{cost}");
        assert_eq!(
            report["cost"]["prices_ns"]["measured"], true,
            "{}",
            report["cost"]
        );
        let reported = number(cost, "call_ns")?;
        println!("a call takes {without:.0} ns, probed {with:.0} ns; told are {reported:.0} ns");
        ratios.push(reported / (with - without));
        if ratios.last().is_some_and(|ratio| (0.6..1.6).contains(ratio)) {
            return Ok(());
        }
    }
    Err(format!("told beside measured: {ratios:?}").into())
}

/// Allowed CPUs of each thread of a process, in the kernel's notation.
fn cpus_of_threads(pid: u32) -> Outcome<Vec<String>> {
    let mut lists = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        lists.push(list.ok_or("no list of CPUs")?.trim().to_owned());
    }
    Ok(lists)
}

#[test]
fn a_session_has_real_time_priority_until_its_first_numbers_and_changes_no_other_program() -> Outcome {
    let _machine = require!(machine: Root, Mpich);
    // The niceness of this login session; none if the kernel has no autogroup scheduling.
    let group = || fs::read_to_string("/proc/self/autogroup").ok();
    let before = group();
    let mut job = Ranks::Asleep.start(2)?;
    let mut agent = Agent::attach(job.pid(), &["--apply"])?;
    let pid = agent.pid();
    let mut was_real_time = false;
    agent.lines.wait_for("numbers", SOON, |lines| {
        was_real_time |= real_time_threads(pid) > 0;
        assert_eq!(group(), before);
        lines
            .iter()
            .any(|line| line.text.contains(" after "))
            .then_some(())
    })?;
    assert!(was_real_time);
    let children = descendants(pid);
    // The actuator, and the process that closes links.
    assert!(children.len() >= 2, "{children:?}");
    let family: Vec<u32> = children.iter().map(|child| child.pid).chain([pid]).collect();
    wait_until("the normal class of all threads", SOON, || {
        Ok(family.iter().all(|pid| real_time_threads(*pid) == 0))
    })?;
    agent.stop()?;
    job.end(SOON)?;
    Ok(())
}

/// Number of threads of a process that have a real-time class.
fn real_time_threads(pid: u32) -> usize {
    /// Field 41 of proc_pid_stat(5); the first after the name in parentheses is field 3.
    const POLICY: usize = 41 - 3;
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let policies = stats.filter_map(|stat| {
        let fields = stat.rsplit_once(") ")?.1;
        fields.split(' ').nth(POLICY)?.parse::<u32>().ok()
    });
    policies.filter(|policy| *policy != 0).count()
}

#[test]
fn the_agent_runs_on_the_cpus_that_it_is_given_and_no_other() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let job = Job::alone(&programs::c("calls")?, |folder| {
        with_folder(folder, vec![GAP_NS.into()])
    })?;
    job.events("ready", 1, SOON)?;
    let before = cpus_of_threads(job.pid())?;
    let words = ["--rules", "none", "--probe", "called", "--agent-cpus", "0"];
    let mut agent = Agent::attach_armed(job.pid(), &words)?;
    let threads = cpus_of_threads(agent.pid())?;
    assert!(
        !threads.is_empty() && threads.iter().all(|list| list == "0"),
        "{threads:?}"
    );
    assert_eq!(cpus_of_threads(job.pid())?, before);
    agent.stop()?;
    let pid = job.pid().to_string();
    let (code, text) = Agent::run(&["attach", &pid, "--probe", "called", "--agent-cpus", "0,1023"])?;
    assert!(
        code == 2 && text.contains("--agent-cpus 0,1023: CPU 1023 may not be used here"),
        "{code}: {text}"
    );
    job.open("end")?;
    Ok(())
}

/// A rule for which every hit is sent and none makes a window close.
const EACH: &str = "rule: each\nabout: for a test\nprobes: {p: {entry: called}}\ncapture: {p.number: arg(0) as i64}\n\
    windows: {w: {every: 500ms}}\nmetrics: {m: count(p where p.number >= 0)}\n";

/// Number of reads of the ring, and of late reads (a hit unread for more than 5 ms), while `hits` hits come
/// at this interval.
fn reads_of(gap_ns: &str, hits: u64) -> Outcome<(f64, f64)> {
    let (_folder, rule) = text_file("each.yaml", EACH)?;
    let job = Job::alone(&programs::c("calls")?, |folder| {
        with_folder(folder, vec![gap_ns.into()])
    })?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule])?;
    job.open("go")?;
    let received = |report: &Value| report["completeness"]["events_received"].as_u64();
    wait_until("the hits", SOON, || {
        #[expect(
            clippy::disallowed_methods,
            reason = "each request takes time in which the agent reads no hits"
        )]
        std::thread::sleep(REQUESTED_EVERY);
        Ok(received(&agent.snapshot()?).is_some_and(|received| received >= hits))
    })?;
    let report = agent.stop()?;
    job.open("end")?;
    let cost = &report["cost"];
    println!(
        "every {gap_ns} ns: {} of {} reads late, {} s at most",
        cost["event_reads_late"], cost["event_reads"], cost["event_unread_s_most"]
    );
    assert!(number(cost, "event_unread_s_most")? > 0.0, "{cost}");
    Ok((number(cost, "event_reads")?, number(cost, "event_reads_late")?))
}

#[test]
fn hits_that_wake_no_reader_lie_for_5_ms_at_most_whether_one_comes_a_second_or_thousands() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    // Hits at intervals of one second take long, so only in long runs.
    let seldom = is_long().then_some(("1000000000", 6));
    for (gap_ns, hits) in [("200000", 10_000)].into_iter().chain(seldom) {
        let (reads, late) = reads_of(gap_ns, hits)?;
        assert!(reads >= 5.0, "{reads} reads");
        // Other programs sometimes keep the agent from its CPU for longer than 5 ms. If the agent's own
        // polling were too slow, most reads would be late.
        assert!(
            late <= 0.5 * reads,
            "one every {gap_ns} ns: {late} of {reads} reads were late"
        );
    }
    Ok(())
}
