//! Detects the MPI implementation of a module, from its symbols and strings; file names are not trusted.

use std::os::unix::fs::FileExt;

use abi::SizeLayout;
use tuner::{AddressSpace, Image, LinkAddress, Module, printable};

/// An MPI library (or a program with MPI linked in).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Implementation {
    /// "Open MPI", "MPICH", "Intel MPI", or "MPI" if unknown.
    pub name: &'static str,
    pub version: Option<String>,
    /// How the size of a datatype is read.
    pub layout: SizeLayout,
    /// Offset of the size in a datatype's object, for [`SizeLayout::AtPointer`].
    pub size_offset: u16,
}

/// Every MPI program calls one of these. A program with MPI linked in has, apart from these, only the
/// functions that it calls.
const BEGINNINGS: [&str; 3] = ["PMPI_Init", "PMPI_Init_thread", "PMPI_Session_init"];

/// Detects the MPI that `module` defines; `None` if it defines none. A library between a program and its MPI
/// (a preloaded profiler) defines the functions under their public names only.
pub(crate) fn recognise(module: &Module, space: &AddressSpace) -> Option<Implementation> {
    let image = &module.image;
    if !defines_mpi(image) {
        return None;
    }
    let known = |name, version, layout, size_offset| {
        Some(Implementation {
            name,
            version,
            layout,
            size_offset,
        })
    };
    if has_variable(image, "ompi_mpi_comm_world") {
        let offset = calibrate(module, space);
        let layout = if offset.is_some() {
            SizeLayout::AtPointer
        } else {
            SizeLayout::Unknown
        };
        return known("Open MPI", open_mpi_version(image), layout, offset.unwrap_or(0));
    }
    if is_mpich(image) {
        let (name, version) = match image.holds(INTEL, SEARCHED) {
            true => ("Intel MPI", constant(image, year_release)),
            false => ("MPICH", mpich_version(module, space)),
        };
        return known(name, version, SizeLayout::InHandle, 0);
    }
    known("MPI", None, SizeLayout::Unknown, 0)
}

/// Whether a file contains MPICH or a descendant of it.
pub(super) fn is_mpich(image: &Image) -> bool {
    // If it is linked in, unused variables are missing; the last one is in every program.
    let names = ["MPII_Version_string", "MPIR_Version_string", "MPIR_Process"];
    // Since 5.0 the library hides these. A Fortran program and its bindings have this variable too, but not
    // the functions.
    let is_hiding = || has_variable(image, "MPIR_F08_MPI_STATUS_IGNORE_OBJ") && defines_mpi(image);
    names.iter().any(|name| has_variable(image, name)) || is_hiding()
}

fn defines_mpi(image: &Image) -> bool {
    image.functions(&BEGINNINGS).is_ok_and(|found| !found.is_empty())
}

fn has_variable(image: &Image, name: &str) -> bool {
    variable(image, name).is_some()
}

/// The first words of Intel MPI's version string.
const INTEL: &[u8] = b"Intel(R) MPI Library";

/// Programs with MPI linked in have some tens of MiB.
const SEARCHED: u64 = 256 << 20;

/// The name that every MPI gives its first communicator, as a constant.
const FIRST_COMMUNICATOR: &[u8] = b"MPI_COMM_WORLD\0";

/// Whether MPI was linked into a file without symbols, so that the addresses of its functions are unknown.
pub(crate) fn is_stripped_of(image: &Image) -> bool {
    image.is_stripped() && image.holds(FIRST_COMMUNICATOR, SEARCHED)
}

pub(super) fn variable(image: &Image, name: &str) -> Option<tuner::Symbol> {
    let tables = [image.dynamic_symbols().ok()?, image.static_symbols().ok()?];
    tables
        .into_iter()
        .find_map(|table| table.named(name).find(|symbol| symbol.defined))
}

