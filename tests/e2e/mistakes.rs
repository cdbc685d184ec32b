//! Frequent mistakes: the agent does what was intended, or prints the right command. Each row has the
//! arguments, the exit code, and a part of the output.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::job::{Job, Mpi};
use tuneagent_e2e::knobs::{self, Knobs};
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, programs, require};

use crate::expected::{SOON, text_file, with_folder, written};

/// Starts a program that answers each input byte and then waits for the next.
fn settings(folder: &Path, strip: bool) -> Outcome<Job> {
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

/// Lock that excludes other tests with programs of the name `settings`.
fn only_settings() -> MutexGuard<'static, ()> {
    static SETTINGS: Mutex<()> = Mutex::new(());
    SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Process number of a program that a shell has started.
fn pid_of(name: &str) -> Outcome<String> {
    let found = Command::new("pgrep").args(["-n", "-x", name]).output()?;
    let pid = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    assert!(!pid.is_empty(), "{name} does not run");
    Ok(pid)
}

#[test]
fn a_launcher_is_waited_for_until_it_has_a_rank_and_a_singletons_daemon_is_none() -> Outcome {
    let _settings = only_settings();
    let _machine = require!(shared: Root, OpenMpi, Cc);
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
        "{code}: {said}\nthe launcher: {}",
        job.lines.text()
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

/// A row: the exit code, the command line, and a part of the output.
const MISTAKES: &str = "\
2    PID => tuneagent attach
0    run true => the command has ended
125  run --aply true => did you mean `--apply`?
2    attach => tuneagent ps
2    attach no-such-program => tuneagent ps
0    attach --duration 2s --rules none RULE PID => it is asleep
2    attach --apply openmpi-busy-wait PID => --apply=openmpi-busy-wait
2    attach PID --duration -1s => invalid value '-1s' for '--duration <TIME>': expected a time such as 10s
2    get PID limit => did you mean `limits`?
2    set PID limit=3 => did you mean `limits`?
2    get PID cgf.solver.chunk => did you mean `cfg.solver.chunk`?
2    get BARE limit => is stripped
2    set --role x PID limit=3 => unexpected argument '--role' found
2    patch BARE remove compare_it => is stripped
0    symbols BARE => was stripped: of its
# A command with an error in one part writes nothing.
2    set PID limits[1]=7 limit=3 => nothing was written
1    set PID limits[1]=7 limits[2]=3.7 => nothing was written
0    get PID limits[1] => limits[1] = 20
2    set PID limits[1]=7 --at entry:mian => did you mean `main`?
2    call PID mian() => did you mean `main`?
2    patch PID replace mian main => did you mean `main`?
2    symbols PID limit => did you mean `limits`?
2    attach setings => did you mean `settings`?
2    attach PID --apply=open-mpi => with --rules FILE
2    attach PID --progress step => such as `step/nsteps` or `step/5000`
2    attach PID --progress no_such_step/no_such_steps => no process has a numeric variable `no_such_step`
2    attach PID --progress limit/9 => no process has a numeric variable `limit`; did you mean `limits`?
2    attach PID --rules none --probe main --nodes b,n[1- => --nodes: 1 of 2 entries are no names of hosts, the first is `n[1-`
2    attach PID --apply --nodes b => --apply and --nodes exclude each other
2    attach PID --budget 5 => expected one such as 1% or 0.5%, or none
1    set PID limits[2]=3.7 => expected an integer
1    rule check load-imbalance --pid PID => does not apply to settings
1    replay JSON => this is JSON, such as a report
1    set PID limits[2]=3000000000 => nothing was written
1    replay TEXT => this is not a recording of tuneagent
1    replay EMPTY => the recording is empty
2    attach 4194304 => there is no process 4194304 here
2    replay none.rec --param least=5% => --param least=5% does not fit the rule memory-kept
2    replay none.rec --param oversubscription=abc => `abc` is no value, and the parameter `oversubscription` is a plain number, such as 1.2
2    replay none.rec --param oversubscripton=2 => no loaded rule uses the parameter oversubscripton: did you mean `oversubscription`?
2    replay none.rec --rules none optimal-workers --param x=abc => no loaded rule uses the parameter x: there are gain, max_workers
2    attach 2 => is a thread of the kernel
2    attach 1 => process 1 is init
2    attach PID --durations 1s => '--duration'
2    atach PID => 'attach'
2    attach PID --json /nowhere/x.json => there is no folder /nowhere
2    attach PID --trace /nowhere/x.json => /nowhere/x.json cannot be written: there is no folder /nowhere
2    attach PID --record /nowhere/x.rec => /nowhere/x.rec cannot be written: there is no folder /nowhere
2    attach PID --json JSON --csv JSON => --json and --csv cannot both be written to
2    attach PID --record EMPTY --html EMPTY => --html and --record cannot both be written to
2    attach PID --json - --csv - => --json and --csv cannot both use standard output
2    replay EMPTY --csv - --svg - => --csv and --svg cannot both use standard output
2    replay EMPTY --json EMPTY => --json would overwrite
2    attach PID --rules openmpi-bussy-wait => did you mean `openmpi-busy-wait`? (all of them: tuneagent rule list)
2    attach PID --rules none --duration 300ms --probe mian => did you mean `main`?
# There is something to watch, but not what the user named.
2    attach --rules none COUNTS --probe mian --duration 300ms -- PID => nothing was attached: no process has a function of --probe
0    attach --rules none --probe mian main --duration 300ms -- PID => missing: no module of process
# Further cases: cli.rs (missing rights, an occupied port, an unknown function), control.rs (another
# user's session, applying without --apply), exports.rs (`--json -`).
2    explain E9999 => E9999
1    rule check TAB => YAML permits no tab here
1    rule check UNITS => cannot compare a time and a plain number
";

#[test]
fn a_mistyped_command_is_carried_out_or_the_answer_has_the_right_one() -> Outcome {
    let _settings = only_settings();
    let _machine = require!(shared: Root, Cc);
    let folder = tempfile::tempdir()?;
    let (_whole, _bare) = (settings(folder.path(), false)?, settings(folder.path(), true)?);
    let (pid, bare) = (pid_of("settings")?, pid_of("bare")?);
    let written = |name: &str, text: &str| written(folder.path(), name, text);
    let rule = "rule: pace\nabout: b\nroles: {one: exe != \"\"}\nwindows: {w: {every: 500ms}}\n\
        metrics: {busy: sum(cpu.time) / w.duration}\ntune:\n  - {finding: it is asleep, when: busy < 1%}\n";
    let units = "rule: x\nabout: a\nroles: {r: rank >= 0}\nwindows: {w: {every: 1s}}\nmetrics: {m: sum(cpu.time) > 5}\n";
    let counts = "rule: counts\nabout: a\nroles: {one: exe != \"\"}\nprobes: {m: {role: one, entry: main}}\n\
        windows: {w: {every: 1s}}\nmetrics: {n: count(m)}\n";
    let files = [
        ("PID", pid.clone()),
        ("BARE", bare),
        ("RULE", written("pace.yaml", rule)?),
        ("TEXT", written("knob.c", "int knob;\n")?),
        ("EMPTY", written("empty.rec", "")?),
        ("JSON", written("report.json", "{}\n")?),
        ("TAB", written("tab.yaml", "rule: x\n\tabout: b\n")?),
        ("UNITS", written("units.yaml", units)?),
        ("COUNTS", written("counts.yaml", counts)?),
    ];
    let named = |word: &'static str| {
        let file = files.iter().find(|(name, _)| *name == word);
        file.map_or(word, |(_, file)| file.as_str())
    };
    let mut wrong = Vec::new();
    for row in MISTAKES.lines().filter(|row| !row.starts_with('#')) {
        let (line, part) = row.split_once(" => ").ok_or(row)?;
        let (wanted, line) = line.split_once(' ').ok_or(row)?;
        let words: Vec<&str> = line.split_whitespace().map(named).collect();
        let (code, said) = Agent::run(&words)?;
        // Regression: the error of a recording was printed twice.
        let is_once = words[0] != "replay" || said.matches(part).count() == 1;
        // Regression: clap advised to pass an unknown flag as a value.
        let is_misled = said.contains("as a value, use");
        if code.to_string() != wanted || !said.contains(part) || !is_once || is_misled {
            wrong.push(format!(
                "{words:?} ended with {code}, not {wanted}, without '{part}' or with more than one:\n{said}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    is_said_to_be_stopped(&pid)
}

/// A stopped program makes no calls; the output must say that it is stopped.
fn is_said_to_be_stopped(pid: &str) -> Outcome {
    let signal = |name: &str| Command::new("kill").args([name, pid]).status();
    assert!(signal("-STOP")?.success());
    // A process must be scheduled before it stops.
    wait_until(&format!("the stop of {pid}"), SOON, || {
        Ok(fs::read_to_string(format!("/proc/{pid}/stat"))?.contains(") T "))
    })?;
    let (_, said) = Agent::run(&[
        "attach",
        pid,
        "--rules",
        "none",
        "--duration",
        "300ms",
        "--probe",
        "main",
    ])?;
    assert!(signal("-CONT")?.success());
    assert!(said.contains(&format!("kill -CONT {pid}")), "{said}");
    Ok(())
}

/// A rule that may write and whose condition never holds.
const NEVER: &str = "rule: never\nabout: for a test\nroles: {one: has(knob)}\nwindows: {pulse: {every: 200ms}}\n\
    metrics: {busy: sum(cpu.time) / pulse.duration}\ntune:\n  - {set: knob, role: one, value: 20, when: busy > 50}\n";

#[test]
fn a_second_attach_is_shown_the_session_and_its_rules_and_ctrl_c_ends_it_at_once() -> Outcome {
    let _machine = require!(machine: Root, Cc);
    let (folder, rule) = text_file("never.yaml", NEVER)?;
    let mut knobs = Knobs::start()?;
    let pid = knobs.pid().to_string();
    let writes = ["--rules", "none", &rule, "--apply"];
    let mut quickest = Duration::MAX;
    // Three attempts, because a busy machine may be late.
    for _ in 0..3 {
        let mut agent = Agent::attach_armed(knobs.pid(), &writes)?;
        agent.lines.wait_for_line("after", SOON)?;
        let first = format!("session {} of root may write", agent.pid());
        let second = Command::new(binary()?)
            .args(["attach", &pid, "--duration", "1s"])
            .args(writes)
            .env("XDG_RUNTIME_DIR", agent.folder())
            .env("TUNEAGENT_STATE_DIR", folder.path())
            .output()?;
        let said = String::from_utf8_lossy(&[second.stdout, second.stderr].concat()).into_owned();
        assert!(
            second.status.success() && said.contains(&first) && said.contains("session list"),
            "{said}"
        );
        let (code, said) = agent.request("switch", &["never", "aplying"])?;
        assert!(
            code == 2 && said.contains("a similar value exists: 'applying'"),
            "{code}: {said}"
        );
        for (verb, more) in [("switch", &["nevr", "off"][..]), ("remove", &["nevr"])] {
            let (code, said) = agent.request(verb, more)?;
            assert!(
                code == 2 && said.contains("has no rule nevr: did you mean `never`?"),
                "{code}: {said}"
            );
        }
        let requested = Instant::now();
        agent.signal(Signal::INT)?;
        let code = agent.wait(SOON)?;
        quickest = quickest.min(requested.elapsed());
        let said = agent.lines.text();
        assert!(code == 0 && said.contains("Ctrl-C; detached"), "{code}: {said}");
        assert!(said.contains("condition false: busy > 50 (0"), "{said}");
        assert_eq!(knobs.knob()?, 10);
        if quickest < Duration::from_secs(2) {
            break;
        }
    }
    assert!(quickest < Duration::from_secs(2), "{quickest:?}");
    knobs.end()?;
    Ok(())
}

/// Runs a line in a shell. Returns its output, with the exit codes of the line.
fn typed(folder: &Path, line: &str, colours: bool) -> Outcome<String> {
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &format!("{line}; echo \"codes ${{PIPESTATUS[*]}}\"")])
        .env("T", binary()?)
        .env("D", folder)
        .env("TUNEAGENT_STATE_DIR", folder)
        .stdin(Stdio::null());
    if !colours {
        shell.env("NO_COLOR", "1");
    }
    let output = shell.output()?;
    Ok(String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

/// Input, exit codes, and a part of the output; escape sequences are colours.
fn lines(own: &str, file: &Path) -> [(String, &'static str, String); 7] {
    let watch = "--plain --rules none --probe main --duration 300ms";
    [
        (format!("$T attach settings {watch}"), "0", format!("(pid {own})")),
        // As with `attach`, a name is a running program. A file is given by its path, or by a name that no
        // program has.
        (
            "cd $D; $T symbols settings main".to_owned(),
            "0",
            "settings is the running program here; the file of this name: tuneagent symbols ./settings"
                .to_owned(),
        ),
        (
            "cp $D/settings $D/idle; cd $D; $T symbols idle main".to_owned(),
            "0",
            "idle\n  name ".to_owned(),
        ),
        (
            "$T attach $$ --rules none".to_owned(),
            "2",
            "started this command; programs that can be watched: tuneagent ps".to_owned(),
        ),
        (
            format!("$T attach {own} {watch} | head -n 1"),
            "0 0",
            "settings: 1 process".to_owned(),
        ),
        (
            format!("script -qec \"$T rule check {}\" /dev/null", file.display()),
            "1",
            "\u{1b}[".to_owned(),
        ),
        (
            "(sleep 0 & echo $! > $D/dead; exec sleep 20 > /dev/null 2>&1) & sleep 1; $T attach $(cat $D/dead)"
                .to_owned(),
            "2",
            "has ended already (a zombie".to_owned(),
        ),
    ]
}

#[test]
fn a_name_of_several_programs_selects_the_users_own_and_never_the_shell_of_a_command() -> Outcome {
    let _settings = only_settings();
    let _machine = require!(shared: Root, Cc);
    let folder = knobs::open_folder()?;
    let job = settings(folder.path(), false)?;
    let own = pid_of("settings")?;
    let file = folder.path().join("tab.yaml");
    fs::write(&file, "rule: x\n\tabout: b\n")?;
    let program = folder.path().join("settings");
    let mut others = Command::new("setpriv")
        .args(["--reuid", "65534", "--clear-groups", "--pdeathsig", "KILL"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut wrong = Vec::new();
    for (line, codes, part) in lines(own.as_str(), &file) {
        let said = typed(folder.path(), &line, true)?;
        if !said.contains(&part) || !said.contains(&format!("codes {codes}\n")) {
            wrong.push(format!("{line}: not {codes} with '{part}' but\n{said}"));
        }
        let said = typed(folder.path(), &line, false)?;
        if said.contains('\u{1b}') {
            wrong.push(format!("{line}: has colours in spite of NO_COLOR:\n{said}"));
        }
    }
    others.kill()?;
    others.wait()?;
    drop(job);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
