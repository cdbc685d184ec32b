//! S0, the MATE thesis (2007): the iteration of two processes, model A (number of workers), model B
//! (factoring).

use crate::bench::{Bench, shipped, written};

/// The instants i1 to i10 of Fig. 4.8, ms: i2 ends Initialize, i5 begins Process in the second process, i6
/// ends it in the first.
const INSTANTS: [f64; 10] = [
    100.0, 103.0, 110.0, 115.0, 119.0, 160.0, 170.0, 176.0, 180.0, 187.0,
];

#[test]
fn s0_4_4_the_parts_of_an_iteration_of_two_processes_add_up_to_it() {
    let [i1, _, i3, i4, i5, i6, i7, i8, i9, i10] = INSTANTS;
    let mut bench = Bench::new(shipped("iteration-time"), 2);
    bench.hit("begin", 0, i1, 0.0, &[]);
    bench.hit("divide", 0, i3, 0.0, &[]);
    bench.hit("process", 0, i6, i6 - i4, &[]);
    bench.hit("process", 1, i7, i7 - i5, &[]);
    bench.hit("answer", 1, i8, 0.0, &[]);
    bench.hit("receive", 0, i9, 0.0, &[]);
    bench.hit("finalize", 0, i10, i10 - i9, &[]);
    bench.hit("end", 0, i10, 0.0, &[]);
    bench.until(300.0);
    let shut = bench.shut().remove(0);
    let parts = [
        ("T_Ini", i3 - i1),
        ("T_Proc", i7 - i4),
        ("T_Fin", i10 - i9),
        ("T_Send", (i4 - i3) + (i8 - i7)),
        ("T_Recv", i9 - i8),
        ("T_Comp", 72.0),
        ("T_Comm", 15.0),
        ("T_Ex", i10 - i1),
    ];
    for (metric, ms) in parts {
        near!(shut.value(metric) * 1e3 => ms, 6, "S0 §4.4 {metric}");
    }
    // By the conditions of Fig. 4.10 a send ends before every begin of Process. They omit the second
    // process's answer, so the parts do not add up to the iteration.
    let printed = shut.value("T_Comp") * 1e3 + (i4 - i3) + (i9 - i8);
    near!(i10 - i1 - printed => i8 - i7, 6, "S0 Fig. 4.10");
}

/// One iteration of the farm of `optimal-workers`, with this latency, λV, and Tc distributed over the
/// workers.
fn farmed(bench: &mut Bench, workers: u32, tl: f64, lambda_v: f64, tc: f64) {
    let share = tc / f64::from(workers);
    bench.hit("begin", 0, 100.0, 0.0, &[1.0, workers.into()]);
    let mut sent = 100.0;
    for _ in 0..workers {
        sent += tl;
        bench.hit("send", 0, sent, tl, &[1000.0]);
    }
    let last = 100.0 + tl + lambda_v + share + f64::from(workers) * tl;
    for worker in 1..=workers {
        bench.hit("compute", worker, 150.0 + share, share, &[1.0]);
        let before = f64::from(workers - worker) * 0.001;
        bench.hit("reply", 0, last - before, 0.0, &[worker.into(), 100.0]);
    }
    bench.hit("end", 0, last + 100.0, 0.0, &[]);
    bench.until(last + 100_000.0);
}

#[test]
fn s0_5_1_the_number_of_workers_follows_the_latency_as_the_closed_form_says() {
    // S0 §5.1, Nopt = sqrt((λV + Tc)/tl) with λV = 10 ms and Tc = 60 s, for four latencies. The digest rounds
    // inconsistently.
    for (tl, printed) in [(0.05, 1095.0), (0.1, 775.0), (1.0, 245.0), (1000.0, 7.7)] {
        let closed = "metrics:\n  closed: sqrt((lambda * V + Tc) / latency)\n";
        let source = shipped("optimal-workers").replacen("metrics:\n", closed, 1);
        let mut bench = Bench::with(&source, &[("max_workers", "2000")], 3);
        farmed(&mut bench, 2, tl, 10.0, 60_000.0);
        let shut = bench.shut().remove(0);
        let (closed, best) = (shut.value("closed"), shut.value("best"));
        assert!((closed - printed).abs() < 1.0, "S0 §5.1, tl = {tl} ms: {closed}");
        assert!(best == closed.floor() || best == closed.ceil(), "{best} {closed}");
    }
}

