//! Tables of events and of the remaining effects, as short text.

use profile::outcome::GuardVerdict;
use profile::{ChangeView, FindingView, GuardView};
use rules::DecisionId;

use super::*;
use crate::{
    changes::{ActuatorPid, ChangeId, Decided, MemberProcess, OrderAnswer, OrderPart},
    decision::ResolvedDecision,
    leave::ActuatorEnd,
    members::MembersOrigin,
    request::Mode,
    requests::{
        NotAdded, NotSwitched,
        tests::{check, task_word},
    },
};

const R0: MemberProcess = MemberProcess {
    machine: MachineId::HERE,
    slot: 0,
};

const PID: ActuatorPid = ActuatorPid {
    number: 100,
    start_time: 1,
};

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

fn setup(may_write: bool, keeps: bool) -> Setup {
    Setup {
        may_write,
        keeps,
        origin: MembersOrigin::Attached {
            has_launcher: false,
            any_user: false,
        },
        missing: Vec::new(),
        program: "app".to_owned(),
        armed: ms(0),
    }
}

/// Rules may write.
fn writing() -> Parts {
    Parts::new(setup(true, false), None, check)
}

/// The session only watches.
fn watching() -> Parts {
    Parts::new(setup(false, false), None, check)
}

/// An effect in one line.
fn word(effect: &Effect) -> String {
    match effect {
        Effect::Order(_, order) => format!("order {order:?}"),
        Effect::Dropped(order) => format!("dropped {order:?}"),
        Effect::Resolve(decision) => format!("resolve {}", decision.id.0),
        Effect::Result(decision, Ok(())) => format!("result {}", decision.0),
        Effect::Result(decision, Err(why)) => format!("result {}: {}", decision.0, why.reason),
        Effect::SwitchProbes(Some(decision), switches) => {
            format!("switch {} for {}", switches.len(), decision.0)
        }
        Effect::SwitchProbes(None, switches) => format!("switch {} back", switches.len()),
        Effect::Say(line) => format!("say {line}"),
        Effect::SayWhen(line) => format!("say when {line}"),
        Effect::SayDetail(line) => format!("say in detail {line}"),
        Effect::Trace(kind, name, text) => format!("trace {} {name} {text}", kind.name()),
        Effect::Record(kind, name, text) => format!("record {} {name} {text}", kind.name()),
        Effect::Do(task) => task_word(task),
        Effect::Leaving(step) => format!("{step:?}"),
    }
}

fn words(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(word).collect()
}

impl Parts {
    fn does(&mut self, event: Event, now_ms: u64) -> Vec<String> {
        words(&self.on(event, ms(now_ms)))
    }
}

fn decided(id: u64) -> Event {
    Event::Decided(Box::new(decision(id)))
}

fn decision(id: u64) -> ResolvedDecision {
    ResolvedDecision {
        id: DecisionId(id),
        rule: "r".to_owned(),
        ..ResolvedDecision::default()
    }
}

/// The resolved decision: a value of one process.
fn resolved(id: u64) -> Event {
    let part = OrderPart {
        process: R0,
        pid: PID,
        label: "set knob".to_owned(),
        is_copy: false,
        view: ChangeView {
            action: plan::Keyword::Set,
            rule: "r".to_owned(),
            variable: "knob".to_owned(),
            ..ChangeView::default()
        },
    };
    Event::Changes(changes::ChangeEvent::Decided(Decided {
        id: DecisionId(id),
        rule: "r".to_owned(),
        parts: vec![part],
        ..Decided::default()
    }))
}

fn receipt(decision: u64, answer: OrderAnswer) -> changes::ChangeEvent {
    changes::ChangeEvent::Receipt {
        decision: DecisionId(decision),
        part: 0,
        answer,
    }
}

fn written(decision: u64) -> changes::ChangeEvent {
    let shown = changes::ShownChange {
        number: 7,
        ..changes::ShownChange::default()
    };
    receipt(
        decision,
        OrderAnswer {
            outcome: changes::ChangeOutcome::Written,
            may_pass: false,
            shown: Some(Box::new(shown)),
        },
    )
}

fn judged(verdict: GuardVerdict, text: &str) -> Event {
    let judged = JudgedDecision {
        decision: DecisionId(1),
        rule: "r".to_owned(),
        guard: GuardView {
            verdict,
            text: text.to_owned(),
            ..GuardView::default()
        },
        keeps: verdict == GuardVerdict::Kept,
        slots: None,
    };
    Event::Judged(judged, Some("one step 2 s -> 1 s".to_owned()))
}

/// One change is in force.
fn changed(keeps: bool) -> Parts {
    after!(Parts::new(setup(true, keeps), None, check); decided(1), ms(1); resolved(1), ms(2);
        Event::Changes(written(1)), ms(3))
}

