//! Property test of hits that are aggregated in the kernel: windows, findings and decisions equal those for
//! individual hits, for any times of reading the aggregates and any hits sent individually. If hits were
//! aggregated across a boundary, which may be a boundary of another process, the window is marked partial;
//! its numbers are never different.

use super::job::measured;
use super::streams::{PROCESSES, Sent, facts};
use super::*;
use crate::partial_sum::{Group, Grouping, PartialSum, SummedValue, Sums};
use crate::plan::PlannedProbe;

/// Hits of one group, and the part that was passed in.
struct Cell {
    partial_sum: PartialSum,
    delivered: Option<PartialSum>,
}

/// Aggregates hits as the kernel side does: two groups per probe and process at a time.
#[derive(Default)]
struct Adder {
    epochs: BTreeMap<u32, u64>,
    cells: BTreeMap<(usize, u32, bool), Cell>,
    /// Observations to be passed in.
    ring: Vec<Observation>,
    added: usize,
}

/// A hit with its time in nanoseconds, unique within a process.
type Timed = (Sent, u64);

fn timed(hits: &[Sent]) -> Vec<Timed> {
    let mut hits = hits.to_vec();
    hits.sort_by_key(|hit| (hit.end, hit.process, hit.probe));
    let mut out: Vec<Timed> = Vec::new();
    for hit in hits {
        let time = hit.end * MS;
        let next = out.last().map_or(0, |(_, last)| last + 1);
        out.push((hit, time.max(next)));
    }
    out
}

fn observed((hit, time_ns): &Timed) -> Observation {
    let mut out = observation(hit);
    if let Observation::Hit { time, .. } = &mut out {
        *time = Time(*time_ns);
    }
    out
}

fn integer(value: Option<f64>) -> Option<i64> {
    value
        .filter(|value| value.fract() == 0.0 && value.abs() < 9e15)
        .map(|value| value as i64)
}

impl Cell {
    /// The hits since the last reading.
    fn more(&mut self) -> Option<PartialSum> {
        let delivered = self.delivered.replace(self.partial_sum.clone());
        let mut more = self.partial_sum.clone();
        if let Some(delivered) = delivered {
            more.count -= delivered.count;
            for (sums, delivered) in more.sums.iter_mut().zip(&delivered.sums) {
                sums.sum -= delivered.sum;
                sums.squares -= delivered.squares;
            }
        }
        (more.count > 0).then_some(more)
    }
}

impl Adder {
    fn hit(&mut self, hit: &Timed, planned: &PlannedProbe, alone: bool) {
        let taken = if alone { None } else { self.add(hit, planned) };
        if taken.is_none() {
            if planned.parts_sums {
                *self.epochs.entry(hit.0.process).or_default() += 1;
            }
            self.ring.push(observed(hit));
        }
    }

    fn add(&mut self, (hit, time): &Timed, planned: &PlannedProbe) -> Option<()> {
        let partial_sum = planned.partial_sum.as_ref()?;
        let value = |value: &SummedValue| match value {
            SummedValue::Duration => Some((hit.duration * MS) as i64),
            SummedValue::Read(read) => integer(*hit.reads.get(*read)?),
        };
        let sums: Option<Vec<Sums>> = partial_sum
            .values
            .iter()
            .map(|of| value(of).map(Sums::of))
            .collect();
        let sums = sums?;
        let (group, odd) = match partial_sum.by {
            Grouping::Read(read) => {
                let key = integer(*hit.reads.get(read)?)?;
                (Group::Key(key), key & 1 == 1)
            }
            Grouping::Epoch => {
                let epoch = self.epochs.get(&hit.process).copied().unwrap_or(0);
                (Group::Epoch(epoch), epoch & 1 == 1)
            }
        };
        let one = PartialSum {
            group,
            first: Time(*time),
            last: Time(*time),
            count: 1,
            sums,
        };
        self.added += 1;
        let at = (hit.probe, hit.process, odd);
        match self.cells.get_mut(&at) {
            Some(cell) if cell.partial_sum.group == group => cell.partial_sum.add(&one),
            before => {
                let more = before.and_then(Cell::more);
                self.ring
                    .extend(more.map(|partial_sum| observation_of(at, partial_sum)));
                let cell = Cell {
                    partial_sum: one,
                    delivered: None,
                };
                self.cells.insert(at, cell);
            }
        }
        Some(())
    }

