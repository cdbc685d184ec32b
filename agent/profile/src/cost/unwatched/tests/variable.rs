//! Programs whose pace varies, or whose CPU time is no measure of their pace: the truth is within the range of the
//! estimate, and the range is no wider than it has to be.

use super::*;

/// A slice of 100 ms: the calls in it, and the CPU time as a share of it.
type Slice = (u64, f64);

/// A name; the window's slices, those of the gap, the share of time inside MPI; and the width of the range
/// relative to the truth: at least, at most.
type Row = (&'static str, Vec<Slice>, Vec<Slice>, f64, [f64; 2]);

/// What a session sees: windows, each of slices, and after each a gap.
struct Seen {
    unwatched: Unwatched,
    at: CountTime,
    counted: u64,
    truth: u64,
}

impl Seen {
    fn begin() -> Seen {
        let mut unwatched = Unwatched::default();
        unwatched.open(CountTime::default(), &totals(0));
        Seen {
            unwatched,
            at: CountTime::default(),
            counted: 0,
            truth: 0,
        }
    }

    fn pass(&mut self, (calls, cpu): Slice) {
        self.at.at_ns += 100_000_000;
        self.at.cpu_ns += (cpu * 1e8) as u64;
        self.truth += calls;
    }

    /// `inside` is the share of the elapsed time inside MPI, without waiting for a CPU.
    fn window(&mut self, slices: &[Slice], inside: f64) {
        let began = self.at;
        for slice in slices {
            self.pass(*slice);
            self.counted += slice.0;
            self.unwatched.mark(self.at, &totals(self.counted));
        }
        let length = self.at.since(began);
        let window = ProcessWindow {
            length,
            threads: 1,
            inside_ns: (inside * length.at_ns as f64) as u64,
            ..ProcessWindow::default()
        };
        let counted = totals(self.counted);
        (self.unwatched).close_window(self.at, &counted, &[], &BTreeSet::from([0]), window);
    }

    fn gap(&mut self, slices: &[Slice]) {
        slices.iter().for_each(|slice| self.pass(*slice));
        self.unwatched.open(self.at, &totals(self.counted));
    }

    fn estimate(&self) -> Estimate {
        let counted = totals(self.counted);
        self.unwatched
            .estimate(0, self.at, self.at.at_ns, &counted)
            .unwrap()
    }
}

/// Paces around 70 calls in a slice, as those of an MPI program beside a build.
const VARIES: [u64; 10] = [88, 61, 75, 70, 42, 93, 66, 58, 81, 71];

fn at_cpu(calls: &[u64], cpu: f64) -> Vec<Slice> {
    calls.iter().map(|calls| (*calls, cpu)).collect()
}

#[test]
fn the_truth_is_within_the_range_and_the_range_is_as_wide_as_the_pace_varies() {
    let steady = at_cpu(&[70; 10], 0.9);
    let varies = at_cpu(&VARIES, 0.9);
    let rows: [Row; 6] = [
        ("steady", steady.clone(), at_cpu(&[70; 30], 0.9), 0.0, [0.0, 0.02]),
        ("varies", varies.clone(), at_cpu(&[62; 30], 0.9), 0.0, [0.1, 0.4]),
        // A window of one slice says nothing about how the pace varies.
        (
            "one slice",
            at_cpu(&[70], 0.9),
            at_cpu(&[100; 3], 0.9),
            0.0,
            [0.5, 2.0],
        ),
        // It computes, and others take its CPU in the gap: half as many calls.
        (
            "kept from its CPU",
            steady.clone(),
            at_cpu(&[35; 30], 0.45),
            0.0,
            [0.0, 0.02],
        ),
        // A rank that spins, which has a CPU more often in the gap (measured: 0.14 and 0.22 of one). The other
        // ranks set its pace.
        (
            "spins more",
            at_cpu(&[43; 10], 0.14),
            at_cpu(&[44; 54], 0.22),
            0.14,
            [0.5, 2.0],
        ),
        (
            "spins less",
            at_cpu(&[43; 10], 0.25),
            at_cpu(&[44; 54], 0.14),
            0.25,
            [0.3, 1.5],
        ),
    ];
    for (name, window, gap, inside, [least, most]) in rows {
        let mut seen = Seen::begin();
        seen.window(&window, inside);
        seen.gap(&gap);
        let (estimate, truth) = (seen.estimate(), seen.truth);
        let to = estimate.to.unwrap();
        assert!(
            estimate.from <= truth && truth <= to,
            "{name}: {estimate:?} of {truth}"
        );
        let width = (to - estimate.from) as f64 / truth as f64;
        assert!(
            (least..=most).contains(&width),
            "{name}: {estimate:?} of {truth}, {width}"
        );
    }
}

#[test]
fn a_rank_that_spins_is_estimated_by_elapsed_time() {
    for (window, gap) in [(0.14, 0.22), (0.25, 0.14)] {
        let mut seen = Seen::begin();
        seen.window(&at_cpu(&[43; 10], window), window);
        seen.gap(&at_cpu(&[43; 54], gap));
        let estimated = seen.unwatched.estimated(seen.at, &totals(seen.counted))[0].calls;
        let error = estimated as f64 / seen.truth as f64 - 1.0;
        assert!(error.abs() < 0.01, "{estimated} of {}", seen.truth);
    }
}

/// The errors of many gaps cancel out: of a long session the range is narrower than of its first gap.
#[test]
fn with_the_number_of_windows_the_range_becomes_narrow() {
    let mut seen = Seen::begin();
    let mut widths = Vec::new();
    for cycle in 0..64 {
        // Windows and gaps meet other parts of the program.
        let of = |slice: usize| (VARIES[(cycle * 7 + slice * 3) % 10], 0.9);
        seen.window(&[of(0)], 0.0);
        seen.gap(&(1..10).map(of).collect::<Vec<_>>());
        let estimate = seen.estimate();
        let truth = seen.truth;
        let to = estimate.to.unwrap();
        assert!(
            estimate.from <= truth && truth <= to,
            "{cycle}: {estimate:?} of {truth}"
        );
        widths.push((to - estimate.from) as f64 / truth as f64);
    }
    assert!(
        widths[63] < widths[7] / 2.0 && widths[63] < 0.2,
        "{} {}",
        widths[7],
        widths[63]
    );
}
