//! Changes at a sync point, on a real kernel: at the right iteration or not at all, and the program goes on whatever happens to us.
//! Needs root; says so where it is not there.
//!
//! TUNEAGENT_LONG=1 makes a thousand changes in each case instead of a hundred; TUNEAGENT_SYNC_ANSWER_US sets the bound on a hold
//! for machines on which everything takes longer (emulated ones).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    io::{BufRead, BufReader, Write},
    os::{
        fd::OwnedFd,
        unix::{fs::MetadataExt, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tuneagent::rendezvous::KernelRendezvous;
use tuner::{
    actuator::{ActuatorClient, ArmCommand, ClientError, Hello, SetCommand},
    journal::{StateDir, Status},
    module::Images,
    process::{Pid, Process},
    space::AddressSpace,
    sync::{Held, HoldRequest, Progress, Rendezvous, SyncPlace, SyncPoint},
    variable::VariableName,
    who::Who,
    writer::{Mechanism, Receipt},
};

/// One at a time: these tests measure, and one of them keeps every CPU busy.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Target {
    child: Child,
    space: AddressSpace,
}

impl Target {
    fn start(directory: &Path, moment: &str, pace: &str) -> Target {
        let program = built(directory);
        let mut child = Command::new(program)
            .args([moment, pace])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        let process = Process::open(child.id().cast_signed()).unwrap();
        let space = AddressSpace::read(&process, &Images::new()).unwrap();
        Target { child, space }
    }

    fn pid(&self) -> Pid {
        self.space.process.pid
    }

    fn reads(&self, variable: &str) -> i64 {
        let location = self.space.variable(&VariableName::from(variable)).unwrap();
        let bytes = location.read(self.space.memory()).unwrap();
        match *bytes.as_slice() {
            [a, b, c, d] => i64::from(i32::from_ne_bytes([a, b, c, d])),
            ref eight => i64::from_ne_bytes(eight.try_into().unwrap()),
        }
    }

    fn point(&self, place: &str) -> SyncPoint {
        SyncPoint::resolve(&self.space, &place.parse().unwrap()).unwrap()
    }

    /// No iteration is held any more, of very many.
    fn runs_freely(&self) {
        let before = self.reads("iteration");
        wait_until("the program runs freely", || {
            self.reads("iteration") > before + 1000
        });
    }

    /// It goes on: its iterations count up.
    fn goes_on(&self) {
        let before = self.reads("iteration");
        wait_until("the program goes on", || self.reads("iteration") > before + 3);
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn built(directory: &Path) -> PathBuf {
    if let Some(program) = std::env::var_os("TUNEAGENT_STEPS_PROGRAM") {
        return program.into();
    }
    let program = directory.join("steps");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/steps.c");
    let done = Command::new("cc")
        .args(["-O1", "-g", "-fno-optimize-sibling-calls", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(done.unwrap().success());
    program
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The actuator as the agent starts it.
struct Actuator {
    client: Option<ActuatorClient>,
    child: Child,
}

impl Actuator {
    fn start(state: &Path, keep: bool) -> Actuator {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_tuneagent"))
            .args(["actuator", "--sync"])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .unwrap();
        let hello = Hello {
            keep,
            state_dir: state.to_owned(),
            who: Who::current(),
        };
        let client = ActuatorClient::begin(ours, hello).unwrap();
        Actuator {
            client: Some(client),
            child,
        }
    }

    fn client(&mut self) -> &mut ActuatorClient {
        self.client.as_mut().unwrap()
    }

    fn result(&mut self, ticket: u64) -> Result<Receipt, String> {
        let mut result = None;
        wait_until("the change is over", || {
            let finished = self.client().collect().unwrap().finished;
            result = finished.into_iter().find(|(of, _)| *of == ticket);
            result.is_some()
        });
        result.unwrap().1.map_err(|refusal| refusal.to_string())
    }

    fn set(&mut self, command: ArmCommand) -> Result<Receipt, String> {
        match self.client().arm(command) {
            Ok(ticket) => self.result(ticket),
            Err(ClientError::Refused(refusal)) => Err(refusal.to_string()),
            Err(error) => panic!("{error}"),
        }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Actuator {
    fn drop(&mut self) {
        drop(self.client.take());
        let _ = self.child.wait();
    }
}

fn set(pid: Pid, variable: &str, value: impl ToString) -> SetCommand {
    SetCommand {
        pid,
        variable: variable.to_owned(),
        module: None,
        value: value.to_string(),
        value_type: None,
        expect_old: None,
        why: vec!["a test".to_owned()],
        rule: None,
    }
}

fn at(place: &str, set: SetCommand) -> ArmCommand {
    ArmCommand {
        set,
        at: place.parse::<SyncPlace>().unwrap(),
        within_ms: 60_000,
        answer_ns_max: std::env::var("TUNEAGENT_SYNC_ANSWER_US")
            .ok()
            .map(|us| us.parse::<u64>().unwrap() * 1000),
    }
}

fn is_root() -> bool {
    let is_there = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_there {
        assert!(
            std::env::var_os("TUNEAGENT_REQUIRE_ALL").is_none(),
            "this test needs root"
        );
        let _ = writeln!(std::io::stderr(), "skipped: needs root");
    }
    is_there
}

/// As many loops as keep every CPU busy twice.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Busy {
    fn machine() -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = std::thread::available_parallelism().unwrap().get();
        let spin = |_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || while !stop.load(Ordering::Relaxed) {})
        };
        let threads = (0..2 * cpus).map(spin).collect();
        Busy { stop, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn changes() -> i64 {
    if std::env::var_os("TUNEAGENT_LONG").is_some() {
        1000
    } else {
        100
    }
}

fn percentile(sorted: &[u64], percent: usize) -> u64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)]
}

/// Changes `knob` again and again at the point (4 bytes: never by the probe itself); all of them must be seen first right behind it, and nearly all at the first hit.
fn all_at_the_right_iteration(case: &str, moment: &str, pace: &str, place: &str) {
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), moment, pace);
    let mut actuator = Actuator::start(directory.path(), true);
    let (mut holds, mut at_first, mut misses) = (Vec::new(), 0, 0);
    let count = changes();
    for value in 1..=count {
        let receipt = actuator.set(at(place, set(target.pid(), "knob", value))).unwrap();
        let passage = receipt.passage.unwrap();
        assert!(passage.real_time && passage.thread == target.child.id());
        assert_eq!(receipt.mechanism, Mechanism::Rendezvous);
        holds.push(passage.hold_ns);
        at_first += i64::from(passage.hits == 1);
        misses += passage.misses;
        wait_until("the change is seen", || {
            target.reads("right") + target.reads("wrong") >= value
        });
    }
    holds.sort_unstable();
    let _ = writeln!(
        std::io::stderr(),
        "{case}: {count} changes, {} at a wrong iteration, {at_first} at the first hit, {misses} misses; held p50 {} us, p99 {} us, \
         most {} us",
        target.reads("wrong"),
        percentile(&holds, 50) / 1000,
        percentile(&holds, 99) / 1000,
        holds[holds.len() - 1] / 1000,
    );
    assert_eq!((target.reads("right"), target.reads("wrong")), (count, 0));
    assert!(
        at_first * 100 >= count * 99,
        "{at_first} of {count} at the first hit"
    );
}

#[test]
fn a_set_at_an_entry_is_at_the_right_iteration_of_a_busy_program_as_root() {
    if is_root() {
        let _alone = alone();
        all_at_the_right_iteration("idle machine, busy program", "entry", "busy", "entry:step");
    }
}

#[test]
fn a_set_at_an_entry_is_at_the_right_iteration_of_a_sleeping_program_as_root() {
    if is_root() {
        let _alone = alone();
        all_at_the_right_iteration("idle machine, sleeping program", "entry", "sleep", "entry:step");
    }
}

#[test]
fn a_set_at_an_entry_is_at_the_right_iteration_on_a_busy_machine_as_root() {
    if is_root() {
        let _alone = alone();
        let _busy = Busy::machine();
        all_at_the_right_iteration("busy machine, busy program", "entry", "busy", "entry:step");
        all_at_the_right_iteration("busy machine, sleeping program", "entry", "sleep", "entry:step");
    }
}

#[test]
fn a_set_at_a_return_is_at_the_right_iteration_as_root() {
    if is_root() {
        let _alone = alone();
        all_at_the_right_iteration("at a return", "return", "busy", "return:leave");
    }
}

/// In this process, with an action of the test's own.
fn armed(
    rendezvous: &mut KernelRendezvous,
    target: &Target,
    misses_max: u64,
    action: impl FnOnce(&Held) + Send + 'static,
) -> tuner::sync::Ticket {
    let request = HoldRequest {
        point: target.point("entry:step"),
        answer_ns_max: 50_000_000,
        action_ns_max: 50_000_000,
        misses_max,
        store: None,
    };
    rendezvous.arm(&request, Box::new(action)).unwrap()
}

fn over(rendezvous: &mut KernelRendezvous, ticket: tuner::sync::Ticket) -> Progress {
    let mut progress = None;
    wait_until("the action is over", || {
        progress =
            Some(rendezvous.progress(ticket)).filter(|progress| !matches!(progress, Progress::Pending(_)));
        progress.is_some()
    });
    progress.unwrap()
}

#[test]
fn the_thread_executes_nothing_of_the_program_while_it_is_held_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    // Both kinds of links.
    for force_tracefs in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let target = Target::start(directory.path(), "entry", "busy");
        let mut rendezvous = KernelRendezvous::new(force_tracefs).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (space, thread) = (target.space.clone(), target.child.id());
        let location = space.variable(&VariableName::from("iteration")).unwrap();
        let ticket = armed(&mut rendezvous, &target, 1, move |held| {
            let read = || location.read(space.memory()).unwrap();
            let before = read();
            let until = Instant::now() + Duration::from_millis(5);
            while Instant::now() < until {}
            sender.send((before == read(), held.thread == thread)).unwrap();
        });
        let progress = over(&mut rendezvous, ticket);
        assert_eq!(receiver.recv().unwrap(), (true, true));
        let Progress::Done(passage) = progress else {
            panic!("{progress:?}");
        };
        assert_eq!((passage.hits, passage.misses), (1, 0));
        assert!(passage.hold_ns >= 5_000_000, "{passage:?}");
        target.goes_on();
    }
}

