//! Loads a library into the program: one of its threads calls dlopen. Unloads it by dlclose.

use std::path::Path;

use plan::{Argument, CallRequest, ReturnType, ValueType};

use super::call::{self, CallPlan};
use super::progress::CallState;
use super::{ActionOutcome, ActionReceipt, Reason};
use crate::address::Address;
use crate::clock;
use crate::error::ActionError;
use crate::foreign;
use crate::image::{Image, ImageError};
use crate::journal::{ActionRecord, CallRecord, Outcome, RevertOutcome, Status};
use crate::place::ProcessMemory;
use crate::process::Process;
use crate::space::AddressSpace;
use crate::writer::{Writer, WriterError};

/// Resolve all symbols at once: a missing one is reported now, not at a later call.
const RTLD_NOW: i64 = 2;
/// Milliseconds for the dynamic linker to unload, or to report an error.
const WAIT_MS: u64 = 5_000;
const MESSAGE_BYTES_MAX: usize = 512;
pub(super) const UNLOAD_RETURNS: ReturnType = ReturnType::Value(ValueType::I32);

impl Writer {
    pub fn load(&mut self, path: &str, wait_ms: u64, reason: Reason) -> Result<ActionReceipt, WriterError> {
        let at = clock::now();
        check(self.process(), path)?;
        let space = self.space()?;
        let arguments = vec![Argument::Text(path.to_owned()), Argument::Integer(RTLD_NOW)];
        let plan = linker_function(
            &space,
            call::request("dlopen", arguments, ReturnType::Pointer, wait_ms),
        )?;
        let (action, setup, memory) = self.prepare(&space, &plan)?;
        let action = CallRecord {
            symbol: path.to_owned(),
            ..action
        };
        let change = self.announce(ActionRecord::Load(action.clone()), reason, at.clone())?;
        let called = self.carry_out(change, &action, &plan, &setup, &memory)?;
        if matches!(&called.state, CallState::Returned(answer) if answer.word == 0) {
            self.leave(&action.arena, called.tid(), &setup);
            let why = self.message(&space, &action);
            let hold = Some(call::hold(called.hold));
            self.record_outcome(change, Outcome::NotWritten(why.clone()), hold)?;
            let path = path.to_owned();
            return Err(ActionError::NotLoaded { path, why }.into());
        }
        let outcome = match self.returned(change, &action, &called, &setup)? {
            ActionOutcome::Returned { .. } => ActionOutcome::InForce,
            outcome => outcome,
        };
        let hold = call::hold(called.hold);
        Ok(ActionReceipt::new(
            change,
            format!("load {path}"),
            outcome,
            hold,
            at,
        ))
    }

    /// Unloads a library, unless a change in force needs it.
    pub(crate) fn unload(
        &mut self,
        space: &AddressSpace,
        change: u64,
        action: &CallRecord,
        handle: Option<u64>,
    ) -> Result<RevertOutcome, WriterError> {
        let Some(handle) = handle else {
            return Ok(RevertOutcome::Failed(
                "what dlopen returned is not known".to_owned(),
            ));
        };
        let path = path_of(self.process(), space, handle).unwrap_or_else(|| action.symbol.clone());
        let uses = |other: &&crate::journal::JournalChange| {
            let in_force = matches!(
                other.status,
                Status::Applied | Status::Superseded { .. } | Status::RevertPending
            );
            in_force
                && matches!(&other.intent.action, ActionRecord::Patch(patch) if patch.uses.contains(&path))
        };
        if let Some(user) = self.changes().iter().find(uses) {
            return Err(ActionError::AlreadyChanged {
                change: user.intent.change,
            }
            .into());
        }
        let arguments = vec![Argument::Integer(handle.cast_signed())];
        let plan = linker_function(
            space,
            call::request("dlclose", arguments, UNLOAD_RETURNS, WAIT_MS),
        )?;
        self.revert_by_call(space, change, &plan, action.arena.despite_seccomp, |word| {
            word.map(unloaded)
        })
    }

