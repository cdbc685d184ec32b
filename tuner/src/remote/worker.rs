//! Finds a thread of the program that can work for us, and the requirements for that.

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::{Gate, StackView, Task, Worker, pages};
use crate::address::{Address, LoadBias};
use crate::arena::Arena;
use crate::error::ActionError;
use crate::image::Image;
use crate::place::ProcessMemory;
use crate::process::{Pid, Process};
use crate::ptrace::{self, HeldThread, PtraceError, Stopped};
use crate::seccomp;
use crate::space::AddressSpace;
use crate::symbol::{Symbol, SymbolKind};
use crate::write::{self, HeldThreads};

/// A thread that can be stopped at all stops within this time, even if many others wait for a CPU.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(1);
/// Attempts to stop threads; all are let go in between.
const STOP_TRIES: usize = 4;
/// Time for which threads are tried: others, or the same ones later.
pub(crate) const TRY_WAIT: Duration = Duration::from_secs(2);
const TRY_PAUSE: Duration = Duration::from_micros(200);
/// Pauses double up to this: a thread that waits for a CPU and is held again before it got one is still at
/// the same place.
const TRY_PAUSE_MAX: Duration = Duration::from_millis(50);

/// Functions of the memory allocator, in any library.
const ALLOCATOR: [&str; 12] = [
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "malloc_trim",
    "mallopt",
    "malloc_usable_size",
];

/// What is needed to make the program work for us; valid until it loads or unloads a module.
#[derive(Debug)]
pub(crate) struct RemoteSetup {
    modules: Vec<(String, LoadBias)>,
    pub(crate) gate: Gate,
    /// Code in which a thread holds locks that a called function is likely to take.
    pub(crate) delicate: Vec<(Range<u64>, &'static str)>,
    /// Bytes of a thread's extended state, once it was needed.
    pub(crate) extended_bytes: OnceLock<usize>,
}

impl RemoteSetup {
    /// The cached one, if it is still valid.
    pub(crate) fn of(
        space: &AddressSpace,
        known: &mut Option<Arc<RemoteSetup>>,
    ) -> Result<Arc<RemoteSetup>, ActionError> {
        let modules: Vec<_> = space
            .modules
            .iter()
            .map(|module| (module.path.clone(), module.bias))
            .collect();
        if let Some(known) = known.as_ref().filter(|known| known.modules == modules) {
            return Ok(Arc::clone(known));
        }
        let setup = Arc::new(RemoteSetup {
            modules,
            gate: Gate::find(space)?,
            delicate: delicate(space),
            extended_bytes: OnceLock::new(),
        });
        *known = Some(Arc::clone(&setup));
        Ok(setup)
    }

