//! The instructions of a function, as far as probes need them: where it returns. x86-64 only; changes nothing.

use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use thiserror::Error;

use crate::address::FileOffset;
use crate::image::{Image, Segment};
use crate::symbol::Function;

/// A function longer than this is not decoded.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// More code than this behind a function's jumps is not looked at, in bytes and instructions.
const SEGMENT_BYTES_MAX: u64 = 64 << 20;
const BEHIND_MAX: usize = 20_000;

/// Why the returns of a function are not known.
#[derive(Debug, Error)]
pub enum CodeError {
    /// The symbol has no size.
    #[error("the symbol {name} has no size: where the function ends, and so where it returns, is not known")]
    NoSize {
        /// The function.
        name: String,
    },
    /// It is too long.
    #[error("the function {name} takes {size} bytes, more than are looked at")]
    TooLong {
        /// The function.
        name: String,
        /// Its size.
        size: u64,
    },
    /// It holds something that is no instruction.
    #[error("the function {name} holds something at offset {offset} that is no instruction")]
    NotCode {
        /// The function.
        name: String,
        /// Bytes from its begin.
        offset: u64,
    },
    /// Its bytes cannot be read.
    #[error("the function {name} cannot be read: {source}")]
    Io {
        /// The function.
        name: String,
        /// What went wrong.
        source: std::io::Error,
    },
}

/// Where a function is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Returns {
    /// Its return instructions.
    pub instructions: Vec<FileOffset>,
    /// Jumps out of it: calls in its last position, and parts that the compiler moved elsewhere. It may be left through
    /// them without a return instruction of its own.
    pub jumps_out: Vec<FileOffset>,
}

/// The return instructions of a function, read from its file.
pub fn returns(image: &Image, function: &Function) -> Result<Returns, CodeError> {
    let name = || function.names.first().cloned().unwrap_or_default();
    match function.size {
        0 => return Err(CodeError::NoSize { name: name() }),
        size if size > FUNCTION_BYTES_MAX => return Err(CodeError::TooLong { name: name(), size }),
        _ => {}
    }
    let mut bytes = vec![0; usize::try_from(function.size).unwrap_or_default()];
    let read = image.file().read_exact_at(&mut bytes, function.offset.0);
    read.map_err(|source| CodeError::Io { name: name(), source })?;
    decode(&bytes, function.offset).map_err(|offset| CodeError::NotCode { name: name(), offset })
}

