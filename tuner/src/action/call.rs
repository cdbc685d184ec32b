//! Calls a function of the program once, in one of its threads.
//!
//! The thread is held, sent into our code, which calls and then returns to where the thread was, and let go.
//! From then on it does not depend on us: even if we die, the thread calls, returns and continues.

use std::time::{Duration, Instant};

use plan::{Argument, Bytes, CallRequest, FunctionName, ReturnType, Value, ValueType};

use super::arguments::{self, ResolvedArgument};
use super::function::{self, FoundFunction};
use super::progress::{CallState, Progress, look};
use super::{ActionOutcome, ActionReceipt, Reason, inverse, load};
use crate::arch::x86_64::{
    assemble::Passed,
    stub::{self, Stub},
};
use crate::arena::Arena;
use crate::clock;
use crate::error::ActionError;
use crate::journal::{
    ActionRecord, CallRecord, InverseRecord, JournalChange, JournalRecord, Mechanism, Outcome, Status,
    WriteHold,
};
use crate::module::Module;
use crate::place::ProcessMemory;
use crate::process::{Process, ThreadId};
use crate::ptrace;
use crate::remote::{self, RemoteSetup, StackView, Task, ThreadSearch, Worker};
use crate::space::AddressSpace;
use crate::writer::{Writer, WriterError};

/// Bound on the bytes of the stub.
const STUB_BYTES: usize = 1024;
/// After this time without a return, it is checked whether a jump has left the call. Each check stops the
/// program, and the interval doubles.
const LEFT_LOOK: Duration = Duration::from_millis(50);
const LOOKS_AT_ONCE: u32 = 200;
const POLL_INTERVAL: Duration = Duration::from_micros(100);

/// A call, found and checked.
pub(super) struct CallPlan {
    pub(super) function: FoundFunction,
    arguments: Vec<ResolvedArgument>,
    returns: ReturnType,
    pub(super) text: String,
    pub(super) wait: Duration,
    /// Only this thread may make the call.
    pub(super) thread: Option<i32>,
    /// How long threads are tried if the call has no sync point.
    pub(super) try_for: Duration,
    /// A library: the thread that makes the call must not be inside one of its functions.
    pub(super) outside: Option<Module>,
    /// The call that the same thread makes just before.
    reader: Option<Box<CallPlan>>,
    inverse: Option<InverseRecord>,
}

/// The result of making a call.
pub(super) struct Called {
    pub(super) state: CallState,
    pub(super) hold: Duration,
    tid: i32,
}

/// What a call left in its memory when it returned.
#[derive(Debug, Clone)]
pub(super) struct CallResult {
    /// The bits of the result.
    pub(super) word: u64,
    /// The result as text.
    pub(super) text: String,
    /// The bits of the value read just before the call; undefined if nothing was read.
    pub(super) was: u64,
    pub(super) thread: ThreadId,
}

impl Called {
    /// The thread that made the call.
    pub(super) fn tid(&self) -> i32 {
        self.tid
    }
}

impl Writer {
    /// Calls a function once. Without an inverse the call cannot be reverted. If it does not return within
    /// its time, the receipt has no outcome, the call continues, and [`Writer::reconcile`] records its result
    /// later.
    pub fn call(&mut self, request: CallRequest, reason: Reason) -> Result<ActionReceipt, WriterError> {
        let at = clock::now();
        let space = self.space()?;
        let plan = CallPlan::new(&space, request)?;
        let (action, setup, memory) = self.prepare(&space, &plan)?;
        let change = self.announce(ActionRecord::Call(action.clone()), reason, at.clone())?;
        let called = self.carry_out(change, &action, &plan, &setup, &memory)?;
        let outcome = self.returned(change, &action, &called, &setup)?;
        let text = format!("call {}", plan.text);
        Ok(ActionReceipt::new(change, text, outcome, hold(called.hold), at))
    }

