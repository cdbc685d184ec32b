//! The kernel side of tuneagent: the programs that run at every probe hit.
//!
//! One program for entries and one for exits serve every probe; a probe's spec ([`abi::ProbeSpec`]) says what
//! is captured, counted and sent. There is no policy here: the programs capture, aggregate, and count their
//! losses.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unstable_features, reason = "inline assembly for this target")]

mod aggregate;
mod atomic;
mod bytes;
mod capture;
mod emit;
mod entry;
mod family;
mod frames;
mod histograms;
mod maps;
mod messages;
mod namespace;
mod object;
mod record;
mod registers;
mod returns;
mod task;
mod world;

use abi::Loss;
use aya_ebpf::{
    macros::{raw_tracepoint, uprobe},
    programs::{ProbeContext, RawTracePointContext},
};

/// Why a handler ended early.
pub enum Ended {
    /// The hit or event is of no watched process or call, so nothing is lost.
    NotOurs,
    /// The handler could not go on. A loss after which it goes on is counted where it occurs.
    Lost(Loss),
}

impl From<Loss> for Ended {
    fn from(loss: Loss) -> Ended {
        Ended::Lost(loss)
    }
}

/// Counts the loss by which a handler ended.
#[inline(always)]
fn count_loss(result: Result<(), Ended>) {
    match result {
        Ok(()) | Err(Ended::NotOurs) => {}
        Err(Ended::Lost(loss)) => maps::lost(loss),
    }
}

/// Runs before a probed function's first instruction.
#[uprobe]
pub fn entry(ctx: ProbeContext) -> u32 {
    count_loss(family::permitted().and_then(|()| entry::run(&ctx)));
    0
}

/// Runs before an instruction by which a probed function is left, or before the last jump to it. No return
/// address on the program's stack is changed, so exceptions, longjmp, cancelled threads and fibers work as
/// without a probe.
#[uprobe]
pub fn leaves(ctx: ProbeContext) -> u32 {
    count_loss(family::permitted().and_then(|()| returns::run(&ctx)));
    0
}

/// Runs when a process or a thread is started, in the parent.
#[raw_tracepoint(tracepoint = "sched_process_fork")]
pub fn family_forks(ctx: RawTracePointContext) -> i32 {
    count_loss(family::forked(&ctx));
    0
}

/// Runs when a process has executed a program, in that process.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn family_execs(_ctx: RawTracePointContext) -> i32 {
    count_loss(family::executed());
    0
}

/// Runs when a thread ends, in that thread.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn family_exits(_ctx: RawTracePointContext) -> i32 {
    count_loss(family::exited());
    0
}
