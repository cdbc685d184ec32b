//! Recordings made from the numbers of the works, one for each shipped model and metric. Has no tests itself.

use rules::Measure;

use crate::tape::Tape;

pub(crate) type Made = fn() -> Tape;

/// Every recording with the function that makes it.
pub(crate) const ALL: &[(&str, Made)] = &[
    ("optimal-workers", optimal_workers),
    ("workers-by-index", workers_by_index),
    ("adjusting-factoring", adjusting_factoring),
    ("balanced-workers", balanced_workers),
    ("factoring", factoring),
    ("halo-width", halo_width),
    ("cpu-shares", cpu_shares),
    ("scaling", scaling),
    ("speedup", speedup),
    ("threads", threads),
    ("network", network),
    ("iteration-time", iteration_time),
    ("barrier-imbalance", barrier_imbalance),
    ("communication-share", communication_share),
    ("efficiencies", efficiencies),
    ("loop-counter", loop_counter),
    ("mean-iteration-time", mean_iteration_time),
    ("send-volume", send_volume),
];

/// S0 §5.1 with tl = 10 ms, λV = 90 ms, Tc = 160 ms: iterations of 300 ms with eight workers, then of 265 ms
/// with five.
fn optimal_workers() -> Tape {
    let mut tape = Tape::new("optimal-workers", 9);
    for number in 1..=12_u32 {
        let (start, workers) = (f64::from(number) * 1000.0, if number < 7 { 8 } else { 5 });
        tape.hit("begin", 0, start, 0.0, &[number.into(), workers.into()]);
        for worker in 1..=workers {
            let sent = start + 10.0 * f64::from(worker);
            tape.hit("send", 0, sent, 10.0, &[1000.0]);
            let took = 160.0 / f64::from(workers);
            tape.hit("compute", worker, sent + 30.0 + took, took, &[number.into()]);
            // First send, latency of each worker, λV, computation of the last worker.
            let last = start + 10.0 + 10.0 * f64::from(workers) + 90.0 + took;
            let before = 3.0 * f64::from(workers - worker);
            tape.hit("reply", 0, last - before, 0.0, &[worker.into(), 100.0]);
        }
        tape.hit(
            "end",
            0,
            start + if workers == 8 { 300.0 } else { 265.0 },
            0.0,
            &[],
        );
        tape.until(start + 900.0);
    }
    tape
}

/// S1 §9.2, second row: V = 2 MB, α = 0.5, Tc = 500 ms, with eight active workers of 70.
fn workers_by_index() -> Tape {
    let mut tape = Tape::new("workers-by-index", 71);
    for number in 0..6_u32 {
        let start = f64::from(number) * 1000.0;
        tape.hit("begin", 0, start, 0.0, &[number.into(), 8.0, 100.0]);
        for worker in 1..=8_u32 {
            let at = start + f64::from(worker);
            tape.hit("send", 0, at, 0.0, &[1250.0]);
            tape.hit("compute", worker, at + 63.0, 62.5, &[number.into()]);
            tape.hit("receive", 0, at + 70.0, 0.0, &[1250.0]);
        }
        tape.hit("end", 0, start + 90.0, 0.0, &[]);
        tape.until(start + 900.0);
    }
    tape
}

/// Exchanges take 4 ms. Each rank has 64 cells of 1/32 ms, or of twice that in one of three ranks. With b
/// steps between two exchanges, a step takes T(b) = 4/b + (63 + b)/16 ms.
fn halo_width() -> Tape {
    let mut tape = Tape::new("halo-width", 3);
    let mut start = 0.0;
    for number in 1..=12_u32 {
        let width = if number < 7 { 1.0 } else { 8.0 };
        let longest = width * (63.0 + width) / 16.0;
        let end = start + 4.0 + longest;
        for rank in 0..3 {
            let took = if rank == 1 { longest } else { longest / 2.0 };
            let computing = end - took;
            tape.hit("begin", rank, start, 0.0, &[number.into()]);
            // The other ranks wait in the exchange for the slow one.
            tape.hit("exchange", rank, computing, computing - start, &[number.into()]);
            tape.hit("compute", rank, end, took, &[number.into(), width, 64.0]);
            tape.hit("end", rank, end, 0.0, &[]);
        }
        tape.until(end + 0.5);
        start = end + 1.0;
    }
    tape
}