    /// Records what a call returned, and unmaps its memory.
    pub(super) fn returned(
        &mut self,
        change: u64,
        action: &CallRecord,
        called: &Called,
        setup: &RemoteSetup,
    ) -> Result<ActionOutcome, WriterError> {
        let Some(answer) = called.state.answer(action) else {
            return Ok(ActionOutcome::Running);
        };
        self.record_answer(change, action, answer, Some(hold(called.hold)))?;
        if matches!(called.state, CallState::Returned(_)) {
            self.leave(&action.arena, called.tid, setup);
        }
        Ok(answer.outcome(action))
    }

    /// Records what a call returned. Without `hold` the result was found later.
    pub(super) fn record_answer(
        &mut self,
        change: u64,
        action: &CallRecord,
        answer: &CallResult,
        hold: Option<WriteHold>,
    ) -> Result<(), WriterError> {
        let inverse = action.inverse.as_ref();
        self.record(JournalRecord::Returned {
            change,
            at: clock::now(),
            word: answer.word,
            result: answer.text.clone(),
            was: inverse
                .and_then(|inverse| inverse.reader.as_ref())
                .map(|_| answer.was),
            thread: inverse.map(|_| answer.thread),
            recovered: hold.is_none(),
            hold,
        })
    }

    /// Prepares the journal record of a call, and what the call needs.
    pub(super) fn prepare(
        &mut self,
        space: &AddressSpace,
        plan: &CallPlan,
    ) -> Result<(CallRecord, std::sync::Arc<RemoteSetup>, ProcessMemory), ActionError> {
        let setup = RemoteSetup::of(space, &mut self.setup)?;
        let memory = ProcessMemory::open(space.process.pid)?;
        let target = plan.function.address();
        let arena = Arena::find(memory.maps(), target, STUB_BYTES, true).ok_or(ActionError::NoWay {
            pid: space.process.pid,
            why: "there is no room for a page in its address space",
        })?;
        let arena = Arena {
            despite_seccomp: self.despite_seccomp,
            ..arena
        };
        let action = CallRecord {
            symbol: plan.text.clone(),
            module: plan.function.module.path.clone(),
            address: target,
            returns: plan.returns,
            arena,
            sync: None,
            inverse: plan.inverse.clone(),
        };
        Ok((action, setup, memory))
    }

    /// Sends a thread to call, and waits. A failure is recorded in the journal.
    pub(super) fn carry_out(
        &mut self,
        change: u64,
        action: &CallRecord,
        plan: &CallPlan,
        setup: &RemoteSetup,
        memory: &ProcessMemory,
    ) -> Result<Called, WriterError> {
        let called = self.enter_and_wait(action, plan, setup, memory);
        (self.hooks.after_write)();
        let error = match called {
            Ok(Called {
                state: CallState::NotMade,
                ..
            }) => ActionError::Left {
                pid: self.process().pid,
                call: action.symbol.clone(),
            },
            Ok(called) => return Ok(called),
            Err(error) => error,
        };
        self.record_outcome(change, Outcome::NotWritten(error.to_string()), None)?;
        Err(error.into())
    }

    pub(super) fn enter_and_wait(
        &self,
        action: &CallRecord,
        plan: &CallPlan,
        setup: &RemoteSetup,
        memory: &ProcessMemory,
    ) -> Result<Called, ActionError> {
        let process = self.process();
        let underway = self.hooks.underway;
        let entered = ptrace::apart(|| {
            let unsuitable = |view: &_| {
                let kept = setup.keeps_from_calling(view, memory);
                kept.or_else(|| plan.is_inside(view, memory))
            };
            let search = ThreadSearch {
                process,
                memory,
                gate: &setup.gate,
                task: plan.task(action),
                only: plan.thread,
                within: plan.try_for,
            };
            search.work(unsuitable, |thread| {
                enter(thread, process, memory, action, plan, underway)
            })
        })?;
        Ok(Called {
            state: self.await_state(action, plan, setup, memory)?,
            hold: entered.hold,
            tid: entered.tid,
        })
    }

