//! A stop in every state, and what is said at the end.

use super::*;

fn stop(reason: &str, is_of_command: bool, has_actuator: bool) -> LeaveEvent {
    LeaveEvent::Stop {
        reason: reason.to_owned(),
        is_of_command,
        has_actuator,
    }
}

fn read(has_program_ended: bool) -> LeaveEvent {
    LeaveEvent::Read { has_program_ended }
}

/// A session that ends for this reason, up to the actuator or the last snapshot.
fn stopped(reason: &str, has_actuator: bool) -> Leaving {
    let mut it = Leaving::default();
    it.on(stop(reason, false, has_actuator));
    it.on(read(false));
    it
}

/// The last snapshot, with this text about the changes.
fn ready(changes: &str) -> LeaveEvent {
    ready_with(changes, false)
}

fn ready_with(changes: &str, has_reverted: bool) -> LeaveEvent {
    LeaveEvent::Ready {
        header: "app, 4 ranks".to_owned(),
        closing: vec!["MPI 12 %".to_owned()],
        has_reverted,
        changes: changes.to_owned(),
    }
}

fn say(line: &str) -> LeaveEffect {
    LeaveEffect::Say(line.to_owned())
}

/// A session that watched, up to its last snapshot.
fn watching() -> Leaving {
    stopped("Ctrl-C", false)
}

/// A session that wrote, up to the answer of its actuator.
fn writing(actuator_end: ActuatorEnd) -> Leaving {
    let mut it = stopped("Ctrl-C", true);
    it.on(LeaveEvent::Reverted(Box::new(actuator_end)));
    it
}

/// The rest without a failure.
fn finish(mut it: Leaving, changes: LeaveEvent) -> (Vec<LeaveEffect>, Result<bool, NotWritten>) {
    let mut effects = it.on(changes);
    effects.extend(it.on(LeaveEvent::Written(Ok(()))));
    effects.extend(it.on(LeaveEvent::Detached(Some(25_000_000))));
    effects.extend(it.on(LeaveEvent::Printed(Ok(()))));
    (effects, it.outcome(None))
}

fn is_fine(it: Leaving, changes: LeaveEvent) -> bool {
    finish(it, changes).1.expect("nothing failed to be written")
}

#[test]
fn the_last_hits_are_read_and_recorded_before_anything_is_reverted_or_shown() {
    for (has_actuator, then) in [(false, LeaveEffect::Show), (true, LeaveEffect::Revert)] {
        let mut it = Leaving::default();
        let effects = it.on(stop("Ctrl-C", false, has_actuator));
        assert_eq!(
            effects,
            [LeaveEffect::EndLive, LeaveEffect::ReadLast, LeaveEffect::Record]
        );
        assert_eq!(
            it.on(read(false)),
            [LeaveEffect::EndChanges(Ending::Session), then]
        );
    }
}

#[test]
fn one_that_may_write_has_its_actuator_put_back_before_anything_is_shown() {
    let mut it = stopped("Ctrl-C", true);
    let effects = it.on(LeaveEvent::Reverted(Box::default()));
    assert_eq!(
        effects,
        [
            LeaveEffect::ReportReverts(MachineReverts::default()),
            LeaveEffect::Show
        ]
    );
}

#[test]
fn whether_the_program_ended_or_the_session_alone_is_known_once_all_was_read() {
    for (has_program_ended, ending) in [(true, Ending::Program), (false, Ending::Session)] {
        for has_actuator in [true, false] {
            let mut it = Leaving::default();
            it.on(stop("the program has ended", false, has_actuator));
            assert_eq!(it.on(read(has_program_ended))[0], LeaveEffect::EndChanges(ending));
        }
    }
}

#[test]
fn reports_are_written_before_the_probes_come_off_and_printed_last() {
    let (effects, outcome) = finish(watching(), ready(""));
    let wanted = [
        say("MPI 12 %"),
        LeaveEffect::Write,
        LeaveEffect::Detach,
        say("Ctrl-C; detached in 25 ms; nothing was written"),
        LeaveEffect::Print,
        LeaveEffect::End,
    ];
    assert_eq!(effects, wanted);
    assert_eq!(outcome, Ok(true));
}

