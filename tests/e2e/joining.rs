//! Ranks that start late or end early, programs in other namespaces, and deleted files.

use std::fs;

use serde_json::Value;
use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::job::{Job, Mpi, Waiting};
use tuneagent_e2e::lines::Line;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, each, family, programs, require, wheels};

use crate::expected::{SOON, counts, start_busywork, text_file, with_folder};
use crate::iterations::wait_for_report;

/// Arguments that run a shell script as the program of a job; `$0` is the job's folder and `$1` the program.
fn script(text: &str, program: &std::path::Path) -> impl FnOnce(&std::path::Path) -> Vec<String> {
    let (text, program) = (text.to_owned(), program.to_string_lossy().into_owned());
    move |folder| vec!["-c".into(), text, folder.to_string_lossy().into_owned(), program]
}

/// Whether the process has Open MPI's code mapped.
fn has_mpi(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines()
        .any(|line| line.contains(" r-xp ") && line.contains("/libmpi.so"))
}

#[test]
fn ranks_that_load_their_mpi_after_the_attach_join_with_it() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi, Mpi4py);
    let python = std::path::Path::new("/usr/bin/python3");
    let late = programs::source("late.py");
    let job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 2, python, |folder| {
        [&late, folder]
            .map(|path| path.to_string_lossy().into_owned())
            .to_vec()
    })?;
    job.events("started", 2, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    job.open("load")?;
    for rank in [0, 1] {
        let joined = |lines: &[Line]| {
            let is_it = |line: &&Line| {
                line.text.contains(&format!("rank {rank} ")) && line.text.ends_with("is watched again")
            };
            lines.iter().find(is_it).map(|_| ())
        };
        agent.lines.wait_for("a rank to join", SOON, joined)?;
    }
    job.open("go")?;
    job.events("done", 2, SOON)?;
    let report = agent.stop()?;
    job.open("end")?;
    for rank in [0, 1] {
        let processes = report["processes"].as_array().ok_or("no processes")?;
        let mut of_rank = processes.iter().filter(|process| process["rank"] == rank);
        let entry = of_rank.next_back().ok_or("a rank is missing in the report")?;
        let seen = counts(&entry["functions"])?;
        assert_eq!(
            seen.get("MPI_Barrier").map(|(calls, _)| *calls),
            Some(7),
            "{report}"
        );
        let reported = format!("rank {rank} (pid {}) has loaded its MPI after", entry["pid"]);
        assert!(agent.lines.text().contains(&reported), "{}", agent.lines.text());
    }
    Ok(())
}

/// Python loads libraries when it imports them, on a busy machine seconds after its start.
#[test]
fn a_process_that_loads_a_library_of_a_rule_after_the_attach_joins_the_rule() -> Outcome {
    let _machine = require!(shared: Root, PythonWheels);
    let python = wheels::PYTHON.file().ok_or("NumPy is not there")?;
    let text = "import os, runpy, sys, time\nprint('{\"event\":\"started\"}', flush=True)\n\
                while not os.path.exists(sys.argv[1] + '/load'): time.sleep(0.05)\nrunpy.run_path(sys.argv[3])";
    let products = programs::source("products.py");
    let job = Job::alone(&python, |folder| {
        let (folder, products) = (folder.to_string_lossy(), products.to_string_lossy());
        ["-c", text, &folder, "64", &products].map(str::to_owned).to_vec()
    })?;
    job.events("started", 1, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    job.open("load")?;
    job.events("ready", 1, SOON)?;
    agent
        .lines
        .wait_for_line("has loaded libraries for the rule blas-threads after", SOON)?;
    agent.lines.wait_for_line(") is watched again", SOON)?;
    wait_for_report(&agent, |now| {
        let mut rules = each(&now["rules"]).filter(|rule| rule["name"] == "blas-threads");
        rules.any(|rule| !rule["state"].to_string().contains("not for this program"))
    })?;
    agent.stop()?;
    job.open("end")
}

#[test]
fn a_rank_that_starts_later_joins_and_is_counted() -> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let program = programs::mpi("count", Mpi::OpenMpi)?;
    // Rank 1 is a shell until the gate opens; rank 0 waits for it in MPI_Init.
    let text = r#"if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
                    while [ ! -e "$0/late" ]; do read -t 0.05 x <> <(:); done 2>/dev/null
                  fi
                  exec "$1" "$0" --iterations 3"#;
    let shell = std::path::Path::new("/bin/bash");
    let job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 2, shell, script(text, &program))?;
    wait_until("a rank with MPI", SOON, || {
        let ranks = family::descendants(job.pid());
        Ok(ranks.iter().any(|rank| has_mpi(rank.pid)))
    })?;
    let mut agent = Agent::attach_armed(job.pid(), &[])?;
    job.open("late")?;
    agent.lines.wait_for_line("joined", SOON)?;
    job.events("ready", 2, SOON)?;
    job.open("go")?;
    let own_counts = job.events("tally", 2, SOON)?;
    let report = agent.stop()?;
    job.open("end")?;
    for own_count in &own_counts {
        let same_pid = |process: &&Value| process["pid"] == own_count["pid"];
        let processes = report["processes"].as_array().ok_or("no processes")?;
        let process = processes
            .iter()
            .find(same_pid)
            .ok_or("a rank is missing in the report")?;
        let seen = counts(&process["functions"])?;
        for (name, count) in counts(&own_count["functions"])? {
            let said = agent.lines.text();
            assert_eq!(
                seen.get(&name),
                Some(&count),
                "{name} of {}:\n{said}",
                own_count["rank"]
            );
        }
    }
    Ok(())
}

