//! Invalid input: the error says what is wrong, where, and what to do, with the documented exit code. Nothing
//! is attached.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::job::{Mpi, Waiting};
use tuneagent_e2e::line_program::LineProgram;
use tuneagent_e2e::lines::finish;
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::wait::wait_for;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, start_busywork, start_pingpong, summed, text_file};

const OTHER_UID: u32 = 65_534;

/// An idle process of this user. Its echo shows that it has started.
fn start_idle(uid: u32) -> Outcome<LineProgram> {
    let mut idle = LineProgram::start(Command::new("cat").uid(uid).gid(uid))?;
    idle.say("x")?;
    Ok(idle)
}

/// A command line, and a part of its only line of output.
const NO_TARGETS: &str = "\
attach 999999999 => there is no process 999999999 here
attach 1 => process 1 is init
attach 2 => is a thread of the kernel
attach no-such-program => no program named no-such-program runs here
attach pbs:4711 => there are no targets of the form pbs:…
attach slurm:4711 => srun --jobid 4711 --overlap --pty tuneagent attach slurm:4711
attach container:3f9c3f9c => no process of container:3f9c3f9c is visible to you
replay none.rec => there is no file none.rec
replay none.rec --bind foo=bar => --bind foo: no loaded rule uses the name foo
replay none.rec --param foo=1 => --param foo: no loaded rule uses the parameter foo
explain E9999 => there is no page on E9999
explain openmp-teamsize => did you mean `openmp-team-size`?
rule show openmp-teamsize => did you mean `openmp-team-size`?
explain change 999 => has a change 999
doctor 999999999 => there is no process 999999999 here
undo 999999999 => there is no process 999999999 here
set 999999999 x=1 => there is no process 999999999 here
";

#[test]
fn targets_that_are_none_get_one_line_and_exit_code_2() -> Outcome {
    require!(Root);
    for case in NO_TARGETS.lines() {
        let (line, expected) = case.split_once(" => ").ok_or(case)?;
        let (code, text) = Agent::run(&line.split(' ').collect::<Vec<_>>())?;
        assert_eq!((code, text.lines().count()), (2, 1), "{line}: {text}");
        assert!(text.contains(expected), "{line}: {text}");
    }
    Ok(())
}

/// Loads the completions in `$1`, and says what completes tuneagent.
const LOADING: [(&str, &[&str], &str, &str); 3] = [
    (
        "bash",
        &["--norc"],
        "source $1; complete -p tuneagent",
        " -F _tuneagent tuneagent",
    ),
    (
        "zsh",
        &["-f"],
        "autoload -U compinit; compinit -D; source $1; echo $_comps[tuneagent]",
        "_tuneagent",
    ),
    (
        "fish",
        &["--no-config"],
        "source $argv[2]; complete -C 'tuneagent comp'",
        "completions\tPrint the completions of a shell",
    ),
];

#[test]
fn completions_are_loaded_by_shells_without_a_message() -> Outcome {
    require!(Shells);
    for (shell, flags, commands, expected) in LOADING {
        let script = Agent::succeed(&["completions", shell])?;
        assert!(
            !script.contains("write-report"),
            "{shell} completes a hidden command"
        );
        let (folder, file) = text_file(shell, &script)?;
        let mut command = Command::new(shell);
        command.args(flags).args(["-c", commands, "it"]).arg(&file);
        let output = command.env("HOME", folder.path()).output()?;
        let (said, errors) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success() && errors.is_empty(), "{shell}: {errors}");
        assert!(said.trim_end().ends_with(expected), "{shell}: {said}");
    }
    Ok(())
}

#[test]
fn names_and_numbers_that_were_printed_are_explained() -> Outcome {
    require!(Root, Cc);
    let state = tempfile::tempdir()?;
    let text = Agent::succeed(&["explain", "openmpi-busy-wait"])?;
    assert_has!(
        text,
        "# openmpi-busy-wait",
        "Writes opal_progress_yield_when_idle",
        "tuneagent rule show"
    );
    let knobs = tuneagent_e2e::knobs::Knobs::start()?;
    let pid = knobs.pid().to_string();
    Agent::succeed_in(state.path(), &["set", &pid, "knob=11"])?;
    let text = Agent::succeed_in(state.path(), &["explain", "change", "1"])?;
    assert_has!(
        text,
        "change 1",
        "knob",
        "by hand",
        "in force",
        &format!("undo {pid} 1")
    );
    Ok(())
}

#[test]
fn a_program_without_mpi_is_reported_and_probes_are_offered() -> Outcome {
    require!(Root);
    let idle = start_idle(0)?;
    let (code, text) = Agent::run(&["attach", &idle.pid().to_string(), "--rules", "none"])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(text, "is not an MPI program", "MPI_Init", "--probe FUNCTION");
    Ok(())
}

