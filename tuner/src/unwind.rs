//! The functions that a held thread is in, by the unwind tables of their files (.eh_frame).
//!
//! A search for return addresses on the stack would find too many: those of earlier calls remain in the
//! frames of later ones. Unwinding is exact, or ends: at code without tables. Functions that align their stack,
//! as those with vectors do, have rules that are expressions.

use std::sync::OnceLock;

use gimli::{
    CfaRule, EhFrame, Encoding, EvaluationResult, Location, Register, RegisterRule, UnwindContext,
    UnwindExpression, Value, X86_64,
};

use crate::address::Address;
use crate::arch::RawRegisters;
use crate::frames::{Bytes, Tables};
use crate::maps::Backing;
use crate::module::Module;
use crate::place::ProcessMemory;

/// Bound on the frames that are followed.
const FRAMES_MAX: usize = 4_096;
/// Bound on the operations of an expression; compilers need about ten.
const OPERATIONS_MAX: u32 = 64;
/// The registers that a function preserves for its caller, and the stack pointer, by their DWARF numbers.
const KEPT: [Register; 7] = [
    X86_64::RBX,
    X86_64::RBP,
    X86_64::RSP,
    X86_64::R12,
    X86_64::R13,
    X86_64::R14,
    X86_64::R15,
];

/// The return addresses of a thread, innermost first.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) returns: Vec<u64>,
    /// It runs a signal handler; frames beyond were not followed.
    pub(crate) in_handler: bool,
    /// A return probe has replaced a return address by the kernel's own page, and only the kernel knows the
    /// caller. Frames beyond were not followed.
    pub(crate) is_cut: bool,
}

/// The unwind tables of all files of a process, read on demand.
#[derive(Debug, Default)]
pub(crate) struct Unwinder {
    modules: Vec<(Module, OnceLock<Option<Tables>>)>,
}

/// Registers of one frame.
#[derive(Debug, Clone, Copy)]
struct FrameRegisters {
    instruction: u64,
    kept: [u64; KEPT.len()],
}

impl FrameRegisters {
    fn of(&self, register: Register) -> Option<u64> {
        match KEPT.iter().position(|kept| *kept == register) {
            Some(at) => Some(self.kept[at]),
            None => (register == X86_64::RA).then_some(self.instruction),
        }
    }

    /// The address that an expression of the tables has in this frame.
    fn evaluated(
        &self,
        expression: &UnwindExpression<usize>,
        initial: Option<u64>,
        (frames, encoding): (&EhFrame<Bytes<'_>>, Encoding),
        memory: &ProcessMemory,
    ) -> Option<u64> {
        let mut evaluation = expression.get(frames).ok()?.evaluation(encoding);
        evaluation.set_max_iterations(OPERATIONS_MAX);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.of(register)?))
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(memory.word(Address(address)).ok()?))
                }
                _ => return None,
            }
            .ok()?;
        }
        match evaluation.as_result() {
            [piece] => match piece.location {
                Location::Address { address } => Some(address),
                _ => None,
            },
            _ => None,
        }
    }
}

enum Next {
    FrameRegisters(FrameRegisters),
    Handler,
    End,
}

impl Unwinder {
    pub(crate) fn new(modules: &[Module]) -> Unwinder {
        Unwinder {
            modules: modules
                .iter()
                .map(|module| (module.clone(), OnceLock::new()))
                .collect(),
        }
    }

    /// Follows the stack to its end, or to a point that is known to hide the rest; `None` if that is not
    /// possible.
    pub(crate) fn trace(&self, registers: &RawRegisters, memory: &ProcessMemory) -> Option<Trace> {
        let of = registers;
        let mut frame = FrameRegisters {
            instruction: of.rip,
            kept: [of.rbx, of.rbp, of.rsp, of.r12, of.r13, of.r14, of.r15],
        };
        let mut trace = Trace::default();
        let mut context = UnwindContext::new();
        // A return address is behind its call: it may already belong to the next function.
        let mut back = 0;
        while trace.returns.len() < FRAMES_MAX {
            match self.step(&frame, back, memory, &mut context)? {
                Next::End => return Some(trace),
                Next::Handler => {
                    trace.in_handler = true;
                    return Some(trace);
                }
                Next::FrameRegisters(next) if is_of_probes(next.instruction, memory) => {
                    trace.is_cut = true;
                    return Some(trace);
                }
                Next::FrameRegisters(next) => {
                    trace.returns.push(next.instruction);
                    frame = next;
                    back = 1;
                }
            }
        }
        None
    }

