//! Actions on a program with many threads under load that checks its own results: the effect, the revert, and
//! no other effect.

use plan::{Action, Argument, CallRequest, Expression, Moment, PatchRequest, ReturnType, ValueType};
use tuneagent_e2e::needs::is_long;
use tuner::journal::{Mechanism, Reason, Status};
use tuner::{ActionOutcome, Writer};

use crate::programs::{fails, fails_with};
use crate::underload::{
    Load, QUIET, argument, call, called, insert, patch, remove, replace, result, take_back, try_call,
    try_patch,
};

#[test]
fn a_call_passes_every_kind_of_argument_and_gives_every_kind_of_result_back() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let cases = [
        ("back_i8(-128)", "-128"),
        ("back_u8(255)", "255"),
        ("back_i16(-32768)", "-32768"),
        ("back_u16(65535)", "65535"),
        ("back_i32(-2147483648)", "-2147483648"),
        ("back_u32(4294967295)", "4294967295"),
        ("back_i64(-9223372036854775808)", "-9223372036854775808"),
        ("back_u64(18446744073709551615)", "18446744073709551615"),
        ("back_f32(1.25)", "2.5"),
        ("back_f64(-0.25)", "-0.5"),
        ("back_bool(false)", "true"),
        ("back_bool(true)", "false"),
        ("back_pointer(\"none\")", "0x0"),
        ("many(1, 2, 3, 4, \"12345\", 6, 7, 8, 9)", "987654321"),
        ("nothing()", "nothing"),
        ("allocate(100000)", "100000"),
        ("libpart:part_work(8)", "41"),
    ];
    for (text, wanted) in cases {
        let receipt =
            try_call(&mut writer, call(text, None)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(result(&receipt), wanted, "{text}");
        assert_eq!(receipt.mechanism, Mechanism::HoldThread);
        assert!(receipt.hold_ns > 0);
    }
    assert_eq!(load.runs(), QUIET);
    load.has_its_first_code("no trace is left");
    assert!(
        writer
            .changes()
            .iter()
            .all(|change| change.status == Status::Done)
    );
    fails_with(
        writer.revert(1),
        "change 1 is not in force: it is done, and cannot be reverted",
    );
    load.ends_well();
}

#[test]
fn functions_are_replaced_by_a_jump_and_come_back() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let receipt = patch(&mut writer, &replace("sort_a", "sort_b"));
    assert_eq!((receipt.change, receipt.mechanism), (1, Mechanism::HoldAll));
    assert_eq!(load.runs(), QUIET.replace("a=1 b=0", "a=0 b=1"));
    take_back(&mut writer, 1);
    load.is_as_at_first();
    load.ends_well();
}

/// As a program that patches itself does.
#[test]
fn code_that_the_program_makes_writable_is_not_changed_but_restored() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let protect = |writer: &mut Writer, protection: &str| {
        assert_eq!(called(writer, &format!("protect({protection})")), "0");
    };
    let request = replace("sort_a", "sort_b");
    protect(&mut writer, "7");
    fails(
        try_patch(&mut writer, &request),
        "not mapped as code of that file",
    );
    protect(&mut writer, "5");
    let change = patch(&mut writer, &request).change;
    protect(&mut writer, "7");
    take_back(&mut writer, change);
    assert_eq!(load.runs(), QUIET);
    load.ends_well();
}

#[test]
fn imported_functions_are_replaced_by_the_words_through_which_they_are_called() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let receipt = patch(&mut writer, &replace("part_work", "part_other"));
    assert_eq!((receipt.mechanism, receipt.hold_ns), (Mechanism::Plain, 0));
    assert_eq!(load.runs(), QUIET);
    load.has_its_first_code("no code was changed");
    writer.revert(1).unwrap();
    load.ends_well();
}

#[test]
fn calls_are_removed_in_one_function_or_everywhere() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    for within in [Some("step"), None] {
        let receipt = patch(&mut writer, &remove("log_state", within));
        assert_eq!(load.runs(), QUIET.replace("logged=1", "logged=0"));
        writer.revert(receipt.change).unwrap();
        assert_eq!(load.runs(), QUIET);
    }
    load.has_its_first_code("");
    load.ends_well();
}

#[test]
fn calls_are_inserted_where_a_function_is_entered_and_where_it_returns() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let cases = [
        ("step", Moment::Entry),
        ("calls_first", Moment::Entry),
        ("part_work", Moment::Entry),
        ("two_returns", Moment::Return),
        ("step", Moment::Return),
        ("chain", Moment::Entry),
        ("chain", Moment::Return),
    ];
    for (into, place) in cases {
        let receipt = patch(&mut writer, &insert("note(5, 0.5, \"noted\")", into, place));
        assert_eq!(
            load.runs(),
            QUIET.replace("noted=0", "noted=1"),
            "{into} {place:?}"
        );
        take_back(&mut writer, receipt.change);
        assert_eq!(load.runs(), QUIET, "{into} {place:?}");
        load.has_its_first_code(&format!("{into} {place:?}"));
    }
    load.ends_well();
}

