//! The two clocks of a record: wall time for people (RFC 3339, UTC), and monotonic time to compare with
//! kernel events. Also the CPU-time clocks of other processes.

use std::fs;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instant {
    /// RFC 3339, UTC, milliseconds.
    pub wall: String,
    /// In nanoseconds, by [`monotonic_ns`].
    pub monotonic_ns: u64,
}

/// The current time on both clocks.
pub fn now() -> Instant {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant {
        wall: rfc3339(since_epoch.as_secs(), since_epoch.subsec_millis()),
        monotonic_ns: monotonic_ns(),
    }
}

/// CLOCK_MONOTONIC of the machine in nanoseconds: the clock of `bpf_ktime_get_ns`, also in a time namespace.
pub fn monotonic_ns() -> u64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    let offset_ns = OFFSET_NS.get_or_init(|| {
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        monotonic_offset_ns(&offsets)
    });
    clock_ns(ClockId::Monotonic).saturating_add_signed(-offset_ns)
}

/// Nanoseconds that a time namespace adds to CLOCK_MONOTONIC of the machine, from the file `timens_offsets`
/// (time_namespaces(7)); 0 for kernels without them.
fn monotonic_offset_ns(offsets: &str) -> i64 {
    let of_monotonic = offsets
        .lines()
        .find_map(|line| line.trim().strip_prefix("monotonic"));
    let mut numbers = of_monotonic.into_iter().flat_map(str::split_whitespace);
    let mut next = || {
        numbers
            .next()
            .and_then(|number| number.parse::<i64>().ok())
            .unwrap_or(0)
    };
    let (seconds, nanoseconds) = (next(), next());
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// Nanoseconds by which CLOCK_BOOTTIME, by which /proc reports when a process started, exceeds [`monotonic_ns`]: the
/// time for which the machine has been suspended since boot, and what a time namespace adds.
pub fn boot_offset_ns() -> i64 {
    let monotonic_ns = monotonic_ns();
    clock_ns(ClockId::Boottime)
        .wrapping_sub(monotonic_ns)
        .cast_signed()
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Nanoseconds of the ticks in which /proc reports when a process started: USER_HZ is 100 on the
/// architectures that we build for.
pub(crate) const TICK_NS: u64 = 10_000_000;

/// The CPU time of all threads of a process, without reading /proc: 0.2 us.
///
/// The time of a running thread lags by up to a tick of the kernel's clock, as in /proc; that of a sleeping
/// one does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// `None` if there is no such process.
    pub fn of(pid: i32) -> Option<CpuClock> {
        crate::sys::cpu_clock(pid).map(CpuClock)
    }

    /// Nanoseconds so far; `None` once it has ended. The number may belong to another process then: the
    /// caller must notice the end by other means.
    pub fn ns(self) -> Option<u64> {
        crate::sys::clock_ns(self.0)
    }
}

/// A time since 1970 in RFC 3339, UTC. Converts days to a date by the era arithmetic of the proleptic
/// Gregorian calendar (years start in March, so that the leap day is the last of its year).
pub fn rfc3339(seconds: u64, millis: u32) -> String {
    let (days, second_of_day) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second_of_day / 3_600, second_of_day / 60 % 60, second_of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tuneagent_e2e::wait::{SOON, wait_until};

    use super::*;

    #[test]
    fn the_clock_of_a_process_counts_what_it_does_and_stands_while_it_sleeps() {
        let ours = CpuClock::of(std::process::id() as i32).unwrap();
        let before = ours.ns().unwrap();
        while ours.ns() == Some(before) {
            std::hint::spin_loop();
        }
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let theirs = CpuClock::of(child.id() as i32).unwrap();
        // It may not sleep yet.
        let mut last = (theirs.ns(), Instant::now());
        let stands = wait_until("the same time for 20 ms", SOON, || {
            let now = theirs.ns();
            if now != last.0 {
                last = (now, Instant::now());
            }
            Ok(now.is_some() && last.1.elapsed() > Duration::from_millis(20))
        });
        child.kill().unwrap();
        child.wait().unwrap();
        stands.unwrap();
        assert_eq!(theirs.ns(), None);
    }

    #[test]
    fn the_clock_of_a_time_namespace_is_corrected_to_that_of_the_machine() {
        for (offsets, expected) in [
            ("", 0),
            (
                "monotonic           0         0\nboottime            0         0\n",
                0,
            ),
            (
                "monotonic      100000 250000000\nboottime       -7 0\n",
                100_000_250_000_000,
            ),
            ("monotonic      -3         1\n", -2_999_999_999),
        ] {
            assert_eq!(monotonic_offset_ns(offsets), expected, "{offsets}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(rfc3339(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(951_782_399, 7), "2000-02-28T23:59:59.007Z");
        assert_eq!(rfc3339(951_782_400, 0), "2000-02-29T00:00:00.000Z");
        assert_eq!(rfc3339(1_795_186_799, 999), "2026-11-20T14:59:59.999Z");
        assert_eq!(rfc3339(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
