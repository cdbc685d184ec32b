//! What a change does, as the journal records it: enough to determine after a crash what was done, and to
//! revert it.

use std::collections::BTreeSet;
use std::fmt;

use plan::{Argument, Bytes, CpuList, Key, ReturnType, SyncPoint, Value, ValueType};
use serde::{Deserialize, Serialize};

use crate::address::{Address, LinkAddress};
use crate::arena::Arena;
use crate::image::BuildId;
use crate::process::Pid;
use crate::variable::Chain;

/// What a change does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", rename_all = "snake_case", remote = "Self")]
pub enum ActionRecord {
    Set(Assignment),
    Call(CallRecord),
    Load(CallRecord),
    /// Changes code, or the tables through which functions are called.
    Patch(Patch),
    Affinity(ThreadAffinities),
}

/// A variable and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The file that holds the variable.
    pub module: String,
    pub build_id: Option<BuildId>,
    pub symbol: String,
    /// Where the linker placed it; for a chain, the first pointer.
    pub link_address: LinkAddress,
    pub address: Address,
    /// The pointers that led to it; `None` for a fixed place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<Chain>,
    #[serde(rename = "type")]
    pub value_type: ValueType,
    pub old: Bytes,
    pub new: Bytes,
    /// The sync point at which it takes effect and is reverted; `None` if any instant is permitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncPoint>,
    /// The processes that apply and revert it at the same iteration only, all of them or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<ChangeGroup>,
}

impl Assignment {
    /// True if `later` found the value of this one, at the same place, sync point and processes.
    pub(super) fn leads_to(&self, later: &Assignment) -> bool {
        let is_of_the_same = match (&self.together, &later.together) {
            (Some(shared), Some(of_later)) => (&shared.with, &shared.key) == (&of_later.with, &of_later.key),
            (shared, of_later) => shared.is_none() && of_later.is_none(),
        };
        let place = (
            self.address,
            self.value_type,
            &self.module,
            &self.chain,
            &self.sync,
        );
        let of_later = (
            later.address,
            later.value_type,
            &later.module,
            &later.chain,
            &later.sync,
        );
        self.new == later.old && place == of_later && is_of_the_same
    }
}

/// Changes of several processes that are in force in all of them or in none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeGroup {
    /// Identifies the group: the same in all of its changes.
    pub group: String,
    pub with: Vec<Pid>,
    /// Where each process keeps the number of the iteration that it begins.
    pub key: Key,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    /// Shown form: `f(1, 2.5)`, or the path of a library.
    pub symbol: String,
    /// The file that holds the function.
    pub module: String,
    /// Where the function is.
    pub address: Address,
    pub returns: ReturnType,
    /// The memory that is mapped for it.
    pub arena: Arena,
    /// The sync point whose thread makes the call; `None` if any thread may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<SyncPoint>,
    /// What reverts it; `None` if it cannot be reverted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inverse: Option<InverseRecord>,
}

/// The call that reverts a call. The thread that made the one makes the other, at the same sync point if
/// there is one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InverseRecord {
    /// Shown form: `f(was)`.
    pub symbol: String,
    /// The function, as it is looked up.
    pub function: String,
    /// The file that holds it.
    pub module: String,
    pub address: Address,
    pub arguments: Vec<Argument>,
    /// The function whose result, just before the call, is `was`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<PrecedingCall>,
}

impl InverseRecord {
    /// Whether two calls set the same: with one function, unless it takes what it sets before the value, as `mallopt` does,
    /// and that differs.
    fn sets_the_same(&self, other: &InverseRecord) -> bool {
        let what = |of: &InverseRecord| of.arguments.split_last().map(|(_, before)| before.to_vec());
        self.address == other.address && what(self) == what(other)
    }
}

/// The function that the same thread calls just before a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrecedingCall {
    /// Shown form: `g()`.
    pub symbol: String,
    pub returns: ReturnType,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// Shown form: `replace a with b`.
    pub symbol: String,
    /// The bytes that are changed, in this order.
    pub sites: Vec<PatchedBytes>,
    /// The memory that is mapped for it.
    pub arena: Option<Arena>,
    /// The files whose code is called now: they must stay loaded.
    pub uses: Vec<String>,
    /// A function that runs as a copy, by address and size in bytes: changes in the original would have no
    /// effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub covers: Option<(Address, u64)>,
}

