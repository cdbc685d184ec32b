//! Tables of hits and times.

use super::*;

const MS: u64 = 1_000_000;

/// Greatest difference between the clocks of two CPUs.
const SLACK_NS: u64 = 1_000;

#[test]
fn if_the_ring_was_empty_at_t_every_hit_before_t_has_been_read() {
    let mut intake = Intake::new(MS);
    for (taken, now_ns) in [(0, 2 * MS), (5, 3 * MS)] {
        let until_ns = intake.known_until(now_ns).unwrap();
        assert_eq!(until_ns, now_ns - SLACK_NS);
        assert_eq!(intake.drained(taken, until_ns, true), Drain::UpTo(until_ns));
        intake.advance(until_ns);
        assert_eq!(intake.watermark_ns, until_ns);
        assert!(!intake.is_left());
    }
}

#[test]
fn a_session_has_missed_nothing_before_it_began() {
    assert_eq!(Intake::new(7 * MS).watermark_ns, 7 * MS);
}

#[test]
fn while_a_hit_is_newer_than_the_look_the_ring_is_looked_into_once_more() {
    let mut intake = Intake::new(0);
    intake.take(5 * MS, None);
    for (now_ns, until_ns) in [
        (5 * MS, None),
        (5 * MS + SLACK_NS - 1, None),
        (5 * MS + SLACK_NS, Some(5 * MS)),
    ] {
        assert_eq!(intake.known_until(now_ns), until_ns);
    }
    // An older hit of another CPU makes no difference.
    intake.take(4 * MS, None);
    assert_eq!(intake.known_until(5 * MS), None);
}

#[test]
fn a_ring_that_is_never_empty_is_known_up_to_when_what_it_can_hold_was_begun_to_be_taken() {
    let mut intake = Intake::new(MS);
    intake.take(9 * MS, None);
    assert_eq!(intake.known_before(5 * MS), 5 * MS - SLACK_NS);
    assert_eq!(intake.known_before(MS), MS, "never before what is known already");
}

#[test]
fn a_pass_that_was_interrupted_goes_on_where_it_stopped_and_other_events_come_between() {
    let mut intake = Intake::new(MS);
    let first = Pass {
        began_ns: 2 * MS,
        left: 9,
    };
    assert_eq!(intake.pass(2 * MS, 9), first);
    intake.interrupt(Pass { left: 5, ..first });
    assert!(
        intake.is_left(),
        "no hit wakes the session before the ring was empty"
    );
    assert_eq!(intake.watermark_ns, MS);
    assert_eq!(intake.pass(3 * MS, 9), Pass { left: 5, ..first });
    intake.interrupt(first);
    intake.forget_pass();
    assert_eq!(
        intake.pass(4 * MS, 9),
        Pass {
            began_ns: 4 * MS,
            left: 9
        }
    );
}

#[test]
fn while_something_is_being_written_the_watermark_stays() {
    for (taken, drain) in [(3, Drain::Again), (0, Drain::Stuck)] {
        let mut intake = Intake::new(MS);
        assert_eq!(intake.drained(taken, 2 * MS, false), drain);
        assert_eq!(intake.watermark_ns, MS);
        assert!(intake.is_left(), "nobody wakes us when it is written");
    }
}

#[test]
fn hits_that_were_left_are_there_until_the_ring_was_emptied() {
    let mut intake = Intake::new(0);
    intake.leave();
    assert!(intake.is_left());
    intake.emptied(true, MS);
    assert!(!intake.is_left());
}

#[test]
fn a_loss_is_new_once() {
    let mut intake = Intake::new(0);
    for (lost, is_new) in [(0, false), (3, true), (3, false), (4, true), (4, false)] {
        assert_eq!(intake.lose(lost), is_new, "{lost}");
    }
}

#[test]
fn hits_are_read_by_the_clock_as_long_as_there_are_some_and_then_wake_us() {
    let mut intake = Intake::new(0);
    assert_eq!(intake.emptied(false, 100), None);
    assert_eq!(intake.due_ns(), None);
    assert_eq!(intake.emptied(true, 100), Some(100 + 3 * MS));
    assert_eq!(intake.due_ns(), Some(100 + 3 * MS));
    // Woken before that time for another reason.
    assert_eq!(intake.emptied(false, 200), None);
    assert_eq!(intake.emptied(true, 300), Some(300 + 3 * MS));
    assert_eq!(intake.emptied(false, 300 + 3 * MS), Some(0));
    assert_eq!(intake.due_ns(), None);
}

#[test]
fn hits_at_which_nothing_falls_due_are_gathered_until_there_are_enough() {
    let mut intake = Intake::new(0);
    assert!(!intake.gather(HITS_PER_WAKE - 1));
    assert!(intake.gather(1));
    intake.take(9, None);
    assert_eq!(intake.evaluate(), 9, "the newest that is evaluated");
    assert!(!intake.gather(1), "they are counted from there on");
}

#[test]
fn rings_of_calls_are_read_when_one_fills_or_a_window_is_open() {
    let mut intake = Intake::new(0);
    assert!(!intake.have_read_calls(5 * MS));
    assert_eq!(intake.calls_due_ns(false), None);
    assert_eq!(intake.calls_due_ns(true), Some(105 * MS));
    intake.fills();
    assert_eq!(intake.calls_due_ns(false), Some(105 * MS));
    assert!(intake.have_read_calls(50 * MS), "one was filling");
    assert_eq!(intake.calls_due_ns(false), None);
    assert!(!intake.have_read_calls(60 * MS));
}

#[test]
fn the_first_of_the_hits_of_a_batch_shows_how_long_they_lay() {
    let mut intake = Intake::new(0);
    assert_eq!(intake.unread(), None);
    intake.take(2 * MS, Some(9 * MS));
    intake.take(3 * MS, None);
    // The clocks of two CPUs differ.
    intake.take(11 * MS, Some(10 * MS));
    let unread = intake.unread().unwrap();
    assert_eq!((unread.most_ns, unread.reads, unread.late), (7 * MS, 2, 1));
    intake.turn(20_000 * MS);
    assert_eq!(intake.unread().map(|unread| unread.recent_ns), Some(0));
}
