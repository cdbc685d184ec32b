//! Sessions that attached to a job: late ranks, ended ranks, replaced processes, late MPI.

use super::vocabulary::*;
use crate::process::LastChange;
use profile::OutOfMemory;

#[test]
fn programs_are_checked_at_each_tick_and_newcomers_looked_for_every_two_seconds() {
    let mut it = launched([old(rank(0))]);
    for (at_ms, scans) in [
        (500, false),
        (1999, false),
        (2000, true),
        (2500, false),
        (3999, false),
        (4000, true),
        (9000, true),
    ] {
        let wanted: &[MemberEffect] = if scans { &[CHECK, SCAN] } else { &[CHECK] };
        gives!(it, tick(), ms(at_ms) => wanted, "{at_ms}");
    }
}

#[test]
fn ranks_without_mpi_are_checked_for_one_where_a_launcher_started_them() {
    let all = || [rank(0), bare(1), plain(7)].map(old);
    let mut it = launched(all());
    gives!(it, tick(), s(2) => [CHECK, libraries(&[1]), SCAN]);
    let mut it = alone(all());
    gives!(it, tick(), s(2) => [CHECK, SCAN]);
}

#[test]
fn the_libraries_of_young_processes_are_read_at_each_search_and_those_of_old_ones_at_every_16th() {
    let mut it = alone([plain(7), old(plain(8)), rank(0)]);
    for at_s in (2..=64).step_by(2) {
        let young = if at_s < 30 { &[0][..] } else { &[] };
        let of = if at_s % 32 == 0 { &[0, 1, 2] } else { young };
        let check = Some(libraries(of)).filter(|_| !of.is_empty());
        let wanted: Vec<MemberEffect> = [CHECK].into_iter().chain(check).chain([SCAN]).collect();
        gives!(it, tick(), s(at_s) => wanted, "{at_s}");
    }
}

#[test]
fn a_process_that_loads_libraries_for_a_rule_late_joins_again_and_one_that_ended_does_not() {
    let mut it = alone([plain(7)]);
    let loaded = || MemberEvent::Loaded {
        process: slot(0),
        candidate: plain(7),
        what: "libraries for the rule blas-threads".to_owned(),
    };
    let text = "a process (pid 7) has loaded libraries for the rule blas-threads after 4 s: what it did before has its own \
                entry";
    assert_eq!(said(&it.on(loaded(), s(4))), [text]);
    gives!(it, found([]), s(4) => [watch(&plain(7))]);
    assert_eq!(
        said(&it.on(watched(1, &plain(7)), s(5))),
        ["a process (pid 7) is watched again"]
    );
    let mut it = after!(alone([plain(7), plain(8)]); MemberEvent::Ended(slot(0)), s(1));
    gives!(it, loaded(), s(4) => []);
}

#[test]
fn how_the_first_processes_ended_is_said_and_the_others_are_counted() {
    let mut it = launched((0..7).map(rank));
    let ends = [
        Exit::Status(0),
        Exit::Signal(6),
        Exit::Status(3),
        Exit::Signal(34),
        Exit::Signal(9),
        Exit::Status(1),
        Exit::Signal(9),
    ];
    let texts = (0..).zip(ends).map(|(index, exit)| {
        let process = slot(index);
        let exited = MemberEvent::Exited {
            process,
            exit,
            cause: None,
        };
        let exited = said(&it.on(exited, s(2)));
        [exited, said(&it.on(MemberEvent::Ended(process), s(2)))]
            .concat()
            .concat()
    });
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            "",
            "rank 1 (pid 101) was ended by signal 6 (SIGABRT) after 2 s",
            "rank 2 (pid 102) exited with status 3 after 2 s",
            "rank 3 (pid 103) was ended by signal 34 after 2 s",
            "",
            "",
            "2 more processes ended by signals, 1 more process exited with a status other than 0",
        ]
    );
}