/// S1 §9.1: four chunks of 200 tasks in 400, 500, 300 and 600 ms, iteration by iteration.
fn adjusting_factoring() -> Tape {
    let mut tape = Tape::new("adjusting-factoring", 5);
    tape.until(500.0);
    for number in 0..3_u32 {
        let start = f64::from(number + 1) * 1000.0;
        tape.hit("begin", 0, start, 0.0, &[number.into(), 4.0]);
        tape.hit("batch", 0, start + 1.0, 0.0, &[0.0, 4.0]);
        for (worker, took) in (1_u32..).zip([400.0, 500.0, 300.0, 600.0]) {
            let sent = start + 1.0 + f64::from(worker);
            tape.hit("send", 0, sent, 0.0, &[worker.into(), 0.0, 200.0]);
            tape.hit("compute", worker, sent + 1.0 + took, took, &[number.into(), 0.0]);
        }
        tape.until(start + 700.0);
        tape.hit("end", 0, start + 800.0, 0.0, &[]);
        tape.until(start + 900.0);
    }
    tape
}

/// S1 §5.4.3: four workers, tasks of 0.9 and 1.1 ms in two batches, and answers of 0.2 ms and 0.03 ms per task.
fn balanced_workers() -> Tape {
    let mut tape = Tape::new("balanced-workers", 5);
    for number in 0..8_u32 {
        let start = f64::from(number + 1) * 1000.0;
        tape.hit("begin", 0, start, 0.0, &[number.into(), 4.0]);
        for (batch, tasks, at) in [(1.0, 100.0, start + 1.0), (2.0, 50.0, start + 151.0)] {
            tape.hit("batch", 0, at, 0.0, &[batch, 4.0]);
            for (worker, time) in (1_u32..).zip([0.9, 1.1, 0.9, 1.1]) {
                let sent = at + f64::from(worker);
                tape.hit("send", 0, sent, 0.0, &[worker.into(), batch, tasks]);
                let (took, ended) = (time * tasks, sent + 1.0 + time * tasks);
                tape.hit("compute", worker, ended, took, &[number.into(), batch]);
                let answered = ended + 0.2 + 0.03 * tasks;
                tape.hit("receive", 0, answered, 0.0, &[worker.into(), batch, tasks]);
            }
            tape.until(at + 149.0);
        }
        tape.hit("end", 0, start + 400.0, 0.0, &[]);
        tape.until(start + 500.0);
    }
    tape
}

/// S0 §5.2, digest §3.6: 1000 tasks, eight workers with μ = 10 ms and σ = 2 ms; first four equal batches,
/// then those of the model.
fn factoring() -> Tape {
    let mut tape = Tape::new("factoring", 9);
    let batches: [&[u32]; 3] = [&[31, 31, 31, 32], MODEL, MODEL];
    for (number, sizes) in (1_u32..).zip(batches) {
        let start = f64::from(number) * 20_000.0;
        tape.hit("begin", 0, start, 0.0, &[number.into(), 1000.0, 8.0]);
        let mut at = start;
        let mut busy = [start; 8];
        for size in sizes {
            for ((worker, time), busy) in (1..).zip([8.0, 12.0].repeat(4)).zip(&mut busy) {
                at += 1.0;
                tape.hit("send", 0, at, 0.0, &[(*size).into(), (*size).into()]);
                let took = f64::from(*size) * time;
                *busy = busy.max(at) + took;
                tape.hit("work", worker, *busy, took, &[number.into(), (*size).into()]);
            }
            at += 200.0;
            tape.until(at);
        }
        tape.hit("end", 0, start + 18_000.0, 0.0, &[]);
        tape.until(start + 19_000.0);
    }
    tape
}

/// Chunk sizes of the model; the last batches are those below twice as many tasks as workers.
const MODEL: &[u32] = &[89, 15, 8, 5, 3, 2, 1, 1, 1];

/// S4 §4.2 of the digest: T(4) = 2 s with f = 0.1, then T(16) = 0.7 s.
fn speedup() -> Tape {
    let mut tape = Tape::new("speedup", 1);
    let parallel = 2000.0 * 0.9 / 1.3;
    let phases = [(2000.0 - parallel, parallel, 4_u32, 3), (300.0, 400.0, 16, 6)];
    let (mut at, mut number) = (1000.0, 0);
    for (sequential, parallel, threads, count) in phases {
        for _ in 0..count {
            tape.iteration(number, &mut at, (sequential, parallel, threads));
            number += 1;
        }
    }
    tape.loop_until(at + 1.0);
    tape
}