/// Decodes from the first byte on; the error is the place of what is no instruction.
fn decode(bytes: &[u8], start: FileOffset) -> Result<Returns, u64> {
    let mut found = Returns::default();
    let inside = start.0..start.0 + bytes.len() as u64;
    for instruction in &mut Decoder::with_ip(64, bytes, start.0, DecoderOptions::NONE) {
        if instruction.is_invalid() {
            return Err(instruction.ip() - start.0);
        }
        match instruction.mnemonic() {
            Mnemonic::Ret => found.instructions.push(FileOffset(instruction.ip())),
            Mnemonic::Jmp
                if instruction.op0_kind() == OpKind::NearBranch64
                    && !inside.contains(&instruction.near_branch64()) =>
            {
                found.jumps_out.push(FileOffset(instruction.ip()));
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The instructions outside of a function at which it ends because it jumps there: it ends in a call of another one, which returns
/// in its place. Where that is one of another file it is the jump to it. `None` when they cannot all be told: a jump to a computed
/// place, or too much code.
pub fn returns_behind(image: &Image, function: &Function) -> Option<Vec<FileOffset>> {
    let start = function.offset.0;
    let holds =
        |segment: &&Segment| (segment.offset.0..segment.offset.0 + segment.file_size).contains(&start);
    let segment = image.segments.iter().find(holds)?;
    let size = Some(segment.file_size).filter(|size| *size <= SEGMENT_BYTES_MAX)?;
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    image.file().read_exact_at(&mut bytes, segment.offset.0).ok()?;
    let mut found = reached(&bytes, segment.offset.0, start)?;
    found.retain(|offset| !(start..start + function.size).contains(offset));
    Some(found.into_iter().map(FileOffset).collect())
}

/// The return instructions that are reached from a place, without following calls, and the last jumps into other files. `code`
/// begins at `base`.
fn reached(code: &[u8], base: u64, start: u64) -> Option<BTreeSet<u64>> {
    let (mut seen, mut open, mut returns) = (BTreeSet::new(), vec![(start, None)], BTreeSet::new());
    while let Some((place, from)) = open.pop() {
        let rest = code.get(usize::try_from(place.checked_sub(base)?).ok()?..)?;
        let mut first = true;
        for instruction in &mut Decoder::with_ip(64, rest, place, DecoderOptions::NONE) {
            let is_first = std::mem::replace(&mut first, instruction.mnemonic() == Mnemonic::Endbr64);
            // Many jumps lead to the stub of a function in another file; each of them is an end.
            if is_first && instruction.mnemonic() == Mnemonic::Jmp && instruction.is_ip_rel_memory_operand() {
                returns.insert(from.unwrap_or(instruction.ip()));
                break;
            }
            if instruction.is_invalid() || !seen.insert(instruction.ip()) {
                break;
            }
            if seen.len() > BEHIND_MAX {
                return None;
            }
            let jumps = instruction.op0_kind() == OpKind::NearBranch64;
            match instruction.mnemonic() {
                Mnemonic::Ret => {
                    returns.insert(instruction.ip());
                    break;
                }
                Mnemonic::Jmp if jumps => {
                    open.push((instruction.near_branch64(), Some(instruction.ip())));
                    break;
                }
                Mnemonic::Jmp => return None,
                Mnemonic::Call => {}
                Mnemonic::Ud2 | Mnemonic::Int3 => break,
                // Every other instruction with such an operand is a conditional jump.
                _ if jumps => open.push((instruction.near_branch64(), None)),
                _ => {}
            }
        }
    }
    Some(returns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_behind_jumps_are_found_without_symbols() {
        let code = [
            0x74, 0x03, // 0: je 5
            0xeb, 0x04, // 2: jmp 8
            0xc3, // 4: never reached
            0x90, // 5: nop
            0xeb, 0xf8, // 6: jmp 0
            0x75, 0x01, // 8: jne 11
            0xc3, // 10: ret
            0xc3, // 11: ret
        ];
        let found = reached(&code, 0x1000, 0x1000).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [0x100a, 0x100b]);
        let stub = [
            0xeb, 0x01, // 0: jmp 3
            0xc3, // 2: never reached
            0xf3, 0x0f, 0x1e, 0xfa, // 3: endbr64
            0xff, 0x25, 0, 0, 0, 0, // 7: jmp [rip]
        ];
        let found = reached(&stub, 0, 0).unwrap();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [0], "the jump to the stub");
        let computed = [0xff, 0xe0]; // jmp rax
        assert_eq!(reached(&computed, 0, 0), None);
        assert_eq!(
            reached(&[0xe9, 0, 0, 0, 0x10], 0, 0),
            None,
            "out of the file's code"
        );
    }

    #[test]
    fn returns_and_jumps_out_are_told_apart_from_what_looks_like_them() {
        let code = [
            0xb8, 0xc3, 0x00, 0x00,
            0x00, // mov eax, 0xc3: the byte of a return inside another instruction
            0x75, 0x01, // jne +1
            0xc3, // ret
            0xeb, 0x02, // jmp +2: inside
            0xf3, 0xc3, // rep ret
            0xe9, 0x00, 0x10, 0x00, 0x00, // jmp far away: a call in the last position
            0xc2, 0x08, 0x00, // ret 8
        ];
        let found = decode(&code, FileOffset(0x1000)).unwrap();
        let offsets: Vec<u64> = found
            .instructions
            .iter()
            .map(|offset| offset.0 - 0x1000)
            .collect();
        assert_eq!(
            (offsets, found.jumps_out),
            (vec![7, 10, 17], vec![FileOffset(0x100c)])
        );
    }

    #[test]
    fn what_is_no_instruction_is_an_error_with_its_place() {
        assert_eq!(decode(&[0x90, 0x06], FileOffset(0)), Err(1));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = decode(&bytes, FileOffset(1 << 40));
        }
    }
}
