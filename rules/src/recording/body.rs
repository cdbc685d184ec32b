//! The bodies of the records that belong to no stream, both ways side by side. Streams are in `stream`.
//!
//! A newer minor version may add fields at the end of a body: they are not looked at.

use std::collections::BTreeSet;

use super::record::{Header, Place, ProbeDefinition, ProbeKey, Reason, Record};
use super::stream::{tagged_type, type_tag};
use super::wire::{Cursor, Wrong, put_difference, put_number, put_size, put_text, within};
use super::{MAX_CAPTURES, MAX_NOTES, TooLarge, apart};
use crate::facts::ProcessFacts;
use crate::value::{Machine, ProcessId, Time};

/// The kinds of records. A new one gets a new number and does not touch the clock of differences.
pub(super) mod kind {
    pub(in super::super) const HEADER: u64 = 1;
    pub(in super::super) const END: u64 = 2;
    pub(in super::super) const STREAM: u64 = 3;
    pub(in super::super) const SAMPLE: u64 = 4;
    pub(in super::super) const FORGET: u64 = 5;
    pub(in super::super) const JOINED: u64 = 6;
    pub(in super::super) const LEARNED: u64 = 7;
    pub(in super::super) const LEFT: u64 = 8;
    pub(in super::super) const PROBE: u64 = 9;
    pub(in super::super) const WATERMARK: u64 = 10;
    pub(in super::super) const LOSS: u64 = 11;
    pub(in super::super) const HITS_LOST: u64 = 12;
    pub(in super::super) const TICK: u64 = 13;
    pub(in super::super) const RULE: u64 = 14;
    pub(in super::super) const ITERATIONS: u64 = 15;
    pub(in super::super) const VARIABLE: u64 = 16;
    pub(in super::super) const ESTIMATED: u64 = 17;
    pub(in super::super) const MARKED: u64 = 18;
}

pub(super) fn put_header(out: &mut Vec<u8>, header: &Header) -> Result<(), TooLarge> {
    put_text(out, "the name of the host", &header.host)?;
    put_text(out, "the name of the program", &header.program)?;
    put_number(out, header.wall_start_ns);
    put_number(out, header.origin.0);
    within("the list of notes", header.notes.len(), MAX_NOTES)?;
    put_size(out, header.notes.len());
    for (name, text) in &header.notes {
        put_text(out, "the name of a note", name)?;
        put_text(out, "a note", text)?;
    }
    Ok(())
}

pub(super) fn header(body: &mut Cursor<'_>) -> Result<Header, Wrong> {
    let mut header = Header {
        host: body.text()?,
        program: body.text()?,
        wall_start_ns: body.number()?,
        origin: Time(body.number()?),
        ..Header::default()
    };
    let notes = body.size()?;
    if notes > MAX_NOTES {
        return Err("there are more notes than there may be");
    }
    for _ in 0..notes {
        let name = body.text()?;
        header.notes.insert(name, body.text()?);
    }
    Ok(header)
}

/// Writes the body of a record and says its kind; none for those that belong to streams. `before` is the time of the
/// record before.
pub(super) fn put_single(out: &mut Vec<u8>, record: &Record, before: u64) -> Result<Option<u64>, TooLarge> {
    Ok(Some(match record {
        Record::ProcessJoined { process, time, facts } => {
            put_process(out, *process, *time, before);
            put_facts(out, facts)?;
            kind::JOINED
        }
        Record::ProcessLearned { process, time, facts } => {
            put_process(out, *process, *time, before);
            put_facts(out, facts)?;
            kind::LEARNED
        }
        Record::ProcessLeft { process, time } => {
            put_process(out, *process, *time, before);
            kind::LEFT
        }
        Record::Watermark { process, time } => {
            put_process(out, *process, *time, before);
            kind::WATERMARK
        }
        Record::HitsLost { process, from, to } => {
            put_process(out, *process, *to, before);
            put_difference(out, from.0, to.0);
            kind::HITS_LOST
        }
        Record::ProbeDefined { probe, definition } => {
            put_number(out, u64::from(probe.0));
            put_probe(out, definition)?;
            kind::PROBE
        }
        Record::Tick { time } => {
            put_difference(out, time.0, before);
            kind::TICK
        }
        Record::Loss { time, kind, count } => {
            put_difference(out, time.0, before);
            put_text(out, "the name of a loss", kind)?;
            put_number(out, *count);
            kind::LOSS
        }
        apart => return apart::put(out, apart),
    }))
}

fn put_process(out: &mut Vec<u8>, process: ProcessId, time: Time, before: u64) {
    put_number(out, u64::from(process.0));
    put_difference(out, time.0, before);
}

fn process(body: &mut Cursor<'_>, clock: &mut u64) -> Result<(ProcessId, Time), Wrong> {
    let process = ProcessId(body.small()?);
    *clock = body.difference(*clock)?;
    Ok((process, Time(*clock)))
}

