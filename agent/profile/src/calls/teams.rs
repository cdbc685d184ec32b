//! What the teams of threads of parallel regions do: work, wait at the end for the last thread, start and
//! end. Computed from the begin and end of a region in the thread that starts it, and from the times at which
//! each thread of its team enters and leaves the region's *body*: the function into which compilers turn the
//! code of a region (`main._omp_fn.0`, `.omp_outlined.`).
//!
//! A region from s to e with a team of n threads takes n (e - s), which is divided into *working* (in the
//! body, including barriers within it), *starting* (from s until a thread enters the body), *waiting* (from a
//! thread's leaving the body until the last thread leaves it), and *ending* (from then to e). This is the
//! additive form of POP's hybrid metrics (co-design.pop-coe.eu/metrics): each part but the first is a
//! separate inefficiency.
//!
//! Only regions that the process's first thread starts are analysed. Nested regions are work of the thread
//! that starts them, and their other threads are not of the team around them: its threads run the function that
//! the first thread enters first. Regions that other threads of the program start are only counted. A body
//! returns before its region does, so the order of the ring is enough. Pure: times come with the calls.

use std::ops::Range;

use abi::Call;

use super::scaling::{Scaling, UnusedIteration};
use crate::cost::ProbeTimes;

/// Bodies that may lie between two regions of the first thread; with more of them the region is not analysed.
const BODIES_MAX: usize = 1 << 14;

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TeamPart {
    /// A parallel region, from its begin to its end.
    Region,
    /// The work of one thread of the team in it.
    Body,
}

/// Sums over the analysed regions. Times are summed over all threads, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TeamTotals {
    pub regions: u64,
    /// Threads of the smallest team.
    pub threads_least: u64,
    /// Threads of the largest team.
    pub threads_most: u64,
    /// Sum of the team sizes; divided by `regions`, it is the mean size of a team.
    pub threads: u64,
    /// Time of all threads of the teams, from begin to end of their regions: the sum of the next four fields.
    pub team_ns: u64,
    pub working_ns: u64,
    /// Before the threads enter the body.
    pub starting_ns: u64,
    /// From a thread's leaving the body until the last one has left it.
    pub waiting_ns: u64,
    pub ending_ns: u64,
    /// Working time if all threads worked as long as the one that works longest.
    pub longest_ns: u64,
}

/// What the threads of a team do in one region, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TeamParts {
    pub(super) threads: u32,
    pub(super) working_ns: u64,
    pub(super) starting_ns: u64,
    pub(super) waiting_ns: u64,
    pub(super) ending_ns: u64,
    /// Work of the thread that works longest.
    pub(super) longest_ns: u64,
}

/// The regions of one process, in order.
#[derive(Clone, Debug, Default)]
pub struct Teams {
    bodies: Vec<Body>,
    /// Begin of the newest region that has ended.
    begin_ns: u64,
    /// Calls were missed since the last region.
    is_broken: bool,
    totals: TeamTotals,
    /// The same regions by iteration of the detected loop and by team size.
    pub scaling: Scaling,
    /// Regions that were not analysed: calls were missed, no body is known, or another thread started them.
    pub not_looked_into: u64,
}

#[derive(Clone, Copy, Debug)]
struct Body {
    probe: u32,
    thread: u32,
    entered_ns: u64,
    left_ns: u64,
    probes: ProbeTimes,
}

/// The work of one thread in a region.
#[derive(Clone, Copy, Debug)]
struct ThreadWork {
    /// Its last body, from its first entry on.
    body: Body,
    working_ns: u64,
}

impl Teams {
    /// Takes the content of a process's ring: calls in order, `None` for each that was overwritten, and the
    /// number of overwritten calls before them. `part` gives the kind of a probe's calls, and what its hits
    /// cost.
    pub fn take(
        &mut self,
        first_thread: u32,
        calls: &[Option<Call>],
        skipped: u64,
        part: impl Fn(u32) -> Option<(TeamPart, ProbeTimes)>,
    ) {
        self.is_broken |= skipped > 0;
        for call in calls {
            let Some(call) = call else {
                self.is_broken = true;
                continue;
            };
            match part(call.probe) {
                Some((TeamPart::Body, probes)) if self.bodies.len() < BODIES_MAX => {
                    self.bodies.push(Body::of(call, probes));
                }
                Some((TeamPart::Body, _)) => self.is_broken = true,
                Some((TeamPart::Region, probes)) if call.thread == first_thread => self.close(call, probes),
                Some((TeamPart::Region, _)) => self.not_looked_into += 1,
                None => {}
            }
        }
    }