    fn look(&mut self) -> Vec<Observation> {
        let more = |(at, cell): (&(usize, u32, bool), &mut Cell)| Some(observation_of(*at, cell.more()?));
        self.cells.iter_mut().filter_map(more).collect()
    }
}

fn observation_of((probe, process, _): (usize, u32, bool), partial_sum: PartialSum) -> Observation {
    Observation::PartialSum {
        rule: RuleId(0),
        probe: ProbeId(probe),
        process: ProcessId(process),
        partial_sum,
    }
}

/// By round: hits before a reading, hits during it, and whether the reading is unprompted. Also, for each
/// hit, whether it is sent individually.
#[derive(Clone, Debug)]
struct Pace {
    rounds: Vec<(usize, usize, bool)>,
    alone: Vec<bool>,
}

fn any_pace() -> impl Strategy<Value = Pace> {
    (
        prop::collection::vec((1usize..30, 0usize..12, any::<bool>()), 1..12),
        prop::collection::vec(prop::bool::weighted(0.15), 60),
    )
        .prop_map(|(rounds, alone)| Pace { rounds, alone })
}

/// The result for a stream.
struct Outcome {
    said: Vec<Output>,
    windows: Vec<ClosedWindow>,
    /// The number of partial windows, including those that a rule discards.
    partial: u64,
    /// The number of aggregated hits.
    added: usize,
}

fn delivered(rule: &CheckedRule, hits: &[Timed], pace: &Pace, adds: bool) -> Outcome {
    let mut engine = Engine::new(vec![rule.clone()], Time(0)).unwrap();
    engine.set_mode(RuleId(0), Mode::Applying);
    (0..PROCESSES).for_each(|rank| engine.process_joined(ProcessId(rank), facts(rank), Time(0)));
    let end = hits.last().map_or(0, |(_, time)| time / MS) + 1000;
    for (_, observation) in (0..end)
        .step_by(100)
        .flat_map(|ms| measured(rule, &[0; PROCESSES as usize], ms))
    {
        engine.observe(observation);
    }
    let (mut said, mut windows) = (engine.tick(Time(0)), Vec::new());
    let mut adder = Adder::default();
    let mut alone = pace.alone.iter().cycle();
    let mut left = hits.iter();
    let mut rounds = pace.rounds.iter().cycle();
    while left.len() > 0
        && let Some((hits, early, looks)) = rounds.next()
    {
        let mut seen = None;
        let mut parted = false;
        for (index, hit) in left.by_ref().take(hits + early).enumerate() {
            let planned = &rule.plan().probes[hit.0.probe];
            parted |= planned.parts_sums;
            seen = if index < *hits { Some(hit.1) } else { seen };
            adder.hit(hit, planned, !adds || alone.next() == Some(&true));
        }
        if *looks || parted {
            adder
                .look()
                .into_iter()
                .for_each(|partial_sum| engine.observe(partial_sum));
        }
        adder
            .ring
            .drain(..)
            .for_each(|observation| engine.observe(observation));
        for process in 0..PROCESSES {
            let (process, time) = (ProcessId(process), Time(seen.unwrap_or(0)));
            engine.observe(Observation::Watermark { process, time });
        }
        said.extend(engine.tick(Time(100_000 * MS)));
        windows.extend(engine.drain_windows());
    }
    adder
        .look()
        .into_iter()
        .for_each(|partial_sum| engine.observe(partial_sum));
    for process in (0..PROCESSES).map(ProcessId) {
        let time = Time(200_000 * MS);
        engine.observe(Observation::Watermark { process, time });
    }
    said.extend(engine.tick(Time(200_000 * MS)));
    windows.extend(engine.drain_windows());
    Outcome {
        said,
        windows,
        partial: engine.dropped(RuleId(0)).partial,
        added: adder.added,
    }
}

