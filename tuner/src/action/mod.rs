//! Carries out the actions beyond `set`: calls, libraries, changes of code, CPU binding. Each is a method of
//! [`crate::writer::Writer`], announced in the journal before the first byte changes, and reverted by `undo`.
//!
//! - `function`: resolves a name to code, and reads its bytes
//! - `arguments`: the arguments of a call
//! - `call`: calls a function once; `there`: in the thread at a sync point; `inverse`: the call that reverts
//!   a call; `load`: loads a library by calling dlopen
//! - `bytes`: the bytes that a change of code needs (`words`: pointers through which functions are called;
//!   `insertion`: inserted calls; `calls`: removed calls; `parameter`: changed arguments); `patch`: writes
//!   and reverts them
//! - `affinity`: CPU binding of threads
//! - `elsewhere`: stubs for machines other than x86-64
//!
//! # What is checked, and what is not
//!
//! A thread that is to call a function is held. It is used only if it is not in a signal handler, not in the
//! memory allocator or the dynamic linker (no word on its stack is an address in their code), not in a
//! restartable sequence, and has room on its stack. Not checked: whether it holds a lock of the program or of
//! another library that the function takes (then the call, and with it the thread, waits for ever), and
//! whether a buffer of stdio is half written.
//!
//! Before a thread makes a system call for us (memory is mapped for calls, libraries and inserted code, and
//! unmapped again), its seccomp filters are evaluated: a call that they do not allow is not made. The system
//! calls of a called function are unknown, so no function is called if a filter kills at any system call,
//! unless the user permits it explicitly ([`Writer::despite_seccomp`]). Not checked: a filter that another
//! thread installs between the check and the call, microseconds later.
//!
//! Code is changed while all threads are held, and only if none of them is in the bytes or has a return
//! address into them on its stack. Not checked: contexts that a program keeps elsewhere than on the stacks of
//! its threads (coroutines), and jumps through computed addresses into the first bytes of a function.
//!
//! If another tool *later* attaches a uprobe to bytes that we changed, the kernel executes the file's
//! instruction there and then continues in the middle of ours: the program crashes. We cannot prevent that;
//! changes of tables of addresses, which are preferred, are not affected.

mod affinity;
mod arguments;
mod at_sync_point;
mod bytes;
mod call;
mod calls;
mod function;
mod insertion;
mod inverse;
mod load;
mod parameter;
mod patch;
mod progress;
mod words;

use plan::{Action, Affinity};
use serde::{Deserialize, Serialize};

pub(crate) use at_sync_point::{CallAtSyncPoint, Reached};

use crate::clock::{self, Instant};
pub use crate::error::ActionError;
use crate::journal::{ActionRecord, JournalChange, Mechanism, Reason, RevertOutcome, WriteHold};
use crate::space::AddressSpace;
use crate::sync::HoldStatistics;
use crate::writer::{Writer, WriterError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionOutcome {
    InForce,
    Returned {
        /// The bits of the result.
        word: u64,
        result: String,
        /// What was read just before the call, as text.
        #[serde(default)]
        was: Option<String>,
        /// What reverts it. The call is in force until then; `None` if it cannot be reverted.
        #[serde(default)]
        back: Option<String>,
    },
    /// The function has not returned yet; the next inspection of the process finds the result.
    Running,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionReceipt {
    /// Its number in the journal.
    pub change: u64,
    /// Shown form of the action.
    pub text: String,
    pub outcome: ActionOutcome,
    pub mechanism: Mechanism,
    /// The longest time for which threads of the program were held, in nanoseconds.
    pub hold_ns: u64,
    /// How it met its sync point, if it has one.
    #[serde(default)]
    pub passage: Option<HoldStatistics>,
    pub at: Instant,
    /// Nanoseconds from the first inspection to the last record.
    pub duration_ns: u64,
}

impl ActionReceipt {
    /// The receipt of an action that began at `at` and is over now.
    fn new(change: u64, text: String, outcome: ActionOutcome, hold: WriteHold, at: Instant) -> ActionReceipt {
        ActionReceipt {
            change,
            text,
            outcome,
            mechanism: hold.mechanism,
            hold_ns: hold.hold_ns,
            passage: hold.passage,
            duration_ns: clock::monotonic_ns().saturating_sub(at.monotonic_ns),
            at,
        }
    }
}

impl Writer {
    pub fn act(&mut self, action: &Action, reason: Reason) -> Result<ActionReceipt, WriterError> {
        match action {
            Action::Affinity(Affinity::Cpus(cpus)) => self.affinity(cpus, reason),
            Action::Call(request) => self.call(request.clone(), reason),
            Action::Load { path, wait_ms } => self.load(path, *wait_ms, reason),
            Action::Patch(request) => self.patch(request, reason),
            Action::Set(_) | Action::Affinity(Affinity::Cores(_)) | Action::Switch(_) => {
                Err(ActionError::NotOfActuator(action.label()).into())
            }
        }
    }

    /// Reverts any action but a set.
    pub(crate) fn revert_action(&mut self, known: &JournalChange) -> Result<RevertOutcome, WriterError> {
        let change = known.intent.change;
        match &known.intent.action {
            ActionRecord::Affinity(affinity) => self.revert_affinity(change, affinity),
            ActionRecord::Load(call) => self.unload(&self.space()?, change, call, known.returned),
            ActionRecord::Patch(patch) => self.revert_patch(change, patch),
            ActionRecord::Call(call) => self.call_inverse(known, call),
            ActionRecord::Set(_) => {
                let why = "a value is not reverted like this".to_owned();
                Ok(RevertOutcome::Failed(why))
            }
        }
    }

    /// Determines the state of any action but a set that a crash left undecided.
    pub(crate) fn settle_action(
        &mut self,
        space: &AddressSpace,
        known: &JournalChange,
        action: &ActionRecord,
    ) -> Result<(), WriterError> {
        match action {
            ActionRecord::Affinity(affinity) => self.settle_affinity(known, affinity),
            ActionRecord::Call(call) | ActionRecord::Load(call) => self.settle_call(known, call),
            ActionRecord::Patch(patch) => self.settle_patch(space, known, patch),
            ActionRecord::Set(_) => Ok(()),
        }
    }
}
