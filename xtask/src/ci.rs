//! `cargo xtask test`: the steps of continuous integration, for developers to run before a push.
//!
//! Steps are timed; the first that fails is named and ends the run. Missing packages are installed first. A
//! test that cannot run is a failure, not a skip. A few tests that fail beside others are repeated alone and
//! listed (`twice`).
//!
//! The whole-program tests run the unoptimised `tuneagent`, which is built anyway; the slow parts of the
//! product run in the kernel and in the target. `--long` adds: the same tests on the release build; five
//! minutes for each fuzz target; many more streams for the law tests of the rule language; thousands of
//! changes of running programs, also at sync points, and hundreds of crashes; what is distributed; loading and
//! counting on Linux 6.1 in a virtual machine; the quick form of the experiments that claim nothing but times;
//! and that of every benchmark, which fails if a figure is far off its target. `--dist` builds and tests what is
//! distributed, and nothing else.

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use crate::process::{cargo, find_program, host_in_variables, run};
use crate::setup::{self, Brought, Purpose};
use crate::{
    Result, deny, dist, ebpf, experiment, fuzz, minimum, process, slowest, target_folder, twice, vm,
};

/// Threads of the whole-program tests. Most of them wait for their turn: `tests/src/turns.rs` limits which run at
/// the same time, and the more wait, the more of one kind run one after the other.
const TEST_THREADS: &str = "32";

/// Number of experiments that run at the same time.
const EXPERIMENTS_AT_ONCE: usize = 3;

/// Cases of the law tests of the crate `rules`. Without `--long` there are 200.
const LAW_CASES: &str = "10000";

/// Builds the BPF objects in a target folder of its own; for half of the time one CPU is enough.
const OBJECT: &str = "object";

/// Experiments mostly wait, and their quick form claims nothing about times.
const EXPERIMENTS: &str = "experiments, quick form";

/// Mostly wait for programs that they start, and look at nothing else.
const TESTS_INSIDE: &str = "tests inside";
const TESTS: &str = "tests";

/// Steps that run beside those that follow, up to the whole programs.
const BESIDE: [&str; 4] = [OBJECT, EXPERIMENTS, TESTS_INSIDE, TESTS];

/// Experiments that claim nothing but times and verdicts of a guard, which depend on how quiet the machine is.
/// Their quick form settles nothing that the whole programs or `wildfire` do not, so it runs with `--long` only.
const EXPERIMENTS_OF_TIMES: [&str; 5] = ["index", "nothing", "resize", "runtime", "untouched"];

/// The step beside which nothing else may run: its programs use all CPUs, and it looks at all sessions.
const WHOLE_PROGRAMS: &str = "whole programs";

const SETUP: &str = "setup";

/// What is distributed is built, which takes long, and tested.
const DISTRIBUTION: &str = "distribution";

type Step<'a> = (&'a str, Box<dyn Fn() -> Result<()> + Sync + 'a>);

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    let (flags, wanted) = match flags.iter().position(|flag| *flag == "--step") {
        Some(at) => (&flags[..at], &flags[at + 1..]),
        None => (flags, &[][..]),
    };
    crate::only_flags("test", flags, &["--long", "--dist", "--step NAME..."])?;
    let root = crate::root();
    let started = Instant::now();
    let is_long = flags.contains(&"--long");
    let is_dist = flags.contains(&"--dist");
    // Installs for all steps at the start, so that the user gets no prompt after an hour of tests.
    let needed: &[Purpose] = match is_long {
        true => &[
            Purpose::Build,
            Purpose::Test,
            Purpose::Bench,
            Purpose::Vm,
            Purpose::Dist,
        ],
        false if is_dist => &[Purpose::Build, Purpose::Dist],
        false => &[Purpose::Build, Purpose::Test],
    };
    let mut steps = steps(&root, needed);
    if is_long || is_dist {
        steps.extend(long_steps(&root));
    }
    if is_dist {
        steps = only(steps, &[SETUP, DISTRIBUTION])?;
    }
    if !wanted.is_empty() {
        steps = only(steps, wanted)?;
    }
    slowest::forget(&root);
    all(&steps)?;
    print!("{}", slowest::table(&root));
    let defects = twice::defects();
    if !defects.is_empty() {
        println!(
            "defects: {} passed only alone: {}",
            defects.len(),
            defects.join(", ")
        );
    }
    println!("all {} steps passed in {:.0} s", steps.len(), seconds(started));
    Ok(())
}