/// `knob` is set, judged and kept, and then the condition no longer holds. `first` keeps its initial value,
/// because its metric never has a value.
const COMING: &str = "rule: coming\nabout: for a test\nroles: {one: has(knob)}\nprobes:\n  step: {role: one, entry: step}\n  \
    never: {role: one, span: never}\ncapture: {step.knob: knob}\nwindows: {pulse: {every: 200ms}}\nmetrics:\n  \
    best: mean(never.duration) / 1s\ntune:\n  \
    - set: knob\n    role: one\n    value: 20\n    when: max(step.knob) == 10\n    \
    guard: {maximize: count(step), over: 2, undo_if_worse_by: 90%, keep: not_worse}\n  \
    - set: first\n    role: one\n    initial: 5\n    value: best\n    when: best > 0\n";

/// A rule that reports the number of ranks that take steps.
const THERE: &str = "rule: there\nabout: for a test\nroles: {one: has(knob)}\nprobes: {step: {role: one, entry: step}}\n\
    windows: {pulse: {every: 200ms}}\nmetrics:\n  steps: count(step) by process\n  there: count(steps where steps > 0)\n\
    tune:\n  - when: there > 0\n    finding: '{there} ranks take steps'\n";

/// Changes of a rank in the report: variable, new value, verdict.
fn changes_of(report: &Value, rank: u64) -> Vec<(String, String, String)> {
    let all = each(&report["changes"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    all.filter(|change| change["rank"] == rank)
        .map(|change| {
            let verdict = text(&change["guard"]["verdict"]);
            (text(&change["variable"]), text(&change["new"]), verdict)
        })
        .collect()
}

#[test]
fn a_rank_that_starts_later_is_given_what_was_kept_and_first_values_and_one_that_ends_is_not_waited_for()
-> Outcome {
    let _machine = require!(shared: Root, OpenMpi);
    let program = programs::mpi("coming", Mpi::OpenMpi)?;
    let text = r#"if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
                    while [ ! -e "$0/late" ]; do read -t 0.05 x <> <(:); done 2>/dev/null
                  fi
                  exec "$1" "$0""#;
    let shell = std::path::Path::new("/bin/bash");
    let mut job = Job::mpi(Mpi::OpenMpi, Waiting::Yielding, 2, shell, script(text, &program))?;
    job.events("ready", 1, SOON)?;
    let rules = tempfile::tempdir()?;
    for (name, text) in [("coming.yaml", COMING), ("there.yaml", THERE)] {
        fs::write(rules.path().join(name), text)?;
    }
    let folder = rules.path().to_string_lossy().into_owned();
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &folder, "--apply"])?;
    agent.lines.wait_for_line("1 ranks take steps", SOON)?;
    let change = |variable: &str, new: &str, verdict: &str| (variable.into(), new.into(), verdict.into());
    let expected = [change("first", "5", ""), change("knob", "20", "kept")];
    let has_all = |report: &Value, rank| {
        let found = changes_of(report, rank);
        expected.iter().all(|change| found.contains(change)) && found.len() == expected.len()
    };
    wait_for_report(&agent, |report| has_all(report, 0))?;

    job.open("late")?;
    agent.lines.wait_for_line("rank 1 (pid", SOON)?;
    let report = wait_for_report(&agent, |report| has_all(report, 1))?;
    let all = each(&report["changes"]);
    let kept: Vec<&Value> = all
        .filter(|change| change["rank"] == 1 && change["variable"] == "knob")
        .collect();
    assert_eq!(
        kept[0]["guard"]["text"], "as in the other processes of its role; kept",
        "{report}"
    );
    let takes = |report: &Value, text: &str| {
        let mut findings = each(&report["findings"]);
        findings.any(|finding| finding["text"] == text)
    };
    wait_for_report(&agent, |report| takes(report, "2 ranks take steps"))?;

    job.open("end-1")?;
    let values = job.events("values", 1, SOON)?;
    assert_eq!((&values[0]["knob"], &values[0]["first"]), (&20.into(), &5.into()));
    let report = wait_for_report(&agent, |report| takes(report, "1 ranks take steps"))?;
    let ended: Vec<bool> = each(&report["processes"])
        .map(|process| process["ended"] == true)
        .collect();
    assert_eq!(ended, [false, true], "{report}");
    agent.stop()?;
    job.open("end")?;
    let values = job.events("values", 2, SOON)?;
    let first = values
        .iter()
        .find(|values| values["rank"] == 0)
        .ok_or("no rank 0")?;
    assert_eq!(
        (&first["knob"], &first["first"]),
        (&10.into(), &1.into()),
        "the session reverted what it had changed"
    );
    job.finish(SOON)?;
    Ok(())
}

