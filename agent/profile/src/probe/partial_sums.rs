//! Decides which functions' hits are aggregated by the kernel side: those for which all requests need the
//! same sums of integer values. The sums are read elsewhere.

use abi::{SpecFlags, SumSpec, SumValue};

use super::{Probe, Wanted, WantedCapture, captures};

/// Sums that a request needs; without aggregation the hits would be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedSum {
    /// Groups hits by this value. `None`: groups all hits between two hits that separate the groups.
    pub key: Option<WantedCapture>,
    /// The values to sum; `None` stands for the duration.
    pub values: Vec<Option<WantedCapture>>,
}

const SENT: u32 = SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN;

/// Decides whether the hits of a function are aggregated. `last` is the last number in use: numbers are not
/// reused, because sums of an earlier rule may still be read.
pub fn decide(probe: &mut Probe, wanted: &[Wanted], last: &mut u16) {
    probe.spec.flags &= !(SpecFlags::SUM_ENTRY | SpecFlags::SUM_RETURN);
    let Some((spec, sent)) = shared_spec(probe, wanted) else {
        return;
    };
    if spec
        != (SumSpec {
            number: 0,
            ..probe.spec.partial_sum
        })
        || probe.spec.partial_sum.number == 0
    {
        let Some(next) = last.checked_add(1) else { return };
        *last = next;
        probe.spec.partial_sum = SumSpec { number: next, ..spec };
    }
    if sent & SpecFlags::SEND_ENTRY != 0 {
        probe.spec.flags |= SpecFlags::SUM_ENTRY;
    }
    if sent & SpecFlags::SEND_RETURN != 0 {
        probe.spec.flags |= SpecFlags::SUM_RETURN;
    }
}

/// The aggregation that all requests for hits have in common, and the flags of those hits; `None` if they
/// differ.
fn shared_spec(probe: &Probe, wanted: &[Wanted]) -> Option<(SumSpec, u32)> {
    let requesting = probe.wanted.iter().filter_map(|index| wanted.get(*index));
    let mut sending = requesting.filter(|want| want.flags & SENT != 0);
    let first = sending.next()?;
    let partial_sum = first.partial_sum.as_ref()?;
    let alike = |other: &Wanted| {
        other.partial_sum.as_ref() == Some(partial_sum) && (other.flags ^ first.flags) & SENT == 0
    };
    let spec = sending.all(alike).then(|| spec(partial_sum, probe))?;
    Some((spec?, first.flags & SENT))
}

/// The spec for the kernel side, without a number; `None` if a value is not an integer.
pub fn spec(partial_sum: &WantedSum, probe: &Probe) -> Option<SumSpec> {
    let mut of = [SumValue::plain(SumValue::NOTHING); abi::SUMMED_MAX];
    if partial_sum.values.len() > of.len() {
        return None;
    }
    for (of, value) in of.iter_mut().zip(&partial_sum.values) {
        *of = match value {
            Some(capture) => integer(capture, probe)?,
            None => SumValue::plain(SumValue::DURATION),
        };
    }
    let key = match &partial_sum.key {
        Some(capture) => integer(capture, probe)?,
        None => SumValue::plain(SumValue::NOTHING),
    };
    let values = partial_sum.values.len() as u16;
    Some(SumSpec {
        number: 0,
        values,
        key,
        of,
    })
}

fn integer(wanted: &WantedCapture, probe: &Probe) -> Option<SumValue> {
    let place = probe.captures.iter().position(|known| known.is(wanted))?;
    let type_name = probe.captures[place].type_name;
    let is_signed = match type_name {
        "i8" | "i16" | "i32" | "i64" => 1,
        "char" | "u8" | "u16" | "u32" | "u64" => 0,
        _ => return None,
    };
    Some(SumValue {
        place: place as u8,
        shift: 64 - 8 * captures::width(type_name)?,
        is_signed,
        zero: 0,
    })
}
