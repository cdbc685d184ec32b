//! Detaching without waiting. Closing the last descriptor of a link waits until the kernel is sure that no
//! hit is under way, which takes seconds beside threads that spin on every CPU; a process that ends closes
//! its descriptors too and waits as long. So links are passed to a process of their own, the closer: it holds
//! the last descriptors, closes them, and may outlive the sender.
//!
//! If that process cannot be started, threads close the links; if no thread can be started either, the caller
//! closes them.

use std::{
    collections::VecDeque,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Child, Command, Stdio},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{
        AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, send, sendmsg, shutdown,
        socketpair,
    },
};

use super::links::Link;

/// The kernel passes at most so many descriptors in one message.
const DESCRIPTORS_MAX: usize = 253;
/// A message has a line for each link: how many descriptors it has, and the name of its event.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// The text of [`Message::Close`], which has no line for a link.
const CLOSE: &[u8] = b"close";
/// Threads that each close one link need no more.
const STACK_BYTES: usize = 64 << 10;
/// How often it is looked whether the closer has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Links that were handed over are closed once [`Closer::closed`] has reached this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloseTicket(u64);

#[derive(Debug, Default)]
pub struct Closer {
    by: CloserWorker,
    /// Links that were handed over, in messages.
    given: u64,
    /// Of them, those that are closed.
    closed: u64,
}

#[derive(Debug)]
enum CloserWorker {
    Process {
        child: Child,
        stream: OwnedFd,
        /// What did not fit into the stream yet.
        waiting: VecDeque<Message>,
    },
    /// Each with the number that it closes up to.
    Threads(Vec<(u64, JoinHandle<()>)>),
}

#[derive(Debug)]
enum Message {
    Take(Vec<Link>),
    /// Ours are closed, so that to close the others is to close the last.
    Close,
}

impl Default for CloserWorker {
    fn default() -> CloserWorker {
        CloserWorker::Threads(Vec::new())
    }
}

impl Closer {
    /// Starts the process. Without one ([`Closer::default`]) links are closed by threads.
    pub fn start() -> io::Result<Closer> {
        let (ours, theirs) = pair()?;
        let child = Command::new("/proc/self/exe")
            .arg("closer")
            .stdin(Stdio::from(theirs))
            // The reader of our output does not wait for the closer.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C on the terminal is not for it.
            .process_group(0)
            .current_dir("/")
            .spawn()?;
        Ok(Closer {
            by: CloserWorker::Process {
                child,
                stream: ours,
                waiting: VecDeque::new(),
            },
            ..Closer::default()
        })
    }

    /// Passes links to the closer, in stages: the links of one stage are closed in parallel, and before those
    /// of the next. Does not wait for the kernel, unless there is neither process nor thread that could.
    pub fn close(&mut self, stages: impl IntoIterator<Item = Vec<Link>>) -> CloseTicket {
        let stages: Vec<Vec<Link>> = stages.into_iter().flat_map(messages).collect();
        if stages.is_empty() {
            return CloseTicket(self.given);
        }
        match &mut self.by {
            CloserWorker::Process { waiting, .. } => {
                self.given += stages.len() as u64;
                waiting.extend(
                    stages
                        .into_iter()
                        .flat_map(|links| [Message::Take(links), Message::Close]),
                );
                self.send();
            }
            CloserWorker::Threads(threads) => {
                self.given += 1;
                let close = move || stages.into_iter().for_each(side_by_side);
                // One that cannot be started drops what it was to close: so it is closed in place.
                match std::thread::Builder::new().spawn(close) {
                    Ok(thread) => threads.push((self.given, thread)),
                    Err(error) => tracing::debug!(%error, "links were closed in place"),
                }
            }
        }
        CloseTicket(self.given)
    }

    /// What is closed by now.
    pub fn closed(&mut self) -> CloseTicket {
        match &mut self.by {
            CloserWorker::Process { stream, .. } => {
                let mut answers = [0; 64];
                let has_ended = loop {
                    match rustix::net::recv(&*stream, &mut answers, RecvFlags::DONTWAIT) {
                        Ok((1.., count)) => self.closed += count as u64,
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => break false,
                        // The closer has ended: whatever it had is closed.
                        _ => break true,
                    }
                };
                match has_ended {
                    true => self.go_on_with_threads(),
                    false => self.send(),
                }
            }
            CloserWorker::Threads(threads) => {
                threads.retain(|(_, thread)| !thread.is_finished());
                let open = threads.iter().map(|(number, _)| *number).min();
                self.closed = open.map_or(self.given, |open| open - 1);
            }
        }
        CloseTicket(self.closed)
    }

    /// Whether some of what was handed over is not closed yet.
    pub fn is_busy(&mut self) -> bool {
        self.closed() < CloseTicket(self.given)
    }