    /// The state of a call that was just entered, once it has returned or was left, or its time is over.
    fn await_state(
        &self,
        action: &CallRecord,
        plan: &CallPlan,
        setup: &RemoteSetup,
        memory: &ProcessMemory,
    ) -> Result<CallState, ActionError> {
        let began = Instant::now();
        let mut look = LEFT_LOOK;
        loop {
            let rest = plan.wait.saturating_sub(began.elapsed());
            if let Some(answer) = await_result(memory, action, look.min(rest))? {
                return Ok(CallState::Returned(answer));
            }
            match self.state(action, setup, memory)? {
                CallState::UnderWay if look < rest => look *= 2,
                state => return Ok(state),
            }
        }
    }

    /// Unmaps the memory of a call after the thread has left it. If that fails now, a later sweep does it.
    pub(super) fn leave(&self, arena: &Arena, tid: i32, setup: &RemoteSetup) {
        let process = self.process();
        let _ = ptrace::apart(|| {
            let memory = ProcessMemory::open(process.pid)?;
            let inside = |view: &StackView| view.is_in_the_way_of(&arena.range());
            // No thread but the calling one was ever in it.
            let is_alive = ptrace::threads(process.pid)?.contains(&tid);
            let search = ThreadSearch {
                process,
                memory: &memory,
                gate: &setup.gate,
                task: Task::Unmap(arena),
                only: is_alive.then_some(tid),
                within: remote::TRY_WAIT,
            };
            search.work(inside, |mut thread| {
                thread.unmap(arena)?;
                thread.end()
            })
        });
    }

    /// Settles a call whose writer ended or did not wait.
    pub(crate) fn settle_call(
        &mut self,
        known: &JournalChange,
        action: &CallRecord,
    ) -> Result<(), WriterError> {
        if known.status == Status::RevertPending {
            return match &known.intent.action {
                ActionRecord::Load(_) => {
                    self.settle_reverting_call(known, action, load::UNLOAD_RETURNS, |word| {
                        word.map(load::unloaded)
                    })
                }
                _ => self.settle_reverting_call(known, action, ReturnType::Nothing, inverse::called_back),
            };
        }
        let change = known.intent.change;
        let state = self.came_of(action)?;
        match (&state, state.answer(action)) {
            (_, Some(answer)) => self.record_answer(change, action, answer, None),
            (CallState::NotMade, None) => {
                let why = "the writer ended, or a jump of the program left the call, before the function was called";
                self.recover_outcome(change, Outcome::NotWritten(why.to_owned()))
            }
            // It continues; a later inspection may find the result.
            (_, None) => Ok(()),
        }
    }

    /// The state of a call whose writer ended or did not wait.
    pub(super) fn came_of(&mut self, action: &CallRecord) -> Result<CallState, WriterError> {
        let memory = ProcessMemory::open(self.process().pid).map_err(ActionError::from)?;
        let space = self.space()?;
        let setup = RemoteSetup::of(&space, &mut self.setup)?;
        Ok(self.state(action, &setup, &memory)?)
    }

