//! Marks: places that a program's source names (SystemTap's `sys/sdt.h`, our `include/tuneagent.h`), found in
//! the notes of its file, and the arguments that each passes. Reads files; does not decide which marks are
//! probed.
//!
//! A note of `.note.stapsdt` has the address of an instruction, of a base and of a semaphore, then provider,
//! name and arguments. The arguments are operands in assembler syntax, each after its size: `-4@%eax
//! 8@-16(%rbp) 8@$7`.

use std::fmt;
use std::os::unix::fs::FileExt;

use object::LittleEndian as LE;
use object::elf::NoteType;

use crate::address::{FileOffset, LinkAddress};
use crate::elf::{self, Elf, ImageError};
use crate::printable::printable_bytes;

/// Bytes of the largest section of notes that is read.
const NOTES_BYTES_MAX: u64 = 64 << 20;
/// Marks of one file that are read at most.
const MARKS_MAX: usize = 100_000;
/// The largest number of arguments of a mark.
const ARGUMENTS_MAX: usize = 12;
/// The owner of the notes, and their type (NT_STAPSDT).
const OWNER: &[u8] = b"stapsdt";
const KIND: NoteType = NoteType(3);

/// One place of a mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// `provider:name`.
    pub name: String,
    /// The nop instruction, as the linker placed it.
    pub address: LinkAddress,
    /// A counter that is incremented while the mark is probed: while it is 0 the program may skip the mark.
    pub semaphore: Option<LinkAddress>,
    /// The arguments as the note states them.
    pub text: String,
}

/// An argument of a mark in one place: its type and location.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkArgument {
    /// Its type as rules name it.
    pub type_name: &'static str,
    pub place: MarkPlace,
}

/// Where an argument of a mark is when the program reaches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkPlace {
    /// In a register, by its number in machine code (0 is rax).
    Register(u8),
    /// In memory, at base + (index << shift) + offset.
    Memory {
        base: u8,
        /// The index register and its shift.
        index: Option<(u8, u8)>,
        offset: i32,
    },
    /// Nowhere: it is this constant.
    Constant(u64),
}

/// Why an argument of a mark cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoArgument {
    /// It is in a floating-point register.
    FloatingRegister,
    /// It is this variable, or part of it.
    Variable(String),
    /// It has another syntax than assemblers use on x86-64.
    Spelling(String),
}

impl fmt::Display for NoArgument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoArgument::FloatingRegister => {
                f.write_str("it is in a register of floating point, which a probe cannot read")
            }
            NoArgument::Variable(name) => {
                write!(f, "it lies in the variable {name}: capture that by its name")
            }
            NoArgument::Spelling(text) => write!(f, "the operand `{text}` is not known"),
        }
    }
}

impl Mark {
    /// Its arguments, in order, or why one cannot be read.
    pub fn arguments(&self) -> Vec<Result<MarkArgument, NoArgument>> {
        arguments(&self.text)
    }

    /// The file offset of its instruction.
    pub fn offset(&self, image: &Elf) -> Option<FileOffset> {
        image.file_offset(self.address)
    }

    /// Whether its instruction is one that the kernel may replace by a call: then a hit would destroy what a
    /// leaf function keeps below its stack pointer.
    pub fn is_long_nop(&self, image: &Elf) -> bool {
        const LONG_NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
        let mut code = [0; LONG_NOP.len()];
        let read = self
            .offset(image)
            .is_some_and(|offset| image.file().read_exact_at(&mut code, offset.0).is_ok());
        read && code == LONG_NOP
    }
}

/// The arguments that a note states, in order, or why one cannot be read.
pub fn arguments(text: &str) -> Vec<Result<MarkArgument, NoArgument>> {
    let operands = text.split_ascii_whitespace();
    operands.take(ARGUMENTS_MAX).map(MarkArgument::parse).collect()
}

/// All marks of a file, in the order of its notes.
pub(crate) fn marks(image: &Elf) -> Result<Vec<Mark>, ImageError> {
    let notes = image.section_bytes_up_to(".note.stapsdt", NOTES_BYTES_MAX)?;
    let base = image
        .sections
        .iter()
        .find(|section| section.name == ".stapsdt.base");
    Ok(parse(&notes, base.map(|section| section.address)))
}

