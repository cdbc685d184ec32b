//! The events that the loop waits for, as futures; a future of a missing source never completes.

use std::{io, time::Duration};

use job::monotonic_ns;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::{
    actuator_queue::{ActuatorQueue, OrderReceipt},
    intake::Expected,
};
use crate::readable::Readable;

/// Possible delay of the loop's clock, plus the time for warming up.
const CLOCK_OF_LOOP: Duration = Duration::from_micros(1_800);

pub(super) fn ticker(period: Duration) -> Interval {
    let mut ticker = interval(period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}

/// A one-shot timer of the kernel, which wakes the loop once. The clock of the event loop would wake twice
/// for times beyond 64 ms.
#[derive(Debug)]
pub(super) struct Ticks {
    timer: Readable,
    due: Instant,
}

impl Ticks {
    /// The first tick comes at once.
    pub(super) fn new() -> io::Result<Ticks> {
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let mut ticks = Ticks {
            timer: Readable::new(timer)?,
            due: Instant::now(),
        };
        ticks.next_after(Duration::ZERO)?;
        Ok(ticks)
    }

    /// Requests the next tick after this time, and cancels the previous request.
    pub(super) fn next_after(&mut self, time: Duration) -> io::Result<()> {
        self.due = Instant::now() + time;
        // Zero would stop the timer.
        let time = time.max(Duration::from_nanos(1));
        let nothing = Timespec::default();
        let once = Itimerspec {
            it_interval: nothing,
            it_value: Timespec::try_from(time).map_err(io::Error::other)?,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }

    /// Requests the next tick after this time, unless it comes earlier anyway.
    pub(super) fn next_within(&mut self, time: Duration) -> io::Result<()> {
        match self.due > Instant::now() + time {
            true => self.next_after(time),
            false => Ok(()),
        }
    }

    pub(super) async fn next(&self) -> io::Result<()> {
        self.timer.wait().await
    }
}

/// Never completes without a ticker.
pub(super) async fn next_tick(ticker: &mut Option<Interval>) {
    match ticker {
        Some(ticker) => {
            ticker.tick().await;
        }
        None => std::future::pending().await,
    }
}

pub(super) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Converts a time of CLOCK_MONOTONIC for the loop.
pub(super) fn instant(due_ns: u64) -> Instant {
    Instant::now() + Duration::from_nanos(due_ns.saturating_sub(monotonic_ns()))
}

/// Never completes without a ring.
pub(super) async fn readable(ring: Option<&Readable>) -> io::Result<()> {
    match ring {
        Some(ring) => ring.wait().await,
        None => std::future::pending().await,
    }
}

/// Completes after the other sources of the loop were polled: a source that is always ready would otherwise
/// keep the loop from handling signals and ticks.
pub(super) async fn turn_if(now: bool) {
    match now {
        true => tokio::task::yield_now().await,
        false => std::future::pending().await,
    }
}

/// Completes shortly before a decision is expected, because the clock of the loop counts milliseconds; never
/// completes if none is expected.
pub(super) fn expected(next: Option<Expected>) -> impl Future<Output = Expected> {
    let now_ns = monotonic_ns();
    let early = next.map(|expected| Duration::from_nanos(expected.from_ns.saturating_sub(now_ns)));
    let before = early.map(|early| early.saturating_sub(CLOCK_OF_LOOP));
    async move {
        match next.zip(before) {
            Some((expected, before)) => {
                // So close to the decision, hits that come before the one it depends on must not make the
                // loop miss it.
                if !before.is_zero() {
                    tokio::time::sleep(before).await;
                }
                expected
            }
            None => std::future::pending().await,
        }
    }
}

/// The next receipt; never completes without a queue, or when the queue has ended.
pub(super) async fn next_receipt(queue: &mut Option<ActuatorQueue>) -> OrderReceipt {
    match queue {
        Some(queue) => match queue.receipt().await {
            Some(receipt) => receipt,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ticks_come_when_they_are_due_and_are_brought_forward_but_never_put_off() {
        let began = Instant::now();
        let mut ticks = Ticks::new().unwrap();
        ticks.next().await.unwrap();
        ticks.next_after(Duration::from_secs(3600)).unwrap();
        ticks.next_within(Duration::from_millis(20)).unwrap();
        // Later than the request: the request is kept.
        ticks.next_within(Duration::from_secs(3600)).unwrap();
        ticks.next().await.unwrap();
        assert!(began.elapsed() >= Duration::from_millis(20));
        // A request that was not waited for is replaced by the next one.
        ticks.next_after(Duration::from_millis(1)).unwrap();
        ticks.next_after(Duration::from_millis(30)).unwrap();
        let requested = Instant::now();
        ticks.next().await.unwrap();
        assert!(requested.elapsed() >= Duration::from_millis(25));
    }

    #[tokio::test]
    async fn a_source_that_is_always_ready_does_not_starve_the_others() {
        let (ticks, began) = (Ticks::new().unwrap(), Instant::now());
        while began.elapsed() < Duration::from_secs(10) {
            tokio::select! {
                biased;
                Ok(()) = ticks.next() => return,
                () = turn_if(true) => {}
            }
        }
        panic!("the tick was never heard");
    }
}
