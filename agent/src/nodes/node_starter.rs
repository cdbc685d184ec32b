//! The node starter: the process that starts agents on other machines, by ssh or srun, as the user who typed the command. It
//! keeps the standard input of each open. When the session has ended, in whatever way, it closes them; an agent ends when
//! its input does. What does not end then is ended.

use std::{
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::Path,
    process::{Child, ChildStderr, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

use profile::error::ErrorText;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::ioctl_fionbio,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};
use serde::{Deserialize, Serialize};
use session::nodes::StartEnd;

use super::{
    subprocess::{self, Subprocess, framed},
    ticket::Ticket,
    user::{StartUser, become_user},
};
use crate::exit::Failure;

/// Bytes of the output of a start that are kept, from its end.
const SAID_MAX: usize = 4096;
/// How long agents may take to end by themselves when the session has ended, and then after each signal.
const END_WAIT: Duration = Duration::from_secs(8);
const SIGNAL_WAIT: Duration = Duration::from_secs(1);
/// How long ssh may take to connect, in seconds.
const CONNECT_S: u32 = 10;

/// How agents are started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartWay {
    /// A remote shell, with the launcher's flags.
    Shell(Vec<String>),
    /// A step of this job of Slurm.
    Slurm(String),
}

impl StartWay {
    /// The name of the program, for messages.
    pub(crate) fn name(&self) -> &str {
        match self {
            StartWay::Slurm(_) => "srun",
            StartWay::Shell(words) => words.first().map_or("ssh", |word| file_name(word)),
        }
    }

    /// The command that starts an agent on a host.
    fn command(&self, host: &str, script: &str) -> Vec<String> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        match self {
            StartWay::Slurm(job) => {
                // A step for each node, since each has a credential of its own.
                let mut all = words(&format!(
                    "srun --jobid {job} --overlap --nodelist {host} --nodes 1 --ntasks 1 --ntasks-per-node 1 --mpi none \
                     --kill-on-bad-exit=0 --wait=0 sh -c"
                ));
                all.push(script.to_owned());
                all
            }
            StartWay::Shell(shell) => {
                let mut all = shell.clone();
                if self.name() == "ssh" {
                    all.extend(words(&format!(
                        "-o BatchMode=yes -o ConnectTimeout={CONNECT_S} -o ControlMaster=no -T"
                    )));
                }
                all.extend([host.to_owned(), format!("sh -c '{script}'")]);
                all
            }
        }
    }
}

fn file_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// What the other machine executes: this program at the same place as here, or else in PATH.
fn script(own: &Path, any_user: bool) -> String {
    let flags = if any_user { " --any-user" } else { "" };
    let own = own.to_string_lossy();
    // Anything else could act in a shell.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-".contains(c);
    match own.chars().all(is_plain) {
        true => format!("P={own}; [ -x \"$P\" ] || P=tuneagent; exec \"$P\" node join{flags} -"),
        false => format!("exec tuneagent node join{flags} -"),
    }
}

/// All that the node starter may start.
#[derive(Debug, Default, Serialize, Deserialize)]
struct NodeStarterOrder {
    /// As whom, if not as the user that this process has.
    user: Option<StartUser>,
    starts: Vec<NodeStart>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NodeStart {
    node: u32,
    words: Vec<String>,
    /// Its first line of input, with the credential.
    input: String,
}

/// What the session wants of the node starter, for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StartRequest {
    Begin,
    Stop,
}

impl StartRequest {
    pub(crate) fn encode(self) -> [u8; 1] {
        [u8::from(self == StartRequest::Stop)]
    }

    fn decode(message: &[u8]) -> Option<StartRequest> {
        match message {
            [0] => Some(StartRequest::Begin),
            [1] => Some(StartRequest::Stop),
            _ => None,
        }
    }
}

/// Starts the node starter, for these hosts in the order of the tickets.
pub(crate) fn start_node_starter(
    way: &StartWay,
    user: Option<StartUser>,
    hosts: &[String],
    tickets: Vec<Ticket>,
    any_user: bool,
) -> Result<Subprocess, Failure> {
    let own = std::env::current_exe().map_err(Failure::failed)?;
    let script = script(&own, any_user);
    let starts = hosts.iter().zip(tickets).map(|(host, mut ticket)| {
        ticket.ends_with_input = true;
        Ok(NodeStart {
            node: ticket.node,
            words: way.command(host, &script),
            input: ticket.line().map_err(Failure::failed)?,
        })
    });
    let starts = starts.collect::<Result<_, Failure>>()?;
    let (subprocess, ()) = Subprocess::start(
        Subprocess::command("node-starter"),
        &NodeStarterOrder { user, starts },
    )?;
    Ok(subprocess)
}

