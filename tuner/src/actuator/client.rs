//! The agent's end of the stream: one blocking call per command.

use std::io::{self, BufReader};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use thiserror::Error;

use super::{
    ActCommand, ActuatorAnswer, ActuatorCommand, ActuatorRequest, ArmActCommand, ArmCommand, ChangeNumber,
    Collected, Expectation, GetCommand, Hello, REPLY_BYTES_MAX, REQUEST_BYTES_MAX, Refusal, Reply,
    RevertSummary, SetCommand, SetWarmUp, TogetherCommand, VariableReading, line,
};
use crate::action::ActionReceipt;
use crate::journal::JournalChange;
use crate::process::Pid;
use crate::revert::RevertReceipt;
use crate::writer::Receipt;

/// Changes in one revert request: keeps the request and its reply within their bounds.
const REVERTS_MAX: usize = 500;

#[derive(Debug, Error)]
pub enum ClientError {
    /// The actuator refused the request.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The actuator ended: what it had begun is in the journal, and the next writer of the process settles
    /// it.
    #[error("the actuator has ended; `tuneagent undo` reverts what it left")]
    Ended,
    #[error("the stream to the actuator failed: {0}")]
    Io(io::Error),
    /// The reply is of another kind than the request.
    #[error("the actuator sent an answer that does not fit the request")]
    OutOfStep,
}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> ClientError {
        ClientError::Io(error)
    }
}

/// A session with an actuator. Dropping it ends the stream, and with it the session.
#[derive(Debug)]
pub struct ActuatorClient {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    next_id: u64,
    /// Id of the request that was sent and has no reply yet.
    unanswered: Option<u64>,
    /// The actuator's own pid.
    pub actuator: u32,
}

/// A set that was sent; its receipt has not been received.
#[derive(Debug)]
#[must_use = "the next request must wait for its receipt"]
pub struct SentSet(u64);

macro_rules! expect {
    ($answer:expr, $pattern:pat => $value:expr) => {
        match $answer {
            $pattern => Ok($value),
            _ => Err(ClientError::OutOfStep),
        }
    };
}

impl ActuatorClient {
    /// Begins a session. For a bound on waiting, set a read timeout on `stream` first. After a timeout, or a
    /// reply of another kind, no more requests are sent: the stream is closed, which ends the session.
    pub fn begin(stream: UnixStream, hello: Hello) -> Result<ActuatorClient, ClientError> {
        let reader = BufReader::new(stream.try_clone()?);
        let mut client = ActuatorClient {
            reader,
            writer: stream,
            next_id: 1,
            unanswered: None,
            actuator: 0,
        };
        client.actuator = expect!(client.request(ActuatorCommand::Hello(hello))?, ActuatorAnswer::Welcome { actuator } => actuator)?;
        Ok(client)
    }

    pub fn set(&mut self, command: SetCommand) -> Result<Receipt, ClientError> {
        expect!(self.request(ActuatorCommand::Set(Box::new(command)))?, ActuatorAnswer::Set(receipt) => *receipt)
    }

    /// Whether a set is possible; an error is the reason why it is not. Writes nothing.
    pub fn check(&mut self, command: SetCommand) -> Result<(), ClientError> {
        expect!(self.request(ActuatorCommand::Check(Box::new(command)))?, ActuatorAnswer::Possible => ())
    }

    /// Orders the write of a variable without waiting for it. No other request can be sent before
    /// [`ActuatorClient::receipt`].
    pub fn send_set(&mut self, command: SetCommand) -> Result<SentSet, ClientError> {
        self.send(ActuatorCommand::Set(Box::new(command))).map(SentSet)
    }

    /// Announces that a set `like` this one may follow at once. The actuator warms it up, and polls for it
    /// without sleeping for `look_out`, 5 ms at most. Has no reply. If the actuator has not read earlier
    /// messages, this one is dropped, so that the call does not block.
    pub fn expect(&mut self, look_out: Duration, like: Option<SetWarmUp>) -> Result<(), ClientError> {
        if !self.has_room() {
            return Ok(());
        }
        let look_out_us = look_out.as_micros().try_into().unwrap_or(u32::MAX);
        self.send(ActuatorCommand::Expect(Expectation { look_out_us, like }))?;
        self.unanswered = None;
        Ok(())
    }

