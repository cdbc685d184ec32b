//! What a line of the journal holds.

use serde::{Deserialize, Serialize};

use crate::address::{Address, LinkAddress};
use crate::clock::Instant;
use crate::image::BuildId;
use crate::process::Pid;
use crate::value::{Bytes, ValueType};
use crate::variable::Chain;
use crate::who::Who;

/// The process that is changed, so that no other is ever taken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Number and start time.
    pub pid: Pid,
    /// The boot of the machine: start times count from there.
    pub boot: String,
    /// Its program.
    pub executable: String,
}

/// What is going to be written, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent {
    /// Its number: unique and increasing in the file.
    pub change: u64,
    /// When.
    pub at: Instant,
    /// Who.
    pub who: Who,
    /// Why, a line each.
    pub why: Vec<String>,
    /// The rule that asked for it; none when it was done by hand.
    pub rule: Option<String>,
    /// Into which process.
    pub target: Target,
    /// The file that holds the variable.
    pub module: String,
    /// Its identity.
    pub build_id: Option<BuildId>,
    /// The variable.
    pub symbol: String,
    /// Where the linker placed it; of a chain the first pointer.
    pub link_address: LinkAddress,
    /// Where it is.
    pub address: Address,
    /// The pointers that led there, if it is no fixed place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
    /// Its type.
    #[serde(rename = "type")]
    pub value_type: ValueType,
    /// What it held.
    pub old: Bytes,
    /// What it is to hold.
    pub new: Bytes,
}

/// What came of an intent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Written, and read back.
    Applied,
    /// Not written, for this reason.
    NotWritten(String),
    /// Written, and then something else was found there: the program writes it too.
    Overwritten(Bytes),
}

/// What came of taking a change back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevertOutcome {
    /// The old value is back.
    Reverted,
    /// The program has changed it since, to this; left alone.
    ChangedSince(Bytes),
    /// Not written, for this reason.
    Failed(String),
}

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    /// Before the write.
    Intent(Box<Intent>),
    /// After it.
    Outcome {
        /// The change.
        change: u64,
        /// When.
        at: Instant,
        /// What came of it.
        outcome: Outcome,
        /// True when a later process read it from the target's memory, because the one that wrote had
        /// crashed.
        recovered: bool,
    },
    /// The guard found that the change did good.
    Confirmed {
        /// The change.
        change: u64,
        /// When.
        at: Instant,
    },
    /// Before a change is taken back.
    RevertIntent {
        /// The change.
        change: u64,
        /// When.
        at: Instant,
        /// Who.
        who: Who,
    },
    /// After it.
    RevertOutcome {
        /// The change.
        change: u64,
        /// When.
        at: Instant,
        /// What came of it.
        outcome: RevertOutcome,
        /// As in [`Record::Outcome`].
        recovered: bool,
    },
}
