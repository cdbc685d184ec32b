//! Whether a process still has the code of its file where a probe is to be attached. At a probe the kernel
//! executes the instruction of the *file*: if it was overwritten in memory (memory hooks of Open MPI and UCX,
//! instrumentation), the thread would continue in the middle of the new instructions. What the kernel itself
//! writes for probes is recognised.
//!
//! Attaches nothing, changes nothing, and does not decide what is probed.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};

use crate::address::{Address, FileOffset};
use crate::maps::{self, Backing, Mapping};
use crate::memory::{Memory, MemoryError};
use crate::module::Module;
use crate::printable::printable;
use crate::process::{Pid, Process, ProcessError};
use crate::space::{AddressSpace, SpaceError, read_maps};

/// Bytes at a function's begin that are compared, if it is as long: a function's entry is usually overwritten
/// by a jump.
const ENTRY_BYTES: u64 = 16;
const INSTRUCTION_MAX: u64 = 15;
const PAGE: u64 = 4096;
/// The kernel's breakpoint of one byte, and the call into a page of its own that replaces a nop of five
/// bytes.
const BREAKPOINT: u8 = 0xcc;
const CALL: u8 = 0xe8;
const NOP_5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];
/// The kernel's name of that page in /proc/PID/maps.
const KERNELS_CODE: &str = "[uprobes-trampoline]";
/// A jump to any address takes at most this number of instructions.
const JUMP_INSTRUCTIONS: usize = 3;

/// The bytes that must equal those of the file for a probe at `site` of a function at `begin` of `size` bytes
/// (0: unknown). They start at the first byte: a jump there bypasses the others.
pub fn needed_at_entry(begin: FileOffset, size: u64, site: FileOffset) -> Range<u64> {
    let begun = (begin.0 + ENTRY_BYTES).min(begin.0.saturating_add(size));
    begin.0..begun.max(site.0 + 1)
}

/// The bytes that must equal those of the file for a probe at one instruction.
pub fn needed_at(site: FileOffset) -> Range<u64> {
    site.0..site.0 + 1
}

/// Whether the kernel's breakpoint or call is at a place to which a probe was attached; `None` if it cannot
/// be read.
pub fn has_probe(memory: &Memory, address: Address) -> Option<bool> {
    let mut found = [0];
    memory.read(address, &mut found).ok()?;
    Some(found[0] == BREAKPOINT || found[0] == CALL)
}

/// The code of one process.
#[derive(Debug)]
pub struct CodeText<'a> {
    pid: Pid,
    memory: Arc<Memory>,
    maps: Arc<Vec<Mapping>>,
    are_maps_fresh: bool,
    /// Resolves the target of a jump.
    space: Option<&'a AddressSpace>,
    /// Compared pages by address: true if the page equals the file's.
    pages: HashMap<u64, bool>,
}

/// Code that differs from its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overwritten {
    pub pid: Pid,
    /// The first instruction that differs.
    pub address: Address,
    /// The bytes in memory, at most as many as the longest instruction has.
    pub found: Vec<u8>,
    /// The target, if it is a jump.
    pub target: Option<JumpTarget>,
}

/// The target of a jump that was written over code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JumpTarget {
    pub address: Address,
    /// The function there, if its file names it.
    pub function: Option<String>,
    /// The file; `None` for memory without one.
    pub file: Option<String>,
}

impl<'a> CodeText<'a> {
    /// The code of an inspected process.
    pub fn of(space: &'a AddressSpace) -> CodeText<'a> {
        CodeText {
            pid: space.process.pid,
            memory: Arc::clone(&space.memory),
            maps: Arc::clone(&space.maps),
            are_maps_fresh: false,
            space: Some(space),
            pages: HashMap::new(),
        }
    }

    /// The code of a process that has mapped the file of `module` as code; `None` if it has not. Our own code
    /// and that of init are not compared: they are never overwritten.
    pub fn of_user(number: i32, module: &Module) -> Result<Option<CodeText<'static>>, SpaceError> {
        // Most processes have not: reading their mappings is enough to exclude them.
        let has_it = |text: Vec<u8>| {
            let maps = maps::parse(&String::from_utf8_lossy(&text)).unwrap_or_default();
            maps.iter().any(|map| shows(map, module))
        };
        if !fs::read(format!("/proc/{number}/maps")).is_ok_and(has_it) {
            return Ok(None);
        }
        let process = match Process::open(number) {
            Err(ProcessError::Init | ProcessError::Ourselves { .. }) => return Ok(None),
            process => process?,
        };
        let memory = Arc::new(Memory::open(&process)?);
        Ok(Some(CodeText {
            pid: process.pid,
            memory,
            maps: Arc::new(read_maps(process.pid)?),
            are_maps_fresh: true,
            space: None,
            pages: HashMap::new(),
        }))
    }

