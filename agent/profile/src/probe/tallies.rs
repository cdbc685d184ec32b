//! Of which functions hits are added up by the kernel side: where all who want them want the same sums, and each value is a whole
//! number. What they add up to is read elsewhere.

use abi::{SpecFlags, TallyRule, TallyValue};

use super::{Probe, Wanted, WantedCapture, captures};

/// What someone wants added up of hits that are sent else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedTally {
    /// Hits with the same value go together; none where those do between two that part what is added up.
    pub key: Option<WantedCapture>,
    /// What is added up; none is the duration.
    pub values: Vec<Option<WantedCapture>>,
}

const SENT: u32 = SpecFlags::SEND_ENTRY | SpecFlags::SEND_RETURN;

/// Decides whether the hits of a function are added up. `last` is the number that was given last: a number is not used again, for
/// what it stands for may still be read.
pub fn decide(probe: &mut Probe, wanted: &[Wanted], last: &mut u16) {
    probe.spec.flags &= !(SpecFlags::TALLY_ENTRY | SpecFlags::TALLY_RETURN);
    let Some((rule, sent)) = common(probe, wanted) else {
        return;
    };
    if rule
        != (TallyRule {
            number: 0,
            ..probe.spec.tally
        })
        || probe.spec.tally.number == 0
    {
        let Some(next) = last.checked_add(1) else { return };
        *last = next;
        probe.spec.tally = TallyRule { number: next, ..rule };
    }
    if sent & SpecFlags::SEND_ENTRY != 0 {
        probe.spec.flags |= SpecFlags::TALLY_ENTRY;
    }
    if sent & SpecFlags::SEND_RETURN != 0 {
        probe.spec.flags |= SpecFlags::TALLY_RETURN;
    }
}

/// What all want who want hits, and which.
fn common(probe: &Probe, wanted: &[Wanted]) -> Option<(TallyRule, u32)> {
    let asking = probe.wanted.iter().filter_map(|index| wanted.get(*index));
    let mut sending = asking.filter(|want| want.flags & SENT != 0);
    let first = sending.next()?;
    let tally = first.tally.as_ref()?;
    let alike =
        |other: &Wanted| other.tally.as_ref() == Some(tally) && (other.flags ^ first.flags) & SENT == 0;
    let rule = sending.all(alike).then(|| rule(tally, probe))?;
    Some((rule?, first.flags & SENT))
}

/// As the kernel side is told, without a number; none where a value is no whole number.
pub fn rule(tally: &WantedTally, probe: &Probe) -> Option<TallyRule> {
    let mut of = [TallyValue::plain(TallyValue::NOTHING); abi::MAX_TALLIED];
    if tally.values.len() > of.len() {
        return None;
    }
    for (of, value) in of.iter_mut().zip(&tally.values) {
        *of = match value {
            Some(capture) => whole(capture, probe)?,
            None => TallyValue::plain(TallyValue::DURATION),
        };
    }
    let key = match &tally.key {
        Some(capture) => whole(capture, probe)?,
        None => TallyValue::plain(TallyValue::NOTHING),
    };
    let values = tally.values.len() as u16;
    Some(TallyRule {
        number: 0,
        values,
        key,
        of,
    })
}

fn whole(wanted: &WantedCapture, probe: &Probe) -> Option<TallyValue> {
    let place = probe.captures.iter().position(|known| known.is(wanted))?;
    let type_name = probe.captures[place].type_name;
    let is_signed = match type_name {
        "i8" | "i16" | "i32" | "i64" => 1,
        "char" | "u8" | "u16" | "u32" | "u64" => 0,
        _ => return None,
    };
    Some(TallyValue {
        place: place as u8,
        shift: 64 - 8 * captures::width(type_name)?,
        is_signed,
        zero: 0,
    })
}
