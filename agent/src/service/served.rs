//! One session of a user: its requests, what was decided about each, and what is logged. Runs in a thread of
//! its own, which ends with the connection.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    time::{Duration, Instant},
};

use probe::kernel::{
    CallMoment, FrameError, LoadOptions, MESSAGE_BYTES_MAX, ProbeSite, ServedPrograms, ServiceRefusal,
    ServiceReply, ServiceRequest, protocol, receive, send, served_namespace,
};
use profile::error::ErrorText;
use rules::policy::NodePolicy;
use rustix::{
    fs::{FileType, OFlags, fcntl_getfl, fstat, fstatfs},
    io::Errno,
    net::sockopt::{Timeout, set_socket_timeout},
};
use thiserror::Error;

use super::{
    access::{ProcessFacts, process_of},
    audit::{AuditEntry, AuditEvent},
    serve::{Client, NodeService},
};
use crate::cli::VERSION;

/// A client that does not begin a session, or does not read a reply, within this time is disconnected.
const PATIENCE: Duration = Duration::from_secs(1);
/// A session with so many refusals is ended.
const REFUSALS_MAX: u32 = 16;
/// Upper bound of the records of calls of a session, for each function in each process.
const RECORDS_MAX: u32 = 1 << 19;
/// Upper bounds of what a session attaches: at the start, and more in each second, since sampled functions are
/// attached again and again. The service does not see when a session closes its links.
const LINKS: Allowance = Allowance {
    at_start: 4096,
    per_s: 256,
};
const SITES: Allowance = Allowance {
    at_start: 1 << 18,
    per_s: 1 << 14,
};
/// Processes that are named in the log.
const LOGGED_MAX: usize = 64;

/// File systems on which another program serves the reads of the kernel, and could stop it while it attaches.
const SERVED_BY_PROGRAMS: [i64; 2] = [
    0x6573_5546, /* FUSE */
    0x794c_7630, /* overlayfs, perhaps over it */
];

/// A number that grows with the time.
struct Allowance {
    at_start: usize,
    per_s: usize,
}

impl Allowance {
    fn after(&self, age: Duration) -> usize {
        self.at_start + self.per_s.saturating_mul(age.as_secs() as usize)
    }
}

/// Why a request is not carried out.
enum Denial {
    /// The policy, a limit, or the state of a process.
    Refused {
        kind: ServiceRefusal,
        /// What the client gets to know.
        why: String,
        /// What the log has besides; empty if nothing.
        detail: String,
        pid: Option<u32>,
    },
    /// The error of the kernel.
    Failed(io::Error),
}

impl From<io::Error> for Denial {
    fn from(error: io::Error) -> Denial {
        Denial::Failed(error)
    }
}

fn refused(why: impl Into<String>) -> Denial {
    let (why, detail) = (why.into(), String::new());
    Denial::Refused {
        kind: ServiceRefusal::NoProbes,
        why,
        detail,
        pid: None,
    }
}

/// A session that has begun.
pub(super) struct ServedSession<'a> {
    node: &'a NodeService,
    client: Client,
    policy: NodePolicy,
    number: u64,
    began: Instant,
    programs: Option<(ServedPrograms, LoadOptions)>,
    /// The processes that were attached to, with their commands.
    processes: BTreeMap<u32, String>,
    links: usize,
    sites: usize,
    refusals: u32,
}

/// Why there is no room for a session.
#[derive(Debug, Error)]
pub(super) enum NoRoom {
    #[error("a user may have {0} sessions, and you have {1}")]
    OfUser(u32, u32),
    #[error("there may be {0} sessions, and there are {1}")]
    OfAll(u32, u32),
}

/// Serves a connection until it ends. `room` says why there is none for the session.
pub(super) fn converse(node: &NodeService, stream: &OwnedFd, client: Client, room: Result<(), NoRoom>) {
    for timeout in [Timeout::Recv, Timeout::Send] {
        if set_socket_timeout(stream, timeout, Some(PATIENCE)).is_err() {
            return;
        }
    }
    let first = next(stream);
    let begun = match first {
        Ok(None) => return,
        Ok(Some((ServiceRequest::Hello { protocol, applies }, _))) => room
            .map_err(|full| refused(full.to_string()))
            .and_then(|()| begin(node, client, protocol, applies)),
        Ok(Some(_)) => Err(refused("the first message of a session is its beginning")),
        Err(error) => Err(refused(error.to_string())),
    };
    match begun {
        Ok(mut session) => {
            let hello = ServiceReply::Done {
                reports_waits: false,
                namespace: served_namespace(),
            };
            let is_open =
                reply(stream, &hello, &[]) && set_socket_timeout(stream, Timeout::Recv, None).is_ok();
            while is_open && session.serve(stream) {}
            session.end();
        }
        Err(denial) => {
            let answer = node.deny(client, None, denial);
            reply(stream, &answer, &[]);
        }
    }
}

