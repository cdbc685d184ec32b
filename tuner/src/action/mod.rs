//! Carries out the actions beyond `set`: a call, a library, code that is changed, threads that are bound.
//! Each is a method of
//! [`crate::writer::Writer`]: announced in the journal before the first byte changes, reverted by `undo`.
//!
//! - `function`: which code a name means, and its bytes
//! - `arguments`: what a function is called with
//! - `call`: a function is called once, `there`: by the thread at a sync point; `inverse`: a call that takes
//!   another back; `load`: a library, by calling dlopen
//! - `bytes`: which bytes a change of code needs (`words`: those through which functions are called;
//!   `insertion`: of calls that are inserted, `calls`: that are removed, `parameter`: of arguments); `patch`:
//!   how they get there and away again
//! - `affinity`: threads and CPUs
//! - `elsewhere`: what stands for the rest on machines other than x86-64
//!
//! # What is checked, and what is not
//!
//! A thread that is to call a function is held, and taken only when it is not in a signal handler, not in the
//! memory allocator or the dynamic linker (by the words on its stack that lie in their code), not in a
//! restartable sequence, and has room on its stack. Not checked: whether it holds a lock of the program's
//! own, or of another library, that the function wants (the call waits for ever then, and so does the
//! thread), and whether a buffer of stdio is half written.
//!
//! Before a thread makes a system call for us (memory is mapped for calls, libraries and code that is
//! inserted, and unmapped again) its seccomp filters are evaluated for it: one that is not allowed is not
//! made. What a called function does by itself is not known, so none is called where a filter kills at any
//! system call, unless the user says so by hand ([`Writer::despite_seccomp`]). Not checked: a filter that
//! another thread installs between the look and the call, microseconds later.
//!
//! Code is changed while all threads are held, and only when none stands in the bytes or comes back to them
//! by a word on its stack. Not checked: contexts that a program keeps elsewhere than on the stacks of its
//! threads (coroutines), and jumps through computed addresses into the first bytes of a function.
//!
//! A uprobe that another tool puts *later* on bytes that we changed makes the kernel execute the file's
//! instruction there and then go on in the middle of ours: the program crashes. Nothing can be done from
//! here; changes by tables of addresses, which are preferred, do not have the problem.

mod affinity;
mod arguments;
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
mod there;
mod words;

use plan::{Action, Affinity};
use serde::{Deserialize, Serialize};

pub(crate) use there::{CallThere, Reached};

use crate::clock::Instant;
pub use crate::error::ActionError;
use crate::journal::Reason;
use crate::journal::{ActionRecord, Change, Mechanism, RevertOutcome};
use crate::space::AddressSpace;
use crate::sync::Passage;
use crate::writer::{Writer, WriterError};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionOutcome {
    InForce,
    Returned {
        /// The bits of the result.
        word: u64,
        result: String,
        /// What was read just before, as text.
        #[serde(default)]
        was: Option<String>,
        /// What reverts it: it is in force until then. Without it the call stays.
        #[serde(default)]
        back: Option<String>,
    },
    /// The function has not returned yet; the next look at the process finds the result.
    Running,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionReceipt {
    /// Its number in the journal.
    pub change: u64,
    /// As it is shown.
    pub text: String,
    pub outcome: ActionOutcome,
    pub mechanism: Mechanism,
    /// For how long threads of the program were held: the longest hold.
    pub hold_ns: u64,
    /// How it met its sync point, if it was to.
    #[serde(default)]
    pub passage: Option<Passage>,
    pub at: Instant,
    /// From the first look to the last record.
    pub duration_ns: u64,
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

    /// Takes anything but a value back.
    pub(crate) fn revert_action(&mut self, known: &Change) -> Result<RevertOutcome, WriterError> {
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

    /// Finds out what a crash left of anything but a value.
    pub(crate) fn settle_action(
        &mut self,
        space: &AddressSpace,
        known: &Change,
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
