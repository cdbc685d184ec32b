//! Keeps idle CPUs from sleeping. A sleeping CPU takes longer to wake than a held thread may wait and than a
//! decision takes; in a virtual machine the host returns the CPU milliseconds later.
//!
//! The request is made through `/dev/cpu_dma_latency` (PM QoS: Linux,
//! Documentation/power/pm_qos_interface.rst). It applies to all CPUs of the machine and ends with the
//! requesting process, however that ends.

use std::{
    fs::{self, File},
    io::{self, Write},
};

pub const DEVICE: &str = "/dev/cpu_dma_latency";
/// Permitted wake-up latency in microseconds: none, so an idle CPU polls.
const AT_ONCE_US: i32 = 0;
/// The value that the kernel treats as no request (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const WHENEVER_US: i32 = 2_000_000_000;

/// An open device; without effect until [`Awake::set`].
#[derive(Debug)]
pub struct Awake(File);

impl Awake {
    /// Opens the device. Needs root's rights, which may be given up afterwards.
    ///
    /// # Errors
    /// The device does not exist, or may not be written.
    pub fn open() -> io::Result<Awake> {
        File::options().write(true).open(DEVICE).map(Awake)
    }

    /// Starts or ends the request to keep CPUs awake.
    ///
    /// # Errors
    /// The kernel refuses the request.
    pub fn set(&self, is_wanted: bool) -> io::Result<()> {
        let latency_us = if is_wanted { AT_ONCE_US } else { WHENEVER_US };
        (&self.0).write_all(&latency_us.to_ne_bytes())
    }
}

/// Whether the kernel controls how CPUs sleep. If not, a request has no effect.
pub fn is_heeded() -> bool {
    let driver = fs::read_to_string("/sys/devices/system/cpu/cpuidle/current_driver");
    driver.is_ok_and(|driver| driver.trim() != "none")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The latency that results from all requests on this machine.
    fn in_force() -> i32 {
        let mut bytes = [0; 4];
        File::open(DEVICE).unwrap().read_exact(&mut bytes).unwrap();
        i32::from_ne_bytes(bytes)
    }

    #[test]
    fn cpus_are_kept_awake_while_that_is_requested_and_no_longer() {
        // Not root, or a machine without the device.
        let Ok(awake) = Awake::open() else { return };
        let of_others = in_force();
        awake.set(true).unwrap();
        assert_eq!(in_force(), AT_ONCE_US);
        awake.set(false).unwrap();
        assert_eq!(in_force(), of_others);
        awake.set(true).unwrap();
        drop(awake);
        assert_eq!(in_force(), of_others);
    }
}
