//! Loads programs of an object whose maps aya has created, by bpf(2) with an attach type of our choice: aya
//! (0.14) cannot load one for `uprobe_multi`. Becomes unnecessary with aya ≥ 0.16.

use std::{
    collections::HashSet,
    ffi::CString,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use aya::{
    EbpfError,
    maps::{Map, MapData},
};

use aya_obj::btf::BtfFeatures;

use super::{KernelError, maps::Maps, sys};

/// The programs of an object, bound to the maps that aya created for it.
pub(super) struct ProgramText {
    object: aya_obj::Object,
    types: Option<OwnedFd>,
}

impl ProgramText {
    /// Parses the object a second time.
    pub(super) fn parse(bytes: &[u8], maps: &Maps) -> Result<ProgramText, KernelError> {
        let descriptor = |name: &str| Some(data(maps.map(name)?)?.fd().as_fd().as_raw_fd());
        ProgramText::bound(bytes, descriptor)
    }

    /// Parses an object and binds its maps to these descriptors, by name. A program that uses another map
    /// cannot be loaded.
    pub(super) fn bound(
        bytes: &[u8],
        descriptor: impl Fn(&str) -> Option<RawFd>,
    ) -> Result<ProgramText, KernelError> {
        let mut object = aya_obj::Object::parse(bytes).map_err(KernelError::object)?;
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        let definitions = object.maps.clone();
        let descriptors: Vec<(&str, RawFd, &aya_obj::Map)> = definitions
            .iter()
            .filter_map(|(name, map)| Some((name.as_str(), descriptor(name)?, map)))
            .collect();
        object
            .relocate_maps(descriptors.into_iter(), &text)
            .map_err(KernelError::object)?;
        object.relocate_calls(&text).map_err(KernelError::object)?;
        Ok(ProgramText { object, types: None })
    }

    /// Also loads the types of the functions, which programs with `bpf_loop` need.
    pub(super) fn with_types(mut self) -> Result<ProgramText, KernelError> {
        let none = BtfFeatures::default();
        let features = aya::features().btf().unwrap_or(&none);
        let types = self
            .object
            .fixup_and_sanitize_btf(features)
            .map_err(KernelError::object)?;
        self.types = types
            .map(|types| sys::load_btf(&types.to_bytes()))
            .transpose()
            .map_err(KernelError::part("the types of its functions cannot be loaded"))?;
        Ok(self)
    }

    pub(super) fn load(&self, name: &'static str, attach_type: u32) -> Result<OwnedFd, KernelError> {
        self.load_as(name, sys::BPF_PROG_TYPE_KPROBE, attach_type)
    }

    /// Loads a program for a tracepoint of the kernel.
    pub(super) fn load_for_tracepoint(&self, name: &'static str) -> Result<OwnedFd, KernelError> {
        self.load_as(name, sys::BPF_PROG_TYPE_RAW_TRACEPOINT, 0)
    }

    fn load_as(&self, name: &'static str, kind: u32, attach_type: u32) -> Result<OwnedFd, KernelError> {
        let program = self.object.programs.get(name).ok_or_else(|| missing(name))?;
        let function = self
            .object
            .functions
            .get(&program.function_key())
            .ok_or_else(|| missing(name))?;
        let license = CString::from(program.license.as_c_str());
        let functions = function.func_info.func_info_bytes();
        let text = sys::ProgramInput {
            instructions: &function.instructions,
            license: &license,
            name,
            kind,
            attach_type,
            types: self.types.as_ref().map(|btf| sys::Types {
                btf: btf.as_fd(),
                functions: &functions,
                record_size: function.func_info_rec_size,
            }),
        };
        sys::load_program(&text).map_err(|(error, log)| {
            if error.kind() == io::ErrorKind::PermissionDenied && log.is_empty() {
                KernelError::Permission(error)
            } else {
                tracing::debug!(program = name, %log, "refused by the verifier");
                KernelError::Verifier {
                    program: name,
                    error,
                    reason: reason(&log).to_owned(),
                }
            }
        })
    }
}

/// The verifier's last line before its statistics: the reason of a refusal. The lines before it are a listing
/// of the program.
fn reason(log: &str) -> &str {
    let is_reported = |line: &&str| {
        let is_statistics = line.starts_with("processed ")
            || line.starts_with("verification time")
            || line.starts_with("stack depth");
        !line.trim().is_empty() && !is_statistics
    };
    log.lines()
        .rev()
        .find(is_reported)
        .unwrap_or("it gave no reason")
        .trim()
}

/// Number of instructions that the verifier followed in a loaded program; `None` if the kernel does not
/// report it (before 5.16).
pub(super) fn verified(program: BorrowedFd<'_>) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", program.as_raw_fd())).ok()?;
    let number = text
        .lines()
        .find_map(|line| line.strip_prefix("verified_insns:"))?;
    number.trim().parse().ok()
}

pub(super) fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data) | Map::PerCpuArray(data) | Map::HashMap(data) | Map::RingBuf(data) => Some(data),
        _ => None,
    }
}

pub(super) fn missing(name: &str) -> KernelError {
    KernelError::Missing(name.to_owned())
}

pub(super) fn load_error(error: EbpfError) -> KernelError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(cause) = source {
        if let Some(io) = cause.downcast_ref::<io::Error>()
            && io.kind() == io::ErrorKind::PermissionDenied
        {
            return KernelError::Permission(io::Error::from_raw_os_error(
                io.raw_os_error().unwrap_or(libc::EPERM),
            ));
        }
        source = cause.source();
    }
    let load = |step, source| KernelError::Load { step, source };
    // The texts of these repeat those of their sources.
    match error {
        EbpfError::MapError(error) => load("map error", error.into()),
        EbpfError::ParseError(error) => load("error parsing BPF object", error.into()),
        EbpfError::ProgramError(error) => load("program error", error.into()),
        EbpfError::BtfError(error) => load("BTF error", error.to_string().into()),
        other => KernelError::object(other),
    }
}

/// Whether the kernel side knows a process by the same pid as we do. It does not if our pid namespace is not the
/// initial one and the process is in one below it.
pub(crate) fn has_same_pid_in_kernel(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (_, ours) = pid_namespace();
    let theirs = std::fs::metadata(format!("/proc/{pid}/ns/pid"));
    ours == 0 || theirs.map_or(true, |theirs| theirs.ino() == ours)
}

/// Device and inode of our pid namespace; zeros in the initial one, whose numbers are the kernel's own.
pub(super) fn pid_namespace() -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    const FIRST_NAMESPACE: u64 = 0xEFFF_FFFC;
    match std::fs::metadata("/proc/self/ns/pid") {
        Ok(namespace) if namespace.ino() != FIRST_NAMESPACE => (namespace.dev(), namespace.ino()),
        _ => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::reason;

    #[test]
    fn the_reason_in_the_words_of_the_verifier_is_reported() {
        let log = "0: R1=ctx() R10=fp0\n12: (85) call bpf_loop#181\nunknown func bpf_loop#181\n\
                   processed 13 insns (limit 1000000) max_states_per_insn 0\n";
        assert_eq!(reason(log), "unknown func bpf_loop#181");
        let log = "; code\nBPF program is too large. Processed 1000001 insn\nverification time 812345 usec\nstack depth 480+0\n\
                   processed 1000001 insns (limit 1000000) max_states_per_insn 9\n\n";
        assert_eq!(reason(log), "BPF program is too large. Processed 1000001 insn");
        assert_eq!(reason(""), "it gave no reason");
    }
}