    /// Readable when links were closed; none if the caller has to poll.
    pub fn stream(&self) -> Option<BorrowedFd<'_>> {
        match &self.by {
            CloserWorker::Process { stream, .. } => Some(stream.as_fd()),
            CloserWorker::Threads(_) => None,
        }
    }

    /// Ends the queue. Waits at most this long until all links are closed, and returns whether they are; the
    /// rest is closed in the background. Threads end with this process, so they are waited for in any case.
    pub fn finish(mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self.is_busy() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        match self.by {
            CloserWorker::Threads(threads) => {
                // What one could have failed at is over in any case.
                threads.into_iter().for_each(|(_, thread)| drop(thread.join()));
                true
            }
            CloserWorker::Process {
                mut child,
                stream,
                waiting,
            } => {
                // A duplicate of the stream that somebody waits on keeps it open.
                let _ = shutdown(&stream, Shutdown::Write);
                links_in(waiting).for_each(side_by_side);
                loop {
                    match child.try_wait() {
                        Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
                        ended => return !matches!(ended, Ok(None)),
                    }
                }
            }
        }
    }

    /// Sends what waits, as far as there is room.
    fn send(&mut self) {
        let CloserWorker::Process { stream, waiting, .. } = &mut self.by else {
            return;
        };
        while let Some(message) = waiting.front() {
            let sent = match message {
                Message::Take(links) => send_links(stream.as_fd(), links),
                Message::Close => send(&*stream, CLOSE, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop),
            };
            match sent {
                Ok(()) => links_in(waiting.pop_front()).for_each(handed_over),
                Err(Errno::PIPE | Errno::CONNRESET) => return self.go_on_with_threads(),
                // Too many are under way: it is tried again.
                Err(_) => return,
            }
        }
    }

    /// The closer has ended, and closed what it had.
    fn go_on_with_threads(&mut self) {
        if let CloserWorker::Process { waiting, .. } = std::mem::take(&mut self.by) {
            self.closed = self.given;
            self.close(links_in(waiting));
        }
    }
}

fn links_in(messages: impl IntoIterator<Item = Message>) -> impl Iterator<Item = Vec<Link>> {
    messages.into_iter().filter_map(|message| match message {
        Message::Take(links) => Some(links),
        Message::Close => None,
    })
}

/// A message keeps its descriptors apart from those of the next. The other end is to outlive this one.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// The same links, in as many messages as it takes.
fn messages(links: Vec<Link>) -> Vec<Vec<Link>> {
    let mut messages: Vec<Vec<Link>> = Vec::new();
    let mut count = usize::MAX;
    for link in links {
        let more = link.descriptors().count();
        match messages.last_mut() {
            Some(message) if count + more <= DESCRIPTORS_MAX => {
                message.push(link);
                count += more;
            }
            _ => {
                messages.push(vec![link]);
                count = more;
            }
        }
    }
    messages
}

fn send_links(stream: BorrowedFd<'_>, links: &[Link]) -> Result<(), Errno> {
    let descriptors: Vec<BorrowedFd<'_>> = links.iter().flat_map(Link::descriptors).collect();
    let line = |link: &Link| format!("{} {}\n", link.descriptors().count(), link.event());
    let text: String = links.iter().map(line).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(stream, &[IoSlice::new(text.as_bytes())], &mut control, flags).map(drop)
}

/// Somebody else holds them too by now: to close ours waits for nothing.
fn handed_over(links: Vec<Link>) {
    links.into_iter().for_each(Link::hand_over);
}

/// Closed side by side, all wait for the same grace period. One for which there is no thread is closed in
/// place.
fn side_by_side(links: Vec<Link>) {
    std::thread::scope(|scope| {
        for link in links {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            // A thread that cannot be started drops the link here.
            drop(thread.spawn_scoped(scope, move || drop(link)));
        }
    });
}

/// The closer's own process: takes what comes on its standard input, closes it when it is to or when that
/// ends, and says so.
pub fn serve() -> io::Result<()> {
    serve_on(io::stdin().as_fd())
}

fn serve_on(stream: BorrowedFd<'_>) -> io::Result<()> {
    let mut text = vec![0; MESSAGE_BYTES_MAX];
    let mut taken = Vec::new();
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let slice = &mut [IoSliceMut::new(&mut text)];
        let received = match recvmsg(stream, slice, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => continue,
            received => received.map(|message| message.bytes),
        };
        let text = text.get(..received.unwrap_or(0)).unwrap_or_default();
        if !text.is_empty() && text != CLOSE {
            let rights = control.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(rights) => Some(rights),
                _ => None,
            });
            taken.extend(received_links(text, rights.flatten()));
            continue;
        }
        side_by_side(std::mem::take(&mut taken));
        if text.is_empty() {
            return Ok(received.map(drop)?);
        }
        // The sender may have ended.
        let _ = send(stream, &[1], SendFlags::NOSIGNAL);
    }
}

