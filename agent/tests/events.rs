//! Every hit put into the ring is either read or counted as lost, with several producers and a slow reader.
//! The hits are those of a synthetic producer, so their number is known and no probe is needed. Needs root;
//! otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod running;

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    panic::AssertUnwindSafe,
    path::Path,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use probe::kernel::{Kernel, LoadOptions, Producer, Ring, read_hit};
use running::Running;
use rustix::process::{Pid, Signal, kill_process};
use tuneagent_e2e::require_or_return;
use tuneagent_e2e::wait::{SOON, wait_until};

/// Producers and hits of each, together more than the ring can hold.
const PRODUCERS: u32 = 4;
const EACH: u64 = 200_000;
const MADE: u64 = PRODUCERS as u64 * EACH;
/// Hits per run of the producing BPF program.
const BATCH: u32 = 1000;

/// Bytes of a hit with its header, and the number of hits that the ring holds.
const HIT_BYTES: u64 = abi::HitRecord::SHORT_BYTES as u64 + 8;
const ROOM: u64 = abi::RING_BYTES as u64 / HIT_BYTES;

fn ready() -> (Kernel, Producer, Ring) {
    let mut kernel = Kernel::load(LoadOptions::ONE_PROBE).unwrap();
    let producer = Producer::of(&kernel).unwrap();
    let ring = kernel.take_hits().unwrap();
    (kernel, producer, ring)
}

fn ring_full(kernel: &Kernel) -> u64 {
    let losses = kernel.losses();
    losses.iter().find(|(kind, _)| *kind == "ring_full").unwrap().1
}

fn produce_all(producer: &Producer, thread: u32) {
    for first in (0..EACH).step_by(BATCH as usize) {
        producer.produce(first, BATCH, thread).unwrap();
    }
}

/// Hits read, by producer.
#[derive(Default)]
struct Read(BTreeMap<u32, Vec<u64>>);

impl Read {
    /// Reads one hit. Returns false if the ring is empty.
    fn next(&mut self, ring: &mut Ring) -> bool {
        let Some(item) = ring.take() else { return false };
        let hit = read_hit(item).unwrap();
        assert_eq!(
            hit.duration_ns,
            hit.captures[0] & 0xffff,
            "a hit in one piece: {hit:?}"
        );
        self.0.entry(hit.thread).or_default().push(hit.captures[0]);
        true
    }

    /// Reads until the ring is empty.
    fn drain(&mut self, ring: &mut Ring) {
        while self.next(ring) {}
    }

    fn count(&self) -> u64 {
        self.0.values().map(|numbers| numbers.len() as u64).sum()
    }

    /// Each producer's hits must be in order, without duplicates.
    fn assert_in_order(&self) {
        for (thread, numbers) in &self.0 {
            assert!(numbers.is_sorted_by(|one, next| one < next), "producer {thread}");
        }
    }
}

#[test]
fn hits_that_are_not_read_are_counted_one_by_one() {
    require_or_return!(Root);
    let (kernel, producer, mut ring) = ready();
    thread::scope(|scope| {
        let producer = &producer;
        for number in 0..PRODUCERS {
            scope.spawn(move || produce_all(producer, number));
        }
    });
    let mut read = Read::default();
    read.drain(&mut ring);
    read.assert_in_order();
    assert_eq!(read.count() + ring_full(&kernel), MADE);
    // Nothing may be lost before the ring is completely full.
    assert_eq!(read.count(), ROOM);
    assert_eq!(u64::from(producer.position().unwrap()), ROOM * HIT_BYTES);
}

#[test]
fn a_reader_that_pauses_misses_as_many_hits_as_are_counted() {
    require_or_return!(Root);
    let (kernel, producer, mut ring) = ready();
    let (mut read, over) = (Read::default(), AtomicU64::new(0));
    thread::scope(|scope| {
        let (producer, over) = (&producer, &over);
        for number in 0..PRODUCERS {
            scope.spawn(move || {
                // Counted before a panic continues, because the reader waits for this counter.
                let made = std::panic::catch_unwind(AssertUnwindSafe(|| produce_all(producer, number)));
                over.fetch_add(1, Ordering::Release);
                made.unwrap();
            });
        }
        // The reader reads, pauses until hits are lost, and reads to the end.
        let all_end = || over.load(Ordering::Acquire) == u64::from(PRODUCERS);
        let mut first = 0;
        while first < ROOM / 10 && !all_end() {
            first += u64::from(read.next(&mut ring));
        }
        while ring_full(&kernel) == 0 && !all_end() {
            thread::yield_now();
        }
        while !all_end() {
            read.drain(&mut ring);
        }
    });
    read.drain(&mut ring);
    read.assert_in_order();
    assert!(ring_full(&kernel) > 0 && read.count() > ROOM);
    assert_eq!(read.count() + ring_full(&kernel), MADE);
}

/// A program whose function is named, so that there is a ring, but never called.
const PROGRAM: &str = r#"
#include <stdio.h>
volatile long sink;
__attribute__((noinline, used)) void named(void) { sink++; }
int main(void) {
    puts("ready"); fflush(stdout);
    return getchar();
}
"#;

struct Agent(Child);

impl Agent {
    /// Attaches to a process and waits until all probes are attached.
    fn attach(pid: u32, report: &Path, folder: &Path) -> Agent {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tuneagent"));
        command
            .args(format!("attach {pid} --plain --rules none --probe named --json").split(' '))
            .arg(report);
        for variable in ["TUNEAGENT_STATE_DIR", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"] {
            command.env(variable, folder);
        }
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines
            .find(|line| line.as_ref().unwrap().starts_with("armed"))
            .unwrap()
            .unwrap();
        // Reads further lines, so that the pipe does not fill.
        thread::spawn(move || lines.for_each(drop));
        Agent(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn stop(&self) {
        self.signal(Signal::STOP);
        let stands = |thread: &Path| {
            let stat = std::fs::read_to_string(thread.join("stat")).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        };
        let threads = || std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let stand = || Ok(threads().all(|thread| stands(&thread.unwrap().path())));
        wait_until("all threads to stop", SOON, stand).unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_agent_that_was_stopped_reports_how_many_hits_it_lost() {
    require_or_return!(Root);
    let folder = tempfile::tempdir().unwrap();
    let target = Running::built(folder.path(), PROGRAM, &[]);
    let report = folder.path().join("report.json");
    let mut agent = Agent::attach(target.pid(), &report, folder.path());
    let producer = Producer::of_session(agent.0.id()).unwrap();
    agent.stop();
    produce_all(&producer, 1);
    produce_all(&producer, 2);
    agent.signal(Signal::CONT);
    agent.signal(Signal::INT);
    assert!(agent.0.wait().unwrap().success());
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&report).unwrap()).unwrap();
    let completeness = &report["completeness"];
    let read = completeness["events_received"].as_u64().unwrap();
    let lost = completeness["lost"]["ring_full"].as_u64().unwrap();
    assert_eq!((read, read + lost), (ROOM, 2 * EACH));
    assert_eq!(completeness["status"], "partial");
}