#[test]
fn an_action_that_takes_too_long_is_told_and_the_program_goes_on_at_the_bound_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), "entry", "busy");
    let mut rendezvous = KernelRendezvous::new(false).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel::<()>();
    // As if whoever answers had died in the middle: it does not end before the test says so.
    let ticket = armed(&mut rendezvous, &target, 1, move |_| {
        let _ = receiver.recv();
    });
    wait_until("it is held", || target.reads("iteration") > 0);
    target.goes_on();
    let progress = rendezvous.progress(ticket);
    assert!(
        matches!(progress, Progress::Pending(_)),
        "the action is not over: {progress:?}"
    );
    drop(sender);
    let progress = over(&mut rendezvous, ticket);
    let Progress::Late(passage) = progress else {
        panic!("{progress:?}");
    };
    assert!(passage.hold_ns >= 100_000_000, "{passage:?}");
}

#[test]
fn an_action_that_is_taken_back_is_not_called_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), "return", "busy");
    let mut rendezvous = KernelRendezvous::new(false).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    // step is never called by this program.
    let ticket = armed(&mut rendezvous, &target, 1, move |_| sender.send(()).unwrap());
    let progress = rendezvous.disarm(ticket);
    assert!(
        matches!(progress, Progress::Pending(passage) if passage.hits == 0),
        "{progress:?}"
    );
    assert!(receiver.recv().is_err(), "the action is gone without having run");
}

