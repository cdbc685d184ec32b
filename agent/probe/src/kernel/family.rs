//! The family of a command, on the user side: the constants that the kernel side needs, and the tracepoints
//! that maintain the family.

use std::{
    os::fd::{AsFd, OwnedFd},
    sync::atomic::Ordering,
};

use abi::{FamilyEvent, FamilyState};
use aya::EbpfLoader;

use super::{
    KernelError,
    cells::Cells,
    fields,
    links::LinkKind,
    maps::Maps,
    program::{self, ProgramText, data, missing},
    sys,
};

/// The process that is about to execute the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyRoot {
    /// In our pid namespace.
    pub pid: u32,
    pub user: u32,
    /// The capabilities that it passes to the programs it executes, as a mask.
    pub rights: u64,
}

/// The constants of the kernel side.
pub(super) struct Setting {
    root: FamilyRoot,
    room: u32,
    places: [(&'static str, u32); 8],
}

impl Setting {
    /// Collects them, for a family with room for `room` processes.
    pub(super) fn of(root: FamilyRoot, room: u32) -> Result<Setting, KernelError> {
        let places = fields::of_family();
        let places = places.ok_or(KernelError::NoFamily(
            "the kernel does not describe its types (BTF)",
        ))?;
        Ok(Setting { root, room, places })
    }

    pub(super) fn report<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        loader
            .override_global("FAMILY_ROOT", &self.root.pid, true)
            .override_global("FAMILY_USER", &self.root.user, true)
            .override_global("FAMILY_RIGHTS", &self.root.rights, true)
            .override_global("FAMILY_ROOM", &self.room, true);
        for (name, place) in &self.places {
            loader.override_global(name, place, true);
        }
    }
}

/// The attached tracepoints. Dropping it detaches them.
pub(super) struct Family {
    state: Cells<FamilyState>,
    room: u32,
    verified: Vec<(&'static str, Option<u64>)>,
    _links: [OwnedFd; 3],
}

impl Family {
    pub(super) fn begin(
        object: &[u8],
        maps: &Maps,
        kind: LinkKind,
        room: u32,
    ) -> Result<Family, KernelError> {
        // Without cookies a probe is identified by its address, which is unknown for a new process.
        if kind == LinkKind::Tracefs {
            return Err(KernelError::NoFamily(
                "the kernel has no uprobe_multi (before 6.6)",
            ));
        }
        let text = ProgramText::parse(object, maps)?;
        let mut verified = Vec::new();
        let mut attach = |name, tracepoint| {
            let program = text.load_for_tracepoint(name)?;
            verified.push((name, program::verified(program.as_fd())));
            sys::open_raw_tracepoint(tracepoint, program.as_fd()).map_err(KernelError::part(format!(
                "its tracepoint {tracepoint:?} cannot be opened"
            )))
        };
        let map = maps.map("FAMILY_STATE").and_then(data);
        let map = map.ok_or_else(|| missing("FAMILY_STATE"))?;
        let state = Cells::map_writable(map.fd().as_fd(), 1);
        // Exits first: members added before exits are seen would never be removed.
        let links = [
            attach("family_exits", c"sched_process_exit")?,
            attach("family_forks", c"sched_process_fork")?,
            attach("family_execs", c"sched_process_exec")?,
        ];
        Ok(Family {
            state: state.map_err(KernelError::part("its map FAMILY_STATE cannot be mapped"))?,
            room,
            verified,
            _links: links,
        })
    }

    /// Number of instructions that the verifier followed in each program.
    pub(super) fn verified(&self) -> &[(&'static str, Option<u64>)] {
        &self.verified
    }

    /// Takes a free slot; `None` if all are taken.
    pub(super) fn next_slot(&self) -> Option<u32> {
        let next = self.state.word(0, FamilyState::NEXT_SLOT)?;
        let slot = next.fetch_add(1, Ordering::Relaxed);
        u32::try_from(slot).ok().filter(|slot| *slot < self.room)
    }

    pub(super) fn state(&self) -> FamilyState {
        self.state.get(0).unwrap_or_default()
    }
}

/// Parses a [`FamilyEvent`] record of the ring buffer; `None` if the size differs.
pub fn read_family_event(bytes: &[u8]) -> Option<FamilyEvent> {
    bytemuck::try_pod_read_unaligned(bytes).ok()
}