#[test]
fn a_fault_names_the_change_that_preceded_it_and_other_signals_do_not() {
    let change = LastChange {
        number: 1,
        rule: "team-size".to_owned(),
        at_ns: 1_880_000_000,
    };
    let after = ", 120 ms after change 1, which team-size made and which may be the cause";
    for (signal, change, expected, has_crashed) in [
        (11, Some(change.clone()), after, true),
        (11, None, "", false),
        (15, Some(change), "", false),
    ] {
        let mut it = launched([rank(0)]);
        let exited = MemberEvent::Exited {
            process: slot(0),
            exit: Exit::Signal(signal),
            cause: change.map(ExitCause::Change),
        };
        let line = said(&it.on(exited, s(2))).concat();
        assert!(line.ends_with(&format!(" after 2 s{expected}")), "{line}");
        assert_eq!(it.has_crashed_after_change, has_crashed);
    }
}

#[test]
fn the_memory_limit_is_the_reason_for_as_many_kills_as_the_oom_killer_made() {
    let mut it = launched((0..4).map(rank));
    let memory = |kills, reached: Option<(&str, u64)>| OutOfMemory {
        cgroup: "/job/step".to_owned(),
        kills,
        reached: reached.map(|(cgroup, limit)| (cgroup.to_owned(), limit)),
    };
    let limit = Some(("/job", 4 << 30));
    let ends = [
        (Exit::Signal(15), memory(1, limit)),
        (Exit::Signal(9), memory(1, limit)),
        (Exit::Signal(9), memory(1, limit)),
    ];
    let texts = (0..).zip(ends).map(|(index, (exit, memory))| {
        let exited = MemberEvent::Exited {
            process: slot(index),
            exit,
            cause: Some(ExitCause::OutOfMemory(memory)),
        };
        said(&it.on(exited, s(2))).concat()
    });
    assert_eq!(
        texts.collect::<Vec<_>>(),
        [
            "rank 0 (pid 100) was ended by signal 15 (SIGTERM) after 2 s",
            "rank 1 (pid 101) was ended by signal 9 (SIGKILL) after 2 s: the memory limit of its cgroup was reached (/job, 4 GiB)",
            "rank 2 (pid 102) was ended by signal 9 (SIGKILL) after 2 s",
        ]
    );
    let exited = MemberEvent::Exited {
        process: slot(0),
        exit: Exit::Signal(9),
        cause: Some(ExitCause::OutOfMemory(memory(1, None))),
    };
    let text = "rank 0 (pid 100) was ended by signal 9 (SIGKILL) after 2 s: the machine was out of memory (oom_kill of its cgroup \
                /job/step, whose own limit was not reached)";
    assert_eq!(said(&launched([rank(0)]).on(exited, s(2))), [text]);
}

#[test]
fn a_late_rank_is_attached_to_and_named_once_it_is_watched() {
    let mut it = launched([rank(0)]);
    gives!(it, found([rank(1)]), s(2) => [watch(&rank(1))]);
    let effects = it.on(watched(1, &rank(1)), s(2));
    assert_eq!(
        (said(&effects), done(&effects)),
        (vec!["rank 1 (pid 101) joined".to_owned()], vec![])
    );
    assert!(it.known(HERE).contains(&101));
}

#[test]
fn a_process_without_a_rank_joins_as_a_process() {
    let mut it = after!(alone([plain(7)]); found([plain(8)]), s(2));
    assert_eq!(
        said(&it.on(watched(1, &plain(8)), s(2))),
        ["a process (pid 8) joined"]
    );
}

#[test]
fn newcomers_are_attached_to_one_after_the_other_in_the_order_in_which_they_were_found() {
    let mut it = launched([rank(0)]);
    gives!(it, found([rank(1), rank(2), rank(3)]), s(2) => [watch(&rank(1))]);
    assert_eq!(done(&it.on(watched(1, &rank(1)), s(2))), [watch(&rank(2))]);
    assert_eq!(done(&it.on(watched(2, &rank(2)), s(2))), [watch(&rank(3))]);
    assert_eq!(done(&it.on(watched(3, &rank(3)), s(2))), []);
}

