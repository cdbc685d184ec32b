//! Asks the kernel to keep CPUs that have nothing to do from sleeping: whoever is held waits for a thread to wake, and a CPU that sleeps takes
//! longer to wake than that wait may last. In a virtual machine its host gives it back when it likes, milliseconds later.
//!
//! The request is `/dev/cpu_dma_latency` (PM QoS, kernel documentation `power/pm_qos_interface`): it holds for all CPUs, and ends
//! with the process whatever ends that. Where it cannot be had, all is as without it. What is waited for, it does not know.

use std::{fs::File, io::Write};

/// Microseconds that a CPU may take to wake: none, so it waits awake.
const AT_ONCE_US: i32 = 0;
/// What the kernel takes for no request (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const WHENEVER_US: i32 = 2_000_000_000;

/// A request that asks for nothing until it is told to.
pub(super) struct Awake(Option<File>);

impl Awake {
    /// Needs root's rights, which may be given up afterwards.
    pub(super) fn open() -> Awake {
        let device = File::options().write(true).open("/dev/cpu_dma_latency");
        if let Err(error) = &device {
            tracing::debug!(%error, "CPUs that have nothing to do cannot be kept awake");
        }
        Awake(device.ok())
    }

    pub(super) fn ask(&self, is_wanted: bool) {
        let Some(mut device) = self.0.as_ref() else { return };
        let latency_us = if is_wanted { AT_ONCE_US } else { WHENEVER_US };
        if let Err(error) = device.write_all(&latency_us.to_ne_bytes()) {
            tracing::debug!(%error, "the kernel does not take how long CPUs may take to wake");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// What of all requests on this machine is in force.
    fn in_force() -> i32 {
        let mut bytes = [0; 4];
        File::open("/dev/cpu_dma_latency").unwrap().read_exact(&mut bytes).unwrap();
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn cpus_are_kept_awake_while_that_is_asked_for_and_no_longer_as_root() {
        let awake = Awake::open();
        if awake.0.is_none() {
            // Not root, or a kernel that does not manage what its CPUs do when they have nothing to do.
            return;
        }
        awake.ask(true);
        assert_eq!(in_force(), AT_ONCE_US);
        awake.ask(false);
        let of_others = in_force();
        awake.ask(true);
        drop(awake);
        assert_eq!(in_force(), of_others);
    }
}
