//! Short functions that build events and effects, so that a test is a table of them.

pub(super) use super::super::*;
pub(super) use rules::Time;

pub(super) const HERE: MachineId = MachineId::HERE;
pub(super) const FAR: MachineId = MachineId(1);

/// When the probes of all tests are armed, in seconds.
pub(super) const ARMED: u64 = 100;

/// A time after the probes were armed.
pub(super) fn ms(ms: u64) -> Time {
    Time(ARMED * 1_000_000_000 + ms * 1_000_000)
}

pub(super) fn s(s: u64) -> Time {
    ms(1000 * s)
}

/// A slot on this machine.
pub(super) const fn slot(slot: u32) -> MemberProcess {
    MemberProcess { machine: HERE, slot }
}

pub(super) fn pid(number: i32) -> ActuatorPid {
    ActuatorPid {
        number,
        start_time: 1,
    }
}

/// A process without rank and MPI, which started with the session.
pub(super) fn plain(number: i32) -> Candidate {
    Candidate {
        pid: pid(number),
        user: 1000,
        rank: None,
        program: "/bin/app".into(),
        has_mpi: false,
        modules: 3,
        is_linked: true,
        started: ms(0),
    }
}

/// A rank with its MPI; its pid is 100 plus its rank.
pub(super) fn rank(rank: u32) -> Candidate {
    Candidate {
        rank: Some(rank),
        has_mpi: true,
        ..plain(100 + i32::try_from(rank).unwrap())
    }
}

/// A rank that has loaded no MPI yet.
pub(super) fn bare(number: u32) -> Candidate {
    Candidate {
        has_mpi: false,
        ..rank(number)
    }
}

/// The same process, started long before the session.
pub(super) fn old(candidate: Candidate) -> Candidate {
    Candidate {
        started: Time(0),
        ..candidate
    }
}

/// A session that attached to these ranks below a launcher.
pub(super) fn launched(ranks: impl IntoIterator<Item = Candidate>) -> Members {
    attached(true, ranks)
}

/// A session that attached to these processes without a launcher.
pub(super) fn alone(processes: impl IntoIterator<Item = Candidate>) -> Members {
    attached(false, processes)
}

fn attached(has_launcher: bool, processes: impl IntoIterator<Item = Candidate>) -> Members {
    let origin = MembersOrigin::Attached {
        has_launcher,
        any_user: false,
    };
    let mut it = Members::new(origin, Vec::new(), ms(0));
    for (number, candidate) in (0..).zip(processes) {
        it.on(MemberEvent::Present(slot(number), candidate), ms(0));
    }
    it
}

/// A session that started a command.
pub(super) fn command() -> Members {
    Members::new(MembersOrigin::Command, Vec::new(), ms(0))
}

pub(super) fn tick() -> MemberEvent {
    MemberEvent::Tick(HERE)
}

/// Processes of the command have executed this number of programs.
pub(super) fn look(execs: u64) -> MemberEvent {
    let machine = HERE;
    MemberEvent::Look { machine, execs }
}

/// Found in /proc, and still running.
pub(super) fn found<const N: usize>(candidates: [Candidate; N]) -> MemberEvent {
    MemberEvent::Found(HERE, candidates.map(|candidate| (candidate, true)).to_vec())
}

pub(super) fn watched(number: u32, candidate: &Candidate) -> MemberEvent {
    MemberEvent::Watched {
        process: slot(number),
        pid: candidate.pid,
        late: None,
    }
}

pub(super) fn watched_late(number: u32, candidate: &Candidate, late: LateAttachment) -> MemberEvent {
    MemberEvent::Watched {
        process: slot(number),
        pid: candidate.pid,
        late: Some(late),
    }
}

pub(super) fn refused(number: u32, candidate: &Candidate, reason: &str) -> MemberEvent {
    MemberEvent::Refused {
        process: slot(number),
        pid: candidate.pid,
        reason: reason.to_owned(),
    }
}

pub(super) fn runs(number: u32, program: &str) -> MemberEvent {
    MemberEvent::RunsAnother {
        process: slot(number),
        program: program.into(),
    }
}

/// A rank, which is this process now, has loaded its MPI.
pub(super) fn loaded_mpi(number: u32, candidate: Candidate) -> MemberEvent {
    MemberEvent::Loaded {
        process: slot(number),
        candidate,
        what: "its MPI".to_owned(),
    }
}

/// Check what these processes have loaded.
pub(super) fn libraries(numbers: &[u32]) -> MemberEffect {
    MemberEffect::CheckLibraries(numbers.iter().copied().map(slot).collect())
}

/// Attach to it, in the next slot.
pub(super) fn watch(candidate: &Candidate) -> MemberEffect {
    let slot = None;
    let (machine, pid) = (HERE, candidate.pid);
    MemberEffect::Watch { machine, pid, slot }
}

/// Attach to it, in this slot.
pub(super) fn watch_in(number: u32, candidate: &Candidate) -> MemberEffect {
    let slot = Some(number);
    let (machine, pid) = (HERE, candidate.pid);
    MemberEffect::Watch { machine, pid, slot }
}

pub(super) fn admit(candidate: &Candidate) -> MemberEffect {
    MemberEffect::Admit(HERE, candidate.pid)
}

pub(super) fn end(number: u32) -> MemberEffect {
    MemberEffect::End(vec![slot(number)])
}

pub(super) const CHECK: MemberEffect = MemberEffect::CheckPrograms(HERE);
pub(super) const SCAN: MemberEffect = MemberEffect::Scan(HERE);
pub(super) const OVER: MemberEffect = MemberEffect::Finish("the program has ended");

/// The notices, as text.
pub(super) fn said(effects: &[MemberEffect]) -> Vec<String> {
    let said = effects.iter().filter_map(|effect| match effect {
        MemberEffect::Say(notice) => Some(notice.to_string()),
        _ => None,
    });
    said.collect()
}

/// The effects without the notices.
pub(super) fn done(effects: &[MemberEffect]) -> Vec<MemberEffect> {
    let done = effects
        .iter()
        .filter(|effect| !matches!(effect, MemberEffect::Say(_)));
    done.cloned().collect()
}

/// A command whose process 7 has started in slot 0 and is watched.
pub(super) fn command_with(candidate: &Candidate) -> Members {
    after!(command(); look(1), ms(0); MemberEvent::Came(slot(0), candidate.clone()), ms(1);
        watched(0, candidate), ms(1))
}