#[test]
fn functions_that_are_named_are_counted_without_mpi() -> Outcome {
    let _machine = require!(shared: Root);
    let mut job = start_busywork("300")?;
    // Nothing calls `main` again.
    let probes = ["--probe", "step_outer", "step_inner", "main", "no_such_function"];
    let mut agent = Agent::attach(job.pid(), &probes)?;
    let (mut own_counts, report) = summed(&mut job, &mut agent, 1)?;
    let own_count = own_counts.remove(0);
    let seen = crate::expected::counts(&report["processes"][0]["functions"])?;
    for name in ["step_outer", "step_inner"] {
        let calls = seen.get(name).map(|(calls, _)| *calls);
        assert_eq!(calls, own_count[name].as_u64(), "{name}: {report}");
    }
    assert_eq!(
        report["completeness"]["never_called"],
        serde_json::json!(["main"])
    );
    assert_has!(agent.lines.text(), "never called: main");
    Ok(())
}

#[test]
fn a_function_that_is_not_there_is_reported_and_nothing_is_watched() -> Outcome {
    require!(Root);
    let idle = start_idle(0)?;
    let (code, text) = Agent::run(&["attach", &idle.pid().to_string(), "--probe", "no_such_function"])?;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("has a function `no_such_function`"), "{text}");
    Ok(())
}

#[test]
fn a_rule_with_mistakes_is_shown_with_its_places_and_nothing_is_attached() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let (_folder, file) = text_file(
        "wrong.yaml",
        "rule: wrong\nabout: wrong on purpose\nroles:\n  rank: rank >= 0\nwindows:\n  pulse: {every: 500ms}\n\
         metrics:\n  wanted: sum(cpu.tme)\n  odd: sum(cpu.time) + sum(mpi.bytes)\n",
    )?;
    let job = start_pingpong(Mpi::OpenMpi, Waiting::Yielding, 2, 0)?;
    let pid = job.pid().to_string();
    let (code, text) = Agent::run(&["attach", &pid, "--rules", &file])?;
    assert_eq!(code, 2, "{text}");
    assert_has!(
        text,
        "nothing was started",
        "wrong.yaml:8:",
        "did you mean `cpu.time`?",
        "wrong.yaml:9:",
        "cannot add"
    );
    let (code, checked) = Agent::run(&["rule", "check", &file])?;
    assert_eq!(code, 1, "{checked}");
    assert!(checked.contains("2 mistakes found"), "{checked}");
    Ok(())
}

#[test]
fn without_the_rights_the_missing_ones_and_the_complete_command_are_shown() -> Outcome {
    require!(Root);
    let idle = start_idle(OTHER_UID)?;
    // A copy that every user may execute.
    let folder = tempfile::tempdir_in("/tmp")?;
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let program = folder.path().join("tuneagent");
    std::fs::copy(binary()?, &program)?;
    let as_user_nobody = |arguments: &[&str]| -> Outcome<(Option<i32>, String)> {
        let output = Command::new(&program)
            .args(arguments)
            .uid(OTHER_UID)
            .gid(OTHER_UID)
            .output()?;
        Ok((
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    };
    let pid = idle.pid().to_string();
    let (code, text) = as_user_nobody(&["attach", &pid, "--probe", "main"])?;
    assert_eq!(code, Some(3), "{text}");
    let again = format!("sudo {} attach {pid} --probe main", program.display());
    assert_has!(
        text,
        "CAP_BPF",
        "CAP_PERFMON",
        again.as_str(),
        "from /proc alone",
        " CPUs   waiting for "
    );
    // A process of another user is refused before it is inspected.
    let foreign = start_idle(0)?;
    let (code, text) = as_user_nobody(&["attach", &foreign.pid().to_string()])?;
    assert_eq!(code, Some(3), "{text}");
    assert_has!(text, "belongs to root", "sudo ");
    Ok(())
}

#[test]
fn programs_of_other_users_need_an_extra_word() -> Outcome {
    require!(Root);
    let idle = start_idle(OTHER_UID)?;
    let (code, text) = Agent::run(&["attach", &idle.pid().to_string(), "--probe", "main"])?;
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("--any-user"), "{text}");
    Ok(())
}

#[test]
fn metrics_are_served_while_a_session_runs() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    // A free port of this machine.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let job = start_pingpong(Mpi::OpenMpi, Waiting::Yielding, 2, 0)?;
    job.open("go")?;
    let mut agent = Agent::attach_armed(job.pid(), &["--metrics", &address.to_string()])?;
    let get = |path: &str| -> Outcome<String> {
        let mut stream = TcpStream::connect(address)?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    assert!(get("/healthz")?.starts_with("HTTP/1.1 200"));
    // The first page has no counters yet; a later scrape has them.
    let page = wait_for("the counters of MPI_Allreduce", SOON, || {
        let page = get("/metrics")?;
        Ok(page.contains("function=\"MPI_Allreduce\"").then_some(page))
    })?;
    assert_has!(
        page,
        "# TYPE tuneagent_mpi_rank_calls_total counter",
        "rank=\"1\"",
        "tuneagent_cpu_seconds_total"
    );
    agent.stop()?;
    // An occupied port is reported before anything is attached.
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let taken_address = taken.local_addr()?.to_string();
    let pid = job.pid().to_string();
    let (code, text) = Agent::run(&["attach", &pid, "--metrics", &taken_address])?;
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("/metrics cannot be served"), "{text}");
    Ok(())
}