    /// The state of a call, by the memory that was mapped for it; if that says that it is running, also by
    /// the positions of the threads.
    pub(super) fn state(
        &self,
        action: &CallRecord,
        setup: &RemoteSetup,
        memory: &ProcessMemory,
    ) -> Result<CallState, ActionError> {
        let mut memory = memory.clone();
        memory.refresh()?;
        if !remote::is_ours(&memory, &action.arena) {
            return Ok(CallState::NotMade);
        }
        if let Ok(Progress::Returned(answer)) = look(&memory, action) {
            return Ok(CallState::Returned(answer));
        }
        if self.is_somebody_in(&action.arena, setup, &memory)? {
            return Ok(CallState::UnderWay);
        }
        // It may have progressed since: memory is decisive once no thread is in it.
        match look(&memory, action) {
            Ok(Progress::Returned(answer)) => Ok(CallState::Returned(answer)),
            Ok(Progress::Called(was)) => Ok(CallState::Left(CallResult {
                word: 0,
                text: "nothing: a jump of the program left it".to_owned(),
                ..was
            })),
            // The writer may have been killed before the data was mapped.
            Ok(Progress::NotCalled) | Err(crate::memory::MemoryError::Unmapped { .. }) => {
                Ok(CallState::NotMade)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a thread is about to enter an arena, or is in it.
    fn is_somebody_in(
        &self,
        arena: &Arena,
        setup: &RemoteSetup,
        memory: &ProcessMemory,
    ) -> Result<bool, ActionError> {
        let process = self.process();
        let found = ptrace::apart(|| {
            let stopped = ptrace::Stopped::all(process, remote::STOP_WAIT)?;
            remote::in_the_way(&stopped, memory, &setup.gate, arena)
        })?;
        Ok(found.is_some())
    }
}

impl CallPlan {
    pub(super) fn new(space: &AddressSpace, request: CallRequest) -> Result<CallPlan, ActionError> {
        let (reader, inverse) = match &request.inverse {
            plan::Inverse::Unstated | plan::Inverse::NotNeeded(_) => (None, None),
            plan::Inverse::Call { call, was, .. } => {
                let (reader, inverse) = inverse::planned(space, call, was.as_ref())?;
                (reader.map(Box::new), Some(inverse))
            }
        };
        let plan = CallPlan::with(space, request, None)?;
        Ok(CallPlan {
            reader,
            inverse,
            ..plan
        })
    }

    /// A plan without an inverse. If the plan itself is an inverse, `was` is the value that was read before
    /// the call that it reverts.
    pub(super) fn with(
        space: &AddressSpace,
        request: CallRequest,
        was: Option<&Argument>,
    ) -> Result<CallPlan, ActionError> {
        let function = function::find(space, &request.function)?;
        function::refuse_indirect(&function, "called")?;
        let (arguments, known_type) = arguments::given(space, &function, request.arguments, was)?;
        let shown: Vec<String> = arguments.iter().map(ResolvedArgument::to_string).collect();
        let text = format!("{}({})", function.name, shown.join(", "));
        let returns = match request.returns {
            Some(ReturnType::IfKnown) => known_type.unwrap_or(ReturnType::Nothing),
            Some(stated) => stated,
            None => known_type.unwrap_or(ReturnType::Value(ValueType::I64)),
        };
        Ok(CallPlan {
            function,
            arguments,
            returns,
            text,
            wait: Duration::from_millis(request.wait_ms),
            thread: request.thread,
            try_for: remote::TRY_WAIT,
            outside: None,
            reader: None,
            inverse: None,
        })
    }

    /// Why a thread must not make the call where it is: it is inside the library that it must be outside of.
    fn is_inside(&self, view: &StackView, memory: &ProcessMemory) -> Option<String> {
        let library = self.outside.as_ref()?;
        let is_inside = library.code().any(|code| view.is_executing(&code, memory));
        is_inside.then(|| view.says(&format!("is in {}", library.file_name())))
    }

    /// Why a thread that has reached a sync point must not make the call: it runs a parallel region of OpenMP, where a
    /// setting holds for one task only. At an entry of OpenMP's library this is known only if the stack is known exactly:
    /// earlier regions leave words on it.
    pub(super) fn is_in_region(&self, view: &StackView, memory: &ProcessMemory) -> Option<String> {
        if !self.function.name.contains("omp_set_") {
            return None;
        }
        let code = || self.function.module.code();
        let is_inside = match code().any(|code| view.is_at(&code)) {
            true => code().any(|code| view.returns_to(&code)),
            false => code().any(|code| view.is_executing(&code, memory)),
        };
        is_inside.then(|| view.says("runs a parallel region"))
    }

    /// The task of the thread that makes the call.
    pub(super) fn task<'a>(&'a self, action: &'a CallRecord) -> Task<'a> {
        Task::Call(&action.arena, &self.function.name)
    }

    pub(super) fn returns(&self) -> ReturnType {
        self.returns
    }

    /// The arguments in registers, with the current values of variables; strings are appended to the data
    /// page.
    fn passed(&self, process: &Process, arena: &Arena, data: &mut Vec<u8>) -> Result<Passed, ActionError> {
        let name = &self.function.name;
        let now = arguments::now(name, process, &self.arguments)?;
        arguments::pass(name, &now, data, arena.data())
    }
}

impl CallResult {
    /// The outcome for the receipt.
    pub(super) fn outcome(&self, action: &CallRecord) -> ActionOutcome {
        let inverse = action.inverse.as_ref();
        let reader = inverse.and_then(|inverse| inverse.reader.as_ref());
        ActionOutcome::Returned {
            word: self.word,
            result: self.text.clone(),
            was: reader.map(|reader| shown(reader.returns, self.was)),
            back: inverse.map(|inverse| inverse.symbol.clone()),
        }
    }
}

/// Sends a thread to call.
pub(super) fn enter(
    mut thread: Worker<'_>,
    process: &Process,
    memory: &ProcessMemory,
    action: &CallRecord,
    plan: &CallPlan,
    underway: fn(),
) -> Result<(), ActionError> {
    let mut data = vec![0; stub::DATA_BYTES as usize];
    let passed = plan.passed(process, &action.arena, &mut data)?;
    let reader = plan.reader.as_ref();
    let read_with = reader.map(|reader| reader.passed(process, &action.arena, &mut data));
    let read_with = read_with.transpose()?;
    name_thread(&mut data, ptrace::thread_id(process.pid, thread.thread().tid())?);
    thread.map(&action.arena)?;
    underway();
    let mut memory = memory.clone();
    memory.refresh()?;
    let code = Stub {
        reader: reader
            .zip(read_with.as_ref())
            .map(|(reader, passed)| (reader.function.address(), passed)),
        function: action.address,
        passed: &passed,
        data: action.arena.data(),
        resume: thread.resumes_at(),
        extended_bytes: thread.extended_bytes,
    };
    let code = code.assemble(action.arena.code());
    let code = code.map_err(|error| plan.function.refused("called", error.to_string()))?;
    let mut page = action.arena.head();
    page.extend(code);
    let arena = &action.arena;
    remote::fill(&memory, arena, arena.address, &page, thread.thread())?;
    remote::fill(&memory, arena, arena.data(), &data, thread.thread())?;
    thread.enter(arena.code())?;
    underway();
    Ok(())
}

/// Records the thread that was sent to call, for a later inspection of the memory.
fn name_thread(data: &mut [u8], thread: ThreadId) {
    let words = [
        (stub::THREAD, i64::from(thread.tid).cast_unsigned()),
        (stub::THREAD_START, thread.start_time),
    ];
    for (offset, word) in words {
        data[offset as usize..][..8].copy_from_slice(&word.to_le_bytes());
    }
}

fn await_result(
    memory: &ProcessMemory,
    action: &CallRecord,
    wait: Duration,
) -> Result<Option<CallResult>, ActionError> {
    let began = Instant::now();
    let mut looks = 0;
    loop {
        if let Progress::Returned(answer) = look(memory, action)? {
            return Ok(Some(answer));
        }
        if began.elapsed() > wait {
            return Ok(None);
        }
        looks += 1;
        if looks < LOOKS_AT_ONCE {
            std::thread::yield_now();
        } else {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A returned word as text.
pub(super) fn shown(returns: ReturnType, word: u64) -> String {
    match returns {
        ReturnType::Nothing | ReturnType::IfKnown => "nothing".to_owned(),
        ReturnType::Pointer => format!("{word:#x}"),
        ReturnType::Value(ValueType::Bool) => (word & 0xff != 0).to_string(),
        ReturnType::Value(of) => {
            typed(of, word).map_or_else(|| format!("{word:#x}"), |value| value.to_string())
        }
    }
}

/// A returned word as a value of this type.
pub(super) fn typed(of: ValueType, word: u64) -> Option<Value> {
    let bytes = Bytes::new(&word.to_le_bytes()[..of.size()])?;
    Value::from_bytes(of, bytes).ok()
}

pub(super) fn hold(hold: Duration) -> WriteHold {
    WriteHold::of(Mechanism::HoldThread, nanoseconds(hold))
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A request for a function of the C library.
pub(super) fn request(
    name: &str,
    arguments: Vec<Argument>,
    returns: ReturnType,
    wait_ms: u64,
) -> CallRequest {
    CallRequest {
        function: FunctionName::from(name),
        arguments,
        returns: Some(returns),
        wait_ms,
        thread: None,
        inverse: plan::Inverse::Unstated,
    }
}
