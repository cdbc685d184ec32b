//! Our memory in the program: a range of pages, mapped for one change and unmapped with it. This module
//! chooses the place of an arena and recognises it; [`crate::remote`] maps it.
//!
//! The first page or pages have code, mapped readable and executable, never writable: they are written from
//! outside. One more page has data, if the change needs some.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::maps::{Backing, Mapping};

/// Bytes of a page. No single write crosses a page: the kernel copies page by page.
pub(crate) const PAGE: u64 = 4096;
/// At the begin of each arena: bytes that no program contains by chance.
const MARK: &[u8; 16] = b"tuneagent\0arena1";
/// Bytes of the mark and the arena's number. Code begins behind them.
pub(crate) const HEAD_BYTES: u64 = 32;
/// A jump reaches 2 GiB; less here, so that both ends of a range of targets are within reach.
const REACH: u64 = (2 << 30) - (64 << 20);
/// Bytes left free on both sides, so that running past an end faults, and the kernel does not merge our
/// mapping with one of the program.
const GAP: u64 = 16 * PAGE;
/// Bytes left free for growth: the heap grows upwards, stacks grow downwards, and the kernel places new
/// mappings right below the last one.
const GROWTH: u64 = 1 << 30;
/// The kernel maps nothing below for ordinary users.
const LOWEST: u64 = 1 << 20;
const HIGHEST: u64 = 0x7fff_ffff_f000;

/// A range of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arena {
    pub address: Address,
    pub(crate) code_bytes: u64,
    /// Bytes for data, behind the code.
    pub(crate) data_bytes: u64,
    /// Stored in the arena to distinguish it from others.
    pub number: u64,
    /// It was requested with `--despite-seccomp`, whatever the program's filters may do; unmapping does not
    /// check them again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub despite_seccomp: bool,
}

impl Arena {
    /// The best free place near `target`, within reach of jumps in its code.
    pub(crate) fn find(maps: &[Mapping], target: Address, code: usize, with_data: bool) -> Option<Arena> {
        let code_bytes = (HEAD_BYTES + code as u64).next_multiple_of(PAGE);
        let data_bytes = if with_data { PAGE } else { 0 };
        let size = code_bytes + data_bytes;
        let distance = |at: &u64| at.abs_diff(target.0);
        // Prefers places below: the heap of the program may grow above it.
        let by_place = |(is_tight, at): &(bool, u64)| {
            let is_far = distance(at) + size >= REACH;
            (is_far, *is_tight, *at > target.0, distance(at))
        };
        let (_, address) = candidates(maps, target.0, size).min_by_key(by_place)?;
        (distance(&address) + size < REACH).then(|| Arena {
            address: Address(address),
            code_bytes,
            data_bytes,
            number: crate::clock::monotonic_ns(),
            despite_seccomp: false,
        })
    }

    /// True if all `length` bytes at `address` are in it.
    pub(crate) fn contains(&self, address: Address, length: u64) -> bool {
        let end = self.address.0 + self.size();
        address >= self.address && address.checked_add(length).is_some_and(|last| last.0 <= end)
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.address.0..self.address.0 + self.size()
    }

    pub(crate) fn size(&self) -> u64 {
        self.code_bytes + self.data_bytes
    }

    /// The address of its code.
    pub(crate) fn code(&self) -> Address {
        Address(self.address.0 + HEAD_BYTES)
    }

    pub(crate) fn data(&self) -> Address {
        Address(self.address.0 + self.code_bytes)
    }

    /// The bytes at its begin.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut head = MARK.to_vec();
        head.extend(self.number.to_le_bytes());
        head.resize(HEAD_BYTES as usize, 0);
        head
    }

    /// Whether a mapping of the program could be this arena.
    pub(crate) fn is_in(&self, maps: &[Mapping]) -> bool {
        maps.iter().any(|map| {
            map.start <= self.address && map.end > self.address && map.backing == Backing::Anonymous
        })
    }
}

