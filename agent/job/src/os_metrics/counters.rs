//! Monotonic counters of a process, summed over its threads.
//!
//! The kernel keeps them by thread, and those of a thread that ended vanish from /proc. What was read of it
//! stays in the sum; what it did after the last read is lost (less than one period for each thread that
//! ends), except its CPU time, which the CPU-time clock of the process includes. A process that has ended can
//! still be read until its parent collects it.

use std::{
    collections::{BTreeSet, HashMap},
    io::Read,
    time::Instant,
};

use plan::CpuList;
use procfs::{ProcResult, process::Process};
use profile::{Counters, Threads};
use tuner::CpuClock;

/// A process without CPU time changes none of its own counters and is not read again. Other processes may
/// still change its memory: after this many skipped reads it is read all the same.
const STILL_MAX: u32 = 20;

/// The heaps are read once in this many samples, and not in small processes, because it takes a millisecond.
const LOOKS_AT_HEAPS: u32 = 20;
const FIRST_HEAPS: u32 = 4;
const HEAPS_BYTES_MIN: u64 = 64 << 20;

/// A wait that has not ended counts from this length on: the CPU time of a thread that runs is up to a tick old.
const OPEN_WAIT_MIN_NS: u64 = 20_000_000;

/// Reads the counters of one process repeatedly. It keeps the process's directory in /proc open, which still
/// refers to this process if its pid is reused.
#[derive(Debug)]
pub struct Sampler {
    process: Process,
    threads: HashMap<i32, ThreadCounters>,
    sum: Counters,
    /// CPUs that the process could use if none of its threads were bound to fewer; `None` if unknown.
    reach: Option<usize>,
    clock: Option<CpuClock>,
    /// When the first sample was taken.
    first: Option<Instant>,
    /// CPU time on the clock just before the counters were last read.
    used_ns: Option<u64>,
    /// Number of samples since then in which the process had not run.
    still: u32,
    has_run: bool,
    /// Samples until the heaps are read again.
    until_heaps: u32,
    /// Whether the bytes that it reads and writes are counted.
    counts_bytes: bool,
}

#[derive(Clone, Debug, Default)]
struct ThreadCounters {
    cpu_ns: u64,
    runqueue_ns: u64,
    /// How often it was given a CPU.
    runs: u64,
    /// `runqueue_ns` at the first sample of the process; 0 of a thread that began later.
    runqueue_first_ns: u64,
    /// Part of `runqueue_ns` that the kernel added after the first sample, when a wait ended that had begun before.
    runqueue_earlier_ns: u64,
    /// When the thread was seen to run or to wait for a CPU, and `runqueue_ns` then; `None` if it slept.
    ready: Option<(Instant, u64)>,
    /// The part of a wait that has not ended; the kernel adds a wait to `runqueue_ns` at its end.
    open_wait_ns: u64,
    involuntary: u64,
    voluntary: u64,
    /// List of the CPUs that it could use when it last ran; empty if unknown.
    allowed: String,
}

impl Sampler {
    pub fn open(pid: i32) -> ProcResult<Sampler> {
        Ok(Sampler {
            process: Process::new(pid)?,
            threads: HashMap::new(),
            sum: Counters::default(),
            reach: None,
            clock: CpuClock::of(pid),
            first: None,
            used_ns: None,
            still: 0,
            has_run: true,
            until_heaps: FIRST_HEAPS,
            counts_bytes: false,
        })
    }

    /// Sets how many CPUs the process could use if none of its threads were bound to fewer.
    pub fn set_reach(&mut self, cpus: Option<usize>) {
        self.reach = cpus;
    }

    /// Sets whether the bytes that the process reads and writes are counted, which takes a file more for each
    /// sample. They are not at first.
    pub fn count_bytes(&mut self, counts: bool) {
        self.counts_bytes = counts;
    }

    /// Whether the process may have used CPU time between the last two samples; if not, it did nothing.
    pub fn has_run(&self) -> bool {
        self.has_run
    }

