//! Duration of each action on a program with one thread and on one with many threads under load, compared
//! with MATE (Morajko, Morajko, Margalef, Luque, "MATE: Monitoring, Analysis and Tuning Environment", 2007,
//! table 3.2). Run by `cargo xtask bench actions`.
//!
//! Times are from the request to the last record in the journal, in this process: without the communication
//! with the actuator (tens of microseconds), and with all lookups (symbols, types, mappings). MATE used a
//! different machine.
#![expect(clippy::unwrap_used, reason = "a benchmark says what went wrong by panicking")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;

use plan::{CallRequest, Expression, Invocation, Moment, PatchRequest, Value};
use tuneagent_e2e::line_program::LineProgram;
use tuner::journal::{Reason, StateDir};
use tuner::{
    ActionReceipt, AddressSpace, Author, Hooks, Images, Process, SetRequest, WritablePlace, Writer,
    WriterError,
};

const ROUNDS: usize = 200;

struct Target {
    program: LineProgram,
    directory: tempfile::TempDir,
}

impl Target {
    fn start(arguments: &[&str]) -> Target {
        let directory = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        let build = |source: &str, output: &str, flags: &[&str]| -> PathBuf {
            let output = directory.path().join(output);
            let built = Command::new("cc")
                .args(["-O1", "-g", "-Wl,--build-id"])
                .arg(sources.join(source))
                .arg("-o")
                .arg(&output)
                .args(flags)
                .current_dir(directory.path())
                .status();
            assert!(built.unwrap().success(), "{source} could not be built");
            output
        };
        build("part.c", "libpart.so", &["-shared", "-fPIC"]);
        build("tuned.c", "libtuned.so", &["-shared", "-fPIC"]);
        let program = build("underload.c", "underload", &["-pthread", "libpart.so"]);
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", directory.path());
        Target {
            program: LineProgram::ready(&mut command).unwrap(),
            directory,
        }
    }
}

/// Times of one action, in nanoseconds.
#[derive(Default)]
struct Times {
    took: Vec<u64>,
    held: Vec<u64>,
}

impl Times {
    fn add(&mut self, receipt: &ActionReceipt) {
        self.took.push(receipt.duration_ns);
        self.held.push(receipt.hold_ns);
    }

