//! `cargo xtask test`: what continuous integration runs, and so what a developer runs before a push.
//!
//! A list of steps, each timed; the first that fails is named and ends the run. What the tests need is installed
//! first; nothing is skipped in silence: where a test cannot run, that is a failure. A few that fail beside others are tried once more,
//! alone, and named (`twice`).
//!
//! The whole-program tests run the unoptimised `tuneagent`: it is linked anyway, and what is slow in the product
//! happens in the kernel and in the target, not in the agent. `--long` runs them once more on the release
//! build, each fuzz target for five minutes, the law of the rule language on many more streams, and the
//! tests that change running programs with thousands of changes, at sync points too, and hundreds of crashes, of whole programs too; and
//! whether Linux 6.1 takes our programs and what they count there, in a virtual machine; and every benchmark in its quick form, which fails
//! where a figure is far off its target.

use std::ffi::OsString;
use std::panic::resume_unwind;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::process::{cargo, find_program, host_in_variables, run};
use crate::setup::{self, Brought, Purpose};
use crate::{
    Result, deny, ebpf, experiment, fuzz, minimum, process, release, slowest, target_folder, twice, vm,
};

/// Threads of the whole-program tests. Most of them wait; how many may run beside each other is known to them (`tests/src/turns.rs`).
const TEST_THREADS: &str = "3";

/// Groups of experiments that run side by side.
const EXPERIMENTS_AT_ONCE: usize = 3;

/// Cases of the law of the crate `rules`; each run without `--long` has 200.
const LAW_CASES: &str = "10000";

/// The experiments mostly wait, and claim nothing about times in their quick form: they run beside the steps that attach to nothing.
const EXPERIMENTS: &str = "experiments, quick form";

/// Steps beside which nothing else may run: they attach to programs that fill the machine.
const RUN_PROGRAMS: [&str; 2] = ["tests", "whole programs"];

type Step<'a> = (&'a str, Box<dyn Fn() -> Result<()> + Sync + 'a>);

pub(crate) fn main(flags: &[&str]) -> Result<()> {
    let (flags, wanted) = match flags.iter().position(|flag| *flag == "--step") {
        Some(at) => (&flags[..at], &flags[at + 1..]),
        None => (flags, &[][..]),
    };
    crate::only_flags("test", flags, &["--long", "--step NAME..."])?;
    let root = crate::root();
    let started = Instant::now();
    let is_long = flags.contains(&"--long");
    // All of it at once: who has waited an hour for the steps before does not want to be asked then.
    let needed: &[Purpose] = match is_long {
        true => &[Purpose::Build, Purpose::Test, Purpose::Bench, Purpose::Vm],
        false => &[Purpose::Build, Purpose::Test],
    };
    let mut steps = steps(&root, needed);
    if is_long {
        steps.extend(long_steps(&root));
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

/// In their order; the experiments end before the next step that runs programs.
fn all(steps: &[Step<'_>]) -> Result<()> {
    std::thread::scope(|scope| {
        let mut beside = None;
        let join = |beside: &mut Option<std::thread::ScopedJoinHandle<'_, Result<()>>>| match beside.take() {
            Some(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            None => Ok(()),
        };
        for step in steps {
            if step.0 == EXPERIMENTS {
                beside = Some(scope.spawn(|| one(step)));
                continue;
            }
            if RUN_PROGRAMS.contains(&step.0) {
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

/// The steps of these names, in their order in the list: what failed is tried again without what passed before it.
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

/// The quick ones first; those that attach to programs last.
fn steps<'a>(root: &'a Path, needed: &'a [Purpose]) -> Vec<Step<'a>> {
    let build = move |words: &'static str| move || run(&mut cargo(root, words));
    let tests = move |words: &'static str| move || twice::run(&|| Ok(cargo(root, words)));
    vec![
        step("setup", move || setup::bring(needed, false).map(|_: Brought| ())),
        step("format", build("fmt --all --check")),
        step("object", || ebpf::check(root, true)),
        step("supply chain", || deny::check(root)),
        step("minimum Rust", || minimum::check(root)),
        // With the tests: for the programs alone cargo chooses fewer features, with which nearly all would be built twice.
        step("build", build("build --quiet --workspace --lib --bins --tests")),
        step(EXPERIMENTS, move || quick_experiments(root)),
        step("tests inside", tests("test --quiet --workspace --lib --bins")),
        step(
            "clippy",
            build("clippy --quiet --workspace --all-targets -- -D warnings"),
        ),
        step("documentation", move || documentation(root)),
        step("fuzz targets", move || fuzz::check(root)),
        step(
            "tests",
            tests("test --quiet --workspace --exclude tuneagent-e2e --test *"),
        ),
        step(
            "examples in the documentation",
            build("test --quiet --workspace --doc"),
        ),
        step("whole programs", move || {
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
        // Optimised: most of the time goes into decoding instructions.
        step(
            "changes of running programs, long",
            long("test --quiet --release --package tuneagent-tuner --test suite"),
        ),
        step("release build", move || release::build(root)),
        step(
            "a thousand changes at sync points, each case",
            long("test --release --package tuneagent --test sync -- --nocapture"),
        ),
        step("Linux 6.1, in a virtual machine", move || vm::oldest(root)),
        step("whole programs, release", move || {
            twice::run(&|| program_tests(root, "--release", &[]))
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

/// The tests attach probes and so need root. Cargo itself stays with the user: only the test binary goes through
/// sudo, as cargo's "runner".
/// `settings` are variables that the tests read.
pub(crate) fn program_tests(root: &Path, profile: &str, settings: &[(&str, &str)]) -> Result<Command> {
    // Of the whole workspace: for one package alone cargo chooses fewer features, with which half of what it needs would be built anew.
    let mut command = cargo(root, "test --workspace --test e2e");
    command.args(profile.split_whitespace());
    // The release build is tried by `--long` alone.
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
        // Made by us, so that what root puts into it can be removed without root.
        let programs = target_folder(root)
            .join(if profile.is_empty() { "debug" } else { "release" })
            .join("programs");
        std::fs::create_dir_all(&programs).map_err(|error| format!("{}: {error}", programs.display()))?;
        // `env` restores what sudo takes away.
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

/// A chore in a form that says only whether it works, as root and with the build of the product that is there.
fn quick(root: &Path, profile: &str, words: &[&str]) -> Result<Command> {
    // Not this program's own file: building the workspace has replaced it.
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
            // Where cargo is, and what it has, is the caller's.
            command.args(["-E", "env"]).arg(path);
            command
        }
    };
    command.arg(agent).arg(this).args(words).arg("--quick");
    Ok(command)
}

/// Every experiment, some at a time: their programs sleep their compute time, and the quick form settles no claim about times. What one group
/// says is shown together, and every group that fails.
fn quick_experiments(root: &Path) -> Result<()> {
    let names: Vec<&str> = experiment::names().collect();
    let group = |first: usize| {
        let of = names.iter().skip(first).step_by(EXPERIMENTS_AT_ONCE).copied();
        let words: Vec<&str> = std::iter::once("experiment").chain(of).collect();
        let mut command = quick(root, "debug", &words)?;
        let output = command
            .output()
            .map_err(|error| process::cannot_start(&command, &error))?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    };
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let group = &group;
        let running: Vec<_> = (0..EXPERIMENTS_AT_ONCE)
            .map(|first| scope.spawn(move || group(first)))
            .collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// Every benchmark, which asserts that nothing is far off; what they measure with is built by the caller, not by root.
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