#[test]
fn a_probe_writes_by_itself_where_it_may_and_else_the_thread_is_held_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), "entry", "busy");
    let mut actuator = Actuator::start(directory.path(), true);
    let rendezvous = KernelRendezvous::new(false).unwrap();
    for value in 1..=20 {
        let receipt = actuator
            .set(at("entry:step", set(target.pid(), "wide", value)))
            .unwrap();
        match rendezvous.store_refusal() {
            Some(reason) => {
                assert!(
                    reason.starts_with("the kernel lets no probe write into a program"),
                    "{reason}"
                );
                assert_eq!(receipt.mechanism, Mechanism::Rendezvous);
                assert!(receipt.hold_ns > 0);
            }
            None => assert_eq!(receipt.mechanism, Mechanism::Store),
        }
        wait_until("it is seen", || {
            target.reads("right") + target.reads("wrong") == value
        });
    }
    assert_eq!((target.reads("wide"), target.reads("wrong")), (20, 0));
    let _ = writeln!(
        std::io::stderr(),
        "a probe that writes: {:?}",
        rendezvous.store_refusal()
    );
}

#[test]
fn the_journal_says_how_a_change_met_its_sync_point_and_it_is_taken_back_there_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), "entry", "busy");
    let mut actuator = Actuator::start(directory.path(), false);
    let receipt = actuator
        .set(at("entry:step", set(target.pid(), "knob", 7)))
        .unwrap();
    let history = || StateDir::at(directory.path()).history(target.pid()).unwrap();
    let change = history().change(receipt.change.unwrap()).unwrap();
    assert_eq!(change.intent.deed.sync(), Some(&"entry:step".parse().unwrap()));
    let how = change.hold.unwrap();
    assert_eq!((how.mechanism, how.passage), (receipt.mechanism, receipt.passage));
    // The end of the session takes it back, and the program sees that at the same place.
    drop(actuator);
    assert_eq!(history().changes()[0].status, Status::Reverted);
    wait_until("both are seen", || {
        target.reads("right") + target.reads("wrong") == 2
    });
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
}

