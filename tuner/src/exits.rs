//! Where a function is left: by return instructions of its own, by those of code that it jumps to, or by its last jump. Machine code of
//! x86-64 only; changes nothing.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::address::{FileOffset, LinkAddress};
use crate::code::{CodeError, bytes_of};
use crate::image::Image;
use crate::image::slots::Stored;
use crate::symbol::Function;

/// A function that goes on in more pieces of code than this is not followed through all of them.
const PIECES_MAX: usize = 64;
/// Nor through one that is longer, in bytes.
const PIECE_BYTES_MAX: u64 = 1 << 20;
/// More instructions before a return are not taken for its last ones.
const TAIL_MAX: usize = 32;
/// Nor those of a function with a larger frame, in bytes.
const DEPTH_MAX: u16 = 32_760;
/// Where more instructions than this may follow a jump it is not looked whether they lead back to it.
const LOOP_MAX: usize = 20_000;
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
    /// Jumps from which nothing but the last instructions before a return follows, which call nobody and write nothing to memory. A
    /// kernel that single-steps returns does jumps by itself.
    pub jumps: Vec<LastJump>,
    /// Those of the return instructions that a call may come to without such a jump.
    pub beside_jumps: Vec<FileOffset>,
    /// The last instructions that are known: a jump to another file or to a computed place, where the call goes on unseen, or a return
    /// that takes more off the stack.
    pub last: Vec<FileOffset>,
}

/// A jump that ends a call, or does not: then its function goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LastJump {
    /// Where it stands.
    pub offset: FileOffset,
    /// The number that the processor has for its condition; none where it always jumps.
    pub condition: Option<u8>,
    /// The call ends where it jumps; else where it does not.
    pub is_taken: bool,
    /// How far the stack pointer is from the return address there, in bytes.
    pub depth: u16,
}

/// Finds the exits of functions of one file. What it reads of the file for that is kept as long as it is.
#[derive(Debug)]
pub struct ExitFinder<'a> {
    image: &'a Image,
    pieces: OnceCell<Pieces>,
    /// The words through which the file calls what never returns.
    never_return: OnceCell<BTreeSet<u64>>,
}

impl<'a> ExitFinder<'a> {
    /// Reads nothing yet.
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
        let own =
            scan(&bytes, function.address.0, &|address| self.never_returns(address)).map_err(|offset| {
                CodeError::NotCode {
                    name: function.names.first().cloned().unwrap_or_default(),
                    offset,
                }
            })?;
        let whole = function.address.0..function.address.0 + function.size;
        let mut walk = Walk {
            finder: self,
            // One that never returns by itself is what it jumps to, under another name.
            is_alias: own.returns.is_empty(),
            done: [whole].into(),
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
    /// The ends of the pieces, and whether they stand elsewhere.
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

    /// Enters the jumps before each return, or itself where not every way to it has one.
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
            let places = match is_elsewhere {
                true => &mut self.found.elsewhere,
                false => &mut self.found.own,
            };
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

    /// A jump into a piece that was looked at before.
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
                Target::Code(address) if self.done.iter().any(|piece| piece.contains(&address)) => {
                    self.come_back(&jump, address);
                    continue;
                }
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
                Some(target) if self.enter_piece(target.0) => self.come_back(&jump, target.0),
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

/// What was found in one piece of code, by addresses.
#[derive(Debug, Default, PartialEq, Eq)]
struct Piece {
    returns: Vec<u64>,
    last: Vec<u64>,
    out: Vec<JumpOut>,
    tails: Vec<Tail>,
}

/// The last instructions before a return, which follow each other.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tail {
    /// Each with the distance of the stack pointer from the return address before it, the return itself included.
    instructions: Vec<(u64, u16)>,
    at_return: u64,
    /// The jumps by which they are come to.
    jumps: Vec<TailJump>,
    /// Nobody comes there another way.
    is_closed: bool,
}

impl Tail {
    fn depth_at(&self, address: u64) -> Option<u16> {
        let found = self.instructions.iter().find(|(at, _)| *at == address);
        found.map(|(_, depth)| *depth)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TailJump {
    at: u64,
    /// Where it leads if the call ends.
    to: u64,
    condition: Option<u8>,
    is_taken: bool,
}

/// A jump that leaves its piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct JumpOut {
    at: u64,
    to: Target,
    is_always: bool,
    condition: Option<u8>,
    /// The kernel carries it out by itself.
    is_done_by_kernel: bool,
}

impl JumpOut {
    fn of(jump: &Instruction, to: Target) -> JumpOut {
        let is_direct = jump.op0_kind() == OpKind::NearBranch64;
        let is_always = jump.flow_control() != FlowControl::ConditionalBranch;
        JumpOut {
            at: jump.ip(),
            to,
            is_always,
            condition: condition(jump),
            is_done_by_kernel: is_direct && (is_always || condition(jump).is_some()),
        }
    }
}

/// The number of a conditional jump's condition; none of what looks at a register (`jrcxz`, `loop`).
fn condition(jump: &Instruction) -> Option<u8> {
    let number = (jump.condition_code() as u8).checked_sub(1);
    number.filter(|_| jump.is_jcc_short_or_near())
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
fn scan(bytes: &[u8], start: u64, never_returns: &dyn Fn(u64) -> bool) -> Result<Piece, u64> {
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
                    found.out.push(JumpOut::of(&instruction, Target::Code(target)));
                }
            }
            FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                let slot = instruction.ip_rel_memory_address();
                found.out.push(JumpOut::of(&instruction, Target::Slot(slot)));
            }
            FlowControl::IndirectBranch if !stays_inside(&instruction, &before) => found.last.push(at),
            _ => {}
        }
        before.push(instruction);
    }
    let returns = before.iter().enumerate();
    let returns = returns.filter(|(_, instruction)| instruction.code() == Code::Retnq);
    found.tails = returns
        .map(|(place, _)| tail(&before, place, never_returns))
        .collect();
    Ok(found)
}

