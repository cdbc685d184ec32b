//! An MPI program as a stream program: ranks of the same role are a module, the messages between two modules a
//! stream. From the reports that a session writes at intervals.

use std::collections::{BTreeMap, BTreeSet};

use super::counted::Names;
use super::patterns::with_patterns;
use super::{
    CalledTotals, End, ItemsAre, ModuleProcesses, NotLearned, ObservedGraph, ObservedModule, ObservedStream,
    RankReport, RankTotals, TimeShares,
};
use crate::format::{count, significant};

/// A rank that spends less than this share of its time in collectives does not wait for others in them.
const COLLECTIVE_SHARE: f64 = 0.01;

/// A rank that waits in calls of an unknown kind for less than this share of its time is in no doubt.
const DOUBTFUL_SHARE: f64 = 0.05;

/// Fewer slices give no intervals.
const SLICES_MIN: usize = 3;

/// How a call waits.
#[derive(Clone, Copy, PartialEq)]
enum CallKind {
    Sends,
    Receives,
    /// Waits for requests of either kind.
    Completes,
    Exchanges,
    /// Every rank of a communicator, or one that does not take part.
    Collective,
    Local,
}

fn kind(function: &str) -> CallKind {
    let name = function.to_ascii_lowercase();
    let name = name
        .trim_start_matches('p')
        .trim_start_matches("mpi_")
        .trim_end_matches('_');
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match name {
        _ if has(&["sendrecv"]) => CallKind::Exchanges,
        _ if has(&[
            "allreduce",
            "reduce",
            "bcast",
            "barrier",
            "gather",
            "scatter",
            "alltoall",
            "scan",
        ]) =>
        {
            CallKind::Collective
        }
        _ if name.starts_with("win_") || matches!(name, "put" | "get" | "accumulate") => CallKind::Collective,
        _ if has(&["send"]) => CallKind::Sends,
        _ if has(&["recv", "probe"]) => CallKind::Receives,
        _ if has(&["wait", "test"]) => CallKind::Completes,
        _ => CallKind::Local,
    }
}

/// What a function makes requests for; `None` if it completes by itself.
fn requested(function: &str) -> Option<CallKind> {
    let name = function.to_ascii_lowercase();
    let name = name.trim_start_matches('p').trim_start_matches("mpi_");
    let is_request = name.starts_with('i') && !name.contains("probe") || name.contains("_init");
    is_request.then(|| kind(function))
}

/// What each rank did between the first report and the last.
struct Ranks<'a> {
    first: &'a RankReport,
    last: &'a RankReport,
    seconds: f64,
}

impl Ranks<'_> {
    fn of(report: &RankReport, rank: u32) -> Option<&RankTotals> {
        report.processes.iter().find(|one| one.rank == Some(rank))
    }

    fn totals(&self, rank: u32, value: impl Fn(&RankTotals) -> Option<f64>) -> f64 {
        let at = |report| Ranks::of(report, rank).and_then(&value).unwrap_or_default();
        (at(self.last) - at(self.first)).max(0.0)
    }

    /// Time in calls of a kind, and their number.
    fn calls(&self, rank: u32, wanted: CallKind) -> (f64, f64) {
        let of = |one: &RankTotals, value: &dyn Fn(&CalledTotals) -> f64| {
            let calls = one.functions.iter().filter(|call| kind(&call.name) == wanted);
            Some(calls.map(value).sum::<f64>())
        };
        (
            self.totals(rank, |one| of(one, &|call| call.time_s.unwrap_or_default())),
            self.totals(rank, |one| of(one, &|call| call.calls as f64)),
        )
    }

    fn all_calls(&self, rank: u32) -> f64 {
        self.totals(rank, |one| {
            Some(one.functions.iter().map(|call| call.calls as f64).sum())
        })
    }

    fn names(&self, rank: u32, wanted: CallKind) -> BTreeSet<String> {
        let called = |report, name: &str| {
            let calls = Ranks::of(report, rank).into_iter().flat_map(|one| &one.functions);
            let calls = calls.filter(|call| call.name == name).map(|call| call.calls);
            calls.sum::<u64>()
        };
        let all = Ranks::of(self.last, rank)
            .into_iter()
            .flat_map(|one| &one.functions);
        let names = all
            .map(|call| &call.name)
            .filter(|name| kind(name) == wanted && called(self.last, name) > called(self.first, name));
        names.cloned().collect()
    }

    /// Whether the rank has requested calls of a kind.
    fn requests(&self, rank: u32, wanted: CallKind) -> bool {
        let names = self.names(rank, wanted);
        names.iter().any(|name| requested(name) == Some(wanted))
    }

    /// It waits for requests of both kinds.
    fn is_in_doubt(&self, rank: u32) -> bool {
        let both = [CallKind::Receives, CallKind::Sends]
            .iter()
            .all(|kind| self.requests(rank, *kind));
        both && self.calls(rank, CallKind::Completes).0 > DOUBTFUL_SHARE * self.seconds
    }

    /// Waiting for requests is that for sends if the rank requests nothing else, or if its requests were made before
    /// and it does not receive.
    fn shares(&self, known: &Ranks<'_>, rank: u32) -> TimeShares {
        let (mut receiving, received) = self.calls(rank, CallKind::Receives);
        let (mut sending, sent) = self.calls(rank, CallKind::Sends);
        let (completing, _) = self.calls(rank, CallKind::Completes);
        let [receives, sends] = [CallKind::Receives, CallKind::Sends].map(|kind| known.requests(rank, kind));
        let are_sends = match (receives, sends) {
            (false, false) => received == 0.0 && sent > 0.0,
            (receives, _) => !receives,
        };
        match are_sends {
            true => sending += completing,
            false => receiving += completing,
        }
        let in_mpi = self.totals(rank, |one| one.mpi_runqueue_time_s);
        let waits = (self.totals(rank, |one| one.runqueue_time_s) - in_mpi).max(0.0);
        let busy = (self.seconds - receiving - sending - waits).max(0.0);
        TimeShares::of(busy, 0.0, waits, receiving, sending)
    }
}