/// Bytes that are changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PatchedBytes {
    /// The file that they belong to.
    pub module: String,
    pub build_id: Option<BuildId>,
    /// Code; otherwise a word of a table.
    pub is_code: bool,
    /// Where the linker placed them.
    pub link_address: LinkAddress,
    pub address: Address,
    /// The old bytes according to the file (for a word of a table: according to memory).
    pub old: HexBytes,
    pub new: HexBytes,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadAffinities {
    /// Shown form: `affinity`.
    pub symbol: String,
    pub cpus: CpuList,
    /// The previous CPUs of every thread, the first thread first. New threads inherit those of their creator.
    pub threads: Vec<ThreadCpus>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadCpus {
    pub tid: i32,
    pub cpus: CpuList,
}

impl ActionRecord {
    /// What it changes, in a word or two.
    pub fn symbol(&self) -> &str {
        match self {
            ActionRecord::Set(set) => &set.symbol,
            ActionRecord::Call(call) | ActionRecord::Load(call) => &call.symbol,
            ActionRecord::Patch(patch) => &patch.symbol,
            ActionRecord::Affinity(affinity) => &affinity.symbol,
        }
    }

    /// The sync point at which it takes effect.
    pub fn sync(&self) -> Option<&SyncPoint> {
        match self {
            ActionRecord::Set(set) => set.sync.as_ref(),
            ActionRecord::Call(call) => call.sync.as_ref(),
            ActionRecord::Load(_) | ActionRecord::Patch(_) | ActionRecord::Affinity(_) => None,
        }
    }

    /// The changes of other processes that belong to it, if any.
    pub fn together(&self) -> Option<&ChangeGroup> {
        match self {
            ActionRecord::Set(set) => set.together.as_ref(),
            ActionRecord::Call(_)
            | ActionRecord::Load(_)
            | ActionRecord::Patch(_)
            | ActionRecord::Affinity(_) => None,
        }
    }

    /// The memory that it mapped in the program.
    pub fn arena(&self) -> Option<&Arena> {
        match self {
            ActionRecord::Call(call) | ActionRecord::Load(call) => Some(&call.arena),
            ActionRecord::Patch(patch) => patch.arena.as_ref(),
            ActionRecord::Set(_) | ActionRecord::Affinity(_) => None,
        }
    }

    pub fn inverse(&self) -> Option<&InverseRecord> {
        match self {
            ActionRecord::Call(call) => call.inverse.as_ref(),
            ActionRecord::Set(_)
            | ActionRecord::Load(_)
            | ActionRecord::Patch(_)
            | ActionRecord::Affinity(_) => None,
        }
    }

    /// Whether both change the same bytes, both bind threads, or both are reverted by the same function.
    pub fn overlaps(&self, other: &ActionRecord) -> bool {
        match (self, other) {
            (ActionRecord::Affinity(_), ActionRecord::Affinity(_)) => return true,
            (ActionRecord::Call(_), ActionRecord::Call(_)) => {
                let (ours, theirs) = (self.inverse(), other.inverse());
                return ours
                    .zip(theirs)
                    .is_some_and(|(ours, theirs)| ours.sets_the_same(theirs));
            }
            _ => {}
        }
        let (ours, theirs) = (self.bytes(), other.bytes());
        ours.iter()
            .any(|(start, end)| theirs.iter().any(|(from, to)| start < to && from < end))
    }

    fn bytes(&self) -> Vec<(u64, u64)> {
        let range = |address: Address, length: usize| (address.0, address.0 + length as u64);
        match self {
            ActionRecord::Set(set) => vec![range(set.address, set.new.as_slice().len())],
            ActionRecord::Patch(patch) => {
                let sites = patch.sites.iter();
                sites.map(|site| range(site.address, site.new.0.len())).collect()
            }
            ActionRecord::Call(_) | ActionRecord::Load(_) | ActionRecord::Affinity(_) => Vec::new(),
        }
    }
}

impl Serialize for ActionRecord {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ActionRecord::serialize(self, serializer)
    }
}

/// Journals without the field `action` have sets only.
impl<'de> Deserialize<'de> for ActionRecord {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<ActionRecord, D::Error> {
        #[derive(Deserialize)]
        enum NoAction {}

        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Named(#[serde(with = "ActionRecord")] ActionRecord),
            Unnamed {
                action: Option<NoAction>,
                #[serde(flatten)]
                set: Assignment,
            },
        }