    fn print(mut self, name: &str, published_ms: Option<f64>) {
        let middle = |times: &mut Vec<u64>| {
            times.sort_unstable();
            (
                times[times.len() / 2] as f64 / 1e6,
                times[times.len() - 1] as f64 / 1e6,
            )
        };
        let ((took, worst), (held, longest)) = (middle(&mut self.took), middle(&mut self.held));
        let (published, ratio) = match published_ms {
            Some(published) => (format!("{published:.3}"), format!("{:.1}", published / took)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        println!("{name:<34}{took:>9.3}{worst:>9.3}{held:>9.3}{longest:>9.3}{published:>12}{ratio:>9}");
    }
}

fn patched(writer: &mut Writer, request: &PatchRequest) -> Result<(Times, Times), WriterError> {
    let (mut there, mut back) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        let receipt = writer.patch(request, Reason::default())?;
        there.add(&receipt);
        let began = std::time::Instant::now();
        writer.revert(receipt.change)?;
        back.took
            .push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        back.held.push(0);
    }
    Ok((there, back))
}

fn patches() -> Vec<(&'static str, PatchRequest, f64)> {
    let insert = |place| PatchRequest::InsertCall {
        function: "note".into(),
        arguments: Invocation::parse("note(5, 0.5, \"noted\")").unwrap().arguments,
        into: "step".into(),
        place,
    };
    let replace = |function: &str, with: &str| PatchRequest::Replace {
        function: function.into(),
        with: with.into(),
    };
    vec![
        ("replace by a jump", replace("sort_a", "sort_b"), 2.0078),
        ("replace by words", replace("part_work", "part_other"), 2.0078),
        ("insert a call at entry", insert(Moment::Entry), 1.308),
        ("insert a call at returns", insert(Moment::Return), 1.308),
        (
            "remove a call",
            PatchRequest::RemoveCall {
                function: "log_state".into(),
                within: Some("step".into()),
            },
            0.254,
        ),
        (
            "set an argument",
            PatchRequest::SetArgument {
                function: "send_block".into(),
                index: 2,
                value_type: None,
                value: Expression::parse("min(original, 64KiB)").unwrap(),
            },
            0.4007,
        ),
    ]
}

fn run(target: &Target) -> Result<(), WriterError> {
    let process = Process::open(target.program.pid().cast_signed())?;
    let images = Arc::new(Images::new());
    let state = StateDir::at(target.directory.path().join("state"));
    let mut writer = Writer::open(
        process.clone(),
        &state,
        Author::current(),
        Arc::clone(&images),
        Hooks::default(),
    )?;
    let mut set = Times::default();
    for round in 0..ROUNDS {
        let began = std::time::Instant::now();
        let space = AddressSpace::read(&process, &images)?;
        let place = WritablePlace::validate(&space.variable(&"knob".into()).unwrap(), None)?;
        let value = Value::I32(i32::try_from(round).unwrap());
        let (expect_old, why, rule) = (None, Vec::new(), None);
        let request = SetRequest {
            value,
            expect_old,
            why,
            rule,
        };
        writer.set(&place, request)?;
        set.took
            .push(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        set.held.push(0);
    }
    set.print("set a variable", Some(1.1858));
    for (name, request, published) in patches() {
        let (there, back) = patched(&mut writer, &request)?;
        there.print(name, Some(published));
        back.print("  and back", None);
    }
    let mut called = Times::default();
    let Invocation { function, arguments } = Invocation::parse("back_i32(7)").unwrap();
    for _ in 0..ROUNDS {
        let request = CallRequest {
            function: function.clone(),
            arguments: arguments.clone(),
            returns: None,
            wait_ms: 5_000,
            thread: None,
            inverse: plan::Inverse::Unstated,
        };
        called.add(&writer.call(request, Reason::default())?);
    }
    called.print("call a function once", Some(1678.286));
    let (mut loaded, mut bound) = (Times::default(), Times::default());
    let library = target
        .directory
        .path()
        .join("libtuned.so")
        .to_string_lossy()
        .into_owned();
    for _ in 0..ROUNDS / 10 {
        let receipt = writer.load(&library, 5_000, Reason::default())?;
        writer.revert(receipt.change)?;
        loaded.add(&receipt);
        let receipt = writer.affinity(&"0".parse().unwrap(), Reason::default())?;
        writer.revert(receipt.change)?;
        bound.add(&receipt);
    }
    loaded.print("load a library", None);
    bound.print("bind all threads", None);
    Ok(())
}

/// The priority of a session, which runs before busy programs.
const SESSIONS_NICE: i32 = -15;

fn main() -> ExitCode {
    let programs: [(&str, &[&str]); 2] = [
        (
            "one thread, which computes without pause, as MATE's programs had",
            &["alone"],
        ),
        ("8 threads, of which 3 compute without pause", &[]),
    ];
    for (what, arguments) in programs {
        let before = rustix::process::getpriority_process(None);
        let target = Target::start(arguments);
        let raised = rustix::process::setpriority_process(None, SESSIONS_NICE);
        let priority = match raised {
            Ok(()) => "at the priority of a session",
            Err(_) => "at its usual priority, for more is not permitted",
        };
        println!("\n{what}; {ROUNDS} times each, {priority}; ms");
        println!(
            "{:<34}{:>9}{:>9}{:>9}{:>9}{:>12}{:>9}",
            "", "median", "worst", "held", "longest", "MATE 2007", "times"
        );
        let outcome = run(&target);
        // The next program starts with the previous priority.
        if let Ok(before) = before {
            let _ = rustix::process::setpriority_process(None, before);
        }
        let _ = std::io::stdout().flush();
        if let Err(error) = outcome {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    println!("A probe (MATE: 0.284 ms) is not set by the tuner, and is not measured here.");
    ExitCode::SUCCESS
}
