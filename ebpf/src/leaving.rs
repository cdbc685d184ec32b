//! The return instruction of a function, carried out at its probe. Single-stepping it takes the kernel ten times as long as all else that
//! happens at the hit. Where anything speaks against it nothing is changed, and the kernel steps over the instruction as ever.

use abi::ReturnSite;
use aya_ebpf::{
    EbpfContext,
    helpers::{bpf_get_attach_cookie, bpf_get_current_task, bpf_probe_read_kernel, bpf_probe_read_user},
    programs::ProbeContext,
};

use crate::{
    namespace::constant,
    returns::{self, AFTER_RETURN, AT_INSTRUCTION},
};

/// What stands at a probed instruction.
const BREAKPOINT: u8 = 0xcc;

/// The bit of a thread's features that says that it has a shadow stack: a return that is not an instruction leaves its address there,
/// and the next one ends the program.
const SHADOW_STACK: u64 = 1;

/// Where the kernel keeps, in the record of a thread, which such features it has; set at load, 0 where the kernel knows of none.
#[unsafe(no_mangle)]
static FEATURES_OFFSET: u32 = 0;

/// One return. Whoever hits the probe has the instruction carried out, watched or not.
pub fn run(ctx: &ProbeContext) {
    // SAFETY: the context is the one that the kernel passed to this program.
    let cookie = unsafe { bpf_get_attach_cookie(ctx.as_ptr()) };
    let regs = ctx.regs;
    // SAFETY: the kernel passed the registers.
    let (place, stack_pointer) = unsafe { ((*regs).rip, (*regs).rsp) };
    // Another program at the same instruction may have carried it out already.
    let is_here = ReturnSite::is_at(cookie, place) && has_breakpoint(place);
    let moved = if is_here { AT_INSTRUCTION } else { AFTER_RETURN };
    returns::run(ctx, moved);
    if !is_here || !ReturnSite::is_plain(cookie) || has_shadow_stack() {
        return;
    }
    // SAFETY: the helper checks the address; a bad one is an error, not a fault.
    let Ok(caller) = (unsafe { bpf_probe_read_user(stack_pointer as *const u64) }) else {
        return;
    };
    // SAFETY: the registers of the current thread, which go on from here as behind the instruction.
    unsafe {
        (&raw mut (*regs).rsp).write_volatile(stack_pointer.wrapping_add(8));
        (&raw mut (*regs).rip).write_volatile(caller);
    }
}

fn has_breakpoint(place: u64) -> bool {
    // SAFETY: as above.
    let byte = unsafe { bpf_probe_read_user(place as *const u8) };
    byte == Ok(BREAKPOINT)
}

/// Also where it cannot be told.
fn has_shadow_stack() -> bool {
    let offset = constant(&FEATURES_OFFSET);
    if offset == 0 {
        return false;
    }
    // SAFETY: the helper has no preconditions.
    let record = unsafe { bpf_get_current_task() };
    let place = record.wrapping_add(u64::from(offset)) as *const u64;
    // SAFETY: as above.
    let features = unsafe { bpf_probe_read_kernel(place) };
    features.map_or(true, |features| features & SHADOW_STACK != 0)
}
