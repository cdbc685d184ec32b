//! The use of each capability: runs the program as a user with exactly these rights, and without each of
//! them.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use serde_json::json;
use tuneagent_e2e::agent::Agent;
use tuneagent_e2e::job::Mpi;
use tuneagent_e2e::knobs::{ANA, BEN, Knobs, User};
use tuneagent_e2e::lines::finish;
use tuneagent_e2e::{Outcome, Problem, family, programs, require};

use crate::expected::SOON;

const WATCHING: [&str; 4] = ["bpf", "perfmon", "sys_ptrace", "dac_read_search"];
const APPLYING: [&str; 6] = [
    "bpf",
    "perfmon",
    "sys_ptrace",
    "dac_read_search",
    "sys_nice",
    "checkpoint_restore",
];

/// Sets `knob` in the first window, with no guard.
pub(crate) const SET_KNOB: &str = "rule: set-knob\nabout: sets knob in whatever has it\nroles:\n  program: has(knob)\n\
    windows:\n  pulse: {every: 100ms}\nmetrics:\n  used: sum(cpu.time) / pulse.duration\ntune:\n  - set: knob\n    \
    role: program\n    value: 20\n    when: used >= 0\n    for: 2\n    \
    guard: {maximize: used, over: 2, undo_if_worse_by: 90%, keep: not_worse}\n    finding: knob is not 20\n";

fn without(all: &[&'static str], one: &str) -> Vec<&'static str> {
    all.iter().copied().filter(|name| *name != one).collect()
}

#[test]
fn watching_another_users_program_takes_four_capabilities_and_each_one_that_is_missing_is_named() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    let watch = format!("attach {pid} --any-user --probe step --plain --duration 1s --json -");
    let watch: Vec<&str> = watch.split(' ').collect();
    let (code, text) = User::new(BEN, &WATCHING)?.run(&watch)?;
    assert_eq!(code, 0, "{text}");
    let calls = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("\"calls\": "));
    let calls = calls.and_then(|calls| calls.trim_end_matches(',').parse::<u64>().ok());
    assert!(calls.is_some_and(|calls| calls > 0), "{text}");
    for missing in WATCHING {
        let (code, text) = User::new(BEN, &without(&WATCHING, missing))?.run(&watch)?;
        assert_eq!(code, 3, "without {missing}: {text}");
        let name = format!("CAP_{}", missing.to_uppercase());
        for part in [name.as_str(), "sudo "] {
            assert!(text.contains(part), "without {missing}, {part} is not in: {text}");
        }
    }
    Ok(())
}

/// Whether process_vm_writev stores fewer than eight bytes in one access on this CPU.
fn has_fsrm() -> Outcome<bool> {
    let flags = fs::read_to_string("/proc/cpuinfo")?;
    Ok(flags.split_whitespace().any(|flag| flag == "fsrm"))
}

#[test]
fn changing_another_users_program_goes_without_overriding_file_permissions() -> Outcome {
    require!(Root, Cc);
    let mut knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    let set = ["set", &pid, "rate=2.5", "--any-user"];
    for missing in ["sys_ptrace", "dac_read_search"] {
        let (code, text) = User::new(BEN, &without(&APPLYING, missing))?.run(&set)?;
        let name = format!("CAP_{}", missing.to_uppercase());
        assert!(
            code == 3 && text.contains(&name),
            "without {missing}: {code}: {text}"
        );
        assert_eq!(knobs.values()?["rate"], 1.5);
    }
    // None of the six capabilities permits opening /proc/PID/mem of another user for writing, so
    // process_vm_writev wrote. Eight bytes, because shorter values are not written this way on CPUs without
    // fsrm.
    let ben = User::new(BEN, &APPLYING)?;
    let (code, text) = ben.run(&set)?;
    assert_eq!((code, &knobs.values()?["rate"]), (0, &json!(2.5)), "{text}");
    let (code, text) = ben.run(&["undo", &pid, "--any-user"])?;
    assert_eq!((code, &knobs.values()?["rate"]), (0, &json!(1.5)), "{text}");
    let (code, text) = ben.run(&["set", &pid, "knob=11", "--any-user"])?;
    let is_left = text.contains("on this CPU (without fsrm)") && text.contains("CAP_DAC_OVERRIDE");
    let expected = if has_fsrm()? { (0, 11) } else { (1, 10) };
    assert_eq!((code, knobs.knob()?), expected, "{text}");
    assert_eq!(is_left, expected.0 != 0, "{text}");
    if expected.0 == 0 {
        let (code, text) = ben.run(&["undo", &pid, "--any-user"])?;
        assert_eq!((code, knobs.knob()?), (0, 10), "{text}");
    }

    // Code is read-only, so it is written through the held thread (ptrace).
    let rounds = |knobs: &mut Knobs| Ok::<_, Problem>(knobs.values()?["rounds"].as_u64().ok_or("no rounds")?);
    let (code, text) = ben.run(&["patch", &pid, "remove", "step", "--any-user"])?;
    assert_eq!(code, 0, "{text}");
    let still = (rounds(&mut knobs)?, rounds(&mut knobs)?);
    assert_eq!(still.0, still.1, "{text}");
    let (code, text) = ben.run(&["undo", &pid, "--any-user"])?;
    assert_eq!(code, 0, "{text}");
    // The calls are back: `rounds` increases again.
    assert!(rounds(&mut knobs)? < rounds(&mut knobs)?, "{text}");
    Ok(())
}

