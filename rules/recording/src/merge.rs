//! Merges several recordings into one, with one clock and one numbering of processes and probes. Nothing is
//! evaluated here.
//!
//! Clocks are aligned by the headers; how well the wall clocks of the hosts agree is unknown here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::fmt;

use super::reader::Reader;
use super::record::{Header, ProbeDefinition, ProbeKey, Record};
use super::{ReadError, record};
use rules::{Machine, ProcessId, Time};

/// A record of one of several recordings, with merged numbers and the common clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The recording it is from: an index into [`RecordingMerge::headers`].
    pub source: usize,
    /// The machine on which it was recorded.
    pub machine: Machine,
    pub record: Record,
}

/// One of several recordings cannot be read further; the others continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The recording: an index into [`RecordingMerge::headers`].
    pub source: usize,
    pub host: String,
    pub error: ReadError,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.error)
    }
}

impl std::error::Error for Broken {
    /// The message has the text of the error in it, so the cause is that of the error.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Merges recordings: the records of each stay in order; among recordings, the record with the earlier time
/// comes first.
///
/// - The order of the arguments does not matter: recordings are sorted by their headers. At equal times the
///   recording that is first in that order comes first.
/// - Times count from the moment at which the clock of the host that started first was 0; the times of a
///   single recording are unchanged.
/// - Processes get new numbers in order of appearance; [`RecordingMerge::host`] returns the host of one.
/// - Equal probe definitions of several recordings get one number, and the definition appears once. Equal
///   definitions in one recording stay separate.
/// - A record without a time follows its predecessor.
#[derive(Clone, Debug, Default)]
pub struct RecordingMerge<'a> {
    sources: Vec<MergeInput<'a>>,
    /// Time and source of the next record of each recording.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    broken: VecDeque<Broken>,
    processes: BTreeMap<(usize, ProcessId), ProcessId>,
    /// The source of each process, by its new number.
    origins: Vec<usize>,
    /// The new number, and the family of equal definitions to which it belongs.
    probes: BTreeMap<(usize, ProbeKey), (ProbeKey, Option<usize>)>,
    families: BTreeMap<ProbeDefinition, usize>,
    /// The numbers of each family: several if one recording has several such probes, for several rules.
    members: Vec<Vec<ProbeKey>>,
    /// How many numbers of a family a recording uses.
    used: BTreeMap<(usize, usize), usize>,
    next_probe: u32,
}

#[derive(Clone, Debug)]
struct MergeInput<'a> {
    reader: Reader<'a>,
    /// Recordings of one host have the same machine.
    machine: Machine,
    /// The offset that is added to its times.
    shift: u64,
    head: Option<Record>,
    /// Time of its last record, in the common clock.
    time: u64,
}

impl<'a> RecordingMerge<'a> {
    /// Merges the remaining records of the readers.
    pub fn new(mut readers: Vec<Reader<'a>>) -> RecordingMerge<'a> {
        readers.sort_by(|a, b| rank(a.header()).cmp(&rank(b.header())));
        let zero = |header: &Header| i128::from(header.wall_start_ns) - i128::from(header.origin.0);
        let first = readers.iter().map(|reader| zero(reader.header())).min();
        let hosts: BTreeSet<String> = readers
            .iter()
            .map(|reader| reader.header().host.clone())
            .collect();
        let source = |reader: Reader<'a>| {
            let shift = zero(reader.header()) - first.unwrap_or_default();
            let place = hosts.iter().position(|host| *host == reader.header().host);
            MergeInput {
                machine: Machine(
                    place
                        .and_then(|place| u32::try_from(place).ok())
                        .unwrap_or(u32::MAX),
                ),
                shift: u64::try_from(shift).unwrap_or(u64::MAX),
                reader,
                head: None,
                time: 0,
            }
        };
        let mut merge = RecordingMerge {
            sources: readers.into_iter().map(source).collect(),
            heads: BinaryHeap::new(),
            ..RecordingMerge::default()
        };
        (0..merge.sources.len()).for_each(|source| merge.advance(source));
        merge
    }

    /// The headers of the recordings, in the order of their indices.
    pub fn headers(&self) -> impl Iterator<Item = &Header> {
        self.sources.iter().map(|source| source.reader.header())
    }

