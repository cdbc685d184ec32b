//! Samples what the processes of a pipeline do, and counts what they moved, slice by slice.

use std::{collections::HashMap, io::Read, path::PathBuf};

use procfs::{ProcResult, process::Process};
use profile::Counters;
use profile::streams::{Activity, Pipeline, Slice, StageCounts, ThreadState, activity};
use rustix::fs::{FileType, Mode, OFlags};

use super::ends::OpenEnds;
use crate::os_metrics::Sampler;

/// A thread that took this share of the CPU time of the busiest one works as it does.
const WORKER_SHARE: f64 = 0.2;

/// A pipe with this share of the most that it was ever seen to hold is full.
const FULL_SHARE: f64 = 0.75;

/// Maximum number of threads of a process that are looked at in a sample.
const THREADS_MAX: usize = 128;

#[derive(Debug, thiserror::Error)]
#[error("{name} has ended")]
pub struct StageEnded {
    pub name: String,
}

/// Reads the processes of a pipeline repeatedly.
#[derive(Debug)]
pub struct PipeSampler {
    processes: Vec<SampledProcess>,
    began_ns: u64,
}

#[derive(Debug)]
struct SampledProcess {
    name: String,
    process: Process,
    sampler: Sampler,
    input: Option<Fill>,
    output: Option<Fill>,
    /// The values at the begin of this slice.
    counters: Counters,
    moved: (u64, u64),
    /// CPU time by thread since the begin of sampling.
    threads: HashMap<i32, u64>,
    counts: StageCounts,
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
    pub fn open(pipeline: &Pipeline, pids: &[i32], now_ns: u64) -> Result<PipeSampler, StageEnded> {
        let open = |(at, pid): (usize, &i32)| {
            let name = &pipeline.stages[at].name;
            SampledProcess::open(*pid, name).map_err(|_| StageEnded { name: name.clone() })
        };
        Ok(PipeSampler {
            processes: pids.iter().enumerate().map(open).collect::<Result<_, _>>()?,
            began_ns: now_ns,
        })
    }

    /// Looks what each process does at this moment.
    pub fn look(&mut self) {
        self.processes.iter_mut().for_each(SampledProcess::look);
    }

    /// Ends a slice and begins the next.
    ///
    /// # Errors
    /// If a process has ended.
    pub fn slice(&mut self, now_ns: u64) -> Result<Slice, StageEnded> {
        let ns = now_ns.saturating_sub(std::mem::replace(&mut self.began_ns, now_ns));
        let count = |process: &mut SampledProcess| {
            process.count().map_err(|_| StageEnded {
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
    fn open(pid: i32, name: &str) -> ProcResult<SampledProcess> {
        let process = Process::new(pid)?;
        let mut sampler = Sampler::open(pid)?;
        let ends = OpenEnds::of(pid).unwrap_or_default();
        let fill = |ids: &std::collections::BTreeSet<super::ends::PipeId>| {
            let found = ends.descriptors.iter().find(|(id, _)| ids.contains(id));
            found.map(|(_, descriptor)| Fill {
                descriptor: descriptor.clone(),
                most: 1,
            })
        };
        Ok(SampledProcess {
            name: name.to_owned(),
            input: fill(&ends.read),
            output: fill(&ends.write),
            counters: sampler.sample()?,
            moved: moved(&process)?,
            threads: HashMap::new(),
            counts: StageCounts::default(),
            process,
            sampler,
        })
    }

    fn look(&mut self) {
        let states = self.thread_states();
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

    fn thread_states(&mut self) -> Vec<ThreadState> {
        let Ok(tasks) = self.process.tasks() else {
            return Vec::new();
        };
        let mut states = Vec::new();
        for task in tasks.flatten().take(THREADS_MAX) {
            let Some((letter, cpu_ticks)) = self.stat(task.tid) else {
                continue;
            };
            self.threads.insert(task.tid, cpu_ticks);
            let function = match letter {
                'R' => String::new(),
                _ => self.text(&format!("task/{}/wchan", task.tid)).unwrap_or_default(),
            };
            // It may have begun to run in between: then it waits in no function.
            let letter = match function.as_str() {
                "0" => self.stat(task.tid).map_or(letter, |(letter, _)| letter),
                _ => letter,
            };
            states.push(ThreadState::of(letter, &function));
        }
        states
    }

    fn stat(&self, thread: i32) -> Option<(char, u64)> {
        let text = self.text(&format!("task/{thread}/stat"))?;
        let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
        let letter = fields.next()?.chars().next()?;
        let mut ticks = fields.skip(10).map_while(|field| field.parse::<u64>().ok());
        Some((letter, ticks.next()? + ticks.next()?))
    }

    fn text(&self, file: &str) -> Option<String> {
        let mut text = String::new();
        self.process
            .open_relative(file)
            .ok()?
            .read_to_string(&mut text)
            .ok()?;
        Some(text)
    }

    fn count(&mut self) -> ProcResult<StageCounts> {
        let (counters, moved) = (self.sampler.sample()?, moved(&self.process)?);
        let most = self.threads.values().copied().max().unwrap_or_default();
        let works = |cpu: &&u64| most > 0 && **cpu as f64 >= WORKER_SHARE * most as f64;
        let counts = StageCounts {
            cpu_ns: counters.cpu_ns.saturating_sub(self.counters.cpu_ns),
            runqueue_ns: counters.runqueue_ns.saturating_sub(self.counters.runqueue_ns),
            read_bytes: moved.0.saturating_sub(self.moved.0),
            written_bytes: moved.1.saturating_sub(self.moved.1),
            workers: self.threads.values().filter(works).count().max(1) as u32,
            ..self.counts
        };
        (self.counters, self.moved, self.counts) = (counters, moved, StageCounts::default());
        Ok(counts)
    }
}

/// Bytes that a process has read and written so far, on all descriptors.
fn moved(process: &Process) -> ProcResult<(u64, u64)> {
    let io = process.io()?;
    Ok((io.rchar, io.wchar))
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
    use super::*;

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
