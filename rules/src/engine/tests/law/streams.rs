//! Streams of hits of a farm: what happens in each iteration, and what of it gets lost or doubled on the way.

use proptest::prelude::*;

/// Process 0 is the master, the others work.
pub(super) const PROCESSES: u32 = 6;

/// `probe`, process, end and duration in ms, what was read.
pub(super) type Sent = super::Sent;

/// One iteration.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) workers: u32,
    /// Of each worker.
    pub(super) computes: Vec<u64>,
    /// Tenths, so that no sum of them is exact in binary.
    pub(super) work: Vec<u32>,
    /// How far a worker's clock is ahead, ms: it may work on when its iteration is over.
    pub(super) skew: u64,
    pub(super) missing: usize,
    pub(super) doubled: usize,
    /// The iteration that a late worker believes to be in.
    pub(super) behind: bool,
}

pub(super) fn any_turn() -> impl Strategy<Value = Turn> {
    let workers = PROCESSES as usize - 1;
    (
        1..PROCESSES,
        prop::collection::vec(1u64..400, workers),
        prop::collection::vec(0u32..50, workers),
        0u64..150,
        0usize..40,
        0usize..40,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(workers, computes, work, skew, missing, doubled, behind)| Turn {
            workers,
            computes,
            work,
            skew,
            missing,
            doubled,
            behind,
        })
}

/// The hits of the turns, in no order. What `probes` lacks is left out; each has what is read of it.
pub(super) fn stream(turns: &[Turn], probes: &[(&'static str, usize)]) -> Vec<Sent> {
    let mut out = Vec::new();
    for (number, turn) in (1u64..).zip(turns) {
        let (start, n) = (number * 500, number as f64);
        let mut hits: Vec<Sent> = vec![("begin", 0, start, 0, vec![n, turn.workers.into()])];
        for worker in 1..=turn.workers {
            let at = start + 10 * u64::from(worker);
            let place = worker as usize - 1;
            let (compute, work) = (turn.computes[place], f64::from(turn.work[place]) / 10.0);
            let believed = n - f64::from(u8::from(turn.behind && worker == 1));
            hits.push(("send", 0, at, 150, vec![1000.0 * n, n, 100.0, worker.into()]));
            hits.push(("enter", worker, at, 0, vec![n]));
            hits.push((
                "compute",
                worker,
                at + compute + turn.skew,
                compute,
                vec![believed, work],
            ));
            hits.push((
                "compute",
                worker,
                at + compute / 2,
                compute / 2,
                vec![n, work + 0.3],
            ));
            hits.push(("leave", worker, at + 400, 0, vec![n]));
            hits.push(("reply", 0, at + compute + 20, 0, vec![worker.into(), 100.0]));
        }
        hits.push(("end", 0, start + 490, 0, vec![n]));
        if turn.missing < hits.len() {
            hits.remove(turn.missing);
        }
        out.extend(hits);
    }
    out.retain_mut(|(probe, _, _, _, read)| {
        let known = probes.iter().find(|(name, _)| name == probe);
        read.truncate(known.map_or(0, |(_, reads)| *reads));
        known.is_some()
    });
    out
}

/// The hits, and which of them are delivered twice.
pub(super) fn with_doubles(hits: &[Sent], turns: &[Turn]) -> (Vec<Sent>, u64) {
    let mut out = hits.to_vec();
    let mut places: Vec<usize> = turns.iter().map(|turn| turn.doubled).collect();
    places.sort_unstable();
    places.dedup();
    out.extend(places.into_iter().filter_map(|place| hits.get(place).cloned()));
    let doubled = out.len() - hits.len();
    (out, doubled as u64)
}
