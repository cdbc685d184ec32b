//! A long session with many ranks, whose numbers differ between ranks, over time, and between seconds. The tests of
//! sizes and the benchmark of the page use it.

use std::time::Duration;

use profile::{
    FunctionTotals, IterationView, JobView, LoadView, MatrixView, Messages, PaceView, PairView, ProcessView,
    Rates, SequenceView, Snapshot, TimeBucket, TimeByMpi, TimeParts, TimeView,
};

/// Length of the session, in seconds.
const LENGTH_S: u64 = 24 * 3600;
/// The series are as long as those of a session can be.
const LOADS: u64 = 64;
const BUCKETS: u64 = 1024;

const FUNCTIONS: [&str; 8] = [
    "MPI_Allreduce",
    "MPI_Bcast",
    "MPI_Irecv",
    "MPI_Isend",
    "MPI_Reduce",
    "MPI_Test",
    "MPI_Wait",
    "MPI_Waitall",
];

/// Random numbers (Park and Miller, 1988), because equal ones would compress too well.
struct Random(u64);

impl Random {
    fn share(&mut self) -> f64 {
        self.0 = self.0 * 48271 % 0x7fff_ffff;
        self.0 as f64 / f64::from(0x7fff_ffff)
    }

    /// About `mean`, with the noise of real measurements: a twentieth.
    fn near(&mut self, mean: f64) -> f64 {
        mean * (0.95 + 0.1 * self.share())
    }
}

fn part(number: u64, of: u64) -> Duration {
    Duration::from_secs(LENGTH_S) * number as u32 / of as u32
}

fn rank(number: u32, random: &mut Random) -> ProcessView {
    let inside = 0.2 + 0.6 * random.share();
    let load = |number| LoadView {
        until: part(number + 1, LOADS),
        mpi: Some(random.near(inside)),
        cpu: Some(random.near(1.0 - inside)),
        runqueue: Some(random.near(0.1)),
    };
    ProcessView {
        pid: 8120 + number as i32,
        rank: Some(number),
        watched_ns: LENGTH_S * 1_000_000_000,
        load: (0..LOADS).map(load).collect(),
        overall: Some(Rates {
            mpi: Some(random.near(inside)),
            cpu: random.near(1.0 - inside),
            runqueue: random.near(0.1),
            ..Rates::default()
        }),
        functions: FUNCTIONS.map(|name| function(name, random)).into(),
        ..ProcessView::default()
    }
}

fn function(name: &str, random: &mut Random) -> FunctionTotals {
    let calls = (1e6 * random.share()) as u64;
    FunctionTotals {
        name: name.into(),
        calls,
        returned: calls,
        time_ns: Some(calls * 1000),
        returned_ns: calls * 1000,
        bytes: Some(calls * 8),
        ..FunctionTotals::default()
    }
}

fn bucket(number: u64, random: &mut Random) -> TimeBucket {
    let mut ns = |share: f64| (random.near(share) * 1e12) as u64;
    let mut by_mpi = |outside, inside, unknown| TimeByMpi {
        outside_ns: ns(outside),
        inside_ns: ns(inside),
        unknown_ns: ns(unknown),
    };
    TimeBucket {
        from: part(number, BUCKETS),
        until: part(number + 1, BUCKETS),
        parts: TimeParts {
            on_cpu: by_mpi(0.4, 0.2, 0.1),
            ready: by_mpi(0.05, 0.1, 0.0),
            asleep: by_mpi(0.0, 0.05, 0.1),
        },
    }
}

/// The session in its state after this second; `count` is the number of its ranks.
pub(crate) fn of_ranks(count: u32, second: u32) -> Snapshot {
    let mut random = Random(u64::from(second + 1));
    let buckets: Vec<TimeBucket> = (0..BUCKETS).map(|number| bucket(number, &mut random)).collect();
    let pace = |number| PaceView {
        until: part(number + 1, LOADS),
        count: 1_000_000,
        mean_ns: random.near(1.3e6),
        least_ns: random.near(1.1e6),
        most_ns: random.near(3e6),
    };
    let parts = (0..LOADS).map(pace).collect();
    let pair = |number: u32| PairView {
        from: number % count,
        to: number / count,
        of: Messages {
            bytes: 1 << 20,
            count: 16,
        },
    };
    Snapshot {
        job: JobView {
            program: "large".into(),
            size: Some(count as usize),
            mpi: Some(("Open MPI".into(), Some("4.1.4".into()))),
            ..JobView::default()
        },
        elapsed: Duration::from_secs(LENGTH_S + u64::from(second)),
        processes: (0..count).map(|number| rank(number, &mut random)).collect(),
        time: TimeView {
            total: TimeParts::default(),
            buckets,
        },
        sequence: SequenceView {
            iteration: Some(IterationView {
                calls: 4.0,
                count: 64_000_000,
                mean_ns: 1.3e6,
                parts,
                ..IterationView::default()
            }),
            ..SequenceView::default()
        },
        matrix: Some(MatrixView {
            sent: (0..10_000.min(count * count)).map(pair).collect(),
            ..MatrixView::default()
        }),
        ..Snapshot::default()
    }
}
