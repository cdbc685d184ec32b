//! Passes observations from the kernel side to every rule that requests them: hits with their captures,
//! totals of functions, and totals of MPI by function.

use std::sync::Arc;

use abi::{HitKind, HitRecord, SumSpec, TextRecord, Totals};
use profile::probe::{Probe, WantedCapture, number_of, sum_spec};
use rules::{
    Base, Group, Grouping, Known, Measure, Observation, PartialSum, PlannedCapture, PlannedProbe, PlannedSum,
    ProbeId, ProcessId, Reads, RuleId, Scalar, Site, Sums, Time,
};

use super::{
    ProbePlaces, RuleBook,
    pairs::Entered,
    probe_requests::{End, ProbeRequest},
    texts::Texts,
};

/// The counters of a process for one probed function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ProbeCounters {
    pub(super) calls: u64,
    pub(super) timed: u64,
    /// Time of calls that have returned.
    pub(super) time_ns: u64,
    /// Includes open calls, if they are known.
    pub(super) time_with_open_ns: u64,
    /// `None` if not counted.
    pub(super) bytes: Option<u64>,
}

impl ProbeCounters {
    pub(super) fn of(totals: &Totals, time_with_open_ns: u64) -> ProbeCounters {
        ProbeCounters {
            calls: totals.calls,
            timed: totals.timed,
            time_ns: totals.time_ns,
            time_with_open_ns,
            bytes: Some(totals.bytes),
        }
    }
}

/// What the observed hits require.
#[derive(Debug, Default)]
pub(super) struct SeenHits {
    /// A hit that can trigger a decision at once was observed since the last `take_may_decide`.
    may_decide: bool,
    /// A hit at which a window may end was observed since the last evaluation.
    pub(super) is_due: bool,
    /// A hit that separates partial sums was observed since this was last cleared.
    parts_sums: bool,
}

impl RuleBook {
    /// A text that belongs to a hit that will follow.
    pub(crate) fn observe_text(&mut self, text: &TextRecord) {
        self.texts.add(text);
    }

    pub(crate) fn observe_hit(&mut self, hit: &HitRecord, probes: &[Probe]) {
        let Some(probe) = probes.get(hit.probe as usize) else {
            return;
        };
        let texts = self.texts.of(hit, probe);
        if let Some(recorder) = &mut self.recorder {
            recorder.hit(hit, &texts, probes);
        }
        self.ingest(hit, &texts, probe);
    }

    /// Passes on a hit after it was recorded, or from a recording.
    pub(super) fn ingest(&mut self, hit: &HitRecord, texts: &Texts, probe: &Probe) {
        for index in &probe.wanted {
            let Some(request) = self.requests.get(index).copied() else {
                continue;
            };
            let Some(planned) = request.planned(&self.engine) else {
                continue;
            };
            let kind = match (request.end, planned.site) {
                (End::Both, Site::Entry) | (End::From, _) => HitKind::Entry,
                _ => HitKind::Return,
            };
            if hit.kind != kind as u16 || !self.is_on(request.rule, request.probe, hit.process) {
                continue;
            }
            let of = (request.rule, request.probe);
            let captures = planned
                .captures
                .iter()
                .zip(&self.reads.of(request, planned).reads);
            let reads = captures.map(|(capture, wanted)| match request.end.reads(&capture.source) {
                true => read(capture, wanted.as_ref(), hit, texts, probe),
                false => Err(NoCapture::OtherEnd),
            });
            let reads: Reads = reads
                .map(|read| read.map_err(|error| error.to_string()))
                .collect();
            let is_observed = planned.delivers.are_hits();
            self.seen.parts_sums |= planned.parts_sums;
            self.seen.is_due |= planned.decides;
            let (began_ns, captures) = match request.end {
                End::From => {
                    let entered = Entered {
                        time_ns: hit.time_ns,
                        reads,
                    };
                    self.pairs.enter(of, hit.process, hit.thread, entered);
                    continue;
                }
                End::To => match self.pairs.leave(of, hit.process, hit.thread, hit.time_ns) {
                    Some(entered) => (entered.time_ns, together(planned, entered.reads, reads)),
                    None => continue,
                },
                End::Both if kind == HitKind::Return && hit.duration_ns != abi::NO_DURATION => {
                    (hit.time_ns.saturating_sub(hit.duration_ns), reads)
                }
                End::Both => (hit.time_ns, reads),
            };
            if is_observed {
                let observed = Observation::Hit {
                    rule: request.rule,
                    probe: request.probe,
                    process: ProcessId(hit.process),
                    thread: hit.thread,
                    time: Time(hit.time_ns),
                    duration_ns: hit.time_ns.saturating_sub(began_ns),
                    captures,
                };
                if self.engine.may_decide_at(request.rule, request.probe) {
                    self.seen.may_decide = true;
                    self.warm_up.remember(&observed);
                }
                self.pass(observed);
            }
        }
    }

