//! Memory that a program has freed and that glibc's allocator keeps.
//!
//! Each arena of glibc (malloc/arena.c) has heaps, contiguous chains of blocks: each block begins with its
//! size, and the block after it records whether it is free. A free block between two in use keeps its pages
//! until `malloc_trim` returns them. The chains are read while the program runs: an inconsistent chain is
//! abandoned at that point.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use procfs::process::Process;
use tuner::{Mapping, parse_maps};

/// Heaps of threads begin at multiples of their maximum size (HEAP_MAX_SIZE).
const HEAP_BYTES: u64 = 64 << 20;
/// Number of heaps that are read, and of reads from the start of each: the rest is assumed to be similar.
const LOOKED_AT: usize = 8;
const READS: u32 = 16;
const READ_BYTES: u64 = 32 << 10;
/// A chain that breaks before this length is ignored.
const CHAIN_BYTES_MIN: u64 = 64 << 10;
const PAGE: u64 = 4096;
/// The header of a free block (struct malloc_chunk), which `malloc_trim` leaves.
const FREE_HEADER: u64 = 48;
const SIZE_FLAGS: u64 = 7;
const PREVIOUS_IN_USE: u64 = 1;
const MAPPED: u64 = 2;
/// `struct malloc_state`, since glibc 2.27.
const ARENA_BYTES: u64 = 2200;
/// `struct heap_info`: up to glibc 2.34, and since.
const HEAP_HEADERS: [u64; 2] = [0x20, 0x30];

/// A heap: the address of its first block, and its end.
#[derive(Clone, Debug, PartialEq)]
struct Heap {
    blocks: u64,
    end: u64,
}

/// An estimate of the resident bytes that the process has freed and its allocator keeps; `None` if they
/// cannot be read.
pub(super) fn freed_bytes(process: &Process) -> Option<u64> {
    let memory = process.open_relative("mem").ok()?;
    let pages = process.open_relative("pagemap").ok()?;
    let maps = io::read_to_string(process.open_relative("maps").ok()?).ok()?;
    let heaps = heaps(&memory, &parse_maps(&maps).ok()?);
    let all: u64 = heaps.iter().map(|heap| heap.end - heap.blocks).sum();
    let (mut known, mut free) = (0, 0);
    let step = heaps.len().div_ceil(LOOKED_AT).max(1);
    for heap in heaps.iter().step_by(step) {
        let size = heap.end - heap.blocks;
        let seen = look(&memory, &pages, heap);
        if let Some(of_heap) = seen.and_then(|(walked, of_heap)| (of_heap * size).checked_div(walked)) {
            known += size;
            free += of_heap;
        }
    }
    let share = free as f64 / known as f64;
    (known > 0).then_some((share * all as f64) as u64)
}

/// The heaps of all arenas, including the one that the main arena gets by `brk`.
fn heaps(memory: &File, maps: &[Mapping]) -> Vec<Heap> {
    let mut found = Vec::new();
    for map in maps
        .iter()
        .filter(|map| map.permissions.read && map.permissions.write)
    {
        let (start, end) = (map.start.0, map.end.0);
        match map.name() {
            "[heap]" => found.push(Heap { blocks: start, end }),
            "" => {
                let bases = (start.next_multiple_of(HEAP_BYTES)..end).step_by(HEAP_BYTES as usize);
                found.extend(bases.filter_map(|base| heap_at(memory, base, end)));
            }
            _ => {}
        }
    }
    found
}

/// The heap of a thread's arena at this address, if there is one: its header contains its size and the
/// address of the arena, which is at the start of a heap.
fn heap_at(memory: &File, base: u64, end: u64) -> Option<Heap> {
    let [arena, _, size, writable] = words(memory, base)?;
    let is_arena = HEAP_HEADERS.contains(&(arena % HEAP_BYTES));
    if !is_arena
        || size > writable
        || writable > HEAP_BYTES
        || !size.is_multiple_of(PAGE)
        || base + size > end
    {
        return None;
    }
    let blocks = match arena.checked_sub(base) {
        Some(header) if header < HEAP_BYTES => (arena + ARENA_BYTES).next_multiple_of(16),
        _ => base + arena % HEAP_BYTES,
    };
    Some(Heap {
        blocks,
        end: base + size,
    })
}

fn words<const N: usize>(memory: &File, at: u64) -> Option<[u64; N]> {
    let mut bytes = vec![0; 8 * N];
    memory.read_exact_at(&mut bytes, at).ok()?;
    Some(std::array::from_fn(|word| word_at(&bytes, 8 * word)))
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]))
}