/// The modules and streams of an MPI program, to learn from.
///
/// # Errors
/// If it is no stream program, with the reason, or too little was seen of it.
pub fn observed_ranks(reports: &[RankReport]) -> Result<ObservedGraph, NotLearned> {
    let reports: Vec<&RankReport> = reports.iter().filter(|report| !sent(report).is_empty()).collect();
    let ([first, ..], true) = (reports.as_slice(), reports.len() > SLICES_MIN) else {
        return Err(NotLearned::TooFew);
    };
    with_patterns(counted_ranks(first, &reports)?)
}

/// What the ranks did from the first of these reports to the last. Which modules and streams there are follows
/// from all that has happened since `begin`, so that a stream without a message in this time is one still.
///
/// # Errors
/// If it is no stream program, with the reason.
pub fn counted_ranks(begin: &RankReport, reports: &[&RankReport]) -> Result<ObservedGraph, NotLearned> {
    let [first, .., last] = reports else {
        return Err(NotLearned::TooFew);
    };
    if last.matrix.as_ref().is_some_and(|matrix| matrix.pairs_cut > 0) {
        let why = "more pairs of ranks exchange messages than are counted";
        return Err(NotLearned::NoStreamProgram(why.to_owned()));
    }
    let since = |first| Ranks {
        first,
        last,
        seconds: last.elapsed_s - first.elapsed_s,
    };
    let (known, ranks) = (since(begin), since(*first));
    let flows = flows(&sent(begin), &sent(last));
    let all: BTreeSet<u32> = flows.keys().flat_map(|(from, to)| [*from, *to]).collect();
    if flows.is_empty() {
        return Err(NotLearned::TooFew);
    }
    refuse_collectives(&known, &all)?;
    let roles = roles(&known, &all, &flows);
    refuse_exchanges(&roles, &flows)?;
    let mut seen = ObservedGraph {
        slices_ns: slices(reports, |a, b| ((b.elapsed_s - a.elapsed_s) * 1e9) as u64),
        ..ObservedGraph::default()
    };
    let completing = all.iter().filter(|rank| known.is_in_doubt(**rank));
    seen.doubts.extend(completing.map(|rank| {
        format!("rank {rank} requests sends and receives, and waits for both in one call: that is counted as waiting for input")
    }));
    let mut names = Names::default();
    for role in &roles {
        let name = names.unique(&role_name(role));
        seen.modules.push(module(&known, &ranks, role, name));
    }
    let index = |rank: u32| {
        roles
            .iter()
            .position(|role| role.contains(&rank))
            .unwrap_or_default()
    };
    let ends: BTreeSet<(usize, usize)> = flows
        .keys()
        .map(|(from, to)| (index(*from), index(*to)))
        .collect();
    for (from, to) in ends {
        let is_between = |(a, b): (u32, u32)| (index(a), index(b)) == (from, to);
        let name = format!("{}_to_{}", seen.modules[from].name, seen.modules[to].name);
        seen.streams.push(ObservedStream {
            name: names.unique(&name),
            ..stream(reports, (from, to), &is_between)
        });
    }
    Ok(seen)
}

