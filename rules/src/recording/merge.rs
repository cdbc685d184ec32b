//! Several recordings as one: one clock, one numbering of processes and probes. Nothing is evaluated here.
//!
//! Clocks are joined by what the headers say of them; how well the hosts' wall clocks agree is not known
//! here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::fmt;

use super::reader::Reader;
use super::record::{Header, ProbeDefinition, ProbeKey, Record};
use super::{ReadError, record};
use crate::value::{Machine, ProcessId, Time};

/// A record of one of several recordings, with the numbers and the clock of all.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// Where it comes from: an index into [`RecordingMerge::headers`].
    pub source: usize,
    /// The machine that it was made on.
    pub machine: Machine,
    pub record: Record,
}

/// One of several recordings cannot be read further; the others go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Which: an index into [`RecordingMerge::headers`].
    pub source: usize,
    pub host: String,
    pub error: ReadError,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.error)
    }
}

impl std::error::Error for Broken {}

/// Joins recordings: the records of each in their order, between them the one with the earlier time first.
///
/// - The order in which recordings are given does not matter: they are sorted by their headers. At equal
///   times the recording that comes first in that order goes first.
/// - Times count from the moment at which the clock of the host that started first was 0; of a single
///   recording they are what they were.
/// - Processes get new numbers, in the order in which they appear; [`RecordingMerge::host`] returns where one
///   is.
/// - Probes of several recordings with one definition get one number, and the definition comes once. Those of
///   one recording stay apart.
/// - A record without a time goes with the one before it.
#[derive(Clone, Debug)]
pub struct RecordingMerge<'a> {
    sources: Vec<Source<'a>>,
    /// Time and source of the next record of each.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    broken: VecDeque<Broken>,
    processes: BTreeMap<(usize, ProcessId), ProcessId>,
    /// By the new number of a process, its source.
    origins: Vec<usize>,
    /// The new number, and which family of equal definitions it belongs to.
    probes: BTreeMap<(usize, ProbeKey), (ProbeKey, Option<usize>)>,
    families: BTreeMap<ProbeDefinition, usize>,
    /// Of each family its numbers: several where one recording has several such probes, for several rules.
    members: Vec<Vec<ProbeKey>>,
    /// How many of a family's numbers a recording uses.
    used: BTreeMap<(usize, usize), usize>,
    next_probe: u32,
}

#[derive(Clone, Debug)]
struct Source<'a> {
    reader: Reader<'a>,
    /// Recordings of one host have one.
    machine: Machine,
    /// What is added to its times.
    shift: u64,
    head: Option<Record>,
    /// Time of its last record, in the common clock.
    time: u64,
}

impl<'a> RecordingMerge<'a> {
    /// Joins what these readers have still to give.
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
            Source {
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
            broken: VecDeque::new(),
            processes: BTreeMap::new(),
            origins: Vec::new(),
            probes: BTreeMap::new(),
            families: BTreeMap::new(),
            members: Vec::new(),
            used: BTreeMap::new(),
            next_probe: 0,
        };
        (0..merge.sources.len()).for_each(|source| merge.advance(source));
        merge
    }

    /// The headers of the recordings, in the order of their indices.
    pub fn headers(&self) -> impl Iterator<Item = &Header> {
        self.sources.iter().map(|source| source.reader.header())
    }

    /// The host of a process; none for one that has not appeared yet.
    pub fn host(&self, process: ProcessId) -> Option<&str> {
        let home = self.origins.get(usize::try_from(process.0).ok()?)?;
        Some(&self.sources.get(*home)?.reader.header().host)
    }

    /// How many records of newer versions were left out so far.
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

    /// Gives a definition its number: to the first probe of a recording that has it the first, to the next
    /// one the next. True when it is a new number.
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

    /// False for a definition that was there already.
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
