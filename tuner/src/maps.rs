//! The mappings of a process, from the text of /proc/PID/maps. Pure: reads no file.

use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::address::{Address, FileOffset};

/// A line that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line} of the maps file is not understood: `{text}`")]
pub struct MapsError {
    /// Its number, from 1.
    pub line: usize,
    pub text: String,
}

/// The permissions of a mapping.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent flags, as the kernel prints them"
)]
pub struct Permissions {
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    /// Writes are visible to other processes that map the same file.
    pub shared: bool,
}

/// The device of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Memory without a name.
    Anonymous,
    /// A name of the kernel in brackets: `[heap]`, `[stack]`, `[vdso]`.
    Special(String),
    File {
        /// Its path, as the process saw it when it mapped the file. All mappings of a file share the string.
        path: Arc<str>,
        /// The file has been unlinked.
        deleted: bool,
    },
}

/// One line of /proc/PID/maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    pub start: Address,
    /// One past the last byte.
    pub end: Address,
    pub permissions: Permissions,
    /// The file offset of `start`.
    pub offset: FileOffset,
    pub device: Device,
    /// The file's inode on the device; 0 without a file.
    pub inode: u64,
    pub(crate) backing: Backing,
}

impl Mapping {
    /// An empty mapping, for a file that is not mapped.
    pub(crate) fn nowhere(device: Device, inode: u64, backing: Backing) -> Mapping {
        Mapping {
            start: Address(0),
            end: Address(0),
            permissions: Permissions::default(),
            offset: FileOffset(0),
            device,
            inode,
            backing,
        }
    }

    /// True if all `length` bytes at `address` are in it.
    pub fn contains(&self, address: Address, length: u64) -> bool {
        address >= self.start && address.checked_add(length).is_some_and(|end| end <= self.end)
    }

    /// The last column of its line: the path of its file, a name of the kernel such as `[heap]`, or nothing.
    pub fn name(&self) -> &str {
        match &self.backing {
            Backing::Anonymous => "",
            Backing::Special(name) => name,
            Backing::File { path, .. } => path,
        }
    }

    /// True if it maps the file with this identity.
    pub fn shows(&self, device: Device, inode: u64) -> bool {
        self.inode == inode && self.device == device && matches!(self.backing, Backing::File { .. })
    }
}

/// Parses the complete text of a maps file.
pub fn parse(text: &str) -> Result<Vec<Mapping>, MapsError> {
    let (lines, mut before) = (text.lines().enumerate(), None);
    lines
        .map(|(at, line)| {
            parse_line(line, &mut before).ok_or_else(|| MapsError {
                line: at + 1,
                text: line.to_owned(),
            })
        })
        .collect()
}

/// `before` is the path of the last file: usually a file has several consecutive mappings.
fn parse_line(line: &str, before: &mut Option<Arc<str>>) -> Option<Mapping> {
    let mut rest = line;
    let (start, end) = field(&mut rest)?.split_once('-')?;
    let permissions = parse_permissions(field(&mut rest)?)?;
    let offset = hex(field(&mut rest)?)?;
    let (major, minor) = field(&mut rest)?.split_once(':')?;
    let inode = decimal(field(&mut rest)?)?;
    let (start, end) = (Address(hex(start)?), Address(hex(end)?));
    (start < end).then_some(Mapping {
        start,
        end,
        permissions,
        offset: FileOffset(offset),
        device: Device {
            major: u32::try_from(hex(major)?).ok()?,
            minor: u32::try_from(hex(minor)?).ok()?,
        },
        inode,
        backing: parse_backing(rest.trim_start_matches(' '), before),
    })
}

fn field<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
    *rest = after;
    (!word.is_empty()).then_some(word)
}

fn hex(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(text, 16).ok())?
}

fn decimal(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())?
}

fn parse_permissions(text: &str) -> Option<Permissions> {
    let flag = |byte: u8, yes: u8, no: u8| match byte {
        byte if byte == yes => Some(true),
        byte if byte == no => Some(false),
        _ => None,
    };
    let &[read, write, execute, shared] = text.as_bytes() else {
        return None;
    };
    Some(Permissions {
        read: flag(read, b'r', b'-')?,
        write: flag(write, b'w', b'-')?,
        execute: flag(execute, b'x', b'-')?,
        shared: flag(shared, b's', b'p')?,
    })
}