#[test]
fn arguments_are_changed_before_the_body_runs() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let cases = [
        (2, "64KiB", "size=4096", "size=65536"),
        (2, "original * 2 + 1", "size=4096", "size=8193"),
        (2, "min(original, 100)", "size=4096", "size=100"),
        (2, "clamp(original / 3, 1, 2000)", "size=4096", "size=1365"),
        (2, "original / (original - original)", "size=4096", "size=4096"),
        (1, "original / 2 - 0.25", "weight=2500", "weight=1000"),
        (1, "max(original, 7)", "weight=2500", "weight=7000"),
    ];
    for (index, value, from, to) in cases {
        let receipt = patch(&mut writer, &argument("send_block", index, value));
        assert_eq!(load.runs(), QUIET.replace(from, to), "{value}");
        writer.revert(receipt.change).unwrap();
        assert_eq!(load.runs(), QUIET, "{value}");
    }
    load.has_its_first_code("");
    load.ends_well();
}

#[test]
fn a_call_passes_what_variables_hold_when_it_is_made() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let with = |function: &str, variable: &str| CallRequest {
        arguments: vec![Argument::Variable(variable.to_owned())],
        ..call(function, None)
    };
    let receipt = try_call(&mut writer, with("back_i64", "knob")).unwrap();
    assert_eq!(
        (receipt.text.as_str(), result(&receipt).as_str()),
        ("call back_i64(knob)", "1")
    );
    let receipt = try_call(&mut writer, with("back_f64", "knob")).unwrap();
    assert_eq!(result(&receipt), "2", "as the parameter wants it");
    for (variable, wanted) in [
        ("nobody", "has no variable `nobody`"),
        ("steps", "cannot be passed: it is not a number"),
    ] {
        fails(try_call(&mut writer, with("back_i64", variable)), wanted);
    }
    let inserted = PatchRequest::InsertCall {
        function: "back_i64".into(),
        arguments: vec![Argument::Variable("knob".to_owned())],
        into: "log_state".into(),
        place: Moment::Entry,
    };
    fails(
        try_patch(&mut writer, &inserted),
        "only constants can be passed here",
    );
    assert_eq!(load.runs(), QUIET);
    load.ends_well();
}

#[test]
fn threads_are_bound_and_get_back_what_each_had() {
    let mut load = or_skip!(Load::start());
    let cpus = |load: &Load| -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", load.program.pid())).unwrap();
        let status = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("status")).unwrap();
        let mut found: Vec<String> = tasks
            .map(|task| {
                let text = status(task.unwrap());
                let line = text
                    .lines()
                    .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
                line.unwrap().trim().to_owned()
            })
            .collect();
        found.dedup();
        found
    };
    let before = cpus(&load);
    let mut writer = load.writer();
    let receipt = writer
        .act(
            &Action::Affinity(plan::Affinity::Cpus("0".parse().unwrap())),
            Reason::default(),
        )
        .unwrap();
    assert_eq!(cpus(&load), ["0"]);
    assert_eq!(load.runs(), QUIET);
    take_back(&mut writer, receipt.change);
    assert_eq!(cpus(&load), before);
    let error = writer
        .affinity(&"1023".parse().unwrap(), Reason::default())
        .unwrap_err();
    assert!(
        error.to_string().contains("no list such as")
            || error.to_string().contains("CPU 1023: the process may use only"),
        "{error}"
    );
    load.ends_well();
}

#[test]
fn code_that_must_not_be_patched_is_refused_with_the_reason() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let cases = [
        (replace("tiny", "sort_b"), "it takes 1 bytes, a jump takes 5"),
        (replace("looping", "sort_b"), "between the bytes to be changed"),
        (replace("again", "sort_b"), "leads back to its first instruction"),
        (replace("libc:memcpy", "sort_b"), "IFUNC"),
        (replace("sort_a", "sort_a"), "it is the same function"),
        (replace("no_such", "sort_a"), "has no function `no_such`"),
        (remove("sort_b", Some("tail")), "as its last act"),
        (
            remove("log_state", Some("sort_a")),
            "no call of it was found in sort_a",
        ),
        (
            insert("sort_b(1)", "tail", Moment::Return),
            "leaves it without a return",
        ),
        (
            insert("note(5, 0.5, \"\")", "chosen", Moment::Return),
            "jumps through a table or a pointer",
        ),
        (
            insert("step(1)", "step", Moment::Entry),
            "it would call itself without end",
        ),
        (
            argument("send_block", 9, "1"),
            "it has 3 arguments, numbers 0 to 2",
        ),
        (
            argument("send_block", 2, "-1"),
            "the parameter is u32, and -1 is not a value of it",
        ),
        (
            insert("note(1)", "step", Moment::Entry),
            "it takes 3 arguments, 1 is given",
        ),
    ];
    for (request, why) in cases {
        match try_patch(&mut writer, &request) {
            Err(error) => assert!(error.to_string().contains(why), "{request:?}: {error}"),
            Ok(receipt) => panic!("{request:?}: {receipt:?}"),
        }
    }
    patch(&mut writer, &replace("sort_a", "sort_b"));
    fails_with(
        try_patch(&mut writer, &argument("sort_a", 0, "1")),
        "change 1 is in force in the same code: revert that first",
    );
    writer.revert(1).unwrap();
    load.is_as_at_first();
    load.ends_well();
}

