//! The law of this crate: the same hits in any order of delivery give the same windows, findings and decisions.
//!
//! A watermark comes behind the hits it covers, and ticks fall where they fall; everything else is shuffled.

use proptest::prelude::*;

use super::probed::{FRAME, Farm, Sent};
use super::*;

/// One iteration of a farm: when its parts happen and what of it gets lost or doubled on the way.
#[derive(Clone, Debug)]
struct Turn {
    workers: u32,
    computes: Vec<u64>,
    /// How far a worker's clock is ahead, ms.
    skew: u64,
    missing: usize,
    doubled: usize,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let computes = prop::collection::vec(1u64..400, 3);
    (1u32..=3, computes, 0u64..150, 0usize..24, 0usize..24).prop_map(
        |(workers, computes, skew, missing, doubled)| Turn {
            workers,
            computes,
            skew,
            missing,
            doubled,
        },
    )
}

/// The hits of a model's farm: begin, sends, computations, replies, end. What `probes` lacks is left out.
fn stream(turns: &[Turn], probes: &[&str]) -> Vec<Sent> {
    let mut out = Vec::new();
    for (number, turn) in (1u64..).zip(turns) {
        let (start, n) = (number * 500, number as f64);
        let mut hits: Vec<Sent> = vec![("begin", 0, start, 0, vec![n, turn.workers.into()])];
        for worker in 1..=turn.workers {
            let at = start + 10 * u64::from(worker);
            let compute = turn.computes[worker as usize - 1];
            hits.push(("send", 0, at, 150, vec![1000.0 * n, n, 100.0, worker.into()]));
            hits.push(("compute", worker, at + compute + turn.skew, compute, vec![n]));
            hits.push(("reply", 0, at + compute + 20, 0, vec![worker.into(), 100.0]));
        }
        hits.push(("end", 0, start + 490, 0, vec![n]));
        if let Some(doubled) = hits.get(turn.doubled).cloned() {
            hits.push(doubled);
        }
        if turn.missing < hits.len() {
            hits.remove(turn.missing);
        }
        out.extend(hits);
    }
    out.retain(|(probe, ..)| probes.contains(probe));
    out
}

/// What the rule made of the hits: its windows, and what it said.
fn told(farm: &mut Farm, said: &mut Vec<Output>, outputs: Vec<Output>, windows: &mut Vec<ClosedWindow>) {
    said.extend(outputs);
    windows.extend(farm.engine.drain_windows());
}

/// Hits in this order, with watermarks as far as they are true and a tick behind each hit of `ticks`.
fn deliver(source: &str, hits: &[Sent], ticks: &[bool]) -> (Vec<Output>, Vec<ClosedWindow>, Dropped) {
    let mut farm = Farm::new(source, 4);
    farm.engine.set_mode(RuleId(0), Mode::Applying);
    let (mut said, mut windows) = (Vec::new(), Vec::new());
    for (place, hit) in hits.iter().enumerate() {
        farm.hit(hit.clone());
        if !ticks.get(place).copied().unwrap_or(false) {
            continue;
        }
        for process in 0..4 {
            let rest = hits[place + 1..].iter().filter(|hit| hit.1 == process);
            let next = rest.map(|hit| hit.2).min().unwrap_or(100_000);
            farm.watermark(process, next - 1);
        }
        let outputs = farm.engine.tick(Time((100_000 + place as u64) * MS));
        told(&mut farm, &mut said, outputs, &mut windows);
    }
    let outputs = farm.all_until(200_000);
    told(&mut farm, &mut said, outputs, &mut windows);
    let dropped = farm.dropped();
    (said, windows, dropped)
}