        Ok(match Written::deserialize(deserializer)? {
            Written::Named(action) => action,
            Written::Unnamed { action: None, set } => ActionRecord::Set(set),
            Written::Unnamed {
                action: Some(none), ..
            } => match none {},
        })
    }
}

impl fmt::Display for ActionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ActionRecord::Set(set) => {
                let show = |bytes| {
                    Value::from_bytes(set.value_type, bytes)
                        .map_or_else(|_| "?".into(), |value| value.to_string())
                };
                write!(f, "{} {} -> {}", set.symbol, show(set.old), show(set.new))
            }
            ActionRecord::Call(call) => {
                write!(f, "call {}", call.symbol)?;
                match &call.inverse {
                    Some(inverse) => write!(f, " (inverse: {})", inverse.symbol),
                    None => Ok(()),
                }
            }
            ActionRecord::Load(call) => write!(f, "load {}", call.symbol),
            ActionRecord::Patch(patch) => f.write_str(&patch.symbol),
            ActionRecord::Affinity(affinity) => affinity.fmt(f),
        }
    }
}

/// Example: `4 threads bound to CPUs 0-1 (before: CPUs 0-63)`.
impl fmt::Display for ThreadAffinities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.threads.len() {
            1 => write!(f, "1 thread")?,
            threads => write!(f, "{threads} threads")?,
        }
        write!(f, " bound to {}", self.cpus.with_noun())?;
        let before: BTreeSet<&CpuList> = self.threads.iter().map(|thread| &thread.cpus).collect();
        match before.first() {
            None => Ok(()),
            Some(_) if before.len() > 1 => write!(f, " (before: not all to the same)"),
            Some(&before) if *before == self.cpus => write!(f, " (as before)"),
            Some(before) => write!(f, " (before: {})", before.with_noun()),
        }
    }
}

/// Any number of bytes; hexadecimal digits as text.
#[derive(Clone, PartialEq, Eq)]
pub struct HexBytes(pub Vec<u8>);

impl fmt::Display for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HexBytes({self})")
    }
}

impl Serialize for HexBytes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HexBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<HexBytes, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(digit).collect();
        match bytes {
            Some(bytes) if text.len().is_multiple_of(2) => Ok(HexBytes(bytes)),
            _ => Err(serde::de::Error::custom(format!(
                "`{text}` is not bytes in hexadecimal: expected two digits of 0-9 and a-f for each"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_function_set_the_same_unless_what_they_set_differs() {
        let inverse = |arguments: &[Argument]| InverseRecord {
            symbol: String::new(),
            function: "mallopt".to_owned(),
            module: "libc.so.6".to_owned(),
            address: Address(8),
            arguments: arguments.to_vec(),
            reader: None,
        };
        let of = |what, value| inverse(&[Argument::Integer(what), Argument::Integer(value)]);
        assert!(of(-4, 1).sets_the_same(&of(-4, 2)));
        assert!(!of(-4, 1).sets_the_same(&of(-1, 1)));
        assert!(inverse(&[Argument::Was]).sets_the_same(&inverse(&[Argument::Integer(1)])));
        let elsewhere = InverseRecord {
            address: Address(16),
            ..of(-4, 1)
        };
        assert!(!of(-4, 1).sets_the_same(&elsewhere));
    }

    #[test]
    fn cpus_of_threads_are_shown_with_what_they_had_before() {
        let reported = |cpus: &str, before: &[&str]| {
            let threads = (1..).zip(before).map(|(tid, cpus)| ThreadCpus {
                tid,
                cpus: cpus.parse().unwrap(),
            });
            let action = ThreadAffinities {
                symbol: "affinity".to_owned(),
                cpus: cpus.parse().unwrap(),
                threads: threads.collect(),
            };
            ActionRecord::Affinity(action).to_string()
        };
        assert_eq!(reported("0", &["0"]), "1 thread bound to CPU 0 (as before)");
        assert_eq!(
            reported("0-1", &["0-63", "0-63"]),
            "2 threads bound to CPUs 0-1 (before: CPUs 0-63)"
        );
        assert_eq!(
            reported("3", &["1", "2"]),
            "2 threads bound to CPU 3 (before: not all to the same)"
        );
    }
}
