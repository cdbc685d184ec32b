//! Calls that are reverted by their inverse, in the same thread and with the value read before.

use plan::CallRequest;
use tuneagent_e2e::wait::{SOON, wait_until};
use tuner::journal::{RevertOutcome, Status};
use tuner::{ActionOutcome, Writer};

use crate::programs::fails;
use crate::underload::{Load, QUIET, call, invertible, take_back, try_call};

const ALL_AS_THEY_WERE: &str = "levels=3,3,3,3,";

/// Number of threads with this level.
fn having(load: &mut Load, level: &str) -> usize {
    let levels = load.program.say("levels");
    let levels = levels.trim_start_matches("levels=").split(',');
    levels.filter(|found| *found == level).count()
}

/// A call by a thread that sets its level; the inverse sets the level that was read before.
fn of_level(text: &str, tid: i32) -> CallRequest {
    CallRequest {
        thread: Some(tid),
        ..invertible(text, "set_level(was)", Some("level_now()"))
    }
}

fn make(writer: &mut Writer, request: CallRequest) -> u64 {
    try_call(writer, request).unwrap().change
}

/// Asserts that every level is as it was, and ends the program.
fn ends_with_its_levels(mut load: Load) {
    assert_eq!(load.program.say("levels"), ALL_AS_THEY_WERE);
    load.ends_well();
}

/// Thread ids of the worker threads.
fn workers(load: &Load) -> Vec<i32> {
    let mut threads: Vec<i32> = std::fs::read_dir(format!("/proc/{}/task", load.program.pid()))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    threads.sort_unstable();
    threads[1..4].to_vec()
}

#[test]
fn each_call_is_taken_back_by_the_thread_that_made_it_with_what_it_read_beforehand() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let threads: Vec<i32> = [load.program.pid()].into_iter().chain(workers(&load)).collect();
    let mut made = Vec::new();
    for (level, tid) in (10..).zip(&threads) {
        let request = of_level(&format!("set_level({level})"), *tid);
        let receipt = try_call(&mut writer, request).unwrap();
        let ActionOutcome::Returned {
            result, was, back, ..
        } = receipt.outcome
        else {
            panic!("{receipt:?}")
        };
        assert_eq!(
            (result.as_str(), was.as_deref(), back.as_deref()),
            ("3", Some("3"), Some("set_level(was)"))
        );
        assert_eq!(having(&mut load, &level.to_string()), 1);
        made.push(receipt.change);
    }
    assert_eq!(having(&mut load, "3"), 0);
    for change in made.iter().rev() {
        let known = writer
            .changes()
            .into_iter()
            .find(|known| known.intent.change == *change);
        let known = known.unwrap();
        assert_eq!((known.status, known.was), (Status::Applied, Some(3)));
        let reverted = writer.revert(*change).unwrap();
        assert_eq!(reverted.outcome, RevertOutcome::Reverted);
        fails(writer.revert(*change), "it was reverted already");
    }
    assert_eq!(load.program.say("levels"), ALL_AS_THEY_WERE);
    assert_eq!(load.runs(), QUIET);
    load.has_its_first_code("the memory of the calls is gone");
    load.ends_well();
}

#[test]
fn calls_of_the_same_are_taken_back_newest_first_and_one_that_stays_is_none_of_them() {
    let load = or_skip!(Load::start());
    let mut writer = load.writer();
    let mut set = |level: u32| {
        let request = of_level(&format!("set_level({level})"), load.program.pid());
        make(&mut writer, request)
    };
    let (first, second) = (set(5), set(6));
    let stays = make(&mut writer, call("tick()", None));
    fails(writer.revert(stays), "cannot be reverted");
    fails(writer.revert(first), &format!("change {second} replaced it"));
    let reverted = writer.revert_all(|_| true).unwrap();
    let reverted: Vec<u64> = reverted
        .into_iter()
        .map(|attempt| attempt.result.unwrap().change)
        .collect();
    assert_eq!(reverted, [second, first]);
    ends_with_its_levels(load);
}

#[test]
fn an_inverse_passes_what_was_read_as_its_parameter_wants_it_or_nothing_that_was_read() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    for (text, inverse, was) in [
        ("set_level(9)", "scale_level(was)", Some("level_share()")),
        ("scale_level(2)", "scale_level(0.5)", None),
        ("set_level(4)", "set_level(was)", Some("level_now()")),
    ] {
        let change = make(&mut writer, invertible(text, inverse, was));
        assert_eq!(having(&mut load, "3"), 3, "{text}");
        take_back(&mut writer, change);
        assert_eq!(
            load.program.say("levels"),
            ALL_AS_THEY_WERE,
            "{text} by {inverse}"
        );
    }
    load.ends_well();
}

#[test]
fn a_call_of_an_ended_thread_stays_and_no_other_thread_makes_its_inverse() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let tid: i32 = load.program.say("guest").parse().unwrap();
    let change = make(&mut writer, of_level("set_level(9)", tid));
    assert_eq!(load.program.say("leave"), "left");
    for _ in 0..2 {
        let error = writer.revert(change).unwrap_err().to_string();
        let wanted = format!(
            "thread {tid} of process {}, which made the call set_level(9), has ended",
            load.program.pid()
        );
        assert!(error.starts_with(&wanted), "{error}");
    }
    assert_eq!(writer.changes().pop().unwrap().status, Status::Applied);
    ends_with_its_levels(load);
}