/// Reads the body of a record of this kind and sets the time; none for a kind or a type that is not known.
pub(super) fn single(kind: u64, body: &mut Cursor<'_>, clock: &mut u64) -> Result<Option<Record>, Wrong> {
    Ok(Some(match kind {
        kind::JOINED => {
            let (process, time) = process(body, clock)?;
            let facts = facts(body)?;
            Record::ProcessJoined { process, time, facts }
        }
        kind::LEARNED => {
            let (process, time) = process(body, clock)?;
            let facts = facts(body)?;
            Record::ProcessLearned { process, time, facts }
        }
        kind::LEFT => {
            let (process, time) = process(body, clock)?;
            Record::ProcessLeft { process, time }
        }
        kind::WATERMARK => {
            let (process, time) = process(body, clock)?;
            Record::Watermark { process, time }
        }
        kind::HITS_LOST => {
            let (process, to) = process(body, clock)?;
            let from = Time(body.difference(to.0)?);
            Record::HitsLost { process, from, to }
        }
        kind::PROBE => {
            let probe = ProbeKey(body.small()?);
            match definition(body)? {
                Some(definition) => Record::ProbeDefined { probe, definition },
                None => return Ok(None),
            }
        }
        kind::TICK => {
            *clock = body.difference(*clock)?;
            Record::Tick { time: Time(*clock) }
        }
        kind::LOSS => {
            *clock = body.difference(*clock)?;
            Record::Loss {
                time: Time(*clock),
                kind: body.text()?,
                count: body.number()?,
            }
        }
        _ => return apart::read(kind, body),
    }))
}

fn put_facts(out: &mut Vec<u8>, facts: &ProcessFacts) -> Result<(), TooLarge> {
    // All of them by name: a new fact does not compile until it is recorded, at the end of the body.
    let ProcessFacts {
        rank,
        size,
        exe,
        mpi,
        libraries,
        symbols,
        host,
        // That of the recording.
        machine: _,
    } = facts;
    for number in [rank, size] {
        put_number(out, number.map_or(0, |number| u64::from(number) + 1));
    }
    put_text(out, "the name of a program", exe)?;
    out.push(u8::from(mpi.is_some()));
    put_text(
        out,
        "the name of an MPI library",
        mpi.as_deref().unwrap_or_default(),
    )?;
    put_texts(out, "the name of a library", libraries)?;
    put_texts(out, "the name of a symbol", symbols)?;
    // Not the header's: what is recorded may have come from several hosts.
    out.push(u8::from(host.is_some()));
    put_text(out, "the name of a host", host.as_deref().unwrap_or_default())
}

fn facts(body: &mut Cursor<'_>) -> Result<ProcessFacts, Wrong> {
    let number = |body: &mut Cursor<'_>| -> Result<Option<u32>, Wrong> {
        match body.number()? {
            0 => Ok(None),
            more => u32::try_from(more - 1)
                .map(Some)
                .map_err(|_| "a number has more than 32 bits"),
        }
    };
    let (rank, size) = (number(body)?, number(body)?);
    let exe = body.text()?;
    let has_mpi = super::stream::boolean(body.byte()?)?;
    let mpi = body.text()?;
    let (libraries, symbols) = (texts(body)?, texts(body)?);
    let has_host = super::stream::boolean(body.byte()?)?;
    let host = body.text()?;
    Ok(ProcessFacts {
        rank,
        size,
        exe,
        mpi: has_mpi.then_some(mpi),
        libraries,
        symbols,
        host: has_host.then_some(host),
        machine: Machine::default(),
    })
}

fn put_texts(out: &mut Vec<u8>, what: &'static str, texts: &BTreeSet<String>) -> Result<(), TooLarge> {
    put_size(out, texts.len());
    texts.iter().try_for_each(|text| put_text(out, what, text))
}

fn texts(body: &mut Cursor<'_>) -> Result<BTreeSet<String>, Wrong> {
    // Each takes a byte at least, so that a wrong count ends where the body ends.
    (0..body.size()?).map(|_| body.text()).collect()
}

const PLACES: [(Place, u8); 3] = [(Place::Entry, 1), (Place::Return, 2), (Place::Span, 3)];

fn put_probe(out: &mut Vec<u8>, definition: &ProbeDefinition) -> Result<(), TooLarge> {
    let ProbeDefinition {
        name,
        function,
        place,
        captures,
    } = definition;
    put_text(out, "the name of a probe", name)?;
    put_text(out, "the name of a function", function)?;
    let code = PLACES.iter().find(|(known, _)| known == place);
    out.push(code.map_or(0, |(_, code)| *code));
    within("the list of a probe's captures", captures.len(), MAX_CAPTURES)?;
    put_size(out, captures.len());
    for (name, of) in captures {
        put_text(out, "the name of a capture", name)?;
        out.push(type_tag(*of));
    }
    Ok(())
}

/// None where the place or a type is not known.
fn definition(body: &mut Cursor<'_>) -> Result<Option<ProbeDefinition>, Wrong> {
    let (name, function) = (body.text()?, body.text()?);
    let code = body.byte()?;
    let place = PLACES.iter().find(|(_, known)| *known == code);
    let count = body.size()?;
    if count > MAX_CAPTURES {
        return Err("a probe has more captures than probes may have");
    }
    let mut captures = Vec::new();
    let mut known = true;
    for _ in 0..count {
        let name = body.text()?;
        match tagged_type(body.byte()?) {
            Some(of) => captures.push((name, of)),
            None => known = false,
        }
    }
    let definition = |place: &(Place, u8)| ProbeDefinition {
        name: name.clone(),
        function: function.clone(),
        place: place.0,
        captures,
    };
    Ok(place.filter(|_| known).map(definition))
}

const REASONS: [(Reason, u8); 6] = [
    (Reason::Unknown, 0),
    (Reason::NotMeasured, 1),
    (Reason::Unreadable, 2),
    (Reason::Lost, 3),
    (Reason::Incomplete, 4),
    (Reason::InsideCall, 5),
];

pub(super) fn reason_code(reason: Reason) -> u8 {
    let known = REASONS.iter().find(|(known, _)| *known == reason);
    known.map_or(0, |(_, code)| *code)
}

pub(super) fn reason(code: u8) -> Reason {
    let known = REASONS.iter().find(|(_, known)| *known == code);
    known.map_or(Reason::Unknown, |(reason, _)| *reason)
}