    /// Reads all counters. An error means that the process has ended, or may not be read.
    pub fn sample(&mut self) -> ProcResult<Counters> {
        let used_ns = self.clock.and_then(CpuClock::ns);
        self.has_run = used_ns.is_none() || used_ns != self.used_ns;
        if !self.has_run && self.still < STILL_MAX {
            self.still += 1;
            self.count_open_waits(Instant::now());
            return Ok(self.sum);
        }
        let stat = self.process.stat()?;
        self.sum.is_stopped = matches!(stat.state, 'T' | 't');
        let status = text(&self.process, "status").ok();
        // The per-thread values in the files of a process are those of its first thread.
        let of_first = status.as_deref().map(|status| (stat.pid, status));
        let threads = match usize::try_from(stat.num_threads) {
            Ok(1) => vec![stat.pid],
            // If the number is unchanged, they are the same threads, unless one of them cannot be read.
            Ok(count) if count == self.threads.len() => self.threads.keys().copied().collect(),
            _ => self.listed()?,
        };
        let mut seen = HashMap::with_capacity(threads.len());
        self.look_at(&threads, of_first, &mut seen);
        if seen.len() < threads.len() {
            self.look_at(&self.listed()?, of_first, &mut seen);
        }
        let cpu_before_ns = self.sum.cpu_ns;
        self.first.get_or_insert_with(Instant::now);
        self.add(&seen);
        if let (Some(before), Some(now)) = (self.used_ns, used_ns) {
            self.sum.cpu_ns = cpu_before_ns + now.saturating_sub(before);
        }
        if self.counts_bytes {
            self.sum.moved_bytes = self.moved_bytes().or(self.sum.moved_bytes);
        }
        self.sum.children_ns = ticks_ns(stat.cutime.saturating_add(stat.cstime));
        self.sum.faults_minor = stat.minflt;
        self.sum.faults_major = stat.majflt;
        // A process that ends gives back its memory first. What it had last remains.
        if stat.rss > 0 {
            self.sum.threads = seen.len() as u64;
            let peak_kib = status.as_deref().and_then(|status| number(status, "VmHWM:"));
            self.sum.resident_peak_bytes = peak_kib.map(|kib| kib * 1024);
            self.sum.resident_bytes = stat.rss * procfs::page_size();
            self.look_at_heaps();
        }
        self.threads = seen;
        (self.used_ns, self.still) = (used_ns, 0);
        Ok(self.sum)
    }

    /// The process had no CPU since its threads were read: those that were ready then have waited since.
    fn count_open_waits(&mut self, now: Instant) {
        for thread in self.threads.values_mut() {
            let before_ns = thread.waited_ns();
            thread.keep_waiting(now);
            self.sum.runqueue_ns += thread.waited_ns().saturating_sub(before_ns);
        }
    }

    fn moved_bytes(&self) -> Option<(u64, u64)> {
        let io = text(&self.process, "io").ok()?;
        Some((number(&io, "rchar:")?, number(&io, "wchar:")?))
    }

    fn look_at_heaps(&mut self) {
        if self.sum.resident_bytes < HEAPS_BYTES_MIN {
            self.sum.freed_bytes = None;
        } else if self.until_heaps == 0 {
            self.until_heaps = LOOKS_AT_HEAPS;
            self.sum.freed_bytes = super::heaps::freed_bytes(&self.process);
        }
        self.until_heaps = self.until_heaps.saturating_sub(1);
    }

    /// Adds what the threads have done since they were last read.
    fn add(&mut self, seen: &HashMap<i32, ThreadCounters>) {
        let (none, mut bound) = (ThreadCounters::default(), BTreeSet::<usize>::new());
        for (thread, now) in seen {
            // Counters of a reused thread id start from zero; all they show is new.
            let before = self.threads.get(thread);
            let before = before
                .filter(|before| now.cpu_ns >= before.cpu_ns)
                .unwrap_or(&none);
            let waited_ns = now.waited_ns().saturating_sub(before.waited_ns());
            let allowed = now.allowed.parse::<CpuList>().ok().filter(|_| waited_ns > 0);
            let is_bound = |cpus: &CpuList| self.reach.is_some_and(|reach| cpus.cpus().len() < reach);
            if let Some(cpus) = allowed.filter(is_bound) {
                self.sum.runqueue_bound_ns += waited_ns;
                bound.extend(cpus.cpus().iter().copied());
            }
            self.sum.cpu_ns += now.cpu_ns.saturating_sub(before.cpu_ns);
            self.sum.runqueue_ns += waited_ns;
            self.sum.switches_involuntary += now.involuntary.saturating_sub(before.involuntary);
            self.sum.switches_voluntary += now.voluntary.saturating_sub(before.voluntary);
        }
        self.sum.cpus_bound = bound.len() as u64;
    }

    fn listed(&self) -> ProcResult<Vec<i32>> {
        Ok(self.process.tasks()?.flatten().map(|task| task.tid).collect())
    }