/// The instructions before the return at this place, and how they are come to.
fn tail(all: &[Instruction], at_return: usize, never_returns: &dyn Fn(u64) -> bool) -> Tail {
    let mut tail = Tail {
        at_return: all[at_return].ip(),
        // Where a table leads nobody follows.
        is_closed: !all
            .iter()
            .any(|other| other.flow_control() == FlowControl::IndirectBranch),
        instructions: vec![(all[at_return].ip(), 0)],
        ..Tail::default()
    };
    let (mut depth, mut is_bounded) = (0_u16, false);
    for before in all[..at_return].iter().rev() {
        match before.flow_control() {
            FlowControl::Next => match moved(before).and_then(|moved| depth.checked_add(moved)) {
                Some(deeper) if tail.instructions.len() < TAIL_MAX && deeper <= DEPTH_MAX => depth = deeper,
                _ => tail.is_closed = false,
            },
            FlowControl::ConditionalBranch => {
                tail.is_closed &= condition(before).is_some();
                tail.jumps.push(TailJump {
                    at: before.ip(),
                    to: before.next_ip(),
                    condition: condition(before),
                    is_taken: false,
                });
                is_bounded = true;
                break;
            }
            FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::IndirectBranch => {
                is_bounded = true;
                break;
            }
            // A call, after which the function may go on.
            _ => tail.is_closed = false,
        }
        if !tail.is_closed {
            break;
        }
        tail.instructions.push((before.ip(), depth));
    }
    // From the function's begin on there may be no jump at all.
    tail.is_closed &= is_bounded;
    let leads = |jump: &&Instruction| {
        jump.op0_kind() == OpKind::NearBranch64
            && jump.flow_control() != FlowControl::Call
            && tail.depth_at(jump.near_branch64()).is_some()
    };
    let found: Vec<JumpOut> = all
        .iter()
        .filter(leads)
        .map(|jump| JumpOut::of(jump, Target::Code(jump.near_branch64())))
        .collect();
    // A jump of a loop is come to again and again before the call ends.
    let is_in_loop = tail.jumps.iter().any(|jump| jump.is_in_loop(all, never_returns));
    tail.is_closed &= !is_in_loop;
    for jump in found {
        tail.is_closed &= jump.is_done_by_kernel;
        if let Target::Code(to) = jump.to {
            let jump = TailJump {
                at: jump.at,
                to,
                condition: jump.condition,
                is_taken: true,
            };
            tail.is_closed &= !jump.is_in_loop(all, never_returns);
            tail.jumps.push(jump);
        }
    }
    tail
}

impl TailJump {
    /// Whether the function may come to it again where the call does not end there.
    fn is_in_loop(&self, all: &[Instruction], never_returns: &dyn Fn(u64) -> bool) -> bool {
        let place = |address: u64| all.binary_search_by_key(&address, Instruction::ip).ok();
        let (Some(jump), Some(_)) = (place(self.at), self.condition) else {
            return false;
        };
        let jump = &all[jump];
        let other = if self.is_taken {
            jump.next_ip()
        } else {
            jump.near_branch64()
        };
        let (mut open, mut seen) = (vec![other], BTreeSet::new());
        while let Some(mut address) = open.pop() {
            while let Some(next) = place(address).map(|place| &all[place]) {
                if address == self.at || seen.len() > LOOP_MAX {
                    return true;
                }
                if !seen.insert(address) {
                    break;
                }
                match next.flow_control() {
                    FlowControl::UnconditionalBranch => address = next.near_branch64(),
                    FlowControl::Return | FlowControl::IndirectBranch => break,
                    FlowControl::Call if never_returns(next.near_branch64()) => break,
                    FlowControl::ConditionalBranch => {
                        open.push(next.near_branch64());
                        address = next.next_ip();
                    }
                    _ => address = next.next_ip(),
                }
            }
        }
        false
    }
}

