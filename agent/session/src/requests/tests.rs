//! Each request in each state, and the steps after each result.

use std::collections::BTreeMap;

use rules::RuleFile;

use super::*;

const STATES: [RequestState; 3] = [
    RequestState::Watches,
    RequestState::MayWrite,
    RequestState::Leaves,
];

/// Checks the rule's text only.
pub(crate) fn check(given: &RuleSource) -> Result<CheckedRule, ErrorText> {
    let file = RuleFile::parse(&given.source.text);
    let rule = file.and_then(|file| file.check(&BTreeMap::new()));
    rule.map_err(|wrong| ErrorText::new(format!("{wrong:?}")))
}

/// A step in one word, for tables.
fn word(step: &RequestStep) -> String {
    match step {
        RequestStep::Answer(Answer::Refused { kind, .. }) => format!("refused {kind:?}"),
        RequestStep::Answer(Answer::Stopping) => "stopping".to_owned(),
        RequestStep::Answer(answer) => format!("{answer:?}"),
        RequestStep::Do(task) => task_word(task),
        RequestStep::Say(notice) => format!("say {notice}"),
        RequestStep::End(reason) => format!("end {reason}"),
    }
}

pub(crate) fn task_word(task: &RequestTask) -> String {
    match task {
        RequestTask::List => "list".to_owned(),
        RequestTask::Report => "report".to_owned(),
        RequestTask::Switch { rule, mode } => format!("switch {rule} {}", mode.name()),
        RequestTask::Add { rule, mode } => format!("add {} {}", rule.name(), mode.name()),
        RequestTask::Remove { rule, keeps } => format!("remove {rule} {keeps}"),
    }
}

fn words(steps: &[RequestStep]) -> Vec<String> {
    steps.iter().map(word).collect()
}

fn message(steps: &[RequestStep]) -> &str {
    match steps {
        [RequestStep::Answer(Answer::Refused { message, .. })] => message,
        other => panic!("{other:?}"),
    }
}

fn switch(mode: Mode) -> Request {
    let rule = "slow".to_owned();
    Request::Switch { rule, mode }
}

fn remove(keep: bool) -> Request {
    let rule = "slow".to_owned();
    Request::Remove { rule, keep }
}

/// A shipped rule.
fn add(mode: Mode) -> Request {
    let mut shipped = rules::library().iter();
    let (_, text) = shipped.find(|(name, _)| *name == "blas-oversubscribed").unwrap();
    let mut given = Box::<RuleSource>::default();
    given.source.text = (*text).to_owned();
    Request::Add { given, mode }
}

fn add_broken(mode: Mode) -> Request {
    Request::Add {
        given: Box::default(),
        mode,
    }
}

#[test]
fn each_request_in_each_state() {
    let not_permitted = "refused NotPermitted";
    for (request, watches, may_write) in [
        (Request::List, "list", "list"),
        (Request::Snapshot, "report", "report"),
        (switch(Mode::Off), "switch slow off", "switch slow off"),
        (
            switch(Mode::Advising),
            "switch slow advising",
            "switch slow advising",
        ),
        (switch(Mode::Applying), not_permitted, "switch slow applying"),
        (remove(false), "remove slow false", "remove slow false"),
        (remove(true), "remove slow true", "remove slow true"),
        (Request::Stop, "stopping", "stopping"),
        (
            add(Mode::Advising),
            "add blas-oversubscribed advising",
            "add blas-oversubscribed advising",
        ),
        (
            add(Mode::Applying),
            not_permitted,
            "add blas-oversubscribed applying",
        ),
        (add_broken(Mode::Advising), "refused NotThere", "refused NotThere"),
        (add_broken(Mode::Applying), not_permitted, "refused NotThere"),
    ] {
        for (state, wanted) in STATES.into_iter().zip([watches, may_write, "refused Failed"]) {
            let steps = words(&steps(request.clone(), state, check));
            assert_eq!(steps[0], wanted, "{request:?} while {state:?}");
            let ends = request == Request::Stop && state != RequestState::Leaves;
            assert_eq!(steps.len(), 1 + usize::from(ends), "{request:?} while {state:?}");
        }
    }
}

#[test]
fn a_stop_is_answered_before_the_session_ends() {
    for state in [RequestState::Watches, RequestState::MayWrite] {
        assert_eq!(
            words(&steps(Request::Stop, state, check)),
            ["stopping", "end stopped by tuneagent session stop"]
        );
    }
}

