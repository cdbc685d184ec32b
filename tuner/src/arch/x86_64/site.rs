//! Finds the cheapest site for a probe at the begin of a function, from machine code: the first instruction
//! that the kernel emulates, if every thread reaches it through the function's first instruction, and if no
//! instruction in between changes what a probe sees.
//!
//! The kernel decides what it emulates (arch/x86/kernel/uprobes.c): since before 6.1 the push of a register,
//! nops of one byte and relative jumps; since 6.18 also the longer nops that it uses itself, and it replaces
//! those of five bytes by a call.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, OpKind, Register,
};

use super::code::{mnemonic, nothing, references};
use crate::address::Address;
use crate::arch::{Cost, Emulation, Obstacle};

/// Bytes from a function's begin within which a site is searched.
pub(crate) const PASSED_MAX: usize = 64;
/// Bytes of the longest instruction.
pub(crate) const INSTRUCTION_MAX: usize = 15;
/// Reach of a jump with a displacement of one byte.
const SHORT_JUMP: u64 = 128;
/// Bytes before and behind a function in which jumps into it are searched: functions of one source file in
/// assembler share their tails. Parts that compilers place elsewhere are found by following the function's
/// jumps.
const AROUND: u64 = 8 << 10;
/// Instructions outside of a function that are followed before the search is given up.
const OUTSIDE_MAX: usize = 2_000;
/// Bytes that are decoded at once outside of a function.
const OUTSIDE_CHUNK: usize = 512;
const PAGE: u64 = 4096;
const NOP_5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// The registers of the first six integer arguments.
const ARGUMENTS: [Register; 6] = [
    Register::RDI,
    Register::RSI,
    Register::RDX,
    Register::RCX,
    Register::R8,
    Register::R9,
];

/// An instruction that could be probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) at: u64,
    pub(crate) cost: Cost,
    pub(crate) mnemonic: String,
}

/// The code of a file, by offsets.
pub(crate) trait Text {
    /// The bytes of a range, clipped to code, and the offset of the first of them.
    fn read(&self, range: Range<u64>) -> (u64, Vec<u8>);
    /// The last place at or before an offset at which code is known to begin.
    fn known_before(&self, offset: u64) -> Option<u64>;
}

/// The first instruction of a function that begins with `code` at `start`.
pub(crate) fn first(code: &[u8], start: u64, emulation: Emulation) -> Option<Candidate> {
    let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
    let instruction = decoder.iter().next().filter(|found| !found.is_invalid())?;
    let bytes = code.get(..instruction.len())?;
    Some(Candidate {
        at: start,
        cost: emulated(bytes, start, emulation).unwrap_or(Cost::Stepped),
        mnemonic: mnemonic(&instruction),
    })
}

/// The first instruction that is emulated, if the instructions before it do not change what a probe sees.
/// Jumps to it are not checked here.
pub(crate) fn candidate(code: &[u8], start: u64, emulation: Emulation) -> Result<Candidate, Obstacle> {
    let mut information = InstructionInfoFactory::new();
    for instruction in &mut Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
        let into = (instruction.ip() - start) as usize;
        let bytes = code.get(into..into + instruction.len()).unwrap_or_default();
        if instruction.is_invalid() {
            return Err(Obstacle::NotCode);
        }
        if into > PASSED_MAX {
            break;
        }
        if let Some(cost) = emulated(bytes, instruction.ip(), emulation) {
            return Ok(Candidate {
                at: instruction.ip(),
                cost,
                mnemonic: mnemonic(&instruction),
            });
        }
        passable(&instruction, &mut information)?;
    }
    Err(Obstacle::TooFar)
}

/// The cost of a hit at an instruction, if the kernel emulates or replaces it instead of single-stepping.
fn emulated(bytes: &[u8], at: u64, emulation: Emulation) -> Option<Cost> {
    match *bytes {
        // push of a register, nop
        [0x50..=0x57] | [0x41, 0x50..=0x57] | [0x90] | [0x66, 0x90] => Some(Cost::Emulated),
        // jumps, including conditional ones
        [0xeb | 0x70..=0x7f, _] | [0xe9, _, _, _, _] | [0x0f, 0x80..=0x8f, _, _, _, _] => {
            Some(Cost::Emulated)
        }
        [..] if !emulation.long_nops => None,
        // A nop that crosses a page is not replaced by a call.
        [..] if bytes == NOP_5 && PAGE - at % PAGE >= 5 => Some(Cost::Optimised),
        [..] if (3..=8).contains(&bytes.len()) && nothing(bytes.len()) == bytes => Some(Cost::Emulated),
        _ => None,
    }
}

