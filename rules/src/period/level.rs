//! The loops of a window: candidates for anchors, the similarity of their segments, and the choice of the
//! outermost loop.

use std::collections::BTreeMap;

use super::{
    Loop,
    anchor::{Anchor, DEPTH, SegmentHashes},
};

/// Sites that are distinguished in sets; further sites share these bits.
const SITES: usize = 256;

/// Candidates that are examined in a window; bounds the time of a search. Sites are ordered by their first
/// call.
const CANDIDATES: usize = 128;

/// Of sites with equal numbers of calls only this many are examined: those of one loop give the same result.
const OF_A_COUNT: usize = 6;

/// Minimum number of equal segments in a loop.
const EQUAL_ENOUGH: usize = 3;

/// Minimum number of calls in the equal segments, unless most calls since the first anchor are in them: among
/// random calls of 29 sites, five in a row come from one site in one of 7 000 sequences.
const EQUAL_CALLS: usize = 8;

/// Minimum number of similar segments in a loop.
const ALIKE_ENOUGH: usize = 8;

/// Minimum share of equal or similar segments.
const ALIKE_MIN: f64 = 0.8;

/// Two segments are similar if they share this fraction of the union of their sites.
const ALIKE: f64 = 0.75;

/// Maximum mean deviation of the lengths of similar segments, relative to their mean. Random calls give 0.74.
const SPREAD: f64 = 0.4;

/// Minimum share of all segments for a path through an inner loop to count as one pass.
const FREQUENT: f64 = 0.2;

/// The other paths of an inner loop, from its last pass to the next first one, must have this many times the
/// calls of one pass.
const AROUND: usize = 2;

/// Share of the deviating segments that must lack calls of the ordinary iteration for the loop to be
/// outermost.
const BRANCHES: f64 = 0.33;

type Set = [u64; SITES / 64];

/// The calls of a window.
struct CallWindow {
    /// Each site's place in the sets.
    folded: Vec<usize>,
    hashes: SegmentHashes,
}

/// Segments with the same calls.
#[derive(Clone, Copy)]
struct SegmentKind {
    hash: u64,
    /// Where the first of them begins.
    begin: usize,
    length: usize,
    count: usize,
}

/// The different sites of a segment.
struct Sites {
    set: Set,
    /// In the order of their first calls.
    order: Vec<usize>,
}

struct PeriodCandidate {
    anchor: Anchor,
    /// Of the segments; the last one is not followed by a segment.
    begins: Vec<usize>,
    /// In the order of their first segments.
    kinds: Vec<SegmentKind>,
}

/// The regularity of a candidate's segments.
struct Regular {
    /// The mean number of calls in a segment.
    calls: f64,
    most_calls: usize,
    /// No loop encloses it: deviating segments took another path.
    is_closed: bool,
}

/// The outermost loop of a window, with the positions at which its iterations begin. The known loop is kept
/// unless another is longer.
pub(super) fn outermost(sites: &[u64], known: Option<&Anchor>) -> Option<(Loop, Vec<usize>)> {
    let (calls, candidates) = candidates(sites);
    let regular: Vec<(PeriodCandidate, Regular)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            // A closed loop stays closed for a while, because the number of deviating segments varies between
            // windows.
            let is_known = known == Some(&candidate.anchor);
            let branches = if is_known { BRANCHES / 2.0 } else { BRANCHES };
            let regular = regular(&candidate, &calls, branches)?;
            Some((candidate, regular))
        })
        .collect();
    let closed = regular.iter().filter(|(_, regular)| regular.is_closed);
    let most = closed
        .map(|(_, regular)| regular.calls)
        .max_by(f64::total_cmp)
        .unwrap_or(f64::INFINITY);
    let longest = regular
        .iter()
        .map(|(_, regular)| regular.calls)
        .filter(|calls| *calls <= most)
        .max_by(f64::total_cmp)?;
    // Anchors of one loop have segments of the same length, except for those cut off at the ends of the
    // window.
    let of_longest =
        |(_, regular): &&(PeriodCandidate, Regular)| regular.calls <= most && regular.calls >= 0.75 * longest;
    let same = regular.iter().filter(of_longest);
    let kept = known.and_then(|known| same.clone().find(|(candidate, _)| candidate.anchor == *known));
    let simplest = || {
        same.clone()
            .min_by_key(|(candidate, _)| (candidate.anchor.repeats.len(), candidate.begins.first()))
    };
    let (candidate, regular) = kept.or_else(simplest)?;
    Some((
        Loop {
            anchor: candidate.anchor.clone(),
            calls: regular.calls,
            most_calls: regular.most_calls,
        },
        candidate.begins.clone(),
    ))
}