    /// Reads those of the threads that were not read yet. A thread may end after the listing.
    fn look_at(
        &self,
        threads: &[i32],
        of_first: Option<(i32, &str)>,
        seen: &mut HashMap<i32, ThreadCounters>,
    ) {
        for &thread in threads {
            if seen.contains_key(&thread) {
                continue;
            }
            let status = of_first.filter(|(first, _)| *first == thread);
            let status = status.map(|(_, status)| status);
            let before = self.threads.get(&thread);
            if let Ok(mut now) = ThreadCounters::read(&self.process, thread, status, before) {
                now.continue_waits(before, self.first.map(|first| first.elapsed().as_nanos() as u64));
                seen.insert(thread, now);
            }
        }
    }
}

impl Threads for Sampler {
    fn lives(&self, thread: i32, is_sampled: bool) -> bool {
        // The threads that were just sampled are all threads.
        match is_sampled {
            true => self.threads.contains_key(&thread),
            false => self.process.task_from_tid(thread).is_ok(),
        }
    }

    fn waited_ns(&self, thread: i32) -> Option<u64> {
        Some(self.threads.get(&thread)?.runqueue_ns)
    }
}

impl ThreadCounters {
    /// Time waited for a CPU, without waits of before the first sample that ended after it.
    fn waited_ns(&self) -> u64 {
        self.runqueue_ns.saturating_sub(self.runqueue_earlier_ns) + self.open_wait_ns
    }

    /// The thread has not run since it was read: if it was ready then, it has waited since.
    fn keep_waiting(&mut self, now: Instant) {
        let Some((since, runqueue_ns)) = self.ready else {
            return;
        };
        // A wait that is moved to another CPU is added in parts.
        let added_ns = self.runqueue_ns.saturating_sub(runqueue_ns);
        let waited_ns = now.saturating_duration_since(since).as_nanos() as u64;
        if waited_ns >= OPEN_WAIT_MIN_NS {
            self.open_wait_ns = waited_ns.saturating_sub(added_ns);
        }
    }

    /// The thread was read this long after the first sample of the process: it cannot have waited longer since then.
    fn continue_waits(&mut self, before: Option<&ThreadCounters>, elapsed_ns: Option<u64>) {
        (self.runqueue_first_ns, self.runqueue_earlier_ns) = match (before, elapsed_ns) {
            (Some(before), _) => (before.runqueue_first_ns, before.runqueue_earlier_ns),
            (None, None) => (self.runqueue_ns, 0),
            (None, Some(_)) => (0, 0),
        };
        let most_ns = self.runqueue_first_ns + elapsed_ns.unwrap_or_default();
        self.runqueue_earlier_ns = (self.runqueue_earlier_ns).max(self.runqueue_ns.saturating_sub(most_ns));
    }

    /// Reads a thread of a process; `status` if it is already known, and the previous values: a thread that
    /// was given no CPU since was not switched away either.
    fn read(
        process: &Process,
        thread: i32,
        status: Option<&str>,
        before: Option<&ThreadCounters>,
    ) -> ProcResult<ThreadCounters> {
        let schedule = text(process, &format!("task/{thread}/schedstat"))?;
        let mut schedule = schedule
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok());
        let mut next = || schedule.next().ok_or("schedstat is cut short");
        let now = ThreadCounters {
            cpu_ns: next()?,
            runqueue_ns: next()?,
            runs: next()?,
            ..ThreadCounters::default()
        };
        let own;
        let is_same = |before: &&ThreadCounters| (before.cpu_ns, before.runs) == (now.cpu_ns, now.runs);
        let status = match (status, before.filter(is_same)) {
            (Some(status), _) => status,
            (None, Some(before)) => {
                let mut waits = ThreadCounters {
                    runqueue_ns: now.runqueue_ns,
                    ..before.clone()
                };
                waits.keep_waiting(Instant::now());
                return Ok(waits);
            }
            (None, None) => {
                own = text(process, &format!("task/{thread}/status"))?;
                own.as_str()
            }
        };
        let switches = |key| number(status, key).unwrap_or(0);
        let is_ready = line(status, "State:").is_some_and(|state| state.starts_with('R'));
        let since = before.filter(is_same).and_then(|before| before.ready);
        let mut read = ThreadCounters {
            ready: is_ready.then(|| since.unwrap_or((Instant::now(), now.runqueue_ns))),
            involuntary: switches("nonvoluntary_ctxt_switches:"),
            voluntary: switches("voluntary_ctxt_switches:"),
            allowed: line(status, "Cpus_allowed_list:").unwrap_or_default().to_owned(),
            ..now
        };
        read.keep_waiting(Instant::now());
        Ok(read)
    }
}

