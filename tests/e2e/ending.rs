//! The end of a session: the order of its steps, what it waits for, and reports of output that could not be
//! written.

use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tuneagent_e2e::agent::{Agent, binary};
use tuneagent_e2e::family::{Member, descendants};
use tuneagent_e2e::group::Group;
use tuneagent_e2e::knobs::Knobs;
use tuneagent_e2e::wait::wait_until;
use tuneagent_e2e::{Outcome, require};

use crate::expected::{SOON, written};
use crate::live::links;
use crate::rights::SET_KNOB;

/// A rule that periodically reads the call counter of its function.
const COUNTS: &str = "rule: counts\nabout: for a test\nprobes: {step: {entry: step}}\nwindows: {pulse: {every: 100ms}}\n\
    metrics: {steps: count(step)}\ntune:\n  - when: steps > 0\n    finding: steps are counted\n";

/// The process that closes the links of a session. Stopping it simulates a kernel that takes long to close
/// links.
struct Closer(Member);

impl Closer {
    fn of(agent: &Agent) -> Outcome<Closer> {
        let mut members = descendants(agent.pid()).into_iter();
        let found = members.find(|member| member.has_word("closer"));
        Ok(Closer(found.ok_or("no process closes the probes")?))
    }

    fn signal(&self, signal: Signal) -> Outcome {
        let pid = Pid::from_raw(self.0.pid as i32).ok_or("no process")?;
        Ok(kill_process(pid, signal).map_err(std::io::Error::from)?)
    }

    /// Continues the process and waits until it has closed all links.
    fn ends(&self) -> Outcome {
        // The process may have ended.
        let _ = self.signal(Signal::CONT);
        wait_until("the end of the closer", SOON, || Ok(!self.0.is_alive()))
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        // A stopped closer would keep the links. The process may have ended.
        let _ = self.signal(Signal::CONT);
    }
}

#[test]
fn changes_are_put_back_and_the_report_is_written_whenever_the_kernel_lets_go_of_the_probes() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let mut knobs = Knobs::start()?;
    let folder = tempfile::tempdir()?;
    let rule = written(folder.path(), "set-knob.yaml", SET_KNOB)?;
    let flags = ["--rules", "none", &rule, "--apply", "--probe", "step"];
    let mut agent = Agent::attach(knobs.pid(), &flags)?;
    agent.lines.wait_for_line("written and read back", SOON)?;
    assert_eq!(knobs.knob()?, 20);
    let closer = Closer::of(&agent)?;
    closer.signal(Signal::STOP)?;

    let report = agent.stop()?;
    assert_eq!(report["changes"][0]["outcome"], "reverted", "{report}");
    let said = agent.lines.text();
    assert_has!(said, "; the kernel is still removing probes; 1 change reverted");
    assert_eq!(knobs.knob()?, 10);
    // With the session its process group is orphaned, so the kernel ends it by SIGHUP, sooner or later.
    closer.ends()?;
    knobs.end()?;
    Ok(())
}

#[test]
fn a_session_goes_on_while_its_probes_are_being_closed_and_attaches_again_when_they_are() -> Outcome {
    let _machine = require!(shared: Root, Cc);
    let knobs = Knobs::start()?;
    let folder = tempfile::tempdir()?;
    let rule = written(folder.path(), "counts.yaml", COUNTS)?;
    let mut agent = Agent::attach(knobs.pid(), &["--rules", "none", &rule])?;
    agent.lines.wait_for_line("steps are counted", SOON)?;
    let attached = links(&agent)?;
    let closer = Closer::of(&agent)?;
    closer.signal(Signal::STOP)?;

    // From here on the link of the rule is being closed.
    let (code, text) = agent.request("remove", &["counts"])?;
    assert_eq!(code, 0, "{text}");
    let report = agent.snapshot()?;
    assert_eq!(report["rules"].as_array().map_or(0, Vec::len), 0, "{report}");
    // A rule on the same function waits for the closed link, but the session does not.
    let (code, text) = agent.request("add", &[&rule])?;
    assert_eq!(code, 0, "{text}");
    let report = agent.snapshot()?;
    assert_eq!(report["rules"].as_array().map_or(0, Vec::len), 1, "{report}");
    let left = links(&agent)?;
    assert!(
        left < attached,
        "{left} of {attached}: both would count the same calls"
    );

    closer.signal(Signal::CONT)?;
    wait_until("the probes of the rule", SOON, || Ok(links(&agent)? == attached))?;
    agent.stop()?;
    closer.ends()?;
    Ok(())
}

