//! `tuneagent run`: measures a command from its first instruction, and the command behaves as it does alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::family::{self, Member};
use tuneagent_e2e::job::Mpi;
use tuneagent_e2e::knobs::{ANA, User};
use tuneagent_e2e::screen::Screen;
use tuneagent_e2e::sessions::Recorded;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, each, lammps, programs, require};

use crate::expected::{SOON, counts};
use crate::refused::newest;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Runs tuneagent with these arguments to its end, with a separate state folder.
fn output(command: &mut Command, input: &str) -> Outcome<Output> {
    let folder = tempfile::tempdir()?;
    command
        .env("TUNEAGENT_STATE_DIR", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child
        .stdin
        .take()
        .ok_or("no input")?
        .write_all(input.as_bytes())?;
    Ok(child.wait_with_output()?)
}

fn run(arguments: &[&str]) -> Outcome<Output> {
    // `timeout` ends a command that hangs, with exit code 124.
    let mut command = Command::new("timeout");
    command.arg("120").arg(binary()?).arg("run").args(arguments);
    output(&mut command, "")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Calls by function and pid, for processes with calls.
fn calls(report: &Value) -> Outcome<BTreeMap<i64, BTreeMap<String, u64>>> {
    let processes = report["processes"].as_array().ok_or("no processes")?;
    let mut found = BTreeMap::new();
    for process in processes {
        let functions = counts(&process["functions"])?;
        let functions: BTreeMap<String, u64> = functions
            .into_iter()
            .map(|(name, (calls, _))| (name, calls))
            .collect();
        if !functions.is_empty() {
            found.insert(process["pid"].as_i64().ok_or("no pid")?, functions);
        }
    }
    Ok(found)
}

#[test]
fn every_mpi_call_is_counted_from_mpi_init_on() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let folder = tempfile::tempdir()?;
        let program = programs::mpi("whole", mpi)?;
        let gates = folder.path().to_string_lossy().into_owned();
        let command = mpi.command(4, folder.path(), &program, &["25", &gates])?;
        let series = folder.path().join("series");
        let every = ["--every", "200ms", "--snapshots", &series.to_string_lossy()];
        let mut agent = Agent::starting(&every, &command)?;
        // A busy machine may start the agent's next step after all calls. The rank of an ended process is not known.
        wait_until("four ranks with their numbers", SOON, || {
            let report = newest(&series)?.unwrap_or_default();
            let ranks = each(&report["processes"]).filter(|process| process["rank"].is_number());
            Ok(ranks.count() == 4)
        })?;
        fs::write(folder.path().join("end"), "")?;
        let report = agent.finish(SOON)?;
        let own_counts: Vec<Value> = agent
            .lines
            .all()
            .iter()
            .filter_map(|line| serde_json::from_str(&line.text).ok())
            .collect();
        assert_eq!(own_counts.len(), 4, "{}", agent.lines.text());
        let seen = calls(&report)?;
        for own_count in &own_counts {
            let expected = counts(&own_count["functions"])?;
            let expected: BTreeMap<String, u64> = expected
                .into_iter()
                .map(|(name, (calls, _))| (name, calls))
                .collect();
            assert_eq!(expected.get("MPI_Init"), Some(&1));
            let pid = own_count["pid"].as_i64().ok_or("no pid")?;
            assert_eq!(
                seen.get(&pid),
                Some(&expected),
                "{mpi:?}, {own_count}\n{}",
                agent.lines.text()
            );
            let processes = each(&report["processes"]);
            let ranks: Vec<&Value> = processes
                .filter(|process| process["pid"] == pid)
                .map(|process| &process["rank"])
                .collect();
            assert_eq!(ranks, [&own_count["rank"]]);
        }
        assert_eq!(seen.len(), 4, "{report}");
        assert_eq!(
            report["completeness"]["missing"],
            Value::Array(Vec::new()),
            "{report}"
        );
        assert_eq!(report["job"]["mpi"]["implementation"], mpi.name(), "{report}");
    }
    Ok(())
}

