//! S1, MATE for MPI (2010): adjusting factoring and its events.

use proptest::prelude::*;

use crate::bench::{Bench, shipped, written};

/// Workers, tasks, μ and σ of a task's time (ms), f_0, f_j, chunk size of each batch, least chunk, remaining
/// tasks.
type Vector = (u32, u32, f64, f64, f64, f64, &'static [u32], u32, u32);

/// S1, the digest's test vectors of adjusting factoring (§9.1), for Eq. 4.3 and 4.4.
const FACTORS: [Vector; 4] = [
    (
        4,
        1000,
        2.0,
        0.5,
        0.738_796,
        0.424_889,
        &[184, 28, 16, 9, 5],
        5,
        32,
    ),
    (4, 1000, 2.0, 0.0, 1.0, 0.5, &[250], 5, 0),
    (
        2,
        1000,
        1.0,
        1.0,
        0.5,
        0.333_333,
        &[250, 83, 55, 37, 25, 16, 11, 7, 5],
        5,
        22,
    ),
    (
        7,
        786_420,
        1.0,
        0.25,
        0.681_335,
        0.405_234,
        &[76545, 14507, 8628, 5132, 3052, 1816, 1080, 642, 382, 227, 135],
        100,
        1398,
    ),
];

/// A master that makes batches of the shares set by the rule, and workers with these times per task (ms).
struct Farm {
    bench: Bench,
    times: Vec<f64>,
    number: u32,
    shares: [f64; 3],
    /// Writes by the rule: iteration, index of the share, value.
    writes: Vec<(u32, usize, f64)>,
}

impl Farm {
    fn new(times: Vec<f64>) -> Farm {
        Farm {
            bench: Bench::new(shipped("adjusting-factoring"), times.len() as u32 + 1).applying(),
            times,
            number: 0,
            shares: [f64::NAN; 3],
            writes: Vec::new(),
        }
    }

    /// Runs an iteration with this number of tasks and at most `most` batches. Returns the chunk size of each
    /// batch, and the remaining tasks.
    fn iteration(&mut self, tasks: u32, least: u32, most: usize) -> (Vec<u32>, u32) {
        let workers = self.times.len() as u32;
        let start = 1000.0 + f64::from(self.number) * 1e6;
        self.reported(start);
        let number = f64::from(self.number);
        let (mut at, mut left, mut sizes) = (start + 1.0, tasks, Vec::new());
        self.bench.hit("begin", 0, start, 0.0, &[number, workers.into()]);
        while left > 0 && sizes.len() < most {
            let share = self.shares[sizes.len().min(2)];
            let chunk = (share * f64::from(left) / f64::from(workers)) as u32;
            if chunk < least {
                break;
            }
            let batch = sizes.len() as f64;
            at += 1.0;
            self.bench.hit("batch", 0, at, 0.0, &[batch, workers.into()]);
            let mut longest: f64 = 0.0;
            for (worker, time) in (1..).zip(&self.times) {
                let took = f64::from(chunk) * time;
                self.bench.hit(
                    "send",
                    0,
                    at + 0.1 * f64::from(worker),
                    0.0,
                    &[worker.into(), batch, chunk.into()],
                );
                self.bench
                    .hit("compute", worker, at + 5.0 + took, took, &[number, batch]);
                longest = longest.max(took);
            }
            at += longest + 10.0;
            (0..=workers).for_each(|rank| self.bench.watermark(rank, at));
            self.reported(at);
            left -= chunk * workers;
            sizes.push(chunk);
        }
        self.bench.hit("end", 0, at + 10.0, 0.0, &[]);
        (0..=workers).for_each(|rank| self.bench.watermark(rank, at + 20.0));
        self.reported(at + 20.0);
        self.number += 1;
        (sizes, left)
    }

    fn reported(&mut self, at: f64) {
        for decision in self.bench.tick(at) {
            for (place, name) in ["F0", "F1", "F2"].into_iter().enumerate() {
                if let Some(value) = written(&decision, name) {
                    self.shares[place] = value;
                    self.writes.push((self.number, place, value));
                }
            }
        }
    }
}

#[test]
fn s1_4_2_1_the_batches_of_adjusting_factoring() {
    for (workers, tasks, mu, sigma, f_0, f_j, chunks, least, left) in FACTORS {
        // Half of the workers are below μ and half above; with an odd number, one is at μ.
        let half = f64::from(workers / 2 * 2);
        let away = sigma * (f64::from(workers) / half).sqrt();
        let time = |worker: u32| match worker % 2 {
            _ if worker == workers && workers % 2 == 1 => mu,
            0 => mu + away,
            _ => mu - away,
        };
        let mut farm = Farm::new((1..=workers).map(time).collect());
        let what = format!("S1 §9.1 N = {workers}, M = {tasks}, σ = {sigma}");
        // S1 §4.2.1 step 1: all batches of the first iteration take half of the remaining tasks.
        let (first, _) = farm.iteration(64 * workers, 1, 3);
        assert_eq!(first, [32, 16, 8], "{what}: {}", farm.bench.why());
        assert_eq!(
            farm.writes[..3],
            [(0, 0, 0.5), (0, 1, 0.5), (0, 2, 0.5)],
            "{what}"
        );
        let later: Vec<usize> = farm.writes[3..].iter().map(|(_, place, _)| *place).collect();
        assert!(!later.contains(&2), "{what}: F2 is kept in the first iteration");
        let (found, rest) = farm.iteration(tasks, least, 100);
        near!(farm.shares[0] => f_0, 6, "{what}");
        near!(farm.shares[1] => f_j, 6, "{what}");
        near!(farm.shares[2] => f_j, 6, "{what}");
        assert_eq!((found.as_slice(), rest), (chunks, left), "{what}");
    }
}

type Event = (&'static str, u32, f64, f64, Vec<f64>);

/// Two iterations with the events of S1 §9.1. Worker 1 has a second chunk of the batch, with half as many
/// tasks.
fn events() -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for number in 0..2_u32 {
        let start = 1000.0 + 2000.0 * f64::from(number);
        events.push(("begin", 0, start, 0.0, vec![number.into(), 4.0]));
        events.push(("batch", 0, start + 1.0, 0.0, vec![0.0, 5.0]));
        for (worker, took) in (1_u32..).zip([400.0, 500.0, 300.0, 600.0]) {
            let sent = start + 1.0 + f64::from(worker);
            events.push(("send", 0, sent, 0.0, vec![worker.into(), 0.0, 200.0]));
            events.push((
                "compute",
                worker,
                sent + 1.0 + took,
                took,
                vec![number.into(), 0.0],
            ));
        }
        events.push(("send", 0, start + 10.0, 0.0, vec![1.0, 0.0, 100.0]));
        events.push(("compute", 1, start + 700.0, 225.0, vec![number.into(), 0.0]));
        events.push(("end", 0, start + 900.0, 0.0, vec![]));
    }
    events
}

/// Values set to F0, F1 and F2 when the events are delivered in this order.
fn set_by(order: &[usize]) -> Vec<(String, f64)> {
    let events = events();
    let mut bench = Bench::new(shipped("adjusting-factoring"), 5).applying();
    let mut decided = bench.until(10.0);
    for place in order {
        let (probe, rank, end, took, reads) = &events[*place];
        bench.hit(probe, *rank, *end, *took, reads);
    }
    decided.extend(bench.until(10_000.0));
    let of = |name: &str| -> Vec<(String, f64)> {
        let values = decided.iter().filter_map(|decision| written(decision, name));
        values.map(|value| (name.to_string(), value)).collect()
    };
    [of("F0"), of("F1"), of("F2")].concat()
}

#[test]
fn s1_8_a_worker_with_two_chunks_of_a_batch_has_each_paired_with_its_send() {
    let order: Vec<usize> = (0..events().len()).collect();
    // C = 2.0, 2.5, 1.5, 3.0 and 2.25 ms; with wrong pairing worker 1 would have 4.0 and 1.125 ms.
    let squares: f64 = 2.0 * (0.25 * 0.25 + 0.75 * 0.75);
    let c = (squares / 5.0).sqrt() / 2.25 * 2.0_f64.sqrt();
    let set = set_by(&order);
    let last = |name: &str| set.iter().rfind(|(known, _)| known == name).unwrap().1;
    near!(last("F0") => 1.0 / (1.0 + c), 9, "S1 §8 erratum 9, F0");
    near!(last("F2") => 1.0 / (2.0 + c), 9, "S1 §8 erratum 9, F2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn s1_8_computations_that_arrive_before_their_sends_or_their_batch_change_nothing(
        order in Just((0..events().len()).collect::<Vec<usize>>()).prop_shuffle(),
    ) {
        // S1 §8 errata 10 and 11: events of master and workers arrive over different connections.
        let in_time: Vec<usize> = (0..order.len()).collect();
        prop_assert_eq!(set_by(&order), set_by(&in_time));
    }
}
