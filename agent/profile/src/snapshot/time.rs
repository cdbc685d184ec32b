//! Where the time of all processes went, in disjoint parts.

use std::time::Duration;

use crate::fieldwise::fieldwise;

/// The time of all processes since the probes were armed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeView {
    /// The complete run; all 0 before anything was measured.
    pub total: TimeParts,
    /// The same in buckets, in order of time; known at the end of a session, and while it serves a page. Nothing
    /// was measured in a bucket whose parts are all 0.
    pub buckets: Vec<TimeBucket>,
}

/// A part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TimeBucket {
    /// Since all probes were armed.
    pub from: Duration,
    pub until: Duration,
    pub parts: TimeParts,
}

/// Time of threads, in nanoseconds, by what they did. The parts are disjoint, and add up to the time of as many
/// threads as were active on average, and at least one for each process. Active is a thread that is on a CPU,
/// ready to run, or inside MPI; so the sleeping helper threads of MPI libraries do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TimeParts {
    pub on_cpu: TimeByMpi,
    /// Ready to run, waiting for a CPU.
    pub ready: TimeByMpi,
    pub asleep: TimeByMpi,
}

/// Time in one state, in nanoseconds, inside and outside MPI. The kernel reports the states of a process, and
/// the probes its time inside MPI; `unknown_ns` is what these leave open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TimeByMpi {
    pub outside_ns: u64,
    pub inside_ns: u64,
    pub unknown_ns: u64,
}

impl TimeByMpi {
    /// The time in the state, wherever the threads were.
    pub fn all_ns(self) -> u64 {
        self.outside_ns + self.inside_ns + self.unknown_ns
    }

    /// The state took `state_ns` of `all_ns`, and MPI `mpi_ns` of the same time. Their overlap is at least what
    /// does not fit elsewhere, and at most the lesser of the two (the bounds of Fréchet).
    fn of(state_ns: u64, mpi_ns: Option<u64>, all_ns: u64) -> TimeByMpi {
        let least = mpi_ns.map_or(0, |mpi_ns| mpi_ns.saturating_sub(all_ns - state_ns));
        let most = mpi_ns.map_or(state_ns, |mpi_ns| mpi_ns.min(state_ns));
        TimeByMpi {
            outside_ns: state_ns - most,
            inside_ns: least,
            unknown_ns: most - least,
        }
    }
}

fieldwise! {
    TimeByMpi { outside_ns, inside_ns, unknown_ns }
    TimeParts { on_cpu, ready, asleep }
}

impl TimeParts {
    /// Of one process during `elapsed_ns`; the other times are sums over its threads. `mpi` is the time inside
    /// MPI, and the part of it in which threads waited for a CPU; each `None` if unknown.
    pub(crate) fn of(
        elapsed_ns: u64,
        (cpu_ns, ready_ns): (u64, u64),
        mpi: Option<(u64, Option<u64>)>,
    ) -> TimeParts {
        let (mpi_ns, waited_ns) = (mpi.map(|(mpi_ns, _)| mpi_ns), mpi.and_then(|(_, waited)| waited));
        let awake_ns = cpu_ns + ready_ns;
        let all_ns = elapsed_ns.max(awake_ns).max(mpi_ns.unwrap_or(0));
        let asleep_ns = all_ns - awake_ns;
        let Some((mpi_ns, waited_ns)) = mpi_ns.zip(waited_ns) else {
            let part = |state_ns| TimeByMpi::of(state_ns, mpi_ns, all_ns);
            return TimeParts {
                on_cpu: part(cpu_ns),
                ready: part(ready_ns),
                asleep: part(asleep_ns),
            };
        };
        // Both counters are read at slightly different moments.
        let waited_ns = waited_ns
            .min(mpi_ns)
            .min(ready_ns)
            .max(mpi_ns.saturating_sub(all_ns - ready_ns));
        let part = |state_ns| TimeByMpi::of(state_ns, Some(mpi_ns - waited_ns), all_ns - ready_ns);
        TimeParts {
            on_cpu: part(cpu_ns),
            ready: TimeByMpi {
                outside_ns: ready_ns - waited_ns,
                inside_ns: waited_ns,
                unknown_ns: 0,
            },
            asleep: part(asleep_ns),
        }
    }

