//! A seccomp filter as the kernel executes it: classic BPF over the number and the arguments of a system call
//! (seccomp(2)). Pure.
//!
//! Properties of a call may be unknown. If the program branches on an unknown value, both branches are
//! followed, and the most restrictive answer counts. So the kernel's answer is never more restrictive than
//! [`Program::answer`].

use std::fmt;

/// The architecture whose system calls are evaluated (`AUDIT_ARCH_X86_64`).
const ARCHITECTURE: u32 = 0xc000_003e;
/// Bytes of `struct seccomp_data`.
const DATA_BYTES: u32 = 64;
const MEMORY_WORDS: usize = 16;
/// Bound on the evaluated instructions. Programs have at most 4096 instructions and jump forward only; more
/// steps mean many branches on unknown values.
const STEPS_MAX: usize = 200_000;
/// The part of an answer that is the action; the rest is its data.
const ACTION: u32 = 0xffff_0000;

/// An instruction (`struct sock_filter`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u16,
    /// Number of instructions to skip if a comparison holds, and if not.
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) operand: u32,
}

/// A system call; unknown properties are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SystemCall {
    pub(crate) number: u32,
    /// The address at which the program continues after it.
    pub(crate) instruction: Option<u64>,
    pub(crate) arguments: [Option<u64>; 6],
}

impl SystemCall {
    /// A call of which only the number is known.
    pub(crate) fn any(number: u32) -> SystemCall {
        SystemCall {
            number,
            instruction: None,
            arguments: [None; 6],
        }
    }

    /// The word at `offset` of `struct seccomp_data`; `None` if it is unknown.
    fn word(&self, offset: u32) -> Option<u32> {
        let half = |value: Option<u64>| value.map(|value| (value >> (offset % 8 * 8)) as u32);
        match offset {
            0 => Some(self.number),
            4 => Some(ARCHITECTURE),
            8 | 12 => half(self.instruction),
            _ => half(*self.arguments.get((offset as usize - 16) / 8)?),
        }
    }
}

/// A filter's answer to a call (`SECCOMP_RET_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FilterResult(u32);

impl FilterResult {
    const KILL_PROCESS: FilterResult = FilterResult(0x8000_0000);
    const KILL_THREAD: FilterResult = FilterResult(0);
    pub(crate) const ALLOW: FilterResult = FilterResult(0x7fff_0000);
    const LOG: u32 = 0x7ffc_0000;
    const TRACE: u32 = 0x7ff0_0000;
    const NOTIFY: u32 = 0x7fc0_0000;
    const ERRNO: u32 = 0x0005_0000;

    /// The more restrictive of the two, in the kernel's order.
    pub(crate) fn and(self, other: FilterResult) -> FilterResult {
        let order = |answer: FilterResult| (answer.0 & ACTION).cast_signed();
        match order(other) < order(self) {
            true => other,
            false => self,
        }
    }

    /// The call is made.
    pub(crate) fn allows(self) -> bool {
        matches!(self.0 & ACTION, 0x7fff_0000 | FilterResult::LOG)
    }

    /// The program is killed, or receives SIGSYS. An unknown answer kills.
    pub(crate) fn kills(self) -> bool {
        !self.allows()
            && !matches!(
                self.0 & ACTION,
                FilterResult::TRACE | FilterResult::NOTIFY | FilterResult::ERRNO
            )
    }
}

