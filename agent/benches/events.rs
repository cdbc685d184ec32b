//! A synthetic producer writes hits at a given rate into the ring of a session. Run by `cargo xtask bench
//! events` and `bench scale`, which compute the results; this program prints its measurements as a line of
//! JSON.
//!
//!   events session PID PRODUCERS RATE SECONDS   into the ring of this agent
//!   events bare PRODUCERS RATE SECONDS          into an own ring, with a thread that only reads hits from it
//!   events position PID                         bytes written so far to its ring (the lowest 32 bits)
//!
//! RATE is in hits per second of all producers together; with 0 each produces as fast as it can.
#![expect(clippy::unwrap_used, reason = "a benchmark says what went wrong by panicking")]

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use probe::kernel::{Kernel, LoadOptions, Producer, read_hit};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    time::{ClockId, clock_gettime},
};
use serde_json::{Value, json};

/// Maximum number of hits per run of the producing BPF program, which takes about 0.1 ms and blocks its CPU.
const BATCH: u64 = 1024;

/// Sleep of a producer that is ahead of the rate.
const PAUSE: Duration = Duration::from_micros(200);

/// Settings of the producers.
#[derive(Clone, Copy)]
struct Requested {
    producers: u32,
    rate: f64,
    time: Duration,
}

impl Requested {
    fn parse(words: &[String]) -> Requested {
        let number = |index: usize| words[index].parse::<f64>().unwrap();
        Requested {
            producers: number(0) as u32,
            rate: number(1),
            time: Duration::from_secs_f64(number(2)),
        }
    }
}

/// CPU time of this thread in seconds.
fn thread_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs one producer. Returns its number of hits and its CPU time.
fn produce(producer: &Producer, number: u32, requested: Requested) -> (u64, f64) {
    let (began, mut made) = (Instant::now(), 0);
    let rate = requested.rate / f64::from(requested.producers);
    loop {
        let elapsed = began.elapsed().min(requested.time);
        let due = match requested.rate > 0.0 {
            true => (rate * elapsed.as_secs_f64()) as u64,
            false => made + BATCH,
        };
        let is_over = elapsed == requested.time;
        if due == made || is_over && requested.rate == 0.0 {
            if is_over {
                return (made, thread_s());
            }
            thread::sleep(PAUSE);
            continue;
        }
        let count = (due - made).min(BATCH);
        producer.produce(made, count as u32, number).unwrap();
        made += count;
    }
}

fn produce_all(producer: &Producer, requested: Requested) -> Value {
    let began = Instant::now();
    let parts: Vec<(u64, f64)> = thread::scope(|scope| {
        let start = |number| scope.spawn(move || produce(producer, number, requested));
        let threads: Vec<_> = (0..requested.producers).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    json!({
        "made": parts.iter().map(|(made, _)| made).sum::<u64>(),
        "seconds": began.elapsed().as_secs_f64(),
        "producers_cpu_s": parts.iter().map(|(_, cpu_s)| cpu_s).sum::<f64>(),
    })
}

/// The same with a reader that only removes hits, which shows the throughput of the ring itself.
fn bare(requested: Requested) -> Value {
    let mut kernel = Kernel::load(LoadOptions::ONE_PROBE).unwrap();
    let producer = Producer::of(&kernel).unwrap();
    let mut ring = kernel.take_hits().unwrap();
    let over = AtomicBool::new(false);
    let (mut made, read, reader_cpu_s) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut read, mut newest) = (0_u64, 0);
            loop {
                // Read before the ring, so that all hits produced before the end are found.
                let is_over = over.load(Ordering::Acquire);
                while let Some(item) = ring.take() {
                    newest = newest.max(read_hit(item).unwrap().time_ns);
                    read += 1;
                }
                if is_over {
                    std::hint::black_box(newest);
                    return (read, thread_s());
                }
                let tenth = Timespec {
                    tv_sec: 0,
                    tv_nsec: 100_000_000,
                };
                poll(&mut [PollFd::new(&ring, PollFlags::IN)], Some(&tenth)).unwrap();
            }
        });
        let made = produce_all(&producer, requested);
        over.store(true, Ordering::Release);
        let (read, cpu_s) = reader.join().unwrap();
        (made, read, cpu_s)
    });
    let losses = kernel.losses();
    made["read"] = read.into();
    made["reader_cpu_s"] = reader_cpu_s.into();
    made["lost"] = losses.iter().map(|(_, count)| count).sum::<u64>().into();
    made
}

fn main() {
    let words: Vec<String> = std::env::args()
        .filter(|word| word != "--bench")
        .skip(1)
        .collect();
    let of_session = |pid: &String| Producer::of_session(pid.parse().unwrap()).unwrap();
    let reported = match (words.first().map(String::as_str), words.len()) {
        (Some("session"), 5) => produce_all(&of_session(&words[1]), Requested::parse(&words[2..])),
        (Some("bare"), 4) => bare(Requested::parse(&words[1..])),
        (Some("position"), 2) => json!({"position": of_session(&words[1]).position().unwrap()}),
        _ => {
            eprintln!("cargo xtask bench events says what it is to do");
            std::process::exit(2);
        }
    };
    println!("{reported}");
}