#[test]
fn s0_5_1_errata_of_the_listing() {
    // Erratum: App. B uses the master's own number for the worker that answered last, and the master has no
    // computation.
    let printed = shipped("optimal-workers").replace("busy[last(reply.from)]", "busy[last(reply.process)]");
    let mut bench = Bench::new(&printed, 9);
    farmed(&mut bench, 8, 10.0, 90.0, 160.0);
    assert!(bench.shut()[0].reported("t_comm").starts_with("none"));

    // The order in which the last receive and its sender are evaluated does not matter: both belong to the
    // latest reply.
    let mut bench = Bench::new(shipped("optimal-workers"), 9);
    farmed(&mut bench, 8, 10.0, 90.0, 160.0);
    let shut = bench.shut().remove(0);
    near!(shut.value("t_comm") * 1e3 => 90.0, 6, "S0 §5.1.4 communication time");
    // Erratum: §5.1.4 prints the difference with the opposite sign.
    assert!(shut.value("t_comm") > 0.0);
    // Erratum: the listing divides λ by all sent data and a mean answer, but multiplies it by all sent and
    // received data, which turns 90 ms into 90 · 8800/8100.
    near!(shut.value("lambda") * shut.value("V") * 1e3 => 90.0, 6, "S0 §5.1.1 λV");

    // Two sends to one worker are summed; the listing keeps only the last.
    let mut bench = Bench::new(shipped("optimal-workers"), 3);
    bench.hit("send", 0, 150.0, 1.0, &[500.0]);
    farmed(&mut bench, 2, 10.0, 90.0, 160.0);
    near!(bench.shut()[0].value("V") => 2500.0 + 200.0, 6, "S0 §5.1.1 V");

    // If the time between first send and last reply is shorter than the worker's computation, λ is 0, never
    // negative, and at least one worker is used.
    let mut bench = Bench::new(shipped("optimal-workers"), 3);
    farmed(&mut bench, 2, 10.0, -50.0, 160.0);
    let shut = bench.shut().remove(0);
    assert!(shut.value("t_comm") < 0.0);
    assert_eq!((shut.value("lambda"), shut.value("best")), (0.0, 2.0));
}

#[test]
fn s0_5_1_an_iteration_is_complete_whatever_order_its_parts_arrive_in() {
    // App. B computes the communication time at the end of the iteration, but the last worker's computation
    // may arrive later.
    let mut bench = Bench::new(shipped("optimal-workers"), 2);
    bench.hit("end", 0, 400.0, 0.0, &[]);
    bench.hit("reply", 0, 290.0, 0.0, &[1.0, 100.0]);
    bench.hit("send", 0, 110.0, 10.0, &[1000.0]);
    bench.hit("begin", 0, 100.0, 0.0, &[1.0, 1.0]);
    bench.watermark(0, 1000.0);
    bench.tick(1000.0);
    assert!(
        bench.shut().is_empty(),
        "the worker may still have computed in it"
    );
    bench.hit("compute", 1, 280.0, 160.0, &[1.0]);
    bench.watermark(1, 1000.0);
    bench.tick(1001.0);
    near!(bench.shut()[0].value("t_comm") * 1e3 => 10.0, 6, "S0 §5.1.4");
}

/// A master that distributes its tasks in chunks of the size set by the rule, and workers with these times
/// per task (ms).
struct Farm {
    bench: Bench,
    times: Vec<f64>,
    number: u32,
    first: f64,
    chunk: f64,
}

impl Farm {
    fn new(times: Vec<f64>) -> Farm {
        Farm {
            bench: Bench::new(shipped("factoring"), times.len() as u32 + 1).applying(),
            times,
            number: 0,
            first: 1.0,
            chunk: 1.0,
        }
    }

