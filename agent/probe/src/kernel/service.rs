//! The session's side of the node's service: has it load the kernel side and attach, and receives the maps
//! and the links.

use std::{
    fs::File,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, recvmsg,
        sendmsg, socket_with,
        sockopt::{Timeout, set_socket_timeout},
    },
    process::{Pid, PidfdFlags, pidfd_open},
};

use super::{
    KernelError,
    frame::{
        FrameError, MESSAGE_BYTES_MAX, SITES_MAX, ServiceRefusal, ServiceReply, ServiceRequest, protocol,
    },
    links::{Link, LinkChoice, LinkRequest, attaches_by_files},
    loading::LoadOptions,
    maps::Maps,
    object::Kernel,
    program::pid_namespace,
};

/// The maps that a session gets, in this order.
pub(super) const SHARED: [&str; 19] = [
    "ADDRESSES",
    "ALARM",
    "BINDINGS",
    "CALLS",
    "CHANGES",
    "EPOCHS",
    "HEADS",
    "HISTOGRAMS",
    "HITS",
    "LOOKED",
    "LOSSES",
    "PAIRS",
    "PARTIAL_SUMS",
    "PROBES",
    "PROCESSES",
    "SITES",
    "THREADS",
    "TOTALS",
    "WORLDS",
];

/// A service that does not answer within this time is taken for absent.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the service did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error("{why}")]
    Refused { why: String, kind: ServiceRefusal },
    #[error("{0}")]
    Failed(io::Error),
    #[error("it does not answer")]
    Lost(#[from] Errno),
    #[error("it does not answer")]
    NoReply(#[from] FrameError),
    #[error("it is outside of this container, and counts processes by other numbers")]
    Namespace,
    #[error("it handed over {0} descriptors")]
    Descriptors(usize),
}

/// What the service loaded.
pub(super) struct Served {
    pub(super) maps: Maps,
    pub(super) reports_waits: bool,
}

/// A session of the node's service. It ends there when this is closed.
#[derive(Clone, Debug)]
pub struct Service {
    stream: Arc<OwnedFd>,
}

impl Service {
    /// Begins a session of the service at this path, which may change programs if `applies`. `None` if there
    /// is no service.
    ///
    /// # Errors
    /// If the service refuses it, or cannot be reached.
    pub fn connect(path: &Path, applies: bool) -> Result<Option<Service>, ServiceError> {
        let flags = SocketFlags::CLOEXEC;
        let stream = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        match connect(&stream, &SocketAddrUnix::new(path)?) {
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            connected => connected?,
        }
        for timeout in [Timeout::Recv, Timeout::Send] {
            set_socket_timeout(&stream, timeout, Some(PATIENCE))?;
        }
        let service = Service {
            stream: Arc::new(stream),
        };
        let protocol = protocol();
        let (_, namespace, _) = service.request(&ServiceRequest::Hello { protocol, applies }, &[])?;
        match namespace == pid_namespace().1 {
            true => Ok(Some(service)),
            false => Err(ServiceError::Namespace),
        }
    }

    /// Becomes readable when the service has ended, and with each reply.
    pub fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether the service has closed the session.
    pub fn has_ended(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        !matches!(
            recv(&*self.stream, &mut [0; 1], flags),
            Ok((1.., _)) | Err(Errno::AGAIN | Errno::INTR)
        )
    }

    pub(super) fn load(&self, options: &LoadOptions) -> Result<Served, KernelError> {
        let (reports_waits, _, descriptors) = self.request(&ServiceRequest::Load(*options), &[])?;
        match descriptors.len() {
            count if count == SHARED.len() => {
                let maps = Maps::received(SHARED.into_iter().zip(descriptors).collect())?;
                Ok(Served { maps, reports_waits })
            }
            count => Err(ServiceError::Descriptors(count).into()),
        }
    }

    /// Attaches to sites of a file that this process can read, in one process.
    pub(super) fn attach(&self, request: &LinkRequest) -> io::Result<Link> {
        let pid = request.pid.and_then(|pid| Pid::from_raw(pid as i32));
        let pid = pid.ok_or_else(|| io::Error::other("the node's service attaches to single processes"))?;
        if request.sites.len() > SITES_MAX {
            let most = format!("the node's service attaches to at most {SITES_MAX} places at once");
            return Err(io::Error::other(most));
        }
        let (file, process) = (File::open(&request.path)?, pidfd_open(pid, PidfdFlags::empty())?);
        let sent = ServiceRequest::Attach {
            at: request.at,
            sites: request.sites.clone(),
        };
        match self.request(&sent, &[file.as_fd(), process.as_fd()]) {
            Ok((.., descriptors)) => {
                let link = descriptors.into_iter().next().map(Link::Multi);
                link.ok_or_else(|| io::Error::other(ServiceError::Descriptors(0)))
            }
            Err(ServiceError::Failed(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// Sends a request, and waits for the reply.
    fn request(
        &self,
        request: &ServiceRequest,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(bool, u64, Vec<OwnedFd>), ServiceError> {
        send(self.stream.as_fd(), &request.encode(), descriptors)?;
        let mut bytes = vec![0; MESSAGE_BYTES_MAX];
        let (count, descriptors) = receive(self.stream.as_fd(), &mut bytes)?;
        match ServiceReply::decode(&bytes[..count])? {
            ServiceReply::Done {
                reports_waits,
                namespace,
            } => Ok((reports_waits, namespace, descriptors)),
            ServiceReply::Refused { why, kind } => Err(ServiceError::Refused { why, kind }),
            ServiceReply::Failed { errno } => Err(ServiceError::Failed(io::Error::from_raw_os_error(errno))),
        }
    }
}

/// Who loads the kernel side for a session.
#[derive(Clone, Debug)]
pub enum ProbeLoader {
    /// The session itself, with links of this kind.
    Own(LinkChoice),
    Service(Service),
}

impl Default for ProbeLoader {
    fn default() -> ProbeLoader {
        ProbeLoader::Own(LinkChoice::Best)
    }
}

impl ProbeLoader {
    pub(crate) fn load(&self, options: LoadOptions) -> Result<Kernel, KernelError> {
        match self {
            ProbeLoader::Own(links) => Kernel::load(LoadOptions {
                links: *links,
                ..options
            }),
            ProbeLoader::Service(service) => Kernel::load_by(service.clone(), options),
        }
    }

    /// Whether probes are attached by writing to files.
    pub fn attaches_by_files(&self) -> bool {
        matches!(self, ProbeLoader::Own(links) if attaches_by_files(*links))
    }

    /// The service, if it loads the kernel side.
    pub fn service(&self) -> Option<&Service> {
        match self {
            ProbeLoader::Own(_) => None,
            ProbeLoader::Service(service) => Some(service),
        }
    }
}

/// Sends a message with descriptors.
///
/// # Errors
/// If the peer is gone, or does not read.
pub fn send(stream: BorrowedFd<'_>, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SHARED.len()))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    retry(|| sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)).map(drop)
}

/// Receives a message with descriptors; 0 bytes if the peer is gone. A longer message is cut, which its length
/// shows: one byte more than fits.
///
/// # Errors
/// If nothing comes in time.
pub fn receive(stream: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SHARED.len()))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let slices = &mut [IoSliceMut::new(bytes)];
    let received = retry(|| recvmsg(stream, slices, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    Ok((received.bytes, rights.flatten().collect()))
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}