/// What a message says of its descriptors. Those of which it says nothing are closed with the rest.
fn received_links(text: &[u8], descriptors: impl Iterator<Item = OwnedFd>) -> Vec<Link> {
    let mut descriptors = descriptors;
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    let links = lines.filter_map(|(count, event)| {
        let count = count.parse().unwrap_or_default();
        Link::received(event, descriptors.by_ref().take(count).collect())
    });
    links.collect()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::fd::OwnedFd};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// A link whose descriptor is the writing end of a pipe, and the other end: it is at its end once the
    /// link is closed everywhere.
    fn link() -> (Link, File) {
        let (reader, writer) = io::pipe().unwrap();
        (
            Link::Multi(OwnedFd::from(writer)),
            File::from(OwnedFd::from(reader)),
        )
    }

    /// Whether nobody has the link any more. A process that another test just started may have all
    /// descriptors for a moment.
    fn is_closed_within(reader: &File, patience: Duration) -> bool {
        let mut end = [PollFd::new(reader, PollFlags::IN)];
        let patience = Timespec::try_from(patience).unwrap();
        poll(&mut end, Some(&patience)).unwrap();
        end[0].revents().contains(PollFlags::HUP)
    }

    fn is_closed(reader: &File) -> bool {
        is_closed_within(reader, Duration::from_secs(60))
    }

    /// Whoever closes the last descriptor waits: that is not to be the session.
    #[test]
    fn nothing_is_closed_before_the_session_has_closed_its_own() {
        let (ours, theirs) = pair().unwrap();
        let ((first, read_first), (second, read_second)) = (link(), link());
        send_links(ours.as_fd(), &[first]).unwrap();
        send(&ours, CLOSE, SendFlags::NOSIGNAL).unwrap();
        send_links(ours.as_fd(), &[second]).unwrap();
        shutdown(&ours, Shutdown::Write).unwrap();
        serve_on(theirs.as_fd()).unwrap();
        let mut answers = [0; 8];
        let mut observed = || rustix::net::recv(&ours, &mut answers, RecvFlags::DONTWAIT);
        // An answer for what it was told to close; the other one was closed when the stream ended.
        assert_eq!(observed().map(|(_, count)| count), Ok(1));
        assert_eq!(observed().map(|(_, count)| count), Err(Errno::AGAIN));
        assert!(is_closed(&read_first) && is_closed(&read_second));
    }

    fn by_process(stream: OwnedFd) -> Closer {
        Closer {
            by: CloserWorker::Process {
                child: Command::new("true").spawn().unwrap(),
                stream,
                waiting: VecDeque::new(),
            },
            ..Closer::default()
        }
    }

    /// Not at once: a process that another test just started may have the other end too, for a moment.
    fn comes_to_rest(closer: &mut Closer) -> bool {
        let given_up = Instant::now() + Duration::from_secs(60);
        while closer.is_busy() && Instant::now() < given_up {
            std::thread::sleep(LOOK);
        }
        !closer.is_busy()
    }

    #[test]
    fn what_is_handed_over_is_closed_by_the_other_side_alone() {
        let (ours, theirs) = pair().unwrap();
        let mut closer = by_process(ours);
        let (links, readers): (Vec<Link>, Vec<File>) = (0..2 * DESCRIPTORS_MAX + 1).map(|_| link()).unzip();
        let ticket = closer.close([links]);
        // Nobody serves yet: the descriptors are in the socket, and nothing was waited for.
        assert!(closer.closed() < ticket && closer.is_busy());
        assert!(
            !readers
                .iter()
                .any(|reader| is_closed_within(reader, Duration::ZERO))
        );
        std::thread::scope(|scope| {
            scope.spawn(|| serve_on(theirs.as_fd()).unwrap());
            assert!(comes_to_rest(&mut closer) && readers.iter().all(is_closed));
            assert!(closer.finish(Duration::from_secs(60)));
        });
    }

    #[test]
    fn a_closer_that_has_ended_has_closed_what_it_had_and_threads_close_the_rest() {
        let (ours, theirs) = pair().unwrap();
        let mut closer = by_process(ours);
        let (first, read_first) = link();
        closer.close([vec![first]]);
        drop(theirs);
        assert!(comes_to_rest(&mut closer) && is_closed(&read_first));
        let (second, read_second) = link();
        closer.close([vec![second]]);
        assert!(closer.finish(Duration::ZERO) && is_closed(&read_second));
    }

    #[test]
    fn without_a_process_links_are_closed_when_it_is_finished_whatever_the_patience() {
        let mut closer = Closer::default();
        let (links, readers): (Vec<Link>, Vec<File>) = (0..40).map(|_| link()).unzip();
        closer.close([links]);
        assert!(closer.finish(Duration::ZERO) && readers.iter().all(is_closed));
    }
}
