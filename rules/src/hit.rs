//! A hit of a probe as formulas see it, independent of its source and of windows.

use std::sync::Arc;

use crate::term::Field;
use crate::value::{Cell, HitRead, Ordered, ProcessId, Reads, Scalar, Time, WhyMissing};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) time: Time,
    pub(crate) process: ProcessId,
    pub(crate) rank: Option<u32>,
    pub(crate) host: Option<Arc<str>>,
    pub(crate) thread: u32,
    pub(crate) duration_ns: u64,
    /// In the order of the probe's captures.
    pub(crate) captures: Reads,
}

impl Hit {
    /// The value of a field of the hit.
    pub(crate) fn field(&self, field: Field) -> Cell {
        match field {
            Field::Time => Ok(Scalar::Number(self.time.0 as f64 / 1e9)),
            Field::Process => self
                .rank
                .map(|rank| Scalar::Number(rank.into()))
                .ok_or_else(|| format!("process {} has no rank", self.process.0).into()),
            Field::Thread => Ok(Scalar::Number(self.thread.into())),
            Field::Host => self
                .host
                .as_deref()
                .map(|host| Scalar::Text(host.to_string()))
                .ok_or_else(|| "the host is not known".into()),
            Field::Duration => Ok(Scalar::Number(self.duration_ns as f64 / 1e9)),
            Field::Capture(place) => match self.captures.get(place) {
                Some(read) => read.clone().map_err(WhyMissing::from),
                None => Err("it was not captured".into()),
            },
        }
    }

    /// A total order of the hits of a probe, independent of their delivery: by time, then by all other
    /// fields.
    pub(crate) fn order(&self, other: &Hit) -> std::cmp::Ordering {
        let plain = |hit: &Hit| (hit.time, hit.process, hit.thread, hit.duration_ns);
        plain(self).cmp(&plain(other)).then_with(|| {
            let captures = self.captures.iter().zip(&other.captures);
            captures
                .map(|(one, two)| order(one, two))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        })
    }
}

fn order(one: &HitRead, two: &HitRead) -> std::cmp::Ordering {
    match (one, two) {
        (Ok(Scalar::Number(a)), Ok(Scalar::Number(b))) => Ordered(*a).cmp(&Ordered(*b)),
        (Ok(Scalar::Boolean(a)), Ok(Scalar::Boolean(b))) => a.cmp(b),
        (Ok(Scalar::Text(a)), Ok(Scalar::Text(b))) => a.cmp(b),
        (Err(a), Err(b)) => a.cmp(b),
        // Values of one capture have the same kind, so only a value and none remain.
        (one, two) => two.is_ok().cmp(&one.is_ok()),
    }
}
