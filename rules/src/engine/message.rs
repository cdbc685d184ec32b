//! Reports and schedules as messages between machines.
//!
//! A message begins with the number of its format and with what it is, followed by items in postcard's
//! encoding. What arrives may be anything: lengths are checked before an item is read, and the memory of all
//! items is bounded.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::node::{Partial, Report, Schedule, Scheduled};
use super::output::Observation;
use super::timed_part::{TimedNumbers, TimedPart};
use crate::eval::partial::{Content, ContentPart};
use crate::value::Scalar;

/// The longest message, in bytes.
pub const MESSAGE_MAX: usize = 4 << 20;
/// The longest item of a message, in bytes: what is read at once, before its memory is counted.
const ITEM_MAX: usize = 1 << 20;
/// The most memory that the items of a message may need, in bytes.
const MEMORY_MAX: usize = 64 << 20;
/// The format of messages. A change of any type in them is another format.
const FORMAT: u8 = 3;

/// Why a message cannot be written or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    #[error("the message has {bytes} bytes; at most {MESSAGE_MAX} are accepted")]
    TooLong { bytes: usize },
    #[error(
        "the message has format {found}, and this program reads format {FORMAT}: use the same version on all nodes"
    )]
    Format { found: u8 },
    #[error("the message is no {expected}")]
    Kind { expected: &'static str },
    #[error("item {item} of the message is broken: {why}")]
    Broken { item: usize, why: String },
    #[error("the message needs more than {MEMORY_MAX} bytes of memory")]
    TooLarge,
    #[error("{bytes} bytes follow the last item of the message")]
    Trailing { bytes: usize },
}

/// What a message is, in its second byte.
#[derive(Clone, Copy)]
enum MessageKind {
    Report = 1,
    Schedule = 2,
}

impl MessageKind {
    fn name(self) -> &'static str {
        match self {
            MessageKind::Report => "report",
            MessageKind::Schedule => "schedule",
        }
    }
}

/// A content in the first item of a message; its parts are items behind it.
#[derive(Serialize, Deserialize)]
struct ContentHead {
    hits: u64,
    has_room: bool,
    parts: usize,
}

impl ContentHead {
    fn of(content: &Content) -> ContentHead {
        ContentHead {
            hits: content.len() as u64,
            has_room: content.has_room(),
            parts: content.parts().count(),
        }
    }
}

impl Report {
    /// The message of a report.
    ///
    /// # Errors
    /// If it is longer than [`MESSAGE_MAX`], or has an item or a need for memory that [`Report::decode`]
    /// refuses.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let mut writer = MessageWriter::new(MessageKind::Report);
        let partials = self.partials.iter();
        let partials: Vec<(&Partial, ContentHead)> = partials
            .map(|partial| (partial, ContentHead::of(&partial.content)))
            .collect();
        let parts = self.parts.iter().map(|part| ContentHead::of(&part.content));
        let parts: Vec<ContentHead> = parts.collect();
        writer.put(&(self, self.observations.len(), partials, parts))?;
        for observation in &self.observations {
            writer.put_counted(observation, Some(bytes_of(observation)))?;
        }
        for part in self.partials.iter().flat_map(|partial| partial.content.parts()) {
            writer.put_counted(&part, part.bytes())?;
        }
        for part in &self.parts {
            writer.put_counted(&part.numbers, Some(part.numbers.bytes()))?;
            for part in part.content.parts() {
                writer.put_counted(&part, part.bytes())?;
            }
        }
        Ok(writer.bytes)
    }

    /// The report of a message. It may say anything: [`crate::Engine::take_report`] checks it.
    ///
    /// # Errors
    /// If the message is too long, of another format or kind, broken, or needs too much memory.
    pub fn decode(message: &[u8]) -> Result<Report, MessageError> {
        let mut reader = MessageReader::new(message, MessageKind::Report)?;
        type Head = (Report, usize, Vec<(Partial, ContentHead)>, Vec<ContentHead>);
        let (mut report, observations, partials, parts): Head = reader.take()?;
        for _ in 0..observations {
            let observation = reader.take_counted(|observation| Some(bytes_of(observation)))?;
            report.observations.push(observation);
        }
        for (partial, head) in partials {
            let content = reader.take_content(&head)?;
            report.partials.push(Partial { content, ..partial });
        }
        for head in parts {
            report.parts.push(TimedPart {
                numbers: reader.take_counted(|numbers: &TimedNumbers| Some(numbers.bytes()))?,
                content: reader.take_content(&head)?,
            });
        }
        reader.end()?;
        Ok(report)
    }
}

impl Schedule {
    /// The message of a schedule.
    ///
    /// # Errors
    /// As [`Report::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        let mut writer = MessageWriter::new(MessageKind::Schedule);
        writer.put(&self.rules.len())?;
        for rule in &self.rules {
            writer.put_counted(rule, Some(rule.bytes()))?;
        }
        Ok(writer.bytes)
    }

    /// The schedule of a message.
    ///
    /// # Errors
    /// As [`Report::decode`].
    pub fn decode(message: &[u8]) -> Result<Schedule, MessageError> {
        let mut reader = MessageReader::new(message, MessageKind::Schedule)?;
        let mut schedule = Schedule::default();
        for _ in 0..reader.take::<usize>()? {
            schedule
                .rules
                .push(reader.take_counted(|rule: &Scheduled| Some(rule.bytes()))?);
        }
        reader.end()?;
        Ok(schedule)
    }
}