    /// Why a thread must not call a function; `None` if no check prevents it.
    pub(crate) fn keeps_from_calling(&self, view: &StackView, memory: &ProcessMemory) -> Option<String> {
        if view.in_handler {
            return Some(view.says("runs a signal handler"));
        }
        self.delicate
            .iter()
            .find(|(range, _)| view.is_executing(range, memory))
            .map(|(_, what)| view.says(what))
    }
}

fn delicate(space: &AddressSpace) -> Vec<(Range<u64>, &'static str)> {
    let mut found = Vec::new();
    for module in &space.modules {
        let is_linker = module.file_name().starts_with("ld-linux") || module.file_name().starts_with("ld.so");
        if is_linker {
            found.extend(module.code().map(|code| (code, "is in the dynamic linker")));
        } else if let Some(groups) = allocator(&module.image) {
            let bias = module.bias.0;
            let range = |range: Range<u64>| range.start.wrapping_add(bias)..range.end.wrapping_add(bias);
            found.extend(
                groups
                    .into_iter()
                    .map(|group| (range(group), "is in the memory allocator")),
            );
        }
    }
    found
}

/// The code of the allocator: its functions, and the code between them and the nearest exported functions of
/// other purpose, because the allocator's inner functions have no symbols in a stripped file.
fn allocator(image: &Image) -> Option<Vec<Range<u64>>> {
    let is_code = |symbol: &Symbol| {
        symbol.defined && matches!(symbol.kind, SymbolKind::Function | SymbolKind::IndirectFunction)
    };
    let mut table = image.dynamic_symbols().ok()?;
    if table.named("malloc").all(|symbol| !is_code(&symbol)) {
        table = image.static_symbols().ok()?;
        table.named("malloc").find(is_code)?;
    }
    let mut functions: Vec<(u64, u64, bool)> = table
        .iter()
        .filter(is_code)
        .map(|symbol| {
            let name = symbol.name.trim_start_matches("__libc_");
            (symbol.address.0, symbol.size, ALLOCATOR.contains(&name))
        })
        .collect();
    functions.sort_unstable();
    let mut groups: Vec<Range<u64>> = Vec::new();
    for (index, (start, size, is_allocator)) in functions.iter().enumerate() {
        if *is_allocator {
            let before = functions[..index].iter().rev().find(|(_, _, own)| !own);
            let after = functions[index..].iter().find(|(at, _, own)| !own && at > start);
            let low = before.map_or(*start, |(at, size, _)| (at + size).min(*start));
            let high = after.map_or(start + size, |(at, _, _)| *at);
            groups.push(low..high);
        }
    }
    groups.dedup();
    Some(groups)
}

/// The thread that worked, and the duration of its hold.
#[derive(Debug)]
pub(crate) struct Worked {
    pub(crate) tid: i32,
    pub(crate) hold: Duration,
}

/// Finds a thread of a process that can do a task. Its methods must run in a separate thread
/// ([`ptrace::apart`]).
pub(crate) struct ThreadSearch<'a> {
    pub(crate) process: &'a Process,
    pub(crate) memory: &'a ProcessMemory,
    pub(crate) gate: &'a Gate,
    pub(crate) task: Task<'a>,
    /// No other thread than this one; `None` for any.
    pub(crate) only: Option<i32>,
    /// Time for which threads are tried at most.
    pub(crate) within: Duration,
}

/// What came of an attempt to let a thread work.
enum Attempt {
    Worked(Worked),
    /// Why it cannot work now. It may be suitable later.
    Unsuitable(String),
    /// Why it was not held. It keeps the request to stop, and cannot get another until this thread of ours
    /// ends.
    NotHeld(String),
    /// Its seccomp filters, which cannot be removed, forbid the task.
    Forbidden(ActionError),
}

