//! A recording is replayed, a difference is found, and events without room are counted.

mod files;

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    lines::{LOG_BYTES_MAX, Lines, LogHeader, LogPart},
    replay::{Mismatch, ReplayStep, replay},
    *,
};
use crate::{
    leave::Leaving,
    members::{MachineId, MemberEvent, Members, MembersOrigin},
    request::{Mode, RuleSource, RuleText},
    requests::{RequestState, tests::check},
};

const ORIGIN: MembersOrigin = MembersOrigin::Attached {
    has_launcher: false,
    any_user: false,
};

/// Recorded events of tests.
pub(crate) struct Recorded(Lines);

impl Recorded {
    pub(crate) fn new(armed: Time) -> Recorded {
        Recorded(Lines::new(&LogHeader::new(
            "app".to_owned(),
            ORIGIN,
            Vec::new(),
            armed,
        )))
    }

    pub(crate) fn on<S: StateMachine>(&mut self, part: &mut S, event: S::Event, now: Time) -> Vec<S::Effect> {
        self.0.on(part, event, now)
    }

    pub(crate) fn assert_replays(self) {
        let (text, dropped) = self.0.finish();
        let replayed = replay(&text, check, |_| ()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!((replayed.events + 2, dropped), (text.lines().count(), 0));
    }
}

impl Default for Recorded {
    fn default() -> Recorded {
        Recorded::new(Time(0))
    }
}

fn lines() -> Lines {
    Recorded::default().0
}

/// A session that scans for new processes once, and ends.
fn short() -> String {
    let mut lines = lines();
    let mut members = Members::new(ORIGIN, Vec::new(), Time(0));
    lines.on(
        &mut members,
        MemberEvent::Tick(MachineId::HERE),
        Time(2_500_000_000),
    );
    let stop = leave::LeaveEvent::Stop {
        reason: "Ctrl-C".to_owned(),
        is_of_command: false,
        has_actuator: false,
    };
    lines.on(&mut Leaving::default(), stop, Time(3_000_000_000));
    lines.finish().0
}

fn steps(text: &str) -> (Vec<ReplayStep>, Result<Replayed, Mismatch>) {
    let mut steps = Vec::new();
    let result = replay(text, check, |step| steps.push(step));
    (steps, result)
}

fn line_of(result: Result<Replayed, Mismatch>) -> (usize, String) {
    match result {
        Err(Mismatch::Unreadable { line, why }) => (line, why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_log_is_a_line_for_each_event_between_a_header_and_a_count() {
    assert_eq!(
        short(),
        concat!(
            r#"{"session_log":3,"tuneagent":""#,
            env!("CARGO_PKG_VERSION"),
            r#"","program":"app","origin":{"attached":{"has_launcher":false}},"missing":[],"armed_ns":0}
{"at":2500000000,"part":"members","event":{"tick":0},"effects":[{"check_programs":0},{"scan":0}]}
{"at":3000000000,"part":"leaving","event":{"stop":{"reason":"Ctrl-C","is_of_command":false,"has_actuator":false}},"effects":["end_live","read_last","record"]}
{"events":2,"dropped":0}
"#
        )
    );
    assert!(is_log(short().as_bytes()));
    assert!(!is_log(b"\x89tunerec"));
}

#[test]
fn each_event_is_replayed_with_its_time_and_its_effects() {
    let (steps, result) = steps(&short());
    assert_eq!(
        result.map(|replayed| (replayed.events, replayed.dropped)),
        Ok((2, 0))
    );
    assert_eq!(steps.len(), 2);
    assert!(steps[0].is_polling());
    let ReplayStep { since_ns, part, .. } = steps[1];
    assert_eq!((since_ns, part), (3_000_000_000, LogPart::Leaving));
    assert_eq!(steps[1].event_text(), "stop reason Ctrl-C");
    let effects: Vec<String> = steps[1].effect_texts().collect();
    assert_eq!(effects, ["end_live", "read_last", "record"]);
}

#[test]
fn an_effect_that_differs_is_found_and_nothing_after_it_is_replayed() {
    let text = short().replace(r#",{"scan":0}"#, "");
    let (steps, result) = steps(&text);
    assert_eq!(steps, []);
    let line = |effects: &str| {
        format!(r#"{{"at":2500000000,"part":"members","event":{{"tick":0}},"effects":[{effects}]}}"#)
    };
    let differs = Mismatch::Differs {
        line: 2,
        recorded: line(r#"{"check_programs":0}"#),
        replayed: line(r#"{"check_programs":0},{"scan":0}"#),
    };
    assert_eq!(result, Err(differs));
}

#[test]
fn an_event_that_was_changed_is_found_by_its_effects() {
    // Too early for another scan.
    let (_, result) = steps(&short().replace("2500000000", "1500000000"));
    assert!(
        matches!(result, Err(Mismatch::Differs { line: 2, .. })),
        "{result:?}"
    );
}

#[test]
fn a_file_that_is_no_complete_log_is_refused_with_the_line() {
    let whole = short();
    let all: Vec<&str> = whole.lines().collect();
    let without = |number: usize| {
        let kept = all.iter().enumerate().filter(|(index, _)| index + 1 != number);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    for (text, line, why) in [
        (without(4), 4, "lines are missing"),
        (without(3), 3, "lines are missing"),
        (without(1), 1, "missing field `session_log`"),
        (format!("{whole}{}\n", all[1]), 4, "lines are missing"),
        (whole.replace("\"tick\"", "\"tock\""), 2, "unknown variant `tock`"),
        (
            whole.replace("session_log\":3", "session_log\":4"),
            1,
            "format 4 of tuneagent",
        ),
        (whole.replace("members", "engine"), 2, "unknown variant `engine`"),
        (String::new(), 1, "EOF"),
    ] {
        let (number, said) = line_of(steps(&text).1);
        assert_eq!(number, line, "{said}");
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn a_request_is_replayed_with_the_rule_that_it_brings() {
    let mut lines = lines();
    let add = |text: &str| Request::Add {
        given: Box::new(RuleSource {
            source: RuleText {
                name: "mine.yaml".to_owned(),
                text: text.to_owned(),
                uses: Some(BTreeMap::new()),
                ..RuleText::default()
            },
            ..RuleSource::default()
        }),
        mode: Mode::Applying,
    };
    let now = Time(1);
    let steps_of =
        |lines: &mut Lines, text, state| lines.on(&mut Requests(check), (add(text), state), now).len();
    for (text, state) in [
        ("rule: mine\n", RequestState::MayWrite),
        ("rule: [", RequestState::MayWrite),
        ("", RequestState::Watches),
    ] {
        assert_eq!(steps_of(&mut lines, text, state), 1);
    }
    lines.on(&mut Requests(check), (Request::Stop, RequestState::Watches), now);
    let text = lines.finish().0;
    let reads = text.replace("\"uses\":{}", "\"uses\":null");
    let why = line_of(steps(&reads).1).1;
    assert!(why.contains("does not bring the rules that it uses"), "{why}");
    let (steps, result) = steps(&text);
    assert_eq!(result.map(|replayed| replayed.events), Ok(4));
    let refused = "this session was started without --apply";
    assert!(
        steps[2].effect_texts().any(|text| text.contains(refused)),
        "{:?}",
        steps[2]
    );
    let stopped: Vec<String> = steps[3].effect_texts().collect();
    assert_eq!(
        stopped,
        ["answer stopping", "end stopped by tuneagent session stop"]
    );
}

#[test]
fn events_without_room_are_counted_and_the_others_are_replayed() {
    let mut lines = lines();
    let mut members = Members::new(ORIGIN, Vec::new(), Time(0));
    let text = "x".repeat(LOG_BYTES_MAX / 4);
    for _ in 0..5 {
        lines.on(&mut members, MemberEvent::NotMeasured(text.clone()), Time(0));
    }
    // Short enough, but useless after a missing event.
    lines.on(&mut members, MemberEvent::NotMeasured("y".to_owned()), Time(0));
    let (text, dropped) = lines.finish();
    assert_eq!(dropped, 3);
    assert!(text.len() < LOG_BYTES_MAX + 100);
    let (steps, result) = steps(&text);
    assert_eq!(steps.len(), 3);
    assert_eq!(
        result.map(|replayed| (replayed.events, replayed.dropped)),
        Ok((3, 3))
    );
}

#[test]
fn events_are_listed_in_short_words() {
    for (value, expected) in [
        (json!("finish"), "finish"),
        (json!({"said": "a\nb"}), "said a b"),
        (
            json!({"end": [{"machine": 0, "slot": 3}, {"machine": 1, "slot": 4}]}),
            "end slot 3 slot 4 of machine 1",
        ),
        (
            json!({"order": [0, {"revert": [{"machine": 0, "pid": {"number": 7, "start_time": 1}, "number": 2}]}]}),
            "order 0 revert change 2 of pid 7",
        ),
        (
            json!({"judged": {"decision": 1, "keeps": true, "slots": null, "why": ""}}),
            "judged decision 1, keeps",
        ),
        (json!({"confirm": [1, 2, 3, 4]}), "confirm 4 of them"),
        (
            json!({"watch": {"machine": 0, "pid": {"number": 7, "start_time": 1}, "slot": null}}),
            "watch machine 0, pid 7",
        ),
        (json!({"result": [1, {"Ok": null}]}), "result 1 ok"),
        (json!({"say": ""}), "say"),
        (
            json!({"receipt": {"answer": {"outcome": "written"}, "part": 0}}),
            "receipt part 0, answer outcome written",
        ),
    ] {
        assert_eq!(words::words(&value), expected);
    }
    let long = words::words(&json!("ä".repeat(1000)));
    assert_eq!(long.chars().count(), 161);
}