#[test]
fn one_that_cannot_be_watched_is_named_with_the_reason_and_the_next_is_attached_to_all_the_same() {
    let mut it = after!(launched([rank(0)]); found([rank(1), rank(2)]), s(2));
    let effects = it.on(refused(1, &rank(1), "not permitted"), s(2));
    let text = "rank 1, process 101 is not watched: not permitted";
    assert_eq!(said(&effects), [format!("missing: {text}")]);
    assert_eq!(done(&effects), [watch(&rank(2))]);
    assert_eq!(it.missing(), [text]);
    // It takes its slot and is known: it is not attached to again.
    assert!(it.known(HERE).contains(&101));
}

#[test]
fn a_process_without_a_rank_that_cannot_be_watched_is_named_as_a_process() {
    let it = after!(alone([plain(7)]); found([plain(8)]), s(2);
        refused(1, &plain(8), "could not attach"), s(2));
    assert_eq!(it.missing(), ["process 8 is not watched: could not attach"]);
}

#[test]
fn where_there_is_no_room_for_one_no_other_is_attached_to_until_the_next_look() {
    let mut it = after!(launched([rank(0)]); found([rank(1), rank(2)]), s(2));
    gives!(it, MemberEvent::NoRoom(HERE, pid(101)), s(2) => []);
    assert!(!it.known(HERE).contains(&101) && !it.known(HERE).contains(&102));
    gives!(it, found([rank(1), rank(2)]), s(4) => [watch(&rank(1))]);
}

#[test]
fn processes_of_other_users_are_left_alone() {
    let other = Candidate { user: 0, ..rank(1) };
    let mut it = launched([rank(0)]);
    gives!(it, found([other.clone()]), s(2) => []);
    gives!(it, found([other, rank(2)]), s(4) => [watch(&rank(2))]);
}

#[test]
fn processes_of_other_users_join_where_the_session_is_for_any_user() {
    let origin = MembersOrigin::Attached {
        has_launcher: false,
        any_user: true,
    };
    let mut it = Members::new(origin, Vec::new(), ms(0));
    it.on(MemberEvent::Present(slot(0), plain(7)), ms(0));
    let other = Candidate { user: 0, ..plain(8) };
    gives!(it, found([other.clone()]), s(2) => [watch(&other)]);
}

#[test]
fn nothing_found_is_nothing_to_do() {
    assert_eq!(launched([rank(0)]).on(found([]), s(2)), []);
}

#[test]
fn a_rank_that_ends_is_read_once_more_and_what_was_changed_in_it_is_gone() {
    let mut it = launched([rank(0), rank(1)]);
    let ended = it.on(MemberEvent::Ended(slot(0)), s(1));
    let wanted = [
        end(0),
        MemberEffect::Forget(slot(0)),
        MemberEffect::CheckChanges(slot(0)),
    ];
    assert_eq!(ended, wanted);
    assert_eq!(it.known(HERE).into_iter().collect::<Vec<_>>(), [101]);
}

#[test]
fn the_session_is_over_with_the_last_process() {
    let mut it = launched([rank(0), rank(1)]);
    assert!(!it.on(MemberEvent::Ended(slot(1)), s(1)).contains(&OVER));
    assert_eq!(it.on(MemberEvent::Ended(slot(0)), s(2)).last(), Some(&OVER));
}

#[test]
fn a_process_that_is_said_to_have_ended_twice_ends_once() {
    let mut it = after!(launched([rank(0), rank(1)]); MemberEvent::Ended(slot(0)), s(1));
    gives!(it, MemberEvent::Ended(slot(0)), s(2) => [MemberEffect::CheckChanges(slot(0))]);
}

#[test]
fn a_late_rank_keeps_the_session_going_when_the_others_have_ended() {
    let mut it = after!(launched([rank(0)]); found([rank(1)]), s(2); watched(1, &rank(1)), s(2));
    assert!(!it.on(MemberEvent::Ended(slot(0)), s(3)).contains(&OVER));
    assert!(it.on(MemberEvent::Ended(slot(1)), s(4)).contains(&OVER));
}

#[test]
fn one_that_was_refused_is_waited_for_too() {
    let mut it = after!(launched([rank(0)]); found([rank(1)]), s(2); refused(1, &rank(1), "no"), s(2));
    assert!(!it.on(MemberEvent::Ended(slot(0)), s(3)).contains(&OVER));
}

