//! The unwind tables of a file (.eh_frame): which code is one function, and how its frame is left.

use std::ops::Range;

use gimli::{
    BaseAddresses, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian, UnwindSection,
};

use crate::address::LinkAddress;
use crate::elf::Elf;

pub(crate) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// The unwind tables of a file.
#[derive(Debug)]
pub(crate) struct Tables {
    index: Vec<u8>,
    frames: Vec<u8>,
    pub(crate) bases: BaseAddresses,
}

impl Tables {
    pub(crate) fn read(file: &Elf) -> Option<Tables> {
        let place = |name: &str| {
            file.sections
                .iter()
                .find(|section| section.name == name)
                .map(|found| found.address.0)
        };
        let bytes = |name: &str| file.section_bytes(name).ok();
        let bases = BaseAddresses::default()
            .set_eh_frame(place(".eh_frame")?)
            .set_eh_frame_hdr(place(".eh_frame_hdr")?)
            .set_text(place(".text")?);
        Some(Tables {
            index: bytes(".eh_frame_hdr")?,
            frames: bytes(".eh_frame")?,
            bases,
        })
    }

    /// The code around this address that the tables describe as one piece: a function, or a separate part of
    /// one.
    pub(crate) fn piece_at(&self, link: LinkAddress) -> Option<Range<LinkAddress>> {
        let piece = self.entry(&self.frames(), link.0)?;
        let begin = piece.initial_address();
        Some(LinkAddress(begin)..LinkAddress(begin.checked_add(piece.len())?))
    }

    /// The entry of the tables for the code at this address.
    pub(crate) fn entry<'a>(
        &'a self,
        frames: &EhFrame<Bytes<'a>>,
        link: u64,
    ) -> Option<FrameDescriptionEntry<Bytes<'a>>> {
        let index = EhFrameHdr::new(&self.index, LittleEndian)
            .parse(&self.bases, 8)
            .ok()?;
        let table = index.table()?;
        table
            .fde_for_address(frames, &self.bases, link, EhFrame::cie_from_offset)
            .ok()
    }

    pub(crate) fn frames(&self) -> EhFrame<Bytes<'_>> {
        let mut frames = EhFrame::new(&self.frames, LittleEndian);
        frames.set_address_size(8);
        frames
    }
}
