//! Sessions that started a command: processes of its family start and end.

use super::vocabulary::*;

#[test]
fn before_the_command_begins_nothing_is_looked_for() {
    assert_eq!(command().on(look(0), ms(10)), []);
}

#[test]
fn while_programs_begin_proc_is_looked_at_ten_times_a_second_and_then_every_two_seconds() {
    let mut it = command();
    let at_command = MemberEffect::LookAtCommand(HERE);
    gives!(it, look(1), ms(0) => [at_command.clone(), SCAN]);
    for (execs, at_ms, wanted) in [
        (1, 40, vec![]),
        (1, 100, vec![SCAN]),
        (1, 200, vec![SCAN]),
        // A tick may be early by half a period.
        (1, 250, vec![SCAN]),
        (1, 1990, vec![SCAN]),
        (1, 2100, vec![]),
        (1, 2990, vec![SCAN]),
        (1, 3500, vec![]),
        // Another program begins.
        (2, 3510, vec![at_command, SCAN]),
        (2, 3610, vec![SCAN]),
    ] {
        gives!(it, look(execs), ms(at_ms) => wanted, "{at_ms}");
    }
}

#[test]
fn a_process_that_comes_is_attached_to_in_its_slot_and_nothing_is_said_of_it() {
    let mut it = command();
    let came = it.on(MemberEvent::Came(slot(2), rank(0)), ms(1));
    assert_eq!(came, [watch_in(2, &rank(0))]);
    gives!(it, watched(2, &rank(0)), ms(1) => []);
    assert!(it.known(HERE).contains(&100));
}

#[test]
fn one_that_goes_ends_when_all_that_came_was_handed_over() {
    let mut it = command_with(&plain(7));
    gives!(it, MemberEvent::Went(slot(0)), ms(5) => []);
    assert!(it.known(HERE).contains(&7), "it is shown as running until then");
    gives!(it, MemberEvent::Settled(HERE), ms(6) => [end(0)]);
    assert!(it.known(HERE).is_empty());
    gives!(it, MemberEvent::Settled(HERE), ms(7) => []);
}

#[test]
fn those_that_go_together_are_read_once() {
    let mut it = command();
    for number in 0..3 {
        it.on(MemberEvent::Came(slot(number), rank(number)), ms(1));
        it.on(watched(number, &rank(number)), ms(1));
        it.on(MemberEvent::Went(slot(number)), ms(2));
    }
    let all = vec![slot(0), slot(1), slot(2)];
    gives!(it, MemberEvent::Settled(HERE), ms(3) => [MemberEffect::End(all)]);
}

#[test]
fn one_that_came_and_went_between_two_looks_is_shown_and_has_ended() {
    let mut it = command();
    let unseen = MemberEvent::CameUnseen {
        process: slot(0),
        pid: 7,
        is_unwatched: false,
    };
    gives!(it, unseen, ms(1) => []);
    it.on(MemberEvent::Went(slot(0)), ms(1));
    gives!(it, MemberEvent::Settled(HERE), ms(2) => [end(0)]);
    assert_eq!(it.counted_missing(Unmeasured::default()), [""; 0]);
}

#[test]
fn those_that_were_not_seen_while_mpi_was_not_watched_are_counted() {
    let mut it = command();
    for number in 0..2 {
        let unseen = MemberEvent::CameUnseen {
            process: slot(number),
            pid: 7,
            is_unwatched: true,
        };
        it.on(unseen, ms(1));
    }
    let counted = it.counted_missing(Unmeasured::default());
    assert_eq!(counted.len(), 1);
    assert!(
        counted[0].starts_with("2 processes had ended before they were inspected"),
        "{counted:?}"
    );
}

#[test]
fn quantities_that_the_kernel_side_cannot_measure_are_reported_for_a_command() {
    let unmeasured = Unmeasured {
        without_slot: 3,
        privileged: 2,
    };
    assert_eq!(
        command().counted_missing(unmeasured),
        [
            "3 more processes hit a probe and are not measured: there was no room for them",
            "2 programs have more rights than the command (set-uid) and are not watched",
        ]
    );
}