#[test]
fn a_session_that_only_watches_says_what_it_would_take_to_write() {
    for request in [switch(Mode::Applying), add(Mode::Applying)] {
        assert_eq!(
            message(&steps(request, RequestState::Watches, check)),
            CANNOT_WRITE
        );
    }
}

#[test]
fn a_session_that_leaves_says_so_to_every_request() {
    for request in [Request::List, Request::Stop, switch(Mode::Off)] {
        assert_eq!(
            message(&steps(request, RequestState::Leaves, check)),
            "the session is ending"
        );
    }
}

#[test]
fn a_switch_is_said_where_it_changes_something_and_answered_with_the_mode_before() {
    let none = || unreachable!("the rule is known");
    let steps = switched("slow", Mode::Off, Ok("advising"), none);
    assert_eq!(word(&steps[0]), "say slow switched from advising to off");
    let before = "advising".to_owned();
    assert!(matches!(&steps[1], RequestStep::Answer(answer) if *answer == Answer::Switched { before }));
    let steps = switched("slow", Mode::Off, Ok("off"), none);
    assert_eq!(words(&steps), [r#"Switched { before: "off" }"#]);
}

#[test]
fn a_switch_that_is_refused_says_what_to_do_instead() {
    for (why, kind, text) in [
        (
            NotSwitched::NoSuchRule,
            "refused NotThere",
            "did you mean `fast`?",
        ),
        (
            NotSwitched::Stays,
            "refused NotPermitted",
            "start another session with --keep",
        ),
        (
            NotSwitched::NotNamed,
            "refused NotPermitted",
            "start another session with --apply=slow",
        ),
    ] {
        let steps = switched("slow", Mode::Applying, Err(why), || {
            "did you mean `fast`?".to_owned()
        });
        assert_eq!(words(&steps), [kind]);
        assert!(message(&steps).ends_with(text), "{steps:?}");
    }
}

#[test]
fn a_rule_that_was_added_is_named_with_what_of_it_is_not_probed() {
    let missing = vec!["f is nowhere".to_owned()];
    let steps = added("slow".to_owned(), Mode::Advising, Ok(missing.clone()));
    assert_eq!(
        words(&steps[..2]),
        ["say slow added, advising", "say missing: f is nowhere"]
    );
    let wanted = Answer::Added {
        rule: "slow".to_owned(),
        mode: Mode::Advising,
        missing,
    };
    assert!(matches!(&steps[2], RequestStep::Answer(answer) if *answer == wanted));
}

#[test]
fn a_rule_that_was_not_added_is_refused_with_the_reason() {
    let why = || "why".to_owned();
    for (refusal, kind, text) in [
        (NotAdded::Stays(why()), "refused NotPermitted", "slow: why"),
        (NotAdded::Conflict(why()), "refused NotThere", "why"),
        (
            NotAdded::NotProbed(why()),
            "refused NotThere",
            "slow is not added: why",
        ),
        (NotAdded::Failed(why()), "refused Failed", "why"),
    ] {
        let steps = added("slow".to_owned(), Mode::Applying, Err(refusal));
        assert_eq!(words(&steps), [kind]);
        assert_eq!(message(&steps), text);
    }
}

#[test]
fn a_rule_that_was_removed_is_named_with_what_became_of_its_changes() {
    for (keeps, in_force, said, reverted, kept) in [
        (false, 0, "it had changed nothing", 0, 0),
        (true, 0, "it had changed nothing", 0, 0),
        (false, 1, "1 change reverted", 1, 0),
        (false, 2, "2 changes reverted", 2, 0),
        (true, 2, "2 changes left in place", 0, 2),
    ] {
        let steps = removed("slow".to_owned(), keeps, in_force);
        assert_eq!(word(&steps[0]), format!("say slow removed; {said}"));
        assert!(
            matches!(&steps[1], RequestStep::Answer(answer) if *answer == Answer::Removed { reverted, kept })
        );
    }
}

#[test]
fn the_live_view_is_answered_in_the_words_of_the_socket() {
    let switched = Answer::Switched {
        before: "off".to_owned(),
    };
    assert_eq!(in_words(switched, "slow", Mode::Applying), "slow is applying");
    let refused = Answer::refused(RefusalKind::NotPermitted, CANNOT_WRITE);
    assert_eq!(in_words(refused, "slow", Mode::Applying), CANNOT_WRITE);
}