    /// The first instruction in `code` of a module's file that differs in the process, in any of its mappings
    /// of that code. `None` for a process that has ended.
    pub fn overwritten(
        &mut self,
        module: &Module,
        code: &Range<u64>,
    ) -> Result<Option<Overwritten>, SpaceError> {
        match self.compared(module, code) {
            Err(
                SpaceError::Memory(MemoryError::Gone { .. })
                | SpaceError::Process(ProcessError::Ended { .. } | ProcessError::Zombie { .. }),
            ) => Ok(None),
            found => found,
        }
    }

    fn compared(&mut self, module: &Module, code: &Range<u64>) -> Result<Option<Overwritten>, SpaceError> {
        let found = self.difference(module, code);
        if self.are_maps_fresh || matches!(found, Ok(None)) {
            return Ok(found?);
        }
        // The mappings may be outdated, and lack the kernel's page among others.
        self.maps = Arc::new(read_maps(self.pid)?);
        self.are_maps_fresh = true;
        self.pages.clear();
        Ok(self.difference(module, code)?)
    }

    fn difference(&mut self, module: &Module, code: &Range<u64>) -> Result<Option<Overwritten>, MemoryError> {
        let maps = Arc::clone(&self.maps);
        let is_there = |map: &&Mapping| {
            let end = map.offset.0 + (map.end.0 - map.start.0);
            (map.offset.0..end).contains(&code.start) && shows(map, module)
        };
        for map in maps.iter().filter(is_there) {
            let at = Address(map.start.0 + (code.start - map.offset.0));
            if self.are_pages_of_file(module, at, code)? {
                continue;
            }
            let length = (code.end - code.start) as usize;
            let wanted = (length as u64 + INSTRUCTION_MAX).min(map.end.0 - at.0) as usize;
            let (mut file, mut found) = (vec![0; wanted], vec![0; wanted]);
            let in_file = read_up_to(module, &mut file, code.start);
            file.truncate(in_file);
            self.memory.read(at, &mut found)?;
            let is_kernels = |target: Address| {
                let is_it = |map: &&Mapping| map.contains(target, 1);
                maps.iter()
                    .find(is_it)
                    .is_some_and(|map| map.backing == Backing::Special(KERNELS_CODE.to_owned()))
            };
            if let Some(into) = differs(&file, &found, at, length, is_kernels) {
                return Ok(Some(self.described(Address(at.0 + into as u64), &found[into..])));
            }
        }
        Ok(None)
    }

