//! Tests with our own file, with texts, and with files that state more than they contain.

use super::*;
use proptest::prelude::*;

#[test]
fn our_own_file_has_segments_and_symbols() {
    let image = Image::read(File::open("/proc/self/exe").unwrap()).unwrap();
    assert!(image.segments.iter().any(|segment| segment.executable));
    assert!(
        image
            .static_symbols()
            .unwrap()
            .iter()
            .any(|symbol| symbol.name == "main")
    );
    assert!(
        image
            .dynamic
            .needed
            .iter()
            .any(|name| name.starts_with("libc.so"))
    );
}

#[test]
fn a_text_is_not_an_elf_file() {
    let error = Image::read(File::open("/proc/self/status").unwrap()).unwrap_err();
    assert!(matches!(error, ImageError::NotElf), "{error}");
}

/// `/bin/true` with its sections of this kind in a hole behind its end: of the stated size, without stored
/// bytes.
fn with_a_hole(kind: elf::SectionType, size: u64) -> File {
    use std::io::Write;
    let mut bytes = std::fs::read("/bin/true").unwrap();
    let table = u64::from_le_bytes(bytes[0x28..0x30].try_into().unwrap()) as usize;
    let count = usize::from(u16::from_le_bytes([bytes[0x3c], bytes[0x3d]]));
    let hole = bytes.len() as u64;
    let headers = (0..count).map(|index| table + 64 * index);
    for at in headers.filter(|at| at + 64 <= hole as usize) {
        if bytes[at + 4..at + 8] == kind.0.to_le_bytes() {
            bytes[at + 24..at + 32].copy_from_slice(&hole.to_le_bytes());
            bytes[at + 32..at + 40].copy_from_slice(&size.to_le_bytes());
        }
    }
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file.set_len(hole + size).unwrap();
    file
}

#[test]
fn tables_in_a_hole_of_the_file_take_no_memory() {
    let kinds = [elf::SHT_DYNSYM, elf::SHT_STRTAB, elf::SHT_RELA, elf::SHT_DYNAMIC];
    for kind in kinds {
        for size in [256 << 20, 2 << 30, 14 << 30] {
            let looked = Image::read(with_a_hole(kind, size)).and_then(|image| {
                image.defined_symbols()?;
                image.relocations_of("stdout").map(drop)
            });
            let error = looked.expect_err(&format!("{kind:?} of {size} bytes"));
            let is_refused = matches!(error, ImageError::Hollow { .. } | ImageError::TooLarge { .. });
            assert!(is_refused, "{kind:?} of {size} bytes: {error}");
        }
    }
}

proptest! {
    #[test]
    fn a_damaged_header_is_an_error_and_no_panic(at in 16usize..64, byte: u8) {
        use std::io::Write;
        let mut bytes = std::fs::read("/bin/true").unwrap();
        bytes[at] = byte;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        if let Ok(image) = Image::read(file) {
            let _ = image.defined_symbols();
            let _ = image.relocations_of("stdout");
        }
    }
}