    /// Calls were not recorded for some time.
    pub fn gap(&mut self) {
        self.bodies.clear();
        self.is_broken = true;
        self.scaling.gap();
    }

    /// Totals so far; `None` if no region was analysed.
    pub fn totals(&self) -> Option<TeamTotals> {
        (self.totals.regions > 0).then_some(self.totals)
    }

    /// A region of the first thread has ended. The time of our probes in it is left out, so that teams of one
    /// thread lose nothing by starting and ending.
    fn close(&mut self, region: &Call, probes: ProbeTimes) {
        let (begin, end) = (region.entered_ns, region.entered_ns + region.duration_ns);
        let team = team(&self.bodies, region.thread, begin..end);
        self.bodies.clear();
        // The bodies in a region within this one were taken with that one.
        self.is_broken |= std::mem::replace(&mut self.begin_ns, begin) > begin;
        let range = without_probes(begin..end, &team);
        let parts = match (std::mem::take(&mut self.is_broken), &team[..]) {
            (true, _) => Err(UnusedIteration::CallsMissed),
            (false, []) => Err(UnusedIteration::BodiesUnknown),
            (false, team) => Ok(TeamParts::of(&range, team)),
        };
        let probes_ns = (end - begin) - (range.end - range.start) + probes.exit_ns;
        let (begin, end) = (range.start, range.end);
        self.scaling
            .region(region.site, (begin, end), parts.as_ref(), probes_ns);
        match parts {
            Ok(parts) => self.totals.add(end - begin, &parts),
            Err(_) => self.not_looked_into += 1,
        }
    }
}

impl Body {
    fn of(call: &Call, probes: ProbeTimes) -> Body {
        Body {
            probe: call.probe,
            thread: call.thread,
            entered_ns: call.entered_ns,
            left_ns: call.entered_ns + call.duration_ns,
            probes,
        }
    }
}

/// The threads of a region of the first thread: those that run the function that the first thread enters first,
/// so threads of nested teams are not among them. A body nested in another one of its thread is part of its work.
fn team(bodies: &[Body], first: u32, region: Range<u64>) -> Vec<ThreadWork> {
    let inside = || {
        let bodies = bodies.iter();
        bodies.filter(|body| body.entered_ns >= region.start && body.left_ns <= region.end)
    };
    let of_first = inside().filter(|body| body.thread == first);
    let Some(function) = of_first.min_by_key(|body| body.entered_ns).map(|body| body.probe) else {
        return Vec::new();
    };
    let mut team: Vec<ThreadWork> = Vec::new();
    // A nested body comes before the one around it, so iterate from the last to the first.
    for body in inside().rev() {
        let working_ns = body.left_ns - body.entered_ns;
        match team.iter_mut().find(|member| member.body.thread == body.thread) {
            Some(member) if body.entered_ns >= member.body.entered_ns => {}
            Some(member) => {
                member.body.entered_ns = body.entered_ns;
                member.working_ns += working_ns;
            }
            None => team.push(ThreadWork {
                body: *body,
                working_ns,
            }),
        }
    }
    team.retain(|member| inside().any(|body| body.thread == member.body.thread && body.probe == function));
    team
}

/// A region without the time of the probes between its begin and the first thread in its body, and between
/// the last thread there and its end.
fn without_probes(region: Range<u64>, team: &[ThreadWork]) -> Range<u64> {
    let bodies = || team.iter().map(|member| member.body);
    let first = bodies().min_by_key(|body| body.entered_ns);
    let last = bodies().max_by_key(|body| body.left_ns);
    let Some((first, last)) = first.zip(last) else {
        return region;
    };
    let starting = (first.entered_ns - region.start).min(first.probes.entry_ns);
    let ending = (region.end - last.left_ns).min(last.probes.exit_ns);
    region.start + starting..region.end - ending
}