    /// A partial sum of hits at a probe. Sums of hits before a separating hit must be observed before the
    /// watermark that covers that hit.
    pub(crate) fn observe_partial_sum(&mut self, partial_sum: &abi::SumCell, probe: &Probe) {
        // The sum was made for an earlier aggregation rule.
        if partial_sum.number != u64::from(probe.spec.partial_sum.number) {
            return;
        }
        for index in &probe.wanted {
            let Some(request) = self.requests.get(index).copied() else {
                continue;
            };
            let Some(planned) = request.planned(&self.engine) else {
                continue;
            };
            let wanted = self.reads.of(request, planned).partial_sum.as_ref();
            let wanted = wanted.and_then(|wanted| sum_spec(wanted, probe));
            let known = Some(SumSpec {
                number: 0,
                ..probe.spec.partial_sum
            });
            // If they differ, the sum was made for other requests, and this one required each hit.
            let Some(requested) = planned.partial_sum.as_ref().filter(|_| wanted == known) else {
                continue;
            };
            let observation = Observation::PartialSum {
                rule: request.rule,
                probe: request.probe,
                process: ProcessId(partial_sum.process),
                partial_sum: reported(partial_sum, requested),
            };
            self.pass(observation);
        }
    }

    /// Hits of these processes were lost between these times.
    pub(crate) fn lost(&mut self, slots: impl Iterator<Item = u32>, from_ns: u64, to_ns: u64) {
        self.pairs.forget_open();
        for slot in slots {
            let (process, from, to) = (ProcessId(slot), Time(from_ns), Time(to_ns));
            self.report(Observation::Lost { process, from, to });
        }
    }

    /// Returns and clears whether a hit was observed that can trigger a decision at once.
    pub(crate) fn take_may_decide(&mut self) -> bool {
        std::mem::take(&mut self.seen.may_decide)
    }

    /// Whether a hit at which a window may end was observed since the last evaluation.
    pub(crate) fn has_due(&self) -> bool {
        self.seen.is_due
    }

    /// Whether partial sums must be read because of a separating hit.
    pub(crate) fn has_parted(&self) -> bool {
        self.seen.parts_sums
    }

    /// The partial sums before the observed hits have been read, and are covered by a watermark.
    pub(crate) fn forget_parted(&mut self) {
        self.seen.parts_sums = false;
    }

    /// Whether a probe of a rule is switched on in a process.
    pub(super) fn is_on(&self, rule: RuleId, probe: ProbeId, slot: u32) -> bool {
        let checked = self.engine.rule(rule);
        checked.is_some_and(|checked| self.switches.is_on((rule, probe, slot), checked.plan()))
    }

    /// Passes the counters of a process at one moment to every rule that requests them; `counted` is indexed
    /// by probe.
    pub(super) fn ingest_totals(
        &mut self,
        slot: u32,
        time: Time,
        probes: &[Probe],
        places: &ProbePlaces,
        counted: &Arc<[ProbeCounters]>,
    ) {
        self.ingest_calls(slot, time, probes, places, counted);
        let mut reported = Vec::new();
        for (&index, request) in &self.requests {
            let Some(planned) = request.planned(&self.engine) else {
                continue;
            };
            let read = match request.end {
                End::Both => sum(places.of(index), planned.site, counted),
                End::From => Some(self.pairs.totals((request.rule, request.probe), slot)),
                End::To => None,
            };
            let is_switched = planned.is_switched && request.end == End::Both;
            let rests = self.resting.contains(&index);
            reported
                .extend(read.map(|read| (*request, is_switched || request.is_counted(planned), rests, read)));
        }
        for (request, comes_and_goes, rests, read) in reported {
            let totals = match comes_and_goes {
                true => {
                    let is_on = !rests && self.is_on(request.rule, request.probe, slot);
                    self.switches
                        .totals((request.rule, request.probe, slot), is_on, read)
                }
                false => Some(read),
            };
            if let Some((count, duration_sum_ns)) = totals {
                self.ingest_probe_totals(request, slot, time, count, duration_sum_ns);
            }
        }
    }

    fn ingest_probe_totals(
        &mut self,
        request: ProbeRequest,
        slot: u32,
        time: Time,
        count: u64,
        duration_sum_ns: u64,
    ) {
        self.pass(Observation::ProbeTotals {
            rule: request.rule,
            probe: request.probe,
            process: ProcessId(slot),
            time,
            count,
            duration_sum_ns,
        });
    }

    /// Passes on counters of MPI by function, if a rule requests them.
    fn ingest_calls(
        &mut self,
        slot: u32,
        time: Time,
        probes: &[Probe],
        places: &ProbePlaces,
        all: &Arc<[ProbeCounters]>,
    ) {
        let requested = &places.by_call;
        if requested.is_empty() {
            return;
        }
        let last = self.last_readings.get(&slot);
        let observed = last.and_then(|last| last.calls.as_ref());
        let observed = observed.filter(|(before, _)| before == requested);
        // The coordinator of a job on several machines needs each reading.
        if self.part.is_none()
            && observed.is_some_and(|(_, before)| Arc::ptr_eq(before, all) || before == all)
        {
            return self.engine.calls_stand(ProcessId(slot), time);
        }
        for (place, sends) in &places.mpi {
            let (Some(probe), Some(counted)) = (probes.get(*place), all.get(*place)) else {
                continue;
            };
            for &measure in requested {
                let total = match measure {
                    Measure::MpiTime => Some(counted.time_with_open_ns),
                    Measure::MpiCalls => Some(counted.calls),
                    Measure::MpiBytes => counted.bytes.filter(|_| *sends),
                    _ => None,
                };
                if let Some(total) = total {
                    self.pass(Observation::CallCounter {
                        process: ProcessId(slot),
                        measure,
                        call: probe.name.clone(),
                        time,
                        total,
                    });
                }
            }
        }
        let last = self.last_readings.entry(slot).or_default();
        last.calls = Some((requested.clone(), Arc::clone(all)));
    }
}