#[test]
fn a_process_that_runs_another_program_ends_in_its_slot_and_is_looked_for_anew() {
    let mut it = alone([plain(7)]);
    let effects = it.on(runs(0, "/bin/other"), ms(1500));
    let wanted = [
        end(0),
        MemberEffect::Forget(slot(0)),
        MemberEffect::ForgetThreads(slot(0)),
        MemberEffect::CheckChanges(slot(0)),
    ];
    assert_eq!(done(&effects), wanted);
    let text = "a process (pid 7) executed another program (exec) after 1.5 s, /bin/other: what it did before has its own entry, and \
                the new program joins soon";
    assert_eq!(said(&effects), [text]);
    assert!(!it.known(HERE).contains(&7), "it may be found");
}

#[test]
fn what_is_missing_of_a_process_that_executes_programs_is_one_sentence_that_says_what_was_not_attached() {
    let program = |program: &str| Candidate {
        program: program.into(),
        ..plain(7)
    };
    let unattached = |times: &str, program: &str| {
        format!(
            "a process (pid 7) executed another program (exec) {times}, {program}: no probes were attached to it; attach again \
             while it runs (tuneagent attach {program}) to watch it fully"
        )
    };
    let attached = |times: &str, program: &str, duration: &str| {
        format!(
            "a process (pid 7) executed another program (exec) {times}, {program}: each has its own entry, and {duration} until \
             probes were attached are not measured"
        )
    };
    let mut it = after!(alone([program("/bin/bash"), plain(8)]); runs(0, "/bin/shim"), s(1));
    assert_eq!(it.missing(), [unattached("after 1 s", "shim")]);
    // Until it was found, it executed another program.
    it = after!(it; found([program("/bin/python3")]), s(3); watched(2, &program("/bin/python3")), s(3));
    assert_eq!(it.missing(), [attached("after 1 s", "python3", "2 s")]);
    it = after!(it; runs(2, "/bin/python3"), s(6));
    assert_eq!(
        it.missing(),
        [unattached("2 times, the last after 6 s", "python3")]
    );
    it = after!(it; found([program("/bin/python3")]), s(7); watched(3, &program("/bin/python3")), s(7));
    assert_eq!(
        it.missing(),
        [attached("2 times, the last after 6 s", "python3", "3 s")]
    );
}

#[test]
fn below_a_launcher_the_new_program_joins_with_its_mpi() {
    let mut it = launched([rank(3)]);
    let said = said(&it.on(runs(0, "/bin/other"), s(1)));
    let missing = "rank 3 (pid 103) executed another program (exec) after 1 s, other: no probes were attached to it, because that \
                   is done once it has loaded its MPI; attach again while it runs (tuneagent attach other) to watch it fully";
    assert_eq!(it.missing(), [missing]);
    assert!(
        said[0].starts_with("rank 3 (pid 103) executed another program (exec) after "),
        "{said:?}"
    );
    assert!(said[0].ends_with("joins once it has loaded its MPI"), "{said:?}");
}

#[test]
fn a_session_outlives_a_replaced_process_until_the_process_itself_ends() {
    let mut it = after!(alone([plain(7)]); runs(0, "/bin/other"), s(1); found([plain(7)]), s(2);
        watched(1, &plain(7)), s(2));
    // The descriptor of the process reports its end twice, once for each slot.
    assert!(!it.on(MemberEvent::Ended(slot(0)), s(3)).contains(&OVER));
    assert!(it.on(MemberEvent::Ended(slot(1)), s(3)).contains(&OVER));
}

#[test]
fn a_replaced_process_that_never_joined_again_ends_the_session_when_it_ends() {
    let mut it = after!(launched([rank(0)]); runs(0, "/bin/other"), s(1));
    gives!(it, MemberEvent::Ended(slot(0)), s(2) => [MemberEffect::CheckChanges(slot(0)), OVER]);
}

#[test]
fn the_end_of_another_process_does_not_end_a_session_in_which_one_is_being_replaced() {
    let mut it = after!(launched([rank(0), rank(1)]); runs(0, "/bin/other"), s(1));
    assert!(!it.on(MemberEvent::Ended(slot(1)), s(2)).contains(&OVER));
}