#[test]
fn a_call_that_takes_longer_goes_on_and_is_found_later() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    let mut request = call("slow(700)", None);
    request.wait_ms = 20;
    let receipt = try_call(&mut writer, request).unwrap();
    assert_eq!(receipt.outcome, ActionOutcome::Running);
    assert_eq!(writer.changes()[0].status, Status::Pending);
    // The main thread executes our sleep first and answers afterwards.
    assert_eq!(load.runs(), QUIET);
    writer.reconcile().unwrap();
    assert_eq!(writer.changes()[0].status, Status::Done);
    assert_eq!(writer.changes()[0].returned, Some(700));
    load.has_its_first_code("");
    load.ends_well();
}

#[test]
fn a_program_with_signals_that_never_rest_is_tuned_too() {
    let mut load = or_skip!(Load::with(&["signals"], &["-g"]));
    let mut writer = load.writer();
    for round in 0..if is_long() { 5 } else { 2 } {
        let receipt = try_call(&mut writer, call(&format!("back_i32({round})"), None)).unwrap();
        assert_eq!(result(&receipt), round.to_string());
        let inserted = patch(
            &mut writer,
            &insert("note(5, 0.5, \"noted\")", "step", Moment::Entry),
        );
        let replaced = patch(&mut writer, &replace("sort_a", "sort_b"));
        assert!(load.runs().starts_with("a=0 b=1 logged=1 noted=1"));
        writer.revert(replaced.change).unwrap();
        writer.revert(inserted.change).unwrap();
    }
    load.is_as_at_first();
    assert!(load.ends().starts_with("errors=0"));
}

#[test]
fn a_program_without_openmp_states_no_size_of_a_team() {
    let load = or_skip!(Load::start());
    let value = Expression::parse("min(original, 1)").unwrap();
    let request = PatchRequest::SetTeamSize { value };
    fails(
        load.writer().patch(&request, Reason::default()),
        "calls no function to which the size of a team is stated",
    );
    load.ends_well();
}

#[test]
fn arguments_of_a_function_without_debug_information_need_their_type() {
    let mut load = or_skip!(Load::with(&[], &[]));
    let mut writer = load.writer();
    let mut request = argument("send_block", 1, "100");
    fails(try_patch(&mut writer, &request), "state the argument's type");
    let PatchRequest::SetArgument { value_type, .. } = &mut request else {
        unreachable!()
    };
    // The index counts arguments of the same class: the double before it is in a floating-point register.
    *value_type = Some(ValueType::U32);
    let receipt = patch(&mut writer, &request);
    assert_eq!(load.runs(), QUIET.replace("size=4096", "size=100"));
    writer.revert(receipt.change).unwrap();
    let receipt = try_call(
        &mut writer,
        call("back_f64(1.5)", Some(ReturnType::Value(ValueType::F64))),
    )
    .unwrap();
    assert_eq!(result(&receipt), "3");
    let arguments = vec![Argument::Text("xyz".to_owned())];
    let request = CallRequest {
        arguments,
        ..call("back_pointer", Some(ReturnType::Pointer))
    };
    assert!(result(&try_call(&mut writer, request).unwrap()).starts_with("0x"));
    load.ends_well();
}

#[test]
fn a_thread_in_a_signal_handler_calls_nothing_and_another_does() {
    let mut load = or_skip!(Load::start());
    let mut writer = load.writer();
    assert_eq!(load.program.say("handler"), "inside");
    let mut request = call("back_i32(7)", None);
    request.thread = Some(load.program.pid());
    fails(try_call(&mut writer, request), "runs a signal handler");
    let receipt = try_call(&mut writer, call("back_i32(7)", None)).unwrap();
    assert_eq!(result(&receipt), "7");
    assert_eq!(load.program.say("go"), "left");
    assert_eq!(load.runs(), QUIET);
    load.ends_well();
}
