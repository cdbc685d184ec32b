//! Probe sites at function entries in real libraries. Each choice is checked with another disassembler
//! (objdump).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tuneagent_e2e::needs::skip;
use tuner::{Cost, Emulation, EntrySites, Image, LinkAddress, SymbolKind};

const FOLDER: &str = "/usr/lib/x86_64-linux-gnu";

/// The registers of the first six integer arguments and the stack pointer, with the names of all their parts.
const SEEN: [&str; 31] = [
    "rdi", "edi", "di", "dil", "rsi", "esi", "si", "sil", "rdx", "edx", "dx", "dl", "dh", "rcx", "ecx", "cx",
    "cl", "ch", "r8", "r8d", "r8w", "r8b", "r9", "r9d", "r9w", "r9b", "rsp", "esp", "sp", "spl", "rip",
];

/// Instructions that change at most their last operand.
const CHANGE_LAST: [&str; 26] = [
    "mov", "movabs", "movb", "movw", "movl", "movq", "movd", "movzbl", "movzwl", "movslq", "movsbl",
    "movswl", "lea", "xor", "and", "or", "add", "sub", "shl", "shr", "sar", "not", "neg", "pxor", "bswap",
    "fnstsw",
];

/// Prefixes of such instructions.
const CHANGE_LAST_SO: [&str; 5] = ["set", "cmov", "cvt", "movs", "movz"];

/// Instructions that change no operand, or only state that probes do not read.
const CHANGE_NOTHING: [&str; 18] = [
    "endbr64", "cmp", "cmpb", "cmpw", "cmpl", "cmpq", "test", "testb", "testl", "testq", "nop", "nopl",
    "nopw", "cltq", "fldt", "flds", "fxam", "fabs",
];

/// A site that is not at its function's first byte.
#[derive(PartialEq)]
struct Moved {
    function: u64,
    site: u64,
}

/// Sites in a part of a file that are not at the first byte, by function.
fn moved(image: &Image, part: &Range<u64>, emulation: Emulation) -> BTreeMap<u64, Moved> {
    let sites = EntrySites::new(emulation);
    let mut functions = BTreeMap::new();
    for symbol in image.defined_symbols().unwrap() {
        if symbol.kind == SymbolKind::Function && symbol.size > 0 && part.contains(&symbol.address.0) {
            functions.insert(symbol.address.0, symbol.size);
        }
    }
    let of = |(&function, &size): (&u64, &u64)| {
        let offset = image.file_offset(LinkAddress(function))?;
        let site = sites.of(image, offset, size);
        let into = site.offset.0.checked_sub(offset.0).unwrap();
        assert!(into < size, "{function:x}: the site is outside of the function");
        assert!(
            into == 0 || site.cost < Cost::Stepped,
            "{function:x}: nothing was gained"
        );
        let site = function + into;
        (into > 0).then_some((function, Moved { function, site }))
    };
    functions.iter().filter_map(of).collect()
}

/// Parses an instruction of objdump, without prefixes.
fn instruction(line: &str) -> Option<(u64, &str, &str)> {
    let (address, text) = line.split_once(':')?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    let text = text.trim().split(['#', '<']).next()?;
    let prefixes = [
        "notrack", "bnd", "rep", "repz", "repnz", "lock", "cs", "ds", "data16", "rex.W",
    ];
    let mut rest = text.trim();
    loop {
        let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !prefixes.contains(&word) || behind.is_empty() {
            return Some((address, word, behind.trim()));
        }
        rest = behind.trim();
    }
}

/// Target address of a direct jump or call.
fn target(mnemonic: &str, operands: &str) -> Option<u64> {
    let leads = mnemonic.starts_with('j') || mnemonic.starts_with("call") || mnemonic.starts_with("loop");
    let place = operands.split([' ', ',']).next()?;
    u64::from_str_radix(place, 16).ok().filter(|_| leads)
}

/// What a skipped instruction changes that a probe reads.
fn harm(mnemonic: &str, operands: &str) -> Option<String> {
    // Probes do not read the x87 stack.
    if CHANGE_NOTHING.contains(&mnemonic) || operands.starts_with("%st") {
        return None;
    }
    // Commas inside parentheses separate the parts of an address.
    let open = operands.rfind(')').map_or(0, |end| end + 1);
    let last = operands[open..].rsplit(',').next().unwrap_or_default().trim();
    // Probes do not read vector registers, and an instruction with one as the last operand changes at most
    // that.
    let is_vector = ["%xmm", "%ymm", "%zmm"].iter().any(|kind| last.starts_with(kind));
    let is_known =
        CHANGE_LAST.contains(&mnemonic) || CHANGE_LAST_SO.iter().any(|begin| mnemonic.starts_with(begin));
    if is_vector {
        return None;
    }
    if !is_known {
        return Some("nobody has looked at it".to_owned());
    }
    match last.strip_prefix('%') {
        Some(register) if SEEN.contains(&register) => Some(format!("it changes {register}")),
        Some(_) => None,
        None => Some("it changes memory".to_owned()),
    }
}

