//! Where a held thread is, and where it will return to. Only reads.

use std::ops::Range;

use super::Gate;
use crate::address::Address;
use crate::arch::x86_64::{self as arch, Sleep, frame};
use crate::error::ActionError;
use crate::place::ProcessMemory;
use crate::ptrace::HeldThread;
use crate::unwind::Trace;

/// The position and the stack of a held thread.
#[derive(Debug)]
pub(crate) struct StackView {
    tid: i32,
    instruction: Address,
    words: Vec<u64>,
    /// Its return addresses, if they are known exactly.
    trace: Option<Trace>,
    /// It runs a signal handler.
    pub(crate) in_handler: bool,
    /// Its stack extends beyond the bytes that were read.
    is_cut: bool,
}

/// Bytes of a stack that are read.
const STACK_BYTES_MAX: u64 = 8 << 20;
/// Bound on nested signal handlers.
const HANDLERS_MAX: usize = 8;

impl StackView {
    /// Reads the state of a held thread.
    pub(crate) fn of(
        thread: &HeldThread,
        memory: &ProcessMemory,
        gate: &Gate,
    ) -> Result<StackView, ActionError> {
        let registers = thread.registers()?;
        let mut view = StackView {
            tid: thread.tid(),
            instruction: arch::instruction(&registers),
            words: Vec::new(),
            trace: gate
                .unwinder
                .trace(&arch::resumable(&registers, Sleep::GoOn), memory),
            in_handler: false,
            is_cut: false,
        };
        let mut looked: Vec<Range<u64>> = Vec::new();
        let mut waiting = vec![arch::stack(&registers)];
        while let Some(stack) = waiting.pop() {
            if looked.iter().any(|range| range.contains(&stack.0)) {
                continue;
            }
            if looked.len() > HANDLERS_MAX {
                view.is_cut = true;
                break;
            }
            let (range, bytes) = read_stack(memory, stack)?;
            view.is_cut |= range.end - range.start > bytes.len() as u64;
            looked.push(range);
            for at in (0..bytes.len().saturating_sub(7)).step_by(8) {
                if let Some(interrupted) = frame::signal_frame(&bytes[at..], &gate.signal_returns) {
                    view.in_handler = true;
                    view.words.push(interrupted.instruction.0);
                    waiting.push(interrupted.stack);
                }
            }
            view.words.extend(words(&bytes));
        }
        // The trace decides: an apparent frame of a handler can be left over from an earlier one.
        if let Some(trace) = &view.trace {
            view.in_handler = trace.in_handler;
        }
        Ok(view)
    }

    /// Whether its next instruction is in `range`.
    pub(crate) fn is_at(&self, range: &Range<u64>) -> bool {
        range.contains(&self.instruction.0)
    }

    /// Whether one of its functions is known exactly to return to `range`.
    pub(crate) fn returns_to(&self, range: &Range<u64>) -> bool {
        let returns = self.exact().map(|trace| trace.returns.as_slice());
        returns.unwrap_or_default().iter().any(|at| range.contains(at))
    }

    /// Whether it is in `range` or will return there: exactly, or else by the words on its stack.
    pub(crate) fn touches(&self, range: &Range<u64>) -> bool {
        let comes_back = |words: &[u64]| words.iter().any(|word| range.contains(word));
        range.contains(&self.instruction.0)
            || match self.exact() {
                Some(trace) => comes_back(&trace.returns),
                None => comes_back(&self.words),
            }
    }

    /// The trace, if it is complete: it does not know the functions that a handler interrupted, and a probe
    /// may hide some.
    fn exact(&self) -> Option<&Trace> {
        self.trace
            .as_ref()
            .filter(|trace| !trace.in_handler && !trace.is_cut)
    }

    /// Whether it is in `range`, or one of its innermost functions, up to one that is probed, will return
    /// there. This is sufficient for code that calls nothing that could be probed.
    pub(crate) fn is_executing_innermost(&self, range: &Range<u64>, memory: &ProcessMemory) -> bool {
        match self.trace.as_ref().filter(|trace| trace.is_cut) {
            Some(trace) => {
                range.contains(&self.instruction.0) || trace.returns.iter().any(|at| range.contains(at))
            }
            None => self.is_executing(range, memory),
        }
    }

    /// Whether it is in `range` or will return there. If that is not known exactly, counts the words on its
    /// stack that follow a call instruction: other words may be addresses of functions.
    pub(crate) fn is_executing(&self, range: &Range<u64>, memory: &ProcessMemory) -> bool {
        if self.exact().is_some() {
            return self.touches(range);
        }
        let is_return = |word: &&u64| range.contains(word) && follows_call(memory, Address(**word));
        range.contains(&self.instruction.0) || self.words.iter().any(|word| is_return(&word))
    }

    pub(crate) fn says(&self, what: &str) -> String {
        format!("thread {} {what}", self.tid)
    }

    /// Why the code in `range` must not be changed; `None` if this thread does not prevent it.
    pub(crate) fn is_in_the_way_of(&self, range: &Range<u64>) -> Option<String> {
        let tid = self.tid;
        if self.touches(range) {
            return Some(format!("thread {tid} stands in it, or comes back to it"));
        }
        (self.is_cut && self.exact().is_none())
            .then(|| format!("the stack of thread {tid} is larger than is looked at"))
    }
}

/// Whether a call instruction ends at `address`: `call rel32`, or one through a register or memory.
fn follows_call(memory: &ProcessMemory, address: Address) -> bool {
    let mut before = [0; 7];
    if memory
        .read(Address(address.0.wrapping_sub(7)), &mut before)
        .is_err()
    {
        return false;
    }
    let indirect = |length: usize| before[7 - length] == 0xff && before[8 - length] & 0x38 == 0x10;
    before[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

/// The stack from its pointer to the end of its mapping, or up to the bound.
fn read_stack(memory: &ProcessMemory, stack: Address) -> Result<(Range<u64>, Vec<u8>), ActionError> {
    let start = stack.0.next_multiple_of(8);
    let Some(map) = memory.mapping(Address(start), 8) else {
        return Ok((start..start + 8, Vec::new()));
    };
    let length = (map.end.0 - start).min(STACK_BYTES_MAX);
    let mut bytes = vec![0; length as usize];
    memory.read(Address(start), &mut bytes)?;
    Ok((start..map.end.0, bytes))
}