/// Runs the steps in order. Those of `BESIDE` end before the next step that runs programs.
fn all(steps: &[Step<'_>]) -> Result<()> {
    std::thread::scope(|scope| {
        let mut beside = Vec::new();
        let join = |beside: &mut Vec<ScopedJoinHandle<'_, Result<()>>>| {
            let mut ended = beside.drain(..).map(ScopedJoinHandle::join);
            ended.try_for_each(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
        };
        for step in steps {
            if BESIDE.contains(&step.0) {
                beside.push(scope.spawn(|| one(step)));
                continue;
            }
            if step.0 == WHOLE_PROGRAMS {
                join(&mut beside)?;
            }
            one(step)?;
        }
        join(&mut beside)
    })
}

fn one((name, step): &Step<'_>) -> Result<()> {
    println!("==> {name}");
    let began = Instant::now();
    step().map_err(|error| format!("{error}\nthe step '{name}' failed after {:.1} s", seconds(began)))?;
    println!("    {name}: {:.1} s", seconds(began));
    Ok(())
}

/// Selects the steps with these names, in list order, to repeat a failed step without those before it.
fn only<'a>(steps: Vec<Step<'a>>, wanted: &[&str]) -> Result<Vec<Step<'a>>> {
    let names: Vec<&str> = steps.iter().map(|(name, _)| *name).collect();
    match wanted.iter().find(|name| !names.contains(name)) {
        None => Ok(steps
            .into_iter()
            .filter(|(name, _)| wanted.contains(name))
            .collect()),
        Some(unknown) => Err(format!(
            "no step is called '{unknown}'; there are:\n  {}",
            names.join("\n  ")
        )),
    }
}

fn step<'a>(name: &'a str, run: impl Fn() -> Result<()> + Sync + 'a) -> Step<'a> {
    (name, Box::new(run))
}

/// All steps: quick ones first, those that attach to programs last.
fn steps<'a>(root: &'a Path, needed: &'a [Purpose]) -> Vec<Step<'a>> {
    let build = move |words: &'static str| move || run(&mut cargo(root, words));
    let tests = move |words: &'static str| move || twice::run(&|| Ok(cargo(root, words)));
    vec![
        step(SETUP, move || setup::bring(needed, false).map(|_: Brought| ())),
        step("format", build("fmt --all --check")),
        step(OBJECT, || ebpf::check(root, true)),
        step("supply chain", || deny::check(root)),
        step("minimum Rust", || minimum::check(root)),
        // With `--tests`: for the programs alone cargo unifies fewer features and would build nearly
        // everything twice.
        step("build", build("build --quiet --workspace --lib --bins --tests")),
        step(EXPERIMENTS, move || {
            quick_experiments(root, |name| !EXPERIMENTS_OF_TIMES.contains(&name))
        }),
        step(TESTS_INSIDE, tests("test --quiet --workspace --lib --bins")),
        step(
            TESTS,
            tests("test --quiet --workspace --exclude tuneagent-e2e --test *"),
        ),
        step(
            "clippy",
            build("clippy --quiet --workspace --all-targets -- -D warnings"),
        ),
        step("documentation", move || documentation(root)),
        step("fuzz targets", move || fuzz::check(root)),
        step(
            "examples in the documentation",
            build("test --quiet --workspace --doc"),
        ),
        step(WHOLE_PROGRAMS, move || {
            twice::run(&|| program_tests(root, "", &[]))
        }),
    ]
}

fn long_steps(root: &Path) -> Vec<Step<'_>> {
    let long = move |words: &'static str| move || run(cargo(root, words).env("TUNEAGENT_LONG", "1"));
    vec![
        step("fuzz targets, long", move || fuzz::long(root)),
        step("the law of the rules, 10 000 cases", move || {
            let mut command = cargo(root, "test --quiet --release -p tuneagent-rules --lib law::");
            run(command.env("PROPTEST_CASES", LAW_CASES))
        }),
        // Optimised, because most of the time is spent decoding instructions.
        step(
            "changes of running programs, long",
            long("test --quiet --release --package tuneagent-tuner --test suite"),
        ),
        step(DISTRIBUTION, move || dist::check(root)),
        step(
            "a thousand changes at sync points, each case",
            long("test --release --package tuneagent --test sync -- --nocapture"),
        ),
        step("Linux 6.1, in a virtual machine", move || vm::oldest(root)),
        step("whole programs, release", move || {
            twice::run(&|| program_tests(root, "--release", &[]))
        }),
        step("experiments of times, quick form", move || {
            quick_experiments(root, |name| EXPERIMENTS_OF_TIMES.contains(&name))
        }),
        step("benchmarks, quick form", move || quick_benches(root)),
        step("what wrong decisions cost a run, and rules a call", move || {
            let mut tests = program_tests(root, "--release", &[])?;
            tests.args(["--", "guarded::", "cost::", "--nocapture"]);
            run(tests.env("TUNEAGENT_LONG", "1"))
        }),
    ]
}