    fn step(
        &self,
        frame: &FrameRegisters,
        back: u64,
        memory: &ProcessMemory,
        context: &mut UnwindContext<usize>,
    ) -> Option<Next> {
        let at = frame.instruction.checked_sub(back)?;
        let (module, tables) = self
            .modules
            .iter()
            .find(|(module, _)| module.contains(Address(at)))?;
        let tables = tables.get_or_init(|| Tables::read(&module.image)).as_ref()?;
        let link = at.wrapping_sub(module.bias.0);
        let frames = tables.frames();
        let entry = tables.entry(&frames, link)?;
        if entry.is_signal_trampoline() {
            return Some(Next::Handler);
        }
        let row = entry
            .unwind_info_for_address(&frames, &tables.bases, context, link)
            .ok()?;
        let known = (&frames, entry.cie().encoding());
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                frame.of(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => frame.evaluated(expression, None, known, memory)?,
        };
        let value = |rule: RegisterRule<usize>, same: u64| match rule {
            RegisterRule::Undefined | RegisterRule::SameValue => Some(same),
            RegisterRule::Offset(offset) => memory.word(Address(cfa.wrapping_add_signed(offset))).ok(),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(register) => frame.of(register),
            RegisterRule::Expression(place) => {
                let place = frame.evaluated(&place, Some(cfa), known, memory)?;
                memory.word(Address(place)).ok()
            }
            RegisterRule::ValExpression(value) => frame.evaluated(&value, Some(cfa), known, memory),
            _ => None,
        };
        let instruction = match row.register(X86_64::RA) {
            Some(RegisterRule::Undefined) => return Some(Next::End),
            rule => value(rule?, 0)?,
        };
        if instruction == 0 {
            return Some(Next::End);
        }
        let mut kept = frame.kept;
        for (at, register) in KEPT.into_iter().enumerate() {
            kept[at] = match (register, row.register(register)) {
                (X86_64::RSP, None | Some(RegisterRule::Undefined | RegisterRule::SameValue)) => cfa,
                (_, None) => frame.kept[at],
                (_, Some(rule)) => value(rule, frame.kept[at])?,
            };
        }
        Some(Next::FrameRegisters(FrameRegisters { instruction, kept }))
    }
}

/// Bytes from this return address up the stack to that of the calling function; `None` if the unwind tables
/// do not give it relative to the stack pointer alone.
pub fn bytes_to_caller(module: &Module, return_address: Address) -> Option<u64> {
    let tables = Tables::read(&module.image)?;
    let link = return_address.0.checked_sub(1)?.wrapping_sub(module.bias.0);
    let frames = tables.frames();
    let entry = tables.entry(&frames, link)?;
    let mut context = UnwindContext::new();
    let row = entry
        .unwind_info_for_address(&frames, &tables.bases, &mut context, link)
        .ok()?;
    let is_kept_below = row.register(X86_64::RA) == Some(RegisterRule::Offset(-8));
    match row.cfa() {
        // At the call the stack pointer is 8 above the place of the return address, as the frame's end is
        // above the caller's.
        CfaRule::RegisterAndOffset { register, offset } if *register == X86_64::RSP && is_kept_below => {
            u64::try_from(*offset).ok()
        }
        _ => None,
    }
}

fn is_of_probes(address: u64, memory: &ProcessMemory) -> bool {
    let page = memory.mapping(Address(address), 1);
    page.is_some_and(|map| matches!(&map.backing, Backing::Special(name) if name == "[uprobes]"))
}
