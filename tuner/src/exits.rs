//! Where a function is left: by return instructions of its own, by those of code that it jumps to, or by its last jump. Machine code of
//! x86-64 only; changes nothing.

use std::cell::OnceCell;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::address::{FileOffset, LinkAddress};
use crate::code::{CodeError, bytes_of};
use crate::image::Image;
use crate::symbol::Function;

/// A function that goes on in more pieces of code than this is not followed through all of them.
const PIECES_MAX: usize = 64;
/// Nor through one that is longer, in bytes.
const PIECE_BYTES_MAX: u64 = 1 << 20;
/// How far before a computed jump it is looked for how its target is computed, in instructions.
const LOOK_BACK: usize = 6;

/// Where a function is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exits {
    /// By what stands in the function itself.
    pub own: Places,
    /// By what stands in other code of its file: parts that the compiler moved away, and functions that it calls in its last position.
    /// Other functions may be left there, too.
    pub elsewhere: Places,
    /// Jumps that were not followed: calls that leave by them are not seen to end.
    pub unknown: usize,
}

/// Instructions that end a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Return instructions that take the return address off the stack, nothing more.
    pub returns: Vec<FileOffset>,
    /// The last instructions that are known: a jump to another file or to a computed place, where the call goes on unseen, or a return
    /// that takes more off the stack.
    pub last: Vec<FileOffset>,
}

/// Finds the exits of functions of one file. What it reads of the file for that is kept as long as it is.
#[derive(Debug)]
pub struct ExitFinder<'a> {
    image: &'a Image,
    pieces: OnceCell<Pieces>,
}

impl<'a> ExitFinder<'a> {
    /// Reads nothing yet.
    pub fn new(image: &'a Image) -> ExitFinder<'a> {
        ExitFinder {
            image,
            pieces: OnceCell::new(),
        }
    }

    /// Where a function is left.
    pub fn exits(&self, function: &Function) -> Result<Exits, CodeError> {
        let bytes = bytes_of(self.image, function)?;
        let own = scan(&bytes, function.address.0).map_err(|offset| CodeError::NotCode {
            name: function.names.first().cloned().unwrap_or_default(),
            offset,
        })?;
        let mut walk = Walk {
            finder: self,
            // One that never returns by itself is what it jumps to, under another name.
            is_alias: own.returns.is_empty(),
            done: vec![function.address.0..function.address.0 + function.size],
            open: Vec::new(),
            found: Exits::default(),
        };
        walk.take(own, false);
        walk.follow();
        Ok(walk.found)
    }

    fn piece_at(&self, address: u64) -> Option<Range<u64>> {
        self.pieces.get_or_init(|| Pieces::of(self.image)).at(address)
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

    /// The word of a table through which the code at this address jumps to another file.
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

/// One search.
struct Walk<'a> {
    finder: &'a ExitFinder<'a>,
    is_alias: bool,
    /// Code that was looked at.
    done: Vec<Range<u64>>,
    /// Jumps that are to be followed, and whether they stand elsewhere.
    open: Vec<(JumpOut, bool)>,
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
    }

    fn enter(&mut self, address: u64, is_elsewhere: bool, list: impl Fn(&mut Places) -> &mut Vec<FileOffset>) {
        let places = match is_elsewhere {
            true => &mut self.found.elsewhere,
            false => &mut self.found.own,
        };
        match self.finder.image.file_offset(LinkAddress(address)) {
            Some(offset) if !list(places).contains(&offset) => list(places).push(offset),
            Some(_) => {}
            None => self.found.unknown += 1,
        }
    }

    fn follow(&mut self) {
        while let Some((jump, is_elsewhere)) = self.open.pop() {
            let slot = match jump.to {
                Target::Code(address) if self.done.iter().any(|piece| piece.contains(&address)) => continue,
                Target::Code(address) => self.finder.stub_at(address),
                Target::Slot(slot) => Some(slot),
            };
            let target = match (slot, jump.to) {
                (Some(slot), _) => self
                    .finder
                    .image
                    .function_stored_at(LinkAddress(slot))
                    .filter(|_| self.is_alias),
                (None, Target::Code(address)) => Some(LinkAddress(address)),
                (None, Target::Slot(_)) => None,
            };
            match target {
                Some(target) if self.enter_piece(target.0) => {}
                None if jump.is_always => self.enter(jump.at, is_elsewhere, |places| &mut places.last),
                // It is left only sometimes by this jump: a probe there cannot tell when.
                _ => self.found.unknown += 1,
            }
        }
    }

    /// False where it is not known what the code there belongs to, or it cannot be read.
    fn enter_piece(&mut self, address: u64) -> bool {
        if self.done.iter().any(|piece| piece.contains(&address)) {
            return true;
        }
        let place = self
            .finder
            .piece_at(address)
            .filter(|_| self.done.len() <= PIECES_MAX);
        let read = |place: &Range<u64>| scan(&self.finder.code(place.clone())?, place.start).ok();
        let Some((place, piece)) = place.and_then(|place| Some((place.clone(), read(&place)?))) else {
            return false;
        };
        self.done.push(place);
        self.take(piece, true);
        true
    }
}

/// What was found in one piece of code, by addresses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Piece {
    returns: Vec<u64>,
    last: Vec<u64>,
    out: Vec<JumpOut>,
}

/// A jump that leaves its piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JumpOut {
    at: u64,
    to: Target,
    is_always: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    /// An instruction.
    Code(u64),
    /// Whatever the word at this address says.
    Slot(u64),
}

fn decode(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter()
}

