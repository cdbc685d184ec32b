//! The fire simulator of the 2010 thesis: it distributes its front as the thesis describes, and the thesis's
//! two rules change how it runs but not its result.

use std::{fs, path::Path};

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder, written};

const WORKERS: usize = 4;

/// Starts the simulator with four workers and opens its gate.
fn start(arguments: &str) -> Outcome<Job> {
    let program = programs::mpi("wildfire", Mpi::Mpich)?;
    let ranks = WORKERS + 1;
    let job = Job::mpi(Mpi::Mpich, Waiting::Yielding, ranks, &program, |folder| {
        with_folder(folder, arguments.split(' ').map(str::to_owned).collect())
    })?;
    job.events("ready", ranks, SOON)?;
    Ok(job)
}

/// Waits for the end. Returns the iterations and the result.
fn finish(mut job: Job) -> Outcome<(Vec<Value>, Value)> {
    job.finish(SOON)?;
    let result = job.events("result", 1, SOON)?.remove(0);
    Ok((job.events("iteration", 0, SOON)?, result))
}

/// Stops the simulator once `seen` accepts its newest iteration.
fn stop_when(job: &Job, what: &str, seen: impl Fn(&Value) -> bool) -> Outcome {
    job.lines.wait_for(what, SOON, |lines| {
        let newest = lines
            .iter()
            .rev()
            .filter_map(|line| serde_json::from_str::<Value>(&line.text).ok());
        newest
            .into_iter()
            .any(|event| event["event"] == "iteration" && seen(&event))
            .then_some(())
    })?;
    job.open("stop")
}

fn number(event: &Value, name: &str) -> f64 {
    event[name].as_f64().unwrap_or(f64::NAN)
}

/// The front of an untuned run after this number of iterations.
fn front_alone(load: &str, iterations: &Value) -> Outcome<Value> {
    let job = start(&format!("{load} iterations={iterations} point_us=1 byte_ns=0"))?;
    job.open("go")?;
    Ok(finish(job)?.1)
}

/// A shipped rule without its guard, for tests of its decisions: how long an iteration takes on a busy machine must not
/// decide whether a change stays.
fn unguarded(folder: &Path, name: &str) -> Outcome<String> {
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rules/library/models");
    let text = fs::read_to_string(library.join(format!("{name}.yaml")))?;
    let is_guard = |line: &&str| line.trim_start().starts_with("guard:");
    assert_eq!(text.lines().filter(is_guard).count(), 1, "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| !is_guard(line)).collect();
    written(folder, &format!("{name}.yaml"), &lines.join("\n"))
}

/// Number of chunks of an iteration: each batch takes a share, in as many equal chunks as there are workers
/// (section 4.2.1).
fn batches(points: usize, shares: [f64; 3], minimum: usize) -> u64 {
    let (mut left, mut count) = (points, 0);
    while left > 0 {
        let share = shares[count.min(2)];
        let chunk = (left as f64 * share / WORKERS as f64) as usize;
        let chunk = if chunk <= minimum {
            left.div_ceil(WORKERS).max(minimum)
        } else {
            chunk
        };
        left -= left.min(chunk * WORKERS);
        count += 1;
    }
    count as u64
}

#[test]
fn the_fire_simulator_deals_a_growing_front_in_batches_and_heavy_points_take_longer() -> Outcome {
    let _machine = require!(shared: Mpich);
    let load = "iterations=12 points=2000 point_us=5 heavy=2 threshold=0.3 speed=0.02";
    let sections = start(&format!("{load} original=1"))?;
    let factoring = start(&format!("{load} f0=0.6 f1=0.4 f2=0.3 minimum=20"))?;
    sections.open("go")?;
    factoring.open("go")?;
    let ((sections, alone), (factoring, dealt)) = (finish(sections)?, finish(factoring)?);
    assert_eq!(alone, dealt, "the same front however it was dealt");
    assert!(sections.iter().all(|iteration| iteration["batches"] == 1));
    for iteration in &factoring {
        let points = iteration["points"].as_u64().unwrap_or_default();
        let expected = batches(points as usize, [0.6, 0.4, 0.3], 20);
        assert_eq!(iteration["batches"], expected, "{iteration}");
        // Each worker idles for its compute time times the share of heavy points (section 5.5), which is
        // doubled here.
        let heavy = number(iteration, "heavy");
        let slept = 5e-6 * (points as f64 + 2.0 * heavy);
        assert!(
            number(iteration, "computed") >= slept - 1e-6,
            "{slept}: {iteration}"
        );
        assert!((0.1..0.6).contains(&(heavy / points as f64)), "{iteration}");
    }
    let points = |place: usize| number(&factoring[place], "points");
    assert!(
        points(11) > points(0),
        "points are added where the front stretches"
    );
    Ok(())
}

#[test]
fn adjusting_factoring_writes_the_factors_of_a_running_simulator_and_not_its_results() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let load = "points=2000 heavy=1 threshold=0.206";
    let job = start(&format!(
        "{load} realtime=1 iterations=1000000 point_us=100 serial_us=20000"
    ))?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", "adjusting-factoring", "--apply"])?;
    job.open("go")?;
    // 1/F0 = 1 + c and 1/F1 = 2 + c, where both factors come from the same evaluation.
    let by_the_model = |iteration: &Value| {
        let (first, second, later) = (
            number(iteration, "f0"),
            number(iteration, "f1"),
            number(iteration, "f2"),
        );
        first != 0.5 && later != 0.5 && (1.0 / second - 1.0 / first - 1.0).abs() < 0.01
    };
    stop_when(&job, "an iteration with the factors of the model", by_the_model)?;
    let (iterations, result) = finish(job)?;
    let report = agent.finish(SOON)?;
    let reported = agent.lines.text();
    for name in ["f0", "f1", "f2"] {
        assert_eq!(
            number(&iterations[0], name),
            0.5,
            "the first iteration: {reported}"
        );
        let within = |iteration: &Value| (0.0..=1.0).contains(&number(iteration, name));
        assert!(iterations.iter().all(within), "{reported}");
    }
    let changes = report["changes"].as_array().ok_or("no changes")?;
    assert!(
        changes
            .iter()
            .all(|change| change["rank"] == 0 && change["rule"] == "adjusting-factoring"),
        "{reported}"
    );
    assert_eq!(front_alone(load, &result["iterations"])?, result);
    Ok(())
}

