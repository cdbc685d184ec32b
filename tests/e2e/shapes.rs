//! Speedups of programs that scale as those of SelfAnalyzer's experiments (chapter 4 of Corbalan's thesis, section
//! 4.6): measured for the team sizes that occur, predicted for others.

use serde_json::Value;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Job;
use tuneagent_e2e::needs::{calm, is_long, machine};
use tuneagent_e2e::{Outcome, programs, require, wait};

use crate::expected::SOON;
use crate::iterations::{number, wait_for_report};
use crate::refused::newest;
use crate::scaling::{sizes, start_with};

/// A speedup may differ from the closed form by this share of it. The source has 12 to 16 % for programs that scale,
/// and 30 % for the worst one.
const WORST: f64 = 0.16;

/// Bound on the median of these differences.
const MEDIAN: f64 = 0.05;

/// Team sizes that occur.
const SIZES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

struct Shape {
    name: &'static str,
    /// Times of an iteration with one thread, in microseconds.
    sequential: f64,
    work: f64,
    /// Runs of an inner loop, in which half of the work is done.
    inner: u32,
    /// Share of the work that is left with two threads, and with more.
    left: [f64; 2],
    /// Iterations with a team size before it takes the next one.
    iterations: u64,
}

const SHAPES: [Shape; 5] = [
    shape("tomcatv", (1_000.0, 64_000.0), 0, [1.0, 1.0], 15),
    shape("hydro2d", (4_000.0, 60_000.0), 4, [1.0, 1.0], 15),
    shape("bt", (10_000.0, 400_000.0), 0, [1.0, 1.0], 5),
    shape("swim", (1_000.0, 64_000.0), 0, [0.8, 0.6], 15),
    shape("apsi", (18_000.0, 2_000.0), 0, [1.0, 1.0], 15),
];

const fn shape(
    name: &'static str,
    (sequential, work): (f64, f64),
    inner: u32,
    left: [f64; 2],
    iterations: u64,
) -> Shape {
    Shape {
        name,
        sequential,
        work,
        inner,
        left,
        iterations,
    }
}

impl Shape {
    /// Arguments of the program with these team sizes, one after the other.
    fn words(&self, sizes: &str) -> String {
        let Shape {
            sequential,
            work,
            inner,
            left: [two, more],
            iterations,
            ..
        } = self;
        format!("{sequential} {work} {inner} {two} {more} {iterations} {sizes}")
    }

    fn program(&self, sizes: &str, environment: &str) -> Outcome<Job> {
        start_with(programs::openmp("shapes")?, environment, &self.words(sizes))
    }

    fn start(&self) -> Outcome<(Job, Agent)> {
        let job = self.program("1 2 4 8", "OMP_DYNAMIC=false")?;
        let agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
        Ok((job, agent))
    }

    /// Time of an iteration in microseconds.
    fn iteration(&self, threads: f64) -> f64 {
        let left = match threads {
            ..2.0 => 1.0,
            ..3.0 => self.left[0],
            _ => self.left[1],
        };
        self.sequential + self.work * left / threads
    }

    /// Differences of the measured speedups from the closed form, as shares of it; `None` until each size was measured
    /// often enough.
    fn differences(&self, report: &Value) -> Option<Vec<f64>> {
        let sizes = sizes(report);
        let of = |(size, threads): (&Value, f64)| {
            let speedup = self.iteration(1.0) / self.iteration(threads);
            let is_measured = size["iterations"].as_u64() >= Some(8);
            is_measured.then(|| (number(&size["speedup"]) - speedup).abs() / speedup)
        };
        let all: Option<Vec<f64>> = sizes.iter().zip(SIZES).map(of).collect();
        all.filter(|all| all.len() == SIZES.len())
    }
}

/// In short runs three of them: one that scales, one that gains more than its threads, and one that does not scale.
fn tried() -> impl Iterator<Item = &'static Shape> {
    let is_tried = |shape: &&Shape| is_long() || ["tomcatv", "swim", "apsi"].contains(&shape.name);
    SHAPES.iter().filter(is_tried)
}

