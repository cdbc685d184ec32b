//! Mistakes that everybody makes once: what was meant is done, or the answer has the command that does it. Each row is what is typed, the exit
//! code, and a part of the answer.

use std::fs;
use std::process::Command;

use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::{Job, Mpi};
use tuneagent_e2e::needs::machine;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, with_folder};

/// A program that answers each byte, and waits for the next.
fn settings(folder: &std::path::Path, strip: bool) -> Outcome<Job> {
    let program = folder.join(if strip { "bare" } else { "settings" });
    fs::copy(programs::c("settings")?, &program)?;
    if strip {
        let done = Command::new("strip").arg("-s").arg(&program).status()?;
        assert!(done.success());
    }
    let program = program.to_string_lossy().into_owned();
    let job = Job::alone(std::path::Path::new("sh"), |_| {
        vec!["-c".into(), format!("sleep 600 | exec {program}")]
    })?;
    job.lines.wait_for_line("chunk=", SOON)?;
    Ok(job)
}

/// The process of a program that a shell has started.
fn pid_of(name: &str) -> Outcome<String> {
    let found = Command::new("pgrep").args(["-n", "-x", name]).output()?;
    let pid = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    assert!(!pid.is_empty(), "{name} does not run");
    Ok(pid)
}

#[test]
fn a_launcher_is_waited_for_until_it_has_a_rank_and_a_singletons_daemon_is_none() -> Outcome {
    require!(Root, OpenMpi, Cc);
    let _machine = machine();
    let folder = tempfile::tempdir()?;
    let launcher = folder.path().join("mpirun");
    fs::copy("/bin/bash", &launcher)?;
    let program = programs::c("settings")?.to_string_lossy().into_owned();
    let text = format!("sleep 1; sleep 600 | OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 {program}");
    let job = Job::alone(&launcher, |_| vec!["-c".into(), text])?;
    let words = [
        "attach",
        &job.pid().to_string(),
        "--duration",
        "1s",
        "--probe",
        "main",
    ]
    .map(str::to_owned);
    let (code, said) = Agent::run(&words.each_ref().map(String::as_str))?;
    let waited = said.contains("has started no rank yet: waiting for one, 10 s at most");
    assert!(
        waited && !said.contains("has started no rank on this machine"),
        "{code}: {said}"
    );
    drop(job);

    let job = Job::alone(&programs::mpi("loops", Mpi::OpenMpi)?, |folder| {
        with_folder(folder, vec!["nested".into(), "1".into()])
    })?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach(job.pid(), &["--rules", "none", "--duration", "1s"])?;
    let report = agent.finish(SOON)?;
    assert_eq!(report["processes"][0]["pid"], job.pid(), "{report}");
    Ok(())
}

#[test]
fn what_was_meant_is_done_or_the_answer_has_the_command_that_does_it() -> Outcome {
    require!(Root, Cc);
    let _machine = machine();
    let folder = tempfile::tempdir()?;
    let (_whole, _bare) = (settings(folder.path(), false)?, settings(folder.path(), true)?);
    let (pid, bare) = (pid_of("settings")?, pid_of("bare")?);
    let rule = folder.path().join("pace.yaml");
    fs::write(
        &rule,
        "rule: pace\nabout: b\nroles: {one: exe != \"\"}\nwindows: {w: {every: 500ms}}\n\
         metrics: {busy: sum(cpu.time) / w.duration}\ntune:\n  - {finding: it is asleep, when: busy < 1%}\n",
    )?;
    let rule = rule.to_string_lossy().into_owned();
    let text = folder.path().join("knob.c");
    fs::write(&text, "int knob;\n")?;
    let text = text.to_string_lossy().into_owned();
    let rows: Vec<(Vec<&str>, i32, &str)> = vec![
        (vec![&pid], 2, "tuneagent attach"),
        (vec!["run", "true"], 0, "the command has ended"),
        (vec!["attach"], 2, "tuneagent ps"),
        (vec!["attach", "no-such-program"], 2, "tuneagent ps"),
        (
            vec!["attach", "--duration", "2s", "--rules", "none", &rule, &pid],
            0,
            "it is asleep",
        ),
        (
            vec!["attach", "--apply", "openmpi-busy-wait", &pid],
            2,
            "--apply=openmpi-busy-wait",
        ),
        (
            vec!["attach", &pid, "--duration", "-1s"],
            2,
            "`-1s` is not a time such as 10s",
        ),
        (vec!["get", &pid, "limit"], 2, "did you mean `limits`?"),
        (vec!["set", &pid, "limit=3"], 2, "did you mean `limits`?"),
        (vec!["get", &bare, "limit"], 2, "is stripped"),
        (
            vec!["set", &pid, "limits[2]=3000000000"],
            1,
            "nothing was written",
        ),
        (vec!["replay", &text], 1, "this is not a recording of tuneagent"),
    ];
    let mut wrong = Vec::new();
    for (words, wanted, part) in rows {
        let (code, said) = Agent::run(&words)?;
        // A recording's error was told twice.
        let is_once = words[0] != "replay" || said.matches(part).count() == 1;
        if code != wanted || !said.contains(part) || !is_once {
            wrong.push(format!(
                "{words:?} ended with {code}, not {wanted}, without '{part}' or with more than one:\n{said}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
