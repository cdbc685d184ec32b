//! The kernel side of synchronisation: what runs at a sync point while an action waits for it. An object of
//! its own, loaded by the actuator when the first action is to wait.
//!
//! `hold` keeps the thread that has reached the sync point where it is until the actuator has acted, or until
//! a bound is reached. `store` writes by itself; kernels in lockdown refuse to load it, which affects no
//! other program. Nothing is decided here: the [`abi::Hold`] says what is held, how long and how often.
#![no_std]
#![no_main]
#![feature(asm_experimental_arch)]
#![expect(unstable_features, reason = "inline assembly for this target")]

#[path = "../atomic.rs"]
mod atomic;
mod hold;
mod holds;
mod key;
#[path = "../namespace.rs"]
mod namespace;
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

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // As in the other object: the verifier refuses a loop without an end.
    loop {}
}

/// Several helpers are open to GPL-compatible programs only; "Dual MIT/GPL" is the kernel's word for our
/// licence.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
