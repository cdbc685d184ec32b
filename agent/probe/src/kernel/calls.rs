//! The rings of the newest calls of each process, read while the kernel side writes them. This module does
//! not interpret calls.

use std::{
    io,
    mem::offset_of,
    sync::{Arc, atomic::Ordering},
};

use abi::{Call, RingHead};

use super::cells::Cells;

/// Size of the ring of each process, in calls.
pub(super) fn ring_size(processes: u32) -> u32 {
    let each = abi::CALLS_MAX / processes.max(1);
    let power = each.checked_ilog2().map_or(1, |power| 1 << power);
    power.min(abi::RING_CALLS)
}

pub(super) struct Rings {
    pub(super) calls: Cells<Call>,
    pub(super) heads: Cells<RingHead>,
    /// Size of each ring in calls, a power of two.
    pub(super) size: u32,
}

impl Rings {
    /// Number of calls that the ring of a process has received.
    pub(super) fn so_far(&self, slot: u32) -> Option<u64> {
        self.heads.get(slot as usize).map(|head| head.next)
    }

    /// The newest calls of a process from number `from` on, in order; `None` for each call that was
    /// overwritten while it was read. The first number returned counts calls that had been overwritten
    /// before. `None` if there is no such ring.
    pub(super) fn newest(&self, slot: u32, from: u64) -> Option<(u64, Vec<Option<Call>>)> {
        let next = self.so_far(slot)?;
        let size = u64::from(self.size);
        let first = from.max(next.saturating_sub(size));
        let call = |number: u64| {
            let place = u64::from(slot) * size + (number & (size - 1));
            let call = self.calls.get_complete(place as usize)?;
            (call.number == number_there(number)?).then_some(call)
        };
        let calls = (first..next).map(call).collect();
        self.pass(slot, next);
        Some((first - from, calls))
    }

    /// Marks calls of a process before this number as read.
    pub(super) fn pass(&self, slot: u32, next: u64) {
        self.set(slot, offset_of!(RingHead, read), next);
    }

    /// Marks the reader as asleep.
    pub(super) fn sleep(&self) {
        self.set(0, offset_of!(RingHead, is_asleep), 1);
    }

    /// Sets that some call sites of this process are inside language bindings.
    pub(super) fn set_has_bindings(&self, slot: u32) {
        self.set(slot, offset_of!(RingHead, has_bindings), 1);
    }

    /// For each of both maps, why a part of it could not be mapped.
    pub(super) fn refusals(&self) -> [(&'static str, Option<&Arc<io::Error>>); 2] {
        [("CALLS", self.calls.refusal()), ("HEADS", self.heads.refusal())]
    }

    fn set(&self, slot: u32, field: usize, value: u64) {
        if let Some(word) = self.heads.word(slot as usize, field / size_of::<u64>()) {
            word.store(value, Ordering::Release);
        }
    }
}

/// The stored number of a call, counted from 1; it wraps after 2^32. `None` for the call whose number is then
/// 0, because it cannot be distinguished from one that is being written.
fn number_there(number: u64) -> Option<u32> {
    let there = (number as u32).wrapping_add(1);
    (there != 0).then_some(there)
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, OwnedFd};

    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    use super::*;

    const SIZE: u32 = 8;

    fn file<T>(records: u32) -> OwnedFd {
        let file = memfd_create("rings", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, u64::from(records) * size_of::<T>() as u64).unwrap();
        file
    }

    /// The rings of two slots, and calls as the kernel side writes them: with 32 bits of each number.
    fn rings() -> (Rings, Cells<Call>) {
        let (calls, heads) = (file::<Call>(2 * SIZE), file::<RingHead>(2));
        let rings = Rings {
            calls: Cells::map(calls.as_fd(), 2 * SIZE).unwrap(),
            heads: Cells::map_writable(heads.as_fd(), 2).unwrap(),
            size: SIZE,
        };
        (rings, Cells::map_writable(calls.as_fd(), 2 * SIZE).unwrap())
    }

    fn enter(rings: &Rings, calls: &Cells<Call>, number: u64) {
        let place = SIZE as usize + (number % u64::from(SIZE)) as usize;
        let there = (number + 1) & u64::from(u32::MAX);
        calls.word(place, 0).unwrap().store(there, Ordering::Relaxed);
        calls.word(place, 1).unwrap().store(number, Ordering::Relaxed);
        rings.set(1, offset_of!(RingHead, next), number + 1);
    }

    #[test]
    fn calls_are_read_in_their_order_and_what_was_overwritten_is_counted() {
        let (rings, calls) = rings();
        (0..20).for_each(|number| enter(&rings, &calls, number));
        let (skipped, newest) = rings.newest(1, 3).unwrap();
        let sites: Vec<u64> = newest.iter().flatten().map(|call| call.site).collect();
        assert_eq!((skipped, sites), (9, (12..20).collect()));
        assert_eq!(rings.heads.get(1).unwrap().read, 20);
        assert!(rings.newest(1, 20).unwrap().1.is_empty());
        assert!(rings.newest(2, 0).is_none(), "there is no such slot");
    }

    #[test]
    fn calls_are_read_on_after_two_to_the_32() {
        let (rings, calls) = rings();
        let first = (1 << 32) - 4;
        (first..first + 8).for_each(|number| enter(&rings, &calls, number));
        let (skipped, newest) = rings.newest(1, first).unwrap();
        let sites: Vec<Option<u64>> = newest.iter().map(|call| call.map(|call| call.site)).collect();
        // The last call before the wrap has the number of a call that is being written.
        let expected =
            (first..first + 8).map(|number| Some(number).filter(|number| *number != u64::from(u32::MAX)));
        assert_eq!((skipped, sites), (0, expected.collect()));
    }
}