/// The free places nearest to `target`, each with whether new mappings may be placed close to it.
fn candidates(maps: &[Mapping], target: u64, size: u64) -> impl Iterator<Item = (bool, u64)> {
    let special = |map: &Mapping, name: &str| map.backing == Backing::Special(name.to_owned());
    let starts = std::iter::once((LOWEST, false))
        .chain(maps.iter().map(move |map| (map.end.0, special(map, "[heap]"))));
    let ends = maps.iter().map(move |map| (map.start.0, special(map, "[stack]")));
    let ends = ends.chain(std::iter::once((HIGHEST, false)));
    let within = move |(start, after_heap): (u64, bool), (end, before_stack): (u64, bool), is_tight: bool| {
        let gap = |grows: bool| if grows { GROWTH } else { GAP };
        let low = start.checked_add(gap(after_heap))?.next_multiple_of(PAGE);
        let room = size + gap(before_stack || !is_tight);
        let high = end.min(HIGHEST).checked_sub(room)? / PAGE * PAGE;
        (low <= high).then(|| (is_tight, target.clamp(low, high) / PAGE * PAGE))
    };
    starts.zip(ends).flat_map(move |(start, end)| {
        [false, true]
            .into_iter()
            .filter_map(move |is_tight| within(start, end, is_tight))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps;

    fn maps() -> Vec<Mapping> {
        maps::parse(
            "555555554000-555555560000 r-xp 00000000 08:01 5 /bin/app\n\
             555555560000-555555600000 rw-p 00000000 00:00 0 [heap]\n\
             7ffff7c00000-7ffff7e00000 r-xp 00000000 08:01 6 /lib/libc.so.6\n\
             7ffff7e10000-7ffff7e20000 rw-p 00000000 00:00 0 \n\
             7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n",
        )
        .unwrap()
    }

    #[test]
    fn it_lies_in_a_gap_within_reach_and_not_where_heap_or_stack_grow() {
        for target in [0x5555_5555_5000, 0x7fff_f7d0_0000] {
            let maps = maps();
            let arena = Arena::find(&maps, Address(target), 100, true).unwrap();
            assert_eq!(arena.size(), 2 * PAGE);
            assert!(arena.address.0.abs_diff(target) < 2 << 30);
            assert!(!arena.is_in(&maps));
            let overlaps =
                |map: &Mapping| map.start.0 < arena.address.0 + arena.size() && arena.address.0 < map.end.0;
            assert!(!maps.iter().any(overlaps), "{arena:?}");
        }
        let arena = Arena::find(&maps(), Address(0x5555_5555_5000), 100, false).unwrap();
        assert!(
            arena.address.0 < 0x5555_5555_4000,
            "below the program, not above its heap"
        );
    }

    #[test]
    fn it_does_not_lie_where_the_program_maps_next() {
        let maps = maps();
        let arena = Arena::find(&maps, Address(0x7fff_f7d0_0000), 100, true).unwrap();
        let below = 0x7fff_f7c0_0000 - arena.address.0;
        assert!(below >= GROWTH, "{below} bytes below the libraries");
        // If nothing else is within reach, a tight place is better than none.
        let narrow = maps::parse(
            "100000-7fff70000000 rw-p 00000000 00:00 0 \n7fff80000000-7fffff000000 rw-p 00000000 00:00 0 \n",
        );
        let arena = Arena::find(&narrow.unwrap(), Address(0x7fff_8000_0000), 100, true).unwrap();
        assert!(arena.address.0 < 0x7fff_8000_0000 && arena.address.0 > 0x7fff_7000_0000);
    }

    #[test]
    fn nothing_free_within_reach_is_said() {
        let full = maps::parse("100000-7ffffffff000 rw-p 00000000 00:00 0 \n").unwrap();
        assert_eq!(Arena::find(&full, Address(0x5555_5555_5000), 100, false), None);
    }
}