/// After 2 s the next size to measure is four, then two, and nothing is left after 8 s; the loss of two is beyond the
/// budget at first.
fn scaling() -> Tape {
    let mut tape = Tape::new("scaling", 1);
    for half in 0..24_u32 {
        let (size, loss) = match half {
            0..4 => (0.0, 0.0),
            4..8 => (4.0, 0.006),
            8..12 => (2.0, 0.012),
            12..16 => (2.0, 0.009),
            _ => (0.0, 0.008),
        };
        let at = 500.0 * f64::from(half);
        tape.gauge(Measure::ScalingVisit, 0, at - 1.0, size);
        tape.gauge(Measure::ScalingLoss, 0, at - 1.0, loss);
        tape.until(at);
    }
    tape
}

/// Two programs with eight threads, of which one scales. From the second quantum on they have what they are given.
fn cpu_shares() -> Tape {
    let mut tape = Tape::new("cpu-shares", 2);
    for half in 0..32_u32 {
        let at = 500.0 * f64::from(half);
        tape.measured(Measure::CpusFree, None, at - 1.0, 16.0);
        let sizes = if half < 12 { [8.0, 8.0] } else { [15.0, 1.0] };
        for (process, (size, serial)) in sizes.into_iter().zip([0.01, 0.95]).enumerate() {
            tape.gauge(Measure::ScalingThreads, process as u32, at - 1.0, size);
            tape.gauge(Measure::ScalingSerial, process as u32, at - 1.0, serial);
        }
        tape.until(at);
    }
    tape
}

/// Iterations take 20 ms with eight threads, 18 ms with four, and 16 ms with two.
fn threads() -> Tape {
    let mut tape = Tape::new("threads", 1);
    let mut at = 1000.0;
    for number in 0..120 {
        let times = match number / 40 {
            0 => (2.0, 18.0, 8),
            1 => (2.0, 16.0, 4),
            _ => (2.0, 14.0, 2),
        };
        tape.iteration(number, &mut at, times);
    }
    tape.loop_until(at + 1.0);
    tape
}

/// S1 §5.4.2.1: round trips of 2·0.2 ms, 8e-6 ms per byte, and the computation of the worker, with chunks of many
/// sizes. Both works require a refresh of these values but use constants.
fn network() -> Tape {
    let mut tape = Tape::new("network", 3);
    for number in 0..25_u32 {
        let start = f64::from(number) * 1000.0;
        tape.hit("begin", 0, start, 0.0, &[number.into(), 100.0]);
        for worker in 1..=2_u32 {
            let tasks = f64::from(100 + 37 * ((number * worker) % 11) + 500 * worker);
            let computed = 0.05 * tasks + f64::from(number % 7);
            let away = 2.0 * 0.2 + 8e-6 * (2.0 * tasks * 100.0);
            let sent = start + 10.0 * f64::from(worker);
            tape.hit("send", 0, sent, 0.0, &[worker.into(), tasks]);
            tape.hit(
                "compute",
                worker,
                sent + 0.3 + computed,
                computed,
                &[number.into(), tasks],
            );
            tape.hit("receive", 0, sent + away + computed, 0.0, &[worker.into(), tasks]);
        }
        tape.hit("end", 0, start + 200.0, 0.0, &[]);
        tape.until(start + 500.0);
    }
    tape
}

/// S0 Fig. 4.8: the instants i1 to i10.
fn iteration_time() -> Tape {
    let mut tape = Tape::new("iteration-time", 2);
    for number in 0..5_u32 {
        let start = f64::from(number) * 100.0;
        tape.hit("begin", 0, start + 1.0, 0.0, &[]);
        tape.hit("divide", 0, start + 11.0, 0.0, &[]);
        tape.hit("process", 0, start + 61.0, 45.0, &[]);
        tape.hit("process", 1, start + 71.0, 51.0, &[]);
        tape.hit("answer", 1, start + 77.0, 0.0, &[]);
        tape.hit("receive", 0, start + 81.0, 0.0, &[]);
        tape.hit("finalize", 0, start + 88.0, 7.0, &[]);
        tape.until(start + 90.0);
    }
    tape
}