/// Runs the agent in a folder. Returns the exit code and the output.
fn in_folder(folder: &std::path::Path, arguments: &[&str]) -> Outcome<(i32, String)> {
    finish(Command::new(binary()?).args(arguments).current_dir(folder))
}

#[test]
fn a_new_rule_names_what_the_program_has_passes_the_check_and_replaces_nothing() -> Outcome {
    require!(Root, Cc, Mpich);
    let folder = tempfile::tempdir()?;
    let mut job = start_busywork("10")?;
    let workers = programs::mpi("workers", Mpi::Mpich)?;
    let pid = job.pid().to_string();
    let cases = [
        (
            vec!["busy", "--pid", &pid],
            vec!["span: step_", "outer_calls ", "i64, now 0"],
        ),
        (
            vec!["farm", "--file", workers.to_str().ok_or("no text")?],
            vec![
                "master: rank == 0",
                "{role: member, span: ",
                "compute_task ",
                "NOptWorkers ",
            ],
        ),
        (vec!["plain"], vec!["#probes:"]),
    ];
    for (arguments, expected) in cases {
        let (code, text) = in_folder(folder.path(), &[&["rule", "new"], arguments.as_slice()].concat())?;
        assert_eq!(code, 0, "{text}");
        let name = format!("{}.yaml", arguments[0]);
        let rule = std::fs::read_to_string(folder.path().join(&name))?;
        for part in expected {
            assert!(rule.contains(part), "{part} is not in\n{rule}");
        }
        let (code, text) = in_folder(folder.path(), &["rule", "check", &name])?;
        assert_eq!(code, 0, "{text}");
        let (code, text) = in_folder(folder.path(), &["rule", "new", arguments[0]])?;
        assert!(
            code == 1 && text.contains("is there already; nothing was written"),
            "{text}"
        );
        assert_eq!(std::fs::read_to_string(folder.path().join(&name))?, rule);
    }
    job.open("go")?;
    job.end(SOON)?;
    Ok(())
}

#[test]
fn a_rule_that_does_not_fit_a_program_is_reported_before_anything_is_attached() -> Outcome {
    require!(Root, Cc);
    let folder = tempfile::tempdir()?;
    let mut job = start_busywork("10")?;
    let pid = job.pid().to_string();
    let right = "rule: fitting\nabout: is compared with a program\nroles:\n  program: exe != \"\"\n\
        probes:\n  step: {role: program, span: step_outer}\ncapture:\n  step.n: inner_calls\n\
        windows:\n  pulse: {every: 500ms}\nmetrics:\n  n: sum(step.n)\n\
        tune:\n  - set: outer_calls\n    role: program\n    value: 3\n    range: value < 9\n    when: n > 1\n\
        \u{20}   guard: {maximize: n, over: 5, undo_if_worse_by: 5%}\n";
    let file = folder.path().join("fitting.yaml");
    let check = |rule: String| -> Outcome<(i32, String)> {
        std::fs::write(&file, rule)?;
        in_folder(folder.path(), &["rule", "check", "fitting.yaml", "--pid", &pid])
    };
    let (code, text) = check(right.into())?;
    assert_eq!(code, 0, "{text}");
    assert_has!(
        text,
        "probes step_outer in /",
        "writes outer_calls (i64, only where value < 9, now 0) in /"
    );
    // Columns: input, and texts for what is wrong, where, and what to do.
    let cases = [
        (
            "span: step_outer",
            "span: step_outr",
            "E0161",
            "fitting.yaml:6:31",
            "did you mean `step_outer`?",
        ),
        (
            "inner_calls",
            "iner_calls",
            "E0162",
            "fitting.yaml:8:11",
            "did you mean `inner_calls`?",
        ),
        (
            "value: 3\n    range: value < 9",
            "value: true",
            "E0165",
            "fitting.yaml:14:10",
            "takes 8 bytes, bool takes 1",
        ),
        (
            "exe != \"\"",
            "rank == 0",
            "E0160",
            "fitting.yaml:4:12",
            "until a process fits it",
        ),
    ];
    for (old, new, mistake, place, help) in cases {
        let (code, text) = check(right.replace(old, new))?;
        assert_eq!(code, 1, "{text}");
        let conclusion = match mistake {
            "E0160" => "does not apply to busywork",
            _ => "1 mistake found",
        };
        assert_has!(text, mistake, place, help, conclusion);
    }
    job.open("go")?;
    job.end(SOON)?;
    Ok(())
}

