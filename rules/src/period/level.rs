//! The loops of a window: candidates for anchors, the similarity of their segments, and the choice of the
//! outermost loop.

use std::collections::BTreeMap;

use super::{
    Loop,
    anchor::{Anchor, CallHash, DEPTH},
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

struct Segment {
    begin: usize,
    length: usize,
    hash: u64,
    set: Set,
    /// Its sites in the order of their first calls.
    order: Vec<usize>,
}

struct PeriodCandidate {
    anchor: Anchor,
    segments: Vec<Segment>,
    /// The begin that is not followed by a segment.
    last: usize,
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
    let candidates = candidates(sites);
    let regular: Vec<(PeriodCandidate, Regular)> = candidates
        .into_iter()
        .filter_map(|candidate| {
            // A closed loop stays closed for a while, because the number of deviating segments varies between
            // windows.
            let is_known = known == Some(&candidate.anchor);
            let branches = if is_known { BRANCHES / 2.0 } else { BRANCHES };
            let regular = regular(&candidate, sites.len(), branches)?;
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
            .min_by_key(|(candidate, _)| (candidate.anchor.repeats.len(), candidate.first()))
    };
    let (candidate, regular) = kept.or_else(simplest)?;
    let begins = candidate.begins();
    Some((
        Loop {
            anchor: candidate.anchor.clone(),
            calls: regular.calls,
            most_calls: regular.most_calls,
            iterations: candidate.segments.len(),
        },
        begins,
    ))
}

impl PeriodCandidate {
    fn first(&self) -> usize {
        self.segments.first().map_or(self.last, |segment| segment.begin)
    }

    fn begins(&self) -> Vec<usize> {
        let begins = self.segments.iter().map(|segment| segment.begin);
        begins.chain([self.last]).collect()
    }
}

fn candidates(sites: &[u64]) -> Vec<PeriodCandidate> {
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
    let mut places: Vec<(u64, Vec<usize>)> = Vec::new();
    let mut folded = Vec::with_capacity(sites.len());
    for (place, site) in sites.iter().enumerate() {
        let number = *numbers.entry(*site).or_insert_with(|| {
            places.push((*site, Vec::new()));
            places.len() - 1
        });
        places[number].1.push(place);
        folded.push(number % SITES);
    }
    let mut found = Vec::new();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    let repeated = places.into_iter().filter(|(_, places)| {
        let tried = counts.entry(places.len()).or_default();
        *tried += 1;
        places.len() > EQUAL_ENOUGH && *tried <= OF_A_COUNT
    });
    for (site, places) in repeated.take(CANDIDATES) {
        let mut anchor = Anchor {
            site,
            repeats: Vec::new(),
        };
        let mut begins = places;
        loop {
            let candidate = candidate(anchor.clone(), &begins, sites, &folded);
            let round = time_round(&candidate.segments);
            // The first begin of the next level is the first one that certainly follows another path.
            begins = match round {
                Some(round) => candidate
                    .segments
                    .iter()
                    .filter(|segment| segment.hash != round)
                    .map(|segment| segment.begin + segment.length)
                    .collect(),
                None => Vec::new(),
            };
            let is_last = begins.len() <= EQUAL_ENOUGH || anchor.repeats.len() + 1 == DEPTH;
            anchor.repeats.extend(round);
            found.push(candidate);
            if is_last {
                break;
            }
        }
    }
    found
}

fn candidate(anchor: Anchor, begins: &[usize], sites: &[u64], folded: &[usize]) -> PeriodCandidate {
    let segment = |ends: &[usize]| {
        let (begin, end) = (ends[0], ends[1]);
        let (mut row, mut set, mut order) = (CallHash::default(), Set::default(), Vec::new());
        for place in begin..end {
            row.push(sites[place]);
            if !has(&set, folded[place]) {
                set[folded[place] / 64] |= 1 << (folded[place] % 64);
                order.push(folded[place]);
            }
        }
        Segment {
            begin,
            length: end - begin,
            hash: row.hash(),
            set,
            order,
        }
    };
    PeriodCandidate {
        anchor,
        segments: begins.windows(2).map(segment).collect(),
        last: begins.last().copied().unwrap_or_default(),
    }
}

/// One pass of an inner loop: the shortest of the frequent paths, if the others are much longer.
fn time_round(segments: &[Segment]) -> Option<u64> {
    let mut ways: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for segment in segments {
        ways.entry(segment.hash).or_insert((segment.length, 0)).1 += 1;
    }
    let enough = (FREQUENT * segments.len() as f64).max(2.0);
    let frequent = ways.into_iter().filter(|(_, (_, count))| *count as f64 >= enough);
    let (hash, (length, count)) = frequent.min_by_key(|(_, (length, _))| *length)?;
    let calls: usize = segments.iter().map(|segment| segment.length).sum();
    let (others, in_others) = (segments.len() - count, calls - length * count);
    (others > 0 && in_others >= AROUND * length * others).then_some(hash)
}

fn regular(candidate: &PeriodCandidate, window: usize, branches: f64) -> Option<Regular> {
    let segments = &candidate.segments;
    let most_calls = segments.iter().map(|segment| segment.length).max()?;
    // The program has left this loop. A second iteration may be in progress.
    if window - candidate.last > 2 * most_calls {
        return None;
    }
    let (equal, count) = commonest(segments, |segment| segment.hash)?;
    let is_equal = count >= EQUAL_ENOUGH && count as f64 >= ALIKE_MIN * segments.len() as f64;
    let ordinary = if is_equal {
        equal
    } else {
        commonest(segments, |segment| segment.order.as_slice())?.0
    };
    if !is_equal && !are_alike(segments, ordinary) {
        return None;
    }
    let set = ordinary.set;
    let calls = segments.iter().map(|segment| segment.length).sum::<usize>() as f64 / segments.len() as f64;
    let differing: Vec<&Segment> = segments
        .iter()
        .filter(|segment| likeness(&segment.set, &set) < ALIKE)
        .collect();
    let lacking = differing
        .iter()
        .filter(|segment| !is_subset(&set, &segment.set))
        .count();
    Some(Regular {
        calls,
        most_calls,
        is_closed: lacking > 0 && lacking as f64 >= branches * differing.len() as f64,
    })
}

fn are_alike(segments: &[Segment], ordinary: &Segment) -> bool {
    let alike = segments.iter().filter(|segment| is_alike(segment, ordinary));
    let alike: Vec<f64> = alike.map(|segment| segment.length as f64).collect();
    let count = alike.len() as f64;
    if alike.len() < ALIKE_ENOUGH || count < ALIKE_MIN * segments.len() as f64 {
        return false;
    }
    let mean = alike.iter().sum::<f64>() / count;
    let distance = alike.iter().map(|length| (length - mean).abs()).sum::<f64>() / count;
    distance <= SPREAD * mean
}

/// Whether almost all sites are equal and first called in the same order.
fn is_alike(segment: &Segment, ordinary: &Segment) -> bool {
    let shared = |of: &Segment, with: &Segment| {
        let shared = of.order.iter().filter(|site| has(&with.set, **site));
        shared.copied().collect::<Vec<usize>>()
    };
    likeness(&segment.set, &ordinary.set) >= ALIKE
        && (segment.order == ordinary.order || shared(segment, ordinary) == shared(ordinary, segment))
}

/// A representative of the most frequent kind of segment, with its frequency.
fn commonest<'a, K: Ord>(
    segments: &'a [Segment],
    key: impl Fn(&'a Segment) -> K,
) -> Option<(&'a Segment, usize)> {
    let mut counts: BTreeMap<K, (&Segment, usize)> = BTreeMap::new();
    for segment in segments {
        counts.entry(key(segment)).or_insert((segment, 0)).1 += 1;
    }
    counts.into_values().max_by_key(|(_, count)| *count)
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