/// Checks that an instruction does not change arguments, stack or memory, and always continues with the next
/// one.
fn passable(instruction: &Instruction, information: &mut InstructionInfoFactory) -> Result<(), Obstacle> {
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if instruction.flow_control() != FlowControl::Next || instruction.is_privileged() || repeats {
        return Err(Obstacle::Leaves);
    }
    let changes = |access: OpAccess| {
        use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
        matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
    };
    let used = information.info(instruction);
    for register in used.used_registers().iter().filter(|used| changes(used.access())) {
        match register.register().full_register() {
            Register::RSP => return Err(Obstacle::MovesStack),
            full if ARGUMENTS.contains(&full) => return Err(Obstacle::ChangesArgument),
            _ => {}
        }
    }
    match used.used_memory().iter().any(|memory| changes(memory.access())) {
        true => Err(Obstacle::Stores),
        false => Ok(()),
    }
}

/// Checks that the bytes of the function `body` behind the first one, up to `site`, are reached only through
/// the first one. Checks the function's own jumps, those of the code that it jumps to, and those of code
/// nearby.
pub(crate) fn is_entered_at_its_begin(body: &Range<u64>, site: u64, text: &dyn Text) -> Result<(), Obstacle> {
    let passed = body.start + 1..site + 1;
    let mut outside = Vec::new();
    let (start, bytes) = text.read(body.clone());
    for instruction in &mut decoder(&bytes, start) {
        if instruction.is_invalid() {
            return Err(Obstacle::NotCode);
        }
        if let Some(target) = jump(&instruction, &passed)?.filter(|target| !body.contains(target)) {
            outside.push(target);
        }
    }
    follow(outside, body, &passed, text)?;
    let (start, bytes) = text.read(body.start.saturating_sub(AROUND)..body.end + AROUND);
    if !references(Address(start), &bytes, &passed).is_empty() {
        return Err(Obstacle::JumpedInto);
    }
    // Searches short jumps by decoding: their bytes are too common for a byte search.
    let near = body.start.saturating_sub(SHORT_JUMP + INSTRUCTION_MAX as u64);
    let known = text
        .known_before(near)
        .filter(|known| body.start - known <= AROUND);
    // Decoding that starts shortly before synchronises with the real instructions after a few of them.
    let before = known.unwrap_or(body.start.saturating_sub(4 * SHORT_JUMP))..body.start;
    let behind = body.end..site + SHORT_JUMP;
    for range in [before, behind].into_iter().filter(|range| !range.is_empty()) {
        let (start, bytes) = text.read(range);
        for instruction in &mut decoder(&bytes, start) {
            if target(&instruction).is_some_and(|target| passed.contains(&target)) {
                return Err(Obstacle::JumpedInto);
            }
        }
    }
    Ok(())
}

/// Follows jumps out of a function until they return, or reach another function.
fn follow(
    mut open: Vec<u64>,
    body: &Range<u64>,
    passed: &Range<u64>,
    text: &dyn Text,
) -> Result<(), Obstacle> {
    let mut seen = BTreeSet::new();
    while let Some(place) = open.pop() {
        // A tail call.
        let is_function = text.known_before(place) == Some(place);
        if is_function || body.contains(&place) {
            continue;
        }
        let (start, bytes) = text.read(place..place.saturating_add(OUTSIDE_CHUNK as u64));
        if start != place {
            continue;
        }
        let mut next = Some(place);
        for instruction in &mut decoder(&bytes, place) {
            // The last instruction of a chunk may be cut.
            if instruction.is_invalid() || !seen.insert(instruction.ip()) {
                let is_cut = instruction.is_invalid() && bytes.len() == OUTSIDE_CHUNK;
                next = next.filter(|next| is_cut && *next != place);
                break;
            }
            if seen.len() > OUTSIDE_MAX {
                return Err(Obstacle::TooFar);
            }
            open.extend(jump(&instruction, passed)?);
            let flow = instruction.flow_control();
            let goes_on = matches!(
                flow,
                FlowControl::Next
                    | FlowControl::ConditionalBranch
                    | FlowControl::Call
                    | FlowControl::IndirectCall
            );
            next = goes_on.then(|| instruction.next_ip());
            if !goes_on {
                break;
            }
        }
        open.extend(next.filter(|next| *next != place && !seen.contains(next)));
    }
    Ok(())
}

/// The target of a jump, if the instruction is one; an error if the target is within `passed` or unknown. A
/// jump through a fixed word leads to another file.
fn jump(instruction: &Instruction, passed: &Range<u64>) -> Result<Option<u64>, Obstacle> {
    let target = target(instruction);
    if target.is_some_and(|target| passed.contains(&target)) {
        return Err(Obstacle::JumpedInto);
    }
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => Ok(target),
        FlowControl::IndirectBranch if !instruction.is_ip_rel_memory_operand() => Err(Obstacle::ComputedJump),
        _ => Ok(None),
    }
}