/// The messages between the ranks of two modules.
fn stream(
    reports: &[&RankReport],
    (from, to): (usize, usize),
    is_between: &dyn Fn((u32, u32)) -> bool,
) -> ObservedStream {
    let between = |report: &RankReport| {
        let pairs = sent(report).into_iter().filter(|(pair, _)| is_between(*pair));
        pairs.fold((0, 0), |sum, (_, (messages, bytes))| {
            (sum.0 + messages, sum.1 + bytes)
        })
    };
    let grown: Vec<(u64, u64)> = slices(reports, |a, b| {
        let (a, b) = (between(a), between(b));
        (b.0.saturating_sub(a.0), b.1.saturating_sub(a.1))
    });
    let messages: u64 = grown.iter().map(|(messages, _)| messages).sum();
    let bytes: u64 = grown.iter().map(|(_, bytes)| bytes).sum();
    let item_bytes = (bytes as f64 / messages.max(1) as f64).max(1.0);
    let end = |module| {
        let items = grown.iter().map(|(messages, _)| *messages as f64).collect();
        vec![End { module, items }]
    };
    ObservedStream {
        name: String::new(),
        items_are: ItemsAre::Messages,
        item_bytes,
        item: Some(format!("{}B", significant(item_bytes, 9))),
        is_on_demand: false,
        sent: end(from),
        received: end(to),
        basis: format!(
            "{} messages, as the senders sent them; mean size",
            count(messages as f64)
        ),
    }
}

/// All messages and their bytes so far, by pair.
fn sent(report: &RankReport) -> Pairs {
    let pairs = report.matrix.iter().flat_map(|matrix| &matrix.sent);
    pairs
        .map(|pair| ((pair.from, pair.to), (pair.messages, pair.bytes)))
        .collect()
}

fn slices<T>(reports: &[&RankReport], between: impl Fn(&RankReport, &RankReport) -> T) -> Vec<T> {
    reports.windows(2).map(|pair| between(pair[0], pair[1])).collect()
}

type Pairs = BTreeMap<(u32, u32), (u64, u64)>;

/// The pairs that sent something in between.
fn flows(first: &Pairs, last: &Pairs) -> Pairs {
    let grown = last.iter().filter_map(|(pair, (messages, bytes))| {
        let before = first.get(pair).copied().unwrap_or_default();
        let new = messages.saturating_sub(before.0);
        (new > 0).then_some((*pair, (new, bytes.saturating_sub(before.1))))
    });
    grown.collect()
}

fn refuse<T>(why: &str) -> Result<T, NotLearned> {
    Err(NotLearned::NoStreamProgram(format!(
        "this is no stream program: {why}"
    )))
}

/// Collectives make ranks wait for all others: no item flows from one to the next.
fn refuse_collectives(ranks: &Ranks<'_>, all: &BTreeSet<u32>) -> Result<(), NotLearned> {
    for rank in all {
        let (time_s, calls) = ranks.calls(*rank, CallKind::Collective);
        if calls > 0.0 && time_s > COLLECTIVE_SHARE * ranks.seconds {
            let names: Vec<String> = ranks.names(*rank, CallKind::Collective).into_iter().collect();
            return refuse(&format!(
                "rank {rank} waits for all others in {}",
                names.join(", ")
            ));
        }
        let exchanges: Vec<String> = ranks.names(*rank, CallKind::Exchanges).into_iter().collect();
        if !exchanges.is_empty() {
            return refuse(&format!(
                "rank {rank} exchanges messages with others in {}",
                exchanges.join(", ")
            ));
        }
    }
    Ok(())
}

