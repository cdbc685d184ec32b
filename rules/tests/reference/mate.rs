//! S0, the MATE thesis (2007): performance indices, the iteration of two processes, model A (number of workers), model
//! B (factoring), and what its tables give.

use crate::bench::{Bench, formulas, last_of, near, shipped, table, written};

#[test]
fn s0_1_2_performance_indices() {
    let given = ["T1: 120s", "Tn: 20s", "n: 8", "f: 10%"];
    table(
        &given,
        &[
            ("S0 §1.2 speedup S(n) = T(1)/T(n)", "T1 / Tn", 6.0, 9),
            (
                "S0 §1.2 efficiency S(n)/n, percent",
                "100 * T1 / (Tn * n)",
                75.0,
                9,
            ),
            (
                "S0 §1.2 parallel time f·T(1) + (1-f)·T(1)/n",
                "(f * T1 + (1 - f) * T1 / n) / 1s",
                25.5,
                9,
            ),
            (
                "S0 §1.2 Amdahl T(1)/(T_S + T_P/n)",
                "T1 / (f * T1 + (1 - f) * T1 / n)",
                4.705_882,
                6,
            ),
            (
                "S0 §1.2 Amdahl's limit 1/f, approached",
                "T1 / (f * T1 + (1 - f) * T1 / 10 ^ 12)",
                10.0,
                6,
            ),
            ("S0 §1.2 Gustafson n + (1-n)·f", "n + (1 - n) * f", 7.3, 9),
            // The same from the times of the parallel run, f of which is sequential: printed with slips of the sign.
            (
                "S0 §1.2 Gustafson (f·t + n·(1-f)·t)/t",
                "(f * Tn + n * (1 - f) * Tn) / Tn",
                7.3,
                9,
            ),
        ],
    );
    assert!(last_of(&["n: 8", "f: 10%", "printed: n - (1 - n) * f"]) != 7.3);
}

/// The instants i1 to i10 of Fig. 4.8, ms: i2 ends Initialize, i5 begins Process in the second process, i6 ends it in the
/// first.
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
        near(shut.value(metric) * 1e3, ms, 6, &format!("S0 §4.4 {metric}"));
    }
    // By the conditions of Fig. 4.10 a send ends before every Process begins: the second process' answer is left out,
    // and the parts do not add up to the iteration.
    let printed = shut.value("T_Comp") * 1e3 + (i4 - i3) + (i9 - i8);
    near(i10 - i1 - printed, i8 - i7, 6, "S0 Fig. 4.10");
}

/// One iteration of the farm of `optimal-workers`: Tc as told, spread over the workers, λV and the latency as told.
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
    // S0 §5.1, Nopt = sqrt((λV + Tc)/tl) with λV = 10 ms and Tc = 60 s: the values for four latencies, which the digest
    // rounds now up, now down.
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
    // App. B takes the master's own number for the worker that answered last: it has no computation.
    let printed = shipped("optimal-workers").replace("busy[last(reply.from)]", "busy[last(reply.process)]");
    let mut bench = Bench::new(&printed, 9);
    farmed(&mut bench, 8, 10.0, 90.0, 160.0);
    assert!(bench.shut()[0].told("t_comm").starts_with("none"));

    // Nor does the order matter in which the last receive and its sender are looked at: both are of the latest reply.
    let mut bench = Bench::new(shipped("optimal-workers"), 9);
    farmed(&mut bench, 8, 10.0, 90.0, 160.0);
    let shut = bench.shut().remove(0);
    near(
        shut.value("t_comm") * 1e3,
        90.0,
        6,
        "S0 §5.1.4 communication time",
    );
    // §5.1.4 prints the difference with the other sign.
    assert!(shut.value("t_comm") > 0.0);
    // λ as coded divides by all that was sent and a mean answer, and is then multiplied by all that was sent and received.
    let coded = [
        "vi: 8000B",
        "vm: 800B",
        "n: 8",
        "lambda: 90ms / (vi + vm / n)",
        "x: lambda * (vi + vm)",
    ];
    assert!(last_of(&coded) > 0.0977);
    near(
        shut.value("lambda") * shut.value("V") * 1e3,
        90.0,
        6,
        "S0 §5.1.1 λV",
    );

    // Two sends to one worker count twice, where the listing keeps the last.
    let mut bench = Bench::new(shipped("optimal-workers"), 3);
    bench.hit("send", 0, 150.0, 1.0, &[500.0]);
    farmed(&mut bench, 2, 10.0, 90.0, 160.0);
    near(bench.shut()[0].value("V"), 2500.0 + 200.0, 6, "S0 §5.1.1 V");

    // Less time between first send and last reply than the worker computed: λ is 0, never negative, and there is a worker.
    let mut bench = Bench::new(shipped("optimal-workers"), 3);
    farmed(&mut bench, 2, 10.0, -50.0, 160.0);
    let shut = bench.shut().remove(0);
    assert!(shut.value("t_comm") < 0.0);
    assert_eq!((shut.value("lambda"), shut.value("best")), (0.0, 2.0));
}