fn documentation(root: &Path) -> Result<()> {
    let mut command = cargo(root, "doc --quiet --no-deps --workspace --document-private-items");
    run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// Command for the whole-program tests. They attach probes and need root. Cargo runs as the user; only the
/// test binary goes through sudo, as cargo's "runner". `settings` are environment variables for the tests.
pub(crate) fn program_tests(root: &Path, profile: &str, settings: &[(&str, &str)]) -> Result<Command> {
    // The entire workspace: for one package alone cargo unifies fewer features and would rebuild half of the
    // dependencies.
    let mut command = cargo(root, "test --workspace --test e2e");
    command.args(profile.split_whitespace());
    // Only `--long` runs these tests on the release build.
    let is_long = !profile.is_empty();
    if is_long {
        command.env("TUNEAGENT_LONG", "1");
    }
    command.envs(settings.iter().copied());
    let times = slowest::file(root);
    command.env(slowest::VARIABLE, &times);
    command.env("RUST_TEST_THREADS", TEST_THREADS);
    if !rustix::process::geteuid().is_root() {
        let sudo = find_program("sudo")
            .ok_or("the whole-program tests need root, and sudo is not here; run this command as root")?;
        // Created as the user, so that files that root writes into it can be removed without root.
        let programs = target_folder(root)
            .join(if profile.is_empty() { "debug" } else { "release" })
            .join("programs");
        std::fs::create_dir_all(&programs).map_err(|error| format!("{}: {error}", programs.display()))?;
        // sudo clears the environment; `env` sets the variables again.
        let mut runner = OsString::from(sudo);
        runner.push(format!(
            " env TUNEAGENT_REQUIRE_ALL=1 RUST_TEST_THREADS={TEST_THREADS}"
        ));
        if is_long {
            runner.push(" TUNEAGENT_LONG=1");
        }
        for (variable, value) in settings {
            runner.push(format!(" {variable}={value}"));
        }
        runner.push(format!(" {}={}", slowest::VARIABLE, times.display()));
        runner.push(" PATH=");
        runner.push(std::env::var_os("PATH").unwrap_or_default());
        command.env(format!("CARGO_TARGET_{}_RUNNER", host_in_variables()?), runner);
    }
    Ok(command)
}

/// An xtask command in its quick form, as root, with the existing build of the product.
fn quick(root: &Path, profile: &str, words: &[&str]) -> Result<Command> {
    // Not the running executable: building the workspace has replaced its file.
    let this = target_folder(root).join("debug/xtask");
    let mut agent = OsString::from("TUNEAGENT_BIN=");
    agent.push(target_folder(root).join(profile).join("tuneagent"));
    let mut command = match rustix::process::geteuid().is_root() {
        true => Command::new("env"),
        false => {
            let sudo = find_program("sudo").ok_or_else(|| {
                format!(
                    "{} needs root, and sudo is not here; run this command as root",
                    words.join(" ")
                )
            })?;
            let mut path = OsString::from("PATH=");
            path.push(std::env::var_os("PATH").unwrap_or_default());
            let mut command = Command::new(sudo);
            // PATH and cargo's folders are those of the caller.
            command.args(["-E", "env"]).arg(path);
            command
        }
    };
    command.arg(agent).arg(this).args(words).arg("--quick");
    Ok(command)
}

/// Runs some experiments, several at a time: their programs sleep their compute time, and the quick form
/// claims nothing about times. The output of each is printed in one piece, and every failed one is listed.
fn quick_experiments(root: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<()> {
    let names: Vec<&str> = experiment::names().filter(|name| is_wanted(name)).collect();
    let left = Mutex::new(names.into_iter());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let run = |name: &str| {
        let mut command = quick(root, "debug", &["experiment", name])?;
        let output = command
            .output()
            .map_err(|error| process::cannot_start(&command, &error))?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let all = || {
            std::iter::from_fn(next)
                .filter_map(|name| run(name).err())
                .collect::<Vec<_>>()
        };
        let running: [_; EXPERIMENTS_AT_ONCE] = std::array::from_fn(|_| scope.spawn(all));
        let ended = running.map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.concat()
    });
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// Runs every benchmark; each checks that no figure is far off its target. The caller, not root, builds the
/// programs that measure.
fn quick_benches(root: &Path) -> Result<()> {
    run(&mut cargo(
        root,
        "bench --quiet --profile dev --package tuneagent --benches --no-run",
    ))?;
    run(&mut quick(root, "release", &["bench", "all"])?)
}

fn seconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64()
}