fn is_across(window: &ClosedWindow) -> bool {
    says(window, "aggregated across one of its boundaries")
}

fn is_partial(window: &ClosedWindow) -> bool {
    says(window, "the window is partial")
}

fn says(window: &ClosedWindow, what: &str) -> bool {
    window.metrics.iter().any(|(_, value)| value.contains(what))
}

/// Folds of every kind that can be aggregated, by key and from boundary to boundary.
fn written() -> Vec<String> {
    let more = "  spread: stddev(compute.duration)
  shortest: min(compute.duration)
  longest: max(send.duration) by process
  sends: count(send)
  largest: max(send.bytes)
  means: mean(send.bytes) by process
  spreads: stddev(send.bytes)
  recent: sum(total over 3)
  since: sum(total over run)
";
    let own = "\
rule: own
about: workers that begin and end by themselves
roles:
  worker: rank > 0
probes:
  enter: {role: worker, entry: i}
  leave: {role: worker, return: o}
  compute: {role: worker, span: c}
capture:
  enter.number: current
  leave.number: current
  compute.batch: batch_id as i32
windows:
  visit: {from: enter, to: leave, key: number}
metrics:
  busy: sum(compute.duration) by process
  batches: sum(compute.batch) by process
  most: max(compute.batch)
  computes: count(compute)
";
    let tune =
        "tune:\n  - set: chunk\n    role: worker\n    value: floor(busy / 1ms)\n    when: total > 100ms\n";
    vec![
        format!("{FRAME}{more}"),
        format!("{FRAME}{more}{tune}"),
        FRAME.replace("to: end, ", "") + more,
        FRAME.replace("key: number}", "key: number, skip: 1, discard: count(send) > 10}") + more,
        own.to_string(),
        own.replace("compute.batch", "compute.number"),
    ]
}

fn any_added() -> impl Strategy<Value = Checked> {
    let written = proptest::sample::select(written()).prop_map(|text| Checked {
        rule: CheckedRule::from_source(&text).unwrap(),
        text,
    });
    let is_added = |checked: &Checked| {
        let windows = checked
            .rule
            .windows
            .iter()
            .all(|window| window.boundaries().is_some());
        windows
            && checked
                .rule
                .plan()
                .probes
                .iter()
                .any(|probe| probe.partial_sum.is_some())
    };
    let generated = any_checked().prop_filter("something is aggregated in it", is_added);
    prop_oneof![1 => written, 1 => generated]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_aggregated_gives_the_windows_findings_and_decisions_of_every_hit_by_itself(
        Checked { text, rule } in any_added(),
        turns in prop::collection::vec(any_turn(), 1..7),
        punctual in prop::bool::weighted(0.7),
        pace in any_pace(),
    ) {
        let calm = |turn: Turn| if punctual { Turn { skew: 0, behind: false, ..turn } } else { turn };
        let turns: Vec<Turn> = turns.into_iter().map(calm).collect();
        let hits = timed(&stream(&turns, &rule));
        let each = delivered(&rule, &hits, &pace, false);
        let added = delivered(&rule, &hits, &pace, true);
        if added.partial == each.partial {
            // A window may be partial for two reasons, either of which may be reported.
            let as_each = |(added, each)| if is_across(added) && is_partial(each) { each } else { added };
            let windows: Vec<&ClosedWindow> = added.windows.iter().zip(&each.windows).map(as_each).collect();
            prop_assert_eq!(added.windows.len(), each.windows.len(), "{}", text);
            prop_assert_eq!(windows, each.windows.iter().collect::<Vec<_>>(), "{}", text);
            prop_assert_eq!(&added.said, &each.said, "{}", text);
        } else {
            // Windows that a rule discards are not among them.
            let differs = |index: &usize| added.windows.get(*index) != each.windows.get(*index);
            let first = (0..each.windows.len()).find(differs).and_then(|index| added.windows.get(index));
            let is_later = |window: &ClosedWindow| each.windows.contains(window);
            prop_assert!(!punctual, "partial though nothing went on behind an end, of\n{}", text);
            prop_assert!(
                first.is_none_or(|first| is_across(first) || is_later(first) || text.contains("discard")),
                "{:?}\n{}", first, text
            );
        }
    }
}