fn begin<'a>(
    node: &'a NodeService,
    client: Client,
    theirs: u64,
    applies: bool,
) -> Result<ServedSession<'a>, Denial> {
    if theirs != protocol() {
        return Err(refused(format!(
            "it is tuneagent {VERSION}, and this one is another version"
        )));
    }
    let (policy, is_root) = (node.policy(), client.uid == 0);
    if !policy.watches_own && !is_root {
        return Err(refused(format!(
            "its policy lets no user watch programs (`watch: none` in {})",
            node.policy_file()
        )));
    }
    if applies && !policy.applies_to_own && !is_root {
        let (why, detail) = (forbidden(node), String::new());
        return Err(Denial::Refused {
            kind: ServiceRefusal::Forbidden,
            why,
            detail,
            pid: None,
        });
    }
    let number = node.next_session();
    let entry = AuditEntry::new(
        AuditEvent::Begin,
        format!("session {number} of user {} begins", client.uid),
    )
    .with("TUNEAGENT_APPLIES", u8::from(applies));
    node.log(client, Some(number), entry);
    Ok(ServedSession {
        node,
        client,
        policy,
        number,
        began: Instant::now(),
        programs: None,
        processes: BTreeMap::new(),
        links: 0,
        sites: 0,
        refusals: 0,
    })
}

fn forbidden(node: &NodeService) -> String {
    format!(
        "the policy of this node ({}) does not let sessions with probes of its service change programs; root can permit it there with \
         `apply: own`",
        node.policy_file()
    )
}

impl ServedSession<'_> {
    /// Handles one request; false at the end of the session.
    fn serve(&mut self, stream: &OwnedFd) -> bool {
        let handled = match next(stream) {
            Ok(Some((ServiceRequest::Load(options), _))) => self.load(options),
            Ok(Some((ServiceRequest::Attach { at, sites }, given))) => self.attach(at, sites, given),
            Ok(Some((ServiceRequest::Hello { .. }, _))) => Err(refused("the session has begun before")),
            Ok(None) => return false,
            Err(error) => Err(refused(error.to_string())),
        };
        match handled {
            Ok((answer, descriptors)) => {
                let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
                reply(stream, &answer, &borrowed)
            }
            Err(denial) => {
                self.refusals += 1;
                let answer = self.node.deny(self.client, Some(self.number), denial);
                reply(stream, &answer, &[]) && self.refusals < REFUSALS_MAX
            }
        }
    }

    fn load(&mut self, options: LoadOptions) -> Result<(ServiceReply, Vec<OwnedFd>), Denial> {
        let most = self.policy.limits.probes;
        if self.programs.is_some() {
            return Err(refused("the session has its probes"));
        }
        if options.probes == 0 || options.probes > most {
            return Err(refused(format!(
                "a session may probe 1 to {most} functions, not {}",
                options.probes
            )));
        }
        if options.records().is_none_or(|records| records > RECORDS_MAX) {
            return Err(refused(format!(
                "a session has room for {RECORDS_MAX} records of a function in a process, fewer than {} functions in {} processes need",
                options.probes, options.processes
            )));
        }
        if !options.is_in_range() {
            return Err(refused("a size of the session is out of range"));
        }
        let (programs, maps) = ServedPrograms::load(&options, self.client.uid).map_err(|error| {
            refused(format!(
                "the kernel side cannot be loaded: {}",
                ErrorText::new(error)
            ))
        })?;
        let answer = ServiceReply::Done {
            reports_waits: programs.reports_waits,
            namespace: served_namespace(),
        };
        self.programs = Some((programs, options));
        Ok((answer, maps))
    }

    fn attach(
        &mut self,
        at: CallMoment,
        sites: Vec<ProbeSite>,
        given: Vec<OwnedFd>,
    ) -> Result<(ServiceReply, Vec<OwnedFd>), Denial> {
        let Some((programs, options)) = &self.programs else {
            return Err(refused("nothing is loaded"));
        };
        let [file, process] = &given[..] else {
            return Err(refused("a file and a process must come with the request"));
        };
        let (links, places) = (
            LINKS.after(self.began.elapsed()),
            SITES.after(self.began.elapsed()),
        );
        if self.links >= links || self.sites + sites.len() > places {
            return Err(refused(format!(
                "a session may attach {links} links to {places} places by now"
            )));
        }
        if sites.is_empty() || sites.iter().any(|site| site.probe >= options.probes) {
            return Err(refused("a place is of no function of the session"));
        }
        // The kernel would count in the memory of the program.
        if sites.iter().any(|site| site.semaphore != 0) {
            return Err(refused(
                "marks with a counter in the program are probed by root only",
            ));
        }
        is_readable_file(file)?;
        let (pid, name) = self.watchable(process)?;
        let count = sites.len();
        let link = programs.attach(file.as_fd(), pid, at, sites)?;
        // Between the first look and the link the process may have executed another program.
        self.watchable(process)?;
        (self.links, self.sites) = (self.links + 1, self.sites + count);
        if self.processes.len() < LOGGED_MAX {
            self.processes.insert(pid, name);
        }
        let answer = ServiceReply::Done {
            reports_waits: false,
            namespace: served_namespace(),
        };
        Ok((answer, vec![link]))
    }

    /// Number and command of the process of a pidfd, if the user may have it watched.
    fn watchable(&self, process: &OwnedFd) -> Result<(u32, String), Denial> {
        let ended = || Denial::Failed(io::Error::from_raw_os_error(libc::ESRCH));
        let pid = process_of(process.as_fd()).ok_or_else(ended)?;
        let facts = ProcessFacts::read(pid).map_err(|_| ended())?;
        // The number is still that of the process, so the facts are.
        if process_of(process.as_fd()) != Some(pid) {
            return Err(ended());
        }
        match facts.denial(self.client.uid) {
            None => Ok((pid, facts.name)),
            Some(detail) => Err(Denial::Refused {
                kind: ServiceRefusal::NoProbes,
                why: format!("process {pid} is not a program that you may have watched"),
                detail: detail.to_owned(),
                pid: Some(pid),
            }),
        }
    }

    fn end(self) {
        let Client { uid, .. } = self.client;
        let took = self.began.elapsed();
        let names: Vec<String> = self
            .processes
            .iter()
            .map(|(pid, name)| format!("{pid} {name}"))
            .collect();
        let message = format!(
            "session {} of user {uid} ends after {:.1} s: {} links in {} processes",
            self.number,
            took.as_secs_f64(),
            self.links,
            self.processes.len()
        );
        let entry = AuditEntry::new(AuditEvent::End, message)
            .with("TUNEAGENT_PROCESSES", names.join(", "))
            .with("TUNEAGENT_LINKS", self.links)
            .with("TUNEAGENT_SITES", self.sites)
            .with("TUNEAGENT_REFUSALS", self.refusals)
            .with("TUNEAGENT_DURATION_USEC", took.as_micros());
        self.node.log(self.client, Some(self.number), entry);
    }
}

