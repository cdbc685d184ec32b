//! The only unsafe code of the crate: what no safe crate offers.
#![expect(
    unsafe_code,
    reason = "setting a signal's disposition has no safe face in rustix"
)]

/// Lets the signals that end a session pass by: the actuator ends when its stream ends, with every change
/// taken back, never in the middle of one.
pub(crate) fn ignore_termination_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: SIG_IGN is a constant, no handler of ours runs; it fails only for signals that cannot be
        // ignored.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