#[test]
fn s0_5_1_the_tool_acts_when_the_optimum_is_more_than_two_away() {
    for (n, best, acts) in [(10, 12, 0.0), (10, 13, 1.0), (10, 8, 0.0), (10, 7, 1.0)] {
        let act = last_of(&[&format!("act: abs({best} - {n}) > 2")]);
        assert_eq!(act, acts, "S0 §5.1 |Nopt - n| > 2 with {best} for {n}");
    }
}

#[test]
fn s0_5_1_an_iteration_is_complete_whatever_order_its_parts_arrive_in() {
    // App. B computes the communication time when the iteration ends; the last worker's computation may be known later.
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
    near(bench.shut()[0].value("t_comm") * 1e3, 10.0, 6, "S0 §5.1.4");
}

#[test]
fn s0_5_2_factors_of_factoring_and_the_errors_of_the_listing() {
    let given = ["N: 1000", "P: 8", "mu: 10ms", "sigma: 2ms"];
    table(
        &given,
        &[
            (
                "S0 §5.2 x_0 = (μ + σ·sqrt(P/2))/μ",
                "(mu + sigma * sqrt(P / 2)) / mu",
                1.4,
                9,
            ),
            (
                "S0 §5.2 x_i = (2μ + σ·sqrt(P/2))/μ",
                "(2 * mu + sigma * sqrt(P / 2)) / mu",
                2.4,
                9,
            ),
            ("S0 §5.2 F_0 = N/(x_0·P)", "floor(N / (1.4 * P))", 89.0, 9),
            (
                "S0 §5.2 F_1 = R_1/(x_1·P)",
                "floor((N - 89 * P) / (2.4 * P))",
                15.0,
                9,
            ),
            (
                "S0 §5.2 σ = 0: all at once, F_0 = N/P",
                "N / ((mu + 0ms) / mu * P)",
                125.0,
                9,
            ),
            // App. C multiplies by P where it must divide, with σ = 0.
            ("S0 App. C as printed: N/x*P", "N / 1 * P", 8000.0, 9),
            ("S0 App. C as printed: R", "N - N / 1 * P * P", -63_000.0, 9),
            // ... and takes 1/N and P/2 of whole numbers: σ is 0 whatever was measured, and so x_0 is 1.
            (
                "S0 App. C as printed: sqrt(1/N·sumMC)",
                "sqrt(floor(1 / N) * 1234)",
                0.0,
                9,
            ),
            ("S0 App. C as printed: P/2 of 25", "floor(25 / 2)", 12.0, 9),
            ("S0 §5.2 P/2 of 25", "25 / 2", 12.5, 9),
        ],
    );
}

/// A master that hands out its tasks in chunks of the size that the rule sets, and workers of these task times (ms).
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

    /// An iteration of so many tasks: the chunks of its batches that were whole, and what was left behind the last of them
    /// of more than twice as many tasks as workers.
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
            // Nobody has to be finished for it: what workers compute is still to come.
            self.told(at);
            chunk = self.chunk as u32;
        }
        self.bench.hit("end", 0, start + 900_000.0, 0.0, &[]);
        self.told(start + 950_000.0);
        (sizes, left)
    }

    fn told(&mut self, at: f64) {
        for decision in self.bench.until(at) {
            self.first = written(&decision, "globalSizeFirst").unwrap_or(self.first);
            self.chunk = written(&decision, "globalSizeChunk").unwrap_or(self.chunk);
        }
    }
}

#[test]
fn s0_5_2_the_batches_of_factoring() {
    // S0 §5.2 with the errors of App. C put right (digest §3.6): tasks, task times of the workers with their μ = 10 ms and σ, chunks of
    // each batch, what is left behind them.
    let even = |sigma: f64| [10.0 - sigma, 10.0 + sigma].repeat(4);
    // 20 workers of 5 ms and five of 30: μ = 10, σ = 10.
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
        // The first iteration that knows the workers' speeds has the factors of the model, but for its first chunk, which was
        // computed for the tasks of the iteration before.
        farm.iteration(tasks);
        let (found, rest) = farm.iteration(tasks);
        let what = format!("S0 §5.2 {tasks} tasks, {workers} workers: {}", farm.bench.why());
        assert_eq!(found[..sizes.len()], *sizes, "{what}");
        let handed_out: u32 = found[..sizes.len()].iter().sum::<u32>() * workers;
        assert_eq!(tasks - handed_out, left, "{what}");
        // App. C ends after ten batches, however much is left; there are more here.
        assert!(rest <= 2 * workers, "{what}: {found:?}, {rest}");
    }
}

