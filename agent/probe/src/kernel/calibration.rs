//! Measures what a hit costs on this machine: functions of our own are called with the session's programs
//! attached to them, on this thread and before anything else is probed. Their hits use a slot that no process
//! gets and probe numbers that are not assigned yet. Prices are computed elsewhere, see [`profile::cost`].
//!
//! The measured price is that in a loop with warm caches. The probes stay until the session ends, because
//! closing them takes a grace period of the kernel; the functions are not called any more.

use profile::{cost::Prices, error::ErrorText};

use super::{
    KernelError, Link, LinkKind,
    links::{CallMoment, LinkRequest, ProbeSite},
    object::Kernel,
};

/// Prices, and the probes used to measure them.
pub struct Calibration {
    pub prices: Prices,
    /// Dropped together with the session's other links.
    pub links: Vec<Link>,
}

/// Measures the prices. Must precede every other probe and every spec.
pub fn measure(kernel: &mut Kernel) -> Calibration {
    let table = |why: String| Calibration {
        prices: Prices::table(why),
        links: Vec::new(),
    };
    if kernel.link_kind() == LinkKind::Tracefs {
        return table("on this kernel (tracefs) each probe takes too long to come off".to_owned());
    }
    functions::measure(kernel).unwrap_or_else(|error| table(ErrorText::new(error).to_string()))
}

#[cfg(not(target_arch = "x86_64"))]
mod functions {
    use super::{Calibration, Kernel, KernelError};

    pub(super) fn measure(_: &mut Kernel) -> Result<Calibration, KernelError> {
        Err(KernelError::Calibration(
            "there are no functions for this instruction set".to_owned(),
        ))
    }
}