#[test]
fn one_that_has_ended_is_not_replaced() {
    let mut it = after!(launched([rank(0), rank(1)]); MemberEvent::Ended(slot(0)), s(1));
    gives!(it, runs(0, "/bin/other"), s(1) => []);
    gives!(it, runs(9, "/bin/other"), s(1) => [], "nobody");
}

#[test]
fn a_rank_that_loads_its_mpi_late_joins_with_the_next_newcomers_and_before_them() {
    let mut it = launched([bare(0)]);
    let effects = it.on(loaded_mpi(0, rank(0)), s(4));
    let wanted = [
        end(0),
        MemberEffect::Forget(slot(0)),
        MemberEffect::ForgetThreads(slot(0)),
    ];
    assert_eq!(done(&effects), wanted);
    let text = "rank 0 (pid 100) has loaded its MPI after 4 s: what it did before has its own entry";
    assert_eq!(said(&effects), [text]);
    assert!(it.known(HERE).contains(&100), "it is not looked for");
    gives!(it, found([rank(5)]), s(4) => [watch(&rank(0))]);
    assert_eq!(done(&it.on(watched(1, &rank(0)), s(4))), [watch(&rank(5))]);
}

#[test]
fn a_rank_that_executed_another_program_has_not_loaded_mpi_late() {
    let mut it = after!(launched([bare(0)]); runs(0, "/bin/other"), s(2));
    gives!(it, loaded_mpi(0, rank(0)), s(2) => []);
    gives!(it, found([rank(0)]), s(2) => [watch(&rank(0))]);
}

#[test]
fn a_rank_is_checked_for_a_late_mpi_only_once() {
    let mut it = after!(launched([old(bare(0))]); loaded_mpi(0, old(rank(0))), s(2);
        found([]), s(2); watched(1, &rank(0)), s(2));
    gives!(it, tick(), s(4) => [CHECK, SCAN]);
}

#[test]
fn unwatched_parts_of_the_job_are_listed_in_the_order_in_which_they_appear() {
    let origin = MembersOrigin::Attached {
        has_launcher: true,
        any_user: false,
    };
    let mut it = Members::new(
        origin,
        vec!["process 9 is not watched: it is root's".to_owned()],
        ms(0),
    );
    it.on(
        MemberEvent::NotMeasured("the recording is full".to_owned()),
        ms(0),
    );
    assert_eq!(
        it.missing(),
        ["process 9 is not watched: it is root's", "the recording is full"]
    );
    assert_eq!(
        it.counted_missing(Unmeasured {
            without_slot: 1,
            privileged: 1
        }),
        [""; 0]
    );
}

#[test]
fn of_very_many_processes_it_is_said_that_more_is_missing_than_is_listed() {
    let mut it = launched([rank(0)]);
    for number in 0..1000 {
        it.on(MemberEvent::NotMeasured(format!("process {number}")), ms(0));
    }
    let missing = it.missing();
    assert_eq!(missing.len(), 65);
    assert_eq!(missing[63], "process 63");
    assert_eq!(missing[64], "more processes have missing data than are listed");
}

#[test]
fn each_machine_is_looked_at_for_itself() {
    let mut it = launched([old(rank(0))]);
    let far = MemberProcess {
        machine: FAR,
        slot: 0,
    };
    it.on(MemberEvent::Present(far, old(rank(1))), ms(0));
    gives!(it, tick(), s(2) => [CHECK, SCAN]);
    let far_scan = [MemberEffect::CheckPrograms(FAR), MemberEffect::Scan(FAR)];
    gives!(it, MemberEvent::Tick(FAR), s(3) => far_scan);
    gives!(it, MemberEvent::Tick(FAR), s(4) => [MemberEffect::CheckPrograms(FAR)]);
    gives!(it, tick(), s(4) => [CHECK, SCAN]);
    assert_eq!(it.known(FAR).into_iter().collect::<Vec<_>>(), [101]);
    assert!(!it.on(MemberEvent::Ended(slot(0)), s(5)).contains(&OVER));
    assert!(it.on(MemberEvent::Ended(far), s(5)).contains(&OVER));
}