#[test]
fn a_point_that_is_not_reached_is_given_up_and_nothing_is_written_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    // This program never calls step.
    let target = Target::start(directory.path(), "return", "busy");
    let mut actuator = Actuator::start(directory.path(), true);
    let mut command = at("entry:step", set(target.pid(), "knob", 7));
    command.within_ms = 50;
    assert_eq!(
        actuator.set(command.clone()),
        Err("the program did not reach entry:step in time: nothing was written".to_owned())
    );
    // The same by word.
    command.within_ms = 60_000;
    let ticket = actuator.client().arm(command).unwrap();
    actuator.client().disarm(ticket).unwrap();
    assert!(
        actuator
            .result(ticket)
            .unwrap_err()
            .ends_with("nothing was written")
    );
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    let history = StateDir::at(directory.path()).history(target.pid()).unwrap();
    assert!(
        history
            .changes()
            .iter()
            .all(|change| change.status == Status::Failed)
    );
}

#[test]
fn places_that_are_none_are_refused_with_what_to_say_instead_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), "entry", "busy");
    let mut actuator = Actuator::start(directory.path(), true);
    let mut refusal = |place| actuator.set(at(place, set(target.pid(), "knob", 7))).unwrap_err();
    assert!(refusal("entry:no_such_function").contains("defines a function no_such_function"));
    assert!(refusal("entry:memcpy").contains("memcpy"));
    assert!(refusal("entry:libc:no_such_function").contains("no_such_function"));
    assert_eq!(target.reads("knob"), 0);
}

/// The program is held, and whoever should answer stands still: the actuator, and what the program holds.
fn held_without_an_answer(directory: &Path) -> (Target, Actuator) {
    use rustix::process::Signal;
    // Hold upon hold, with hardly anything between them.
    let bound = Duration::from_millis(50);
    let target = Target::start(directory, "entry", "busy");
    let mut actuator = Actuator::start(directory, false);
    let program = rustix::process::Pid::from_child(&target.child);
    rustix::process::kill_process(program, Signal::STOP).unwrap();
    let mut command = at("entry:step", set(target.pid(), "knob", 7));
    command.answer_ns_max = Some(u64::try_from(bound.as_nanos()).unwrap());
    actuator.client().arm(command).unwrap();
    actuator.signal(Signal::STOP);
    wait_until("the actuator stands still", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", actuator.child.id())).unwrap();
        stat.contains(") T ")
    });
    rustix::process::kill_process(program, Signal::CONT).unwrap();
    let mut last = -1;
    wait_until("the program is held", || {
        std::thread::sleep(bound / 3);
        let now = target.reads("iteration");
        now > 0 && std::mem::replace(&mut last, now) == now
    });
    (target, actuator)
}

