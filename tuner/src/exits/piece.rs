//! One piece of code: its returns, its jumps out, and the last instructions before each return. Follows no
//! jumps.

use std::collections::BTreeSet;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

/// Instructions of the longest tail before a return.
const TAIL_MAX: usize = 32;
/// Bytes of the largest frame for which a tail is taken.
const DEPTH_MAX: u16 = 32_760;
/// Bound on the instructions behind a jump that are checked for leading back to it.
const LOOP_MAX: usize = 20_000;
/// Number of instructions before a computed jump in which the computation of its target is searched.
const LOOK_BACK: usize = 6;

/// The result for one piece of code, by addresses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) returns: Vec<u64>,
    pub(super) last: Vec<u64>,
    pub(super) out: Vec<JumpOut>,
    pub(super) tails: Vec<Tail>,
}

/// Consecutive last instructions before a return.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tail {
    /// Addresses, each with the distance in bytes of the stack pointer from the return address before the
    /// instruction. Includes the return itself.
    pub(super) instructions: Vec<(u64, u16)>,
    pub(super) at_return: u64,
    /// The jumps into them.
    pub(super) jumps: Vec<TailJump>,
    /// They are reached only through these jumps.
    pub(super) is_closed: bool,
}

impl Tail {
    pub(super) fn depth_at(&self, address: u64) -> Option<u16> {
        let found = self.instructions.iter().find(|(at, _)| *at == address);
        found.map(|(_, depth)| *depth)
    }

    /// Adds the instructions before the return, from the last one to the first, as long as execution passes
    /// through all of them.
    fn extend_backwards(&mut self, before: &[Instruction]) {
        let (mut depth, mut is_bounded) = (0_u16, false);
        for instruction in before.iter().rev() {
            match instruction.flow_control() {
                FlowControl::Next => match moved(instruction).and_then(|moved| depth.checked_add(moved)) {
                    Some(deeper) if self.instructions.len() < TAIL_MAX && deeper <= DEPTH_MAX => {
                        depth = deeper
                    }
                    _ => self.is_closed = false,
                },
                FlowControl::ConditionalBranch => {
                    self.is_closed &= condition(instruction).is_some();
                    self.jumps.push(TailJump {
                        at: instruction.ip(),
                        to: instruction.next_ip(),
                        condition: condition(instruction),
                        is_taken: false,
                    });
                    is_bounded = true;
                    break;
                }
                FlowControl::UnconditionalBranch | FlowControl::Return | FlowControl::IndirectBranch => {
                    is_bounded = true;
                    break;
                }
                // A call after which the function may continue.
                _ => self.is_closed = false,
            }
            if !self.is_closed {
                break;
            }
            self.instructions.push((instruction.ip(), depth));
        }
        // Execution from the function's begin may pass no jump at all.
        self.is_closed &= is_bounded;
    }

    fn add_jumps_into_it(&mut self, all: &[Instruction], never_returns: &dyn Fn(u64) -> bool) {
        let leads = |jump: &&Instruction| {
            jump.op0_kind() == OpKind::NearBranch64
                && jump.flow_control() != FlowControl::Call
                && self.depth_at(jump.near_branch64()).is_some()
        };
        let found: Vec<JumpOut> = all
            .iter()
            .filter(leads)
            .map(|jump| JumpOut::of(jump, JumpTarget::Code(jump.near_branch64())))
            .collect();
        for jump in found {
            self.is_closed &= jump.is_done_by_kernel;
            if let JumpTarget::Code(to) = jump.to {
                self.jumps.push(TailJump {
                    at: jump.at,
                    to,
                    condition: jump.condition,
                    is_taken: true,
                });
            }
        }
        // A loop executes its jump repeatedly before the call ends.
        self.is_closed &= !self.jumps.iter().any(|jump| jump.is_in_loop(all, never_returns));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TailJump {
    pub(super) at: u64,
    /// The next address if the call ends.
    pub(super) to: u64,
    pub(super) condition: Option<u8>,
    pub(super) is_taken: bool,
}

/// A jump that leaves its piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JumpOut {
    pub(super) at: u64,
    pub(super) to: JumpTarget,
    pub(super) is_always: bool,
    pub(super) condition: Option<u8>,
    /// The kernel emulates it.
    pub(super) is_done_by_kernel: bool,
}

impl JumpOut {
    pub(super) fn of(jump: &Instruction, to: JumpTarget) -> JumpOut {
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

/// The number of a conditional jump's condition; `None` for jumps that test a register (`jrcxz`, `loop`).
pub(super) fn condition(jump: &Instruction) -> Option<u8> {
    let number = (jump.condition_code() as u8).checked_sub(1);
    number.filter(|_| jump.is_jcc_short_or_near())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JumpTarget {
    Code(u64),
    /// The address that the word at this address has.
    Slot(u64),
}

pub(super) fn decode(bytes: &[u8], start: u64) -> impl Iterator<Item = Instruction> + '_ {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE).into_iter()
}

/// Scans all instructions of a piece. The error is the offset of an invalid instruction.
pub(super) fn scan(bytes: &[u8], start: u64, never_returns: &dyn Fn(u64) -> bool) -> Result<Piece, u64> {
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
                    found
                        .out
                        .push(JumpOut::of(&instruction, JumpTarget::Code(target)));
                }
            }
            FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                let slot = instruction.ip_rel_memory_address();
                found.out.push(JumpOut::of(&instruction, JumpTarget::Slot(slot)));
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

/// The instructions before the return at this index, and the jumps into them.
pub(super) fn tail(all: &[Instruction], at_return: usize, never_returns: &dyn Fn(u64) -> bool) -> Tail {
    let mut tail = Tail {
        at_return: all[at_return].ip(),
        // The targets of a jump table are not followed.
        is_closed: !all
            .iter()
            .any(|other| other.flow_control() == FlowControl::IndirectBranch),
        instructions: vec![(all[at_return].ip(), 0)],
        ..Tail::default()
    };
    tail.extend_backwards(&all[..at_return]);
    tail.add_jumps_into_it(all, never_returns);
    tail
}

impl TailJump {
    /// Whether the function may reach the jump again if the call does not end there.
    pub(super) fn is_in_loop(&self, all: &[Instruction], never_returns: &dyn Fn(u64) -> bool) -> bool {
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

/// Bytes by which an instruction moves the stack pointer towards the return address; `None` for one that does
/// more than that and computing in registers.
pub(super) fn moved(instruction: &Instruction) -> Option<u16> {
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

/// Whether a computed jump is one through a table of the function's own places (`switch`): compilers add a
/// table entry to the table's address, or jump through the table itself. The target of a tail call comes from
/// a record or an argument.
pub(super) fn stays_inside(jump: &Instruction, before: &[Instruction]) -> bool {
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

#[cfg(test)]
mod tests;