#[test]
fn a_decision_is_resolved_ordered_and_its_result_is_what_the_rules_get() {
    let mut it = writing();
    assert_eq!(it.does(decided(1), 1), ["resolve 1"]);
    let order = "order Do { decision: DecisionId(1), part: 0, replaces: [] }";
    assert_eq!(it.does(resolved(1), 2), [order]);
    let done = [
        "say when r   1 change written and read back",
        "trace change r 1 change written and read back",
        "record change r 1 change written and read back",
        "result 1",
    ];
    assert_eq!(it.does(Event::Changes(written(1)), 3), done);
}

#[test]
fn a_session_that_watches_resolves_nothing() {
    assert_eq!(
        watching().does(decided(1), 1),
        ["result 1: this session does not write"]
    );
    // Probes belong to the session.
    let switch = changes::ProbeSwitch {
        rule: 0,
        probe: 1,
        slot: 0,
        on: true,
    };
    let switches = ResolvedDecision {
        switches: vec![switch],
        ..decision(2)
    };
    assert_eq!(
        watching().does(Event::Decided(Box::new(switches)), 2),
        ["resolve 2"]
    );
}

#[test]
fn an_order_without_room_is_a_refusal_that_may_pass() {
    let mut it = after!(writing(); decided(1), ms(1));
    let effects = it.on(resolved(1), ms(1));
    let [Effect::Order(machine, order)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    let no_room = Event::Changes(changes::ChangeEvent::NoRoom(*machine, order.clone()));
    let done = [
        "result 1: too many orders wait",
        "say when r   not done: too many orders wait",
    ];
    assert_eq!(it.does(no_room, 1), done);
}

#[test]
fn changes_that_rules_no_longer_await_are_given_up_once() {
    let mut it = after!(writing(); decided(1), ms(1); resolved(1), ms(1));
    assert_eq!(it.given_up(|_| true).len(), 0);
    let given_up = it.given_up(|decision| decision != DecisionId(1));
    assert_eq!(given_up.len(), 1);
    let effects: Vec<String> = (given_up.into_iter())
        .flat_map(|event| it.does(event, 2))
        .collect();
    assert_eq!(effects, ["order GiveUp(DecisionId(1))"]);
    let again: Vec<Event> = it.given_up(|_| false);
    let again: Vec<String> = again.into_iter().flat_map(|event| it.does(event, 3)).collect();
    assert_eq!(again, [""; 0]);
}

#[test]
fn a_finding_is_said_when_it_is_new_and_of_several_tunes_once() {
    let found = |is_new| Event::Found {
        finding: FindingView {
            rule: "r".to_owned(),
            text: "slow\nby far".to_owned(),
            at: std::time::Duration::from_millis(1520),
            ..FindingView::default()
        },
        is_new,
    };
    let said = [
        "say finding  r (at 1.52 s)   slow\n    by far",
        "trace finding r slow\nby far",
        "record finding r slow\nby far",
    ];
    let gone = || Event::Gone {
        rule: "r".to_owned(),
        at: std::time::Duration::from_secs(9),
    };
    let mut it = watching();
    for (event, effects, listed) in [
        (found(false), &[][..], 1),
        (gone(), &[], 0),
        (found(true), &said, 1),
        (found(true), &[], 1),
        (gone(), &[], 0),
    ] {
        assert_eq!(it.does(event, 1), effects);
        assert_eq!(it.changes.findings.views().len(), listed);
    }
}

#[test]
fn a_verdict_is_recorded_with_its_rule_and_the_time_of_a_step() {
    let revert = format!("order Revert({:?})", [CHANGE]);
    let confirm = format!("order Confirm({CHANGE:?})");
    for (verdict, text, shown, kind, order) in [
        (
            GuardVerdict::Kept,
            "10 % less",
            "10 % less (one step 2 s -> 1 s); kept",
            "kept",
            &confirm,
        ),
        // A duration is in the user's unit already.
        (
            GuardVerdict::Kept,
            "a.duration 10 % less",
            "a.duration 10 % less; kept",
            "kept",
            &confirm,
        ),
        (
            GuardVerdict::Reverted,
            "no less",
            "no less (one step 2 s -> 1 s); reverted",
            "reverted",
            &revert,
        ),
    ] {
        let effects = changed(false).does(judged(verdict, text), 9);
        assert_eq!(effects[0], format!("record {kind} r {shown}"));
        assert!(effects.contains(order), "{effects:?}");
        // A verdict is recorded once.
        assert!(
            !effects[1..].iter().any(|effect| effect.starts_with("record")),
            "{effects:?}"
        );
    }
}

#[test]
fn a_verdict_of_a_revert_that_failed_has_the_time_of_a_step_before_its_ending() {
    let mut it = changed(false);
    it.on(judged(GuardVerdict::Reverted, "no less"), ms(9));
    let failed = changes::RevertResult::Failed {
        reason: "unmapped".to_owned(),
        may_pass: false,
    };
    let failed = changes::ChangeEvent::Reverted(CHANGE, failed);
    let effects = it.does(Event::Changes(failed), 10);
    assert_eq!(
        effects[0],
        "say when guard    no less (one step 2 s -> 1 s); not reverted: unmapped"
    );
}

const CHANGE: ChangeId = ChangeId {
    machine: MachineId::HERE,
    pid: PID,
    number: 7,
};

#[test]
fn with_keep_a_session_is_over_at_the_tick_that_finds_all_confirmed() {
    for (keeps, verdict, over) in [
        (true, GuardVerdict::Kept, Some("all changes are confirmed")),
        (true, GuardVerdict::Reverted, None),
        (false, GuardVerdict::Kept, None),
    ] {
        let mut it = after!(changed(keeps); Event::Tick, ms(5));
        assert_eq!(it.over(), None, "nothing is judged");
        it.on(judged(verdict, "10 %"), ms(9));
        assert_eq!(it.over(), None);
        it.on(Event::Tick, ms(10));
        assert_eq!(it.over(), over, "{keeps} {verdict}");
    }
}

#[test]
fn probes_that_cannot_be_switched_back_are_said() {
    let mut it = writing();
    assert_eq!(it.does(Event::ProbesSwitched(None, Ok(())), 1), [""; 0]);
    let failed = Event::ProbesSwitched(None, Err(ErrorText::new("no room")));
    assert_eq!(
        it.does(failed, 1),
        ["say when probes could not be switched back: no room"]
    );
}

/// Makes the request; then this happens, with these effects and a part of the answer.
fn assert_answered(request: Request, first: &str, then: Event, effects: &[&str], answer: &str) {
    let mut it = writing();
    assert_eq!(it.does(Event::Request(request), 1), [first]);
    assert_eq!(it.take_answer(), None, "{first} is not done yet");
    assert_eq!(it.does(then, 2), effects);
    let given = format!("{:?}", it.take_answer());
    assert!(given.contains(answer), "{given}");
    assert_eq!(it.take_answer(), None, "it is answered once");
}

#[test]
fn the_effects_of_a_request_precede_its_answer() {
    let (stopping, no) = (Event::Listed(Ok(Answer::Stopping)), || ErrorText::new("no"));
    assert_answered(Request::List, "list", stopping, &[], "Stopping");
    assert_answered(
        Request::Snapshot,
        "report",
        Event::Listed(Err(no())),
        &[],
        "Failed",
    );

    let mode = Mode::Advising;
    let rule = || "r".to_owned();
    let not_there = || "no such rule".to_owned();
    let switch = |result, effects: &[&str], answer| {
        let request = Request::Switch { rule: rule(), mode };
        let switched = Event::Switched(rule(), mode, result, not_there());
        assert_answered(request, "switch r advising", switched, effects, answer);
    };
    let said = "say r switched from applying to advising";
    switch(Ok("applying".to_owned()), &[said], "Switched");
    switch(Err(NotSwitched::NoSuchRule), &[], "no such rule");

    let (keep, keeps) = (false, false);
    let remove = |result, effects: &[&str], answer| {
        let request = Request::Remove { rule: rule(), keep };
        let rule = rule();
        let removed = Event::Removed { rule, keeps, result };
        assert_answered(request, "remove r false", removed, effects, answer);
    };
    remove(RemoveResult::NoSuchRule(not_there()), &[], "no such rule");
    let said = "say r removed; it had changed nothing";
    remove(RemoveResult::Removed, &[said], "Removed");
    remove(RemoveResult::StillProbed("no".to_owned()), &[], "Failed");

    let failed = Event::Added(rule(), mode, Err(NotAdded::Failed("no".to_owned())));
    let mut it = after!(writing(); failed, ms(1));
    assert!(matches!(it.take_answer(), Some(Answer::Refused { .. })));
}

#[test]
fn a_rule_that_is_removed_has_its_changes_put_back() {
    let mut it = changed(false);
    let removed = Event::Removed {
        rule: "r".to_owned(),
        keeps: false,
        result: RemoveResult::Removed,
    };
    let revert = format!("order Revert({:?})", [CHANGE]);
    assert_eq!(
        it.does(removed, 5),
        [revert.as_str(), "say r removed; 1 change reverted"]
    );
}

#[test]
fn a_request_to_stop_is_answered_and_the_first_reason_is_the_one() {
    let mut it = watching();
    assert_eq!(it.does(Event::Request(Request::Stop), 1), [""; 0]);
    assert_eq!(it.take_answer(), Some(Answer::Stopping));
    assert_eq!(it.over(), Some(leave::STOPPED));
    it.end("Ctrl-C");
    assert_eq!(it.over(), Some(leave::STOPPED), "a second stop changes nothing");
}

#[test]
fn an_ending_session_begins_nothing_and_refuses_requests() {
    let mut it = writing();
    assert_eq!(
        it.does(Event::Stop("Ctrl-C"), 1),
        ["EndLive", "ReadLast", "Record"]
    );
    assert_eq!(it.does(decided(1), 2), [""; 0]);
    assert_eq!(it.does(Event::Request(Request::Stop), 3), [""; 0]);
    assert_eq!(it.take_answer(), Some(Answer::ending()));
    assert_eq!(it.over(), None);
}

#[test]
fn a_stop_while_a_process_joins_ends_the_session_whatever_comes_of_it() {
    let mut it = watching();
    let found = members::MemberEvent::Found(MachineId::HERE, vec![(candidate(), true)]);
    let effects = it.members_on(found, ms(1));
    assert!(
        matches!(effects.as_slice(), [members::MemberEffect::Watch { .. }]),
        "{effects:?}"
    );
    assert_eq!(
        it.does(Event::Stop("Ctrl-C"), 2),
        ["EndLive", "ReadLast", "Record"]
    );
    let watched = members::MemberEvent::Watched {
        process: R0,
        pid: PID,
        late: None,
    };
    let said = it.members_on(watched, ms(3));
    assert!(
        matches!(said.as_slice(), [members::MemberEffect::Say(_)]),
        "{said:?}"
    );
    // The process ends before the last events were read.
    let ended = it.members_on(members::MemberEvent::Ended(R0), ms(4));
    assert!(ended.contains(&members::MemberEffect::End(vec![R0])), "{ended:?}");
    assert!(
        !ended
            .iter()
            .any(|effect| matches!(effect, members::MemberEffect::Finish(_)))
    );
    let read = leave::LeaveEvent::Read {
        has_program_ended: true,
    };
    assert_eq!(it.does(Event::Leaving(read), 5), ["EndChanges(Program)", "Show"]);
}

fn candidate() -> members::Candidate {
    members::Candidate {
        pid: PID,
        user: 0,
        rank: Some(0),
        program: "/bin/app".into(),
        has_mpi: false,
        modules: 1,
        is_linked: true,
        started: ms(0),
    }
}

#[test]
fn the_program_has_ended_when_all_its_processes_have() {
    let mut it = watching();
    it.members_on(members::MemberEvent::Present(R0, candidate()), ms(0));
    let effects = it.members_on(members::MemberEvent::Ended(R0), ms(1));
    assert!(
        effects.contains(&members::MemberEffect::CheckChanges(R0)),
        "{effects:?}"
    );
    assert_eq!(it.over(), Some("the program has ended"));
}

#[test]
fn the_last_report_has_ended_processes_and_the_number_of_unnamed_changes() {
    for (ended, unnamed, words) in [
        (vec![], 0, "the state of the changes is not known"),
        (vec![], 2, "2 changes more are in the journal alone"),
        (vec![R0], 0, "the changes ended with app"),
    ] {
        let mut it = after!(changed(false); Event::Stop("Ctrl-C"), ms(5));
        let reverted = Event::Reverted {
            actuator_end: Box::<ActuatorEnd>::default(),
            unnamed,
        };
        assert_eq!(it.does(reverted, 6), ["Show"]);
        let shown = Event::Shown {
            header: "app".to_owned(),
            closing: vec!["MPI 12 %".to_owned()],
            ended,
            undo: "tuneagent undo 100".to_owned(),
            program: "app".to_owned(),
        };
        assert_eq!(it.does(shown, 7), ["say MPI 12 %", "Write", "Detach"]);
        let last = it.does(Event::Leaving(leave::LeaveEvent::Detached(None)), 8);
        assert!(last[0].contains(words), "{last:?}");
        assert_eq!(last[1..], ["Print"]);
    }
}

#[test]
fn effects_precede_the_remaining_events_and_steps_of_the_end_are_sequential() {
    let step = |step| Effect::Leaving(step);
    let say = |line: &str| Effect::Say(line.to_owned());
    let mut pending = EffectQueue::default();
    pending.follow(vec![
        say("1"),
        step(leave::LeaveEffect::ReadLast),
        say("2"),
        step(leave::LeaveEffect::Record),
    ]);
    let mut order = vec![word(&pending.take().unwrap())];
    pending.follow(vec![say("1a"), step(leave::LeaveEffect::Show), say("1b")]);
    order.extend(std::iter::from_fn(|| pending.take()).map(|effect| word(&effect)));
    let wanted = ["say 1", "say 1a", "say 1b", "say 2", "ReadLast", "Record", "Show"];
    assert_eq!(order, wanted);
}