/// Bytes of an observation's memory, at most.
fn bytes_of(observation: &Observation) -> usize {
    let text = |value: &Result<Scalar, String>| match value {
        Ok(Scalar::Text(text)) | Err(text) => text.len(),
        Ok(Scalar::Boolean(_) | Scalar::Number(_)) => 0,
    };
    let heap = match observation {
        Observation::Hit { captures, .. } => {
            let texts: usize = captures.iter().map(text).sum();
            texts + captures.capacity() * size_of::<Result<Scalar, String>>()
        }
        Observation::CallCounter { call, .. } => call.len(),
        Observation::Variable { name, value, .. } => match value {
            Scalar::Text(text) => name.len() + text.len(),
            Scalar::Boolean(_) | Scalar::Number(_) => name.len(),
        },
        Observation::PartialSum { partial_sum, .. } => size_of_val(partial_sum.sums.as_slice()),
        Observation::IterationEnded(iteration) => iteration.teams.as_ref().err().map_or(0, String::len),
        _ => 0,
    };
    size_of::<Observation>() + heap
}

struct MessageWriter {
    bytes: Vec<u8>,
    memory: usize,
}

impl MessageWriter {
    fn new(kind: MessageKind) -> MessageWriter {
        MessageWriter {
            bytes: vec![FORMAT, kind as u8],
            memory: 0,
        }
    }

    fn put(&mut self, item: &impl Serialize) -> Result<(), MessageError> {
        let before = self.bytes.len();
        let bytes = std::mem::take(&mut self.bytes);
        self.bytes = postcard::to_extend(item, bytes).map_err(|why| MessageError::Broken {
            item: 0,
            why: why.to_string(),
        })?;
        let bytes = self.bytes.len();
        if bytes > MESSAGE_MAX || bytes - before > ITEM_MAX {
            return Err(MessageError::TooLong { bytes });
        }
        Ok(())
    }

    fn put_counted(&mut self, item: &impl Serialize, bytes: Option<usize>) -> Result<(), MessageError> {
        self.memory += bytes.unwrap_or(0);
        if self.memory > MEMORY_MAX {
            return Err(MessageError::TooLarge);
        }
        self.put(item)
    }
}

struct MessageReader<'m> {
    rest: &'m [u8],
    /// Items that were read.
    items: usize,
    memory: usize,
}

impl<'m> MessageReader<'m> {
    fn new(message: &'m [u8], kind: MessageKind) -> Result<MessageReader<'m>, MessageError> {
        if message.len() > MESSAGE_MAX {
            return Err(MessageError::TooLong { bytes: message.len() });
        }
        match message {
            [FORMAT, of, rest @ ..] if *of == kind as u8 => Ok(MessageReader {
                rest,
                items: 0,
                memory: 0,
            }),
            [FORMAT, ..] => Err(MessageError::Kind {
                expected: kind.name(),
            }),
            [found, ..] => Err(MessageError::Format { found: *found }),
            [] => Err(MessageError::Kind {
                expected: kind.name(),
            }),
        }
    }

    fn broken(&self, why: &str) -> MessageError {
        MessageError::Broken {
            item: self.items,
            why: why.to_string(),
        }
    }

    fn take<T: DeserializeOwned>(&mut self) -> Result<T, MessageError> {
        let item = self.rest.get(..ITEM_MAX).unwrap_or(self.rest);
        let (found, rest) = postcard::take_from_bytes(item).map_err(|why| self.broken(&why.to_string()))?;
        self.rest = self.rest.get(item.len() - rest.len()..).unwrap_or_default();
        self.items += 1;
        Ok(found)
    }

    /// Takes an item whose memory is counted; `bytes` is `None` if it cannot be what a node has computed.
    fn take_counted<T: DeserializeOwned>(
        &mut self,
        bytes: impl FnOnce(&T) -> Option<usize>,
    ) -> Result<T, MessageError> {
        let item = self.take()?;
        let bytes = bytes(&item).ok_or_else(|| self.broken("no values lead to such a sum"))?;
        self.memory = self.memory.saturating_add(bytes);
        if self.memory > MEMORY_MAX {
            return Err(MessageError::TooLarge);
        }
        Ok(item)
    }

    fn take_content(&mut self, head: &ContentHead) -> Result<Content, MessageError> {
        let mut parts = Vec::new();
        for _ in 0..head.parts {
            parts.push(self.take_counted(ContentPart::bytes)?);
        }
        let content = Content::of_parts(head.hits, !head.has_room, parts);
        content.ok_or_else(|| self.broken("its rows are not in order"))
    }

    fn end(self) -> Result<(), MessageError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(MessageError::Trailing { bytes }),
        }
    }
}
