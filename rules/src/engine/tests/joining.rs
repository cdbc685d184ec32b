//! Processes that join and leave in large numbers.

use super::probed::Farm;
use super::*;

#[test]
fn a_process_that_joins_or_leaves_does_not_copy_what_is_known_of_the_others() {
    let mut job = Job::busy_wait(2.0);
    let of_all = |job: &Job| (Arc::as_ptr(&job.engine.joined), Arc::as_ptr(&job.engine.ranks));
    let before = of_all(&job);
    job.join(6);
    job.join(6);
    job.engine.process_learned(ProcessId(6), ProcessFacts::of_rank(7));
    assert_eq!(job.engine.ranks.get(&ProcessId(6)), Some(&7));
    job.engine.process_learned(ProcessId(6), ProcessFacts::default());
    assert_eq!(job.engine.ranks.get(&ProcessId(6)), None);
    job.engine.process_left(ProcessId(6), job.now);
    assert!(!job.engine.joined.contains_key(&ProcessId(6)));
    assert_eq!(of_all(&job), before);
}

#[test]
fn a_window_whose_boundaries_each_rank_hits_has_values_for_any_number_of_ranks() {
    const RANKS: u32 = 20_000;
    let (_, text) = crate::models()
        .iter()
        .find(|(name, _)| *name == "halo-width")
        .unwrap();
    let mut farm = Farm::new(text, RANKS);
    for rank in 0..RANKS {
        farm.hits(&[
            ("begin", rank, 100, 0, vec![1.0]),
            ("exchange", rank, 120, 10, vec![1.0]),
            ("compute", rank, 170, 40, vec![1.0, 1.0, 1000.0]),
            ("end", rank, 180, 0, vec![]),
        ]);
    }
    farm.all_until(200);
    let closed = farm.closed();
    assert!(closed[0].contains("taken 50 ms"), "{}", &closed[0][..200]);
    assert_eq!(farm.engine.dropped(RuleId(0)), Dropped::default());
}