    /// Whether the pages equal those of the file byte by byte, as most do: then nothing has to be decoded.
    fn are_pages_of_file(
        &mut self,
        module: &Module,
        at: Address,
        code: &Range<u64>,
    ) -> Result<bool, MemoryError> {
        let last = at.0 + (code.end - code.start) - 1 + INSTRUCTION_MAX;
        for page in (at.0 / PAGE)..=(last / PAGE) {
            let page = page * PAGE;
            // Bytes behind the mapping are not code of this file.
            if page > at.0 && !self.maps.iter().any(|map| map.contains(Address(page), PAGE)) {
                continue;
            }
            let is_same = match self.pages.get(&page) {
                Some(known) => *known,
                None => {
                    let offset = (code.start + page).wrapping_sub(at.0);
                    let (mut file, mut found) = ([0; PAGE as usize], [0; PAGE as usize]);
                    let in_file = read_up_to(module, &mut file, offset);
                    self.memory.read(Address(page), &mut found)?;
                    let is_same = file[..in_file] == found[..in_file];
                    self.pages.insert(page, is_same);
                    is_same
                }
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn described(&self, address: Address, found: &[u8]) -> Overwritten {
        let shown = found.len().min(INSTRUCTION_MAX as usize);
        let target = leads_to(found, address, |word| self.memory.word(word).ok());
        Overwritten {
            pid: self.pid,
            address,
            found: found[..shown].to_vec(),
            target: target.map(|target| self.target(target)),
        }
    }

    fn target(&self, address: Address) -> JumpTarget {
        let modules = self.space.map_or(&[][..], |space| space.modules.as_slice());
        let module = modules.iter().find(|module| module.contains(address));
        let function = module.and_then(|module| {
            let link = module.link(address);
            module.image.function_at(link).ok().flatten()
        });
        let map = self.maps.iter().find(|map| map.contains(address, 1));
        let file = map.and_then(|map| match &map.backing {
            Backing::File { path, .. } => path.rsplit('/').next().map(str::to_owned),
            _ => None,
        });
        JumpTarget {
            address,
            function,
            file,
        }
    }
}

/// Whether a mapping shows code of the module's file. On some file systems mappings show another device than
/// the file has.
fn shows(map: &Mapping, module: &Module) -> bool {
    // Runs for every mapping and every site: the name is compared only if nothing else decides.
    let is_named = || matches!(&map.backing, Backing::File { path, .. } if printable(path) == module.path);
    map.permissions.execute && map.inode == module.inode && (map.device == module.device || is_named())
}

/// Reads up to the end of the file.
fn read_up_to(module: &Module, bytes: &mut [u8], offset: u64) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        match module
            .image
            .file()
            .read_at(&mut bytes[done..], offset + done as u64)
        {
            Ok(count @ 1..) => done += count,
            _ => break,
        }
    }
    done
}

/// The offset of the first instruction that differs in memory, and not because of a probe of the kernel. Only
/// instructions that begin in the first `length` bytes count.
fn differs(
    file: &[u8],
    found: &[u8],
    at: Address,
    length: usize,
    is_kernels: impl Fn(Address) -> bool,
) -> Option<usize> {
    for instruction in &mut Decoder::with_ip(64, file, at.0, DecoderOptions::NONE) {
        let into = (instruction.ip() - at.0) as usize;
        if into >= length {
            return None;
        }
        // The kernel attaches no probe to invalid bytes.
        let end = match instruction.is_invalid() {
            true => length.max(into + 1),
            false => into + instruction.len(),
        };
        let (file, found) = (file.get(into..end), found.get(into..end));
        let is_probed = |file: &[u8], found: &[u8]| match (found, file) {
            ([BREAKPOINT, found @ ..], [_, file @ ..]) if found == file => true,
            (&[BREAKPOINT | CALL, a, b, c, d], file) if file == NOP_5 => {
                let distance = i64::from(i32::from_le_bytes([a, b, c, d]));
                is_kernels(Address((at.0 + end as u64).wrapping_add_signed(distance)))
            }
            _ => false,
        };
        let is_same = match (file, found) {
            (Some(file), Some(found)) => file == found || is_probed(file, found),
            _ => file == found,
        };
        if !is_same {
            return Some(into);
        }
    }
    None
}

/// The target of code that begins with a jump: near, or to any address through a register or a word of
/// memory.
fn leads_to(code: &[u8], at: Address, word: impl Fn(Address) -> Option<u64>) -> Option<Address> {
    let mut loaded: Option<(iced_x86::Register, u64)> = None;
    let mut decoder = Decoder::with_ip(64, code, at.0, DecoderOptions::NONE);
    for instruction in decoder.iter().take(JUMP_INSTRUCTIONS) {
        match instruction.flow_control() {
            FlowControl::UnconditionalBranch => return Some(Address(instruction.near_branch64())),
            FlowControl::IndirectBranch if instruction.is_ip_rel_memory_operand() => {
                return word(Address(instruction.ip_rel_memory_address())).map(Address);
            }
            FlowControl::IndirectBranch if instruction.op0_kind() == OpKind::Register => {
                let (register, value) = loaded?;
                return (register == instruction.op0_register()).then_some(Address(value));
            }
            FlowControl::Next if is_load(&instruction) => {
                loaded = Some((instruction.op0_register(), instruction.immediate(1)));
            }
            FlowControl::Next => {}
            _ => return None,
        }
    }
    None
}

/// Whether it loads a constant into a register.
fn is_load(instruction: &Instruction) -> bool {
    matches!(instruction.code(), Code::Mov_r64_imm64 | Code::Mov_rm64_imm32) && {
        instruction.op0_kind() == OpKind::Register
    }
}

impl fmt::Display for Overwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {}:", self.address)?;
        self.found.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
        match &self.target {
            Some(target) => write!(f, ", a jump to {target}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for JumpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.function, &self.file) {
            (Some(function), Some(file)) => write!(f, "{function} in {file}"),
            (Some(function), None) => f.write_str(function),
            (None, Some(file)) => write!(f, "{} in {file}", self.address),
            (None, None) => write!(f, "{} in memory of no file", self.address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Address = Address(0x40_1000);

    /// push %rbp; mov %rsp,%rbp; nop of five bytes; ret
    const FILE: [u8; 10] = [0x55, 0x48, 0x89, 0xe5, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0xc3];

    fn with(changes: &[(usize, &[u8])]) -> Vec<u8> {
        let mut found = FILE.to_vec();
        for (into, bytes) in changes {
            found[*into..*into + bytes.len()].copy_from_slice(bytes);
        }
        found
    }

    fn differs_with(changes: &[(usize, &[u8])]) -> Option<usize> {
        let kernels = Address(AT.0 + 9 + 0x1000);
        differs(&FILE, &with(changes), AT, FILE.len(), |target| target == kernels)
    }

    #[test]
    fn breakpoints_of_the_kernel_are_no_difference() {
        assert_eq!(differs_with(&[]), None);
        assert_eq!(differs_with(&[(0, &[0xcc]), (1, &[0xcc]), (9, &[0xcc])]), None);
        // The nop of five bytes, probed: by a breakpoint, by a call, and between the two.
        for nop in [&[0xcc][..], &[0xe8, 0, 0x10, 0, 0], &[0xcc, 0, 0x10, 0, 0]] {
            assert_eq!(differs_with(&[(4, nop)]), None, "{nop:02x?}");
        }
    }

    #[test]
    fn foreign_changes_are_found_at_their_first_instruction() {
        let jump = [0xe9, 0x10, 0x20, 0x30, 0x40];
        assert_eq!(differs_with(&[(0, &jump)]), Some(0));
        assert_eq!(differs_with(&[(4, &jump)]), Some(4));
        // A call to another page is not the kernel's.
        assert_eq!(differs_with(&[(4, &[0xe8, 1, 0x10, 0, 0])]), Some(4));
        // A probe on a jump that was written over the code is not a probe on the file's code.
        assert_eq!(differs_with(&[(0, &[0xcc, 0x10, 0x20, 0x30, 0x40])]), Some(1));
        // A breakpoint inside an instruction is not a probe.
        assert_eq!(differs_with(&[(2, &[0xcc])]), Some(1));
        // Only instructions that begin in the first bytes count.
        assert_eq!(differs(&FILE, &with(&[(9, &[0x90])]), AT, 9, |_| false), None);
        assert_eq!(differs(&FILE, &with(&[(8, &[0x90])]), AT, 5, |_| false), Some(4));
    }

    #[test]
    fn where_a_jump_leads_is_read_out_of_every_form_of_it() {
        let target = |code: &[u8]| leads_to(code, AT, |word| (word == Address(AT.0 + 6)).then_some(0x1234));
        assert_eq!(target(&[0xe9, 0xfb, 0x0f, 0, 0]), Some(Address(AT.0 + 0x1000)));
        assert_eq!(target(&[0xff, 0x25, 0, 0, 0, 0]), Some(Address(0x1234)));
        // mov $…,%r11; jmp *%r11
        let far = [0x49, 0xbb, 1, 2, 3, 4, 5, 6, 7, 0, 0x41, 0xff, 0xe3];
        assert_eq!(target(&far), Some(Address(0x0007_0605_0403_0201)));
        assert_eq!(target(&FILE), None);
        assert_eq!(target(&[0xff, 0xe0]), None, "what is in rax nobody knows");
    }

    #[test]
    fn an_entry_needs_all_from_its_first_byte_to_the_probed_one() {
        let of = |size, site| needed_at_entry(FileOffset(0x100), size, FileOffset(site));
        assert_eq!(of(64, 0x100), 0x100..0x110);
        assert_eq!(of(6, 0x100), 0x100..0x106);
        assert_eq!(of(64, 0x120), 0x100..0x121);
        assert_eq!(of(0, 0x100), 0x100..0x101, "where it ends is not known");
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_the_comparison_panic(
            file in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
            found in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
            length in 0_usize..40,
        ) {
            let _ = differs(&file, &found, AT, length, |_| false);
            let _ = leads_to(&found, AT, |_| None);
            proptest::prop_assert_eq!(differs(&file, &file, AT, length, |_| false), None);
        }
    }
}