#[test]
fn one_that_hits_nothing_and_is_found_in_proc_gets_a_slot_before_it_is_attached_to() {
    let mut it = command();
    gives!(it, found([plain(7), plain(8)]), ms(1) => [admit(&plain(7))]);
    let check = |number, candidate: &Candidate| MemberEffect::CheckEnded(slot(number), candidate.pid);
    let effects = it.on(MemberEvent::Slot(HERE, pid(7), Some(0)), ms(1));
    assert_eq!(
        effects,
        [watch_in(0, &plain(7)), check(0, &plain(7)), admit(&plain(8))]
    );
    let effects = it.on(MemberEvent::Slot(HERE, pid(8), Some(1)), ms(1));
    assert_eq!(effects, [watch_in(1, &plain(8)), check(1, &plain(8))]);
}

#[test]
fn one_for_which_there_is_no_slot_is_left_and_the_next_gets_one() {
    let mut it = after!(command(); found([plain(7), plain(8)]), ms(1));
    gives!(it, MemberEvent::Slot(HERE, pid(7), None), ms(1) => [admit(&plain(8))]);
}

#[test]
fn a_process_that_was_reported_meanwhile_is_not_attached_to_twice() {
    let mut it = command_with(&plain(7));
    gives!(it, found([plain(7)]), ms(2) => []);
    gives!(it, found([plain(7), plain(8)]), ms(2) => [admit(&plain(8))]);
}

#[test]
fn one_that_has_ended_meanwhile_is_not_attached_to_and_another_of_its_number_is() {
    let mut it = after!(command_with(&plain(7)); MemberEvent::Went(slot(0)), ms(2);
        MemberEvent::Settled(HERE), ms(2));
    let ended = MemberEvent::Found(HERE, vec![(plain(7), false)]);
    gives!(it, ended, ms(3) => []);
    gives!(it, found([plain(7)]), ms(4) => [admit(&plain(7))]);
}

#[test]
fn the_family_of_a_command_may_have_several_users() {
    let other = Candidate { user: 0, ..plain(8) };
    let mut it = command_with(&plain(7));
    gives!(it, found([other.clone()]), ms(2) => [admit(&other)]);
}

#[test]
fn one_that_cannot_be_watched_is_named_and_shown_all_the_same() {
    let mut it = after!(command(); MemberEvent::Came(slot(0), rank(1)), ms(1));
    let effects = it.on(refused(0, &rank(1), "not permitted"), ms(1));
    assert_eq!(
        said(&effects),
        ["missing: rank 1, process 101 is not watched: not permitted"]
    );
    assert_eq!(done(&effects), []);
    it.on(MemberEvent::Went(slot(0)), ms(2));
    gives!(it, MemberEvent::Settled(HERE), ms(3) => [end(0)]);
}

#[test]
fn a_young_process_is_looked_into_again_until_it_has_mpi_or_is_half_a_minute_old() {
    let unlinked = Candidate {
        is_linked: false,
        ..rank(0)
    };
    for (candidate, at_s, is_looked_into) in [
        (plain(7), 4, true),
        (plain(7), 29, true),
        (plain(7), 30, false),
        (rank(0), 4, false),
        (unlinked, 4, true),
    ] {
        let mut it = command_with(&candidate);
        let effects = it.on(look(1), s(at_s));
        let looks = effects.contains(&MemberEffect::LookInto(slot(0)));
        assert_eq!(looks, is_looked_into, "{candidate:?} at {at_s} s");
    }
}

#[test]
fn one_that_is_not_watched_or_has_ended_is_not_looked_into_again() {
    let mut it = after!(command(); look(1), ms(0); MemberEvent::Came(slot(0), plain(7)), ms(1);
        refused(0, &plain(7), "no"), ms(1));
    gives!(it, look(1), s(4) => [SCAN]);
    let mut it = after!(command_with(&plain(7)); MemberEvent::Went(slot(0)), ms(2);
        MemberEvent::Settled(HERE), ms(2));
    gives!(it, look(1), s(4) => [SCAN]);
}

#[test]
fn one_that_has_another_program_or_more_libraries_is_attached_to_again_in_its_slot() {
    let other = Candidate {
        program: "/bin/other".into(),
        ..plain(7)
    };
    let more = Candidate {
        modules: 9,
        ..plain(7)
    };
    for now in [other, more] {
        let mut it = command_with(&plain(7));
        let effects = it.on(MemberEvent::LookedInto(slot(0), now.clone()), ms(50));
        assert_eq!(effects, [MemberEffect::Leave(slot(0)), watch_in(0, &now)]);
    }
}