impl TeamParts {
    fn of(region: &Range<u64>, team: &[ThreadWork]) -> TeamParts {
        let (begin, end) = (region.start, region.end);
        let last = team.iter().map(|member| member.body.left_ns).max().unwrap_or(end);
        let mut parts = TeamParts {
            threads: team.len() as u32,
            ending_ns: team.len() as u64 * (end - last),
            ..TeamParts::default()
        };
        for member in team {
            parts.working_ns += member.working_ns;
            let left_ns = member.body.left_ns;
            parts.waiting_ns += last - left_ns;
            // Time between two bodies of a thread (a task that it takes over) is counted as starting.
            parts.starting_ns += left_ns - begin - member.working_ns;
            parts.longest_ns = parts.longest_ns.max(member.working_ns);
        }
        parts
    }
}

impl TeamTotals {
    /// Adds a region of this length.
    fn add(&mut self, region_ns: u64, parts: &TeamParts) {
        let threads = u64::from(parts.threads);
        self.threads_least = match self.regions {
            0 => threads,
            _ => self.threads_least.min(threads),
        };
        self.threads_most = self.threads_most.max(threads);
        self.threads += threads;
        self.regions += 1;
        self.team_ns += threads * region_ns;
        self.longest_ns += threads * parts.longest_ns;
        self.working_ns += parts.working_ns;
        self.starting_ns += parts.starting_ns;
        self.waiting_ns += parts.waiting_ns;
        self.ending_ns += parts.ending_ns;
    }

    /// The sums of two processes.
    pub fn plus(self, other: TeamTotals) -> TeamTotals {
        TeamTotals {
            regions: self.regions + other.regions,
            threads_least: self.threads_least.min(other.threads_least),
            threads_most: self.threads_most.max(other.threads_most),
            threads: self.threads + other.threads,
            team_ns: self.team_ns + other.team_ns,
            working_ns: self.working_ns + other.working_ns,
            starting_ns: self.starting_ns + other.starting_ns,
            waiting_ns: self.waiting_ns + other.waiting_ns,
            ending_ns: self.ending_ns + other.ending_ns,
            longest_ns: self.longest_ns + other.longest_ns,
        }
    }