#[test]
fn an_actuator_killed_while_the_program_is_held_lets_it_go_on_at_the_bound_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (target, actuator) = held_without_an_answer(directory.path());
    actuator.signal(rustix::process::Signal::KILL);
    target.runs_freely();
    assert_eq!(
        (target.reads("knob"), target.reads("right"), target.reads("wrong")),
        (0, 0, 0)
    );
}

#[test]
fn an_agent_that_dies_while_the_program_is_held_leaves_the_old_value_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (target, mut actuator) = held_without_an_answer(directory.path());
    drop(actuator.client.take());
    actuator.signal(rustix::process::Signal::CONT);
    // It answers the hold that is on, finds the stream ended, and takes the change back at the same place.
    assert!(actuator.child.wait().unwrap().success());
    target.goes_on();
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    let history = StateDir::at(directory.path()).history(target.pid()).unwrap();
    assert!(
        history
            .changes()
            .iter()
            .all(|change| matches!(change.status, Status::Reverted | Status::Failed))
    );
}

/// Runs the product; its exit code and what it said.
fn tuneagent(state: &Path, arguments: &[&str]) -> (i32, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_tuneagent"))
        .args(arguments)
        .env("TUNEAGENT_STATE_DIR", state)
        .output()
        .unwrap();
    let text = [done.stdout, done.stderr].concat();
    (
        done.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn a_set_by_hand_at_a_place_says_how_the_program_was_held_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let target = Target::start(directory.path(), "entry", "busy");
    let pid = target.child.id().to_string();
    let (code, said) = tuneagent(directory.path(), &["set", &pid, "knob=7", "--at", "entry:step"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("knob 0 -> 7 (i32), change 1, at entry:step, held in the kernel for "),
        "{said}"
    );
    let (code, journal) = tuneagent(directory.path(), &["journal", &pid]);
    assert_eq!(code, 0, "{journal}");
    assert!(
        journal.contains("at entry:step, held in the kernel for "),
        "{journal}"
    );
    let (code, said) = tuneagent(directory.path(), &["undo", &pid]);
    assert_eq!(code, 0, "{said}");
    wait_until("both are seen", || {
        target.reads("right") + target.reads("wrong") == 2
    });
    assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    let (code, said) = tuneagent(directory.path(), &["set", &pid, "knob=7", "--at", "step"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("`step` is no sync point: entry:FUNCTION"), "{said}");
}

const RULE: &str = "rule: knob-by-step
about: sets the knob where the program may take it
roles:
  target: exe != \"\"
probes:
  pass: {role: target, entry: step}
windows:
  pulse: {every: 500ms}
tune:
  - finding: the knob is not 5
    set: knob
    role: target
    value: 5
    range: 0 <= value <= 9
    when: count(pass) > 0
    WHEN
    guard: {maximize: count(pass), over: 2, undo_if_worse_by: 99%}
";

#[test]
fn a_rule_with_a_place_changes_the_program_there_and_one_for_all_together_does_not_as_root() {
    if !is_root() {
        return;
    }
    let _alone = alone();
    for (when, said, knob) in [
        ("at: {entry: step}", "1 change written and read back", 5),
        ("together: pulse", "need them stopped", 0),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let rule = directory.path().join("knob.yaml");
        std::fs::write(&rule, RULE.replace("WHEN", when)).unwrap();
        let target = Target::start(directory.path(), "entry", "busy");
        let (pid, rule) = (target.child.id().to_string(), rule.to_string_lossy().into_owned());
        let (code, text) = tuneagent(
            directory.path(),
            &[
                "attach",
                &pid,
                "--rules",
                "none",
                &rule,
                "--apply",
                "--plain",
                "--duration",
                "4s",
            ],
        );
        assert_eq!(code, 0, "{text}");
        assert!(text.contains(said), "{text}");
        // It was put back at the end, at the same place.
        let history = StateDir::at(directory.path()).history(target.pid()).unwrap();
        assert_eq!(history.changes().len(), usize::from(knob != 0), "{text}");
        wait_until("all is seen", || {
            target.reads("right") + target.reads("wrong") == if knob == 0 { 0 } else { 2 }
        });
        assert_eq!((target.reads("knob"), target.reads("wrong")), (0, 0));
    }
}