    /// The sum of all parts.
    pub fn all_ns(&self) -> u64 {
        self.on_cpu.all_ns() + self.ready.all_ns() + self.asleep.all_ns()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn placed(outside_ns: u64, inside_ns: u64, unknown_ns: u64) -> TimeByMpi {
        TimeByMpi {
            outside_ns,
            inside_ns,
            unknown_ns,
        }
    }

    #[test]
    fn a_state_is_inside_mpi_as_far_as_the_totals_say_so() {
        // Elapsed, on a CPU, ready; inside MPI with its waits; on a CPU, ready, asleep.
        let none = placed(0, 0, 0);
        for (name, elapsed, awake, mpi, expected) in [
            (
                "a rank that spins in MPI never sleeps: everything is known",
                100,
                (70, 30),
                Some((60, Some(20))),
                [placed(30, 40, 0), placed(10, 20, 0), none],
            ),
            (
                "a rank that sleeps may do so inside MPI or outside",
                100,
                (60, 0),
                Some((40, Some(0))),
                [placed(20, 0, 40), none, placed(0, 0, 40)],
            ),
            (
                "most of what overlaps is known",
                100,
                (80, 0),
                Some((90, Some(0))),
                [placed(0, 70, 10), none, placed(0, 10, 10)],
            ),
            (
                "without the waits inside MPI only the bounds of each state are known",
                100,
                (50, 50),
                Some((80, None)),
                [placed(0, 30, 20), placed(0, 30, 20), none],
            ),
            (
                "nothing is known of MPI",
                100,
                (50, 20),
                None,
                [placed(0, 0, 50), placed(0, 0, 20), placed(0, 0, 30)],
            ),
            (
                "four threads compute for twice the elapsed time, none of it inside MPI",
                100,
                (200, 100),
                Some((0, Some(0))),
                [placed(200, 0, 0), placed(100, 0, 0), none],
            ),
            (
                "two threads sleep inside MPI",
                100,
                (0, 0),
                Some((200, Some(0))),
                [none, none, placed(0, 200, 0)],
            ),
        ] {
            let parts = TimeParts::of(elapsed, awake, mpi);
            assert_eq!([parts.on_cpu, parts.ready, parts.asleep], expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_parts_add_up_and_hold_the_truth(
            states in prop::collection::vec((0u64..1000, 0u64..1000), 3),
            knows_waits in any::<bool>(),
        ) {
            // Time in each state outside MPI and inside it, of a thread that is always in one of them.
            let inside: u64 = states.iter().map(|(_, inside)| inside).sum();
            let elapsed = states.iter().map(|(outside, inside)| outside + inside).sum();
            let all = |state: usize| states[state].0 + states[state].1;
            let waits = knows_waits.then_some(states[1].1);
            let parts = TimeParts::of(elapsed, (all(0), all(1)), Some((inside, waits)));
            prop_assert_eq!(parts.all_ns(), elapsed);
            for (part, (outside, inside)) in [parts.on_cpu, parts.ready, parts.asleep].into_iter().zip(&states) {
                prop_assert_eq!(part.all_ns(), outside + inside);
                prop_assert!(part.inside_ns <= *inside && *inside <= part.inside_ns + part.unknown_ns);
                prop_assert!(part.outside_ns <= *outside && *outside <= part.outside_ns + part.unknown_ns);
            }
        }

        #[test]
        fn counters_that_contradict_each_other_add_up_too(
            elapsed in 0u64..1000, cpu in 0u64..2000, ready in 0u64..2000, mpi in 0u64..3000,
            waited in prop::option::of(0u64..3000),
        ) {
            let parts = TimeParts::of(elapsed, (cpu, ready), Some((mpi, waited)));
            prop_assert_eq!(parts.all_ns(), elapsed.max(cpu + ready).max(mpi));
            prop_assert_eq!((parts.on_cpu.all_ns(), parts.ready.all_ns()), (cpu, ready));
        }
    }
}