    /// Whether any message can be sent without blocking: the kernel reports a stream as writable if three
    /// quarters of its buffer are free.
    fn has_room(&self) -> bool {
        let mut stream = [PollFd::new(&self.writer, PollFlags::OUT)];
        poll(&mut stream, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Waits until a reply has arrived, at most `longest`. True if one has.
    pub fn is_answered_within(&self, longest: Duration) -> bool {
        let mut stream = [PollFd::new(self.reader.get_ref(), PollFlags::IN)];
        let longest = Timespec::try_from(longest).unwrap_or_default();
        // An interrupted wait counts as no reply.
        !self.reader.buffer().is_empty() || poll(&mut stream, Some(&longest)).is_ok_and(|ready| ready > 0)
    }

    /// Waits for the receipt of a set.
    pub fn receipt(&mut self, sent: SentSet) -> Result<Receipt, ClientError> {
        expect!(self.answer(sent.0)?, ActuatorAnswer::Set(receipt) => *receipt)
    }

    /// Writes a variable when the program reaches a sync point. Returns a ticket, by which the receipt is
    /// collected.
    pub fn arm(&mut self, command: ArmCommand) -> Result<u64, ClientError> {
        expect!(self.request(ActuatorCommand::Arm(Box::new(command)))?, ActuatorAnswer::Armed { ticket } => ticket)
    }

    /// Calls a function when the program reaches a sync point. Returns a ticket, as [`ActuatorClient::arm`].
    pub fn arm_act(&mut self, command: ArmActCommand) -> Result<u64, ClientError> {
        expect!(self.request(ActuatorCommand::ArmAct(Box::new(command)))?, ActuatorAnswer::Armed { ticket } => ticket)
    }

    /// Writes a variable of several processes at the same iteration, or in none. Returns a ticket for each
    /// process.
    pub fn together(&mut self, command: TogetherCommand) -> Result<Vec<u64>, ClientError> {
        let command = ActuatorCommand::Together(Box::new(command));
        expect!(self.request(command)?, ActuatorAnswer::ArmedTogether { tickets } => tickets)
    }

    pub fn collect(&mut self) -> Result<Collected, ClientError> {
        expect!(self.request(ActuatorCommand::Collect)?, ActuatorAnswer::Collected(collected) => collected)
    }

    pub fn disarm(&mut self, ticket: u64) -> Result<(), ClientError> {
        expect!(self.request(ActuatorCommand::Disarm { ticket })?, ActuatorAnswer::Disarmed => ())
    }

    pub fn act(&mut self, command: ActCommand) -> Result<ActionReceipt, ClientError> {
        expect!(self.request(ActuatorCommand::Act(Box::new(command)))?, ActuatorAnswer::Acted(receipt) => *receipt)
    }

    pub fn get(&mut self, command: GetCommand) -> Result<VariableReading, ClientError> {
        expect!(self.request(ActuatorCommand::Get(command))?, ActuatorAnswer::Value(reading) => reading)
    }

    /// Reports the guard's positive verdict on a change.
    pub fn confirm(&mut self, pid: Pid, change: u64) -> Result<(), ClientError> {
        expect!(self.request(ActuatorCommand::Confirm(ChangeNumber { pid, change }))?, ActuatorAnswer::Confirmed => ())
    }

    pub fn revert(&mut self, pid: Pid, change: u64) -> Result<RevertReceipt, ClientError> {
        let (mut reverted, _) = self.revert_each(&[ChangeNumber { pid, change }]);
        reverted.pop().unwrap_or(Err(ClientError::OutOfStep))
    }

    /// Reverts changes, newest first; consecutive changes of one place take one write. Returns the result of
    /// each in the given order, and the attempts in processes that were forked while the changes were in
    /// force. A long list is sent in parts, the last part first.
    pub fn revert_each(
        &mut self,
        changes: &[ChangeNumber],
    ) -> (Vec<Result<RevertReceipt, ClientError>>, RevertSummary) {
        let (mut parts, mut all_inherited) = (Vec::new(), RevertSummary::default());
        for part in changes.rchunks(REVERTS_MAX) {
            let changes = part.to_vec();
            let answer = self.request(ActuatorCommand::Revert { changes });
            let answer = answer.and_then(
                |answer| expect!(answer, ActuatorAnswer::Reverted { each, inherited } => (each, inherited)),
            );
            let mut reverted = match answer {
                Ok((each, inherited)) => {
                    all_inherited.extend(inherited);
                    each.into_iter()
                        .map(|one| one.map_err(ClientError::Refused))
                        .collect()
                }
                Err(error) => vec![Err(error)],
            };
            // If results are missing, the actuator has ended.
            reverted.resize_with(part.len(), || Err(ClientError::Ended));
            parts.push(reverted);
        }
        (parts.into_iter().rev().flatten().collect(), all_inherited)
    }

    /// Reverts all changes of these processes, including those of earlier sessions, in one request: the
    /// changes of each process are reverted before values that it has inherited from another one.
    pub fn revert_all(&mut self, pids: &[Pid]) -> Result<RevertSummary, ClientError> {
        let pids = pids.to_vec();
        expect!(self.request(ActuatorCommand::RevertAll { pids })?, ActuatorAnswer::RevertedAll(summary) => summary)
    }

    /// The changes of a process, oldest first, and the number of older ones that did not fit.
    pub fn changes(&mut self, pid: Pid) -> Result<(Vec<JournalChange>, usize), ClientError> {
        expect!(self.request(ActuatorCommand::Changes { pid })?, ActuatorAnswer::Changes { changes, omitted } => (changes, omitted))
    }

    /// Ends the session, and returns what was reverted and what stays.
    pub fn shutdown(mut self) -> Result<RevertSummary, ClientError> {
        expect!(self.request(ActuatorCommand::Shutdown)?, ActuatorAnswer::Goodbye(summary) => summary)
    }

    fn request(&mut self, command: ActuatorCommand) -> Result<ActuatorAnswer, ClientError> {
        let id = self.send(command)?;
        self.answer(id)
    }

    fn send(&mut self, command: ActuatorCommand) -> Result<u64, ClientError> {
        if self.unanswered.is_some() {
            return Err(ClientError::OutOfStep);
        }
        let id = self.next_id;
        self.next_id += 1;
        line::write(
            &mut self.writer,
            &ActuatorRequest { id, command },
            REQUEST_BYTES_MAX,
        )
        .map_err(ended)?;
        self.unanswered = Some(id);
        Ok(id)
    }

    fn answer(&mut self, id: u64) -> Result<ActuatorAnswer, ClientError> {
        if self.unanswered.take() != Some(id) {
            return Err(ClientError::OutOfStep);
        }
        let answer = self.read_answer(id);
        if matches!(&answer, Err(ClientError::Io(_) | ClientError::OutOfStep)) {
            // A late reply would be taken for that of the next command. The actuator may have ended by
            // itself.
            let _ = self.writer.shutdown(Shutdown::Both);
        }
        answer
    }

    fn read_answer(&mut self, id: u64) -> Result<ActuatorAnswer, ClientError> {
        match line::read::<Reply>(&mut self.reader, REPLY_BYTES_MAX).map_err(ended)? {
            None => Err(ClientError::Ended),
            Some(reply) if reply.id == id || reply.result.is_err() => Ok(reply.result?),
            Some(_) => Err(ClientError::OutOfStep),
        }
    }
}

fn ended(error: io::Error) -> ClientError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => ClientError::Ended,
        _ => ClientError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::author::Author;

    fn hello() -> Hello {
        Hello {
            keep: false,
            despite_seccomp: false,
            state_dir: "/nowhere".into(),
            who: Author::current(),
        }
    }

    /// Answers the hello, as an actuator does, and then nothing more.
    fn welcome(reader: &mut BufReader<UnixStream>) {
        let request: ActuatorRequest = line::read(reader, REQUEST_BYTES_MAX).unwrap().unwrap();
        let reply = Reply {
            id: request.id,
            result: Ok(ActuatorAnswer::Welcome { actuator: 1 }),
        };
        line::write(reader.get_mut(), &reply, REPLY_BYTES_MAX).unwrap();
    }

    #[test]
    fn once_an_answer_did_not_come_in_time_nothing_more_is_requested_and_the_session_ends() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let patience = ours.try_clone().unwrap();
        let actuator = thread::spawn(move || {
            let mut reader = BufReader::new(theirs);
            welcome(&mut reader);
            // It does not reply to the next requests.
            let mut next = || line::read::<ActuatorRequest>(&mut reader, REQUEST_BYTES_MAX).unwrap();
            [next(), next()].map(|request| request.is_some())
        });
        let mut client = ActuatorClient::begin(ours, hello()).unwrap();
        patience
            .set_read_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        assert!(matches!(client.collect(), Err(ClientError::Io(_))));
        assert!(matches!(client.collect(), Err(ClientError::Ended)));
        assert_eq!(actuator.join().unwrap(), [true, false]);
    }

    #[test]
    fn an_actuator_that_does_not_read_gets_no_expectation_and_does_not_block() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        // A blocking write would fail by this timeout.
        ours.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        let stopped = thread::spawn(move || {
            let mut reader = BufReader::new(theirs);
            welcome(&mut reader);
            reader
        });
        let mut client = ActuatorClient::begin(ours, hello()).unwrap();
        let mut reader = stopped.join().unwrap();
        for _ in 0..10_000 {
            client.expect(Duration::ZERO, None).unwrap();
        }
        // Every message that arrived is complete, and more are sent once it has read them.
        let mut read = || {
            line::read::<ActuatorRequest>(&mut reader, REQUEST_BYTES_MAX)
                .unwrap()
                .unwrap()
        };
        let last = (1..10_000).find(|_| {
            assert!(matches!(read().command, ActuatorCommand::Expect(_)));
            client.has_room()
        });
        assert!(last.is_some());
        client.expect(Duration::from_micros(7), None).unwrap();
        let is_it = |request: ActuatorRequest| {
            matches!(
                request.command,
                ActuatorCommand::Expect(Expectation { look_out_us: 7, .. })
            )
        };
        assert!((1..10_000).any(|_| is_it(read())));
    }
}