#[test]
fn programs_that_live_for_less_than_a_millisecond_are_counted_fifty_times_of_fifty() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let program = programs::c("brief")?.to_string_lossy().into_owned();
    let script = r#"for i in $(seq 50); do "$0" 7 || exit 1; done"#;
    let command = words(&["bash", "-c", script, &program]);
    let recorded = Recorded::new()?;
    let log = recorded.flag();
    let mut agent = Agent::starting(&["--rules", "none", "--probe", "step", &log], &command)?;
    let report = agent.finish(SOON)?;
    recorded.replay("none")?;
    let seen = calls(&report)?;
    assert_eq!(seen.len(), 50, "{report}");
    let step = BTreeMap::from([("step".to_owned(), 7)]);
    assert!(seen.values().all(|functions| *functions == step), "{report}");
    // The same if the command itself is the short program.
    for round in 0..5 {
        let mut agent = Agent::starting(&["--rules", "none", "--probe", "step"], &words(&[&program, "9"]))?;
        let report = agent.finish(SOON)?;
        let seen: Vec<u64> = calls(&report)?
            .into_values()
            .filter_map(|of| of.get("step").copied())
            .collect();
        assert_eq!(seen, [9], "round {round}: {report}");
    }
    Ok(())
}

#[test]
fn the_cpu_time_of_a_command_is_counted_until_its_end_with_that_of_ended_threads() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("report.json");
    let program = programs::c_with_math("passing")?;
    let output = run(&[
        "--rules",
        "none",
        "--json",
        &file.to_string_lossy(),
        "--",
        &program.to_string_lossy(),
    ])?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let own_s: f64 = printed
        .trim()
        .parse()
        .map_err(|error| format!("{printed}: {error}"))?;
    let report: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let process = &report["processes"][0];
    let cpu_s = process["cpu_time_s"].as_f64().ok_or("no CPU time")?;
    assert!(
        (own_s..own_s + 0.1).contains(&cpu_s),
        "{cpu_s} s of {own_s} s: {}",
        said(&output)
    );
    // It belongs to the session from its start, and not from the first reading.
    let watched_s = process["watched_s"].as_f64();
    let threads = 2.0;
    assert!(
        watched_s.is_some_and(|watched_s| watched_s * threads >= own_s),
        "{process}"
    );
    // The last value from before its end remains.
    assert!(process["resident_bytes"].as_u64() > Some(0), "{process}");
    Ok(())
}

#[test]
fn the_command_has_its_own_input_and_output_and_its_exit_code_is_ours() -> Outcome {
    let _machine = require!(shared: Root);
    for (command, code) in [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -9 $$"], 128 + 9),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["true"], 0),
        (&["no-such-command-anywhere"], 127),
        (&["/no/such/file"], 127),
        (&["/etc/passwd"], 126),
    ] {
        let output = run(&[&["--"], command].concat())?;
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", said(&output));
        assert!(output.stdout.is_empty(), "{command:?}");
        if (126..128).contains(&code) {
            assert!(said(&output).contains(command[0]), "{}", said(&output));
        }
    }
    let mut command = Command::new("timeout");
    command.arg("120").arg(binary()?).args(["run", "--", "cat"]);
    let text = "first\nsecond\n".repeat(1000);
    let output = output(&mut command, &text)?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), text);
    assert_has!(said(&output), "the command has ended");
    let output = run(&["--json", "-", "--", "true"])?;
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    Ok(())
}

/// A shell that prints a line, waits for the file `end`, and creates the file `ended`.
fn waits(folder: &Path) -> Vec<String> {
    let text = r#"echo begun; while [ ! -e "$0/end" ]; do read -t 0.05 x <> <(:); done 2>/dev/null; echo yes > "$0/ended"; exit 3"#;
    words(&["bash", "-c", text, &folder.to_string_lossy()])
}

/// The process with this argument.
fn process_with(all: &[Member], word: &str) -> Outcome<Member> {
    let has = |member: &&Member| {
        let line = fs::read(format!("/proc/{}/cmdline", member.pid)).unwrap_or_default();
        line.split(|byte| *byte == 0)
            .any(|argument| argument == word.as_bytes())
    };
    Ok(*all
        .iter()
        .find(has)
        .ok_or_else(|| format!("no process has the argument {word}"))?)
}

fn kill(pid: u32, signal: Signal) -> Outcome {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or("no pid")?;
    Ok(kill_process(pid, signal).map_err(std::io::Error::from)?)
}

