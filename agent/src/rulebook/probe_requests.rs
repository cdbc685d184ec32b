//! The probe requests of rules: the functions, the captures, and the processes.

use std::collections::BTreeMap;

use abi::SpecFlags;
use rules::{
    Base, CheckedRule, Delivery, Engine, FunctionSet, Grouping, Known, Layout, Machine, PlannedCapture,
    PlannedProbe, ProbeId, ProcessFacts, RuleId, Site, Source, SummedValue, Target,
};

use job::Member;
use profile::probe::{CaptureStep, ProbeSelector, Read, Wanted, WantedCapture, WantedSum};

/// Which end of a rule's probe is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Both,
    /// The entry of the first function, for a span between two functions.
    From,
    /// The return of the second function.
    To,
}

/// A probe request of a rule. It is identified by the number of its [`Wanted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeRequest {
    pub(super) rule: RuleId,
    pub(super) probe: ProbeId,
    pub(super) end: End,
}

/// All requests of a rule.
pub(super) fn requests(rule: RuleId, checked: &CheckedRule) -> Vec<ProbeRequest> {
    let mut requests = Vec::new();
    for (place, planned) in checked.plan().probes.iter().enumerate() {
        let ends: &[End] = match (planned.delivers, &planned.to) {
            (Delivery::Nothing, _) => &[],
            // Iterations come without a probe.
            _ if planned.target == Target::LoopIteration => &[],
            (_, None) => &[End::Both],
            (_, Some(_)) => &[End::From, End::To],
        };
        let probe = ProbeId(place);
        requests.extend(ends.iter().map(|&end| ProbeRequest { rule, probe, end }));
    }
    requests
}

impl ProbeRequest {
    /// The rule's probe, as planned.
    pub(super) fn planned(self, engine: &Engine) -> Option<&PlannedProbe> {
        self.checked(engine)?.plan().probes.get(self.probe.0)
    }

    fn checked(self, engine: &Engine) -> Option<&CheckedRule> {
        engine.rule(self.rule)
    }

    /// Whether it applies to a process with these facts.
    pub(super) fn is_of(self, facts: &ProcessFacts, engine: &Engine) -> bool {
        let planned = self.planned(engine);
        planned
            .zip(self.checked(engine))
            .is_some_and(|(planned, checked)| checked.roles_of(facts).contains(&planned.role.as_str()))
    }

    /// Whether the rule only counts its hits over timed windows, or sums times of GPU calls. In both cases it
    /// may be paused.
    pub(super) fn is_counted(self, planned: &PlannedProbe) -> bool {
        let is_counted = (planned.site, planned.delivers) == (Site::Entry, Delivery::Count);
        let is_gpu = matches!(planned.target, Target::Set(FunctionSet::Gpu(_)));
        self.end == End::Both && (is_counted || is_gpu && !planned.delivers.are_hits())
    }

    /// Converts it to a request of the session.
    pub(super) fn wanted(self, planned: &PlannedProbe) -> Option<Wanted> {
        let are_sent = planned.delivers.are_hits();
        let flags = match (self.end, planned.site) {
            (End::Both, Site::Entry) => send(SpecFlags::SEND_ENTRY, are_sent),
            (End::Both, _) => SpecFlags::SPAN | send(SpecFlags::SEND_RETURN, are_sent),
            // The ends of a span are matched here, hit by hit.
            (End::From, _) => SpecFlags::SEND_ENTRY,
            (End::To, _) => SpecFlags::SPAN | SpecFlags::SEND_RETURN,
        };
        let target = match (self.end, &planned.to) {
            (End::To, Some(to)) => to,
            _ => &planned.target,
        };
        let captures = planned
            .captures
            .iter()
            .filter(|capture| self.end.reads(&capture.source));
        Some(Wanted {
            selector: selector(target)?,
            flags: flags
                | send(SpecFlags::PARTS, planned.parts_sums)
                | send(SpecFlags::DECIDES, planned.decides),
            partial_sum: partial_sum(planned),
            captures: captures
                .filter_map(|capture| wanted_capture(capture, planned.site))
                .collect(),
            is_switched: planned.is_switched,
            is_on: !planned.off_at_first,
            is_quiet: false,
            may_pause: false,
            is_counted: self.is_counted(planned),
        })
    }
}

/// The captures and partial sums of each probe of a rule. They are computed once, because there may be
/// millions of hits.
#[derive(Debug, Default)]
pub(super) struct ReadsByProbe(BTreeMap<(RuleId, ProbeId), ProbeReads>);

#[derive(Debug)]
pub(super) struct ProbeReads {
    /// In the order of the captures; `None` for values that need no capture.
    pub(super) reads: Vec<Option<WantedCapture>>,
    pub(super) partial_sum: Option<WantedSum>,
}

impl ReadsByProbe {
    pub(super) fn of(&mut self, request: ProbeRequest, planned: &PlannedProbe) -> &ProbeReads {
        self.0.entry((request.rule, request.probe)).or_insert_with(|| {
            let captures = planned.captures.iter();
            let reads = captures.map(|capture| wanted_capture(capture, planned.site));
            ProbeReads {
                reads: reads.collect(),
                partial_sum: partial_sum(planned),
            }
        })
    }
}