impl PeriodCandidate {
    fn new(anchor: Anchor, begins: Vec<usize>, calls: &CallWindow) -> PeriodCandidate {
        let mut kinds: Vec<SegmentKind> = Vec::new();
        let mut known = BTreeMap::new();
        for ends in begins.windows(2) {
            let (begin, end) = (ends[0], ends[1]);
            let hash = calls.hashes.of(begin..end);
            let kind = *known.entry(hash).or_insert_with(|| {
                kinds.push(SegmentKind {
                    hash,
                    begin,
                    length: end - begin,
                    count: 0,
                });
                kinds.len() - 1
            });
            kinds[kind].count += 1;
        }
        PeriodCandidate {
            anchor,
            begins,
            kinds,
        }
    }

    /// The number of segments.
    fn segments(&self) -> usize {
        self.begins.len() - 1
    }

    /// The number of calls in all segments.
    fn calls(&self) -> usize {
        self.begins[self.begins.len() - 1] - self.begins[0]
    }

    /// One pass of an inner loop: the shortest of the frequent paths, if the others are much longer.
    fn time_round(&self) -> Option<u64> {
        let enough = (FREQUENT * self.segments() as f64).max(2.0);
        let frequent = self.kinds.iter().filter(|kind| kind.count as f64 >= enough);
        let round = frequent.min_by_key(|kind| kind.length)?;
        let others = self.segments() - round.count;
        let in_others = self.calls() - round.length * round.count;
        (others > 0 && in_others >= AROUND * round.length * others).then_some(round.hash)
    }

    /// Where segments begin that follow another path than a pass of an inner loop.
    fn begins_after_others(&self, round: u64, calls: &CallWindow) -> Vec<usize> {
        let segments = self.begins.windows(2);
        let others = segments.filter(|ends| calls.hashes.of(ends[0]..ends[1]) != round);
        others.map(|ends| ends[1]).collect()
    }
}

fn candidates(sites: &[u64]) -> (CallWindow, Vec<PeriodCandidate>) {
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
    let mut by_site: Vec<(u64, Vec<usize>)> = Vec::new();
    let mut folded = Vec::with_capacity(sites.len());
    for (index, site) in sites.iter().enumerate() {
        let number = *numbers.entry(*site).or_insert_with(|| {
            by_site.push((*site, Vec::new()));
            by_site.len() - 1
        });
        by_site[number].1.push(index);
        folded.push(number % SITES);
    }
    let calls = CallWindow {
        folded,
        hashes: SegmentHashes::new(sites),
    };
    let mut found = Vec::new();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let repeated = by_site.into_iter().filter(|(_, indices)| {
        let tried = counts.entry(indices.len()).or_default();
        *tried += 1;
        indices.len() > EQUAL_ENOUGH && *tried <= OF_A_COUNT
    });
    for (site, indices) in repeated.take(CANDIDATES) {
        let mut anchor = Anchor {
            site,
            repeats: Vec::new(),
        };
        let mut begins = indices;
        loop {
            let candidate = PeriodCandidate::new(anchor.clone(), begins, &calls);
            let round = candidate.time_round();
            // The first begin of the next level is the first one that certainly follows another path.
            begins = round.map_or_else(Vec::new, |round| candidate.begins_after_others(round, &calls));
            let is_last = begins.len() <= EQUAL_ENOUGH || anchor.repeats.len() + 1 == DEPTH;
            anchor.repeats.extend(round);
            found.push(candidate);
            if is_last {
                break;
            }
        }
    }
    (calls, found)
}

fn regular(candidate: &PeriodCandidate, calls: &CallWindow, branches: f64) -> Option<Regular> {
    let (kinds, segments) = (&candidate.kinds, candidate.segments() as f64);
    let most_calls = kinds.iter().map(|kind| kind.length).max()?;
    // The program has left this loop. A second iteration may be in progress.
    let last = candidate.begins.last()?;
    if calls.folded.len() - last > 2 * most_calls {
        return None;
    }
    let (at, equal) = kinds.iter().enumerate().max_by_key(|(_, kind)| kind.count)?;
    let in_equal = equal.count * equal.length;
    let is_equal = equal.count >= EQUAL_ENOUGH
        && (in_equal >= EQUAL_CALLS || 2 * in_equal > candidate.calls())
        && equal.count as f64 >= ALIKE_MIN * segments;
    if !is_equal && !may_be_alike(candidate) {
        return None;
    }
    let sites: Vec<Sites> = kinds.iter().map(|kind| Sites::of(kind, calls)).collect();
    let of_kinds: Vec<(&SegmentKind, &Sites)> = kinds.iter().zip(&sites).collect();
    let ordinary = match is_equal {
        true => sites.get(at)?,
        false => commonest_order(&of_kinds)?,
    };
    if !is_equal && !are_alike(&of_kinds, ordinary, segments) {
        return None;
    }
    let differing = of_kinds
        .iter()
        .filter(|(_, sites)| likeness(&sites.set, &ordinary.set) < ALIKE);
    let (mut differing_count, mut lacking) = (0, 0);
    for (kind, sites) in differing {
        differing_count += kind.count;
        lacking += match is_subset(&ordinary.set, &sites.set) {
            true => 0,
            false => kind.count,
        };
    }
    Some(Regular {
        calls: candidate.calls() as f64 / segments,
        most_calls,
        is_closed: lacking > 0 && lacking as f64 >= branches * differing_count as f64,
    })
}