    /// A time as a share of the teams' time.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.team_ns.max(1) as f64
    }

    /// The mean work of a thread divided by that of the one that works longest, summed by region; `None`
    /// without work.
    pub fn load_balance(&self) -> Option<f64> {
        (self.longest_ns > 0).then(|| self.working_ns as f64 / self.longest_ns as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REGION: u32 = 0;
    const BODY: u32 = 1;

    fn call(probe: u32, thread: u32, entered_ns: u64, left_ns: u64) -> Option<Call> {
        Some(Call {
            probe,
            thread,
            entered_ns,
            duration_ns: left_ns - entered_ns,
            ..Call::default()
        })
    }

    fn part(probe: u32) -> Option<(TeamPart, ProbeTimes)> {
        match probe {
            REGION => Some((TeamPart::Region, ProbeTimes::default())),
            BODY..=3 => Some((TeamPart::Body, ProbeTimes::default())),
            _ => None,
        }
    }

    fn seen(calls: &[Option<Call>]) -> Teams {
        let mut teams = Teams::default();
        teams.take(1, calls, 0, part);
        teams
    }

    #[test]
    fn a_region_is_work_waiting_and_what_its_begin_and_end_take() {
        let teams = seen(&[
            call(BODY, 2, 130, 230),
            call(BODY, 1, 110, 410),
            call(7, 1, 0, 1),
            call(REGION, 1, 100, 420),
        ]);
        let totals = teams.totals().unwrap();
        assert_eq!(
            (totals.regions, totals.threads_least, totals.threads_most),
            (1, 2, 2)
        );
        assert_eq!((totals.team_ns, totals.working_ns), (640, 400));
        assert_eq!(
            (totals.starting_ns, totals.waiting_ns, totals.ending_ns),
            (40, 180, 20)
        );
        assert_eq!(totals.load_balance(), Some(400.0 / 600.0));
    }

    #[test]
    fn the_time_of_our_probes_is_neither_start_nor_end() {
        let probes = ProbeTimes {
            entry_ns: 8,
            exit_ns: 15,
        };
        let mut teams = Teams::default();
        let calls = [
            call(BODY, 2, 130, 230),
            call(BODY, 1, 110, 410),
            call(REGION, 1, 100, 420),
            // Starts and ends within less time than a hit usually takes.
            call(BODY, 1, 505, 590),
            call(REGION, 1, 500, 600),
        ];
        teams.take(1, &calls, 0, |probe| Some((part(probe)?.0, probes)));
        let totals = teams.totals().unwrap();
        assert_eq!((totals.team_ns, totals.working_ns), (604 + 85, 485));
        assert_eq!(
            (totals.starting_ns, totals.waiting_ns, totals.ending_ns),
            (24, 180, 0)
        );
    }

    #[test]
    fn regions_within_a_region_are_work_of_the_thread_that_starts_them() {
        // Thread 2 starts a region of its own within the body, and so does the first.
        let teams = seen(&[
            call(BODY, 2, 140, 150),
            call(REGION, 2, 135, 155),
            call(BODY, 1, 140, 150),
            call(BODY, 2, 130, 230),
            call(BODY, 1, 110, 410),
            call(REGION, 1, 100, 420),
        ]);
        let totals = teams.totals().unwrap();
        assert_eq!((totals.regions, totals.team_ns, totals.working_ns), (1, 640, 400));
        assert_eq!(teams.not_looked_into, 1);
    }

    #[test]
    fn threads_of_nested_teams_are_not_of_the_team_around_them() {
        const NESTED: u32 = 2;
        const TASK: u32 = 3;
        // Threads 1 and 2 each start a team with another thread; thread 2 takes over a task at the end.
        let teams = seen(&[
            call(NESTED, 3, 160, 210),
            call(NESTED, 2, 150, 200),
            call(REGION, 2, 140, 220),
            call(NESTED, 4, 180, 300),
            call(NESTED, 1, 170, 310),
            call(BODY, 2, 130, 230),
            call(BODY, 1, 110, 400),
            call(TASK, 2, 240, 250),
            call(REGION, 1, 100, 420),
        ]);
        let totals = teams.totals().unwrap();
        assert_eq!((totals.regions, totals.threads, totals.team_ns), (1, 2, 640));
        assert_eq!((totals.working_ns, totals.starting_ns), (400, 50));
        assert_eq!((totals.waiting_ns, totals.ending_ns), (150, 40));
    }

    /// Nested regions of the first thread are recorded if they begin in another function of the library.
    #[test]
    fn a_region_around_an_analysed_one_is_not_counted_again() {
        let teams = seen(&[
            call(BODY, 2, 130, 180),
            call(BODY, 1, 210, 290),
            call(REGION, 1, 200, 300),
            call(BODY, 1, 110, 400),
            call(REGION, 1, 100, 420),
            call(BODY, 1, 510, 600),
            call(REGION, 1, 500, 620),
        ]);
        let totals = teams.totals().unwrap();
        assert_eq!((totals.regions, totals.team_ns), (2, 220));
        assert_eq!(teams.not_looked_into, 1);
    }

    #[test]
    fn a_region_of_which_calls_are_missing_is_counted_and_left_out() {
        let overall = [call(BODY, 1, 110, 410), call(REGION, 1, 100, 420)];
        let cut = [call(BODY, 1, 510, 610), None, call(REGION, 1, 500, 620)];
        let without_body = [call(REGION, 1, 700, 720)];
        let after = [call(BODY, 1, 810, 910), call(REGION, 1, 800, 920)];
        let teams = seen(&[&overall[..], &cut, &without_body, &after].concat());
        assert_eq!(teams.totals().map(|totals| totals.regions), Some(2));
        assert_eq!(teams.not_looked_into, 2);
    }

    proptest! {
        /// The parts add up to the time of the teams.
        #[test]
        fn parts_add_up(regions in prop::collection::vec(prop::collection::vec((0_u64..50, 1_u64..100, 0_u64..50), 1..6), 1..20)) {
            let mut calls = Vec::new();
            let mut now = 0;
            for team in &regions {
                let end = team.iter().map(|(start, work, end)| start + work + end).max().unwrap();
                for (thread, (start, work, _)) in (1..).zip(team) {
                    calls.push(call(BODY, thread, now + start, now + start + work));
                }
                calls.push(call(REGION, 1, now, now + end));
                now += end;
            }
            let totals = seen(&calls).totals().unwrap();
            prop_assert_eq!(totals.regions, regions.len() as u64);
            prop_assert_eq!(totals.team_ns, totals.working_ns + totals.starting_ns + totals.waiting_ns + totals.ending_ns);
            prop_assert!(totals.load_balance().unwrap() <= 1.0);
        }
    }
}
