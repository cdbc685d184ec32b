//! Analysis of a function's code for patches: instruction boundaries, jumps, and which instructions can be
//! moved.

use std::ops::Range;

use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, IcedError, Instruction,
    InstructionBlock, MemoryOperand, OpKind, Register,
};
use thiserror::Error;

use crate::address::Address;

/// `jmp rel32`
pub(crate) const JUMP_BYTES: usize = 5;
/// A function longer than this is not decoded.
pub(crate) const FUNCTION_BYTES_MAX: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Why instructions cannot make room for a jump.
#[derive(Debug, Error)]
pub(crate) enum NotMovable {
    #[error("it takes {length} bytes, a jump takes {JUMP_BYTES}")]
    TooShort { length: usize },
    #[error("the jump at {at:#x} leads back to its first instruction: not only its callers come there")]
    Loop { at: u64 },
    #[error("the {length} bytes at {start} lie in two pages, which cannot be changed in one step")]
    TwoPages { start: Address, length: usize },
    #[error("the instruction at {at:#x} jumps to {target:#x}, between the bytes to be changed")]
    Target { at: u64, target: u64 },
    #[error("the instruction `{mnemonic}` at {at:#x} would have to be moved")]
    Instruction { at: u64, mnemonic: String },
    #[error("no instruction is there")]
    NoInstruction,
    #[error("the return at {at:#x} has room for {room} of the {JUMP_BYTES} bytes of a jump")]
    NoRoom { at: u64, room: usize },
    #[error("it cannot be copied: {0}")]
    NotCopied(IcedError),
    #[error("its first instructions cannot be moved: {0}")]
    NotMoved(IcedError),
    #[error("its call at {at:#x} cannot be moved")]
    Call { at: u64 },
    #[error("no machine code could be made: {0}")]
    NotAssembled(IcedError),
}

impl From<IcedError> for NotMovable {
    fn from(error: IcedError) -> NotMovable {
        NotMovable::NotAssembled(error)
    }
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) start: Address,
    /// As in the file.
    pub(crate) bytes: Vec<u8>,
    pub(crate) instructions: Vec<Instruction>,
}

/// Instructions that make room for a jump.
#[derive(Debug, Clone)]
pub(crate) struct Displaced {
    pub(crate) start: Address,
    /// Their length in bytes, at least that of a jump.
    pub(crate) length: usize,
    pub(crate) instructions: Vec<Instruction>,
}

impl Displaced {
    /// The addresses strictly inside: no thread may be at or return to one.
    pub(crate) fn inside(&self) -> Range<u64> {
        self.start.0 + 1..self.start.0 + self.length as u64
    }

    fn end(&self) -> Address {
        Address(self.start.0 + self.length as u64)
    }
}

impl Body {
    /// Decodes `bytes`, which run at `start`. The error is the address of an invalid instruction.
    pub(crate) fn decode(start: Address, bytes: Vec<u8>) -> Result<Body, u64> {
        let mut instructions = Vec::new();
        for instruction in &mut Decoder::with_ip(64, &bytes, start.0, DecoderOptions::NONE) {
            if instruction.is_invalid() {
                return Err(instruction.ip() - start.0);
            }
            instructions.push(instruction);
        }
        Ok(Body {
            start,
            bytes,
            instructions,
        })
    }

    pub(crate) fn end(&self) -> u64 {
        self.start.0 + self.bytes.len() as u64
    }

    /// The bytes of the file from `start` on.
    pub(crate) fn bytes_at(&self, start: Address, length: usize) -> Option<&[u8]> {
        let from = usize::try_from(start.0.checked_sub(self.start.0)?).ok()?;
        self.bytes.get(from..from.checked_add(length)?)
    }

