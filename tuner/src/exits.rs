//! Finds where a function is left: at its own return instructions, at those of code that it jumps to, or at
//! its last jump. Machine code of x86-64 only; changes nothing.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use iced_x86::Mnemonic;
use thiserror::Error;

use crate::address::{FileOffset, LinkAddress};
use crate::frames::Tables;
use crate::image::{Image, got::Stored};
use crate::symbol::Function;

mod piece;

use piece::{JumpOut, JumpTarget, Piece, Tail, TailJump, decode, scan};

/// Pieces of code that are followed for one function.
const PIECES_MAX: usize = 64;
/// Bytes of the longest function that is decoded.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;
/// Bytes of the longest piece that is followed.
const PIECE_BYTES_MAX: u64 = 1 << 20;

/// Where a function is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exits {
    /// By instructions of the function itself.
    pub own: Places,
    /// By instructions in other code of its file: parts that the compiler moved away, and functions that it
    /// tail-calls. Other functions may be left there, too.
    pub elsewhere: Places,
    /// Number of jumps that were not followed: the end of calls that leave by them is not seen.
    pub unknown: usize,
}

impl Exits {
    fn places(&mut self, is_elsewhere: bool) -> &mut Places {
        match is_elsewhere {
            true => &mut self.elsewhere,
            false => &mut self.own,
        }
    }
}

/// Instructions that end a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Return instructions that pop the return address only.
    pub returns: Vec<FileOffset>,
    /// Jumps followed only by the last instructions before a return, which call nothing and write nothing to
    /// memory. A kernel that single-steps returns emulates jumps.
    pub jumps: Vec<LastJump>,
    /// The return instructions that a call may reach without such a jump.
    pub beside_jumps: Vec<FileOffset>,
    /// The last known instructions: a jump to another file or to a computed address, after which the call
    /// continues unseen, or a return that pops more than the return address.
    pub last: Vec<FileOffset>,
}

/// A jump that decides whether a call ends or its function continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastJump {
    pub offset: FileOffset,
    /// The processor's number of its condition; `None` if it always jumps.
    pub condition: Option<u8>,
    /// The call ends if the jump is taken; otherwise if it is not.
    pub is_taken: bool,
    /// Distance of the stack pointer from the return address there, in bytes.
    pub depth: u16,
}

/// Why the returns of a function are unknown.
#[derive(Debug, Error)]
pub enum CodeError {
    #[error("the symbol {name} has no size: where the function ends, and so where it returns, is not known")]
    NoSize { name: String },
    #[error("the function {name} takes {size} bytes, more than are looked at")]
    TooLong { name: String, size: u64 },
    #[error("cannot decode the instruction at {name}+{offset:#x}")]
    NotCode {
        name: String,
        /// Bytes from its begin.
        offset: u64,
    },
    #[error("the function {name} cannot be read: {error}")]
    Io { name: String, error: std::io::Error },
}

/// The return instructions of a function, without those of code that it jumps to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Returns {
    pub instructions: Vec<FileOffset>,
    /// Jumps out of it: tail calls, and jumps to parts that the compiler moved elsewhere. It may be left
    /// through them without a return instruction of its own.
    pub jumps_out: Vec<FileOffset>,
}

/// The return instructions of a function, read from its file.
pub fn returns(image: &Image, function: &Function) -> Result<Returns, CodeError> {
    let bytes = bytes_of(image, function)?;
    let found = scanned(function, &bytes, function.offset.0, &|_| false)?;
    let is_jump = |jump: &&JumpOut| jump.is_always && matches!(jump.to, JumpTarget::Code(_));
    let jumps_out = found.out.iter().filter(is_jump);
    Ok(Returns {
        instructions: found.returns.into_iter().map(FileOffset).collect(),
        jumps_out: jumps_out.map(|jump| FileOffset(jump.at)).collect(),
    })
}

/// Scans the code of a function that begins at this address.
fn scanned(
    function: &Function,
    bytes: &[u8],
    start: u64,
    never_returns: &dyn Fn(u64) -> bool,
) -> Result<Piece, CodeError> {
    scan(bytes, start, never_returns).map_err(|offset| CodeError::NotCode {
        name: function.names.first().cloned().unwrap_or_default(),
        offset,
    })
}