/// A slow network and 2000 points of 40 µs: A = 2m0 + αλV = 70 ms and B = (1-α)λV + Tc = 150 ms, so the index
/// is minimal at two of four workers (x* = B/A). When each point takes three times as long, B is 310 ms and
/// the minimum is at four.
#[test]
fn workers_by_index_parks_a_rank_at_the_entry_of_an_iteration_and_calls_it_back_when_work_grows() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let load = "points=2000 point_bytes=1000 threshold=2 heavy=2 heavy_from=40 speed=0.001";
    let slow = "realtime=1 iterations=1000000 point_us=40 byte_ns=35 latency_us=50 original=1";
    let job = start(&format!("{load} {slow}"))?;
    let folder = tempfile::tempdir()?;
    let rule = unguarded(folder.path(), "workers-by-index")?;
    let per_byte = ["--param", "per_byte=35ns/1B"];
    let flags = [&["--rules", "none", &rule, "--apply"], &per_byte[..]].concat();
    let mut agent = Agent::attach_armed(job.pid(), &flags)?;
    job.open("go")?;
    let is_back = |iteration: &Value| number(iteration, "number") >= 40.0 && iteration["workers"] == WORKERS;
    stop_when(&job, "all workers in use again", is_back)?;
    let (iterations, result) = finish(job)?;
    let report = agent.finish(SOON)?;
    let reported = agent.lines.text();
    let used: Vec<u64> = iterations
        .iter()
        .filter_map(|iteration| iteration["workers"].as_u64())
        .collect();
    // The simulator exits with an error if the number changes within an iteration.
    assert_eq!(used[0], WORKERS as u64, "{reported}");
    assert!(used[..40].contains(&2), "{used:?}\n{reported}");
    let first = &report["changes"][0];
    assert_eq!(
        (&first["variable"], &first["new"]),
        (&"NW".into(), &"2".into()),
        "{reported}"
    );
    assert_ne!(
        first["mechanism"], "plain write",
        "it waited for the entry: {first}"
    );
    assert_eq!(front_alone(load, &result["iterations"])?, result);
    Ok(())
}

/// On a network that is busy nearly all the time, 4 workers have an index that is 13 % above that of 3: sending takes
/// 240 ms, and computing 138 ms. Batches are balanced first.
#[test]
fn balanced_workers_balances_first_and_predicts_iterations_with_batches_within_a_tenth() -> Outcome {
    let _machine = require!(calm: Root, Mpich);
    let load = "points=2000 point_bytes=1000 threshold=0.3 heavy=2 speed=0.001";
    let slow = "realtime=1 iterations=1000000 point_us=40 byte_ns=120 latency_us=50";
    let job = start(&format!("{load} {slow}"))?;
    let folder = tempfile::tempdir()?;
    let rule = unguarded(folder.path(), "balanced-workers")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule, "--apply"])?;
    job.open("go")?;
    let has_fewer = |iteration: &Value| number(iteration, "number") >= 40.0 && iteration["workers"] == 3;
    stop_when(&job, "fewer workers", has_fewer)?;
    let (iterations, result) = finish(job)?;
    let report = agent.finish(SOON)?;
    let reported = agent.lines.text();
    let is_balanced = |iteration: &Value| number(iteration, "f0") != 0.5;
    assert!(
        iterations.iter().any(is_balanced),
        "no factor was written: {reported}"
    );
    let changes = report["changes"].as_array().ok_or("no changes")?;
    // On a busy machine the first measured times may ask for the factors that are there already.
    let first = changes.first().ok_or("no changes")?;
    assert_ne!(first["variable"], "NW", "the work is balanced first: {reported}");
    let expected = changes.iter().find_map(|change| change["expect"].as_str());
    let expected = expected.and_then(|text| text.strip_suffix(" ms")?.parse::<f64>().ok());
    let expected = expected.ok_or_else(|| format!("{changes:#?}"))?;
    let mut seconds: Vec<f64> = iterations
        .iter()
        .filter(|iteration| iteration["workers"] == 3)
        .map(|iteration| number(iteration, "seconds"))
        .collect();
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2] * 1e3;
    assert!(
        (expected / median - 1.0).abs() < 0.1,
        "{expected} ms, and {median} ms: {reported}"
    );
    assert_eq!(front_alone(load, &result["iterations"])?, result);
    Ok(())
}
