//! Finds the return instructions of a function. x86-64 only; changes nothing.

use std::os::unix::fs::FileExt;

use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use thiserror::Error;

use crate::address::FileOffset;
use crate::image::Image;
use crate::symbol::Function;

/// Bytes of the longest function that is decoded.
const FUNCTION_BYTES_MAX: u64 = 1 << 20;

/// Why the returns of a function are unknown.
#[derive(Debug, Error)]
pub enum CodeError {
    #[error("the symbol {name} has no size: where the function ends, and so where it returns, is not known")]
    NoSize { name: String },
    #[error("the function {name} takes {size} bytes, more than are looked at")]
    TooLong { name: String, size: u64 },
    #[error("cannot decode the instruction at {name}+{offset:#x}")]
    NotCode {
        name: String,
        /// Bytes from its begin.
        offset: u64,
    },
    #[error("the function {name} cannot be read: {source}")]
    Io { name: String, source: std::io::Error },
}

/// Where a function is left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Returns {
    pub instructions: Vec<FileOffset>,
    /// Jumps out of it: tail calls, and jumps to parts that the compiler moved elsewhere. It may be left
    /// through them without a return instruction of its own.
    pub jumps_out: Vec<FileOffset>,
}

/// The return instructions of a function, read from its file.
pub fn returns(image: &Image, function: &Function) -> Result<Returns, CodeError> {
    let name = || function.names.first().cloned().unwrap_or_default();
    let bytes = bytes_of(image, function)?;
    decode(&bytes, function.offset).map_err(|offset| CodeError::NotCode { name: name(), offset })
}

/// The code of a function, read from its file.
pub(crate) fn bytes_of(image: &Image, function: &Function) -> Result<Vec<u8>, CodeError> {
    let name = || function.names.first().cloned().unwrap_or_default();
    match function.size {
        0 => return Err(CodeError::NoSize { name: name() }),
        size if size > FUNCTION_BYTES_MAX => return Err(CodeError::TooLong { name: name(), size }),
        _ => {}
    }
    let mut bytes = vec![0; usize::try_from(function.size).unwrap_or_default()];
    let read = image.file().read_exact_at(&mut bytes, function.offset.0);
    read.map_err(|source| CodeError::Io { name: name(), source })?;
    Ok(bytes)
}

/// Decodes from the first byte on. The error is the offset of an invalid instruction.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_and_jumps_out_are_distinguished_from_what_looks_like_them() {
        let code = [
            0xb8, 0xc3, 0x00, 0x00,
            0x00, // mov eax, 0xc3: the byte of a return inside another instruction
            0x75, 0x01, // jne +1
            0xc3, // ret
            0xeb, 0x02, // jmp +2: inside
            0xf3, 0xc3, // rep ret
            0xe9, 0x00, 0x10, 0x00, 0x00, // jmp far away: a tail call
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