#[test]
fn in_a_pid_namespace_of_its_own_the_same_is_counted() -> Outcome {
    let _machine = require!(shared: Root, Mpich);
    let program = programs::mpi("count", Mpi::Mpich)?;
    let text = format!(
        r#"mpirun.mpich -n 2 "$1" "$0" --iterations 3 & job=$!
           while [ ! -e "$0/attach" ]; do read -t 0.05 x <> <(:); done 2>/dev/null
           {} attach $job --plain --json "$0/report.json"; wait"#,
        binary()?.display()
    );
    let inside = script(&text, &program);
    let unshare = std::path::Path::new("/usr/bin/unshare");
    let mut report_file = None;
    let mut job = Job::alone(unshare, |folder| {
        report_file = Some(folder.join("report.json"));
        let head = ["--pid", "--fork", "--mount-proc", "--kill-child", "/bin/bash"].map(String::from);
        head.into_iter().chain(inside(folder)).collect()
    })?;
    job.events("ready", 2, SOON)?;
    job.open("attach")?;
    job.lines.wait_for_line("armed", SOON)?;
    job.open("go")?;
    let own_counts = job.events("tally", 2, SOON)?;
    job.end(SOON)?;
    let text = fs::read_to_string(report_file.ok_or("no folder")?)?;
    let report: Value = serde_json::from_str(&text)?;
    for own_count in &own_counts {
        let rank = own_count["rank"]
            .as_u64()
            .and_then(|rank| usize::try_from(rank).ok())
            .ok_or("no rank")?;
        let seen = counts(&report["processes"][rank]["functions"])?;
        for (name, count) in counts(&own_count["functions"])? {
            assert_eq!(seen.get(&name), Some(&count), "{name} of rank {rank}");
        }
    }
    Ok(())
}

#[test]
fn a_program_whose_file_was_deleted_is_probed_all_the_same() -> Outcome {
    let _machine = require!(shared: Root);
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("busywork");
    fs::copy(programs::c("busywork")?, &copy)?;
    let mut job = Job::alone(&copy, |folder| with_folder(folder, vec!["50".into()]))?;
    job.events("ready", 1, SOON)?;
    fs::remove_file(&copy)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--probe", "step_outer"])?;
    job.open("go")?;
    let own_count = job.events("tally", 1, SOON)?.remove(0);
    let report = agent.stop()?;
    job.end(SOON)?;
    let seen = counts(&report["processes"][0]["functions"])?;
    let calls = seen.get("step_outer").map(|(calls, _)| *calls);
    assert_eq!(calls, own_count["step_outer"].as_u64(), "{report}");
    Ok(())
}

#[test]
fn spans_of_functions_that_exceptions_pass_through_leave_the_program_alone() -> Outcome {
    let _machine = require!(shared: Root, Cxx);
    let (_folder, rule) = text_file(
        "passing.yaml",
        "rule: passing\nabout: times a function that exceptions pass through\n\
         roles:\n  target: exe != \"\"\nprobes:\n  pass: {role: target, span: pass_through}\n\
         windows:\n  pulse: {every: 500ms}\nmetrics:\n  mean_time: mean(pass.duration)\n",
    )?;
    let program = programs::cxx("thrower")?;
    let mut job = Job::alone(&program, |folder| with_folder(folder, vec!["1000".into()]))?;
    job.events("ready", 1, SOON)?;
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule])?;
    job.open("go")?;
    let own_count = job.events("tally", 1, SOON)?.remove(0);
    let report = agent.stop()?;
    job.end(SOON)?;
    assert_eq!(
        (own_count["pass_through"].as_u64(), own_count["caught"].as_u64()),
        (Some(1000), Some(500))
    );
    let function = &report["processes"][0]["functions"][0];
    assert_eq!(function["name"], "pass_through", "{report}");
    // Every second call is left by an exception. It is counted, and reported as not timed.
    assert_eq!(
        (&function["calls"], &function["untimed_calls"]),
        (&1000.into(), &500.into()),
        "{report}"
    );
    assert!(
        function["time_s"].as_f64().is_some_and(|time| time > 0.0),
        "{report}"
    );
    Ok(())
}