#[test]
fn one_that_is_the_same_or_not_linked_yet_or_another_process_is_left_as_it_is() {
    let unlinked = Candidate {
        modules: 9,
        is_linked: false,
        ..plain(7)
    };
    let reused = Candidate {
        modules: 9,
        pid: ActuatorPid {
            number: 7,
            start_time: 2,
        },
        ..plain(7)
    };
    for now in [plain(7), unlinked, reused] {
        let mut it = command_with(&plain(7));
        gives!(it, MemberEvent::LookedInto(slot(0), now), ms(50) => []);
    }
    assert_eq!(
        command().on(MemberEvent::LookedInto(slot(0), plain(7)), ms(50)),
        []
    );
}

#[test]
fn a_process_that_was_being_linked_is_attached_again_afterwards() {
    let before = Candidate {
        is_linked: false,
        ..plain(7)
    };
    let mut it = command_with(&before);
    let effects = it.on(MemberEvent::LookedInto(slot(0), plain(7)), ms(50));
    assert_eq!(effects, [MemberEffect::Leave(slot(0)), watch_in(0, &plain(7))]);
}

#[test]
fn one_that_comes_again_and_was_never_watched_has_nothing_to_leave() {
    let mut it = after!(command(); MemberEvent::Came(slot(0), plain(7)), ms(1);
        refused(0, &plain(7), "no"), ms(1));
    gives!(it, MemberEvent::Came(slot(0), plain(7)), ms(2) => [watch_in(0, &plain(7))]);
}

fn late(is_again: bool, begins: bool) -> LateAttachment {
    LateAttachment {
        name: "libmpi.so".to_owned(),
        attached: ms(1300),
        is_again,
        begins,
    }
}

#[test]
fn activity_before_attaching_is_reported() {
    let started = |at_ms| Candidate {
        started: ms(at_ms),
        ..rank(1)
    };
    for (candidate, late, missed) in [
        (
            started(1000),
            late(false, false),
            Some(
                "rank 1, process 101: its first 300 ms are not measured, because the session did not expect libmpi.so",
            ),
        ),
        (
            started(1000),
            late(true, false),
            Some(
                "rank 1, process 101: calls of its first 300 ms may be missing, because MPI was not watched then (--budget)",
            ),
        ),
        // It is still in its first call.
        (started(1000), late(true, true), None),
        // It started after that.
        (started(1400), late(false, false), None),
    ] {
        let mut it = after!(command(); MemberEvent::Came(slot(0), candidate.clone()), ms(2000));
        let effects = it.on(watched_late(0, &candidate, late), ms(2000));
        let wanted: Vec<String> = missed.iter().map(|text| format!("missing: {text}")).collect();
        assert_eq!(said(&effects), wanted);
        assert_eq!(it.missing(), missed.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn the_command_itself_waited_for_the_probes_whenever_it_started() {
    let early = Candidate {
        started: Time(0),
        ..plain(7)
    };
    let mut it = after!(command(); MemberEvent::Came(slot(0), early.clone()), ms(2000));
    let said = said(&it.on(watched_late(0, &early, late(false, false)), ms(2000)));
    assert!(said[0].contains("its first 1.3 s are not measured"), "{said:?}");
}

#[test]
fn missing_parts_of_a_process_are_reported_once() {
    let mut it = after!(command(); MemberEvent::Came(slot(0), plain(7)), ms(1));
    assert_eq!(
        it.on(watched_late(0, &plain(7), late(false, false)), ms(1)).len(),
        1
    );
    it.on(MemberEvent::Came(slot(0), plain(7)), ms(2));
    gives!(it, watched_late(0, &plain(7), late(false, false)), ms(2) => []);
}

#[test]
fn an_answer_for_an_unexpected_process_changes_nothing() {
    let mut it = command();
    gives!(it, watched(0, &plain(7)), ms(1) => []);
    gives!(it, refused(0, &plain(7), "no"), ms(1) => []);
    gives!(it, MemberEvent::Slot(HERE, pid(7), Some(0)), ms(1) => []);
    assert!(it.known(HERE).is_empty() && it.missing().is_empty());
}
