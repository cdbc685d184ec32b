//! What every object has: the panic handler and the licence.

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo) -> ! {
    // The verifier refuses an infinite loop, so a panic that is not optimised away fails at load.
    loop {}
}

/// Several helpers require a GPL-compatible program; "Dual MIT/GPL" is the kernel's name for our licence.
#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