#[test]
fn of_a_command_the_header_is_said_at_the_end() {
    let mut it = Leaving::default();
    it.on(stop("the command has ended", true, false));
    it.on(read(true));
    let (effects, _) = finish(it, ready(""));
    assert_eq!(effects[..2], [say("app, 4 ranks"), say("MPI 12 %")]);
    assert_eq!(
        effects[4],
        say("the command has ended; detached in 25 ms; nothing was written")
    );
}

#[test]
fn probes_that_take_the_kernel_long_end_in_the_background() {
    let mut it = watching();
    it.on(ready(""));
    let effects = it.on(LeaveEvent::Detached(None));
    assert_eq!(
        effects[0],
        say("Ctrl-C; detached; the kernel is still removing probes; nothing was written")
    );
}

#[test]
fn the_last_line_has_the_reason_for_which_the_session_ends() {
    for reason in [
        "Ctrl-C",
        "SIGTERM",
        "--duration reached",
        "all changes are confirmed",
        "the program has ended",
        STOPPED,
    ] {
        let (effects, _) = finish(stopped(reason, false), ready(""));
        let last = format!("{reason}; detached in 25 ms; nothing was written");
        assert!(effects.contains(&LeaveEffect::Say(last)), "{effects:?}");
    }
}

#[test]
fn a_session_that_wrote_says_what_became_of_its_changes() {
    let (effects, outcome) = finish(writing(ActuatorEnd::default()), ready("2 changes put back"));
    assert!(
        effects.contains(&say("Ctrl-C; detached in 25 ms; 2 changes put back")),
        "{effects:?}"
    );
    assert_eq!(outcome, Ok(true));
}

#[test]
fn an_actuator_that_says_nothing_is_no_success_and_the_journal_is_read() {
    let mut it = stopped("Ctrl-C", true);
    assert_eq!(
        it.on(LeaveEvent::NotKnown(ErrorText::new("it has ended"))),
        [LeaveEffect::Show]
    );
    let (effects, outcome) = finish(it, ready(""));
    let last = "Ctrl-C; detached in 25 ms; it is not known what was reverted: it has ended (tuneagent journal lists the changes)";
    assert!(effects.contains(&say(last)), "{effects:?}");
    assert_eq!(outcome, Ok(false));
}

#[test]
fn a_guard_that_took_something_back_is_no_success() {
    for has_reverted in [true, false] {
        let it = writing(ActuatorEnd::default());
        assert_eq!(is_fine(it, ready_with("", has_reverted)), !has_reverted);
    }
}

#[test]
fn a_failed_revert_is_no_success() {
    for has_failed in [true, false] {
        let it = writing(ActuatorEnd {
            has_failed,
            ..ActuatorEnd::default()
        });
        assert_eq!(is_fine(it, ready("")), !has_failed);
    }
}

#[test]
fn a_process_of_which_nothing_could_be_put_back_is_named_with_the_reason() {
    let pid = |number| ActuatorPid {
        number,
        start_time: 1,
    };
    let mut it = stopped("Ctrl-C", true);
    let effects = it.on(LeaveEvent::Reverted(Box::new(ActuatorEnd {
        refused: vec![(pid(7), "why".to_owned()), (pid(8), "why".to_owned())],
        ..ActuatorEnd::default()
    })));
    assert_eq!(
        effects[1..],
        [say("process 7: why"), say("process 8: why"), LeaveEffect::Show]
    );
}

#[test]
fn files_that_could_not_be_written_are_failures_and_are_all_named() {
    let full = std::io::Error::other("no space");
    let failed = |what: &str| Err(ErrorText::new(format!("{what} could not be written")).caused_by(&full));
    let mut it = watching();
    it.on(LeaveEvent::Recorded(failed("the recording")));
    it.on(LeaveEvent::Traced(failed("the trace")));
    it.on(ready(""));
    assert_eq!(it.on(LeaveEvent::Written(failed("the report"))), []);
    // It ends as without the failure.
    assert_eq!(
        it.on(LeaveEvent::Detached(None)).last(),
        Some(&LeaveEffect::Print)
    );
    it.on(LeaveEvent::Printed(failed("standard output")));
    assert_eq!(
        it.outcome(None).unwrap_err().to_string(),
        "the recording could not be written: no space\nthe trace could not be written: no space\n\
         the report could not be written: no space\nstandard output could not be written: no space"
    );
}