/// The target of a direct jump or call.
fn target(instruction: &Instruction) -> Option<u64> {
    (instruction.op0_kind() == OpKind::NearBranch64).then(|| instruction.near_branch64())
}

fn decoder(bytes: &[u8], start: u64) -> Decoder<'_> {
    Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OLD: Emulation = Emulation { long_nops: false };
    const NEW: Emulation = Emulation { long_nops: true };
    const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

    /// Code that begins at 0x1000, with functions at the given places.
    struct Code<'a>(&'a [u8], &'a [u64]);

    impl Text for Code<'_> {
        fn read(&self, range: Range<u64>) -> (u64, Vec<u8>) {
            let start = range.start.max(0x1000);
            let end = range.end.min(0x1000 + self.0.len() as u64);
            let bytes = self
                .0
                .get((start - 0x1000) as usize..end.saturating_sub(0x1000) as usize);
            (start, bytes.unwrap_or_default().to_vec())
        }

        fn known_before(&self, offset: u64) -> Option<u64> {
            self.1.iter().copied().filter(|known| *known <= offset).max()
        }
    }

    fn site(code: &[u8], emulation: Emulation) -> Result<(u64, Cost, String), Obstacle> {
        candidate(code, 0x1000, emulation).map(|found| (found.at - 0x1000, found.cost, found.mnemonic))
    }

    fn with_endbr(rest: &[u8]) -> Vec<u8> {
        [&ENDBR, rest].concat()
    }

    #[test]
    fn the_first_emulated_instruction_is_taken_where_nothing_changes_before_it() {
        let push = |at| Ok((at, Cost::Emulated, "push".to_owned()));
        assert_eq!(site(&[0x55, 0xc3], OLD), push(0));
        assert_eq!(site(&with_endbr(&[0x41, 0x57, 0xc3]), OLD), push(4));
        // mov rax, [rip+0x100]; test rax, rax; push rbx
        let waitall = [0x48, 0x8b, 0x05, 0, 1, 0, 0, 0x48, 0x85, 0xc0, 0x53];
        assert_eq!(site(&waitall, OLD), push(10));
        // test edi, edi; je
        assert_eq!(
            site(&[0x85, 0xff, 0x74, 0x05], OLD),
            Ok((2, Cost::Emulated, "je".to_owned()))
        );
        // mov eax, [rdi]; jne with a displacement of four bytes
        assert_eq!(
            site(&[0x8b, 0x07, 0x0f, 0x85, 0, 1, 0, 0], OLD),
            Ok((2, Cost::Emulated, "jne".to_owned()))
        );
    }

    #[test]
    fn instructions_that_change_captured_values_are_not_passed_over() {
        let cases: [(&[u8], Obstacle); 9] = [
            (&[0x48, 0x83, 0xec, 0x18, 0x53], Obstacle::MovesStack), // sub rsp, 24
            (&[0x31, 0xff, 0x53], Obstacle::ChangesArgument),        // xor edi, edi
            (&[0x40, 0xb6, 0x01, 0x53], Obstacle::ChangesArgument),  // mov sil, 1
            (&[0x49, 0x87, 0xc1, 0x53], Obstacle::ChangesArgument),  // xchg r9, rax
            (&[0x0f, 0xa2, 0x53], Obstacle::ChangesArgument),        // cpuid
            (&[0x89, 0x07, 0x53], Obstacle::Stores),                 // mov [rdi], eax
            (&[0x89, 0x44, 0x24, 0xf8, 0x53], Obstacle::Stores),     // mov [rsp-8], eax
            (&[0x0f, 0x05, 0x53], Obstacle::Leaves),                 // syscall
            (&[0xc3, 0x53], Obstacle::Leaves),                       // ret
        ];
        for (code, obstacle) in cases {
            assert_eq!(site(code, OLD), Err(obstacle), "{code:x?}");
        }
        assert_eq!(site(&[0x06], OLD), Err(Obstacle::NotCode));
        let far = [[0x31, 0xc0]; 40].concat(); // xor eax, eax
        assert_eq!(site(&far, OLD), Err(Obstacle::TooFar));
    }

    #[test]
    fn a_push_that_the_kernel_steps_over_is_none_that_it_emulates() {
        // push [rdi]; push rax with a prefix that does nothing: both change the stack and end the search
        for code in [&[0xff, 0x37, 0x53][..], &[0x48, 0x50, 0x53]] {
            assert_eq!(site(code, NEW), Err(Obstacle::MovesStack), "{code:x?}");
        }
        // xchg r8, rax is not a nop; pause is not one that the kernel emulates
        assert_eq!(site(&[0x49, 0x90, 0x53], NEW), Err(Obstacle::ChangesArgument));
        assert_eq!(site(&[0xf3, 0x90, 0x53], NEW).map(|found| found.0), Ok(2));
    }

    #[test]
    fn long_nops_are_a_site_where_the_kernel_emulates_them() {
        let nop_5 = [&NOP_5[..], &[0x53, 0xc3]].concat();
        assert_eq!(
            site(&nop_5, NEW).map(|found| (found.0, found.1)),
            Ok((0, Cost::Optimised))
        );
        assert_eq!(
            site(&nop_5, OLD).map(|found| (found.0, found.1)),
            Ok((5, Cost::Emulated))
        );
        let found = candidate(&nop_5, 0x1ffd, NEW).map(|found| found.cost);
        assert_eq!(found, Ok(Cost::Emulated), "in two pages");
        for length in 3..=8 {
            let code = with_endbr(&nothing(length));
            let cost = if length == 5 {
                Cost::Optimised
            } else {
                Cost::Emulated
            };
            assert_eq!(site(&code, NEW).map(|found| (found.0, found.1)), Ok((4, cost)));
        }
    }

    fn entered(code: &[u8], body: Range<u64>, site: u64, known: &[u64]) -> Result<(), Obstacle> {
        is_entered_at_its_begin(&body, site, &Code(code, known))
    }

    #[test]
    fn a_jump_into_the_bytes_is_found_wherever_it_stands() {
        // 1000: endbr64; push rbx; pop rbx; ret
        let plain = with_endbr(&[0x53, 0x5b, 0xc3]);
        assert_eq!(entered(&plain, 0x1000..0x1007, 0x1004, &[0x1000]), Ok(()));
        // its own jump: test eax, eax; jne 1004; ret
        let own = with_endbr(&[0x85, 0xc0, 0x75, 0xfc, 0xc3]);
        assert_eq!(
            entered(&own, 0x1000..0x1009, 0x1006, &[0x1000]),
            Err(Obstacle::JumpedInto)
        );
        // back to the first byte: all calls pass both
        let begin = with_endbr(&[0x75, 0xfa, 0xc3]);
        assert_eq!(entered(&begin, 0x1000..0x1007, 0x1004, &[0x1000]), Ok(()));
        // a function before it and one behind it, with a short jump: jmp 1008 or 1004
        let before = [&[0xeb, 0x06, 0xc3, 0xc3][..], &plain].concat();
        assert_eq!(
            entered(&before, 0x1004..0x100b, 0x1008, &[0x1000, 0x1004]),
            Err(Obstacle::JumpedInto)
        );
        let behind = [&plain[..], &[0xc3, 0xeb, 0xfa]].concat();
        assert_eq!(
            entered(&behind, 0x1000..0x1007, 0x1004, &[0x1000]),
            Err(Obstacle::JumpedInto)
        );
        // one farther away, with a long jump
        let mut far = plain.clone();
        far.resize(0x200, 0xc3);
        far.extend([0xe9, 0xff, 0xfd, 0xff, 0xff]); // at 1200: jmp 1004
        assert_eq!(
            entered(&far, 0x1000..0x1007, 0x1004, &[0x1000]),
            Err(Obstacle::JumpedInto)
        );
    }

    #[test]
    fn parts_that_the_compiler_moved_away_are_followed_and_other_functions_are_not() {
        // 1000: endbr64; test eax, eax; je 9000; ret; and far away: nop; jmp 1006
        let mut code = with_endbr(&[0x85, 0xc0, 0x0f, 0x84, 0xf4, 0x7f, 0, 0, 0xc3]);
        code.resize(0x8000, 0xc3);
        code.extend([0x90, 0xe9, 0x00, 0x80, 0xff, 0xff]);
        let body = 0x1000..0x100d;
        assert_eq!(
            entered(&code, body.clone(), 0x1006, &[0x1000]),
            Err(Obstacle::JumpedInto)
        );
        assert_eq!(entered(&code, body.clone(), 0x1006, &[0x1000, 0x9000]), Ok(()));
        // jmp rax, inside and outside
        let computed = with_endbr(&[0x53, 0xff, 0xe0]);
        assert_eq!(
            entered(&computed, 0x1000..0x1007, 0x1004, &[0x1000]),
            Err(Obstacle::ComputedJump)
        );
        // jmp [rip]: leads to another file
        let linkage = with_endbr(&[0x53, 0x5b, 0xff, 0x25, 0, 0, 0, 0]);
        assert_eq!(entered(&linkage, 0x1000..0x100c, 0x1004, &[0x1000]), Ok(()));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_search_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..160),
            end in 1usize..160,
        ) {
            if let Ok(found) = candidate(&bytes, 0x1000, NEW) {
                let end = 0x1000 + end.min(bytes.len()).max(1) as u64;
                let _ = entered(&bytes, 0x1000..end, found.at, &[0x1000]);
            }
        }
    }
}