#[test]
fn a_rule_applies_with_the_six_and_says_what_it_lacks_without_the_priority() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    for (capabilities, warns) in [(APPLYING.to_vec(), false), (without(&APPLYING, "sys_nice"), true)] {
        let ben = User::new(BEN, &capabilities)?;
        let rule = ben.file("set-rate.yaml", &SET_KNOB.replace("knob", "rate"))?;
        let arguments = format!("attach {pid} --any-user --rules none {rule} --apply --probe step --plain");
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let mut session = ben.start(&arguments)?;
        session.lines.wait_for_line("written and read back", SOON)?;
        assert_eq!(knobs.values()?["rate"], 20);
        let (code, text) = ben.run(&["session", "stop", &pid])?;
        assert_eq!(code, 0, "{text}");
        assert_eq!(session.wait()?, 0, "{}", session.lines.text());
        assert_eq!(knobs.values()?["rate"], 1.5);
        let said = session.lines.text();
        assert_eq!(said.contains("CAP_SYS_NICE is missing"), warns, "{said}");
    }
    Ok(())
}

/// Field of /proc/PID/status for every thread.
fn status_of_all_threads(pid: u32, key: &str) -> Outcome<Vec<String>> {
    let mut found = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(task?.path().join("status"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        found.push(line.ok_or("no such line")?.trim().to_owned());
    }
    Ok(found)
}

/// Bits of capabilities, from linux/capability.h.
const BITS: [(&str, u32); 7] = [
    ("bpf", 39),
    ("perfmon", 38),
    ("sys_ptrace", 19),
    ("dac_read_search", 2),
    ("sys_nice", 23),
    ("checkpoint_restore", 40),
    ("sys_admin", 21),
];

fn mask(names: &[&str]) -> String {
    let bits = BITS.iter().filter(|(name, _)| names.contains(name));
    format!("{:016x}", bits.fold(0u64, |mask, (_, bit)| mask | 1 << bit))
}

#[test]
fn after_the_start_root_has_dropped_everything_that_is_not_needed() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let knobs = Knobs::start()?;
    let mut agent = Agent::attach_armed(knobs.pid(), &["--probe", "step", "--apply"])?;
    let process = |what: &str| -> Outcome<u32> {
        let mut members = family::descendants(agent.pid()).into_iter();
        let found = members.find(|member| member.has_word(what));
        Ok(found
            .ok_or(format!("no process of the session is the {what}"))?
            .pid)
    };
    let (report, actuator, closer) = (process("write-report")?, process("actuator")?, process("closer")?);
    // The actuator keeps these, because rules with sync points may be added during the session.
    let looking = [&WATCHING[..], &["checkpoint_restore"]].concat();
    // Permitted but not effective: needed to read the seccomp filters of programs.
    let permitted = [&APPLYING[..], &["sys_admin"]].concat();
    for (pid, in_force, permitted) in [
        (agent.pid(), mask(&looking), mask(&looking)),
        (report, mask(&[]), mask(&[])),
        (closer, mask(&[]), mask(&[])),
        (actuator, mask(&APPLYING), mask(&permitted)),
    ] {
        for (key, expected) in [
            ("CapPrm:", permitted),
            ("CapEff:", in_force.clone()),
            ("CapBnd:", in_force),
        ] {
            for found in status_of_all_threads(pid, key)? {
                assert_eq!(found, expected, "{key} of process {pid}");
            }
        }
        for (key, expected) in [
            ("CapInh:", mask(&[])),
            ("CapAmb:", mask(&[])),
            ("NoNewPrivs:", "1".into()),
        ] {
            for found in status_of_all_threads(pid, key)? {
                assert_eq!(found, expected, "{key} of process {pid}");
            }
        }
    }
    agent.stop()?;
    Ok(())
}

/// Gives the user's copy of the program the six file capabilities. Returns false if the file system does not
/// support them.
pub(crate) fn lend(user: &User) -> Outcome<bool> {
    let names: Vec<String> = APPLYING.iter().map(|name| format!("cap_{name}")).collect();
    let mut setcap = Command::new("setcap");
    setcap.arg(format!("{}=ep", names.join(","))).arg(&user.program);
    Ok(setcap.status()?.success())
}