/// `base` is the current address of the base section that the notes refer to: if the file was moved after it
/// was linked, that section was moved too.
fn parse(bytes: &[u8], base: Option<LinkAddress>) -> Vec<Mark> {
    let own = elf::notes(bytes).filter(|note| note.name() == OWNER && note.n_type(LE) == KIND);
    own.filter_map(|note| mark(note.desc(), base))
        .take(MARKS_MAX)
        .collect()
}

fn mark(content: &[u8], base: Option<LinkAddress>) -> Option<Mark> {
    let word = |at: usize| Some(u64::from_le_bytes(content.get(at..at + 8)?.try_into().ok()?));
    let (address, linked_base, semaphore) = (word(0)?, word(8)?, word(16)?);
    let mut texts = content.get(24..)?.split(|byte| *byte == 0);
    let mut text = || Some(printable_bytes(texts.next()?));
    let (provider, name, arguments) = (text()?, text()?, text()?);
    let moved = match base {
        Some(base) if linked_base != 0 => base.0.wrapping_sub(linked_base),
        _ => 0,
    };
    let place = |linked: u64| LinkAddress(linked.wrapping_add(moved));
    (!provider.is_empty() && !name.is_empty()).then(|| Mark {
        name: format!("{provider}:{name}"),
        address: place(address),
        semaphore: (semaphore != 0).then(|| place(semaphore)),
        text: arguments,
    })
}

impl MarkArgument {
    /// `-4@%eax`: the size, negative for a signed one and with an `f` for floating point, and the operand.
    fn parse(text: &str) -> Result<MarkArgument, NoArgument> {
        let unknown = || NoArgument::Spelling(text.to_owned());
        let (size, operand) = text.split_once('@').ok_or_else(unknown)?;
        let type_name = match size {
            "-1" => "i8",
            "1" => "u8",
            "-2" => "i16",
            "2" => "u16",
            "-4" => "i32",
            "4" => "u32",
            "4f" => "f32",
            "-8" => "i64",
            "8" => "u64",
            "8f" => "f64",
            _ => return Err(unknown()),
        };
        let place = place(operand)?;
        Ok(MarkArgument { type_name, place })
    }
}

fn place(operand: &str) -> Result<MarkPlace, NoArgument> {
    let unknown = || NoArgument::Spelling(operand.to_owned());
    if let Some(number) = operand.strip_prefix('$') {
        return constant(number).map(MarkPlace::Constant).ok_or_else(unknown);
    }
    if operand.starts_with('%') {
        let register = |name| {
            if is_floating(operand) {
                return Err(NoArgument::FloatingRegister);
            }
            register(name).map(MarkPlace::Register).ok_or_else(unknown)
        };
        return register(operand);
    }
    let Some((offset, registers)) = operand.strip_suffix(')').and_then(|rest| rest.split_once('(')) else {
        return Err(variable(operand).map_or_else(unknown, NoArgument::Variable));
    };
    let mut parts = registers.split(',');
    let (base, index, scale) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    if let (Some(name), true) = (variable(offset), parts.next().is_none()) {
        return Err(NoArgument::Variable(name));
    }
    let offset = match offset {
        "" => Some(0),
        offset => constant(offset).and_then(|offset| i32::try_from(offset as i64).ok()),
    };
    let index = match (index, scale) {
        (None, _) => None,
        (Some(index), scale) => {
            let shift = ["1", "2", "4", "8"]
                .iter()
                .position(|known| *known == scale.unwrap_or("1"));
            Some((
                register(index).ok_or_else(unknown)?,
                shift.ok_or_else(unknown)? as u8,
            ))
        }
    };
    Ok(MarkPlace::Memory {
        base: register(base)
            .filter(|_| parts.next().is_none())
            .ok_or_else(unknown)?,
        index,
        offset: offset.ok_or_else(unknown)?,
    })
}

/// The variable in `dt`, `dt+8` and `dt-4`.
fn variable(text: &str) -> Option<String> {
    let end = text.find(['+', '-']).unwrap_or(text.len());
    let name = text.get(..end)?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == '.');
    (is_name && !name.contains(['%', '$', '(', ')', ','])).then(|| name.to_owned())
}

