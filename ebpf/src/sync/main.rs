//! The kernel side of sync points: the programs that run at a sync point while an action is pending. A
//! separate object, loaded by the actuator for the first such action.
//!
//! `hold` holds the thread at the sync point until the actuator has acted, or until a bound is reached.
//! `store` writes by itself; kernels in lockdown refuse to load it, which affects no other program. There is
//! no policy here: the [`abi::Hold`] says what is held, for how long and how often.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unstable_features, reason = "inline assembly for this target")]

#[allow(dead_code, reason = "this object needs only some of these instructions")]
#[path = "../atomic.rs"]
mod atomic;
mod hold;
mod holds;
mod key;
#[path = "../namespace.rs"]
mod namespace;
#[path = "../object.rs"]
mod object;
mod store;

use aya_ebpf::{macros::uprobe, programs::ProbeContext};

/// Runs at a sync point: holds the thread until the action is carried out.
#[uprobe]
pub fn hold(ctx: ProbeContext) -> u32 {
    hold::run(&ctx);
    0
}

/// Runs at a sync point: writes by itself.
#[uprobe]
pub fn store(ctx: ProbeContext) -> u32 {
    store::run(&ctx);
    0
}