/// The offset of the size in Open MPI's datatype objects: one at which types of known size show it. It
/// differs between versions and debug builds.
///
/// A basic type contains its size three times, as size and as its upper bounds. A short and an int are six
/// bytes with two bytes of padding between them: only the size is six. That type is initialised in MPI_Init;
/// before that, the first of the three is used, because the size precedes the bounds in every release.
fn calibrate(module: &Module, space: &AddressSpace) -> Option<u16> {
    const BASIC: [(&str, u64); 3] = [("ompi_mpi_byte", 1), ("ompi_mpi_int", 4), ("ompi_mpi_double", 8)];
    const COMPOSED: (&str, u64) = ("ompi_mpi_short_int", 6);
    /// The size has been within the first hundred bytes in every release.
    const SEARCHED: u16 = 128;
    let word = |name: &str, offset: u16| {
        let link = variable(&module.image, name)?.address;
        let link = LinkAddress(link.0.checked_add(u64::from(offset))?);
        let now = space.memory().word(module.address(link)).ok();
        // Before the program runs the file contains the initial value: sizes are not relocated.
        now.or_else(|| module.image.initial_word(link))
    };
    let shows = |(name, size): &(&str, u64), offset| word(name, offset) == Some(*size);
    let offsets = (0..SEARCHED).step_by(8);
    let basic: Vec<u16> = offsets
        .filter(|offset| BASIC.iter().all(|known| shows(known, *offset)))
        .collect();
    let composed: Vec<u16> = basic
        .iter()
        .copied()
        .filter(|offset| shows(&COMPOSED, *offset))
        .collect();
    match (&composed[..], &basic[..]) {
        ([only], _) => Some(*only),
        ([], [first, ..]) if word(COMPOSED.0, *first) == Some(0) => Some(*first),
        // Several candidates, or none: unknown.
        _ => None,
    }
}

/// Open MPI's release is a separate string among its constants: `v4.1.4`, since 5.0 `5.0.11`.
fn open_mpi_version(image: &Image) -> Option<String> {
    let mut untagged = None;
    let tagged = constant(image, |text| {
        untagged = untagged.take().or_else(|| release(text));
        release(text.strip_prefix(b"v")?)
    });
    tagged.or(untagged)
}

/// The first result of `read` over the constants of a file.
fn constant(image: &Image, mut read: impl FnMut(&[u8]) -> Option<String>) -> Option<String> {
    /// Longer constants are skipped if they cross a boundary of two pieces.
    const OVERLAP: usize = 64;
    let mut cut = 0;
    image.find((OVERLAP, SEARCHED), |piece| {
        // The first text of a piece is truncated at its start, except that of the file; the bytes after the
        // last zero are truncated at their end.
        let last = piece.iter().rposition(|&byte| byte == 0).unwrap_or(0);
        let mut texts = piece[..last]
            .split(|&byte| byte == 0)
            .skip(std::mem::replace(&mut cut, 1));
        texts.find_map(&mut read)
    })
}

/// Three numbers separated by dots.
fn release(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let is_number =
        |part: &str| (1..5).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_release = text.len() < 16 && text.split('.').count() == 3 && text.split('.').all(is_number);
    is_release.then(|| text.to_owned())
}

/// Releases of Intel MPI begin with the year.
fn year_release(text: &[u8]) -> Option<String> {
    release(text).filter(|text| text.starts_with("20") && text.find('.') == Some(4))
}

/// The major numbers of MPICH's releases have one digit so far.
fn small_release(text: &[u8]) -> Option<String> {
    release(text).filter(|text| !text.starts_with('0') && text.find('.') == Some(1))
}

fn mpich_version(module: &Module, space: &AddressSpace) -> Option<String> {
    let names = ["MPII_Version_string", "MPIR_Version_string"];
    let Some(symbol) = names.iter().find_map(|name| variable(&module.image, name)) else {
        return constant(&module.image, small_release);
    };
    let mut bytes = [0; 16];
    let length = bytes.len().min(usize::try_from(symbol.size).ok()?);
    let address = module.address(symbol.address);
    if space.memory().read(address, &mut bytes[..length]).is_err() {
        let offset = module.image.file_offset(symbol.address)?;
        let file = module.image.file();
        file.read_exact_at(&mut bytes[..length], offset.0).ok()?;
    }
    let text = std::str::from_utf8(bytes[..length].split(|&byte| byte == 0).next()?).ok()?;
    (!text.is_empty()).then(|| printable(text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{release, small_release, year_release};

    #[test]
    fn a_release_is_three_numbers() {
        for (text, is_release, by_year, small) in [
            (&b"4.1.4"[..], true, false, true),
            (b"2021.18.1", true, true, false),
            (b"0.13.99", true, false, false),
            (b"v4.1.4", false, false, false),
            (b"4.1", false, false, false),
            (b"4.1.4rc2", false, false, false),
            (b"%d.%d.%d", false, false, false),
            (b"..", false, false, false),
            (b"version", false, false, false),
        ] {
            let found = [release(text), year_release(text), small_release(text)].map(|found| found.is_some());
            assert_eq!(
                found,
                [is_release, by_year, small],
                "{}",
                String::from_utf8_lossy(text)
            );
        }
    }
}
