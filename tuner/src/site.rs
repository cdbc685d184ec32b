//! The site and cost of a probe at a function's entry. A probe on an instruction that the kernel emulates
//! costs a tenth or less of one on an instruction that it must single-step (two more exceptions). So the
//! first such instruction is chosen if a probe there sees the same as at the function's first byte: the
//! arguments in their registers and on the stack, the stack pointer, memory, and each call once. Otherwise it
//! is the first byte.
//!
//! Sync points are not chosen here: they are at the first instruction.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::address::FileOffset;
pub(crate) use crate::arch::Obstacle;
use crate::arch::x86_64::site::{
    Candidate, INSTRUCTION_MAX, PASSED_MAX, Text, candidate, first, is_entered_at_its_begin,
};
pub use crate::arch::{Cost, Emulation};
use crate::image::{Image, Segment};

/// Bytes of the longest function that is decoded.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// The site of a probe at a function's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntrySite {
    pub offset: FileOffset,
    pub cost: Cost,
    /// The mnemonic of the instruction; empty if unknown.
    pub instruction: String,
    /// Why the first byte was chosen although it is expensive.
    pub obstacle: Option<Obstacle>,
}

/// Chooses sites for the functions of one file. Caches what it reads of the file.
#[derive(Debug, Default)]
pub struct EntrySites {
    emulation: Emulation,
    /// Offsets that other code may enter, sorted: symbols and marks.
    named: OnceLock<Vec<u64>>,
}

impl EntrySites {
    /// For a kernel with this emulation.
    pub fn new(emulation: Emulation) -> EntrySites {
        EntrySites {
            emulation,
            named: OnceLock::new(),
        }
    }

    /// The site of the function of `size` bytes at `offset` of `image`, which must be the same for each call.
    pub fn of(&self, image: &Image, offset: FileOffset, size: u64) -> EntrySite {
        let first_byte = EntrySite {
            offset,
            cost: Cost::Unknown,
            instruction: String::new(),
            obstacle: Some(Obstacle::NotCode),
        };
        let holds = |segment: &&Segment| {
            let range = segment.offset.0..segment.offset.0 + segment.file_size;
            segment.executable && range.contains(&offset.0)
        };
        match image.segments.iter().find(holds) {
            Some(segment) => self.choose(&first_byte, image, segment, size),
            None => first_byte,
        }
    }

    /// Whether a symbol or a mark is in the range.
    fn is_named(&self, image: &Image, range: &Range<u64>) -> bool {
        let named = self.named(image);
        let first = named.partition_point(|place| *place < range.start);
        named.get(first).is_some_and(|place| range.contains(place))
    }

    fn named(&self, image: &Image) -> &[u64] {
        self.named.get_or_init(|| {
            let tables = [image.dynamic_symbols(), image.static_symbols()];
            let symbols = tables.iter().flatten().flat_map(|table| table.places());
            let marks = image.marks().unwrap_or_default().iter().map(|mark| mark.address);
            let offsets = symbols.chain(marks).filter_map(|place| image.file_offset(place));
            let mut named: Vec<u64> = offsets.map(|offset| offset.0).collect();
            named.sort_unstable();
            named.dedup();
            named
        })
    }
}

/// The code of one segment of a file.
struct SegmentCode<'a> {
    image: &'a Image,
    segment: &'a Segment,
    sites: &'a EntrySites,
}

impl Text for SegmentCode<'_> {
    fn read(&self, range: Range<u64>) -> (u64, Vec<u8>) {
        let of = self.segment.offset.0;
        let start = range.start.max(of);
        let length = range.end.min(of + self.segment.file_size).saturating_sub(start);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        if self.image.file().read_exact_at(&mut bytes, start).is_err() {
            bytes.clear();
        }
        (start, bytes)
    }

    fn known_before(&self, offset: u64) -> Option<u64> {
        let named = self.sites.named(self.image);
        let behind = named.partition_point(|place| *place <= offset);
        let known = named.get(behind.checked_sub(1)?).copied();
        known.filter(|known| *known >= self.segment.offset.0)
    }
}

impl EntrySites {
    fn choose(&self, first_byte: &EntrySite, image: &Image, segment: &Segment, size: u64) -> EntrySite {
        let code = SegmentCode {
            image,
            segment,
            sites: self,
        };
        let start = first_byte.offset.0;
        let (_, begin) = code.read(start..start + (PASSED_MAX + 2 * INSTRUCTION_MAX) as u64);
        let Some(first) = first(&begin, start, self.emulation) else {
            return EntrySite {
                obstacle: Some(Obstacle::NotCode),
                ..first_byte.clone()
            };
        };
        let is_cheap = first.cost < Cost::Stepped;
        let further = match is_cheap {
            true => Ok(None),
            false => self.further(&code, &begin, start, size).map(Some),
        };
        let (obstacle, site) = match further {
            Ok(further) => (None, further.unwrap_or(first)),
            Err(obstacle) => (Some(obstacle), first),
        };
        EntrySite {
            offset: FileOffset(site.at),
            cost: site.cost,
            instruction: site.mnemonic,
            obstacle,
        }
    }

    fn further(
        &self,
        code: &SegmentCode<'_>,
        begin: &[u8],
        start: u64,
        size: u64,
    ) -> Result<Candidate, Obstacle> {
        if size == 0 || size > FUNCTION_BYTES_MAX {
            return Err(Obstacle::NoEnd);
        }
        let within = begin.len().min(usize::try_from(size).unwrap_or(usize::MAX));
        let found = candidate(&begin[..within], start, self.emulation)?;
        if self.is_named(code.image, &(start + 1..found.at + 1)) {
            return Err(Obstacle::NamedInside);
        }
        is_entered_at_its_begin(&(start..start + size), found.at, code)?;
        Ok(found)
    }
}
