//! The process of the service: accepts connections, bounds their number, reloads the policy, and reports its
//! state.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use probe::kernel::{LoadOptions, ServedPrograms};
use rules::policy::NodePolicy;
use rustix::{
    io::Errno,
    net::{
        AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
        socket_with, sockopt::socket_peercred,
    },
    process::geteuid,
};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    audit::{AuditEntry, AuditEvent, AuditLog},
    served::{self, NoRoom},
    systemd::Notifier,
};
use crate::{exit::Failure, readable::Readable, rights};

/// Connections beyond the permitted sessions that are open at a time, to be refused; further ones are closed.
const REFUSED_MAX: u32 = 32;
/// Connections that wait to be accepted.
const WAITING_MAX: i32 = 64;

/// The options of `tuneagent node serve`.
#[derive(Clone, Debug)]
pub(crate) struct ServiceOptions {
    pub(crate) socket: PathBuf,
    /// The file of the policy, and what reads it.
    pub(crate) policy: PathBuf,
    pub(crate) read_policy: fn(&Path) -> Result<NodePolicy, Failure>,
    pub(crate) journal: PathBuf,
    pub(crate) syslog: PathBuf,
}

/// The process at the other end of a connection, as the kernel states it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) uid: u32,
    pub(super) pid: i32,
}

/// Open connections, by user.
#[derive(Debug, Default)]
struct Connections {
    users: BTreeMap<u32, u32>,
    all: u32,
}

/// What all sessions share.
pub(super) struct NodeService {
    options: ServiceOptions,
    policy: RwLock<NodePolicy>,
    connections: Mutex<Connections>,
    sessions: AtomicU64,
    refusals: AtomicU64,
    log: AuditLog,
    notifier: Notifier,
}

impl NodeService {
    pub(super) fn policy(&self) -> NodePolicy {
        *self.policy.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn policy_file(&self) -> std::path::Display<'_> {
        self.options.policy.display()
    }

    /// The number of the next session.
    pub(super) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn count_refusal(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Logs an entry about a client.
    pub(super) fn log(&self, client: Client, session: Option<u64>, entry: AuditEntry) {
        let mut entry = entry
            .with("TUNEAGENT_UID", client.uid)
            .with("TUNEAGENT_CLIENT_PID", client.pid);
        if let Some(number) = session {
            entry = entry.with("TUNEAGENT_SESSION", number);
        }
        self.log.write(&entry);
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of a user. `None` if even a refusal is too much; else whether there is room for a
    /// session, or why not.
    fn enter(&self, uid: u32) -> Option<Result<(), NoRoom>> {
        let limits = self.policy().limits;
        let mut open = self.connections();
        if open.all >= limits.sessions + REFUSED_MAX {
            self.count_refusal();
            return None;
        }
        let (own, all) = (open.users.get(&uid).copied().unwrap_or_default(), open.all);
        *open.users.entry(uid).or_default() += 1;
        open.all += 1;
        Some(if own >= limits.sessions_per_user && uid != 0 {
            Err(NoRoom::OfUser(limits.sessions_per_user, own))
        } else if all >= limits.sessions {
            Err(NoRoom::OfAll(limits.sessions, all))
        } else {
            Ok(())
        })
    }

    fn leave(&self, uid: u32) {
        let mut open = self.connections();
        open.all = open.all.saturating_sub(1);
        if let Some(count) = open.users.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                open.users.remove(&uid);
            }
        }
    }

    /// Reports the state to systemd.
    fn report(&self, lines: &str) {
        let (open, users) = {
            let open = self.connections();
            (open.all, open.users.len())
        };
        let (sessions, refusals) = (
            self.sessions.load(Ordering::Relaxed),
            self.refusals.load(Ordering::Relaxed),
        );
        let lost = self.log.lost();
        self.notifier.report(&format!(
            "{lines}STATUS={open} connections of {users} users; {sessions} sessions since the start, {refusals} refusals, {lost} log entries lost\n"
        ));
    }
}