fn text(process: &Process, file: &str) -> ProcResult<String> {
    let mut text = String::with_capacity(2048);
    process.open_relative(file)?.read_to_string(&mut text)?;
    Ok(text)
}

/// The value of a line of a status file.
fn line<'a>(status: &'a str, key: &str) -> Option<&'a str> {
    let mut lines = status.lines();
    lines.find_map(|line| line.strip_prefix(key)).map(str::trim)
}

/// The number in a line of a status file.
fn number(status: &str, key: &str) -> Option<u64> {
    line(status, key)?.split_ascii_whitespace().next()?.parse().ok()
}

/// Clock ticks of /proc in nanoseconds; a kernel counts no negative ones.
fn ticks_ns(ticks: i64) -> u64 {
    ticks.unsigned_abs() * 1_000_000_000 / procfs::ticks_per_second()
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Duration};

    use tuneagent_e2e::line_program::LineProgram;
    use tuneagent_e2e::wait::{SOON, wait_for, wait_until};

    use super::*;

    #[test]
    fn a_process_that_sleeps_is_not_looked_at_again_and_one_that_wakes_is() {
        let mut cat = LineProgram::start(&mut Command::new("cat")).unwrap();
        let mut sampler = Sampler::open(cat.pid() as i32).unwrap();
        sampler.count_bytes(true);
        // It has started when it has answered. Without a CPU it may seem to sleep before.
        cat.say("started").unwrap();
        let slept = wait_until("its sleep", SOON, || {
            let is_asleep = sampler.process.stat().unwrap().state == 'S';
            sampler.sample().unwrap();
            Ok(is_asleep && sampler.still > 0)
        });
        let before = sampler.sample().unwrap();
        cat.say("wake up").unwrap();
        let woke = wait_for("its end of sleep", SOON, || {
            let now = sampler.sample().unwrap();
            Ok(Some(now).filter(|now| now.switches_voluntary > before.switches_voluntary))
        });
        cat.end().unwrap();
        let (moved, before) = (slept.and(woke).unwrap().moved_bytes, before.moved_bytes.unwrap());
        let line_bytes = "wake up\n".len() as u64;
        assert_eq!(moved, Some((before.0 + line_bytes, before.1 + line_bytes)));
        assert!(sampler.sample().is_err(), "it is gone");
    }

    #[test]
    fn the_cpu_time_of_a_thread_that_ends_between_two_samples_is_counted() {
        let mut sampler = Sampler::open(std::process::id() as i32).unwrap();
        let before = sampler.sample().unwrap();
        let used_ns = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        let work = move || while used_ns() < 50_000_000 {};
        std::thread::spawn(work).join().unwrap();
        let after = sampler.sample().unwrap();
        assert!(after.cpu_ns - before.cpu_ns >= 50_000_000, "{before:?} {after:?}");
    }

    #[test]
    fn a_zombie_is_counted_until_it_is_collected() {
        let command = "read line; for ((i = 0; i < 100000; i++)); do :; done; times";
        let mut program = LineProgram::start(Command::new("bash").args(["-c", command])).unwrap();
        let mut sampler = Sampler::open(program.pid() as i32).unwrap();
        // The kernel adds up the pages of a process late: a new one has none at first.
        let before = wait_for("its pages", SOON, || {
            sampler.still = STILL_MAX;
            Ok(Some(sampler.sample().unwrap()).filter(|sample| sample.resident_bytes > 0))
        });
        let before = before.unwrap();
        program.close();
        wait_until("its end", SOON, || {
            Ok(sampler.process.stat().unwrap().state == 'Z')
        })
        .unwrap();
        let after = sampler.sample().unwrap();
        let clock = sampler.clock.and_then(CpuClock::ns).unwrap();
        program.end().unwrap();
        assert!(after.cpu_ns > before.cpu_ns + 20_000_000, "{before:?} {after:?}");
        assert!(clock.abs_diff(after.cpu_ns) < 5_000_000, "{clock} {after:?}");
        assert!(
            after.resident_bytes > 0 && after.resident_peak_bytes.is_some(),
            "{after:?}"
        );
        assert!(sampler.sample().is_err(), "it is collected");
    }

    #[test]
    fn a_number_is_found_by_the_complete_name_of_its_line() {
        let status =
            "Name:\tx\nVmHWM:\t    1234 kB\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t9\n";
        assert_eq!(number(status, "VmHWM:"), Some(1234));
        assert_eq!(number(status, "voluntary_ctxt_switches:"), Some(7));
        assert_eq!(number(status, "nonvoluntary_ctxt_switches:"), Some(9));
        assert_eq!(number(status, "VmPin:"), None);
        let status = "Cpus_allowed:\tb\nCpus_allowed_list:\t0-1,3\n";
        assert_eq!(line(status, "Cpus_allowed_list:"), Some("0-1,3"));
    }

    #[test]
    fn waiting_of_threads_that_are_bound_to_less_than_is_granted_is_counted_apart() {
        let thread = |runqueue_ns, allowed: &str| ThreadCounters {
            runqueue_ns,
            allowed: allowed.to_owned(),
            ..ThreadCounters::default()
        };
        let mut sampler = Sampler::open(std::process::id() as i32).unwrap();
        let mut bound = |reach, threads: &[ThreadCounters]| {
            sampler.sum = Counters::default();
            sampler.set_reach(reach);
            sampler.add(&(0..).zip(threads.iter().cloned()).collect());
            let sum = sampler.sum;
            (sum.runqueue_ns, sum.runqueue_bound_ns, sum.cpus_bound)
        };
        let threads = [thread(30, "0"), thread(40, "0"), thread(5, "0-3"), thread(0, "2")];
        assert_eq!(bound(Some(4), &threads), (75, 70, 1), "the last does not wait");
        assert_eq!(bound(Some(5), &threads), (75, 75, 4));
        assert_eq!(bound(None, &threads), (75, 0, 0), "what is granted is not known");
        let unknown = [thread(30, "")];
        assert_eq!(bound(Some(4), &unknown), (30, 0, 0));
    }

    #[test]
    fn a_wait_that_has_not_ended_counts_and_is_counted_once() {
        let (begin, ms) = (Instant::now(), Duration::from_millis);
        let mut thread = ThreadCounters {
            runqueue_ns: 7_000_000,
            ready: Some((begin, 7_000_000)),
            ..ThreadCounters::default()
        };
        thread.keep_waiting(begin + ms(3));
        assert_eq!(
            thread.waited_ns(),
            7_000_000,
            "it may have run for less than a tick"
        );
        thread.keep_waiting(begin + ms(400));
        assert_eq!(thread.waited_ns(), 407_000_000);
        // The kernel adds a part as the thread is moved to another CPU, and the rest at the end of the wait.
        thread.runqueue_ns += 300_000_000;
        thread.keep_waiting(begin + ms(500));
        assert_eq!(thread.waited_ns(), 507_000_000);
        let mut asleep = ThreadCounters::default();
        asleep.keep_waiting(begin + ms(500));
        assert_eq!(asleep.waited_ns(), 0);
    }

    #[test]
    fn a_wait_that_began_before_the_first_sample_counts_from_there() {
        let mut before: Option<ThreadCounters> = None;
        // Each row: the time since the first sample, what the kernel has of the thread, what of it counts.
        for (elapsed_ns, runqueue_ns, waited_ns) in [
            (None, 500, 500),
            (Some(100), 500, 500),
            (Some(300), 2500, 800),
            (Some(400), 2550, 850),
            (Some(900), 2600, 900),
        ] {
            let mut now = ThreadCounters {
                runqueue_ns,
                ..ThreadCounters::default()
            };
            now.continue_waits(before.as_ref(), elapsed_ns);
            assert_eq!(now.waited_ns(), waited_ns, "{elapsed_ns:?}");
            before = Some(now);
        }
    }

    #[test]
    fn counters_grow_and_keep_what_ended_threads_did() {
        let mut sampler = Sampler::open(std::process::id() as i32).unwrap();
        let before = sampler.sample().unwrap();
        let (seen, wait) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        let during = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sum = 0_u64;
                for i in 0..20_000_000_u64 {
                    sum = std::hint::black_box(sum ^ i);
                }
                seen.wait();
                wait.wait();
            });
            seen.wait();
            let during = sampler.sample().unwrap();
            wait.wait();
            during
        });
        let after = sampler.sample().unwrap();
        assert!(during.cpu_ns > before.cpu_ns + 1_000_000, "{before:?} {during:?}");
        assert!(after.cpu_ns >= during.cpu_ns && after.threads < during.threads + 1);
        assert!(after.resident_bytes > 0);
    }
}