#[test]
fn capabilities_of_the_file_serve_ones_own_programs_and_no_others() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let ana = User::new(ANA, &[])?;
    // File capabilities are limited by the bounding set, so this user keeps root's.
    assert!(lend(&ana)?, "setcap");
    let run = |arguments: &[&str]| -> Outcome<(i32, String)> { finish(as_plain_user(&ana).args(arguments)) };
    let mut own = Knobs::start_as(ANA)?;
    let pid = own.pid().to_string();
    let (code, text) = run(&["attach", &pid, "--probe", "step", "--plain", "--duration", "1s"])?;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains(" step "), "{text}");
    let (code, text) = run(&["set", &pid, "knob=11"])?;
    assert_eq!((code, own.knob()?), (0, 11), "{text}");
    let (code, text) = run(&["undo", &pid, "--last"])?;
    assert_eq!((code, own.knob()?), (0, 10), "{text}");

    let mut foreign = Knobs::start_as(BEN)?;
    let foreign_pid = foreign.pid().to_string();
    for arguments in [
        vec!["attach", &foreign_pid, "--any-user", "--probe", "step"],
        vec!["set", &foreign_pid, "knob=11", "--any-user"],
        vec!["get", &foreign_pid, "knob", "--any-user"],
    ] {
        let (code, text) = run(&arguments)?;
        assert_eq!(code, 3, "{arguments:?}: {text}");
    }
    // The actuator, which any user can start directly, refuses it, too.
    let answer = ask_actuator(&ana, foreign.pid())?;
    assert!(answer.contains("lent for your own processes"), "{answer}");
    assert_eq!(foreign.knob()?, 10);

    // Files that the user may not read are not read with the program's rights.
    let secret = ana.file("secret.yaml", "root's own\n")?;
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600))?;
    let (code, text) = run(&["rule", "check", &secret])?;
    assert!(code != 0 && !text.contains("root's own"), "{text}");
    Ok(())
}

#[test]
fn without_any_capability_ranks_that_share_cores_are_reported_and_repaired_without_being_judged() -> Outcome {
    let _machine = require!(machine: Root, OpenMpi);
    let ana = User::new(ANA, &[])?;
    // Enough ranks for too few CPUs on any machine.
    let number = 3 * std::thread::available_parallelism()?.get();
    let mut ranks = ana.ranks(&programs::mpi("allreduce", Mpi::OpenMpi)?, number)?;
    ranks.begun("\"pace\"")?;
    let said = repaired_without_probes(&ana, &[ranks.pid()], "openmpi-oversubscribed", number)?;
    assert_has!(said, "next   mpirun --mca mpi_yield_when_idle 1");
    Ok(())
}

#[test]
fn without_any_capability_blas_threads_that_share_cores_are_reported_and_repaired_without_being_judged()
-> Outcome {
    let _machine = require!(machine: Root, NumPy);
    let ana = User::new(ANA, &[])?;
    let number = 2 * std::thread::available_parallelism()?.get();
    let mut processes: Vec<_> = (0..number).map(|_| ana.products()).collect::<Outcome<_>>()?;
    for process in &mut processes {
        process.begun("\"pace\"")?;
    }
    let pids: Vec<u32> = processes.iter().map(|process| process.pid()).collect();
    let said = repaired_without_probes(&ana, &pids, "blas-oversubscribed", number)?;
    assert!(said.contains("next   OPENBLAS_NUM_THREADS=1"), "{said}");
    Ok(())
}

#[test]
fn without_any_capability_teams_that_share_cores_are_reported_and_left_as_they_are() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let ana = User::new(ANA, &[])?;
    let mut programs = [ana.teams()?, ana.teams()?];
    for program in &mut programs {
        program.begun("\"pace\"")?;
    }
    let pids = programs.each_ref().map(|program| program.pid().to_string());
    let mut session = ana.start(&["attach", "--apply", "--plain", &pids[0], &pids[1]])?;
    let rule = "openmp-oversubscribed";
    session.lines.wait_for_line(&format!("finding  {rule}"), SOON)?;
    let (code, text) = ana.run(&["session", "stop", &pids[0]])?;
    assert_eq!((code, session.wait()?), (0, 0), "{text}");
    assert_has!(
        session.lines.text(),
        "Without probes it is not known whether the program states the size",
        "OMP_THREAD_LIMIT=1",
        "nothing was changed"
    );
    Ok(())
}