#[cfg(target_arch = "x86_64")]
mod functions {
    #![allow(
        unsafe_code,
        reason = "functions whose instructions are chosen; `naked` is an unsafe attribute"
    )]

    use std::{arch::naked_asm, hint::black_box, path::PathBuf};

    use abi::{Capture, CaptureKind, ProbeSpec, SpecFlags, SumSpec};
    use rustix::time::{ClockId, clock_gettime};
    use tuner::{Address, parse_maps};

    use super::{Calibration, CallMoment, Kernel, KernelError, LinkRequest, Prices, ProbeSite};
    use profile::cost::Measured;

    /// Repetitions of each measurement.
    const ROUNDS: usize = 9;
    /// The third shortest round is used.
    const TAKEN: usize = 2;
    /// Calls in a round.
    const CALLS: u32 = 32;
    /// Calls in a round of functions that cost ten times as much.
    const STEPPED_CALLS: u32 = 8;

    /// The cases timed at a jump, as (number, offset of the last jump), and the one timed at its return.
    const TO_JUMP: [(usize, u64); 3] = [(3, 3), (4, 4), (8, 5)];
    const TO_RETURN: [(usize, u64); 1] = [(5, 2)];

    macro_rules! functions {
        ($($(#[$doc:meta])* $name:ident: $($line:literal),+;)+) => {$(
            $(#[$doc])*
            // SAFETY: each function follows the calling convention: it restores every register that it
            // changes but rax, pops what it pushed, and returns.
            #[unsafe(naked)]
            extern "C" fn $name() {
                naked_asm!($($line),+)
            }
        )+};
    }

    functions! {
        /// Probed on a push, which the kernel emulates. Each function has different instructions, so that the
        /// linker cannot merge them.
        counted: "push rbp", "pop rbp", "ret";
        reading: "push rbp", "pop rbp", "nop", "ret";
        sending: "push rbp", "pop rbp", "nop", "nop", "ret";
        timed: "push rbp", "nop", "pop rbp", "jmp 2f", "2:", "ret";
        in_sequence: "push rbp", "nop", "nop", "pop rbp", "jmp 2f", "2:", "ret";
        added: "push rbp", "nop", "nop", "nop", "pop rbp", "jmp 2f", "2:", "ret";
        left: "push rbp", "pop rbp", "ret", "nop";
        /// Probed on a move between registers, which the processor single-steps.
        stepped: "mov eax, edi", "ret";
        /// Probed on a nop of five bytes, which newer kernels replace by a call.
        long_nop: ".byte 0x0f, 0x1f, 0x44, 0x00, 0x00", "ret";
    }

    /// Selects the field that receives the time of one call.
    type MeasuredField = fn(&mut Measured) -> &mut f64;

    struct Case {
        function: extern "C" fn(),
        flags: u32,
        captures: usize,
        calls: u32,
        place: MeasuredField,
    }

    const fn case(
        function: extern "C" fn(),
        flags: u32,
        captures: usize,
        calls: u32,
        place: MeasuredField,
    ) -> Case {
        Case {
            function,
            flags,
            captures,
            calls,
            place,
        }
    }

    const TIMED: u32 = SpecFlags::SPAN;
    /// If there is no room to aggregate, each hit is sent.
    const ADDED: u32 = SpecFlags::SPAN | SpecFlags::SEND_RETURN | SpecFlags::SUM_RETURN;
    const IN_SEQUENCE: u32 = SpecFlags::SPAN | SpecFlags::OUTERMOST | SpecFlags::SEQUENCE;

    /// Called before it is probed.
    static BARE: [Case; 1] = [case(counted, 0, 0, CALLS, |calls| &mut calls.bare)];

    /// Indexed by the number of the probe.
    static CASES: [Case; 9] = [
        case(counted, 0, 0, CALLS, |calls| &mut calls.emulated),
        case(reading, 0, abi::CAPTURES_MAX, CALLS, |calls| &mut calls.reading),
        case(sending, SpecFlags::SEND_ENTRY, 0, CALLS, |calls| {
            &mut calls.sending
        }),
        case(timed, TIMED, 0, CALLS, |calls| &mut calls.timed),
        case(in_sequence, IN_SEQUENCE, 0, CALLS, |calls| &mut calls.in_sequence),
        case(left, TIMED, 0, STEPPED_CALLS, |calls| &mut calls.left),
        case(stepped, 0, 0, STEPPED_CALLS, |calls| &mut calls.stepped),
        case(long_nop, 0, 0, CALLS, |calls| &mut calls.nop),
        case(added, ADDED, 0, CALLS, |calls| &mut calls.added),
    ];

    pub(super) fn measure(kernel: &mut Kernel) -> Result<Calibration, KernelError> {
        if kernel.room() < CASES.len() {
            return Err(KernelError::Calibration(
                "there is no room for the probes".to_owned(),
            ));
        }
        let mut measured = Measured {
            values: abi::CAPTURES_MAX as u32,
            ..Measured::default()
        };
        call(&BARE, &mut measured);
        for (case, number) in CASES.iter().zip(0..) {
            kernel.set_spec(number, spec(case, kernel.adds_calibrated()))?;
        }
        let offsets = offsets().ok_or_else(|| {
            KernelError::Calibration("our own functions were not found in our file".to_owned())
        })?;
        let mut links = Vec::new();
        let entries: Vec<(usize, u64)> = (0..CASES.len()).map(|number| (number, 0)).collect();
        let exits = [&TO_JUMP[..], &TO_RETURN].concat();
        // Exits first, as for every function.
        for (at, places) in [(CallMoment::EXIT, exits), (CallMoment::Entry, entries)] {
            let site =
                |(number, behind): &(usize, u64)| ProbeSite::new(offsets[*number] + behind, *number as u32);
            let request = LinkRequest::new(
                PathBuf::from("/proc/self/exe"),
                places.iter().map(site).collect(),
                at,
                Some(std::process::id()),
            );
            links.push(kernel.attach(&request)?);
        }
        kernel.watch_calibrated()?;
        call(&CASES, &mut measured);
        all_seen(&kernel.end_calibration(CASES.len() as u32)?)?;
        Ok(Calibration {
            prices: Prices::from(&measured),
            links,
        })
    }

    /// Fails if a call was not counted: it had another price.
    fn all_seen(calls: &[u64]) -> Result<(), KernelError> {
        let expected = |case: &Case| u64::from(case.calls) * (ROUNDS as u64 + 1);
        match calls.iter().copied().eq(CASES.iter().map(expected)) {
            true => Ok(()),
            false => Err(KernelError::Calibration(format!(
                "not all calls of ours were seen: {calls:?}"
            ))),
        }
    }

    /// Values are read from the caller's stack, as for an argument that points to memory.
    fn spec(case: &Case, adds_up: bool) -> ProbeSpec {
        const STACK_POINTER: u8 = 4;
        let without = if adds_up { 0 } else { SpecFlags::SUM_RETURN };
        let mut spec = ProbeSpec {
            flags: case.flags & !without,
            partial_sum: SumSpec {
                number: 1,
                ..SumSpec::DURATIONS
            },
            ..ProbeSpec::default()
        };
        for capture in &mut spec.captures[..case.captures] {
            *capture = Capture {
                kind: CaptureKind::Register as u8,
                index: STACK_POINTER,
                width: 8,
                reads: 1,
                ..Capture::default()
            };
        }
        spec
    }

    /// Measures the CPU time of a call of each case on this thread. The cases alternate, so that other load
    /// on the machine affects all of them. Such load only makes rounds longer, so a short one is used.
    fn call<const N: usize>(cases: &[Case; N], measured: &mut Measured) {
        let mut rounds = [[0.0; ROUNDS]; N];
        for round in 0..=ROUNDS {
            for (case, took) in cases.iter().zip(&mut rounds) {
                let began = thread_ns();
                for _ in 0..case.calls {
                    black_box(case.function)();
                }
                let ns = thread_ns().saturating_sub(began) as f64 / f64::from(case.calls);
                // In the first round the kernel sees the thread and the probes for the first time.
                if let Some(took) = round.checked_sub(1).and_then(|round| took.get_mut(round)) {
                    *took = ns;
                }
            }
        }
        for (case, mut took) in cases.iter().zip(rounds) {
            took.sort_by(f64::total_cmp);
            *(case.place)(measured) = took[TAKEN];
        }
    }

    fn thread_ns() -> u64 {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Offsets of the functions in our executable.
    fn offsets() -> Option<[u64; CASES.len()]> {
        let text = std::fs::read_to_string("/proc/self/maps").ok()?;
        let mappings = parse_maps(&text).ok()?;
        let mut offsets = [0; CASES.len()];
        for (case, offset) in CASES.iter().zip(&mut offsets) {
            let address = case.function as usize as u64;
            let mut mappings = mappings.iter();
            let mapping = mappings.find(|mapping| mapping.contains(Address(address), 1))?;
            *offset = address - mapping.start.0 + mapping.offset.0;
        }
        Some(offsets)
    }
}