fn send(flag: u32, are_sent: bool) -> u32 {
    if are_sent { flag } else { 0 }
}

/// The possible partial sum of the hits of a rule's probe.
fn partial_sum(planned: &PlannedProbe) -> Option<WantedSum> {
    let partial_sum = planned.partial_sum.as_ref()?;
    let capture = |read: usize| wanted_capture(planned.captures.get(read)?, planned.site);
    let value = |value: &SummedValue| match value {
        SummedValue::Duration => Some(None),
        SummedValue::Read(read) => capture(*read).map(Some),
    };
    let values: Option<Vec<_>> = partial_sum.values.iter().map(value).collect();
    let key = match partial_sum.by {
        Grouping::Read(read) => Some(capture(read)?),
        Grouping::Epoch => None,
    };
    Some(WantedSum { key, values: values? })
}

impl End {
    /// Whether a value is read at this end: return values at the return, all others at the entry.
    pub(super) fn reads(self, source: &Source) -> bool {
        match self {
            End::Both => true,
            End::From => source.base != Base::ReturnValue,
            End::To => source.base == Base::ReturnValue,
        }
    }
}

/// The functions of a target; `None` for what needs no probe.
fn selector(target: &Target) -> Option<ProbeSelector> {
    Some(match target {
        Target::LoopIteration => return None,
        Target::Function(name) => ProbeSelector::Function(name.clone()),
        Target::Pattern(pattern) => ProbeSelector::Pattern(pattern.clone()),
        Target::Set(FunctionSet::Mpi(pattern)) => ProbeSelector::Mpi(pattern.clone()),
        Target::Set(FunctionSet::OpenmpRegion) => ProbeSelector::OpenmpRegion,
        Target::Set(FunctionSet::OpenmpSize) => ProbeSelector::OpenmpSize,
        Target::Set(FunctionSet::BlasCall) => ProbeSelector::BlasCall,
        Target::Set(FunctionSet::Gpu(call)) => ProbeSelector::Gpu(*call),
        Target::Mark(name) => ProbeSelector::Mark(name.clone()),
    })
}

/// A capture of a rule in the form of the session; `None` for values that need no capture. At a return probe,
/// variables are read at the return, because the call may set them.
fn wanted_capture(planned: &PlannedCapture, site: Site) -> Option<WantedCapture> {
    let plain = |what: &str, read, stated| WantedCapture {
        what: what.to_owned(),
        read,
        steps: Vec::new(),
        at_return: false,
        stated: Some((stated, 0)),
    };
    let read = match &planned.source.base {
        Base::Argument(index) => Read::Argument(*index),
        Base::NamedArgument(name) => Read::NamedArgument(name.clone()),
        Base::ReturnValue => Read::ReturnValue,
        Base::Global(name) => Read::Variable(name.clone()),
        Base::Known(Known::Function | Known::Iteration(_)) => return None,
        Base::Known(Known::Bytes) => return Some(plain("the bytes to send", Read::Bytes, "u64")),
        Base::Known(Known::Threads | Known::Stated) => {
            return Some(plain(
                "the size of the team",
                Read::Argument(plan::TEAM_SIZE_ARGUMENT),
                "u32",
            ));
        }
    };
    let steps = planned.source.steps.iter().map(|step| match step {
        rules::Step::Field(name) => CaptureStep::Field(name.clone()),
        rules::Step::Index(index) => CaptureStep::Index(*index),
        rules::Step::Dereference => CaptureStep::Dereference,
    });
    let stated = planned.layout.and_then(|layout| match layout {
        Layout::Str(length) => Some(("str", length)),
        number => {
            let known = Layout::ALL.iter().find(|(_, known)| *known == number);
            known.map(|(name, _)| (*name, 0))
        }
    });
    Some(WantedCapture {
        what: what(&planned.source),
        read,
        steps: steps.collect(),
        at_return: site == Site::Return,
        stated,
    })
}

/// The source as rules and recordings write it.
fn what(source: &Source) -> String {
    match (&source.base, source.steps.as_slice()) {
        (Base::ReturnValue, []) => "ret".to_owned(),
        _ => source.to_string(),
    }
}

/// The facts that decide the roles of a process; `symbols` are those that rules name.
pub(crate) fn facts<'a>(member: &Member, symbols: impl IntoIterator<Item = &'a String>) -> ProcessFacts {
    facts_by(member, symbols.into_iter(), |symbol| member.has_variable(symbol))
}

/// As [`facts`], with a function that looks up variables.
pub(super) fn facts_by<'a>(
    member: &Member,
    symbols: impl Iterator<Item = &'a String>,
    mut has_variable: impl FnMut(&str) -> bool,
) -> ProcessFacts {
    ProcessFacts {
        rank: member.rank.map(|rank| rank.number),
        pid: u32::try_from(member.process.pid.number).ok(),
        size: member.rank.and_then(|rank| rank.size),
        exe: member.program(),
        mpi: member.mpi.as_ref().map(|mpi| mpi.implementation.name.to_owned()),
        libraries: member.libraries().collect(),
        symbols: symbols.filter(|symbol| has_variable(symbol)).cloned().collect(),
        host: Some(job::host()),
        machine: Machine::default(),
    }
}