/// The main function of the node starter's process, with the session's socket as standard input.
pub(crate) fn serve_node_starter() -> Result<(), Failure> {
    let (mut stream, order): (UnixStream, NodeStarterOrder) = subprocess::order()?;
    if let Err(error) = become_user(order.user.as_ref()) {
        return subprocess::answer::<()>(&mut stream, &Err(ErrorText::new(error).to_string()));
    }
    subprocess::answer(&mut stream, &Ok(()))?;
    let mut node_starter = NodeStarter {
        stream,
        order,
        running: Vec::new(),
    };
    let served = node_starter.serve();
    node_starter.end();
    served.map_err(Failure::failed)
}

struct NodeStarter {
    stream: UnixStream,
    order: NodeStarterOrder,
    running: Vec<RunningStart>,
}

/// A process that holds an agent on another machine.
struct RunningStart {
    node: u32,
    child: Child,
    /// Readable once it has ended.
    end: OwnedFd,
    /// Its end lets the agent end.
    input: Option<ChildStdin>,
    errors: ChildStderr,
    /// Its errors are read to their end.
    is_silent: bool,
    said: Vec<u8>,
}

impl NodeStarter {
    /// Until the session closes its end.
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let has_request = self.wait()?;
            self.collect()?;
            if !has_request {
                continue;
            }
            match subprocess::receive(&mut self.stream) {
                Ok((node, message)) => self.carry_out(node, &message)?,
                // Reset, if it has ended without reading everything.
                Err(_) => return Ok(()),
            }
        }
    }

    fn carry_out(&mut self, node: u32, message: &[u8]) -> io::Result<()> {
        match StartRequest::decode(message) {
            Some(StartRequest::Begin) => match self.begin(node) {
                Ok(started) => self.running.extend(started),
                Err((program, error)) => {
                    let said = format!("{program}: {error}");
                    self.report(node, &StartEnd { code: None, said })?;
                }
            },
            Some(StartRequest::Stop) => {
                let of = self.running.iter().filter(|start| start.node == node);
                of.for_each(|start| start.signal(Signal::TERM));
            }
            None => {}
        }
        Ok(())
    }

    fn begin(&self, node: u32) -> Result<Option<RunningStart>, (String, io::Error)> {
        let Some(start) = self.order.starts.iter().find(|start| start.node == node) else {
            return Ok(None);
        };
        let Some((program, arguments)) = start.words.split_first() else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(user) = &self.order.user {
            command.env_clear().envs(user.environment().iter().cloned());
        }
        let started = RunningStart::spawn(&mut command, node, &start.input);
        started
            .map(Some)
            .map_err(|error| (file_name(program).to_owned(), error))
    }

    /// Waits until a process has ended or printed, or the session has a request or has ended, which is returned.
    fn wait(&self) -> io::Result<bool> {
        let mut entries = self.entries();
        entries.insert(0, PollFd::new(&self.stream, PollFlags::IN));
        poll_for(&mut entries, None)?;
        Ok(entries.first().is_some_and(|entry| !entry.revents().is_empty()))
    }

    /// The ends and the outputs of what runs.
    fn entries(&self) -> Vec<PollFd<'_>> {
        let ends = self
            .running
            .iter()
            .map(|start| PollFd::new(&start.end, PollFlags::IN));
        let open = self.running.iter().filter(|start| !start.is_silent);
        let outputs = open.map(|start| PollFd::new(&start.errors, PollFlags::IN));
        ends.chain(outputs).collect()
    }

    /// Reads what was printed, and reports what has ended.
    fn collect(&mut self) -> io::Result<()> {
        let mut ended = Vec::new();
        for start in &mut self.running {
            start.read();
        }
        let mut place = 0;
        while let Some(start) = self.running.get_mut(place) {
            // What it printed last is read after it has ended.
            match start.child.try_wait()? {
                Some(status) => {
                    let mut start = self.running.swap_remove(place);
                    start.read();
                    let said = String::from_utf8_lossy(&start.said).into_owned();
                    let code = status.code();
                    ended.push((start.node, StartEnd { code, said }));
                }
                None => place += 1,
            }
        }
        ended.iter().try_for_each(|(node, end)| self.report(*node, end))
    }

    /// A session that has ended is noticed when its next request is read. After any other error the session would wait in
    /// vain, and may have got a part of a message, so this process ends, which the session shows.
    fn report(&mut self, node: u32, end: &StartEnd) -> io::Result<()> {
        let message = serde_json::to_vec(end)?;
        match self.stream.write_all(&framed(node, &message)) {
            Err(error) if ![ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error.kind()) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Lets all agents end, and ends what does not.
    fn end(&mut self) {
        for start in &mut self.running {
            start.input = None;
        }
        self.wait_for_ends(END_WAIT);
        for signal in [Signal::TERM, Signal::KILL] {
            self.running.iter().for_each(|start| start.signal(signal));
            self.wait_for_ends(SIGNAL_WAIT);
        }
    }

    fn wait_for_ends(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.running.is_empty() && Instant::now() < until {
            let left = until.saturating_duration_since(Instant::now());
            if poll_for(&mut self.entries(), Some(left)).is_err() {
                return;
            }
            self.running.iter_mut().for_each(RunningStart::read);
            self.running
                .retain_mut(|start| matches!(start.child.try_wait(), Ok(None)));
        }
    }
}

impl RunningStart {
    fn spawn(command: &mut Command, node: u32, input: &str) -> io::Result<RunningStart> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // A shell may be a script: its children are ended with it.
            .process_group(0)
            .spawn()?;
        let parts = (child.stdin.take(), child.stderr.take());
        let (Some(mut stdin), Some(errors)) = parts else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let end = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        ioctl_fionbio(&errors, true)?;
        // The pipe is empty and takes all of it. A program that has ended already says why by itself.
        let _ = stdin.write_all(input.as_bytes());
        Ok(RunningStart {
            node,
            child,
            end,
            input: Some(stdin),
            errors,
            is_silent: false,
            said: Vec::new(),
        })
    }

    /// Reads what it has printed.
    fn read(&mut self) {
        let mut bytes = [0; SAID_MAX];
        while !self.is_silent {
            match self.errors.read(&mut bytes) {
                Ok(0) => self.is_silent = true,
                Ok(count) => {
                    self.said.extend(bytes.iter().take(count));
                    let old = self.said.len().saturating_sub(SAID_MAX);
                    self.said.drain(..old);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended.
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

fn poll_for(entries: &mut [PollFd<'_>], timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(entries, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_have_the_launchers_words_and_no_credential() {
        let own = script(Path::new("/opt/tuneagent"), false);
        let ssh = ["/usr/bin/ssh", "-F", "/c"].map(str::to_owned).to_vec();
        let ssh = StartWay::Shell(ssh);
        assert_eq!(
            ssh.command("n2", &own).join(" "),
            "/usr/bin/ssh -F /c -o BatchMode=yes -o ConnectTimeout=10 -o ControlMaster=no -T n2 sh -c \
             'P=/opt/tuneagent; [ -x \"$P\" ] || P=tuneagent; exec \"$P\" node join -'"
        );
        let shell = StartWay::Shell(vec!["/t/shell".to_owned(), "-x".to_owned()]);
        assert_eq!(shell.command("n2", "X").join(" "), "/t/shell -x n2 sh -c 'X'");
        let slurm = StartWay::Slurm("7".to_owned()).command("n2", &own);
        assert!(
            slurm
                .join(" ")
                .starts_with("srun --jobid 7 --overlap --nodelist n2 "),
            "{slurm:?}"
        );
        assert_eq!(slurm.last(), Some(&own));
        assert_eq!(
            script(Path::new("/a b'; rm x/tuneagent"), true),
            "exec tuneagent node join --any-user -"
        );
    }

    /// A node starter of this order in a thread, and the session's end of its socket.
    fn started(words: &[&str]) -> (std::thread::JoinHandle<()>, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let start = NodeStart {
            node: 3,
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            input: "credential\n".to_owned(),
        };
        let mut node_starter = NodeStarter {
            stream: theirs,
            order: NodeStarterOrder {
                user: None,
                starts: vec![start],
            },
            running: Vec::new(),
        };
        let thread = std::thread::spawn(move || {
            node_starter.serve().unwrap();
            node_starter.end();
            assert!(node_starter.running.is_empty());
        });
        (thread, ours)
    }

    fn begin(stream: &mut UnixStream) {
        let begin = framed(3, &StartRequest::Begin.encode());
        stream.write_all(&begin).unwrap();
    }

    fn end(stream: &mut UnixStream) -> StartEnd {
        let (node, message) = subprocess::receive(stream).unwrap();
        assert_eq!(node, 3);
        serde_json::from_slice(&message).unwrap()
    }

    #[test]
    fn what_a_start_printed_last_and_its_code_are_reported() {
        let print = "read line; seq 9999 >&2; echo $line >&2; exit 7";
        let (thread, mut stream) = started(&["sh", "-c", print]);
        begin(&mut stream);
        let found = end(&mut stream);
        assert_eq!(found.code, Some(7));
        assert!(found.said.ends_with("\n9999\ncredential\n") && found.said.len() <= SAID_MAX);
        drop(stream);
        thread.join().unwrap();
        let (thread, mut stream) = started(&["/no/such/ssh"]);
        begin(&mut stream);
        let found = end(&mut stream);
        assert_eq!(
            (found.code, found.said.starts_with("ssh: ")),
            (None, true),
            "{found:?}"
        );
        drop(stream);
        thread.join().unwrap();
    }

    #[test]
    fn starts_end_with_the_session_and_can_be_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("end");
        // The second `read` ends with the input.
        let script = format!("read line; read line; echo done > {}", file.display());
        let (thread, mut stream) = started(&["sh", "-c", &script]);
        begin(&mut stream);
        drop(stream);
        thread.join().unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "done\n");
        // The child of the shell is ended, too.
        let (thread, mut stream) = started(&["sh", "-c", "sleep 600; true"]);
        begin(&mut stream);
        stream
            .write_all(&framed(3, &StartRequest::Stop.encode()))
            .unwrap();
        assert_eq!(end(&mut stream).code, None);
        drop(stream);
        thread.join().unwrap();
    }
}