#[test]
fn hits_are_aggregated_and_windows_across_a_boundary_are_few() {
    let pace = Pace {
        rounds: vec![(7, 3, false)],
        alone: vec![false],
    };
    for text in written() {
        let rule = CheckedRule::from_source(&text).unwrap();
        let turns = vec![Turn { skew: 0, ..a_turn() }; 6];
        let hits = timed(&stream(&turns, &rule));
        let Outcome { windows, added, .. } = delivered(&rule, &hits, &pace, true);
        assert!(added >= 24, "{added} of {}\n{text}", hits.len());
        assert!(windows.len() >= 4, "{windows:?}\n{text}");
        assert!(!windows.iter().any(is_across), "{windows:?}\n{text}");
    }
}

/// Two hits of the second process with the key 7, the first and the last at these times in ms.
fn two(farm: &Farm, first: u64, last: u64) -> Observation {
    Observation::PartialSum {
        rule: RuleId(0),
        probe: farm.probe("compute"),
        process: ProcessId(1),
        partial_sum: PartialSum {
            group: Group::Key(7),
            first: Time(first * MS),
            last: Time(last * MS),
            count: 2,
            sums: vec![Sums::of(5_000_000)],
        },
    }
}

#[test]
fn what_was_aggregated_on_both_sides_of_an_end_makes_its_window_partial() {
    let mut farm = Farm::new(FRAME, 3);
    farm.hits(&[
        ("begin", 0, 100, 0, vec![7.0, 2.0]),
        ("end", 0, 200, 0, vec![7.0]),
    ]);
    let across = two(&farm, 150, 250);
    farm.engine.observe(across);
    farm.all_until(220);
    let closed = farm.engine.drain_windows();
    assert!(closed.iter().any(is_across), "{closed:?}");
}

#[test]
fn what_was_aggregated_since_before_a_rule_was_there_makes_its_first_window_partial() {
    let rule = CheckedRule::from_source(FRAME).unwrap();
    let mut farm = Farm {
        engine: Engine::new(Vec::new(), Time(0)).unwrap(),
    };
    (0..3).for_each(|rank| farm.join(rank, 0));
    farm.engine.add(rule, Time(120 * MS)).unwrap();
    let before = two(&farm, 110, 150);
    farm.engine.observe(before);
    farm.hits(&[
        ("begin", 0, 130, 0, vec![7.0, 2.0]),
        ("end", 0, 200, 0, vec![7.0]),
    ]);
    farm.all_until(220);
    let closed = farm.closed();
    assert!(
        closed.len() == 1 && closed[0].contains("hits were lost"),
        "{closed:?}"
    );
}

/// The probes of the shipped rules whose hits are aggregated, with their grouping.
#[test]
fn the_shipped_rules_have_aggregated_what_they_sum_over_an_iteration() {
    let shipped = crate::models().iter().chain(crate::library());
    let mut added: Vec<String> = Vec::new();
    for (name, text) in shipped {
        let rule = CheckedRule::from_source(text).unwrap();
        for probe in &rule.plan().probes {
            let by = probe
                .partial_sum
                .as_ref()
                .map(|partial_sum| match partial_sum.by {
                    Grouping::Read(_) => "key",
                    Grouping::Epoch => "stretch",
                });
            added.extend(by.map(|by| format!("{name}.{} by {by}", probe.name)));
        }
    }
    insta::assert_snapshot!(added.join("\n"));
}