/// Converts a partial sum for the engine.
fn reported(partial_sum: &abi::SumCell, requested: &PlannedSum) -> PartialSum {
    let joined = |low: u64, high: u64| u128::from(high) << 64 | u128::from(low);
    let sums = partial_sum
        .sums
        .iter()
        .take(requested.values.len())
        .map(|sums| Sums {
            sum: joined(sums.sum_low, sums.sum_high) as i128,
            squares: joined(sums.squares_low, sums.squares_high),
            least: sums.least,
            greatest: sums.greatest,
        });
    PartialSum {
        group: match requested.by {
            Grouping::Read(_) => Group::Key(partial_sum.key as i64),
            Grouping::Epoch => Group::Epoch(partial_sum.key),
        },
        first: Time(partial_sum.first_ns),
        last: Time(partial_sum.last_ns),
        count: partial_sum.count,
        sums: sums.collect(),
    }
}

/// The sum over all functions of the request, by their indices; `None` if none is probed.
fn sum(places: &[usize], site: Site, counted: &[ProbeCounters]) -> Option<(u64, u64)> {
    let of = places.iter().filter_map(|place| counted.get(*place));
    let totals = of.map(|counted| match site {
        Site::Entry => (counted.calls, 0),
        Site::Return | Site::Span => (counted.timed, counted.time_ns),
    });
    totals.reduce(|(count, sum_ns), (more, more_ns)| (count + more, sum_ns + more_ns))
}

/// Combines the captures of both ends of a span between two functions.
fn together(planned: &PlannedProbe, entered: Reads, left: Reads) -> Reads {
    let both = planned.captures.iter().zip(entered).zip(left);
    both.map(|((capture, entered), left)| {
        if End::To.reads(&capture.source) {
            left
        } else {
            entered
        }
    })
    .collect()
}

/// Why a rule's capture has no value at a hit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum NoCapture {
    #[error("it is read at the other end of the span")]
    OtherEnd,
    #[error("{0} does not get the number of threads of its team")]
    NoTeam(String),
    #[error("nothing is read for it")]
    NotRequested,
    #[error("it is not captured in this session")]
    NotCaptured,
    #[error("the bytes of this {0} are not known")]
    Bytes(String),
    #[error("it could not be read in the program at this hit")]
    Unreadable,
    #[error("its text was lost")]
    TextLost,
    #[error("its type cannot be read")]
    Type,
    #[error("the team has the size that the library gives by default, which is not passed")]
    DefaultTeam,
}

/// The value of a rule's capture at a hit.
fn read(
    planned: &PlannedCapture,
    wanted: Option<&WantedCapture>,
    hit: &HitRecord,
    texts: &Texts,
    probe: &Probe,
) -> Result<Scalar, NoCapture> {
    let known = match planned.source.base {
        Base::Known(Known::Function) => return Ok(Scalar::Text(probe.name.as_str().into())),
        Base::Known(known) => Some(known),
        _ => None,
    };
    if known == Some(Known::Bytes) && probe.mpi.is_some_and(|function| function.sends_nothing()) {
        return Ok(Scalar::Number(0.0));
    }
    if matches!(known, Some(Known::Threads | Known::Stated)) && !plan::takes_team_size(&probe.name) {
        return Err(NoCapture::NoTeam(probe.name.clone()));
    }
    let wanted = wanted.ok_or(NoCapture::NotRequested)?;
    let place = probe.captures.iter().position(|known| known.is(wanted));
    let place = place.ok_or(NoCapture::NotCaptured)?;
    if hit.valid & (1 << place) == 0 {
        return Err(match known {
            Some(Known::Bytes) => NoCapture::Bytes(probe.name.clone()),
            _ => NoCapture::Unreadable,
        });
    }
    let capture = &probe.captures[place];
    if capture.length > 0 {
        let text = texts.get(place).cloned().flatten();
        return text.map(Scalar::Text).ok_or(NoCapture::TextLost);
    }
    let raw = hit.captures.get(place).copied().unwrap_or_default();
    let number = number_of(raw, capture.type_name).ok_or(NoCapture::Type)?;
    match known {
        Some(Known::Threads) if number == 0.0 => Err(NoCapture::DefaultTeam),
        _ if capture.type_name == "bool" => Ok(Scalar::Boolean(number != 0.0)),
        _ => Ok(Scalar::Number(number)),
    }
}
