//! Hits at which a window may close wake the reader of the ring; other hits wake it only if it would not look
//! by itself soon. The hits are those of a synthetic producer. Needs root; otherwise skipped with a message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::{AsFd, OwnedFd};

use probe::kernel::{Kernel, LoadOptions, Producer, Ring};
use rustix::event::{Timespec, epoll};
use tuneagent_e2e::require_or_return;

/// A time that no test reaches.
const FAR: u64 = u64::MAX;
/// Number of hits, with their headers, that fill half of the ring.
const HALF: u32 = abi::RING_BYTES / 2 / (abi::HitRecord::SHORT_BYTES as u32 + 8);
/// Hits per run of the producing BPF program.
const BATCH: u32 = 1000;

/// A ring, and an epoll descriptor that reports its wake-ups, as in the event loop.
struct Sleeper {
    kernel: Kernel,
    producer: Producer,
    /// Unread hits in it have no effect on the next wake-up.
    ring: Ring,
    reported: OwnedFd,
}

impl Sleeper {
    fn new() -> Sleeper {
        let mut kernel = Kernel::load(LoadOptions::ONE_PROBE).unwrap();
        let producer = Producer::of(&kernel).unwrap();
        let ring = kernel.take_hits().unwrap();
        let reported = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let (data, flags) = (
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN | epoll::EventFlags::ET,
        );
        epoll::add(&reported, ring.as_fd(), data, flags).unwrap();
        Sleeper {
            kernel,
            producer,
            ring,
            reported,
        }
    }

    /// Whether there was a wake-up since the last call. The kernel delivers it after the BPF program of the
    /// hit, at the latest at this CPU's next interrupt.
    fn was_woken(&self, within_ms: i64) -> bool {
        let patience = Timespec {
            tv_sec: 0,
            tv_nsec: within_ms * 1_000_000,
        };
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 1];
        let (events, _) = epoll::wait(&self.reported, &mut events, Some(&patience)).unwrap();
        !events.is_empty()
    }

    fn puts(&self, hits: u32) {
        self.producer.produce(0, hits, 1).unwrap();
    }

    fn puts_deciding(&self) {
        self.producer.produce_deciding(0, 1, 1).unwrap();
    }

    fn takes_one(&mut self) -> bool {
        self.kernel.take_hit(&mut self.ring).is_some()
    }

    /// Reads all hits and returns their number; then the reader sleeps.
    fn takes_all(&mut self) -> usize {
        std::iter::from_fn(|| self.takes_one().then_some(())).count()
    }
}

/// Timeouts for a wake-up that must come, and for one that must not.
const SOON_MS: i64 = 900;
const MOMENT_MS: i64 = 20;

#[test]
fn a_ring_wakes_a_reader_that_has_read_all_until_it_says_when_it_looks() {
    require_or_return!(Root);
    let sleeper = Sleeper::new();
    sleeper.puts(1);
    assert!(sleeper.was_woken(SOON_MS));
}

#[test]
fn hits_do_not_wake_a_polling_reader_and_a_due_hit_wakes_it_once() {
    require_or_return!(Root);
    let sleeper = Sleeper::new();
    sleeper.kernel.look_at(FAR);
    sleeper.kernel.mark_asleep();
    sleeper.puts(BATCH);
    assert!(!sleeper.was_woken(MOMENT_MS), "by hits that may lie");
    sleeper.puts_deciding();
    assert!(sleeper.was_woken(SOON_MS));
    sleeper.puts_deciding();
    assert!(!sleeper.was_woken(MOMENT_MS), "who is awake is not woken");
    sleeper.kernel.mark_asleep();
    sleeper.puts_deciding();
    assert!(sleeper.was_woken(SOON_MS));
}

#[test]
fn a_reader_that_took_the_hit_before_its_wake_up_is_woken_by_the_next() {
    require_or_return!(Root);
    let mut sleeper = Sleeper::new();
    sleeper.kernel.look_at(FAR);
    assert_eq!(sleeper.takes_all(), 0);
    for _ in 0..3 {
        sleeper.puts(1);
        assert!(sleeper.takes_one(), "he is looking");
        // This hit arrives while the reader is awake and is read in the same pass, so no wake-up is due.
        sleeper.puts_deciding();
        assert_eq!(sleeper.takes_all(), 1);
        assert!(!sleeper.was_woken(MOMENT_MS), "nothing is left to be woken for");
        sleeper.puts_deciding();
        assert!(sleeper.was_woken(SOON_MS));
        assert_eq!(sleeper.takes_all(), 1);
    }
}

#[test]
fn any_hit_wakes_a_reader_that_does_not_poll_or_has_a_ring_half_full() {
    require_or_return!(Root);
    let sleeper = Sleeper::new();
    sleeper.kernel.look_at(0);
    sleeper.kernel.mark_asleep();
    sleeper.puts(1);
    assert!(sleeper.was_woken(SOON_MS), "nobody would have looked");
    sleeper.kernel.look_at(FAR);
    sleeper.kernel.mark_asleep();
    for _ in 0..HALF / BATCH {
        sleeper.puts(BATCH);
    }
    assert!(!sleeper.was_woken(MOMENT_MS), "less than half of it is full");
    sleeper.puts(BATCH);
    assert!(sleeper.was_woken(SOON_MS), "half of it is full");
}
