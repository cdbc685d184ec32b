//! Processes joined by pipes, as plain data: what their threads wait for, what was counted of them, and how
//! their time divides.

use crate::stream_views::TimeShares;

/// Processes, and the pipes that join them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipeline {
    pub stages: Vec<Stage>,
    pub pipes: Vec<Pipe>,
}

/// A process of a pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stage {
    pub name: String,
    pub pid: i32,
    /// The file name of its program, which may have another name than the process.
    pub program: String,
    /// Its number and command line.
    pub about: String,
    /// What else it can read from, such as a file or a socket; empty: nothing.
    pub other_inputs: Vec<String>,
    pub other_outputs: Vec<String>,
}

/// A pipe, with the stages that have it open to write and to read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pipe {
    pub from: Vec<usize>,
    pub to: Vec<usize>,
}

/// What a stage did during a slice of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StageCounts {
    pub cpu_ns: u64,
    /// Time in which it could run and had no CPU.
    pub runqueue_ns: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// How often it was seen in each activity.
    pub running: u32,
    pub reading: u32,
    pub writing: u32,
    pub elsewhere: u32,
    /// Threads that took a noticeable part of its CPU time.
    pub workers: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    pub ns: u64,
    pub stages: Vec<StageCounts>,
}

/// What a thread does, by the letter of its state and the kernel function that it waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    Runs,
    Reads,
    Writes,
    /// Waits for several descriptors, or the kernel does not say for what.
    Polls,
    Elsewhere,
}

impl ThreadState {
    /// Names of functions since Linux 5.5: `pipe_read`, `anon_pipe_read`, `fifo_pipe_read`, and those of splice.
    pub fn of(state: char, function: &str) -> ThreadState {
        let has = |parts: &[&str]| parts.iter().any(|part| function.contains(part));
        match state {
            'R' => ThreadState::Runs,
            _ if has(&["pipe_read", "pipe_wait_readable", "splice_from_pipe"]) => ThreadState::Reads,
            _ if has(&["pipe_write", "pipe_wait_writable", "wait_for_space"]) => ThreadState::Writes,
            _ if matches!(function, "" | "0") || has(&["poll", "select"]) => ThreadState::Polls,
            _ => ThreadState::Elsewhere,
        }
    }
}

/// What a process does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    Running,
    Reading,
    Writing,
    Elsewhere,
}

/// What a process does, by its threads. While one of them runs, it is not held up by others that wait. What
/// polls waits for the pipe that is full or empty.
pub fn activity(threads: &[ThreadState], is_input_empty: bool, is_output_full: bool) -> Activity {
    let any = |state| threads.contains(&state);
    if any(ThreadState::Runs) {
        Activity::Running
    } else if any(ThreadState::Writes) || any(ThreadState::Polls) && is_output_full {
        Activity::Writing
    } else if any(ThreadState::Reads) || any(ThreadState::Polls) && is_input_empty {
        Activity::Reading
    } else {
        Activity::Elsewhere
    }
}

impl StageCounts {
    pub(super) fn add(&mut self, other: &StageCounts) {
        self.cpu_ns += other.cpu_ns;
        self.runqueue_ns += other.runqueue_ns;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.running += other.running;
        self.reading += other.reading;
        self.writing += other.writing;
        self.elsewhere += other.elsewhere;
        self.workers = self.workers.max(other.workers);
    }

    /// Time on a CPU and waiting for one is counted by the kernel. The rest is divided by what was sampled; of
    /// a process with several workers all is, since they overlap.
    pub(super) fn shares(&self, ns: u64, has_input: bool, has_output: bool) -> TimeShares {
        let number = f64::from;
        let (mut reading, mut writing, mut elsewhere) =
            (number(self.reading), number(self.writing), number(self.elsewhere));
        // Without a pipe on that side it waits for something outside.
        if !has_input {
            elsewhere += std::mem::take(&mut reading);
        }
        if !has_output {
            elsewhere += std::mem::take(&mut writing);
        }
        let sleeping = reading + writing + elsewhere;
        let (cpu, runqueue) = (self.cpu_ns as f64, self.runqueue_ns as f64);
        if self.workers > 1 {
            let waiting = if runqueue > 0.0 {
                runqueue / (cpu + runqueue)
            } else {
                0.0
            };
            let running = number(self.running);
            let busy = running * (1.0 - waiting) + elsewhere;
            return TimeShares::of(busy, elsewhere, running * waiting, reading, writing);
        }
        let cpu = cpu.min(ns as f64);
        let runqueue = runqueue.min(ns as f64 - cpu);
        let rest = ns as f64 - cpu - runqueue;
        if sleeping == 0.0 {
            return TimeShares::of(cpu + rest, 0.0, runqueue, 0.0, 0.0);
        }
        let part = |samples: f64| rest * samples / sleeping;
        let outside = part(elsewhere);
        TimeShares::of(cpu + outside, outside, runqueue, part(reading), part(writing))
    }
}
