//! A function of the program is called once, by one of its threads.
//!
//! The thread is held, sent into code of ours that calls and then leads back to where it was, and let go. From then on nothing
//! of us is needed: whether we live or not, the thread calls, returns and goes on.

use std::time::{Duration, Instant};

use super::function::{self, Found};
use super::worker::{self, Machinery};
use super::{
    ActionError, ActionOutcome, ActionReceipt, Argument, CallRequest, FunctionName, Reason, ReturnType,
};
use crate::address::Address;
use crate::arch::x86_64::assemble::{FLOATS_MAX, INTEGERS_MAX, Passed};
use crate::arch::x86_64::stub::{self, Stub};
use crate::arena::{Arena, PAGE};
use crate::clock;
use crate::dwarf::{self, Kind, VariableType};
use crate::journal::{Call, Change, Deed, Hold, Outcome, Status};
use crate::place::Ground;

use crate::ptrace;
use crate::space::AddressSpace;
use crate::value::{Bytes, Value, ValueType};
use crate::writer::{Mechanism, Writer, WriterError};

/// The stub is shorter.
const STUB_BYTES: usize = 1024;
/// Texts of one call, all together.
const TEXT_BYTES_MAX: usize = (PAGE - stub::DATA_BYTES) as usize;
const LOOKS_AT_ONCE: u32 = 200;
const PAUSE: Duration = Duration::from_micros(100);

/// A call, found and checked.
pub(super) struct Plan {
    pub(super) function: Found,
    arguments: Vec<Argument>,
    returns: ReturnType,
    pub(super) text: String,
    wait: Duration,
    thread: Option<i32>,
}

/// What came of a call.
pub(super) struct Called {
    /// The word and its text; none while it has not returned.
    pub(super) result: Option<(u64, String)>,
    pub(super) hold: Duration,
    tid: i32,
}

impl Called {
    /// The thread that did it.
    pub(super) fn tid(&self) -> i32 {
        self.tid
    }
}

impl Writer {
    /// Calls a function once. It cannot be taken back. Where it does not return within the time that was given, the receipt has
    /// no outcome, the call goes on, and [`Writer::reconcile`] finds out later what came of it.
    pub fn call(&mut self, request: CallRequest, reason: Reason) -> Result<ActionReceipt, WriterError> {
        let started = clock::monotonic_ns();
        let at = clock::now();
        let space = self.space()?;
        let plan = Plan::new(&space, request)?;
        let (deed, machinery, ground) = self.prepare(&space, &plan)?;
        let change = self.announce(Deed::Call(deed.clone()), reason, at.clone())?;
        let called = self.carry_out(change, &deed, &plan, &machinery, &ground)?;
        let outcome = self.returned(change, &deed, &called, &machinery)?;
        Ok(ActionReceipt {
            change,
            text: format!("call {}", plan.text),
            outcome,
            mechanism: Mechanism::HoldThread,
            hold_ns: nanoseconds(called.hold),
            at,
            duration_ns: clock::monotonic_ns().saturating_sub(started),
        })
    }

    /// Writes down what a call returned, and tidies up behind it.
    pub(super) fn returned(
        &mut self,
        change: u64,
        deed: &Call,
        called: &Called,
        machinery: &Machinery,
    ) -> Result<ActionOutcome, WriterError> {
        let Some((word, result)) = called.result.clone() else {
            return Ok(ActionOutcome::Running);
        };
        self.record_returned(change, word, &result, Some(hold(called.hold)))?;
        self.leave(&deed.arena, called.tid, machinery);
        Ok(ActionOutcome::Returned { word, result })
    }

    /// What the journal must know, and what the call needs.
    pub(super) fn prepare(
        &mut self,
        space: &AddressSpace,
        plan: &Plan,
    ) -> Result<(Call, std::sync::Arc<Machinery>, Ground), ActionError> {
        let machinery = Machinery::of(space, &mut self.machinery)?;
        let ground = Ground::open(space.process.pid)?;
        let target = plan.function.address();
        let arena = Arena::find(ground.maps(), target, STUB_BYTES, true).ok_or(ActionError::NoWay {
            pid: space.process.pid,
            why: "there is no room for a page in its address space",
        })?;
        let deed = Call {
            symbol: plan.text.clone(),
            module: plan.function.module.path.clone(),
            address: target,
            returns: plan.returns,
            arena,
        };
        Ok((deed, machinery, ground))
    }