    /// The host of a process; `None` for one that has not appeared yet.
    pub fn host(&self, process: ProcessId) -> Option<&str> {
        let home = self.origins.get(usize::try_from(process.0).ok()?)?;
        Some(&self.sources.get(*home)?.reader.header().host)
    }

    /// Number of records of newer versions that were left out so far.
    pub fn skipped(&self) -> u64 {
        self.sources.iter().map(|source| source.reader.skipped()).sum()
    }

    fn advance(&mut self, index: usize) {
        let Some(source) = self.sources.get_mut(index) else {
            return;
        };
        match source.reader.next() {
            Some(Ok(mut record)) => {
                if let Record::HitsLost { from, .. } = &mut record {
                    *from = Time(from.0.saturating_add(source.shift));
                }
                if let (Some(time), _, _) = record.parts() {
                    *time = Time(time.0.saturating_add(source.shift));
                    source.time = time.0;
                }
                self.heads.push(Reverse((source.time, index)));
                source.head = Some(record);
            }
            Some(Err(error)) => self.broken.push_back(Broken {
                source: index,
                host: source.reader.header().host.clone(),
                error,
            }),
            None => {}
        }
    }

    /// Assigns a number to a definition: the n-th probe of a recording with this definition gets the n-th
    /// number of the family. True for a new number.
    fn define(&mut self, source: usize, probe: ProbeKey, definition: &ProbeDefinition) -> bool {
        let next_probe = &mut self.next_probe;
        let family = match self.families.get(definition) {
            Some(family) => *family,
            None => {
                self.families.insert(definition.clone(), self.members.len());
                self.members.push(Vec::new());
                self.members.len() - 1
            }
        };
        if self
            .probes
            .get(&(source, probe))
            .is_some_and(|(_, of)| *of == Some(family))
        {
            return false;
        }
        let used = self.used.entry((source, family)).or_default();
        let known = self
            .members
            .get(family)
            .and_then(|members| members.get(*used))
            .copied();
        *used += 1;
        let number = known.unwrap_or_else(|| new_probe(next_probe));
        if let (None, Some(members)) = (known, self.members.get_mut(family)) {
            members.push(number);
        }
        self.probes.insert((source, probe), (number, Some(family)));
        known.is_none()
    }

    /// False for a definition that has appeared before.
    fn renumber(&mut self, source: usize, record: &mut Record) -> bool {
        let mut is_new = true;
        if let Record::ProbeDefined { probe, definition } = record {
            is_new = self.define(source, *probe, definition);
        }
        let (_, process, probe) = record.parts();
        if let Some(process) = process {
            let origins = &mut self.origins;
            *process = *self.processes.entry((source, *process)).or_insert_with(|| {
                origins.push(source);
                ProcessId(u32::try_from(origins.len() - 1).unwrap_or(u32::MAX))
            });
        }
        if let Some(probe) = probe {
            let next = &mut self.next_probe;
            let undefined = || (new_probe(next), None);
            (*probe, _) = *self.probes.entry((source, *probe)).or_insert_with(undefined);
        }
        is_new
    }
}

fn new_probe(next: &mut u32) -> ProbeKey {
    let number = ProbeKey(*next);
    *next = next.saturating_add(1);
    number
}

fn rank(header: &Header) -> impl Ord + '_ {
    let record::Header {
        host,
        program,
        wall_start_ns,
        origin,
        notes,
    } = header;
    (host, wall_start_ns, origin, program, notes)
}

impl Iterator for RecordingMerge<'_> {
    type Item = Result<Merged, Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(broken) = self.broken.pop_front() {
                return Some(Err(broken));
            }
            let Reverse((_, source)) = self.heads.pop()?;
            let of = self.sources.get_mut(source)?;
            let (machine, head) = (of.machine, of.head.take());
            self.advance(source);
            if let Some(mut record) = head
                && self.renumber(source, &mut record)
            {
                if let Record::ProcessJoined { facts, .. } | Record::ProcessLearned { facts, .. } =
                    &mut record
                {
                    facts.machine = machine;
                }
                return Some(Ok(Merged {
                    source,
                    machine,
                    record,
                }));
            }
        }
    }
}