#[test]
fn speedups_of_the_five_shapes_are_those_of_the_closed_form() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let started: Vec<(Job, Agent)> = tried().map(Shape::start).collect::<Outcome<_>>()?;
    let mut differences = Vec::new();
    for (shape, (mut job, mut agent)) in tried().zip(started) {
        // Iterations that are held up on a busy machine weigh less the more there are.
        wait_for_report(&agent, |now| {
            let all = shape.differences(now);
            all.is_some_and(|all| all.iter().all(|difference| *difference <= WORST))
        })?;
        let report = agent.stop()?;
        job.open("stop")?;
        job.end(SOON)?;
        differences.extend(shape.differences(&report).unwrap_or_default());
        let speedups: Vec<f64> = sizes(&report)
            .iter()
            .map(|size| number(&size["speedup"]))
            .collect();
        let rises = speedups.windows(2).all(|pair| pair[1] > 0.95 * pair[0]);
        assert!(rises, "{}: {speedups:?}", shape.name);
        let predicted = &report["processes"][0]["openmp"]["scaling"]["predicted"];
        assert_eq!(
            predicted["sizes"][0]["threads"], 16,
            "{}: {predicted}",
            shape.name
        );
        let gains = |size: &Value| size["lost"]["work_inflation"].as_f64() < Some(-0.2);
        let has_gained = sizes(&report).iter().any(gains);
        assert_eq!(has_gained, shape.left[1] < 1.0, "{}: {report:#}", shape.name);
    }
    differences.sort_by(f64::total_cmp);
    let median = differences[differences.len() / 2];
    assert!(median <= MEDIAN, "{differences:?}");
    Ok(())
}

/// After a tenth of a run of 60 s the time that is left is known to a tenth, while team sizes alternate.
#[test]
fn the_time_that_is_left_of_the_five_shapes_is_known_after_a_tenth_of_the_run() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let folder = tempfile::tempdir()?;
    let mut started = Vec::new();
    for shape in tried() {
        let step_s = f64::midpoint(shape.iteration(4.0), shape.iteration(8.0)) / 1e6;
        let total = (60.0 / step_s).round();
        let own = folder.path().join(shape.name);
        std::fs::create_dir(&own)?;
        let program = [programs::openmp("shapes")?, own.clone()].map(|path| path.display().to_string());
        let words = shape.words("4 8");
        let command = ["/usr/bin/env", "OMP_DYNAMIC=false"]
            .into_iter()
            .map(str::to_owned);
        let command: Vec<String> = command
            .chain(program)
            .chain(words.split_whitespace().map(str::to_owned))
            .collect();
        let series = own.join("series").display().to_string();
        let flags = [
            "--rules",
            "none",
            "--iterations",
            &total.to_string(),
            "--snapshots",
            &series,
            "--every",
            "500ms",
        ];
        started.push((shape, own, total, Agent::starting(&flags, &command)?));
    }
    for (shape, own, total, mut agent) in started {
        let after_a_tenth = || {
            let now = newest(&own.join("series"))?;
            let progress = now.map(|now| now["progress"].clone()).unwrap_or_default();
            let is_known = progress["remaining_s"].is_number() && number(&progress["step"]) >= total / 10.0;
            Ok(is_known.then_some(progress))
        };
        let progress = wait::wait_for("a tenth of the run", SOON, after_a_tenth)?;
        std::fs::write(own.join("stop"), "")?;
        let end = agent.lines.events("end", 1, SOON)?.remove(0);
        agent.finish(SOON)?;
        // Its own pace: the host may take a CPU away.
        let step_s = number(&end["seconds"]) / number(&end["iterations"]);
        let left_s = (total - number(&progress["step"])) * step_s;
        let said_s = number(&progress["remaining_s"]);
        assert!(
            (said_s / left_s - 1.0).abs() <= 0.1,
            "{}: {left_s} s are left: {progress}",
            shape.name
        );
    }
    Ok(())
}