/// Runs a short session with output redirected to a file that fails. Returns the exit code and standard
/// error.
fn attached(knobs: &Knobs, before: &str, more: &str) -> Outcome<(i32, String)> {
    let folder = tempfile::tempdir()?;
    let command = format!(
        "{before} exec timeout 120 {} attach {} --plain --probe step --rules none --duration 300ms {more}",
        binary()?.display(),
        knobs.pid()
    );
    let output = Command::new("bash")
        .args(["-c", &command])
        .env("TUNEAGENT_STATE_DIR", folder.path())
        .env("XDG_RUNTIME_DIR", folder.path())
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok((output.status.code().ok_or("killed by a signal")?, said))
}

#[test]
fn output_that_could_not_be_written_is_said_and_is_no_success() -> Outcome {
    require!(Root, Cc);
    let knobs = Knobs::start()?;
    for (more, expected) in [
        ("", ""),
        ("--record run.rec --trace run.json --csv run.csv", ""),
        ("| true; exit ${PIPESTATUS[0]}", ""),
        ("--record /dev/full", "/dev/full lacks"),
        ("--trace /dev/full", "/dev/full could not be written"),
        ("--csv /dev/full", "/dev/full could not be written"),
        ("> /dev/full", "standard output could not be written"),
        ("--json - > /dev/full", "standard output could not be written"),
    ] {
        let (code, said) = attached(&knobs, "", more)?;
        let is_right = match expected {
            "" => code == 0,
            _ => code == 1 && said.contains(expected),
        };
        assert!(is_right, "{more}: {code}: {said}");
    }
    Ok(())
}

/// With `ulimit -f`, the kernel sends SIGXFSZ to a process that writes more, unless the signal is ignored.
#[test]
fn a_bound_on_the_size_of_files_is_an_error_and_no_signal() -> Outcome {
    require!(Root, Cc);
    let knobs = Knobs::start()?;
    let (code, said) = attached(&knobs, "ulimit -f 0;", "--record run.rec")?;
    assert_eq!(code, 1, "{said}");
    assert_has!(said, "run.rec lacks", "File too large");
    Ok(())
}

/// Too little memory or stack may end a session, with a reason, and affects no other process.
#[test]
fn a_bound_on_our_memory_or_stack_harms_the_session_alone() -> Outcome {
    require!(Root, Cc);
    let mut knobs = Knobs::start()?;
    // A stack that is too small causes a signal, so that no reason can be printed.
    for (bound, is_enough) in [
        ("v 100000", true),
        ("v 400000", true),
        ("l 0", true),
        ("s 64", false),
    ] {
        let ended = attached(&knobs, &format!("ulimit -{bound};"), "");
        let has_reason = ended
            .as_ref()
            .is_ok_and(|(code, said)| *code == 0 || *code <= 3 && !said.is_empty());
        assert!(has_reason || !is_enough, "{bound}: {ended:?}");
        knobs.change(7)?;
        assert_eq!(knobs.knob()?, 7, "{bound}");
    }
    let (code, said) = attached(&knobs, "", "")?;
    assert_eq!(code, 0, "{said}");
    Ok(())
}

/// Without free processes and threads, a running session ends normally, and a new one is refused.
#[test]
fn a_session_ends_where_no_thread_can_be_started() -> Outcome {
    require!(Root, Cc, Tasks);
    let knobs = Knobs::start()?;
    let mut agent = Agent::attach_armed(knobs.pid(), &[])?;
    // Moving a process into a group is allowed beyond its limit.
    let full = Group::with_tasks(1)?;
    full.take(&agent.pid().to_string())?;
    let report = agent.stop()?;
    assert_eq!(report["completeness"]["status"], "complete", "{report}");
    assert!(!agent.lines.text().contains("panicked"), "{}", agent.lines.text());

    // Room for `timeout` and the session's first thread.
    let group = Group::with_tasks(2)?;
    let joins = format!("echo $BASHPID > {};", group.members().display());
    let (code, said) = attached(&knobs, &joins, "--json run.json")?;
    assert_eq!(code, 3, "{said}");
    assert_has!(said, "no thread or process can be started here");
    assert!(!said.contains("panicked"), "{said}");
    Ok(())
}