/// Looks at all instructions of a piece; the error is the distance of what is none.
fn scan(bytes: &[u8], start: u64) -> Result<Piece, u64> {
    let inside = start..start + bytes.len() as u64;
    let mut found = Piece::default();
    let mut before: Vec<Instruction> = Vec::new();
    for instruction in decode(bytes, start) {
        let at = instruction.ip();
        if instruction.is_invalid() {
            return Err(at - start);
        }
        match instruction.flow_control() {
            FlowControl::Return if instruction.code() == Code::Retnq => found.returns.push(at),
            FlowControl::Return if instruction.mnemonic() == Mnemonic::Ret => found.last.push(at),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
                if instruction.op0_kind() == OpKind::NearBranch64 =>
            {
                let target = instruction.near_branch64();
                if !inside.contains(&target) {
                    found.out.push(JumpOut {
                        at,
                        to: Target::Code(target),
                        is_always: instruction.flow_control() == FlowControl::UnconditionalBranch,
                    });
                }
            }
            FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                found.out.push(JumpOut {
                    at,
                    to: Target::Slot(instruction.ip_rel_memory_address()),
                    is_always: true,
                });
            }
            FlowControl::IndirectBranch if !stays_inside(&instruction, &before) => found.last.push(at),
            _ => {}
        }
        before.push(instruction);
    }
    Ok(found)
}

/// Whether a computed jump is one of a table of the function's own places (`switch`): compilers add what the table says to where it
/// stands, or jump through the table itself. What a function calls in its last position comes from a record or an argument.
fn stays_inside(jump: &Instruction, before: &[Instruction]) -> bool {
    if jump.op0_kind() == OpKind::Memory {
        return jump.memory_index() != Register::None;
    }
    let target = jump.op0_register().full_register();
    let sets = |instruction: &&Instruction| {
        instruction.op0_kind() == OpKind::Register && instruction.op0_register().full_register() == target
    };
    let last = before.iter().rev().take(LOOK_BACK).find(sets);
    last.is_some_and(|last| {
        let is_of_table = last.op1_kind() == OpKind::Memory && last.memory_index() != Register::None;
        last.mnemonic() == Mnemonic::Add || (last.mnemonic() == Mnemonic::Mov && is_of_table)
    })
}

/// What the file's unwind tables describe as one piece.
#[cfg(target_arch = "x86_64")]
#[derive(Debug)]
struct Pieces(Option<crate::arch::x86_64::unwind::Tables>);

#[cfg(target_arch = "x86_64")]
impl Pieces {
    fn of(image: &Image) -> Pieces {
        Pieces(crate::arch::x86_64::unwind::Tables::read(image))
    }

    fn at(&self, address: u64) -> Option<Range<u64>> {
        let piece = self.0.as_ref()?.piece_at(LinkAddress(address))?;
        let piece = piece.start.0..piece.end.0;
        piece.contains(&address).then_some(piece)
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[derive(Debug)]
struct Pieces;

#[cfg(not(target_arch = "x86_64"))]
impl Pieces {
    fn of(_: &Image) -> Pieces {
        Pieces
    }

    fn at(&self, _: u64) -> Option<Range<u64>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(code: &[u8]) -> Piece {
        scan(code, 0x1000).unwrap()
    }

    #[test]
    fn returns_and_jumps_out_are_told_from_what_looks_like_them() {
        let found = scanned(&[
            0xb8, 0xc3, 0, 0, 0, // 0: mov eax, 0xc3, the byte of a return inside another instruction
            0x75, 0x01, // 5: jne 8
            0xc3, // 7: ret
            0xeb, 0x02, // 8: jmp 12
            0xf3, 0xc3, // 10: rep ret
            0xe9, 0x00, 0x10, 0x00, 0x00, // 12: jmp 0x2011: a call in the last position
            0x0f, 0x84, 0x00, 0x10, 0x00, 0x00, // 17: je 0x2017
            0xff, 0x25, 0x00, 0x10, 0x00, 0x00, // 23: jmp [rip + 0x1000]
            0xc2, 0x08, 0x00, // 29: ret 8
        ]);
        let out = |at, to, is_always| JumpOut { at, to, is_always };
        assert_eq!(
            found,
            Piece {
                returns: vec![0x1007, 0x100a],
                last: vec![0x101d],
                out: vec![
                    out(0x100c, Target::Code(0x2011), true),
                    out(0x1011, Target::Code(0x2017), false),
                    out(0x1017, Target::Slot(0x201d), true),
                ],
            }
        );
    }

    #[test]
    fn a_switch_is_told_from_a_function_that_is_called_last() {
        let own_table = [0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0]; // movsxd rax, [rdx+rax*4]; add rax, rdx; jmp rax
        let through_table = [0xff, 0x24, 0xc5, 0, 0, 0, 0]; // jmp [rax*8]
        let loaded = [0x48, 0x8b, 0x04, 0xc2, 0xff, 0xe0]; // mov rax, [rdx+rax*8]; jmp rax
        let of_record = [0x48, 0x8b, 0x40, 0x40, 0xff, 0xe0]; // mov rax, [rax+64]; jmp rax
        let of_argument = [0xff, 0xe7]; // jmp rdi
        for (code, is_last) in [
            (&own_table[..], false),
            (&through_table, false),
            (&loaded, false),
            (&of_record, true),
            (&of_argument, true),
        ] {
            assert_eq!(!scanned(code).last.is_empty(), is_last, "{code:x?}");
        }
    }

    #[test]
    fn what_is_no_instruction_is_an_error_with_its_place() {
        assert_eq!(scan(&[0x90, 0x06], 0), Err(1));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = scan(&bytes, 1 << 40);
        }
    }
}