impl ThreadSearch<'_> {
    /// Holds threads one after another until one is suitable, and lets that one work: `act` is called once
    /// at most. `unsuitable` says why a thread cannot work where it is.
    pub(crate) fn work(
        &self,
        unsuitable: impl Fn(&StackView) -> Option<String>,
        act: impl Fn(Worker<'_>) -> Result<(), ActionError>,
    ) -> Result<Worked, ActionError> {
        let pid = self.process.pid;
        ptrace::refuse_traced(pid)?;
        let began = Instant::now();
        let mut pause = TRY_PAUSE;
        let mut given_up = Vec::new();
        let mut forbidden = None;
        let mut last = None;
        loop {
            let mut hindrance = None;
            for tid in ptrace::threads(pid)? {
                if self.only.is_some_and(|only| only != tid) || given_up.contains(&tid) {
                    continue;
                }
                match self.attempt(tid, &unsuitable, &act)? {
                    Attempt::Worked(worked) => return Ok(worked),
                    Attempt::Unsuitable(why) => hindrance = Some(why),
                    Attempt::NotHeld(why) => {
                        hindrance = Some(why);
                        given_up.push(tid);
                    }
                    Attempt::Forbidden(error) => {
                        forbidden = Some(error);
                        given_up.push(tid);
                    }
                }
            }
            let is_hopeless = hindrance.is_none() && forbidden.is_some();
            last = hindrance.or(last);
            let waited = began.elapsed();
            // A killed process has no thread that could be held.
            pid.check_alive()?;
            if waited > self.within || is_hopeless {
                let why = last.unwrap_or_else(|| "it has none".to_owned());
                return Err(forbidden.unwrap_or_else(|| no_thread(pid, waited, why)));
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(TRY_PAUSE_MAX);
        }
    }

    fn attempt(
        &self,
        tid: i32,
        unsuitable: &impl Fn(&StackView) -> Option<String>,
        act: &impl Fn(Worker<'_>) -> Result<(), ActionError>,
    ) -> Result<Attempt, ActionError> {
        let since = Instant::now();
        let mut thread = match HeldThread::stop(self.process.pid, tid, STOP_WAIT) {
            Ok(thread) => thread,
            Err(error @ (PtraceError::NotStopped { .. } | PtraceError::ThreadEnded { .. })) => {
                return Ok(Attempt::NotHeld(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        };
        let view = StackView::of(&thread, self.memory, self.gate)?;
        if let Some(why) = unsuitable(&view) {
            return Ok(Attempt::Unsuitable(why));
        }
        match Worker::begin(&mut thread, self.memory, self.gate, self.task) {
            Ok(worker) => act(worker)?,
            Err(ActionError::NoThread { why, .. }) => return Ok(Attempt::Unsuitable(why)),
            Err(error @ ActionError::Seccomp { .. }) => return Ok(Attempt::Forbidden(error)),
            Err(error) => return Err(error),
        }
        drop(thread);
        let hold = since.elapsed();
        Ok(Attempt::Worked(Worked { tid, hold }))
    }
}

fn no_thread(pid: Pid, waited: Duration, why: String) -> ActionError {
    let waited_ms = waited.as_millis();
    ActionError::NoThread { pid, waited_ms, why }
}

/// An error if the program must not call `function` in any of its threads: one has a seccomp filter that
/// kills. Must run in a separate thread ([`ptrace::apart`]).
pub(crate) fn refuse_function(process: &Process, function: &str, despite: bool) -> Result<(), ActionError> {
    let pid = process.pid;
    let mut last = None;
    for tid in ptrace::threads(pid)? {
        if !seccomp::is_in_force(pid, tid) {
            continue;
        }
        let filters = HeldThread::stop(pid, tid, STOP_WAIT).map(|thread| thread.seccomp_filters());
        let filters = match filters {
            Err(PtraceError::ThreadEnded { .. }) => continue,
            filters => filters?,
        };
        // Most threads of a program have the same filters.
        if last.as_ref() == Some(&filters) {
            continue;
        }
        if let Some(why) = filters.refuse_function(function, despite) {
            return Err(ActionError::Seccomp { pid, tid, why });
        }
        last = Some(filters);
    }
    Ok(())
}

/// Runs `act` in a separate thread, and retries if a thread of the program did not stop in time.
pub(crate) fn insist<T: Send>(
    act: impl Fn() -> Result<T, ActionError> + Send + Sync,
) -> Result<T, ActionError> {
    for _ in 1..STOP_TRIES {
        match ptrace::apart(&act) {
            Err(ActionError::Ptrace(PtraceError::NotStopped { .. })) => std::thread::sleep(TRY_PAUSE),
            result => return result,
        }
    }
    ptrace::apart(act)
}

/// The result of work while all threads are held.
pub(crate) enum HeldResult<T> {
    Done(T),
    Hindered(String),
}

/// Holds all threads and runs `act`. If it meets an obstacle, all threads are let go, and it retries a little
/// later. Must run in a separate thread ([`ptrace::apart`]).
pub(crate) fn with_all<T>(
    process: &Process,
    mut act: impl FnMut(&mut Stopped) -> Result<HeldResult<T>, ActionError>,
) -> Result<(T, Duration), ActionError> {
    let began = Instant::now();
    let mut pause = TRY_PAUSE;
    loop {
        let mut stopped = Stopped::all(process, STOP_WAIT)?;
        let why = match act(&mut stopped) {
            Ok(HeldResult::Done(done)) => return Ok((done, stopped.held())),
            Ok(HeldResult::Hindered(why)) | Err(ActionError::NoThread { why, .. }) => why,
            Err(error) => return Err(error),
        };
        drop(stopped);
        if began.elapsed() > TRY_WAIT {
            return Err(ActionError::InTheWay {
                waited_ms: began.elapsed().as_millis(),
                why,
            });
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(TRY_PAUSE_MAX);
    }
}

/// Unmaps an arena once no thread is in it or returns to it.
pub(crate) fn unmap(
    process: &Process,
    memory: &ProcessMemory,
    gate: &Gate,
    arena: &Arena,
) -> Result<(), ActionError> {
    with_all(process, |stopped| unmap_held(stopped, memory, gate, arena)).map(|_| ())
}

/// Unmaps an arena while all threads are held, or returns the thread that is in it.
pub(crate) fn unmap_held(
    stopped: &mut Stopped,
    memory: &ProcessMemory,
    gate: &Gate,
    arena: &Arena,
) -> Result<HeldResult<()>, ActionError> {
    if let Some(why) = in_the_way(stopped, memory, gate, arena)? {
        return Ok(HeldResult::Hindered(why));
    }
    let (mut last, mut forbidden) = (None, None);
    for thread in stopped.threads_mut() {
        match Worker::begin(thread, memory, gate, Task::Unmap(arena)) {
            Ok(mut worker) => {
                worker.unmap(arena)?;
                return worker.end().map(HeldResult::Done);
            }
            Err(ActionError::NoThread { why, .. }) => last = Some(why),
            Err(error @ ActionError::Seccomp { .. }) => forbidden = Some(error),
            Err(error) => return Err(error),
        }
    }
    match (last, forbidden) {
        (None, Some(forbidden)) => Err(forbidden),
        (last, _) => Ok(HeldResult::Hindered(
            last.unwrap_or_else(|| "it has no thread".to_owned()),
        )),
    }
}

/// Why an arena must not be unmapped, given that all threads are held: a thread is in it, or returns to it.
pub(crate) fn in_the_way(
    stopped: &Stopped,
    memory: &ProcessMemory,
    gate: &Gate,
    arena: &Arena,
) -> Result<Option<String>, ActionError> {
    for thread in stopped.threads() {
        let view = StackView::of(thread, memory, gate)?;
        if let Some(why) = view.is_in_the_way_of(&arena.range()) {
            return Ok(Some(why));
        }
    }
    Ok(None)
}

/// Whether an arena is still mapped: at exactly its place, with its head or, after a crash in the first
/// instant, without any content. Anonymous executable memory of this size at this place without content is
/// ours.
pub(crate) fn is_ours(memory: &ProcessMemory, arena: &Arena) -> bool {
    let Some(map) = memory.mapping(arena.address, arena.code_bytes) else {
        return false;
    };
    let is_exact = map.start == arena.address && map.end.0 == arena.address.0 + arena.code_bytes;
    let is_code = map.permissions.execute && !map.permissions.write && arena.is_in(memory.maps());
    let mut found = vec![0; arena.code_bytes as usize];
    let is_read = is_exact && is_code && memory.read(arena.address, &mut found).is_ok();
    is_read && (found.starts_with(&arena.head()) || found.iter().all(|byte| *byte == 0))
}

/// Writes the content of an arena, page by page, while it is not in use.
pub(crate) fn fill(
    memory: &ProcessMemory,
    arena: &Arena,
    at: Address,
    bytes: &[u8],
    held: &HeldThread,
) -> Result<(), ActionError> {
    for (address, piece) in pages(at, bytes) {
        let place = memory.own(arena, address, piece.len())?;
        write::commit_bytes(&place, None, piece, HeldThreads::One(held))?;
    }
    Ok(())
}