    /// Sends a thread to call, and waits; what failed is in the journal.
    pub(super) fn carry_out(
        &mut self,
        change: u64,
        deed: &Call,
        plan: &Plan,
        machinery: &Machinery,
        ground: &Ground,
    ) -> Result<Called, WriterError> {
        let called = self.enter_and_wait(deed, plan, machinery, ground);
        (self.hooks.after_write)();
        match called {
            Ok(called) => Ok(called),
            Err(error) => {
                self.record_outcome(change, Outcome::NotWritten(error.to_string()), None)?;
                Err(error.into())
            }
        }
    }

    pub(super) fn enter_and_wait(
        &self,
        deed: &Call,
        plan: &Plan,
        machinery: &Machinery,
        ground: &Ground,
    ) -> Result<Called, ActionError> {
        let process = self.process();
        let underway = self.hooks.underway;
        let passed = plan.passed(&deed.arena)?;
        let entered = ptrace::apart(|| {
            let unsuitable = |view: &_| machinery.keeps_from_calling(view, ground);
            worker::with_thread(
                process,
                ground,
                &machinery.gate,
                plan.thread,
                unsuitable,
                |mut thread| {
                    thread.map(&deed.arena)?;
                    underway();
                    let mut ground = ground.clone();
                    ground.refresh()?;
                    let code = Stub {
                        function: deed.address,
                        passed: &passed.0,
                        data: deed.arena.data(),
                        resume: thread.resumes_at(),
                        extended_bytes: thread.extended_bytes,
                    };
                    let code = code.assemble(deed.arena.code());
                    let code = code.map_err(|error| plan.function.refused("called", error.to_string()))?;
                    let mut page = deed.arena.head();
                    page.extend(code);
                    worker::fill(&ground, &deed.arena, deed.arena.address, &page, thread.thread())?;
                    worker::fill(
                        &ground,
                        &deed.arena,
                        deed.arena.data(),
                        &passed.1,
                        thread.thread(),
                    )?;
                    thread.enter(deed.arena.code())?;
                    underway();
                    Ok(())
                },
            )
        })?;
        let result = await_result(ground, deed, plan.wait)?;
        Ok(Called {
            result,
            hold: entered.hold,
            tid: entered.tid,
        })
    }

    /// Unmaps what a call needed, after the thread has left it. What cannot be unmapped now is swept up later.
    pub(super) fn leave(&self, arena: &Arena, tid: i32, machinery: &Machinery) {
        let process = self.process();
        let range = arena.address.0..arena.address.0 + arena.size();
        let _ = ptrace::apart(|| {
            let ground = Ground::open(process.pid)?;
            let inside = |view: &crate::remote::View| view.is_in_the_way_of(&range);
            let work = |mut thread: crate::remote::Worker<'_>| {
                thread.unmap(arena)?;
                thread.end()
            };
            // Only the thread that called was ever in there.
            let is_alive = ptrace::threads(process.pid)?.contains(&tid);
            let only = is_alive.then_some(tid);
            worker::with_thread(process, &ground, &machinery.gate, only, inside, work)
        });
    }

    /// Finds out what came of a call whose writer ended, or did not wait.
    pub(crate) fn settle_call(&mut self, known: &Change, deed: &Call) -> Result<(), WriterError> {
        if known.status == Status::RevertPending {
            return self.settle_unload(known, deed);
        }
        let change = known.intent.change;
        match self.came_of(deed)? {
            State::Returned(word, result) => self.record_returned(change, word, &result, None),
            // It goes on; the next look may tell.
            State::Entered => Ok(()),
            State::NotEntered => {
                let why = "the writer ended before the call began".to_owned();
                self.recover_outcome(change, Outcome::NotWritten(why))
            }
        }
    }

    /// How a call stands whose writer ended, or did not wait, by the memory that was mapped for it.
    pub(super) fn came_of(&mut self, deed: &Call) -> Result<State, WriterError> {
        let ground = Ground::open(self.process().pid).map_err(ActionError::from)?;
        if !worker::is_ours(&ground, &deed.arena) {
            return Ok(State::NotEntered);
        }
        match result(&ground, deed) {
            // It was killed before the data was mapped.
            Ok(State::NotEntered) | Err(crate::memory::MemoryError::Unmapped { .. }) => {
                Ok(match self.is_somebody_in(&deed.arena, &ground)? {
                    true => State::Entered,
                    false => State::NotEntered,
                })
            }
            state => Ok(state.map_err(ActionError::from)?),
        }
    }

    /// Some thread is about to enter an arena, or is in it.
    fn is_somebody_in(&mut self, arena: &Arena, ground: &Ground) -> Result<bool, WriterError> {
        let space = self.space()?;
        let machinery = Machinery::of(&space, &mut self.machinery)?;
        let range = arena.address.0..arena.address.0 + arena.size();
        let process = self.process();
        let found = ptrace::apart(|| {
            let stopped = ptrace::Stopped::all(process, worker::STOP_WAIT)?;
            worker::in_the_way(&stopped, ground, &machinery.gate, &range)
        })?;
        Ok(found.is_some())
    }
}