/// Visits of team sizes find the fastest one within their budget, and the program's own size is restored.
#[test]
fn sizes_are_visited_within_the_budget_and_the_own_one_is_restored() -> Outcome {
    require!(Root, Cc);
    let _machine = calm();
    // It has 16 threads and does not scale: visits cost little.
    let apsi = &SHAPES[4];
    let mut job = apsi.program("0", "OMP_DYNAMIC=false OMP_NUM_THREADS=16")?;
    let flags = ["--rules", "none", "--apply", "--scaling=20%"];
    let mut agent = Agent::attach_armed(job.pid(), &flags)?;
    let visited = |report: &Value| -> Vec<f64> {
        let sizes = sizes(report);
        sizes.iter().map(|size| number(&size["threads"])).collect()
    };
    let is_back = |report: &Value| report["processes"][0]["openmp"]["scaling"]["threads"] == 16;
    // The reference, and the size between it and the own one; then a size whose time is no less on both sides.
    let now = wait_for_report(&agent, |now| visited(now).len() >= 3 && is_back(now))?;
    let took = |threads: f64| {
        let sizes = sizes(&now);
        let size = sizes
            .iter()
            .find(|size| size["threads"] == threads)
            .cloned()
            .unwrap_or_default();
        number(&size["iteration_s"]) * 1e6
    };
    for threads in [4.0, 16.0] {
        let expected = apsi.iteration(threads);
        assert!(
            (took(threads) / expected - 1.0).abs() < WORST,
            "{threads}: {now:#}"
        );
    }
    let report = agent.stop()?;
    let changes = report["changes"].as_array().cloned().unwrap_or_default();
    assert!(
        changes.iter().any(|change| change["rule"] == "scaling"),
        "{report:#}"
    );
    let is_reverted = |change: &Value| change["outcome"] == "reverted";
    assert!(changes.iter().all(is_reverted), "{changes:#?}");
    let text = agent.lines.text();
    assert!(
        text.contains("threads for some iterations, to measure how the program scales"),
        "{text}"
    );
    // A second session sees the program's own size.
    let agent = Agent::attach_armed(job.pid(), &["--rules", "none"])?;
    wait_for_report(&agent, |now| visited(now) == [16.0])?;
    drop(agent);
    job.open("stop")?;
    job.end(SOON)?;
    Ok(())
}

/// Run time of each shape with 16 threads, with a session of these flags or without one, and the sum that it computes.
fn run_times(flags: Option<&[&str]>) -> Outcome<Vec<(f64, u64)>> {
    let start = |shape: &Shape| -> Outcome<(Job, Option<Agent>)> {
        let limit = (RUN_S * 1e6 / shape.iteration(16.0)).round();
        let environment = format!("OMP_DYNAMIC=false OMP_NUM_THREADS=16 LIMIT={limit}");
        let job = shape.program("0", &environment)?;
        let agent = flags.map(|flags| Agent::attach(job.pid(), flags)).transpose()?;
        Ok((job, agent))
    };
    let started: Vec<_> = SHAPES.iter().map(start).collect::<Outcome<_>>()?;
    let ended = started.into_iter().map(|(mut job, agent)| {
        job.finish(10 * SOON)?;
        let end = job.events("end", 1, SOON)?.remove(0);
        if let Some(mut agent) = agent {
            agent.finish_with(SOON, &[0, 1])?;
        }
        Ok((number(&end["seconds"]), end["sum"].as_u64().ok_or("no sum")?))
    });
    ended.collect()
}

/// Length of a run, in seconds.
const RUN_S: f64 = 60.0;

/// A run may be longer than the budget allows by this share of it, for the session's own work, and by the share that
/// other programs of the machine add to a run without a session.
const OWN_WORK: f64 = 0.02;

/// Run times with visits of team sizes and without, in both orders (S4-30). A program that does not scale loses nothing
/// (S4-32). The sums do not depend on the sizes.
#[test]
fn visits_cost_a_run_no_more_than_their_budget_and_change_no_result() -> Outcome {
    require!(Root, Cc);
    if !is_long() {
        return Ok(());
    }
    let _machine = machine();
    let flags = ["--rules", "none", "--apply", "--scaling=1%", "--budget", "1%"];
    let orders = [None, Some(&flags[..]), Some(&flags[..]), None];
    let runs: Vec<Vec<(f64, u64)>> = orders.into_iter().map(run_times).collect::<Outcome<_>>()?;
    for (place, shape) in SHAPES.iter().enumerate() {
        let [before, first, second, after] = [0, 1, 2, 3].map(|run| runs[run][place]);
        let longer = (first.0 + second.0) / (before.0 + after.0) - 1.0;
        let disturbed = ((before.0 + after.0) / (2.0 * RUN_S) - 1.0).max(0.0);
        println!(
            "{}: {:.2} % longer, {:.2} % by others",
            shape.name,
            longer * 100.0,
            disturbed * 100.0
        );
        assert!(
            longer <= 0.01 + OWN_WORK + disturbed,
            "{}: {longer}, {disturbed}: {runs:?}",
            shape.name
        );
        assert!(
            [first, second, after].iter().all(|run| run.1 == before.1),
            "{runs:?}"
        );
    }
    Ok(())
}