/// The rules of the law, and the probes each of them has.
fn rules() -> Vec<(String, Vec<&'static str>)> {
    let all = vec!["begin", "end", "send", "compute", "reply"];
    let some = vec!["begin", "end", "send", "compute"];
    let is_model = |(name, _): &&(&str, &str)| *name == "optimal-workers";
    let (_, model) = crate::models().iter().find(is_model).unwrap();
    let guard = "guard: {minimize: iteration.duration, over: 1, undo_if_worse_by: 5%}";
    let tune = format!(
        "tune:\n  - set: chunk\n    role: worker\n    value: floor(busy / 1ms)\n    when: total > 100ms\n    {guard}\n"
    );
    let looking_back = "metrics:\n  trend: mean(total over 3)\n  before: busy - busy[-1]\n";
    let frame = FRAME.replace("metrics:\n", looking_back);
    let framed = |key: &str| frame.replace("key: number}", key) + &tune;
    let joined = FRAME
        .replace(
            "  compute.number",
            "  send.batch: b\n  send.tasks: t\n  send.to: w\n  compute.number",
        )
        .replace(
            "windows:",
            "join:\n  chunk: {of: [send, compute], by: [send.to = compute.process, send.batch = compute.number]}\nwindows:",
        )
        .replace(
            "metrics:",
            "metrics:\n  pace: chunk.send.tasks / chunk.compute.duration\n  paces: sum(pace) by chunk.send.to\n  pairs: count(chunk)",
        );
    vec![
        (joined + &tune, some.clone()),
        (model.replace("over: 5", "over: 1"), all),
        (framed("key: number}"), some.clone()),
        (framed("key: number, straddle: drop, skip: 1}"), some.clone()),
        (
            framed("key: number, complete: {worker: count(compute) == 1}, discard: any(send.bytes > 5KB)}"),
            some.clone(),
        ),
        (
            framed("key: number}\n  turn: {from: begin}")
                .replace(
                    "  bytes:",
                    "  each: {in: turn, value: stddev(compute.duration)}\n  bytes:",
                )
                .replace(
                    "bytes: sum(send.bytes)",
                    "bytes: {in: iteration, value: sum(send.bytes) / product(send.duration / 1ms)}",
                )
                .replace(
                    "busy: sum(compute.duration) by process",
                    "busy: {in: iteration, value: sum(compute.duration) by process}",
                )
                .replace(
                    "workers: begin.workers",
                    "workers: {in: iteration, value: begin.workers}",
                ),
            some,
        ),
    ]
}

fn any_delivery() -> impl Strategy<Value = (Vec<Turn>, Vec<prop::sample::Index>, Vec<bool>)> {
    (
        prop::collection::vec(any_turn(), 1..7),
        prop::collection::vec(any::<prop::sample::Index>(), 100),
        prop::collection::vec(prop::bool::weighted(0.2), 100),
    )
}

fn shuffled(hits: &[Sent], order: &[prop::sample::Index]) -> Vec<Sent> {
    let mut left = hits.to_vec();
    let mut out = Vec::new();
    for index in order.iter().cycle() {
        if left.is_empty() {
            return out;
        }
        out.push(left.remove(index.index(left.len())));
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_order_of_delivery_gives_the_same_windows_findings_and_decisions((turns, order, ticks) in any_delivery()) {
        for (source, probes) in rules() {
            let hits = stream(&turns, &probes);
            let expected = deliver(&source, &hits, &[]);
            let found = deliver(&source, &shuffled(&hits, &order), &ticks);
            prop_assert_eq!(&found.0, &expected.0);
            prop_assert_eq!(&found.1, &expected.1);
            prop_assert_eq!(found.2, expected.2);
        }
    }

    #[test]
    fn no_stream_of_hits_makes_the_engine_panic(
        (turns, order, ticks) in any_delivery(),
        late in prop::collection::vec((0u32..5, 0u64..4000), 0..20),
    ) {
        for (source, probes) in rules() {
            let mut farm = Farm::new(&source.replace("key: number", "key: number, timeout: 300ms"), 4);
            let hits = shuffled(&stream(&turns, &probes), &order);
            for ((hit, tick), (process, ms)) in hits.into_iter().zip(&ticks).zip(late.iter().cycle()) {
                farm.hit(hit);
                farm.watermark(*process, *ms);
                if *tick {
                    farm.engine.tick(Time(ms * MS));
                }
                if ms % 7 == 0 {
                    farm.engine.process_left(ProcessId(*process), Time(ms * MS));
                    farm.join(*process, *ms);
                }
            }
            farm.all_until(10_000);
            farm.engine.status();
        }
    }
}

#[test]
fn the_streams_of_the_law_close_windows_and_decide() {
    let turn = Turn {
        workers: 3,
        computes: vec![300, 200, 100],
        skew: 20,
        missing: 99,
        doubled: 99,
    };
    for (source, probes) in rules() {
        let hits = stream(&vec![turn.clone(); 4], &probes);
        let (said, windows, dropped) = deliver(&source, &hits, &[]);
        assert!(windows.len() >= 3, "{windows:?} {dropped:?}");
        assert!(
            said.iter().any(|output| matches!(output, Output::Decision(_))),
            "{said:?} {windows:?}"
        );
    }
}
