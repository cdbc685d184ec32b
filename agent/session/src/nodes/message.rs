//! Messages between the machines of a job: one byte for the format, then postcard's encoding. Their length is
//! checked before they are read, and the numbers that they contain are bounded afterwards.

use profile::NodeNumbers;
pub use rules::MESSAGE_MAX;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::request::RuleSource;

/// The format of messages; a change of any type in them is another one.
pub(super) const FORMAT: u8 = 2;
/// The longest encoded [`NodeNumbers`], in bytes. postcard reads an element from a byte, so this bounds the memory that
/// a hostile message takes.
const NUMBERS_MAX: usize = 1 << 20;

/// From a node to the coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Up {
    JoinRequest(JoinRequest),
    /// Answers a ping, with the times at which it arrived and was answered, by the node's clock.
    Pong {
        sent_ns: u64,
        received_ns: u64,
        answered_ns: u64,
    },
    Report(NodeReport),
    /// The agent with this incarnation has ended, in whatever way.
    Closed {
        incarnation: u64,
    },
}

/// Who wants to join.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinRequest {
    /// The version of the program.
    pub build: String,
    pub host: String,
    /// Ranks of its processes; processes without a rank are not listed.
    pub ranks: Vec<u32>,
    pub processes: u32,
    /// The ranks of the job's world, if known.
    pub size: Option<u32>,
    /// Why there are no probes on this machine, in one line.
    pub cannot_probe: Option<String>,
}

/// What a node has to say since its last report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeReport {
    /// The number that the coordinator gave to this agent.
    pub incarnation: u64,
    /// Number of the report of this incarnation, from 0.
    pub sequence: u64,
    /// The session of the node has ended: nothing follows.
    pub is_last: bool,
    /// Encoded [`NodeNumbers`].
    pub numbers: Vec<u8>,
    /// Processes that joined and left.
    pub members: Vec<MemberChange>,
    /// An encoded [`rules::Report`]; empty if there is none.
    pub rules: Vec<u8>,
    /// Reports for the rules that were too long, and observations for which there was no room, so far.
    pub dropped: u64,
}

/// A process of a node came or went. Times are by the coordinator's clock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberChange {
    Joined {
        process: u32,
        /// [`rules::ProcessFacts`] as JSON: their fields may be absent, which postcard cannot express.
        facts: String,
        at_ns: u64,
    },
    Left {
        process: u32,
        at_ns: u64,
    },
}

/// From the coordinator to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Down {
    Welcome(Box<Welcome>),
    /// Why the node may not join, with what to do.
    Refused(String),
    Ping {
        sent_ns: u64,
    },
    /// The report has arrived, and this is known of the job.
    Acknowledged {
        sequence: u64,
        /// An encoded [`rules::Schedule`]; empty if there is none.
        schedule: Vec<u8>,
        /// What is added to the node's clock for the coordinator's, in nanoseconds.
        offset_ns: i64,
    },
    /// The session ends, for this reason.
    End(String),
}

/// What a node needs to watch as the coordinator does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// Greater than that of each earlier agent of the node.
    pub incarnation: u64,
    /// What is added to the node's clock for the coordinator's, in nanoseconds.
    pub offset_ns: i64,
    /// The rules, in the coordinator's order.
    pub rules: Vec<RuleSource>,
    /// Functions of `--probe`.
    pub probe: Vec<String>,
    /// `--budget`
    pub budget: String,
    /// How long the node goes on without a word of the coordinator, in nanoseconds.
    pub orphan_ns: u64,
}

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeMessageError {
    #[error("a message has {0} bytes; at most {MESSAGE_MAX} are accepted")]
    TooLong(usize),
    #[error("a message has another format: use the same version of tuneagent on all nodes")]
    Format,
    #[error("a message is broken: {0}")]
    Broken(postcard::Error),
}

impl Up {
    /// # Errors
    /// If the message is too long.
    pub fn encode(&self) -> Result<Vec<u8>, NodeMessageError> {
        encode(self)
    }

    /// # Errors
    /// If the message is too long, of another format, or broken.
    pub fn decode(message: &[u8]) -> Result<Up, NodeMessageError> {
        decode(message)
    }
}

impl Down {
    /// # Errors
    /// As [`Up::encode`].
    pub fn encode(&self) -> Result<Vec<u8>, NodeMessageError> {
        encode(self)
    }

    /// # Errors
    /// As [`Up::decode`].
    pub fn decode(message: &[u8]) -> Result<Down, NodeMessageError> {
        decode(message)
    }
}

impl NodeReport {
    /// Sets the numbers.
    ///
    /// # Errors
    /// If they are too long to travel.
    pub fn set_numbers(&mut self, numbers: &NodeNumbers) -> Result<(), NodeMessageError> {
        self.numbers = postcard::to_extend(numbers, Vec::new()).map_err(NodeMessageError::Broken)?;
        match self.numbers.len() {
            bytes if bytes > NUMBERS_MAX => {
                self.numbers.clear();
                Err(NodeMessageError::TooLong(bytes))
            }
            _ => Ok(()),
        }
    }

    /// The numbers, within their bounds.
    ///
    /// # Errors
    /// If they are too long or broken.
    pub fn numbers(&self) -> Result<NodeNumbers, NodeMessageError> {
        if self.numbers.len() > NUMBERS_MAX {
            return Err(NodeMessageError::TooLong(self.numbers.len()));
        }
        let numbers: NodeNumbers = postcard::from_bytes(&self.numbers).map_err(NodeMessageError::Broken)?;
        Ok(numbers.bounded())
    }
}

fn encode(message: &impl Serialize) -> Result<Vec<u8>, NodeMessageError> {
    let bytes = postcard::to_extend(message, vec![FORMAT]).map_err(NodeMessageError::Broken)?;
    match bytes.len() {
        bytes if bytes > MESSAGE_MAX => Err(NodeMessageError::TooLong(bytes)),
        _ => Ok(bytes),
    }
}

fn decode<T: DeserializeOwned>(message: &[u8]) -> Result<T, NodeMessageError> {
    match message {
        _ if message.len() > MESSAGE_MAX => Err(NodeMessageError::TooLong(message.len())),
        [FORMAT, item @ ..] => postcard::from_bytes(item).map_err(NodeMessageError::Broken),
        _ => Err(NodeMessageError::Format),
    }
}