#[test]
fn the_command_goes_on_to_its_end_if_any_process_of_ours_is_killed() -> Outcome {
    let _machine = require!(shared: Root);
    // The process that watches.
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::starting(&[], &waits(folder.path()))?;
    agent.lines.wait_for_line("begun", SOON)?;
    let attendant = process_with(&family::descendants(agent.pid()), "attend")?;
    kill(attendant.pid, Signal::KILL)?;
    agent
        .lines
        .wait_for_line("the command continues without it", SOON)?;
    fs::write(folder.path().join("end"), "")?;
    assert_eq!(agent.wait(SOON)?, 3, "{}", agent.lines.text());
    assert!(folder.path().join("ended").exists());

    // The process that started it.
    let folder = tempfile::tempdir()?;
    let mut agent = Agent::starting(&[], &waits(folder.path()))?;
    agent.lines.wait_for_line("begun", SOON)?;
    let all = family::descendants(agent.pid());
    let attendant = process_with(&all, "attend")?;
    let command = process_with(&all, &folder.path().to_string_lossy())?;
    agent.signal(Signal::KILL)?;
    wait_until("the end of the session", SOON, || Ok(!attendant.is_alive()))?;
    assert!(command.is_alive());
    fs::write(folder.path().join("end"), "")?;
    wait_until("the end of the command", SOON, || Ok(!command.is_alive()))?;
    assert!(folder.path().join("ended").exists());
    agent.wait(SOON)?;
    Ok(())
}

#[test]
fn signals_reach_the_command() -> Outcome {
    let _machine = require!(shared: Root);
    let text = r#"trap 'echo got it; exit 4' TERM; echo begun; while :; do read -t 0.05 x <> <(:); done 2>/dev/null"#;
    let mut agent = Agent::starting(&[], &words(&["bash", "-c", text]))?;
    agent.lines.wait_for_line("begun", SOON)?;
    agent.signal(Signal::TERM)?;
    assert_eq!(agent.wait(SOON)?, 4, "{}", agent.lines.text());
    for part in ["got it", "the command has ended"] {
        assert!(agent.lines.text().contains(part), "{}", agent.lines.text());
    }
    Ok(())
}

#[test]
fn ctrl_c_on_a_terminal_is_the_commands_and_the_report_comes_all_the_same() -> Outcome {
    let _machine = require!(shared: Root, Tmux);
    let screen = Screen::start(100, 40)?;
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("script");
    fs::write(
        &script,
        "n=0; trap 'n=$((n + 1)); echo interrupted $n' INT; echo begun\n\
         while [ $n -lt 2 ]; do sleep 0.1; done; exit 5\n",
    )?;
    let program = binary()?;
    screen.enter(&format!(
        "{} run -- sh {}; echo ended with $?",
        program.display(),
        script.display()
    ))?;
    screen.see("begun")?;
    screen.press("C-c")?;
    screen.see("interrupted 1")?;
    screen.press("C-c")?;
    let text = screen.see("ended with 5")?;
    assert!(
        text.contains("interrupted 2") && !text.contains("interrupted 3"),
        "{text}"
    );
    assert!(text.contains("the command has ended; detached"), "{text}");
    Ok(())
}

#[test]
fn under_sudo_nothing_is_started_and_the_line_to_type_is_shown() -> Outcome {
    require!(Root);
    let mut command = Command::new(binary()?);
    command
        .args(["run", "--probe", "f", "--", "echo", "two words"])
        .env("SUDO_USER", "ana");
    let output = output(&mut command, "")?;
    assert_eq!(output.status.code(), Some(125), "{}", said(&output));
    assert!(output.stdout.is_empty(), "it did not run");
    assert_has!(said(&output), "tuneagent run --probe f -- echo 'two words'");
    Ok(())
}

/// tuneagent as this user, without capabilities.
fn as_user(user: &User, more: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={ANA}"), format!("--regid={ANA}")]);
    command.args(["--clear-groups", "--", "timeout", "--foreground", "120"]);
    command.arg(&user.program).args(more).env_remove("SUDO_UID");
    command.current_dir("/");
    command
}