impl fmt::Display for FilterResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 & ACTION {
            0x7fff_0000 | FilterResult::LOG => f.write_str("allows"),
            FilterResult::TRACE => f.write_str("passes to a debugger"),
            FilterResult::NOTIFY => f.write_str("passes to a supervisor"),
            FilterResult::ERRNO => write!(f, "fails (errno {})", self.0 & !ACTION),
            0x0003_0000 => f.write_str("sends SIGSYS at"),
            _ => f.write_str("kills the program at"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program(pub(crate) Vec<Instruction>);

/// The state of one path through a program. Unknown values are `None`.
#[derive(Debug, Clone, Copy)]
struct Way {
    next: usize,
    accumulator: Option<u32>,
    index: Option<u32>,
    memory: [Option<u32>; MEMORY_WORDS],
}

/// The continuation of a path after an instruction.
enum Successors {
    On,
    Jump(usize),
    Either(usize, usize),
    End(FilterResult),
}

impl Program {
    /// The most restrictive answer that it can give to the call.
    pub(crate) fn answer(&self, call: &SystemCall) -> FilterResult {
        let mut worst = FilterResult::ALLOW;
        let mut ways = vec![Way {
            next: 0,
            accumulator: Some(0),
            index: Some(0),
            memory: [Some(0); MEMORY_WORDS],
        }];
        let mut steps = 0;
        while let Some(mut way) = ways.pop() {
            loop {
                steps += 1;
                let Some(instruction) = self.0.get(way.next).filter(|_| steps <= STEPS_MAX) else {
                    return FilterResult::KILL_PROCESS;
                };
                way.next += 1;
                match way.step(*instruction, call) {
                    Successors::On => {}
                    Successors::Jump(over) => way.next += over,
                    Successors::Either(over, other) => {
                        ways.push(Way {
                            next: way.next + other,
                            ..way
                        });
                        way.next += over;
                    }
                    Successors::End(answer) => {
                        worst = worst.and(answer);
                        break;
                    }
                }
            }
        }
        worst
    }
}

// Parts of an instruction's code (linux/bpf_common.h).
const CLASS: u16 = 0x07;
const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const ST: u16 = 0x02;
const STX: u16 = 0x03;
const ALU: u16 = 0x04;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
const MODE: u16 = 0xe0;
const IMMEDIATE: u16 = 0x00;
const ABSOLUTE: u16 = 0x20;
const MEMORY: u16 = 0x60;
const LENGTH: u16 = 0x80;
const OPERATION: u16 = 0xf0;
const FROM_INDEX: u16 = 0x08;
const FROM_ACCUMULATOR: u16 = 0x10;
const TO_ACCUMULATOR: u16 = 0x80;

impl Way {
    fn step(&mut self, instruction: Instruction, call: &SystemCall) -> Successors {
        let Instruction { code, operand, .. } = instruction;
        let word = operand as usize % MEMORY_WORDS;
        let source = match code & FROM_INDEX {
            0 => Some(operand),
            _ => self.index,
        };
        match code & CLASS {
            LD => self.accumulator = self.load(code, operand, call),
            LDX => self.index = self.load(code, operand, call),
            ST => self.memory[word] = self.accumulator,
            STX => self.memory[word] = self.index,
            ALU => match arithmetic(code & OPERATION, self.accumulator, source) {
                Ok(result) => self.accumulator = result,
                Err(answer) => return Successors::End(answer),
            },
            JMP => return self.jump(instruction, source),
            RET if code & FROM_ACCUMULATOR != 0 => {
                return Successors::End(self.accumulator.map_or(FilterResult::KILL_PROCESS, FilterResult));
            }
            RET => return Successors::End(FilterResult(operand)),
            // MISC: copies one register to the other.
            _ if code & TO_ACCUMULATOR != 0 => self.accumulator = self.index,
            _ => self.index = self.accumulator,
        }
        Successors::On
    }

    fn load(&self, code: u16, operand: u32, call: &SystemCall) -> Option<u32> {
        match code & MODE {
            IMMEDIATE => Some(operand),
            ABSOLUTE => call.word(operand),
            MEMORY => self.memory[operand as usize % MEMORY_WORDS],
            LENGTH => Some(DATA_BYTES),
            _ => None,
        }
    }

    fn jump(&self, instruction: Instruction, source: Option<u32>) -> Successors {
        let (over, other) = (
            usize::from(instruction.jump_true),
            usize::from(instruction.jump_false),
        );
        let compare: fn(u32, u32) -> bool = match instruction.code & OPERATION {
            0x00 => return Successors::Jump(instruction.operand as usize),
            0x10 => |left, right| left == right,
            0x20 => |left, right| left > right,
            0x30 => |left, right| left >= right,
            0x40 => |left, right| left & right != 0,
            _ => return Successors::End(FilterResult::KILL_PROCESS),
        };
        match (self.accumulator, source) {
            (Some(left), Some(right)) if compare(left, right) => Successors::Jump(over),
            (Some(_), Some(_)) => Successors::Jump(other),
            _ => Successors::Either(over, other),
        }
    }
}

/// A division by zero ends the program with 0, which kills.
fn arithmetic(operation: u16, left: Option<u32>, right: Option<u32>) -> Result<Option<u32>, FilterResult> {
    if operation == 0x80 {
        return Ok(left.map(u32::wrapping_neg));
    }
    if operation == 0x30 && right.is_none_or(|right| right == 0) {
        return Err(FilterResult::KILL_THREAD);
    }
    let (Some(left), Some(right)) = (left, right) else {
        return Ok(None);
    };
    Ok(match operation {
        0x00 => Some(left.wrapping_add(right)),
        0x10 => Some(left.wrapping_sub(right)),
        0x20 => Some(left.wrapping_mul(right)),
        0x30 => Some(left / right),
        0x40 => Some(left | right),
        0x50 => Some(left & right),
        0x60 => Some(left.wrapping_shl(right)),
        0x70 => Some(left.wrapping_shr(right)),
        0xa0 => Some(left ^ right),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KILL: u32 = 0x8000_0000;
    const KILL_ONE: u32 = 0;
    const TRAP: u32 = 0x0003_0000;
    const FAIL: u32 = 0x0005_0001;
    const ALLOW: u32 = 0x7fff_0000;
    const MMAP: u32 = 9;

    fn instruction(code: u16, jump_true: u8, jump_false: u8, operand: u32) -> Instruction {
        Instruction {
            code,
            jump_true,
            jump_false,
            operand,
        }
    }

    fn load(offset: u32) -> Instruction {
        instruction(0x20, 0, 0, offset)
    }

    fn equal(value: u32, over: u8, other: u8) -> Instruction {
        instruction(0x15, over, other, value)
    }

    fn give(answer: u32) -> Instruction {
        instruction(0x06, 0, 0, answer)
    }

    fn mmap() -> SystemCall {
        SystemCall {
            number: MMAP,
            instruction: Some(0x7fff_1234_5678),
            arguments: [
                Some(0x5_0000_1000),
                Some(4096),
                Some(5),
                Some(0x22),
                None,
                Some(0),
            ],
        }
    }

    fn answer(program: &[Instruction], call: &SystemCall) -> FilterResult {
        Program(program.to_vec()).answer(call)
    }

    #[test]
    fn the_result_of_a_filter_is_that_of_the_kernel() {
        // The architecture, then the number, as every filter begins.
        let by_number = |other: u32| {
            vec![
                load(4),
                equal(0xc000_003e, 1, 0),
                give(KILL),
                load(0),
                equal(MMAP, 0, 1),
                give(ALLOW),
                give(other),
            ]
        };
        let other = SystemCall::any(11);
        for (rest, allows, kills) in [
            (KILL, false, true),
            (KILL_ONE, false, true),
            (TRAP, false, true),
            (FAIL, false, false),
            (0x7fc0_0000, false, false),
            (0x7ff0_0000, false, false),
            (0x7ffc_0000, true, false),
            (ALLOW, true, false),
            (0x1234_0000, false, true),
        ] {
            let found = answer(&by_number(rest), &other);
            assert_eq!(
                (found.allows(), found.kills()),
                (allows, kills),
                "{rest:#x}: {found}"
            );
            assert!(answer(&by_number(rest), &mmap()).allows(), "{rest:#x}");
        }
    }

    #[test]
    fn arguments_are_read_by_halves_and_the_instruction_pointer_too() {
        for (offset, value) in [
            (8, 0x1234_5678),
            (12, 0x7fff),
            (16, 0x1000),
            (20, 5),
            (24, 4096),
            (32, 5),
            (40, 0x22),
            (56, 0),
        ] {
            let program = [load(offset), equal(value, 0, 1), give(ALLOW), give(KILL)];
            assert!(answer(&program, &mmap()).allows(), "at {offset}");
        }
    }

    #[test]
    fn where_it_depends_on_what_is_not_known_the_most_restrictive_answer_counts() {
        let by_descriptor = [load(48), equal(3, 0, 1), give(ALLOW), give(KILL)];
        assert!(answer(&by_descriptor, &mmap()).kills());
        let harmless = [load(48), equal(3, 0, 1), give(ALLOW), give(ALLOW)];
        assert!(
            answer(&harmless, &mmap()).allows(),
            "what is read need not matter"
        );
        // A value stays unknown through memory, the index register and arithmetic.
        let carried = [
            load(48),
            instruction(0x02, 0, 0, 3),
            instruction(0x61, 0, 0, 3),
            instruction(0x87, 0, 0, 0),
            instruction(0x54, 0, 0, 0xff),
            equal(0xff, 0, 1),
            give(FAIL),
            give(ALLOW),
        ];
        let found = answer(&carried, &mmap());
        assert!(!found.allows() && !found.kills(), "{found}");
        assert!(
            answer(&[load(48), instruction(0x16, 0, 0, 0)], &mmap()).kills(),
            "it returns it"
        );
    }

    #[test]
    fn every_instruction_does_what_the_kernel_makes_of_it() {
        let number = |code: u16, operand: u32| instruction(code, 0, 0, operand);
        // Results for the number 9.
        for (name, program, expected) in [
            ("add", vec![number(0x04, 3)], 12),
            ("subtract", vec![number(0x14, 10)], u32::MAX),
            ("multiply", vec![number(0x24, 3)], 27),
            ("divide", vec![number(0x34, 2)], 4),
            ("or", vec![number(0x44, 2)], 11),
            ("and", vec![number(0x54, 8)], 8),
            ("shift left", vec![number(0x64, 2)], 36),
            ("shift right", vec![number(0x74, 2)], 2),
            ("negate", vec![number(0x84, 0)], 9u32.wrapping_neg()),
            ("exclusive or", vec![number(0xa4, 1)], 8),
            ("by the index", vec![number(0x01, 4), number(0x0c, 0)], 13),
            (
                "index and back",
                vec![number(0x07, 0), number(0x00, 1), number(0x87, 0)],
                9,
            ),
            ("length", vec![number(0x80, 0)], 64),
            (
                "memory",
                vec![number(0x02, 5), number(0x00, 1), number(0x60, 5)],
                9,
            ),
            (
                "index to memory",
                vec![number(0x01, 7), number(0x03, 2), number(0x60, 2)],
                7,
            ),
        ] {
            let mut whole = vec![load(0)];
            whole.extend(program);
            whole.extend([equal(expected, 0, 1), give(ALLOW), give(KILL)]);
            assert!(answer(&whole, &mmap()).allows(), "{name}");
        }
        for (name, jump) in [
            ("above", instruction(0x25, 0, 1, 8)),
            ("not above", instruction(0x25, 1, 0, 9)),
            ("at least", instruction(0x35, 0, 1, 9)),
            ("has a bit", instruction(0x45, 0, 1, 8)),
            ("has not", instruction(0x45, 1, 0, 2)),
        ] {
            assert!(
                answer(&[load(0), jump, give(ALLOW), give(KILL)], &mmap()).allows(),
                "{name}"
            );
        }
        let always = [instruction(0x05, 0, 0, 1), give(KILL), give(ALLOW)];
        assert!(answer(&always, &mmap()).allows());
        let by_zero = [load(0), instruction(0x3c, 0, 0, 0), give(ALLOW)];
        assert!(answer(&by_zero, &mmap()).kills());
        assert!(answer(&[load(0)], &mmap()).kills(), "it has no end");
    }

    #[test]
    fn the_most_restrictive_of_several_filters_counts() {
        let order = [
            KILL,
            KILL_ONE,
            TRAP,
            FAIL,
            0x7fc0_0000,
            0x7ff0_0000,
            0x7ffc_0000,
            ALLOW,
        ];
        for (place, stricter) in order.iter().enumerate() {
            for other in &order[place..] {
                let (stricter, other) = (FilterResult(*stricter), FilterResult(*other));
                assert_eq!(stricter.and(other), stricter);
                assert_eq!(other.and(stricter), stricter);
            }
        }
    }

    #[test]
    fn a_program_that_branches_without_end_on_the_unknown_is_taken_for_the_worst() {
        let mut program = Vec::new();
        for _ in 0..60 {
            program.extend([load(48), equal(1, 0, 0)]);
        }
        program.push(give(ALLOW));
        assert!(answer(&program, &mmap()).kills());
    }
}