/// Checks the sites in a part of a file against its disassembly. Returns the errors.
fn judged(path: &Path, part: &Range<u64>, moved: &BTreeMap<u64, Moved>) -> Option<Vec<String>> {
    let mut command = Command::new("objdump");
    command.args(["-d", "-w", "--no-show-raw-insn"]).arg(path);
    command.args([
        format!("--start-address={:#x}", part.start),
        format!("--stop-address={:#x}", part.end),
    ]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let lines = BufReader::new(child.stdout.take()?).lines();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let around = |address: u64| {
        let (_, of) = moved.range(..=address).next_back()?;
        (address <= of.site).then_some(of)
    };
    for line in lines.map_while(Result::ok) {
        let Some((address, mnemonic, operands)) = instruction(&line) else {
            continue;
        };
        let mut report = |of: &Moved, what: String| wrong.push(format!("{:x}: {what}: {line}", of.function));
        if let Some(of) = target(mnemonic, operands).and_then(around)
            && target(mnemonic, operands) != Some(of.function)
        {
            report(of, "a jump leads behind its first byte".to_owned());
        }
        let Some(of) = around(address) else { continue };
        if address == of.site {
            seen.insert(address);
            let is_push = mnemonic == "push" && operands.starts_with('%');
            if !is_push && !mnemonic.starts_with('j') && !mnemonic.starts_with("nop") {
                report(of, "the kernel does not emulate it".to_owned());
            }
        } else if let Some(what) = harm(mnemonic, operands) {
            report(of, what);
        }
    }
    child.wait().ok()?;
    let unseen = moved.values().filter(|of| !seen.contains(&of.site));
    wrong.extend(unseen.map(|of| format!("{:x}: no instruction begins at {:x}", of.function, of.site)));
    Some(wrong)
}

fn library(name: &str) -> Option<(PathBuf, Image)> {
    let path = Path::new(FOLDER).join(name);
    let image = Image::read(File::open(&path).ok()?).ok()?;
    Some((path, image))
}

/// Checks all functions of a part of a library, for kernels with and without emulation of long nops. Returns
/// the number of functions whose site is not at the first byte.
fn is_right(name: &str, part: impl Fn(&Image) -> Range<u64>) -> Option<usize> {
    let Some((path, image)) = library(name) else {
        skip(&format!("{name} is not here"));
        return None;
    };
    let part = part(&image);
    let [old, new] = [false, true].map(|long_nops| moved(&image, &part, Emulation { long_nops }));
    let count = old.len();
    let both = if old == new { vec![new] } else { vec![old, new] };
    for moved in both {
        let Some(wrong) = judged(&path, &part, &moved) else {
            skip("objdump is not here");
            return None;
        };
        assert!(wrong.is_empty(), "{name}:\n{}", wrong.join("\n"));
    }
    Some(count)
}

#[test]
fn in_every_function_of_open_mpi_a_probe_sees_the_same_at_its_site_as_at_the_first_byte() {
    if let Some(moved) = is_right("libmpi.so.40", |_| 0..u64::MAX) {
        assert!(
            moved > 50,
            "only {moved} functions are probed behind their first byte"
        );
    }
}

#[test]
fn in_every_function_of_the_c_library_a_probe_sees_the_same_at_its_site_as_at_the_first_byte() {
    if let Some(moved) = is_right("libc.so.6", |_| 0..u64::MAX) {
        assert!(
            moved > 50,
            "only {moved} functions are probed behind their first byte"
        );
    }
}

/// The first MiB of a library in short runs; all of it with TUNEAGENT_LONG.
fn part(all: Range<u64>) -> Range<u64> {
    const PART: u64 = 1 << 20;
    match std::env::var_os("TUNEAGENT_LONG") {
        Some(_) => all,
        None => all.start..all.end.min(all.start + PART),
    }
}

#[test]
fn in_the_functions_of_lammps_a_probe_sees_the_same_at_its_site_as_at_the_first_byte() {
    is_right("liblammps.so.0", |image| {
        let code = image.segments.iter().find(|segment| segment.executable).unwrap();
        part(code.address.0..code.address.0 + code.file_size)
    });
}

/// Only functions of MPICH's interface, because the library has 37 MB of code.
#[test]
fn in_the_mpi_functions_of_mpich_a_probe_sees_the_same_at_its_site_as_at_the_first_byte() {
    is_right("libmpich.so.12", |image| {
        let symbols = image.defined_symbols().unwrap();
        let interface = symbols.iter().filter(|symbol| symbol.name.starts_with("PMPI_"));
        let ends = interface.map(|symbol| symbol.address.0..symbol.address.0 + symbol.size);
        let all = ends.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
        part(all.unwrap_or_default())
    });
}