/// How far an instruction moves the stack pointer towards the return address, in bytes; none for one that does more than that or
/// computing in registers.
fn moved(instruction: &Instruction) -> Option<u16> {
    let to_register = instruction.op0_kind() == OpKind::Register;
    let is_stack_pointer = to_register && instruction.op0_register().full_register() == Register::RSP;
    match instruction.mnemonic() {
        Mnemonic::Pop if to_register && !is_stack_pointer => Some(8),
        Mnemonic::Add if is_stack_pointer => u16::try_from(instruction.try_immediate(1).ok()?).ok(),
        Mnemonic::Nop | Mnemonic::Endbr64 => Some(0),
        Mnemonic::Push | Mnemonic::Leave | Mnemonic::Xchg => None,
        _ if is_stack_pointer || !to_register => None,
        _ => Some(0),
    }
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
        scan(code, 0x1000, &|_| false).unwrap()
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
        assert_eq!((found.returns, found.last), (vec![0x1007, 0x100a], vec![0x101d]));
        let out = found.out.iter().map(|jump| (jump.at, jump.to, jump.is_always));
        assert_eq!(
            out.collect::<Vec<_>>(),
            [
                (0x100c, Target::Code(0x2011), true),
                (0x1011, Target::Code(0x2017), false),
                (0x1017, Target::Slot(0x201d), true),
            ]
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

    /// Where it stands, its condition, whether the call ends where it jumps, and the depth.
    type Jump = (u64, Option<u8>, bool, u16);

    /// The jumps of the only return; none where it may be come to without one.
    fn jumps(code: &[u8]) -> Option<Vec<Jump>> {
        let found = scanned(code);
        let [tail] = found.tails.as_slice() else {
            panic!("one return in {code:x?}")
        };
        let of = |jump: &TailJump| {
            let depth = tail.depth_at(jump.to).unwrap();
            (jump.at - 0x1000, jump.condition, jump.is_taken, depth)
        };
        tail.is_closed.then(|| tail.jumps.iter().map(of).collect())
    }

    #[test]
    fn the_jumps_before_a_return_are_found_where_every_way_has_one() {
        let usual = [
            0x53, // 0: push rbx
            0x85, 0xff, // 1: test edi, edi
            0x78, 0x0e, // 3: js 19
            0x48, 0x83, 0xec, 0x10, // 5: sub rsp, 16
            0xff, 0xd0, // 9: call rax
            0x85, 0xc0, // 11: test eax, eax
            0x75, 0x08, // 13: jne 23
            0x48, 0x83, 0xc4, 0x10, // 15: add rsp, 16
            0x89, 0xd8, // 19: mov eax, ebx
            0x5b, // 21: pop rbx
            0xc3, // 22: ret
            0xff, 0xd0, // 23: call rax
        ];
        let expected = [(13, Some(5), false, 24), (3, Some(8), true, 8)];
        assert_eq!(jumps(&usual), Some(expected.to_vec()));
        let by_jump_alone = [0xeb, 0x01, 0xcc, 0x5b, 0xc3]; // jmp 3; int3; pop rbx; ret
        assert_eq!(jumps(&by_jump_alone), None, "int3 may go on");
        let behind_jump = [0x74, 0x02, 0xeb, 0x10, 0x5b, 0xc3]; // je 4; jmp 20; pop rbx; ret
        assert_eq!(jumps(&behind_jump), Some(vec![(0, Some(4), true, 8)]));
        for other in [
            &[0xff, 0xd0, 0x5b, 0xc3][..],                  // call rax; pop rbx; ret
            &[0xff, 0xcf, 0x75, 0xfc, 0xc3],                // dec edi; jne 0; ret: a loop
            &[0x74, 0x04, 0xff, 0xd0, 0xeb, 0xfa, 0xc3],    // je 6; call rax; jmp 0; ret: another one
            &[0x74, 0x00, 0xc9, 0xc3],                      // je 2; leave; ret
            &[0x74, 0x00, 0x48, 0x89, 0xc4, 0xc3],          // je 2; mov rsp, rax; ret
            &[0x74, 0x00, 0x89, 0x07, 0xc3],                // je 2; mov [rdi], eax; ret
            &[0xe3, 0x00, 0xc3],                            // jrcxz 2; ret
            &[0xff, 0x24, 0xc5, 0, 0, 0, 0, 0x74, 0, 0xc3], // jmp [rax*8]; je 9; ret
            &[0x90, 0xc3], // nop; ret: from the function's begin on there is no jump
        ] {
            assert!(jumps(other).is_none_or(|jumps| jumps.is_empty()), "{other:x?}");
        }
    }

    #[test]
    fn what_is_no_instruction_is_an_error_with_its_place() {
        assert_eq!(scan(&[0x90, 0x06], 0, &|_| false), Err(1));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = scan(&bytes, 1 << 40, &|_| false);
        }
    }
}