impl Plan {
    pub(super) fn new(space: &AddressSpace, request: CallRequest) -> Result<Plan, ActionError> {
        let function = function::find(space, &request.function)?;
        function::refuse_indirect(&function, "called")?;
        let (arguments, known_type) = typed(&function, request.arguments)?;
        let shown: Vec<String> = arguments.iter().map(Argument::to_string).collect();
        let text = format!("{}({})", function.name, shown.join(", "));
        let default = ReturnType::Value(ValueType::I64);
        Ok(Plan {
            function,
            arguments,
            returns: request.returns.or(known_type).unwrap_or(default),
            text,
            wait: Duration::from_millis(request.wait_ms),
            thread: request.thread,
        })
    }

    /// What is passed, and the data page that it needs.
    fn passed(&self, arena: &Arena) -> Result<(Passed, Vec<u8>), ActionError> {
        let mut data = vec![0; stub::DATA_BYTES as usize];
        let passed = pass(&self.function.name, &self.arguments, &mut data, arena.data())?;
        Ok((passed, data))
    }
}

/// Arguments as the debug information wants them, where there is any, and what the function returns.
pub(super) fn typed(
    found: &Found,
    arguments: Vec<Argument>,
) -> Result<(Vec<Argument>, Option<ReturnType>), ActionError> {
    let error = |why: String| ActionError::Arguments {
        function: found.name.clone(),
        why,
    };
    let image = &found.module.image;
    let damaged = |source| {
        ActionError::Module(crate::module::ModuleError::Image {
            path: found.module.path.clone(),
            source,
        })
    };
    let Some(parameters) = dwarf::parameters(image, found.function.address).map_err(damaged)? else {
        return Ok((arguments, None));
    };
    if arguments.len() < parameters.len() {
        let (given, wanted) = (arguments.len(), parameters.len());
        return Err(error(format!("it takes {wanted} arguments, {given} are given")));
    }
    let mut typed = Vec::new();
    for (index, argument) in arguments.into_iter().enumerate() {
        let of = parameters.get(index).map(|parameter| parameter.of);
        typed.push(match (of.map(|of| (of.kind, of.size)), argument) {
            (Some((Kind::Float, 4)), Argument::Integer(number)) => Argument::Float(number as f32),
            (Some((Kind::Float, 4)), Argument::Double(number)) => Argument::Float(number as f32),
            (Some((Kind::Float, 8)), Argument::Integer(number)) => Argument::Double(number as f64),
            (Some((Kind::Float, 8)), Argument::Float(number)) => Argument::Double(f64::from(number)),
            (Some((Kind::Float, _)), Argument::Text(_)) => {
                return Err(error(format!("argument {index} is a number, not a text")));
            }
            (Some((Kind::Float, size)), _) if size > 8 => {
                return Err(error(format!(
                    "argument {index} is a long double, which cannot be passed"
                )));
            }
            (Some((kind, _)), Argument::Double(_) | Argument::Float(_)) if kind != Kind::Float => {
                return Err(error(format!("argument {index} is no floating-point number")));
            }
            (_, argument) => argument,
        });
    }
    let returned = dwarf::return_type(image, found.function.address).map_err(damaged)?;
    Ok((typed, returned.map(return_type)))
}