    /// Its first instructions, as many as make room for a jump.
    pub(crate) fn entry(&self) -> Result<Displaced, NotMovable> {
        let mut length = 0;
        let mut instructions = Vec::new();
        for instruction in &self.instructions {
            instructions.push(*instruction);
            length += instruction.len();
            if length >= JUMP_BYTES {
                break;
            }
        }
        if length < JUMP_BYTES {
            return Err(NotMovable::TooShort { length });
        }
        let displaced = self.check(Displaced {
            start: self.start,
            length,
            instructions,
        })?;
        match self.branches().find(|(_, target)| *target == self.start.0) {
            Some((at, _)) => Err(NotMovable::Loop { at }),
            None => Ok(displaced),
        }
    }

    fn check(&self, displaced: Displaced) -> Result<Displaced, NotMovable> {
        let Displaced {
            start,
            length,
            instructions,
        } = &displaced;
        if start.0 % PAGE + *length as u64 > PAGE {
            return Err(NotMovable::TwoPages {
                start: *start,
                length: *length,
            });
        }
        let inside = displaced.inside();
        if let Some((at, target)) = self.branches().find(|(_, target)| inside.contains(target)) {
            return Err(NotMovable::Target { at, target });
        }
        let last = instructions.len() - 1;
        for (index, instruction) in instructions.iter().enumerate() {
            let flow = instruction.flow_control();
            let leaves = !matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch);
            if matches!(instruction.code(), Code::Syscall | Code::Sysenter) || (leaves && index < last) {
                return Err(NotMovable::Instruction {
                    at: instruction.ip(),
                    mnemonic: mnemonic(instruction),
                });
            }
        }
        Ok(displaced)
    }

    /// Addresses and targets of its direct jumps.
    fn branches(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let branches = self.instructions.iter().filter(|instruction| {
            let direct = matches!(instruction.op0_kind(), OpKind::NearBranch64);
            direct && !matches!(instruction.flow_control(), FlowControl::Call)
        });
        branches.map(|instruction| (instruction.ip(), instruction.near_branch64()))
    }

    /// Its jumps to code outside of it.
    pub(crate) fn jumps_out(&self) -> impl Iterator<Item = &Instruction> + '_ {
        let inside = self.start.0..self.end();
        self.instructions
            .iter()
            .filter(move |instruction| match instruction.flow_control() {
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    !inside.contains(&instruction.near_branch64())
                }
                _ => false,
            })
    }

    pub(crate) fn returns(&self) -> impl Iterator<Item = &Instruction> + '_ {
        let is_return = |instruction: &&Instruction| instruction.flow_control() == FlowControl::Return;
        self.instructions.iter().filter(is_return)
    }

    /// Room for a jump that ends with the return instruction `at`, or with the padding behind it: if the
    /// return is the last instruction, `padding` bytes behind it may be used.
    pub(crate) fn room_at_return(&self, at: u64, padding: usize) -> Result<Displaced, NotMovable> {
        let Some(last) = self
            .instructions
            .iter()
            .position(|instruction| instruction.ip() == at)
        else {
            return Err(NotMovable::NoInstruction);
        };
        let end = self.instructions[last].next_ip();
        let behind = if end == self.end() {
            padding
        } else {
            self.filling_from(last + 1)
        };
        let targets: Vec<u64> = self.branches().map(|(_, target)| target).collect();
        let mut first = last;
        loop {
            let start = self.instructions[first].ip();
            let own = (end - start) as usize;
            if own + behind >= JUMP_BYTES {
                let length = own.max(JUMP_BYTES);
                return self.check(Displaced {
                    start: Address(start),
                    length,
                    instructions: self.instructions[first..=last].to_vec(),
                });
            }
            let is_target = targets.contains(&start);
            let before = first.checked_sub(1).map(|index| &self.instructions[index]);
            match before {
                Some(before) if !is_target && before.flow_control() == FlowControl::Next => first -= 1,
                _ => {
                    let room = own + behind;
                    return Err(NotMovable::NoRoom { at, room });
                }
            }
        }
    }

    /// A jump with a computed target: a switch, or a tail call through a pointer.
    pub(crate) fn computed_jump(&self) -> Option<&Instruction> {
        let computed = |instruction: &&Instruction| instruction.flow_control() == FlowControl::IndirectBranch;
        self.instructions.iter().find(computed)
    }

    pub(crate) fn has_calls(&self) -> bool {
        let is_call = |flow| matches!(flow, FlowControl::Call | FlowControl::IndirectCall);
        self.instructions
            .iter()
            .any(|instruction| is_call(instruction.flow_control()))
    }

    /// A copy of the function, to run at `at`, with a call of `before` in front of each return. Its own jumps
    /// stay within the copy.
    pub(crate) fn copy(&self, at: Address, before: Address) -> Result<Vec<u8>, NotMovable> {
        let failed = NotMovable::NotCopied;
        let mut copied = Vec::new();
        for instruction in &self.instructions {
            match instruction.flow_control() {
                FlowControl::Return => {
                    // The call gets the return's address, so that jumps to the return reach the call first.
                    let mut call = Instruction::with_branch(Code::Call_rel32_64, before.0).map_err(failed)?;
                    call.set_ip(instruction.ip());
                    let mut back = *instruction;
                    back.set_ip(0);
                    copied.extend([call, back]);
                }
                _ => copied.push(*instruction),
            }
        }
        encode(&copied, at).map_err(failed)
    }

    /// Bytes of padding from an instruction on that no jump targets.
    fn filling_from(&self, index: usize) -> usize {
        let targets: Vec<u64> = self.branches().map(|(_, target)| target).collect();
        let rest = self.instructions.iter().skip(index);
        rest.take_while(|instruction| is_filling(instruction) && !targets.contains(&instruction.ip()))
            .map(Instruction::len)
            .sum()
    }

    /// Its calls of targets that `is_wanted` accepts, and its jumps to them (tail calls).
    pub(crate) fn calls_of(
        &self,
        is_wanted: impl Fn(&Instruction) -> bool,
    ) -> (Vec<Instruction>, Vec<Instruction>) {
        let wanted = self
            .instructions
            .iter()
            .filter(|instruction| is_wanted(instruction));
        wanted.copied().partition(|instruction| {
            matches!(
                instruction.flow_control(),
                FlowControl::Call | FlowControl::IndirectCall
            )
        })
    }
}