impl NodeService {
    /// Logs a refusal, and returns the answer for the client.
    fn deny(&self, client: Client, session: Option<u64>, denial: Denial) -> ServiceReply {
        match denial {
            Denial::Failed(error) => ServiceReply::Failed {
                errno: error.raw_os_error().unwrap_or(libc::EIO),
            },
            Denial::Refused {
                kind,
                why,
                detail,
                pid,
            } => {
                let mut entry = AuditEntry::new(AuditEvent::Refused, format!("user {}: {why}", client.uid));
                if let Some(pid) = pid {
                    entry = entry.with("TUNEAGENT_PROCESSES", pid);
                }
                if !detail.is_empty() {
                    entry = entry.with("TUNEAGENT_REASON", detail);
                }
                self.count_refusal();
                self.log(client, session, entry);
                ServiceReply::Refused { why, kind }
            }
        }
    }
}

/// Refuses what the user cannot read, and what the kernel could wait for.
fn is_readable_file(file: &OwnedFd) -> Result<(), Denial> {
    let errno = |error: Errno| Denial::Failed(error.into());
    let flags = fcntl_getfl(file).map_err(errno)?;
    let is_readable = !flags.intersects(OFlags::PATH | OFlags::WRONLY);
    let kind = fstatfs(file).map_err(errno)?.f_type;
    if SERVED_BY_PROGRAMS.contains(&kind) {
        return Err(refused(
            "programs on FUSE and overlay file systems are probed by root only",
        ));
    }
    let is_file = FileType::from_raw_mode(fstat(file).map_err(errno)?.st_mode) == FileType::RegularFile;
    match is_readable && is_file {
        true => Ok(()),
        false => Err(refused(
            "the file of a request must be a regular one that is open for reading",
        )),
    }
}

/// Why a client's message is no request.
#[derive(Debug, Error)]
enum RequestError {
    #[error("no message came in time")]
    Late,
    #[error("a message is too long")]
    TooLong,
    #[error(transparent)]
    Decode(#[from] FrameError),
}

/// The next request with its descriptors; `None` at the end of the connection.
fn next(stream: &OwnedFd) -> Result<Option<(ServiceRequest, Vec<OwnedFd>)>, RequestError> {
    // One more than a message may have, so that a longer one is noticed.
    let mut bytes = vec![0; MESSAGE_BYTES_MAX + 8];
    let (count, given) = match receive(stream.as_fd(), &mut bytes) {
        Err(Errno::AGAIN) => return Err(RequestError::Late),
        Err(_) | Ok((0, _)) => return Ok(None),
        Ok(received) => received,
    };
    let request = bytes.get(..count).map(ServiceRequest::decode);
    match request {
        Some(Ok(request)) => Ok(Some((request, given))),
        Some(Err(error)) => Err(error.into()),
        None => Err(RequestError::TooLong),
    }
}

/// Sends a reply; false if the client is gone.
fn reply(stream: &OwnedFd, answer: &ServiceReply, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> bool {
    send(stream.as_fd(), &answer.encode(), descriptors).is_ok()
}