/// S2 Fig. 6.10: three ranks in a loop of 50 ms; they wait 12, 4 and 20 ms at barriers.
fn barrier_imbalance() -> Tape {
    let mut tape = Tape::new("barrier-imbalance", 3);
    for vt in 1..=5_u32 {
        for (rank, wait) in (0..).zip([12.0, 4.0, 20.0]) {
            let start = f64::from(vt) * 100.0 + f64::from(rank);
            tape.hit("start", rank, start, 0.0, &[vt.into()]);
            tape.hit("barrier", rank, start + 49.0, wait, &[]);
            tape.hit("stop", rank, start + 50.0, 0.0, &[]);
            // A barrier outside the loop.
            tape.hit("barrier", rank, start + 80.0, 5.0, &[]);
        }
        tape.until(f64::from(vt) * 100.0 + 90.0);
    }
    tape
}

/// S2 Fig. 7.8: of 100 ms, both ranks send for 10 ms and rank 1 receives for 15 ms.
fn communication_share() -> Tape {
    let mut tape = Tape::new("communication-share", 2);
    for vt in 1..=5_u32 {
        for rank in 0..2_u32 {
            let begin = f64::from(vt) * 110.0 + f64::from(rank);
            tape.hit("begin", rank, begin, 0.0, &[vt.into()]);
            tape.hit("send", rank, begin + 30.0, 10.0, &[]);
            tape.hit("receive", rank, begin + 60.0, 15.0 * f64::from(rank), &[]);
            tape.hit("end", rank, begin + 100.0, 0.0, &[]);
        }
        tape.until(f64::from(vt) * 110.0 + 105.0);
    }
    tape
}

/// POP: four ranks in iterations of 120 ms, of which they are in MPI for 40, 60, 20 and 80 ms.
fn efficiencies() -> Tape {
    let mut tape = Tape::new("efficiencies", 4);
    for number in 0..6_u32 {
        let start = f64::from(number) * 130.0;
        for (rank, in_mpi) in (0..).zip([40.0, 60.0, 20.0, 80.0]) {
            tape.hit("begin", rank, start, 0.0, &[number.into()]);
            tape.hit("calls", rank, start + 119.0, in_mpi, &[]);
            tape.hit("step", rank, start + 120.0, 120.0, &[number.into()]);
        }
        tape.until(start + 125.0);
    }
    tape
}

/// S2 §7.2: 400 events per second from one rank.
fn loop_counter() -> Tape {
    let mut tape = Tape::new("loop-counter", 3);
    for second in 0..=3_u32 {
        for (rank, each) in (0..).zip([400, 0, 20]) {
            tape.totals(
                "iteration",
                rank,
                f64::from(second) * 1000.0,
                u64::from(second) * each,
                0.0,
            );
        }
        tape.until(f64::from(second) * 1000.0);
    }
    tape
}

/// S2 Fig. 7.6: rank 0 takes 20, 15, 25 and 25 ms, rank 1 28, 25, 15 and 19 ms.
fn mean_iteration_time() -> Tape {
    let mut tape = Tape::new("mean-iteration-time", 2);
    for (vt, of_ranks) in (1_u32..).zip([[20.0, 28.0], [15.0, 25.0], [25.0, 15.0], [25.0, 19.0]]) {
        let begin = f64::from(vt) * 40.0;
        for (rank, took) in (0..).zip(of_ranks) {
            tape.hit("begin", rank, begin, 0.0, &[vt.into()]);
            tape.hit("end", rank, begin + took, 0.0, &[]);
        }
        tape.until(begin + 35.0);
    }
    tape
}

/// S2 Fig. 6.6: in interaction vt rank r sends vt·(r+1) and twice as many items of 8 bytes.
fn send_volume() -> Tape {
    let mut tape = Tape::new("send-volume", 3);
    for vt in 1..=3_u32 {
        for rank in 0..3_u32 {
            let at = f64::from(vt) * 100.0 + f64::from(rank);
            tape.hit("begin", rank, at, 0.0, &[vt.into()]);
            for message in 1..=2_u32 {
                let items = vt * (rank + 1) * message;
                tape.hit("send", rank, at + f64::from(message), 0.0, &[items.into()]);
            }
            tape.hit("end", rank, at + 10.0, 0.0, &[]);
            // A send between two interactions.
            tape.hit("send", rank, at + 20.0, 0.0, &[1000.0]);
        }
        tape.until(f64::from(vt) * 100.0 + 50.0);
    }
    tape
}