/// Serves until SIGTERM or SIGINT.
pub(crate) fn serve(options: ServiceOptions) -> Result<(), Failure> {
    let policy = (options.read_policy)(&options.policy)?;
    let cannot = |error: io::Error| Failure::failed(format!("the service cannot start: {error}"));
    let listener = listen_at(&options.socket).map_err(|error| {
        Failure::failed(format!(
            "the service cannot listen at {}: {error}",
            options.socket.display()
        ))
    })?;
    rights::only_serve_probes().map_err(Failure::not_permitted)?;
    // Shows at once what the kernel lacks.
    ServedPrograms::load(&LoadOptions::ONE_PROBE, geteuid().as_raw())
        .map_err(|error| Failure::not_permitted("the service cannot probe").caused_by(&error))?;
    let node = Arc::new(NodeService {
        log: AuditLog::new(options.journal.clone(), options.syslog.clone()).map_err(cannot)?,
        notifier: Notifier::of_environment().map_err(cannot)?,
        policy: RwLock::new(policy),
        connections: Mutex::default(),
        sessions: AtomicU64::new(0),
        refusals: AtomicU64::new(0),
        options,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(cannot)?;
    let served = runtime.block_on(listened(&node, listener)).map_err(cannot);
    node.report("STOPPING=1\n");
    let lost = node.log.lost();
    if lost > 0 {
        warn!("{lost} log entries could not be written: neither the journal nor syslog took them");
    }
    let _ = fs::remove_file(&node.options.socket);
    served
}

async fn listened(node: &Arc<NodeService>, listener: OwnedFd) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut reload = signal(SignalKind::hangup())?;
    let listener = Readable::new(listener)?;
    say!(
        "{} is served; policy: {}",
        node.options.socket.display(),
        node.policy_file()
    );
    node.report("READY=1\n");
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = reload.recv() => reload_policy(node),
            ready = listener.wait() => {
                ready?;
                accept_all(node, &listener);
            }
        }
    }
}

/// A policy that is refused leaves the one before in force.
fn reload_policy(node: &NodeService) {
    let read = (node.options.read_policy)(&node.options.policy);
    let message = match &read {
        Ok(_) => "the policy was read again".to_owned(),
        Err(failure) => format!("{}; the policy before stays in force", failure.error),
    };
    warn!("{message}");
    node.log.write(&AuditEntry::new(AuditEvent::Policy, message));
    if let Ok(policy) = read {
        *node.policy.write().unwrap_or_else(PoisonError::into_inner) = policy;
    }
}

/// Accepts the waiting connections, each served by a thread.
fn accept_all(node: &Arc<NodeService>, listener: &Readable) {
    loop {
        let stream = match accept_with(listener.as_fd(), SocketFlags::CLOEXEC) {
            Ok(stream) => stream,
            Err(Errno::INTR | Errno::CONNABORTED) => continue,
            // None waits, or there are no descriptors; the next connection wakes us.
            Err(_) => return,
        };
        let Ok(peer) = socket_peercred(&stream) else {
            continue;
        };
        let client = Client {
            uid: peer.uid.as_raw(),
            pid: peer.pid.as_raw_nonzero().get(),
        };
        let Some(place) = node.enter(client.uid) else {
            continue;
        };
        let shared = Arc::clone(node);
        // Not joined: when the service ends, connections may stay open for hours, and clients see their end.
        let served = std::thread::Builder::new().spawn(move || {
            served::converse(&shared, &stream, client, place);
            // Before the place is free, so that a client that has seen its end can begin again.
            shared.leave(client.uid);
            drop(stream);
            shared.report("");
        });
        if served.is_err() {
            node.leave(client.uid);
        }
        node.report("");
    }
}

/// Listens at a path to which every user can connect. A file that another service has left is replaced.
fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let meta = fs::symlink_metadata(folder)?;
    let is_ours = [0, geteuid().as_raw()].contains(&meta.uid()) && meta.mode() & 0o022 == 0;
    if !meta.is_dir() || !is_ours {
        let name = folder.display();
        return Err(io::Error::other(format!(
            "{name} must be a folder that belongs to root or to the service, and that no other user can write"
        )));
    }
    let address = SocketAddrUnix::new(path)?;
    let new = |flags| socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(io::Error::other("there is another file"));
        }
        Ok(_) if connect(&new(SocketFlags::CLOEXEC)?, &address).is_ok() => {
            return Err(io::Error::other("another service listens there"));
        }
        Ok(_) => fs::remove_file(path)?,
        Err(_) => {}
    }
    let listener = new(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
    bind(&listener, &address)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    listen(&listener, WAITING_MAX)?;
    Ok(listener)
}
