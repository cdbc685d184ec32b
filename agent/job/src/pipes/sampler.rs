//! Samples what the processes of a pipeline do, and counts what they moved, slice by slice.

use std::{collections::HashMap, fs::File, os::unix::fs::FileExt, os::unix::fs::MetadataExt, path::PathBuf};

use procfs::process::Process;
use profile::streams::{Activity, Pipeline, Slice, Stage, StageCounts, ThreadState, activity};
use rustix::fs::{FileType, Mode, OFlags};
use tuner::CpuClock;

use super::ends::OpenEnds;

/// A thread that took this share of the CPU time of the busiest one works as it does.
const WORKER_SHARE: f64 = 0.2;

/// A pipe with this share of the most that it was ever seen to hold is full.
const FULL_SHARE: f64 = 0.75;

/// Maximum number of threads that are looked at, of all processes together: each keeps two files open.
const THREADS_MAX: usize = 200;

/// Longest text of the files that are kept open.
const TEXT_BYTES_MAX: usize = 512;

#[derive(Debug, thiserror::Error)]
#[error("{name} has ended")]
pub struct StageEnded {
    pub name: String,
}

/// Reads the processes of a pipeline repeatedly. Its files in /proc are kept open, since opening one costs
/// several times as much as reading it.
#[derive(Debug)]
pub struct PipeSampler {
    processes: Vec<SampledProcess>,
    began_ns: u64,
    /// The kernel has named a function in which a thread waits: it does so for all, and one without runs.
    names_waits: bool,
}

#[derive(Debug)]
struct SampledProcess {
    name: String,
    process: Process,
    io: File,
    clock: Option<CpuClock>,
    input: Option<Fill>,
    output: Option<Fill>,
    threads: HashMap<i32, SampledThread>,
    threads_max: usize,
    /// Links of its directory of threads: it has one more for each thread.
    links: u64,
    /// The values at the begin of this slice.
    begin: Totals,
    counts: StageCounts,
}

#[derive(Debug)]
struct SampledThread {
    wchan: File,
    schedstat: File,
    cpu_ns: u64,
    runqueue_ns: u64,
}

/// What a process has done since it began, or since it was first seen.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    cpu_ns: u64,
    runqueue_ns: u64,
    read_bytes: u64,
    written_bytes: u64,
}

/// The fill of a pipe, read through the descriptor of a process.
#[derive(Debug)]
struct Fill {
    descriptor: PathBuf,
    most: u64,
}

impl PipeSampler {
    /// # Errors
    /// If one of the processes has ended, or may not be read.
    pub fn open(pipeline: &Pipeline, now_ns: u64) -> Result<PipeSampler, StageEnded> {
        let threads_max = (THREADS_MAX / pipeline.stages.len().max(1)).max(1);
        let open = |Stage { name, pid, .. }: &Stage| {
            SampledProcess::open(*pid, name, threads_max).ok_or_else(|| StageEnded { name: name.clone() })
        };
        Ok(PipeSampler {
            processes: pipeline.stages.iter().map(open).collect::<Result<_, _>>()?,
            began_ns: now_ns,
            names_waits: false,
        })
    }

    /// Looks what each process does at this moment.
    pub fn look(&mut self) {
        for process in &mut self.processes {
            process.look(&mut self.names_waits);
        }
    }

    /// Ends a slice and begins the next.
    ///
    /// # Errors
    /// If a process has ended.
    pub fn slice(&mut self, now_ns: u64) -> Result<Slice, StageEnded> {
        let ns = now_ns.saturating_sub(std::mem::replace(&mut self.began_ns, now_ns));
        let count = |process: &mut SampledProcess| {
            let counts = process.count();
            counts.ok_or_else(|| StageEnded {
                name: process.name.clone(),
            })
        };
        Ok(Slice {
            ns,
            stages: self.processes.iter_mut().map(count).collect::<Result<_, _>>()?,
        })
    }
}

impl SampledProcess {
    /// `None` if it has ended.
    fn open(pid: i32, name: &str, threads_max: usize) -> Option<SampledProcess> {
        let process = Process::new(pid).ok()?;
        let ends = OpenEnds::of(pid).unwrap_or_default();
        let fill = |ids: &std::collections::BTreeSet<super::ends::PipeId>| {
            let found = ends.descriptors.iter().find(|(id, _)| ids.contains(id));
            found.map(|(_, descriptor)| Fill {
                descriptor: descriptor.clone(),
                most: 1,
            })
        };
        let mut opened = SampledProcess {
            name: name.to_owned(),
            input: fill(&ends.read),
            output: fill(&ends.write),
            io: process.open_relative("io").ok()?,
            clock: CpuClock::of(pid),
            threads: HashMap::new(),
            threads_max,
            links: 0,
            begin: Totals::default(),
            counts: StageCounts::default(),
            process,
        };
        opened.begin = opened.totals()?;
        Some(opened)
    }