/// The code of a function, read from its file.
fn bytes_of(image: &Image, function: &Function) -> Result<Vec<u8>, CodeError> {
    let name = || function.names.first().cloned().unwrap_or_default();
    match function.size {
        0 => return Err(CodeError::NoSize { name: name() }),
        size if size > FUNCTION_BYTES_MAX => return Err(CodeError::TooLong { name: name(), size }),
        _ => {}
    }
    let mut bytes = vec![0; usize::try_from(function.size).unwrap_or_default()];
    let read = image.file().read_exact_at(&mut bytes, function.offset.0);
    read.map_err(|error| CodeError::Io { name: name(), error })?;
    Ok(bytes)
}

/// Finds the exits of functions of one file. Caches what it reads of the file.
#[derive(Debug)]
pub struct ExitFinder<'a> {
    image: &'a Image,
    /// The unwind tables of the file, which list its pieces of code.
    pieces: OnceCell<Option<Tables>>,
    /// The words through which the file calls functions that never return.
    never_return: OnceCell<BTreeSet<u64>>,
}

impl<'a> ExitFinder<'a> {
    pub fn new(image: &'a Image) -> ExitFinder<'a> {
        ExitFinder {
            image,
            pieces: OnceCell::new(),
            never_return: OnceCell::new(),
        }
    }

    /// Whether a call of this address never returns.
    fn never_returns(&self, address: u64) -> bool {
        const FUNCTIONS: [&str; 3] = ["__stack_chk_fail", "__assert_fail", "abort"];
        let slots = self.never_return.get_or_init(|| {
            let stored = FUNCTIONS.iter().filter_map(|name| self.image.stored(name).ok());
            let slot = |stored| match stored {
                Stored::Call(slot) | Stored::Table(slot) => Some(slot.0),
                Stored::Data => None,
            };
            stored.flatten().filter_map(slot).collect()
        });
        !slots.is_empty() && self.stub_at(address).is_some_and(|slot| slots.contains(&slot))
    }

    /// Where a function is left.
    pub fn exits(&self, function: &Function) -> Result<Exits, CodeError> {
        let bytes = bytes_of(self.image, function)?;
        let never_returns = |address| self.never_returns(address);
        let own = scanned(function, &bytes, function.address.0, &never_returns)?;
        let range = function.address.0..function.address.0 + function.size;
        let mut walk = Walk {
            finder: self,
            // A function without returns is an alias of its jump target.
            is_alias: own.returns.is_empty(),
            done: [range].into(),
            open: Vec::new(),
            tails: Vec::new(),
            found: Exits::default(),
        };
        walk.take(own, false);
        walk.follow();
        walk.cover();
        Ok(walk.found)
    }

    fn piece_at(&self, address: u64) -> Option<Range<u64>> {
        let tables = self.pieces.get_or_init(|| Tables::read(self.image)).as_ref()?;
        let piece = tables.piece_at(LinkAddress(address))?;
        let piece = piece.start.0..piece.end.0;
        piece.contains(&address).then_some(piece)
    }

    fn code(&self, place: Range<u64>) -> Option<Vec<u8>> {
        let length = place
            .end
            .checked_sub(place.start)
            .filter(|length| *length <= PIECE_BYTES_MAX)?;
        let mut bytes = vec![0; usize::try_from(length).ok()?];
        let offset = self.image.file_offset(LinkAddress(place.start))?;
        self.image.file().read_exact_at(&mut bytes, offset.0).ok()?;
        Some(bytes)
    }

    /// The word through which a stub at this address jumps to another file.
    fn stub_at(&self, address: u64) -> Option<u64> {
        /// `endbr64` and the jump.
        const STUB_BYTES: u64 = 12;
        let bytes = self.code(address..address + STUB_BYTES)?;
        let mut instructions = decode(&bytes, address);
        let mut next = instructions.next()?;
        if next.mnemonic() == Mnemonic::Endbr64 {
            next = instructions.next()?;
        }
        let is_stub = next.mnemonic() == Mnemonic::Jmp && next.is_ip_rel_memory_operand();
        is_stub.then(|| next.ip_rel_memory_address())
    }
}

struct Walk<'a> {
    finder: &'a ExitFinder<'a>,
    is_alias: bool,
    /// Code that was scanned.
    done: Vec<Range<u64>>,
    /// Jumps to follow, and whether they are outside of the function.
    open: Vec<(JumpOut, bool)>,
    /// The ends of the pieces, and whether they are outside of the function.
    tails: Vec<(Tail, bool)>,
    found: Exits,
}