    /// Runs an iteration with this number of tasks. Returns the chunk sizes of its complete batches, and the
    /// number of tasks after the last of them.
    fn iteration(&mut self, tasks: u32) -> (Vec<u32>, u32) {
        let workers = self.times.len() as u32;
        let start = 1000.0 + f64::from(self.number) * 1e6;
        let (mut at, mut left, mut sizes) = (start + 1.0, tasks, Vec::new());
        self.number += 1;
        let number = f64::from(self.number);
        self.bench
            .hit("begin", 0, start, 0.0, &[number, tasks.into(), workers.into()]);
        let mut chunk = self.first as u32;
        let mut busy = vec![start; self.times.len()];
        while left > 2 * workers && left >= chunk * workers {
            for (worker, (time, busy)) in (1..).zip(self.times.iter().zip(&mut busy)) {
                at += 0.25;
                self.bench.hit("send", 0, at, 0.0, &[chunk.into(), chunk.into()]);
                let took = f64::from(chunk) * time;
                *busy = busy.max(at) + took;
                self.bench
                    .hit("work", worker, *busy, took, &[number, chunk.into()]);
            }
            left -= chunk * workers;
            sizes.push(chunk);
            at += 1.0;
            // The rule may decide before the workers have finished.
            self.reported(at);
            chunk = self.chunk as u32;
        }
        self.bench.hit("end", 0, start + 900_000.0, 0.0, &[]);
        self.reported(start + 950_000.0);
        (sizes, left)
    }

    fn reported(&mut self, at: f64) {
        for decision in self.bench.until(at) {
            self.first = written(&decision, "globalSizeFirst").unwrap_or(self.first);
            self.chunk = written(&decision, "globalSizeChunk").unwrap_or(self.chunk);
        }
    }
}

#[test]
fn s0_5_2_the_batches_of_factoring() {
    // S0 §5.2 with the errors of App. C corrected (digest §3.6): tasks, times per task of the workers with μ
    // = 10 ms and this σ, chunk size of each batch, remaining tasks.
    let even = |sigma: f64| [10.0 - sigma, 10.0 + sigma].repeat(4);
    // 20 workers with 5 ms and five with 30 ms: μ = 10, σ = 10.
    let uneven = [vec![5.0; 20], vec![30.0; 5]].concat();
    let vectors: [(u32, Vec<f64>, &[u32], u32); 4] = [
        (1000, even(0.0), &[125], 0),
        (1000, even(2.0), &[89, 15, 8, 5, 3, 2, 1], 16),
        (1000, even(5.0), &[62, 21, 14, 9, 6, 4, 3, 2, 1, 1], 16),
        (10_000, uneven, &[88, 56, 46, 37, 31, 25, 21, 17, 14, 11], 1350),
    ];
    for (tasks, times, sizes, left) in vectors {
        let workers = times.len() as u32;
        let mut farm = Farm::new(times);
        farm.iteration(4 * workers);
        // In this iteration the workers' speeds are known for the first time. Its first chunk was computed
        // for the tasks of the previous iteration.
        farm.iteration(tasks);
        let (found, rest) = farm.iteration(tasks);
        let what = format!("S0 §5.2 {tasks} tasks, {workers} workers: {}", farm.bench.why());
        assert_eq!(found[..sizes.len()], *sizes, "{what}");
        let handed_out: u32 = found[..sizes.len()].iter().sum::<u32>() * workers;
        assert_eq!(tasks - handed_out, left, "{what}");
        // App. C stops after ten batches with tasks remaining; here more batches follow.
        assert!(rest <= 2 * workers, "{what}: {found:?}, {rest}");
    }
}

#[test]
fn s0_5_2_1_factoring_follows_the_number_of_workers() {
    // μ = 10 ms and σ = 2 ms of eight workers; then four of them are active: x_i = 2 + 0.2·sqrt(4/2).
    let mut farm = Farm::new([8.0, 12.0].repeat(4));
    farm.iteration(1000);
    farm.iteration(1000);
    farm.times.truncate(4);
    let (found, _) = farm.iteration(1000);
    let x_i = 2.0 + 0.2 * 2.0_f64.sqrt();
    assert_eq!(found[0], 89, "the first chunk is that of eight");
    assert_eq!(
        f64::from(found[1]),
        (f64::from(1000 - 89 * 4) / (x_i * 4.0)).floor()
    );
    assert_eq!(
        farm.first,
        (1000.0 / ((x_i - 1.0) * 4.0)).floor(),
        "S0 §5.2 F_0 of four workers"
    );
}