/// Runs a command, and checks its exit code and parts of its output.
fn says(state: &Path, arguments: &[&str], expected: i32, parts: &[&str]) -> Outcome {
    let (code, text) = Agent::run_in(state, arguments)?;
    assert_eq!(code, expected, "{arguments:?}: {text}");
    for part in parts {
        assert!(text.contains(part), "{arguments:?}: no {part} in {text}");
    }
    Ok(())
}

#[test]
fn symbols_are_listed() -> Outcome {
    require!(Cc);
    let state = tempfile::tempdir()?;
    let run = |arguments: &[&str], expected, parts: &[&str]| says(state.path(), arguments, expected, parts);
    let path = programs::c("settings")?;
    let path = path.to_str().ok_or("the path is no text")?;
    run(
        &["symbols", path, "--variables"],
        0,
        &["cfg", "struct config", "set NAME.member"],
    )?;
    run(
        &["symbols", path, "cfg", "--functions"],
        2,
        &["has no symbol like `cfg`: `cfg` is a variable; leave out --functions"],
    )?;
    run(
        &["symbols", path, "mai?", "--json"],
        0,
        &["\"kind\": \"function\""],
    )?;
    run(
        &["symbols", path, "nothing*"],
        2,
        &["has no symbol like `nothing*`"],
    )?;
    run(
        &["symbols", path, "main", "--sites"],
        0,
        &["probed at", "main", "1 function: 1 "],
    )?;
    run(
        &["symbols", path, "main", "--sites", "--json"],
        0,
        &["\"site\": {", "\"bytes\": ", "\"cost\": ", "\"costs\": {"],
    )?;
    Ok(())
}

#[test]
fn paths_are_read_and_written_by_hand() -> Outcome {
    require!(Cc);
    // One journal for all cases; each change is reverted.
    let state = tempfile::tempdir()?;
    let run = |arguments: &[&str], expected, parts: &[&str]| says(state.path(), arguments, expected, parts);
    let mut program = LineProgram::start(&mut Command::new(programs::c("settings")?))?;
    let pid = program.pid().to_string();
    program.line()?;
    run(
        &[
            "get",
            &pid,
            "cfg.solver.chunk",
            "limits[2]",
            "cfg.solver.name",
            "current->level",
        ],
        0,
        &[
            "cfg.solver.chunk = 64 (i32)",
            "limits[2] = 30 (i32)",
            "cfg.solver.name = \"jacobi\" (char[8])",
            "current->level = 2 (i32)",
        ],
    )?;
    run(
        &["get", &pid, "limits[2]", "nosuch"],
        2,
        &["limits[2] = 30 (i32)", "`nosuch`", "1 of 2 values could be read"],
    )?;
    run(
        &["get", &pid, "cfg"],
        2,
        &["name a field of it, as in `cfg.level`: it has level, solver"],
    )?;
    run(
        &["get", &pid, "limits[3]"],
        2,
        &["element 3 is outside of int[3], which has 0 to 2"],
    )?;
    run(
        &["symbols", &pid],
        0,
        &["limits", "only the program itself is listed"],
    )?;
    run(
        &[
            "set",
            &pid,
            "cfg.solver.chunk=65",
            "limits[2]=31",
            "current->level=3",
        ],
        0,
        &["cfg.solver.chunk 64 -> 65 (i32)", "revert: "],
    )?;
    assert_eq!(program.say("")?, "chunk=65 limit=31 level=3");
    run(&["undo", &pid], 0, &["reverted: current->level"])?;
    assert_eq!(program.say("")?, "chunk=64 limit=30 level=2");
    Ok(())
}

#[test]
fn lists_are_arrays_for_other_programs() -> Outcome {
    // The lists are of all processes and sessions of the machine.
    let _machine = machine();
    for words in [
        &["ps", "--json", "--all", "--duration", "200ms"][..],
        &["journal", "--json"],
        &["session", "list", "--json"],
        &["rule", "list", "--json"],
    ] {
        let (code, text) = Agent::run(words)?;
        assert_eq!(code, 0, "{words:?}: {text}");
        let rows: Vec<serde_json::Value> = serde_json::from_str(&text)?;
        if words[0] == "rule" {
            let of = |name: &str| {
                rows.iter()
                    .find(|row| row["name"] == name)
                    .map(|row| row["acts"].clone())
            };
            assert_eq!(of("openmpi-busy-wait"), Some(true.into()), "{text}");
            assert_eq!(of("load-imbalance"), Some(false.into()), "{text}");
        }
    }
    Ok(())
}
