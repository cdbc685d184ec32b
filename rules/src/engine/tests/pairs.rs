//! Pairs of hits in timed windows.

use super::probed::{FRAME, Farm};
use super::*;

fn farm() -> Farm {
    let rule = FRAME
        .replace("  compute.number", "  send.to: dest\n  compute.number")
        .replace(
            "windows:\n  iteration: {from: begin, to: end, key: number}",
            "join:\n  chunk: {of: [send, compute], by: [send.to = compute.process]}\nwindows:\n  pulse: {every: 500ms}",
        );
    let (head, _) = rule.split_once("metrics:").unwrap();
    let metrics = "metrics:\n  pairs: count(chunk)\n  longest: max(chunk.compute.duration)\n  busy: sum(chunk.compute.duration) by process\n";
    Farm::new(&format!("{head}{metrics}"), 3)
}

#[test]
fn a_pair_belongs_to_the_timed_window_in_which_it_becomes_known() {
    let mut farm = farm();
    farm.hits(&[
        ("send", 0, 100, 0, vec![100.0, 1.0]),
        ("send", 0, 110, 0, vec![100.0, 2.0]),
        ("compute", 1, 300, 30, vec![1.0]),
        // The watermark of the first process had not yet reached this time in the first window.
        ("compute", 2, 480, 40, vec![1.0]),
    ]);
    farm.watermark(0, 400);
    farm.watermark(1, 500);
    farm.watermark(2, 500);
    farm.engine.tick(Time(500 * MS));
    farm.all_until(1000);
    assert_eq!(
        farm.closed(),
        [
            "pulse 0: pairs 1, longest 30 ms, busy 0 s to 30 ms over 2 processes",
            "pulse 1: pairs 1, longest 40 ms, busy 0 s to 40 ms over 2 processes",
        ]
    );
}

#[test]
fn where_hits_were_lost_pairs_have_no_value() {
    let mut farm = farm();
    farm.hit(("send", 0, 100, 0, vec![100.0, 1.0]));
    farm.engine.observe(lost(1, (120, 130)));
    farm.all_until(500);
    let closed = farm.closed();
    assert!(
        closed[0].starts_with("pulse 0: pairs none (the window is partial: hits were lost in it)"),
        "{closed:?}"
    );
}