/// Whether the lengths of segments, of as many as must be alike, vary little enough: the shortest of them, and
/// some longer ones. Much faster than [`are_alike`], which looks at each call.
fn may_be_alike(candidate: &PeriodCandidate) -> bool {
    let mut lengths: Vec<usize> = candidate
        .begins
        .windows(2)
        .map(|ends| ends[1] - ends[0])
        .collect();
    lengths.sort_unstable();
    let enough = ((ALIKE_MIN * lengths.len() as f64).ceil() as usize).max(ALIKE_ENOUGH);
    let others = lengths.len().saturating_sub(enough);
    let mut some = lengths.windows(enough).step_by(1 + others / 8);
    some.any(|alike| vary_little(alike.iter().map(|length| (*length as f64, 1))))
}

fn are_alike(kinds: &[(&SegmentKind, &Sites)], ordinary: &Sites, segments: f64) -> bool {
    let alike = kinds.iter().filter(|(_, sites)| is_alike(sites, ordinary));
    let alike = alike.map(|(kind, _)| (kind.length as f64, kind.count));
    let count: usize = alike.clone().map(|(_, count)| count).sum();
    count >= ALIKE_ENOUGH && count as f64 >= ALIKE_MIN * segments && vary_little(alike)
}

/// Whether lengths, each with its number, deviate little enough from their mean.
fn vary_little(lengths: impl Iterator<Item = (f64, usize)> + Clone) -> bool {
    let lengths = lengths.map(|(length, count)| (length, count as f64));
    let count: f64 = lengths.clone().map(|(_, count)| count).sum();
    let mean = lengths.clone().map(|(length, count)| length * count).sum::<f64>() / count;
    let distances = lengths.map(|(length, count)| (length - mean).abs() * count);
    distances.sum::<f64>() / count <= SPREAD * mean
}

/// Whether almost all sites are equal and first called in the same order.
fn is_alike(segment: &Sites, ordinary: &Sites) -> bool {
    let shared = |of: &Sites, with: &Sites| {
        let shared = of.order.iter().filter(|site| has(&with.set, **site));
        shared.copied().collect::<Vec<usize>>()
    };
    likeness(&segment.set, &ordinary.set) >= ALIKE
        && (segment.order == ordinary.order || shared(segment, ordinary) == shared(ordinary, segment))
}

/// The sites that most segments call first in this order.
fn commonest_order<'a>(kinds: &[(&SegmentKind, &'a Sites)]) -> Option<&'a Sites> {
    let mut counts: BTreeMap<&[usize], (&Sites, usize)> = BTreeMap::new();
    for (kind, sites) in kinds {
        counts.entry(sites.order.as_slice()).or_insert((sites, 0)).1 += kind.count;
    }
    let counts = counts.into_values();
    counts.max_by_key(|(_, count)| *count).map(|(sites, _)| sites)
}

impl Sites {
    fn of(kind: &SegmentKind, calls: &CallWindow) -> Sites {
        let (mut set, mut order) = (Set::default(), Vec::new());
        for site in &calls.folded[kind.begin..kind.begin + kind.length] {
            if !has(&set, *site) {
                set[site / 64] |= 1 << (site % 64);
                order.push(*site);
            }
        }
        Sites { set, order }
    }
}

fn has(set: &Set, site: usize) -> bool {
    set[site / 64] & (1 << (site % 64)) != 0
}

fn likeness(a: &Set, b: &Set) -> f64 {
    let both: u32 = a.iter().zip(b).map(|(a, b)| (a & b).count_ones()).sum();
    let either: u32 = a.iter().zip(b).map(|(a, b)| (a | b).count_ones()).sum();
    f64::from(both) / f64::from(either.max(1))
}

fn is_subset(of: &Set, in_: &Set) -> bool {
    of.iter().zip(in_).all(|(of, in_)| of & !in_ == 0)
}