#[test]
fn a_user_without_rights_runs_the_command_and_sudo_runs_the_probes_alone() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let ana = User::new(ANA, &[])?;
    let folder = ana.program.parent().ok_or("no folder")?;
    let brief = folder.join("brief");
    fs::copy(programs::c("brief")?, &brief)?;
    let brief = brief.to_string_lossy().into_owned();
    let script = r#"id -u; echo "$LD_LIBRARY_PATH"; "$0" 7"#;
    let arguments = [
        "run", "--rules", "none", "--probe", "step", "--", "sh", "-c", script, &brief,
    ];

    // Without sudo, and with a sudo that refuses, the command is not started.
    let mut command = as_user(&ana, &arguments);
    let none = tempfile::tempdir()?;
    let path = "/usr/bin:/bin";
    if !Path::new("/usr/bin/sudo").exists() {
        let refused = output(command.env("PATH", path).env("HOME", none.path()), "")?;
        assert_eq!(refused.status.code(), Some(125), "{}", said(&refused));
        for part in ["CAP_BPF", "there is no sudo here", "as root: setcap cap_bpf"] {
            assert!(
                said(&refused).contains(part),
                "{part} is not in:\n{}",
                said(&refused)
            );
        }
        assert!(refused.stdout.is_empty());
    }
    let tools = folder.join("tools");
    fs::create_dir(&tools)?;
    let sudo = tools.join("sudo");
    fs::write(&sudo, "#!/bin/sh\nexit 1\n")?;
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755))?;
    let path = format!("{}:{path}", tools.display());
    let refused = output(as_user(&ana, &arguments).env("PATH", &path), "")?;
    assert_eq!(refused.status.code(), Some(125), "{}", said(&refused));
    assert!(said(&refused).contains("the command was not started") && refused.stdout.is_empty());

    // A sudo that permits everything. Only this user may execute it.
    fs::remove_file(&sudo)?;
    fs::copy(programs::c("sudo")?, &sudo)?;
    std::os::unix::fs::chown(&sudo, Some(0), Some(ANA))?;
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o4750))?;
    let report = ana.runtime().join("report.json");
    let mut command = as_user(
        &ana,
        &[&["run", "--json", &report.to_string_lossy()], &arguments[1..]].concat(),
    );
    command.env("PATH", &path).env("LD_LIBRARY_PATH", "/his/own");
    let done = output(&mut command, "")?;
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        format!("{ANA}\n/his/own\n")
    );
    let text = fs::read_to_string(&report)?;
    let seen = calls(&serde_json::from_str(&text)?)?;
    let steps: Vec<u64> = seen
        .into_values()
        .filter_map(|of| of.get("step").copied())
        .collect();
    assert_eq!(steps, [7], "{text}");
    // The report belongs to the user.
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&fs::metadata(&report)?), ANA);
    Ok(())
}

#[test]
fn capabilities_of_the_file_take_nothing_of_the_commands_environment_and_give_it_no_rights() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let ana = User::new(ANA, &[])?;
    assert!(crate::rights::lend(&ana)?, "setcap");
    let script = r#"echo "$LD_LIBRARY_PATH"; grep CapPrm /proc/self/status"#;
    let mut command = as_user(&ana, &["run", "--", "sh", "-c", script]);
    let done = output(command.env("LD_LIBRARY_PATH", "/his/own"), "")?;
    assert_eq!(done.status.code(), Some(0), "{}", said(&done));
    assert_eq!(
        String::from_utf8_lossy(&done.stdout),
        "/his/own\nCapPrm:\t0000000000000000\n",
        "{}",
        said(&done)
    );
    assert!(said(&done).contains("the command has ended"), "{}", said(&done));
    Ok(())
}

#[test]
fn an_unexpected_program_is_probed_when_it_is_seen_and_what_was_missed_is_reported() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let place = folder.path().to_string_lossy().into_owned();
    fs::write(
        folder.path().join("name"),
        programs::c("busywork")?.to_string_lossy().as_bytes(),
    )?;
    let script = r#"exec "$(cat "$0/name")" "$0" 50"#;
    let mut agent = Agent::starting(
        &["--rules", "none", "--probe", "step_outer"],
        &words(&["bash", "-c", script, &place]),
    )?;
    let line = agent.lines.wait_for_line("are not measured", SOON)?;
    assert!(line.text.contains("did not expect busywork"), "{}", line.text);
    fs::write(folder.path().join("go"), "")?;
    agent.lines.wait_for_line("\"tally\"", SOON)?;
    fs::write(folder.path().join("end"), "")?;
    let report = agent.finish(SOON)?;
    let seen: Vec<u64> = calls(&report)?
        .into_values()
        .filter_map(|of| of.get("step_outer").copied())
        .collect();
    assert_eq!(seen, [50], "{report}");
    let missing = report["completeness"]["missing"].to_string();
    assert!(missing.contains("are not measured"), "{missing}");
    Ok(())
}

