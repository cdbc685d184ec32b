//! Captured texts: the kernel side sends each before its hit, which carries the time at which the text was
//! read. Bounded; dropped texts are counted.

use std::collections::BTreeMap;

use abi::{HitRecord, TextRecord};

use profile::probe::Probe;
use report::console::printable_bytes;

/// Maximum number of texts that wait for their hits: of open spans, and of calls that never return.
const WAITING_MAX: usize = 65_536;

/// The text of each capture of a hit, by index; `None` for numbers.
pub(super) type Texts = Vec<Option<String>>;

/// Texts whose hits have not come.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// By the time at which it was read, the thread and the index of the capture.
    texts: BTreeMap<(u64, u32, u16), String>,
    dropped: u64,
}

impl Waiting {
    pub(super) fn add(&mut self, text: &TextRecord) {
        let bytes = text.bytes.get(..usize::from(text.length)).unwrap_or_default();
        let key = (text.time_ns, text.thread, text.place);
        self.texts.insert(key, printable_bytes(bytes));
        if self.texts.len() > WAITING_MAX {
            // The oldest is the least likely to be needed.
            self.texts.pop_first();
            self.dropped += 1;
        }
    }

    /// The texts of a hit; empty if none is captured.
    pub(super) fn of(&mut self, hit: &HitRecord, probe: &Probe) -> Texts {
        let mut texts = Texts::new();
        if probe.captures.iter().all(|capture| capture.length == 0) {
            return texts;
        }
        for (place, (capture, time_ns)) in probe.captures.iter().zip(hit.captures).enumerate() {
            let is_text = capture.length > 0 && hit.valid & (1 << place) != 0;
            texts.push(match is_text {
                true => self.texts.remove(&(time_ns, hit.thread, place as u16)),
                false => None,
            });
        }
        texts
    }

    /// Number of dropped texts.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}