#[test]
fn s0_5_2_1_factoring_follows_the_number_of_workers() {
    // μ = 10 ms and σ = 2 ms of eight workers; then four of them are in use: x_i = 2 + 0.2·sqrt(4/2).
    let mut farm = Farm::new([8.0, 12.0].repeat(4));
    farm.iteration(1000);
    farm.iteration(1000);
    farm.times.truncate(4);
    let (found, _) = farm.iteration(1000);
    let x_i = last_of(&["x: factoring_x(1, 10ms, 2ms, 4)"]);
    near(x_i, 2.282_843, 6, "S0 §5.2 x_i of four workers");
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

#[test]
fn s0_3_1_3_table_3_1_the_cost_of_one_analyzer_and_of_several() {
    let given = [
        "iteration: 672.5ms",
        "one_iter: 2199.1ms",
        "one_upd: 19.7286ms",
        "one_eval: 3.27ms",
        "one_tun: 0.2187ms",
        "some_iter: 680.1ms",
        "some_upd: 0.2535ms",
        "some_eval: 2.6ms",
        "some_tun: 0.2212ms",
        "one: one_upd + one_eval + one_tun",
        "some: some_upd + some_eval + some_tun",
    ];
    table(
        &given,
        &[
            (
                "S0 Table 3.1 T_Upd, percent",
                "100 * (some_upd - one_upd) / one_upd",
                -98.715,
                3,
            ),
            (
                "S0 Table 3.1 T_Eval, percent",
                "100 * (some_eval - one_eval) / one_eval",
                -20.489,
                3,
            ),
            (
                "S0 Table 3.1 T_Iter, percent",
                "100 * (some_iter - one_iter) / one_iter",
                -69.07,
                2,
            ),
            (
                "S0 Table 3.1 lag of one, ms",
                "(one_iter - iteration) / 1ms",
                1526.6,
                6,
            ),
            (
                "S0 Table 3.1 lag of several, ms",
                "(some_iter - iteration) / 1ms",
                7.6,
                6,
            ),
            ("S0 Table 3.1 reaction of one, ms", "one / 1ms", 23.217, 3),
            ("S0 Table 3.1 reaction of several, ms", "some / 1ms", 3.075, 3),
            ("S0 Table 3.1 how much faster", "one / some", 7.55, 2),
            (
                "S0 Table 3.1 one, in real iterations",
                "one_iter / iteration",
                3.27,
                2,
            ),
        ],
    );
}

#[test]
fn s0_3_2_1_the_tools_own_cost_is_that_of_probes_events_and_actions() {
    // S0 §3.2.1, Table 3.2: T = T_Instr + T_Mon + T_Tun, T_Mon the sum of cost × occurrences; here six kinds of events, 60
    // iterations of each, a variable written in each.
    let given = ["probe: 0.284ms", "event: 0.844ms", "write: 1.1858ms"];
    table(
        &given,
        &[
            ("S0 §3.2.1 T_Instr, ms", "6 * probe / 1ms", 1.704, 6),
            (
                "S0 §3.2.1 T_Mon, ms",
                "sum(event * 60 for kind in 1 to 6) / 1ms",
                303.84,
                6,
            ),
            (
                "S0 §3.2.1 T, ms",
                "(6 * probe + 6 * 60 * event + 60 * write) / 1ms",
                376.692,
                6,
            ),
            // The text calls an event's cost "of the order of microseconds".
            ("S0 §3.2.1 an event, us", "event / 1us", 844.0, 6),
        ],
    );
}

#[test]
fn s0_5_1_6_and_5_2_6_tables_5_3_and_5_6_are_in_minutes_and_seconds() {
    let tuned = last_of(&[
        "fixed: 2min + 18s",
        "tuned: 1min + 42s",
        "gain: 100 * (fixed - tuned) / fixed",
    ]);
    near(tuned, 26.1, 1, "S0 Table 5.3, 8 workers");
    // Read as decimal minutes it is farther from the text's "about 30 %" on the other side.
    near(
        last_of(&["gain: 100 * (2.18 - 1.42) / 2.18"]),
        34.9,
        1,
        "S0 Table 5.3, decimal",
    );

    // S0 Table 5.6: dedicated, with load, with load and tuned (minutes, seconds); by how many percent tuning shortens the
    // loaded run, and by how many it is longer than the dedicated one.
    let rows = [
        (2, (5, 46), (7, 42), (6, 1), 21.9, 4.3),
        (4, (3, 38), (4, 6), (3, 41), 10.2, 1.4),
        (8, (1, 48), (2, 18), (1, 51), 19.6, 2.8),
        (16, (2, 31), (2, 58), (2, 48), 5.6, 11.3),
        (25, (2, 37), (3, 34), (2, 52), 19.6, 9.6),
    ];
    for (workers, dedicated, loaded, tuned, shorter, longer) in rows {
        let time = |name: &str, (minutes, seconds): (u32, u32)| format!("{name}: {minutes}min + {seconds}s");
        let lines = [
            time("dedicated", dedicated),
            time("loaded", loaded),
            time("tuned", tuned),
        ];
        let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        lines.push("shorter: 100 * (loaded - tuned) / loaded");
        lines.push("longer: 100 * (tuned - dedicated) / dedicated");
        let shut = formulas(&lines);
        let what = format!("S0 Table 5.6, {workers} workers");
        near(shut.value("shorter"), shorter, 1, &what);
        near(shut.value("longer"), longer, 1, &what);
    }
    let peak = last_of(&["speedup: (10min + 14s) / (1min + 48s)"]);
    near(peak, 5.69, 2, "S0 Table 5.6, speedup of 8 workers");
}
