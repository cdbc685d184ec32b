//! Processes that are forked while a change is in force inherit it; it is reverted in them, too.

use rustix::time::{ClockId, clock_gettime};
use tuner::actuator::RevertSummary;
use tuner::journal::{JournalChange, RevertOutcome, StateDir, Status};
use tuner::{Pid, Process};

use crate::actuator::Setting;

/// Waits 30 ms, so that the order of forks and writes before and after it is known: /proc has fork times in
/// ticks of 10 ms.
fn some_ticks_later() {
    let now_ms = || {
        let time = clock_gettime(ClockId::Boottime);
        time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
    };
    let begin_ms = now_ms();
    while now_ms() < begin_ms + 30 {
        std::thread::yield_now();
    }
}

/// Makes the program fork a worker.
fn worker(setting: &mut Setting, words: &str) -> Pid {
    let number: i32 = setting.program.say(words).parse().unwrap();
    Process::open(number).unwrap().pid
}

fn changes(setting: &Setting, pid: Pid) -> Vec<JournalChange> {
    StateDir::at(setting.state()).history(pid).unwrap().changes()
}

/// Number of reverted changes; fails if any revert failed.
fn all_back(summary: &RevertSummary) -> usize {
    let is_back = summary
        .reverted
        .iter()
        .all(|(_, reverted)| reverted.outcome == RevertOutcome::Reverted);
    assert!(
        is_back && summary.failed.is_empty() && summary.refused.is_empty(),
        "{summary:?}"
    );
    summary.reverted.len()
}

#[test]
fn a_worker_that_was_forked_before_a_change_keeps_its_own_value_even_where_it_is_the_same() {
    let mut setting = or_skip!(Setting::with_workers());
    let workers = ["fork 100", "fork 101"].map(|words| worker(&mut setting, words));
    some_ticks_later();
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "101")).unwrap();
    assert_eq!(setting.program.say("values"), "101 100 101");
    session.revert(setting.pid(), 1).unwrap();
    assert_eq!(setting.program.say("values"), "10 100 101");

    session.set(setting.write("knob", "101")).unwrap();
    assert_eq!(all_back(&session.revert_all(&[setting.pid()]).unwrap()), 1);
    assert_eq!(setting.program.say("values"), "10 100 101");

    // At the end of the session, first by request and then when the connection is closed.
    session.set(setting.write("knob", "101")).unwrap();
    assert_eq!(all_back(&session.shutdown().unwrap()), 1);
    assert_eq!(setting.program.say("values"), "10 100 101");
    assert!(process.wait().unwrap().success());
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "101")).unwrap();
    drop(session);
    assert!(process.wait().unwrap().success());
    assert_eq!(setting.program.say("values"), "10 100 101");
    for worker in workers {
        assert_eq!(changes(&setting, worker), []);
    }
}