fn return_type(known: Option<VariableType>) -> ReturnType {
    match known {
        None => ReturnType::Nothing,
        Some(of) if of.kind == Kind::Pointer => ReturnType::Pointer,
        Some(of) if of.kind == Kind::Enum => ReturnType::Value(ValueType::I32),
        Some(of) => of
            .value_type()
            .map_or(ReturnType::Value(ValueType::I64), ReturnType::Value),
    }
}

/// Puts arguments into registers, and texts behind what is in `data`, which will lie at `at`.
pub(super) fn pass(
    function: &str,
    arguments: &[Argument],
    data: &mut Vec<u8>,
    at: Address,
) -> Result<Passed, ActionError> {
    let mut passed = Passed::default();
    for argument in arguments {
        match argument {
            Argument::Integer(number) => passed.integers.push(number.cast_unsigned()),
            Argument::Double(number) => passed.floats.push(number.to_bits()),
            Argument::Float(number) => passed.floats.push(u64::from(number.to_bits())),
            Argument::Text(text) => {
                passed.integers.push(at.0 + data.len() as u64);
                data.extend(text.as_bytes());
                data.push(0);
            }
        }
    }
    let why = match () {
        () if passed.integers.len() > INTEGERS_MAX => {
            format!("more than {INTEGERS_MAX} numbers, addresses and texts")
        }
        () if passed.floats.len() > FLOATS_MAX => format!("more than {FLOATS_MAX} floating-point numbers"),
        () if data.len() > TEXT_BYTES_MAX => format!("texts of more than {TEXT_BYTES_MAX} bytes"),
        () => return Ok(passed),
    };
    Err(ActionError::Arguments {
        function: function.to_owned(),
        why: format!("{why} cannot be passed"),
    })
}

/// How a call stands.
pub(super) enum State {
    NotEntered,
    Entered,
    /// The word that it returned, and what that means.
    Returned(u64, String),
}

fn result(ground: &Ground, deed: &Call) -> Result<State, crate::memory::MemoryError> {
    let word = |offset: u64| ground.word(Address(deed.arena.data().0 + offset));
    if word(stub::DONE)? == 0 {
        return Ok(match word(stub::ENTERED)? {
            0 => State::NotEntered,
            _ => State::Entered,
        });
    }
    let word = match deed.returns {
        ReturnType::Value(ValueType::F32 | ValueType::F64) => word(stub::FLOAT_RESULT)?,
        _ => word(stub::INTEGER_RESULT)?,
    };
    Ok(State::Returned(word, shown(deed.returns, word)))
}

fn await_result(ground: &Ground, deed: &Call, wait: Duration) -> Result<Option<(u64, String)>, ActionError> {
    let began = Instant::now();
    let mut looks = 0;
    loop {
        if let State::Returned(word, text) = result(ground, deed)? {
            return Ok(Some((word, text)));
        }
        if began.elapsed() > wait {
            return Ok(None);
        }
        looks += 1;
        if looks < LOOKS_AT_ONCE {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }
}

/// What a returned word means.
fn shown(returns: ReturnType, word: u64) -> String {
    match returns {
        ReturnType::Nothing => "nothing".to_owned(),
        ReturnType::Pointer => format!("{word:#x}"),
        ReturnType::Value(ValueType::Bool) => (word & 0xff != 0).to_string(),
        ReturnType::Value(of) => {
            let value =
                Bytes::new(&word.to_le_bytes()[..of.size()]).map(|bytes| Value::from_bytes(of, bytes));
            value
                .and_then(Result::ok)
                .map_or_else(|| format!("{word:#x}"), |value| value.to_string())
        }
    }
}

pub(super) fn hold(hold: Duration) -> Hold {
    Hold::of(Mechanism::HoldThread, nanoseconds(hold))
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
    }
}