#[test]
fn ranks_behind_a_script_are_seen_from_mpi_init_on() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpich);
    for mpi in Mpi::ALL {
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("wrapper");
        let program = programs::mpi("whole", mpi)?;
        fs::write(&script, format!("#!/bin/sh\nexec {} 5\n", program.display()))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        // The MPI library is found by the launcher's, whatever program it starts.
        let mut agent = Agent::starting(&[], &mpi.command(2, folder.path(), &script, &[])?)?;
        let report = agent.finish(SOON)?;
        let seen = calls(&report)?;
        let sends: Vec<(Option<u64>, Option<u64>)> = seen
            .values()
            .map(|of| (of.get("MPI_Init").copied(), of.get("MPI_Send").copied()))
            .collect();
        assert_eq!(sends, [(Some(1), Some(5)); 2], "{mpi:?}: {report}");
    }
    Ok(())
}

/// A rule that reports the ranks whose library has a variable.
const HAVING: &str = "\
rule: having
about: Counts the ranks that have it.
roles:
  rank: has(opal_progress_yield_when_idle)
windows:
  pulse: {every: 200ms}
metrics:
  ranks: count(rank)
tune:
  - finding: \"{ranks} ranks have it\"
    when: ranks == 2
";

#[test]
fn a_rule_is_for_every_rank_of_an_expected_program_that_has_what_it_needs() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let folder = tempfile::tempdir()?;
    let rule = folder.path().join("having.yaml");
    fs::write(&rule, HAVING)?;
    let [rule, place] = [&rule, folder.path()].map(|path| path.to_string_lossy().into_owned());
    let program = programs::mpi("sleepers", Mpi::OpenMpi)?;
    let command = Mpi::OpenMpi.command(2, folder.path(), &program, &[&place, "50000"])?;
    let mut agent = Agent::starting(&["--rules", &rule], &command)?;
    agent.lines.wait_for_line("2 ranks have it", SOON)?;
    fs::write(folder.path().join("end"), "")?;
    agent.finish(SOON)?;
    Ok(())
}

#[test]
fn lammps_is_measured_from_its_first_call_and_its_numbers_are_the_same() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Lammps);
    let folder = tempfile::tempdir()?;
    let input = lammps::input(100, 20, lammps::CELLS)?;
    let file = folder.path().join("in.melt");
    fs::write(&file, input)?;
    let file = file.to_string_lossy().into_owned();
    let arguments = ["-in", &file, "-log", "none"];
    let command = Mpi::OpenMpi.command(2, folder.path(), Path::new("lmp"), &arguments)?;
    let mut agent = Agent::starting(&[], &command)?;
    let report = agent.finish(2 * SOON)?;
    let values = |text: &str| {
        let lines: Vec<_> = text
            .lines()
            .map(|text| tuneagent_e2e::lines::Line {
                at: std::time::Instant::now(),
                text: text.to_owned(),
            })
            .collect();
        let thermo = lammps::thermo(&lines);
        thermo
            .into_iter()
            .map(|line| (line.step, line.values))
            .collect::<Vec<_>>()
    };
    let (program, rest) = command.split_first().ok_or("no command")?;
    let alone = Command::new(program).args(rest).stdin(Stdio::null()).output()?;
    let alone_text = String::from_utf8_lossy(&alone.stdout).into_owned();
    assert_eq!(
        (alone.status.code(), alone.status.signal()),
        (Some(0), None),
        "{alone_text}"
    );
    assert_eq!(values(&agent.lines.text()), values(&alone_text));
    assert_eq!(values(&alone_text).len(), 6, "{alone_text}");
    let seen = calls(&report)?;
    assert_eq!(seen.len(), 2, "{report}");
    for functions in seen.values() {
        let of = |name: &str| functions.get(name).copied().unwrap_or_default();
        let begun = of("MPI_Init") + of("MPI_Init_thread");
        assert_eq!((begun, of("MPI_Finalize")), (1, 1), "{functions:?}");
        assert!(of("MPI_Allreduce") > 0 && of("MPI_Bcast") > 0, "{functions:?}");
    }
    assert_eq!(
        report["completeness"]["missing"],
        Value::Array(Vec::new()),
        "{report}"
    );
    Ok(())
}