/// A session of a user without capabilities, in which a rule acts on measurements from /proc alone, without a
/// verdict. Returns the output.
fn repaired_without_probes(user: &User, pids: &[u32], rule: &str, changes: usize) -> Outcome<String> {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let mut words = vec!["attach", "--apply", "--plain"];
    words.extend(pids.iter().map(String::as_str));
    let mut session = user.start(&words)?;
    let lines = &session.lines;
    lines.wait_for_line(&format!("finding  {rule}"), SOON)?;
    lines.wait_for_line(&format!("{changes} changes written and read back"), SOON)?;
    let (code, text) = user.run(&["session", "stop", &pids[0]])?;
    assert_eq!((code, session.wait()?), (0, 0), "{text}");
    let said = session.lines.text();
    assert_has!(
        said,
        "Without probes it is not known",
        &format!("{changes} changes reverted")
    );
    Ok(said)
}

/// The program as this user, with no capabilities but those of its file.
fn as_plain_user(user: &User) -> Command {
    let ready = user.command(&[]);
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={ANA}"), format!("--regid={ANA}")]);
    command.args("--clear-groups --pdeathsig KILL -- timeout --foreground 120".split(' '));
    command.arg(&user.program).stdin(Stdio::null());
    for (name, value) in ready.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Starts an actuator directly and sends it a write to a process.
fn ask_actuator(user: &User, pid: u32) -> Outcome<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = stat.rsplit(')').next().ok_or("no name")?;
    let start_time = after.split_ascii_whitespace().nth(19).ok_or("no start time")?;
    let (mut ours, theirs) = UnixStream::pair()?;
    let mut command = as_plain_user(user);
    command
        .arg("actuator")
        .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
    let mut child = command.spawn()?;
    drop(command);
    let who = format!(r#"{{"uid":{ANA},"user":"ana","pid":1}}"#);
    let state = user.runtime();
    let hello = format!(
        r#"{{"id":1,"command":{{"hello":{{"keep":true,"state_dir":"{}","who":{who}}}}}}}"#,
        state.display()
    );
    let set = format!(
        r#"{{"id":2,"command":{{"set":{{"pid":{{"number":{pid},"start_time":{start_time}}},"variable":"knob","module":null,"value":{{"integer":11}},"value_type":null,"expect_old":null,"why":[],"rule":null}}}}}}"#
    );
    ours.write_all(format!("{hello}\n{set}\n").as_bytes())?;
    let mut answers = BufReader::new(ours).lines();
    let welcome = answers.next().ok_or("no welcome")??;
    assert!(welcome.contains("welcome"), "{welcome}");
    let answer = answers.next().ok_or("no answer")??;
    drop(answers);
    child.wait()?;
    Ok(answer)
}

#[test]
fn tuneagent_does_not_run_as_a_set_uid_program() -> Outcome {
    require!(Root);
    let ana = User::new(ANA, &[])?;
    fs::set_permissions(&ana.program, fs::Permissions::from_mode(0o4755))?;
    let output = as_plain_user(&ana).arg("ps").output()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("must not be a set-uid program"), "{text}");
    Ok(())
}

#[test]
fn without_any_capability_one_still_reads_writes_applies_and_takes_back_in_ones_own_programs() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut knobs = Knobs::start_as(ANA)?;
    let pid = knobs.pid().to_string();
    let ana = User::new(ANA, &[])?;
    let (code, text) = ana.run(&["get", &pid, "knob"])?;
    assert!(code == 0 && text.contains("knob = 10 (i32)"), "{text}");
    let (code, text) = ana.run(&["set", &pid, "knob=11"])?;
    assert_eq!((code, knobs.knob()?), (0, 11), "{text}");
    let (code, text) = ana.run(&["undo", &pid])?;
    assert_eq!((code, knobs.knob()?), (0, 10), "{text}");
    let (code, text) = ana.run(&["ps", "--all", "--duration", "2s"])?;
    assert!(code == 0 && text.contains("knobs"), "{text}");

    let rule = ana.file("set-knob.yaml", SET_KNOB)?;
    let mut session = ana.start(&["attach", &pid, "--rules", "none", &rule, "--apply", "--plain"])?;
    session.lines.wait_for_line("written and read back", SOON)?;
    assert_eq!(knobs.knob()?, 20);
    let said = session.lines.text();
    assert_has!(
        said,
        "missing: probes need CAP_BPF, CAP_PERFMON",
        "with them: sudo ",
        "sudo setcap cap_bpf,cap_perfmon",
        "only the data of /proc are shown"
    );
    let (code, text) = ana.run(&["session", "stop", &pid])?;
    assert_eq!((code, session.wait()?, knobs.knob()?), (0, 0, 10), "{text}");
    // Processes of other users are refused.
    let mut foreign = Knobs::start_as(BEN)?;
    let foreign_pid = foreign.pid().to_string();
    for arguments in [["get", &foreign_pid, "knob"], ["set", &foreign_pid, "knob=11"]] {
        let (code, text) = ana.run(&arguments)?;
        assert!(code == 3 && text.contains("CAP_SYS_PTRACE"), "{code}: {text}");
    }
    assert_eq!(foreign.knob()?, 10);
    Ok(())
}