#[test]
fn a_rule_sees_the_arguments_and_variables_of_the_program_at_each_hit() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (folder, rule) = text_file(
        "rounds.yaml",
        "rule: rounds\nabout: reads what step_outer is called with, and the program's own count of its calls\n\
         roles:\n  target: exe != \"\"\nprobes:\n  before: {role: target, entry: step_outer}\n  after: {role: target, return: step_outer}\n\
         capture:\n  before.round: arg(0) as i32\n  before.calls: outer_calls as i64\n  after.calls: outer_calls as i64\n\
         windows:\n  pulse: {every: 500ms}\n\
         tune:\n  - finding: last round {max(before.round)}, {max(before.calls)} calls before it and {max(after.calls)} after\n    when: count(before) > 0\n",
    )?;
    let mut job = start_busywork("50")?;
    let recording = folder.path().join("rounds.rec").to_string_lossy().into_owned();
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule, "--record", &recording])?;
    job.open("go")?;
    agent
        .lines
        .wait_for_line("last round 49, 49 calls before it and 50 after", SOON)?;
    agent.stop()?;
    job.end(SOON)?;
    // The window is timed, and the program had made no call when it began, so the recording must have its
    // begin.
    let text = Agent::succeed(&["replay", &recording, "--rules", "none", &rule])?;
    assert_has!(text, "last round 49, 49 calls before it and 50 after");
    Ok(())
}

#[test]
fn a_window_from_call_to_call_is_evaluated_with_the_durations_within() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let (folder, rule) = text_file(
        "turns.yaml",
        "rule: turns\nabout: how long a turn takes\nroles:\n  target: exe != \"\"\n\
         probes:\n  before: {role: target, entry: step_outer}\n  work: {role: target, span: step_inner}\n\
         windows:\n  turn: {from: before}\nmetrics:\n  busy: sum(work.duration)\n\
         tune:\n  - finding: turn {turn.index} took {turn.duration}, {busy} in it\n    when: busy > 0us\n",
    )?;
    let mut job = start_busywork("300")?;
    let recording = folder.path().join("turns.rec").to_string_lossy().into_owned();
    let mut agent = Agent::attach_armed(job.pid(), &["--rules", "none", &rule, "--record", &recording])?;
    job.open("go")?;
    agent.lines.wait_for_line("turn 0 took", SOON)?;
    job.events("tally", 1, SOON)?;
    let report = agent.stop()?;
    // 300 entries make 299 complete turns, numbered from 0.
    let text = report["findings"][0]["text"].as_str().unwrap_or_default();
    assert!(text.starts_with("turn 298 took "), "{report}");
    job.end(SOON)?;

    // A replay of the recording must give the same windows.
    let (code, table) = Agent::run(&["replay", &recording, "--rules", "none", &rule, "--csv", "-"])?;
    assert_eq!((code, table.lines().count()), (0, 300), "{table}");
    let last = table.lines().last().unwrap_or_default();
    let busy = text
        .split(", ")
        .nth(1)
        .and_then(|rest| rest.strip_suffix(" in it"))
        .unwrap_or_default();
    // In base units and with all digits; texts for users have three digits.
    let fields: Vec<&str> = last.split(',').collect();
    assert_eq!(fields[1..6], ["turns", "turn", "298", "busy", "s"], "{last}");
    let (number, unit) = busy.split_once(' ').ok_or("no unit")?;
    let scale = [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    let scale = scale
        .iter()
        .find(|(name, _)| *name == unit)
        .ok_or("another unit")?
        .1;
    let parsed = |text: &str| text.parse::<f64>().map_err(|error| format!("{text}: {error}"));
    let ratio = parsed(fields[6])? / (parsed(number)? * scale);
    assert!((0.995..1.005).contains(&ratio), "{last} is not that of: {text}");
    let (code, text) = Agent::run(&["replay", &recording, "--rules", "none", &rule])?;
    assert!(code == 0 && text.contains("299 windows evaluated"), "{text}");
    // If no window closes, the replay has no result and prints the reason.
    fs::write(
        &rule,
        fs::read_to_string(&rule)?.replace("entry: step_outer", "entry: never_called"),
    )?;
    let (code, text) = Agent::run(&["replay", &recording, "--rules", "none", &rule])?;
    assert!(
        code == 1 && text.contains("no window was evaluated"),
        "{code}: {text}"
    );
    Ok(())
}