#[test]
fn a_call_that_has_not_returned_is_taken_back_once_it_has() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let mut request = of_level("slow_level(300)", workers(&load)[0]);
    request.wait_ms = 0;
    let receipt = try_call(&mut writer, request).unwrap();
    assert_eq!(receipt.outcome, ActionOutcome::Running);
    fails(
        writer.revert(receipt.change),
        "it is not known whether it was written",
    );
    wait_until("the return of the call", SOON, || {
        writer.reconcile().unwrap();
        Ok(writer.changes()[0].status != Status::Pending)
    })
    .unwrap();
    assert_eq!((having(&mut load, "300"), writer.changes()[0].was), (1, Some(3)));
    take_back(&mut writer, receipt.change);
    ends_with_its_levels(load);
}

#[test]
fn a_call_that_the_program_leaves_by_a_jump_is_taken_back_all_the_same() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let tid: i32 = load.program.say("guest").parse().unwrap();
    let request = |text: &str, inverse: &str, was: &str| CallRequest {
        thread: Some(tid),
        ..invertible(text, inverse, Some(was))
    };
    let level = |writer: &mut Writer| {
        let request = CallRequest {
            thread: Some(tid),
            ..call("level_now()", None)
        };
        match try_call(writer, request).unwrap().outcome {
            ActionOutcome::Returned { result, .. } => result,
            outcome => panic!("{outcome:?}"),
        }
    };

    let left = of_level("jump_level(9)", tid);
    let receipt = try_call(&mut writer, left).unwrap();
    let ActionOutcome::Returned { result, was, .. } = receipt.outcome else {
        panic!("{receipt:?}")
    };
    let wanted = ("nothing: a jump of the program left it", Some("3"));
    assert_eq!((result.as_str(), was.as_deref()), wanted);
    assert_eq!(level(&mut writer), "9");
    take_back(&mut writer, receipt.change);
    assert_eq!(level(&mut writer), "3");

    let unread = request("set_level(9)", "set_level(was)", "jump_now()");
    fails(
        try_call(&mut writer, unread),
        "before the function was called: nothing was done",
    );
    assert_eq!(level(&mut writer), "3");

    let change = make(
        &mut writer,
        request("set_level(7)", "jump_twice(was)", "level_now()"),
    );
    take_back(&mut writer, change);
    assert_eq!(level(&mut writer), "3");

    let change = make(
        &mut writer,
        request("set_level(7)", "jump_level(4)", "level_now()"),
    );
    let reverted = writer.revert(change).unwrap().outcome;
    assert!(
        matches!(&reverted, RevertOutcome::Failed(why) if why.contains("a jump of the program left the call that reverts it")),
        "{reverted:?}"
    );
    assert_eq!(writer.changes().pop().unwrap().status, Status::Applied);
    assert_eq!(load.program.say("leave"), "left");
    ends_with_its_levels(load);
}

#[test]
fn an_inverse_that_could_not_be_made_keeps_the_call_from_being_made() {
    let load = or_skip!(Load::start());
    let mut writer = load.writer();
    for (inverse, was, wanted) in [
        ("nobody(was)", Some("level_now()"), "has no function `nobody`"),
        ("set_level(was)", Some("nobody()"), "has no function `nobody`"),
        ("set_level(was)", None, "`was` is what is read just before a call"),
        (
            "set_level(was)",
            Some("nothing()"),
            "cannot be read beforehand: it returns nothing",
        ),
        (
            "set_level(was, 1)",
            Some("level_now()"),
            "it takes 1 argument, 2 are given",
        ),
        (
            "set_level(was)",
            Some("level_now(1)"),
            "it takes 0 arguments, 1 is given",
        ),
        (
            "set_level(was)",
            Some("level_share()"),
            "argument 0 is not a floating-point number",
        ),
    ] {
        let request = invertible("set_level(9)", inverse, was);
        fails(try_call(&mut writer, request), wanted);
    }
    fails(
        try_call(&mut writer, call("set_level(was)", None)),
        "only its inverse passes it",
    );
    assert!(writer.changes().is_empty());
    ends_with_its_levels(load);
}

#[test]
fn an_argument_of_another_type_is_refused_if_the_type_is_known() {
    let load = or_skip!(Load::start());
    let mut writer = load.writer();
    for (text, wanted) in [
        ("back_i32(\"a\")", "argument 0 is i32, not a text"),
        ("back_i32(1, 2, 3)", "it takes 1 argument, 3 are given"),
        ("back_i32()", "it takes 1 argument, 0 are given"),
        (
            "back_i32(5000000000)",
            "argument 0 is i32: 5000000000 does not fit",
        ),
        ("back_i32(2.5)", "argument 0 is not a floating-point number"),
        ("back_u8(-1)", "argument 0 is u8: -1 does not fit"),
        ("back_i8(128)", "argument 0 is i8: 128 does not fit"),
        ("back_bool(2)", "argument 0 is bool: 2 does not fit"),
        ("back_f64(\"a\")", "argument 0 is a number, not a text"),
        ("nothing(1)", "it takes 0 arguments, 1 is given"),
        ("of_triple(1, 2)", "argument 1 is of a type that cannot be passed"),
    ] {
        fails(try_call(&mut writer, call(text, None)), wanted);
    }
    for (text, wanted) in [
        ("back_u32(4294967295)", "4294967295"),
        ("back_u64(18446744073709551615)", "18446744073709551615"),
        ("back_i8(-128)", "-128"),
        ("back_bool(true)", "false"),
        ("back_f64(2)", "4"),
    ] {
        assert_eq!(crate::underload::called(&mut writer, text), wanted, "{text}");
    }
    drop(writer);
    load.ends_well();
}
