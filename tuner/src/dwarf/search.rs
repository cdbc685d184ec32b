//! Finds any of many 4- or 8-byte words at any position among bytes. Independent of their meaning.

use std::collections::HashSet;

use memchr::memmem::Finder;

/// Up to this number, words are searched one by one: a processor compares many bytes at once.
const FEW: usize = 4;

/// What a unit must contain to match.
pub(super) enum Needles<'n> {
    /// An entry at one of these addresses.
    Addresses(Words),
    /// An entry of this name.
    Name(&'n str),
    /// A reference to an entry at one of these section offsets.
    Offsets(Words),
}

/// Words to be found.
#[derive(Debug)]
pub(super) struct Words {
    wanted: HashSet<u64>,
    /// The lowest two bytes of all words: these alone exclude nearly every position.
    low: Vec<u64>,
}

impl Words {
    pub(super) fn new(words: impl IntoIterator<Item = u64>) -> Words {
        let wanted: HashSet<u64> = words.into_iter().collect();
        let mut low = vec![0u64; (1 << 16) / 64];
        for word in &wanted {
            let bits = *word as usize & 0xffff;
            if let Some(block) = low.get_mut(bits / 64) {
                *block |= 1 << (bits % 64);
            }
        }
        Words { wanted, low }
    }

    /// Reports every position at which one of the words begins, as `width` bytes, least significant first.
    pub(super) fn find_in(&self, bytes: &[u8], width: usize, found: &mut impl FnMut(usize)) {
        if self.wanted.len() <= FEW {
            for word in &self.wanted {
                let word = word.to_le_bytes();
                let word = word.get(..width).unwrap_or_default();
                let finder = Finder::new(word);
                let mut from = 0;
                // Occurrences can overlap.
                while let Some(at) = finder.find(bytes.get(from..).unwrap_or_default()) {
                    found(from + at);
                    from += at + 1;
                }
            }
            return;
        }
        for (at, window) in bytes.windows(width).enumerate() {
            let bits = usize::from(u16::from_le_bytes([window[0], window[1]]));
            if self.low[bits / 64] & (1 << (bits % 64)) == 0 {
                continue;
            }
            let word = window
                .iter()
                .rev()
                .fold(0u64, |word, byte| word << 8 | u64::from(*byte));
            if self.wanted.contains(&word) {
                found(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_place_is_found_and_no_other(bytes in proptest::collection::vec(0u8..3, 0..60), word in 0u32..8, many: bool) {
            let word = word | (word << 16);
            let mut found = Vec::new();
            let others = if many { 100..110 } else { 0..0 };
            let words = others.map(|other| other << 32).chain([u64::from(word)]);
            Words::new(words).find_in(&bytes, 4, &mut |at| found.push(at));
            let expected: Vec<usize> = (0..bytes.len().saturating_sub(3))
                .filter(|at| bytes[*at..at + 4] == word.to_le_bytes())
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