/// Whether it only pads between functions.
fn is_filling(instruction: &Instruction) -> bool {
    matches!(
        instruction.code(),
        Code::Nopw | Code::Nopd | Code::Nopq | Code::Nop_rm16 | Code::Nop_rm32 | Code::Nop_rm64 | Code::Int3
    )
}

/// Bytes of padding at the begin of `bytes`.
pub(crate) fn filling(start: Address, bytes: &[u8]) -> usize {
    let mut decoder = Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE);
    decoder
        .iter()
        .take_while(is_filling)
        .map(|instruction| instruction.len())
        .sum()
}

pub(crate) fn mnemonic(instruction: &Instruction) -> String {
    format!("{:?}", instruction.mnemonic()).to_lowercase()
}

/// The target of a direct call or jump.
pub(crate) fn target(instruction: &Instruction) -> Option<Address> {
    matches!(instruction.op0_kind(), OpKind::NearBranch64).then(|| Address(instruction.near_branch64()))
}

/// The word through which it calls or jumps, if that has a fixed address.
pub(crate) fn through(instruction: &Instruction) -> Option<Address> {
    let indirect = matches!(
        instruction.flow_control(),
        FlowControl::IndirectCall | FlowControl::IndirectBranch
    );
    (indirect && instruction.is_ip_rel_memory_operand()).then(|| Address(instruction.ip_rel_memory_address()))
}

/// The word through which the PLT entry at `start` jumps.
pub(crate) fn linkage(start: Address, bytes: &[u8]) -> Option<Address> {
    let mut decoder = Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE);
    let jump = decoder
        .iter()
        .take(3)
        .find(|instruction| instruction.code() != Code::Endbr64)?;
    through(&jump).filter(|_| jump.flow_control() == FlowControl::IndirectBranch)
}

