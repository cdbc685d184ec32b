//! Numbers and texts as bytes. What they mean is not known here.

use super::{MAX_TEXT, TooLarge};

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// A difference, modulo 2^64, so that small ones of either sign are short.
pub(super) fn put_difference(out: &mut Vec<u8>, now: u64, before: u64) {
    let difference = now.wrapping_sub(before).cast_signed();
    put_number(out, ((difference << 1) ^ (difference >> 63)).cast_unsigned());
}

/// What differs in the bits of two floats, its low bytes first: they are zeros where the numbers are round.
pub(super) fn put_float(out: &mut Vec<u8>, now: u64, before: u64) {
    put_number(out, (now ^ before).swap_bytes());
}

pub(super) fn put_size(out: &mut Vec<u8>, size: usize) {
    // A usize of more than 64 bits does not exist.
    put_number(out, u64::try_from(size).unwrap_or(u64::MAX));
}

pub(super) fn put_text(out: &mut Vec<u8>, what: &'static str, text: &str) -> Result<(), TooLarge> {
    within(what, text.len(), MAX_TEXT)?;
    put_size(out, text.len());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

pub(super) fn within(what: &'static str, size: usize, limit: usize) -> Result<(), TooLarge> {
    if size <= limit {
        Ok(())
    } else {
        Err(TooLarge { what, size, limit })
    }
}

/// What is wrong with bytes that make no sense.
pub(super) type Wrong = &'static str;

/// Reads forward in bytes. Never allocates more than it has been given.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Cursor<'a> {
        Cursor { rest }
    }

    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self
            .rest
            .split_at_checked(count)
            .ok_or("something is longer than what it is in")?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Wrong> {
        let (first, rest) = self.rest.split_first().ok_or("something is cut off")?;
        self.rest = rest;
        Ok(*first)
    }

    pub(super) fn fixed(&mut self) -> Result<u32, Wrong> {
        let (taken, rest) = self.rest.split_first_chunk::<4>().ok_or("something is cut off")?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    pub(super) fn number(&mut self) -> Result<u64, Wrong> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err("a number has more than 64 bits")
    }

    pub(super) fn small(&mut self) -> Result<u32, Wrong> {
        u32::try_from(self.number()?).map_err(|_| "a number has more than 32 bits")
    }

    pub(super) fn size(&mut self) -> Result<usize, Wrong> {
        usize::try_from(self.number()?).map_err(|_| "something is longer than what it is in")
    }

    pub(super) fn difference(&mut self, before: u64) -> Result<u64, Wrong> {
        let folded = self.number()?;
        let difference = (folded >> 1) ^ 0_u64.wrapping_sub(folded & 1);
        Ok(before.wrapping_add(difference))
    }

    pub(super) fn float(&mut self, before: u64) -> Result<u64, Wrong> {
        Ok(self.number()?.swap_bytes() ^ before)
    }

    /// A text, in one line: a recording may be anybody's, and what a terminal would act on is replaced.
    pub(super) fn text(&mut self) -> Result<String, Wrong> {
        let size = self.size()?;
        if size > MAX_TEXT {
            return Err("a text is longer than texts may be");
        }
        let text = std::str::from_utf8(self.bytes(size)?).map_err(|_| "a text is not UTF-8")?;
        Ok(text.replace(is_active, "\u{fffd}"))
    }
}

/// Control characters, and those that change the direction of writing or end a line.
pub(super) fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}