/// Ranks that send to each other wait for each other, unless their roles differ and what passes between them begins
/// with items that a third one sends.
fn refuse_exchanges(roles: &[Vec<u32>], flows: &Pairs) -> Result<(), NotLearned> {
    let role = |rank: u32| roles.iter().position(|role| role.contains(&rank));
    let joined: BTreeSet<(Option<usize>, Option<usize>)> =
        flows.keys().map(|(from, to)| (role(*from), role(*to))).collect();
    let takes_nothing = |role: &Option<usize>| !joined.iter().any(|(_, to)| to == role);
    let mut fed: BTreeSet<Option<usize>> = (0..roles.len()).map(Some).filter(takes_nothing).collect();
    loop {
        let next = joined
            .iter()
            .filter(|(from, to)| fed.contains(from) && !fed.contains(to));
        let next: Vec<Option<usize>> = next.map(|(_, to)| *to).collect();
        if next.is_empty() {
            break;
        }
        fed.extend(next);
    }
    let mut both = flows
        .keys()
        .filter(|(from, to)| flows.contains_key(&(*to, *from)));
    let closed = both.find(|(from, to)| role(*from) == role(*to) || !fed.contains(&role(*from)));
    match closed {
        Some((from, to)) => refuse(&format!(
            "ranks {from} and {to} send to each other, as in an exchange of boundaries or with a master"
        )),
        None => Ok(()),
    }
}

/// Ranks that call the same functions, and send to and receive from ranks of the same roles.
fn roles(ranks: &Ranks<'_>, all: &BTreeSet<u32>, flows: &Pairs) -> Vec<Vec<u32>> {
    let functions = |rank: &u32| {
        let kinds = [CallKind::Sends, CallKind::Receives, CallKind::Completes];
        kinds
            .iter()
            .flat_map(|kind| ranks.names(*rank, *kind))
            .collect::<BTreeSet<String>>()
    };
    let called: Vec<BTreeSet<String>> = all.iter().map(functions).collect();
    let mut role: BTreeMap<u32, usize> = numbered(all, &called);
    loop {
        let others = |rank: &u32| {
            let to = flows
                .keys()
                .filter(|(from, _)| from == rank)
                .map(|(_, to)| role[to]);
            let from = flows
                .keys()
                .filter(|(_, to)| to == rank)
                .map(|(from, _)| role[from]);
            (
                role[rank],
                to.collect::<BTreeSet<_>>(),
                from.collect::<BTreeSet<_>>(),
            )
        };
        let refined = numbered(all, &all.iter().map(others).collect::<Vec<_>>());
        let number = |role: &BTreeMap<u32, usize>| role.values().collect::<BTreeSet<_>>().len();
        let is_stable = number(&refined) == number(&role);
        role = refined;
        if is_stable {
            break;
        }
    }
    let mut roles: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for (rank, role) in role {
        roles.entry(role).or_default().push(rank);
    }
    let mut roles: Vec<Vec<u32>> = roles.into_values().collect();
    roles.sort();
    roles
}

/// A number for each rank, equal where the keys are.
fn numbered<K: Ord>(all: &BTreeSet<u32>, keys: &[K]) -> BTreeMap<u32, usize> {
    let known: BTreeSet<&K> = keys.iter().collect();
    let number = |key: &K| known.iter().position(|other| **other == *key).unwrap_or_default();
    all.iter().copied().zip(keys.iter().map(number)).collect()
}

/// `rank0`, `ranks1_3`, `ranks1_and_2_others`
fn role_name(role: &[u32]) -> String {
    match role {
        [one] => format!("rank{one}"),
        [first, .., last] if (last - first) as usize + 1 == role.len() => format!("ranks{first}_{last}"),
        [first, others @ ..] => format!("ranks{first}_and_{}_others", others.len()),
        [] => "none".to_owned(),
    }
}

fn module(known: &Ranks<'_>, ranks: &Ranks<'_>, role: &[u32], name: String) -> ObservedModule {
    let shares: Vec<TimeShares> = role.iter().map(|rank| ranks.shares(known, *rank)).collect();
    let mean = |share: fn(&TimeShares) -> f64| shares.iter().map(share).sum::<f64>() / shares.len() as f64;
    let listed: Vec<String> = role.iter().map(u32::to_string).collect();
    let calls: BTreeSet<String> = role
        .iter()
        .flat_map(|rank| {
            [CallKind::Receives, CallKind::Sends, CallKind::Completes].map(|kind| known.names(*rank, kind))
        })
        .flatten()
        .collect();
    let calls: Vec<String> = calls.into_iter().collect();
    ObservedModule {
        name,
        about: format!("rank {}: {}", listed.join(", "), calls.join(", ")),
        shares: TimeShares::of(
            mean(|one| one.busy),
            0.0,
            mean(|one| one.waits_for_cpu),
            mean(|one| one.starved),
            mean(|one| one.blocked),
        ),
        workers: role.len() as u32,
        processes: ModuleProcesses::Ranks(role.to_vec()),
        counted: role.iter().map(|rank| ranks.all_calls(*rank)).sum(),
        has_computations: false,
    }
}