    fn look(&mut self, names_waits: &mut bool) {
        let states = self.thread_states(names_waits);
        if states.is_empty() {
            return;
        }
        // Only what polls needs the fill of pipes, which has to be opened for it.
        let polls = states.contains(&ThreadState::Polls);
        let is_empty = polls && self.input.as_mut().and_then(Fill::bytes) == Some(0);
        let is_full = polls && self.output.as_mut().is_some_and(Fill::is_full);
        let counter = match activity(&states, is_empty, is_full) {
            Activity::Running => &mut self.counts.running,
            Activity::Reading => &mut self.counts.reading,
            Activity::Writing => &mut self.counts.writing,
            Activity::Elsewhere => &mut self.counts.elsewhere,
        };
        *counter += 1;
    }

    fn thread_states(&self, names_waits: &mut bool) -> Vec<ThreadState> {
        let state = |(number, thread): (&i32, &SampledThread)| {
            let mut room = [0; TEXT_BYTES_MAX];
            // It may have ended.
            let function = text(&thread.wchan, &mut room)?;
            *names_waits |= !matches!(function, "" | "0");
            let letter = match (function, *names_waits) {
                ("" | "0", false) => self.process.task_from_tid(*number).ok()?.stat().ok()?.state,
                ("" | "0", true) => 'R',
                _ => 'S',
            };
            Some(ThreadState::of(letter, function))
        };
        self.threads.iter().filter_map(state).collect()
    }

    /// `None` if the process has ended.
    fn count(&mut self) -> Option<StageCounts> {
        let (begin, end) = (self.begin, self.totals()?);
        let cpu_ns = || self.threads.values().map(|thread| thread.cpu_ns);
        let most = cpu_ns().max().unwrap_or_default();
        let works = |cpu_ns: &u64| most > 0 && *cpu_ns as f64 >= WORKER_SHARE * most as f64;
        let counts = StageCounts {
            cpu_ns: end.cpu_ns.saturating_sub(begin.cpu_ns),
            runqueue_ns: end.runqueue_ns.saturating_sub(begin.runqueue_ns),
            read_bytes: end.read_bytes.saturating_sub(begin.read_bytes),
            written_bytes: end.written_bytes.saturating_sub(begin.written_bytes),
            workers: cpu_ns().filter(works).count().max(1) as u32,
            ..self.counts
        };
        (self.begin, self.counts) = (end, StageCounts::default());
        Some(counts)
    }

    /// `None` if the process has ended.
    fn totals(&mut self) -> Option<Totals> {
        let mut room = [0; TEXT_BYTES_MAX];
        let io = text(&self.io, &mut room)?;
        let moved = |key| io.lines().find_map(|line| line.strip_prefix(key)?.parse().ok());
        let (read_bytes, written_bytes) = (moved("rchar: ")?, moved("wchar: ")?);
        let mut totals = Totals {
            read_bytes,
            written_bytes,
            ..self.begin
        };
        let known = self.threads.len();
        self.threads.retain(|_, thread| thread.add_to(&mut totals));
        let folder = std::fs::metadata(format!("/proc/{}/task", self.process.pid));
        let links = folder.map_or(0, |folder| folder.nlink());
        if self.threads.len() < known || links != std::mem::replace(&mut self.links, links) {
            self.add_threads(&mut totals);
        }
        // The clock of the process has the time of threads that have ended, too.
        totals.cpu_ns = self.clock.and_then(CpuClock::ns).unwrap_or(totals.cpu_ns);
        Some(totals)
    }

    /// Follows threads that have begun, and adds what they have done since.
    fn add_threads(&mut self, totals: &mut Totals) {
        for task in self.process.tasks().into_iter().flatten().flatten() {
            if self.threads.len() < self.threads_max
                && !self.threads.contains_key(&task.tid)
                && let Some(mut thread) = SampledThread::open(&self.process, task.tid)
                && thread.add_to(totals)
            {
                self.threads.insert(task.tid, thread);
            }
        }
    }
}