impl Walk<'_> {
    fn take(&mut self, piece: Piece, is_elsewhere: bool) {
        for address in piece.returns {
            self.enter(address, is_elsewhere, |places| &mut places.returns);
        }
        for address in piece.last {
            self.enter(address, is_elsewhere, |places| &mut places.last);
        }
        for jump in piece.out {
            self.open.push((jump, is_elsewhere));
        }
        self.tails
            .extend(piece.tails.into_iter().map(|tail| (tail, is_elsewhere)));
    }

    /// Adds the jumps before each return, or the return itself if it can be reached without one.
    fn cover(&mut self) {
        for (tail, is_elsewhere) in std::mem::take(&mut self.tails) {
            let image = self.finder.image;
            let place = |jump: &TailJump| {
                Some(LastJump {
                    offset: image.file_offset(LinkAddress(jump.at))?,
                    condition: jump.condition,
                    is_taken: jump.is_taken,
                    depth: tail.depth_at(jump.to)?,
                })
            };
            let places = self.found.places(is_elsewhere);
            let jumps: Option<Vec<LastJump>> = tail.jumps.iter().map(place).collect();
            match jumps.filter(|jumps| tail.is_closed && !jumps.is_empty()) {
                Some(jumps) => places.jumps.extend(jumps),
                None => places
                    .beside_jumps
                    .extend(image.file_offset(LinkAddress(tail.at_return))),
            }
        }
        for places in [&mut self.found.own, &mut self.found.elsewhere] {
            places.jumps.sort_unstable();
            places.jumps.dedup();
        }
    }

    /// Records a jump into a piece that was already scanned.
    fn come_back(&mut self, jump: &JumpOut, address: u64) {
        for (tail, _) in &mut self.tails {
            if tail.depth_at(address).is_some() {
                tail.jumps.push(TailJump {
                    at: jump.at,
                    to: address,
                    condition: jump.condition,
                    is_taken: true,
                });
                tail.is_closed &= jump.is_done_by_kernel;
            }
        }
    }

    fn enter(
        &mut self,
        address: u64,
        is_elsewhere: bool,
        list: impl Fn(&mut Places) -> &mut Vec<FileOffset>,
    ) {
        let places = self.found.places(is_elsewhere);
        match self.finder.image.file_offset(LinkAddress(address)) {
            Some(offset) if !list(places).contains(&offset) => list(places).push(offset),
            Some(_) => {}
            None => self.found.unknown += 1,
        }
    }

    fn follow(&mut self) {
        while let Some((jump, is_elsewhere)) = self.open.pop() {
            let slot = match jump.to {
                JumpTarget::Code(address) if self.done.iter().any(|piece| piece.contains(&address)) => {
                    self.come_back(&jump, address);
                    continue;
                }
                JumpTarget::Code(address) => self.finder.stub_at(address),
                JumpTarget::Slot(slot) => Some(slot),
            };
            let target = match (slot, jump.to) {
                (Some(slot), _) => self
                    .finder
                    .image
                    .function_stored_at(LinkAddress(slot))
                    .filter(|_| self.is_alias),
                (None, JumpTarget::Code(address)) => Some(LinkAddress(address)),
                (None, JumpTarget::Slot(_)) => None,
            };
            match target {
                Some(target) if self.enter_piece(target.0) => self.come_back(&jump, target.0),
                None if jump.is_always => self.enter(jump.at, is_elsewhere, |places| &mut places.last),
                // A conditional exit: a probe on the jump cannot know whether it is taken.
                _ => self.found.unknown += 1,
            }
        }
    }

    /// False if the code at `address` belongs to no known piece, or cannot be read.
    fn enter_piece(&mut self, address: u64) -> bool {
        if self.done.iter().any(|piece| piece.contains(&address)) {
            return true;
        }
        let place = self
            .finder
            .piece_at(address)
            .filter(|_| self.done.len() <= PIECES_MAX);
        let read = |place: &Range<u64>| {
            let ends = |address| self.finder.never_returns(address);
            scan(&self.finder.code(place.clone())?, place.start, &ends).ok()
        };
        let Some((place, piece)) = place.and_then(|place| Some((place.clone(), read(&place)?))) else {
            return false;
        };
        self.done.push(place);
        self.take(piece, true);
        true
    }
}