/// A jump from `from` to `to`, padded to `length` bytes; `None` if the target is too far.
pub(crate) fn jump(from: Address, to: Address, length: usize) -> Option<Vec<u8>> {
    let next = from.0.checked_add(JUMP_BYTES as u64)?;
    let distance = i32::try_from(to.0.wrapping_sub(next).cast_signed()).ok()?;
    let mut bytes = vec![0xe9];
    bytes.extend(distance.to_le_bytes());
    bytes.extend(nothing(length.checked_sub(JUMP_BYTES)?));
    Some(bytes)
}

/// Nops of `length` bytes in all.
pub(crate) fn nothing(length: usize) -> Vec<u8> {
    const NOPS: [&[u8]; 9] = [
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    let mut bytes = Vec::new();
    while bytes.len() < length {
        bytes.extend_from_slice(NOPS[(length - bytes.len()).min(NOPS.len()) - 1]);
    }
    bytes
}

/// Addresses in `bytes` (which run at `start`) of byte sequences that look like a direct call or jump to an
/// address in `range`. Searches bytes, not instructions: there may be false positives, but no 32-bit
/// reference is missed.
pub(crate) fn references(start: Address, bytes: &[u8], range: &Range<u64>) -> Vec<Address> {
    let mut found = Vec::new();
    for (at, window) in bytes.windows(5).enumerate() {
        let is_call = matches!(window[0], 0xe8 | 0xe9);
        let is_conditional = window[0] & 0xf0 == 0x80 && at > 0 && bytes[at - 1] == 0x0f;
        if is_call || is_conditional {
            let distance = i32::from_le_bytes([window[1], window[2], window[3], window[4]]);
            let next = start.0 + at as u64 + 5;
            if range.contains(&next.wrapping_add_signed(i64::from(distance))) {
                found.push(Address(start.0 + at as u64 - u64::from(is_conditional)));
            }
        }
    }
    found
}

/// Whether `bytes` (which run at `start`) contain what looks like a reference to `address`: four bytes that
/// are its distance from their end, after the opcode of a call or jump, or after the ModRM byte of an operand
/// relative to the instruction pointer. Searches bytes, not instructions. The byte before is checked because
/// otherwise zeros in the padding before a function would be a reference to it.
pub(crate) fn mentions(start: Address, bytes: &[u8], address: Address) -> bool {
    let distance = |at: usize| address.0.wrapping_sub(start.0 + at as u64 + 4).cast_signed();
    let refers = |before: &[u8]| match before {
        [.., 0x0f, 0x80..=0x8f] | [.., 0xe8 | 0xe9] | [] => true,
        [.., operand] => operand & 0xc7 == 0x05,
    };
    let mut windows = bytes.windows(4).enumerate();
    windows.any(|(at, window)| {
        let found = i32::from_le_bytes([window[0], window[1], window[2], window[3]]);
        i64::from(found) == distance(at) && refers(&bytes[..at])
    })
}

/// The displaced instructions, encoded to run at `at`, followed by a jump back behind the originals if
/// control can reach their end.
pub(crate) fn relocate(displaced: &Displaced, at: Address) -> Result<Vec<u8>, NotMovable> {
    let mut moved = displaced.instructions.clone();
    let Some(last) = moved.last().copied() else {
        return Ok(Vec::new());
    };
    let failed = NotMovable::NotMoved;
    match last.flow_control() {
        FlowControl::Call | FlowControl::IndirectCall => {
            moved.pop();
            moved.extend(call_elsewhere(&last, displaced.end())?);
        }
        FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {}
        _ => moved.push(Instruction::with_branch(Code::Jmp_rel32_64, displaced.end().0).map_err(failed)?),
    }
    encode(&moved, at).map_err(failed)
}

/// A call that pushes the original's return address: stack walkers and unwinders know only the original code.
fn call_elsewhere(call: &Instruction, back: Address) -> Result<Vec<Instruction>, NotMovable> {
    let (low, high) = (back.0 as u32, (back.0 >> 32) as u32);
    let mut jump = *call;
    match call.code() {
        Code::Call_rel32_64 => {
            jump = Instruction::with_branch(Code::Jmp_rel32_64, call.near_branch64())?;
        }
        // The push moves the stack pointer, so an operand relative to it would be wrong.
        Code::Call_rm64 if call.memory_base() != Register::RSP && call.op0_register() != Register::RSP => {
            jump.set_code(Code::Jmp_rm64);
        }
        _ => return Err(NotMovable::Call { at: call.ip() }),
    }
    Ok(vec![
        Instruction::with1(Code::Pushq_imm32, low.cast_signed())?,
        Instruction::with2(
            Code::Mov_rm32_imm32,
            MemoryOperand::with_base_displ(Register::RSP, 4),
            high,
        )?,
        jump,
    ])
}

/// Encodes instructions at `at`; relative operands keep their targets.
pub(crate) fn encode(instructions: &[Instruction], at: Address) -> Result<Vec<u8>, IcedError> {
    let block = InstructionBlock::new(instructions, at.0);
    Ok(BlockEncoder::encode(64, block, BlockEncoderOptions::NONE)?.code_buffer)
}

/// Addresses in `bytes` of what looks like a call or jump through the word at `address`.
pub(crate) fn references_through(start: Address, bytes: &[u8], address: Address) -> Vec<Address> {
    let mut found = Vec::new();
    for (at, window) in bytes.windows(6).enumerate() {
        if window[0] == 0xff && matches!(window[1], 0x15 | 0x25) {
            let distance = i32::from_le_bytes([window[2], window[3], window[4], window[5]]);
            let next = start.0 + at as u64 + 6;
            if next.wrapping_add_signed(i64::from(distance)) == address.0 {
                found.push(Address(start.0 + at as u64));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entry(bytes: &[u8]) -> Result<Displaced, NotMovable> {
        Body::decode(Address(0x1000), bytes.to_vec()).unwrap().entry()
    }

    #[test]
    fn calls_jumps_and_operands_mention_an_address_and_padding_before_it_does_not() {
        let distance = 0xf0_u32.to_le_bytes();
        for (before, is_reference) in [
            (&[0x90, 0xe8][..], true),
            (&[0x90, 0xe9], true),
            (&[0x0f, 0x84], true),
            (&[0x8d, 0x05], true),
            (&[0x8b, 0x3d], true),
            (&[0x48, 0x81], false),
            (&[0x84, 0x00], false),
        ] {
            let bytes = [before, &distance].concat();
            let to = Address(0x1000 + bytes.len() as u64 + 0xf0);
            assert_eq!(mentions(Address(0x1000), &bytes, to), is_reference, "{before:x?}");
        }
        // nopw 0x0(%rax,%rax,1)
        let padding = [0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0];
        assert!(!mentions(Address(0x1000), &padding, Address(0x100a)));
    }

    #[test]
    fn complete_instructions_make_room_for_a_jump() {
        // push rbp; mov rbp, rsp; sub rsp, 16; ret
        let displaced = entry(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x10, 0xc3]).unwrap();
        assert_eq!((displaced.length, displaced.instructions.len()), (8, 3));
        assert_eq!(displaced.inside(), 0x1001..0x1008);
    }

    #[test]
    fn instructions_that_cannot_be_moved_are_refused_with_the_reason() {
        let cases: [(&[u8], &str); 4] = [
            (&[0x90, 0xc3], "it takes 2 bytes, a jump takes 5"),
            (
                &[0x31, 0xc0, 0xff, 0xc0, 0xeb, 0xfc],
                "the instruction at 0x1004 jumps to 0x1002, between the bytes to be changed",
            ),
            (
                &[0x0f, 0x05, 0x90, 0x90, 0x90, 0xc3],
                "the instruction `syscall` at 0x1000 would have to be moved",
            ),
            (
                &[0xff, 0xd0, 0x90, 0x90, 0x90, 0xc3],
                "the instruction `call` at 0x1000 would have to be moved",
            ),
        ];
        for (bytes, why) in cases {
            assert_eq!(entry(bytes).unwrap_err().to_string(), why);
        }
        let body = Body::decode(Address(0x1ffd), vec![0x48, 0x89, 0xe5, 0x48, 0x89, 0xe5, 0xc3]).unwrap();
        assert!(body.entry().unwrap_err().to_string().contains("in two pages"));
    }

    #[test]
    fn a_moved_call_returns_to_the_original() {
        // sub rsp, 8; call 0x2000
        let displaced = entry(&[0x48, 0x83, 0xec, 0x08, 0xe8, 0xf7, 0x0f, 0x00, 0x00, 0xc3]).unwrap();
        let moved = relocate(&displaced, Address(0x10_0000)).unwrap();
        let moved = Body::decode(Address(0x10_0000), moved).unwrap().instructions;
        let shown: Vec<String> = moved.iter().map(mnemonic).collect();
        assert_eq!(shown, ["sub", "push", "mov", "jmp"]);
        assert_eq!(moved[1].immediate32to64(), 0x1009);
        assert_eq!(target(&moved[3]), Some(Address(0x2000)));
    }

    #[test]
    fn a_place_relative_to_the_instruction_stays_what_it_was() {
        // mov rax, [rip + 0x100]
        let displaced = entry(&[0x48, 0x8b, 0x05, 0x00, 0x01, 0x00, 0x00, 0xc3]).unwrap();
        let moved = Body::decode(
            Address(0x10_0000),
            relocate(&displaced, Address(0x10_0000)).unwrap(),
        )
        .unwrap();
        assert_eq!(moved.instructions[0].ip_rel_memory_address(), 0x1107);
        assert_eq!(target(&moved.instructions[1]), Some(Address(0x1007)));
    }

    #[test]
    fn a_return_takes_the_instructions_before_it_or_the_padding_behind() {
        // test edi,edi; je +2 (to 1006); xor eax,eax; pop rbx; ret, padded with nops behind its end
        let bytes = vec![0x85, 0xff, 0x74, 0x02, 0x31, 0xc0, 0x5b, 0xc3];
        let body = Body::decode(Address(0x1000), bytes).unwrap();
        assert_eq!(
            body.room_at_return(0x1007, 0).unwrap_err().to_string(),
            "the return at 0x1007 has room for 2 of the 5 bytes of a jump",
            "a jump leads to the pop"
        );
        let room = body.room_at_return(0x1007, 3).unwrap();
        assert_eq!((room.start, room.length), (Address(0x1006), 5));
        let room = body.room_at_return(0x1007, 15).unwrap();
        assert_eq!((room.start, room.length), (Address(0x1007), 5));
    }

    #[test]
    fn padding_is_as_long_as_requested_and_decodes_to_nops() {
        for length in 0..40 {
            let bytes = nothing(length);
            assert_eq!(bytes.len(), length);
            assert_eq!(filling(Address(0), &bytes), length);
        }
    }

    proptest! {
        #[test]
        fn a_jump_leads_where_it_should(from in 0u64..1 << 47, distance in -(1i64 << 31) + 16..(1i64 << 31) - 16, length in 5usize..20) {
            let to = Address(from.wrapping_add_signed(distance) & ((1 << 47) - 1));
            if let Some(bytes) = jump(Address(from), to, length) {
                prop_assert_eq!(bytes.len(), length);
                let body = Body::decode(Address(from), bytes).unwrap();
                prop_assert_eq!(target(&body.instructions[0]), Some(to));
            }
        }

        #[test]
        fn no_bytes_make_the_analysis_panic(bytes in proptest::collection::vec(any::<u8>(), 0..48)) {
            if let Ok(body) = Body::decode(Address(0x1000), bytes) {
                let _ = body.entry().map(|displaced| relocate(&displaced, Address(0x9000)));
                for instruction in body.returns() {
                    let _ = body.room_at_return(instruction.ip(), 3);
                }
            }
        }
    }
}