/// A decimal or hexadecimal number, with or without a sign; also unsigned ones of 64 bits.
fn constant(text: &str) -> Option<u64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit());
    let magnitude = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    let magnitude = magnitude.ok().filter(|_| is_number)?;
    match is_negative {
        true => (magnitude <= 1 << 63).then(|| magnitude.wrapping_neg()),
        false => Some(magnitude),
    }
}

fn is_floating(register: &str) -> bool {
    ["%xmm", "%ymm", "%zmm", "%st"]
        .iter()
        .any(|kind| register.starts_with(kind))
}

/// The number of a general register, by any of its names. Registers of a second byte (`%ah`) are not
/// supported: values are read from the first byte on.
fn register(name: &str) -> Option<u8> {
    const OLD: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
    let name = name.strip_prefix('%')?;
    let old = |name: &str| OLD.iter().position(|known| *known == name);
    let number = match name
        .strip_prefix('r')
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    {
        Some(numbered) => {
            let digits = numbered.strip_suffix(['d', 'w', 'b']).unwrap_or(numbered);
            digits.parse().ok().filter(|number| (8..16).contains(number))
        }
        None => {
            let wide = name.strip_prefix(['r', 'e']).and_then(old);
            let low = name.strip_suffix('l');
            // `al` belongs to ax, `sil` to si.
            let byte = low.and_then(|low| {
                old(low)
                    .filter(|number| *number >= 4)
                    .or_else(|| old(&format!("{low}x")))
            });
            wide.or_else(|| old(name)).or(byte)
        }
    };
    number.and_then(|number| u8::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<MarkArgument, NoArgument> {
        MarkArgument::parse(text)
    }

    fn memory(base: u8, index: Option<(u8, u8)>, offset: i32) -> MarkPlace {
        MarkPlace::Memory { base, index, offset }
    }

    #[test]
    fn operands_are_read_as_assemblers_write_them() {
        for (text, type_name, place) in [
            ("-4@%edi", "i32", MarkPlace::Register(7)),
            ("8@%rax", "u64", MarkPlace::Register(0)),
            ("1@%al", "u8", MarkPlace::Register(0)),
            ("-1@%sil", "i8", MarkPlace::Register(6)),
            ("2@%r10w", "u16", MarkPlace::Register(10)),
            ("-2@%bx", "i16", MarkPlace::Register(3)),
            ("8f@-16(%rbp)", "f64", memory(5, None, -16)),
            ("8@(%rsp)", "u64", memory(4, None, 0)),
            ("-4@0x10(%r15)", "i32", memory(15, None, 16)),
            ("1@-96(%rbp,%rax,8)", "u8", memory(5, Some((0, 3)), -96)),
            ("1@(%rcx,%rdx)", "u8", memory(1, Some((2, 0)), 0)),
            ("-4@$-9", "i32", MarkPlace::Constant(-9_i64 as u64)),
            ("8@$18446744073709551615", "u64", MarkPlace::Constant(u64::MAX)),
        ] {
            assert_eq!(read(text), Ok(MarkArgument { type_name, place }), "{text}");
        }
    }

    #[test]
    fn unreadable_marks_are_shown_with_a_remedy() {
        assert_eq!(read("8f@%xmm0"), Err(NoArgument::FloatingRegister));
        for (text, name) in [
            ("8@dt(%rip)", "dt"),
            ("-4@a.b+8(%rip)", "a.b"),
            ("8@table(,%rax,8)", "table"),
        ] {
            assert_eq!(read(text), Err(NoArgument::Variable(name.into())), "{text}");
        }
        for text in [
            "",
            "4",
            "@",
            "3@%eax",
            "4@%ah",
            "4@%rip",
            "4@8(%rip)",
            "4@(%rax,%rbx,3)",
            "8@$",
            "4@9999999999(%rax)",
            "4@%r16",
        ] {
            assert!(
                matches!(read(text), Err(NoArgument::Spelling(_))),
                "{text}: {:?}",
                read(text)
            );
        }
    }

    fn note(words: [u64; 3], texts: &str) -> Vec<u8> {
        let content: Vec<u8> = words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .chain(texts.bytes())
            .collect();
        let mut note = Vec::new();
        for word in [8, content.len() as u32, KIND.0] {
            note.extend(word.to_le_bytes());
        }
        note.extend(b"stapsdt\0");
        note.extend(content);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn a_file_that_was_moved_after_linking_has_its_marks_moved() {
        let notes = [
            note([0x1000, 0x2000, 0x3000], "app\0step\x008@%rax\0"),
            note([0x1010, 0x2000, 0], "app\0end\0\0"),
        ];
        let marks = parse(&notes.concat(), Some(LinkAddress(0x2400)));
        let found: Vec<_> = marks
            .iter()
            .map(|mark| (mark.name.as_str(), mark.address.0, mark.semaphore))
            .collect();
        assert_eq!(
            found,
            [
                ("app:step", 0x1400, Some(LinkAddress(0x3400))),
                ("app:end", 0x1410, None)
            ]
        );
        assert_eq!(marks[0].arguments().len(), 1);
        assert_eq!(marks[1].arguments(), []);
    }

    #[test]
    fn notes_of_others_are_passed_over() {
        let mut other = note([1, 2, 3], "a\0b\0c\0");
        other[8] = 7;
        let all = [other, note([0x10, 0, 0], "p\0n\0\0")].concat();
        assert_eq!(parse(&all, None).len(), 1);
    }

    const REGISTERS: [&str; 16] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15",
    ];

    fn spelled(argument: &MarkArgument) -> String {
        let size = match argument.type_name {
            "f32" => "4f".to_owned(),
            "f64" => "8f".to_owned(),
            name => {
                let bytes = name[1..].parse::<u32>().unwrap_or_default() / 8;
                format!("{}{bytes}", if name.starts_with('i') { "-" } else { "" })
            }
        };
        let name = |number: u8| REGISTERS[usize::from(number)];
        match argument.place {
            MarkPlace::Register(number) => format!("{size}@%{}", name(number)),
            MarkPlace::Constant(value) => format!("{size}@${value}"),
            MarkPlace::Memory {
                base,
                index: None,
                offset,
            } => format!("{size}@{offset}(%{})", name(base)),
            MarkPlace::Memory {
                base,
                index: Some((index, shift)),
                offset,
            } => {
                format!("{size}@{offset}(%{},%{},{})", name(base), name(index), 1 << shift)
            }
        }
    }

    fn any_argument() -> impl Strategy<Value = MarkArgument> {
        const TYPES: [&str; 10] = ["i8", "u8", "i16", "u16", "i32", "u32", "f32", "i64", "u64", "f64"];
        let place = prop_oneof![
            (0..16_u8).prop_map(MarkPlace::Register),
            any::<u64>().prop_map(MarkPlace::Constant),
            (0..16_u8, proptest::option::of((0..16_u8, 0..4_u8)), any::<i32>())
                .prop_map(|(base, index, offset)| MarkPlace::Memory { base, index, offset }),
        ];
        (proptest::sample::select(&TYPES[..]), place)
            .prop_map(|(type_name, place)| MarkArgument { type_name, place })
    }

    proptest! {
        #[test]
        fn a_printed_mark_is_read_back(arguments in proptest::collection::vec(any_argument(), 0..13)) {
            let text = arguments.iter().map(spelled).collect::<Vec<_>>().join(" ");
            let notes = note([0x10, 0, 0], &format!("p\0n\0{text}\0"));
            let read: Vec<_> = parse(&notes, None).iter().flat_map(Mark::arguments).collect();
            prop_assert_eq!(read, arguments.into_iter().map(Ok).collect::<Vec<_>>());
        }

        #[test]
        fn no_operand_makes_the_parser_panic(text in "[-0-9$%@(),+a-z. \u{80}-\u{ff}]{0,40}") {
            let notes = note([0, 0, 0], &format!("p\0n\0{text}\0"));
            parse(&notes, None).iter().for_each(|mark| drop(mark.arguments()));
            let _ = place(&text);
        }

        #[test]
        fn no_notes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80), cut in 0..80_usize) {
            let whole = [note([1, 2, 3], "p\0n\08@%rax\0"), bytes].concat();
            parse(&whole, Some(LinkAddress(u64::MAX)));
            parse(whole.get(cut..).unwrap_or_default(), None);
        }
    }
}