fn parse_backing(name: &str, before: &mut Option<Arc<str>>) -> Backing {
    if name.is_empty() {
        return Backing::Anonymous;
    }
    if !name.starts_with('/') {
        return Backing::Special(name.to_owned());
    }
    let (path, deleted) = match name.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (name, false),
    };
    // The kernel escapes only the newline, which would end the line.
    let path = path.replace("\\012", "\n");
    let path = match before.as_ref().filter(|before| ***before == *path) {
        Some(same) => Arc::clone(same),
        None => Arc::clone(before.insert(path.into())),
    };
    Backing::File { path, deleted }
}

impl fmt::Display for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = |set: bool, yes: char, no: char| if set { yes } else { no };
        write!(
            f,
            "{}{}{}{}",
            letter(self.read, 'r', '-'),
            letter(self.write, 'w', '-'),
            letter(self.execute, 'x', '-'),
            letter(self.shared, 's', 'p')
        )
    }
}

impl fmt::Display for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Device { major, minor } = self.device;
        write!(f, "{:x}-{:x} {} ", self.start.0, self.end.0, self.permissions)?;
        write!(f, "{:08x} {major:02x}:{minor:02x} {} ", self.offset.0, self.inode)?;
        match &self.backing {
            Backing::Anonymous => Ok(()),
            Backing::Special(name) => f.write_str(name),
            Backing::File { path, deleted } => {
                write!(
                    f,
                    "{}{}",
                    path.replace('\n', "\\012"),
                    if *deleted { " (deleted)" } else { "" }
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_may_hold_spaces_and_a_deleted_file_is_reported() {
        let text = "7f00-7f10 r-xp 00001000 fe:00 42                 /opt/my app/lib.so (deleted)\n\
                    7f10-7f20 rw-p 00000000 00:00 0 \n\
                    7f20-7f30 rw-s 00000000 00:01 7      [heap]\n";
        let maps = parse(text).unwrap();
        assert_eq!(
            maps[0].backing,
            Backing::File {
                path: "/opt/my app/lib.so".into(),
                deleted: true
            }
        );
        assert_eq!(
            maps[0].device,
            Device {
                major: 0xfe,
                minor: 0
            }
        );
        assert_eq!(maps[1].backing, Backing::Anonymous);
        assert_eq!(maps[2].backing, Backing::Special("[heap]".into()));
        assert!(maps[2].permissions.shared);
    }

    #[test]
    fn mappings_of_one_file_in_a_row_share_its_path() {
        let text = "1000-2000 r--p 0 0:1 5 /a\n2000-3000 r-xp 0 0:1 5 /a\n3000-4000 rw-p 0 0:0 0 \n\
                    4000-5000 rw-p 0 0:1 5 /a\n5000-6000 r--p 0 0:1 6 /b\n";
        let maps = parse(text).unwrap();
        let path = |at: usize| match &maps[at].backing {
            Backing::File { path, .. } => Arc::clone(path),
            other => panic!("{other:?}"),
        };
        assert!(Arc::ptr_eq(&path(0), &path(1)) && Arc::ptr_eq(&path(0), &path(3)));
        assert_eq!(&*path(4), "/b");
    }

    #[test]
    fn a_line_that_is_none_is_shown_with_its_number() {
        let error = parse("1-2 r-xp 0 0:0 0 \nnonsense\n").unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2 of the maps file is not understood: `nonsense`"
        );
    }

    #[test]
    fn our_own_maps_are_understood() {
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(parse(&text).unwrap().len() > 4);
    }

    prop_compose! {
        fn mapping()(start in 0..u64::MAX / 2, length in 1..u64::MAX / 2, flags: [bool; 4], offset: u64,
                     device: (u32, u32), inode: u64, deleted: bool,
                     backing in prop_oneof![Just(None), "/[a-z \n/.]{0,20}[a-z]".prop_map(Some)]) -> Mapping {
            Mapping {
                start: Address(start), end: Address(start + length),
                permissions: Permissions { read: flags[0], write: flags[1], execute: flags[2], shared: flags[3] },
                offset: FileOffset(offset), device: Device { major: device.0, minor: device.1 }, inode,
                backing: backing.map_or(Backing::Anonymous, |path| Backing::File { path: path.into(), deleted }),
            }
        }
    }

    proptest! {
        #[test]
        fn a_printed_mapping_parses_to_itself(mapping in mapping()) {
            prop_assert_eq!(parse(&mapping.to_string()), Ok(vec![mapping]));
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[0-9a-f:rwxp \\-/\n\u{e9}]{0,80}") {
            let _ = parse(&text);
        }
    }
}