/// How many bytes from the start of a heap were read, and how many of them are free and resident.
fn look(memory: &File, pages: &File, heap: &Heap) -> Option<(u64, u64)> {
    let (mut at, mut bytes, mut reads) = (0, Vec::new(), 0);
    let (walked, free) = walk(heap, |header| {
        let is_read = (at..at + bytes.len() as u64).contains(&(header + 8));
        if !is_read {
            reads += 1;
            (at, bytes) = (header, vec![0; READ_BYTES.min(heap.end - header) as usize]);
            memory.read_exact_at(&mut bytes, at).ok()?;
        }
        (reads <= READS).then(|| word_at(&bytes, (header + 8 - at) as usize))
    });
    if walked < CHAIN_BYTES_MIN {
        return None;
    }
    let mut resident = 0;
    for range in free {
        let mut entries = vec![0; 8 * (range.end - range.start) as usize];
        pages.read_exact_at(&mut entries, 8 * range.start).ok()?;
        // Bit 63: the page is present.
        let is_present = |entry: &&[u8]| word_at(entry, 0) >> 63 == 1;
        resident += entries.chunks_exact(8).filter(is_present).count() as u64;
    }
    Some((walked, resident * PAGE))
}

/// Follows the chain of blocks by their size words. Returns how many bytes were walked, and the pages of free
/// blocks that `malloc_trim` would return.
fn walk(heap: &Heap, mut size_at: impl FnMut(u64) -> Option<u64>) -> (u64, Vec<Range<u64>>) {
    let (mut at, mut free, mut before) = (heap.blocks, Vec::new(), None::<Range<u64>>);
    while let Some(head) = (at + 16 <= heap.end).then(|| size_at(at)).flatten() {
        let size = head & !SIZE_FLAGS;
        if size < 32 || !size.is_multiple_of(16) || head & MAPPED != 0 || size > heap.end - at {
            break;
        }
        let is_free = before.take().filter(|_| head & PREVIOUS_IN_USE == 0);
        let pages = is_free.map(|block| (block.start + FREE_HEADER).div_ceil(PAGE)..block.end / PAGE);
        free.extend(pages.filter(|pages| pages.start < pages.end));
        before = Some(at..at + size);
        at += size;
    }
    // Whether the last block is free is unknown, except at the end of the heap, which is left alone.
    let known = if at == heap.end {
        at
    } else {
        before.map_or(heap.blocks, |last| last.start)
    };
    (known - heap.blocks, free)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 0x1000_08d0;

    /// Walks blocks of these sizes, in use or not, in a heap of `bytes` bytes.
    fn walked(blocks: &[(u64, bool)], bytes: u64) -> (u64, Vec<Range<u64>>) {
        let heap = Heap {
            blocks: START,
            end: START + bytes,
        };
        let (mut heads, mut at, mut before) = (Vec::new(), START, true);
        for &(size, is_used) in blocks {
            heads.push((at, size | u64::from(before)));
            (at, before) = (at + size, is_used);
        }
        walk(&heap, |at| Some(heads.iter().find(|(head, _)| *head == at)?.1))
    }

    #[test]
    fn free_pages_are_found_by_the_chain_of_blocks() {
        let free = 0x1_0001..0x1_0003;
        type Row<'a> = (&'a [(u64, bool)], u64, (u64, Vec<Range<u64>>));
        let table: [Row<'_>; 8] = [
            (
                &[(0x40, true), (0x3000, false), (0x40, true), (0x1000, true)],
                0x4080,
                (0x4080, vec![free.clone()]),
            ),
            (
                &[(0x40, true), (0x3000, true), (0x40, true), (0x1000, true)],
                0x4080,
                (0x4080, vec![]),
            ),
            // Less than a page, at any address.
            (
                &[(0x40, true), (0xf00, false), (0x40, true)],
                0xf80,
                (0xf80, vec![]),
            ),
            // The heap continues, but the chain cannot be read further.
            (
                &[(0x40, true), (0x3000, false), (0x40, true)],
                0x8000,
                (0x3040, vec![free]),
            ),
            (&[(0x40, true), (0x3000, false)], 0x8000, (0x40, vec![])),
            // Invalid sizes: beyond the end of the heap, not a multiple of 16, zero.
            (&[(0x40, true), (0x9000, true)], 0x8000, (0, vec![])),
            (&[(0x40, true), (0x48, true)], 0x8000, (0, vec![])),
            (&[(0, true)], 0x8000, (0, vec![])),
        ];
        for (blocks, bytes, expected) in table {
            assert_eq!(walked(blocks, bytes), expected, "{blocks:x?} in {bytes:x}");
        }
    }

    /// In this process, which uses glibc: 8 KiB blocks are freed, except 64 bytes after every eighth.
    #[test]
    fn blocks_that_a_thread_of_this_process_freed_are_found() {
        let us = Process::myself().unwrap();
        let freed = || freed_bytes(&us).unwrap();
        let before = freed();
        let kept = std::thread::spawn(|| {
            let (mut large, mut small) = (Vec::new(), Vec::new());
            for number in 0..8192_usize {
                large.push(vec![1_u8; 8192]);
                small.extend((number % 8 == 7).then(|| vec![1_u8; 64]));
            }
            small
        });
        let kept = kept.join().unwrap();
        // Other tests of this process allocate meanwhile, which may end a reading in the middle of a list.
        let is_seen = (0..100).any(|_| freed() > before + (48 << 20));
        assert!(is_seen, "{before} {}", freed());
        drop(kept);
    }
}
