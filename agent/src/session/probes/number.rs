//! Gives every function a number and says what is done at its hits.

use abi::{ByteRule, Capture, ProbeSpec, SizeLayout, SpecFlags};

use super::{
    Probe, Wanted,
    captures::{self, CaptureError},
};
use crate::{
    discover::Job,
    mpi::{self, Implementation},
};

/// Numbers the functions: those of MPI in the order of the table, then the others as asked for.
pub(super) fn number(job: &Job, wanted: &[Wanted]) -> Result<Vec<Probe>, CaptureError> {
    let asked = |name: &str| {
        wanted
            .iter()
            .filter(|want| want.function == name)
            .fold(0, |flags, want| flags | want.flags)
    };
    let mut probes: Vec<Probe> = Vec::new();
    for member in &job.members {
        let Some(mpi) = &member.mpi else { continue };
        for site in &mpi.sites {
            if probes.iter().any(|probe| probe.name == site.name) {
                continue;
            }
            if let Some((function, is_large)) = mpi::find(&site.name) {
                let mut spec = mpi_spec(function, is_large, &mpi.implementation);
                spec.flags |= asked(&site.name);
                probes.push(Probe {
                    name: site.name.clone(),
                    mpi: Some(function),
                    spec,
                    captures: Vec::new(),
                });
            }
        }
    }
    for want in wanted {
        if !probes.iter().any(|probe| probe.name == want.function) {
            let spec = ProbeSpec {
                flags: asked(&want.function),
                ..ProbeSpec::default()
            };
            probes.push(Probe {
                name: want.function.clone(),
                mpi: None,
                spec,
                captures: Vec::new(),
            });
        }
    }
    for probe in &mut probes {
        probe.captures = captures::of_function(&probe.name, wanted, job)?;
        for (place, capture) in probe.spec.captures.iter_mut().zip(&probe.captures) {
            *place = capture.spec();
        }
    }
    Ok(probes)
}

fn mpi_spec(function: &mpi::Function, is_large: bool, implementation: &Implementation) -> ProbeSpec {
    let mut spec = ProbeSpec {
        flags: SpecFlags::SPAN | SpecFlags::OUTERMOST,
        captures: [Capture::default(); abi::MAX_CAPTURES],
        bytes: ByteRule::default(),
    };
    if let Some(bytes) = function
        .bytes
        .filter(|_| implementation.layout != SizeLayout::Unknown)
    {
        spec.flags |= SpecFlags::BYTES;
        spec.bytes = ByteRule {
            layout: implementation.layout as u8,
            count_argument: bytes.count,
            type_argument: bytes.datatype,
            count_width: if is_large { 8 } else { 4 },
            buffer_argument: bytes.buffer.unwrap_or(ByteRule::NO_BUFFER),
            zero: 0,
            size_offset: implementation.size_offset,
        };
    }
    spec
}