    /// The dynamic linker's message about its last failure. Reuses the memory of the failed call.
    fn message(&mut self, space: &AddressSpace, failed: &CallRecord) -> String {
        let unknown =
            |why: &dyn std::fmt::Display| format!("dlopen refused; why could not be found out: {why}");
        let plan = match linker_function(
            space,
            call::request("dlerror", Vec::new(), ReturnType::Pointer, WAIT_MS),
        ) {
            Ok(plan) => plan,
            Err(error) => return unknown(&error),
        };
        let reported = self.prepare(space, &plan).and_then(|(call, setup, memory)| {
            let call = CallRecord {
                arena: failed.arena,
                ..call
            };
            let called = self.enter_and_wait(&call, &plan, &setup, &memory)?;
            let text = called
                .state
                .answer(&call)
                .map(|answer| text(&memory, Address(answer.word)));
            self.leave(&call.arena, called.tid(), &setup);
            Ok(text)
        });
        match reported {
            Ok(Some(text)) if !text.is_empty() => text,
            Ok(_) => unknown(&"dlerror says nothing"),
            Err(error) => unknown(&error),
        }
    }
}

/// The file of a handle of dlopen, whose name may differ from the requested one: the dynamic linker has a
/// record of each file (`struct link_map`), whose third word is the address of the file's dynamic section.
fn path_of(process: &Process, space: &AddressSpace, handle: u64) -> Option<String> {
    let memory = ProcessMemory::open(process.pid).ok()?;
    let section = Address(memory.word(Address(handle.wrapping_add(16))).ok()?);
    let module = space.modules.iter().find(|module| module.contains(section))?;
    Some(module.path.clone())
}

/// The outcome for a return value of dlclose.
pub(super) fn unloaded(word: u64) -> RevertOutcome {
    match word as u32 {
        0 => RevertOutcome::Reverted,
        _ => RevertOutcome::Failed("dlclose refused".to_owned()),
    }
}

/// A string of the program, as far as it can be read.
fn text(memory: &ProcessMemory, address: Address) -> String {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while bytes.len() < MESSAGE_BYTES_MAX {
        let at = Address(address.0.wrapping_add(bytes.len() as u64));
        if memory.read(at, &mut byte).is_err() || byte[0] == 0 {
            break;
        }
        bytes.push(byte[0]);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn linker_function(space: &AddressSpace, request: CallRequest) -> Result<CallPlan, ActionError> {
    let pid = space.process.pid;
    CallPlan::new(space, request).map_err(|error| match error {
        ActionError::NoFunction { .. } => ActionError::NoWay {
            pid,
            why: "it has no dlopen: it is linked statically",
        },
        error => error,
    })
}

/// Checks that the file is a library under this name in the root folder of the program. The dynamic linker
/// searches a name without a slash.
fn check(process: &Process, path: &str) -> Result<(), ActionError> {
    let not = |why: String| ActionError::NotLoaded {
        path: path.to_owned(),
        why,
    };
    if !path.is_empty() && !path.contains(['/', '\0']) {
        return Ok(());
    }
    if !Path::new(path).is_absolute() {
        return Err(not(
            "its path must be absolute: the program may be in another directory".into(),
        ));
    }
    let file = foreign::open_in(&process.pid.proc_path("root"), Path::new(path));
    let file = file.map_err(|error| not(format!("as the process sees it: {error}")))?;
    match Image::read(file) {
        Ok(image) if image.dynamic_segment.is_some() => Ok(()),
        Ok(_) => Err(not("it is not a shared library".into())),
        Err(error @ (ImageError::NotElf | ImageError::Unsupported)) => Err(not(error.to_string())),
        Err(error) => Err(not(format!("it cannot be read: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use tuneagent_e2e::line_program::LineProgram;

    use super::*;

    #[test]
    fn a_library_that_cannot_be_opened_is_refused_with_the_number_of_the_system_error() {
        let cat = LineProgram::start(&mut Command::new("cat")).expect("cat starts");
        let process = Process::open(cat.pid().cast_signed()).expect("the child is ours");
        let error = check(&process, "/no/such/library.so").expect_err("it is not there");
        let text = error.to_string();
        assert!(
            text.ends_with("as the process sees it: No such file or directory (os error 2)"),
            "{text}"
        );
    }
}
