//! What the loop waits for, each as something that never comes where it is not there.

use std::{io, time::Duration};

use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use super::hands::{Hands, Receipt};
use crate::readable::Readable;

pub(super) fn ticker(period: Duration) -> Interval {
    let mut ticker = interval(period);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticker
}

/// Never, without a ticker.
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

/// Never, without a ring.
pub(super) async fn readable(ring: Option<&Readable>) -> io::Result<()> {
    match ring {
        Some(ring) => ring.wait().await,
        None => std::future::pending().await,
    }
}

pub(super) async fn at_once_if(now: bool) {
    if !now {
        std::future::pending::<()>().await;
    }
}

/// At once, but for what else the loop waits for, which is looked at first.
pub(super) async fn turn_if(now: bool) {
    match now {
        true => tokio::task::yield_now().await,
        false => std::future::pending().await,
    }
}

/// The next receipt; never, without hands or when they have ended.
pub(super) async fn next_receipt(hands: &mut Option<Hands>) -> Receipt {
    match hands {
        Some(hands) => match hands.receipt().await {
            Some(receipt) => receipt,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}