#[test]
fn a_program_and_its_workers_are_reverted_in_one_go_and_each_has_its_own_value_again() {
    let mut setting = or_skip!(Setting::with_workers());
    let before = ["fork 100", "fork 101", "fork 102"].map(|words| worker(&mut setting, words));
    // The workers were certainly forked before all writes.
    some_ticks_later();
    let (mut session, mut process) = setting.session(true, &[]);
    for pid in std::iter::once(setting.pid()).chain(before) {
        session.set(setting.write_in(pid, "knob", "11")).unwrap();
    }
    some_ticks_later();
    // The first inherits its value from the last worker, the second from the program.
    let heirs = ["grandfork", "fork 0"].map(|words| worker(&mut setting, words));
    assert_eq!(setting.program.say("values"), "11 11 11 11 11 11");
    let all: Vec<Pid> = std::iter::once(setting.pid())
        .chain(before)
        .chain(heirs)
        .collect();
    assert_eq!(all_back(&session.revert_all(&all).unwrap()), all.len());
    assert_eq!(setting.program.say("values"), "10 100 101 102 102 10");
    for pid in all {
        let statuses: Vec<Status> = changes(&setting, pid)
            .iter()
            .map(|change| change.status)
            .collect();
        assert_eq!(statuses, [Status::Reverted], "{pid}");
    }
    session.shutdown().unwrap();
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_child_with_a_change_of_its_own_is_no_heir() {
    let mut setting = or_skip!(Setting::with_workers());
    let (mut session, mut process) = setting.session(true, &[]);
    session.set(setting.write("knob", "11")).unwrap();
    some_ticks_later();
    let child = worker(&mut setting, "fork 0");
    for value in ["12", "11"] {
        session.set(setting.write_in(child, "knob", value)).unwrap();
    }
    session.revert(setting.pid(), 1).unwrap();
    assert_eq!(setting.program.say("values"), "10 11");
    assert_eq!(changes(&setting, child).len(), 2);
    session.shutdown().unwrap();
    assert!(process.wait().unwrap().success());
}

/// The writer was killed, so the time of its write is only known to be between its announcement and the
/// recovery.
#[test]
fn a_child_that_may_have_been_forked_before_is_left_alone_and_reported() {
    let mut setting = or_skip!(Setting::with_workers());
    let (mut session, mut process) = setting.session(false, &["after-write", "1"]);
    session.set(setting.write("knob", "11")).unwrap_err();
    process.wait().unwrap();
    some_ticks_later();
    let child = worker(&mut setting, "fork 0");
    let (mut session, mut process) = setting.session(false, &[]);
    let summary = session.revert_all(&[setting.pid()]).unwrap();
    let [(left_alone, refusal)] = &summary.refused[..] else {
        panic!("{summary:?}")
    };
    assert_eq!((*left_alone, summary.reverted.len()), (child, 1));
    let why = "whether it has inherited the value is not known, so it is left alone (it was 10 there)";
    assert!(refusal.message.ends_with(why), "{refusal}");
    assert_eq!(setting.program.say("values"), "10 11");
    session.shutdown().unwrap();
    assert!(process.wait().unwrap().success());
}

#[test]
fn a_value_is_taken_back_in_what_was_forked_while_it_was_in_force() {
    let mut setting = or_skip!(Setting::forking());
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "20")).unwrap();
    some_ticks_later();
    let child = worker(&mut setting, "fork");
    assert_eq!(setting.program.say("child"), "20");
    let reverted = session.revert(setting.pid(), 1).unwrap();
    assert_eq!(reverted.outcome, RevertOutcome::Reverted);
    assert_eq!(
        ["own", "child"].map(|whose| setting.program.say(whose)),
        ["10", "10"]
    );
    let inherited = &changes(&setting, child)[0];
    assert_eq!(inherited.status, Status::Reverted);
    let why = format!(
        "it was forked from process {} while change 1 was in force there",
        setting.pid()
    );
    assert_eq!(inherited.intent.why, [why]);

    // At the end of the session, in a child that was forked meanwhile. The other child has its own value.
    session.set(setting.write("knob", "30")).unwrap();
    some_ticks_later();
    setting.program.say("fork");
    assert_eq!(setting.program.say("child"), "30");
    let summary = session.shutdown().unwrap();
    assert_eq!(all_back(&summary), 2);
    assert_eq!(
        ["own", "child"].map(|whose| setting.program.say(whose)),
        ["10", "10"]
    );
    assert!(process.wait().unwrap().success());
}

#[test]
fn lasting_changes_stay_in_forked_processes_too() {
    let mut setting = or_skip!(Setting::forking());
    let (mut session, mut process) = setting.session(true, &[]);
    session.set(setting.write("knob", "20")).unwrap();
    session.confirm(setting.pid(), 1).unwrap();
    setting.program.say("fork");
    let summary = session.shutdown().unwrap();
    assert_eq!(
        (summary.reverted.len(), summary.kept.len()),
        (0, 1),
        "{summary:?}"
    );
    assert_eq!(setting.program.say("child"), "20");
    assert!(process.wait().unwrap().success());
}

/// Its variable has the same address, name and value by coincidence.
#[test]
fn a_child_that_began_a_program_anew_has_a_value_of_its_own() {
    let mut setting = or_skip!(Setting::forking());
    setting.program.say("set 11");
    let (mut session, mut process) = setting.session(false, &[]);
    session.set(setting.write("knob", "10")).unwrap();
    some_ticks_later();
    setting.program.say("fork");
    assert_eq!(setting.program.say("exec"), "10");
    let summary = session.shutdown().unwrap();
    assert_eq!(all_back(&summary), 1);
    assert_eq!(
        ["own", "child"].map(|whose| setting.program.say(whose)),
        ["11", "10"]
    );
    assert!(process.wait().unwrap().success());
}
