//! Detaches without waiting. Closing the last descriptor of a link waits until the kernel is sure that no hit
//! is in progress, which takes seconds if threads spin on every CPU; a process that ends closes its
//! descriptors too and waits as long. So links are passed to a separate process, the closer: it holds the
//! last descriptors, closes them, and may outlive the sender.
//!
//! If the closer cannot be started, threads close the links; if no thread can be started either, the caller
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

/// Maximum number of descriptors that the kernel passes in one message.
const DESCRIPTORS_MAX: usize = 253;
/// A message has a line for each link: its number of descriptors, and the name of its event.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// The text of [`Message::Close`], which has no line for a link.
const CLOSE: &[u8] = b"close";
/// Stack size of threads that each close one link.
const STACK_BYTES: usize = 64 << 10;
/// Interval for checking whether the closer has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Links that were handed over are closed once [`Closer::closed`] has reached this number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloseTicket(u64);

#[derive(Debug, Default)]
pub struct Closer {
    by: CloserWorker,
    /// Number of messages with links that were handed over.
    given: u64,
    /// Number of these messages whose links are closed.
    closed: u64,
}

#[derive(Debug)]
enum CloserWorker {
    Process {
        child: Child,
        stream: OwnedFd,
        /// Messages that did not fit into the stream yet.
        waiting: VecDeque<Message>,
    },
    /// Each with the ticket number up to which it closes.
    Threads(Vec<(u64, JoinHandle<()>)>),
}

#[derive(Debug)]
enum Message {
    Take(Vec<Link>),
    /// Our descriptors are closed, so the closer's are the last.
    Close,
}

impl Default for CloserWorker {
    fn default() -> CloserWorker {
        CloserWorker::Threads(Vec::new())
    }
}

impl Closer {
    /// Starts the closer. Without it ([`Closer::default`]) threads close the links.
    pub fn start() -> io::Result<Closer> {
        let (ours, theirs) = pair()?;
        let child = Command::new("/proc/self/exe")
            .arg("closer")
            .stdin(Stdio::from(theirs))
            // A reader of our output must not wait for the closer.
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C on the terminal must not reach it.
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
    /// of the next. Does not wait for the kernel, unless neither a process nor a thread is available.
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
                // If no thread can be started, the closure is dropped and the links are closed here.
                match std::thread::Builder::new().spawn(close) {
                    Ok(thread) => threads.push((self.given, thread)),
                    Err(error) => tracing::debug!(%error, "links were closed in place"),
                }
            }
        }
        CloseTicket(self.given)
    }

    /// The ticket up to which links are closed now.
    pub fn closed(&mut self) -> CloseTicket {
        match &mut self.by {
            CloserWorker::Process { stream, .. } => {
                let mut answers = [0; 64];
                let has_ended = loop {
                    match rustix::net::recv(&*stream, &mut answers, RecvFlags::DONTWAIT) {
                        Ok((1.., count)) => self.closed += count as u64,
                        Err(Errno::INTR) => {}
                        Err(Errno::AGAIN) => break false,
                        // The closer has ended: the links that it had are closed.
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

    /// Whether some links that were handed over are not closed yet.
    pub fn is_busy(&mut self) -> bool {
        self.closed() < CloseTicket(self.given)
    }

    /// Becomes readable when links were closed; `None` if the caller must poll.
    pub fn stream(&self) -> Option<BorrowedFd<'_>> {
        match &self.by {
            CloserWorker::Process { stream, .. } => Some(stream.as_fd()),
            CloserWorker::Threads(_) => None,
        }
    }

    /// Ends the queue. Waits up to `patience` until all links are closed, and returns whether they are; the
    /// rest is closed in the background. Threads end with this process, so they are always waited for.
    pub fn finish(mut self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        while self.is_busy() && Instant::now() < until {
            std::thread::sleep(POLL_INTERVAL);
        }
        match self.by {
            CloserWorker::Threads(threads) => {
                // A panic of the thread does not matter: its links are closed in any case.
                threads.into_iter().for_each(|(_, thread)| drop(thread.join()));
                true
            }
            CloserWorker::Process {
                mut child,
                stream,
                waiting,
            } => {
                // A duplicate of the stream on which another thread waits would keep it open.
                let _ = shutdown(&stream, Shutdown::Write);
                links_in(waiting).for_each(side_by_side);
                loop {
                    match child.try_wait() {
                        Ok(None) if Instant::now() < until => std::thread::sleep(POLL_INTERVAL),
                        ended => return !matches!(ended, Ok(None)),
                    }
                }
            }
        }
    }

    /// Sends waiting messages while there is room.
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
                // Too many are in transit: retry later.
                Err(_) => return,
            }
        }
    }

    /// The closer has ended and closed its links: continue with threads.
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

/// Each message keeps its descriptors separate from the next. The other end must outlive this one.
fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        flags,
        None,
    )?)
}

/// Splits links into as many messages as necessary.
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

/// The closer holds the links too, so closing ours does not wait.
fn handed_over(links: Vec<Link>) {
    links.into_iter().for_each(Link::hand_over);
}

/// Closes links in parallel, so that all wait for the same grace period. A link for which no thread starts is
/// closed here.
fn side_by_side(links: Vec<Link>) {
    std::thread::scope(|scope| {
        for link in links {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            // If the thread cannot be started, the link is dropped here.
            drop(thread.spawn_scoped(scope, move || drop(link)));
        }
    });
}

/// Main function of the closer process: receives links on its standard input, closes them on request or at
/// end of file, and reports it.
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

/// Builds links from a message and its descriptors. Descriptors that the message does not mention are closed.
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
    use tuneagent_e2e::wait::{SOON, wait_until};

    use super::*;

    /// A link whose descriptor is the writing end of a pipe, and the reading end, which reports end of file
    /// once the link is closed everywhere.
    fn link() -> (Link, File) {
        let (reader, writer) = io::pipe().unwrap();
        (
            Link::Multi(OwnedFd::from(writer)),
            File::from(OwnedFd::from(reader)),
        )
    }

    /// Whether no process holds the link any more. A process just started by another test may have all
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

    /// Closing the last descriptor waits, so the session must not do it.
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
        // One answer for the links of the order to close; the others were closed at the end of the stream.
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

    /// Not immediately: a process just started by another test may have the other end for a moment.
    fn comes_to_rest(closer: &mut Closer) -> bool {
        wait_until("the rest of the closer", SOON, || Ok(!closer.is_busy())).is_ok()
    }

    #[test]
    fn links_handed_over_are_closed_by_the_other_side_alone() {
        let (ours, theirs) = pair().unwrap();
        let mut closer = by_process(ours);
        let (links, readers): (Vec<Link>, Vec<File>) = (0..2 * DESCRIPTORS_MAX + 1).map(|_| link()).unzip();
        let ticket = closer.close([links]);
        // There is no closer yet: the descriptors are in the socket, and nothing waited.
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