impl SampledThread {
    fn open(process: &Process, thread: i32) -> Option<SampledThread> {
        let file = |name: &str| {
            let path = format!("task/{thread}/{name}");
            process.open_relative(path.as_str()).ok()
        };
        Some(SampledThread {
            wchan: file("wchan")?,
            schedstat: file("schedstat")?,
            cpu_ns: 0,
            runqueue_ns: 0,
        })
    }

    /// Adds the time on a CPU and waiting for one since the last call. False if the thread has ended.
    fn add_to(&mut self, totals: &mut Totals) -> bool {
        let mut room = [0; TEXT_BYTES_MAX];
        let Some(words) = text(&self.schedstat, &mut room) else {
            return false;
        };
        let mut numbers = words.split_ascii_whitespace().map_while(|word| word.parse().ok());
        let (cpu_ns, runqueue_ns) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let cpu_before_ns = std::mem::replace(&mut self.cpu_ns, cpu_ns);
        totals.cpu_ns += cpu_ns.saturating_sub(cpu_before_ns);
        let runqueue_before_ns = std::mem::replace(&mut self.runqueue_ns, runqueue_ns);
        totals.runqueue_ns += runqueue_ns.saturating_sub(runqueue_before_ns);
        true
    }
}

/// What a file of /proc contains now; `None` if its process or thread has ended.
fn text<'a>(file: &File, room: &'a mut [u8; TEXT_BYTES_MAX]) -> Option<&'a str> {
    let length = file.read_at(room, 0).ok()?;
    str::from_utf8(&room[..length]).ok()
}

impl Fill {
    /// Opens the pipe to read for a moment. Nothing is taken from it, and it does not wait for a writer.
    fn bytes(&mut self) -> Option<u64> {
        // The process may have closed it, and opened something else.
        let kind = FileType::from_raw_mode(rustix::fs::stat(&self.descriptor).ok()?.st_mode);
        if kind != FileType::Fifo {
            return None;
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(&self.descriptor, flags, Mode::empty()).ok()?;
        let bytes = rustix::io::ioctl_fionread(pipe).ok()?;
        self.most = self.most.max(bytes);
        Some(bytes)
    }

    fn is_full(&mut self) -> bool {
        let bytes = self.bytes();
        bytes.is_some_and(|bytes| bytes as f64 >= FULL_SHARE * self.most as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use profile::streams::Stage;
    use tuneagent_e2e::line_program::LineProgram;
    use tuneagent_e2e::wait::{SOON, wait_until};

    use super::*;

    #[test]
    fn a_process_is_seen_to_read_what_it_moves_is_counted_and_its_end_is_told() {
        let mut cat = LineProgram::start(&mut Command::new("cat")).unwrap();
        let pipeline = Pipeline {
            stages: vec![Stage {
                pid: cat.pid() as i32,
                ..Stage::default()
            }],
            pipes: Vec::new(),
        };
        let mut sampler = PipeSampler::open(&pipeline, 0).unwrap();
        let mut seen = StageCounts::default();
        let reads = wait_until("cat to wait for input", SOON, || {
            sampler.look();
            seen = sampler.slice(1).unwrap().stages[0];
            Ok((seen.running, seen.reading) == (0, 1))
        });
        reads.unwrap_or_else(|late| panic!("{late}: {seen:?}"));
        cat.say("moved").unwrap();
        // The count of a write is raised after the reader could go on.
        let (mut read, mut written) = (0, 0);
        let counted = wait_until("the counts", SOON, || {
            let counts = sampler.slice(2).unwrap().stages[0];
            (read, written) = (read + counts.read_bytes, written + counts.written_bytes);
            Ok((read, written) == (6, 6))
        });
        counted.unwrap_or_else(|late| panic!("{late}: {read} and {written}"));
        cat.end().unwrap();
        sampler.look();
        assert!(sampler.slice(3).is_err());
    }

    #[test]
    fn reading_the_fill_of_a_pipe_takes_nothing_from_it_and_leaves_no_reader() {
        use std::os::fd::AsRawFd;
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut fill = Fill {
            descriptor: format!("/proc/self/fd/{}", reader.as_raw_fd()).into(),
            most: 1,
        };
        assert_eq!((fill.bytes(), fill.is_full()), (Some(0), false));
        rustix::io::write(&writer, b"written").unwrap();
        assert_eq!(
            (fill.bytes(), fill.bytes(), fill.is_full()),
            (Some(7), Some(7), true)
        );
        drop(reader);
        assert_eq!(rustix::io::write(&writer, b"more"), Err(rustix::io::Errno::PIPE));
        // The descriptor is closed, or that of something else.
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        fill.descriptor = format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        assert_eq!(fill.bytes(), None);
    }
}
