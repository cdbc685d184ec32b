//! Mean and standard deviation from partial aggregates. S2 has MEAN and STDEV at every level but does not
//! describe how parts combine; S0 sends every value, because its σ needs μ first (§5.2.4).

use proptest::prelude::*;
use rules::aggregate::{Merge, Numbers};

use crate::bench::Bench;

/// S1 §9.1: four chunks of 200 tasks in 400, 500, 300 and 600 ms, C in ms.
const C: [f64; 4] = [2.0, 2.5, 1.5, 3.0];

fn of(values: &[f64]) -> Numbers {
    let mut numbers = Numbers::default();
    values.iter().for_each(|value| numbers.add(*value));
    numbers
}

const SPREAD: &str = "\
rule: spread
about: Mean and deviation over the hits of all ranks.
roles:
  rank: rank >= 0
probes:
  begin: {role: rank, entry: begin}
  end:   {role: rank, entry: end}
  work:  {role: rank, span: work}
capture:
  begin.vt: vt
windows:
  region: {from: begin, to: end, key: vt}
metrics:
  average: mean(work.duration)
  sigma:   stddev(work.duration)
";

/// Mean and standard deviation that a rule computes from these durations (ms), each on another rank.
fn by_rule(values: &[f64]) -> (f64, f64) {
    let mut bench = Bench::new(SPREAD, values.len() as u32);
    for (rank, value) in (0..).zip(values) {
        bench.hit("begin", rank, 10.0, 0.0, &[1.0]);
        bench.hit("work", rank, 500.0, *value, &[]);
        bench.hit("end", rank, 1000.0, 0.0, &[]);
    }
    bench.until(2000.0);
    let shut = bench.shut().remove(0);
    (shut.value("average") * 1e3, shut.value("sigma") * 1e3)
}

#[test]
fn s1_9_1_mean_and_deviation_of_the_measured_chunks() {
    let all = of(&C);
    near!(all.mean().unwrap() => 2.25, 12, "S1 §9.1 μ");
    near!(all.stddev().unwrap() => 0.559_017, 6, "S1 §9.1 σ of the values there are");
}

#[test]
fn s2_6_2_means_of_means_and_deviations_of_deviations_are_wrong() {
    // Two hosts with three values and one value: the mean of their means is not the mean.
    let (mut left, right) = (of(&C[..3]), of(&C[3..]));
    let mean_of_means = f64::midpoint(left.mean().unwrap(), right.mean().unwrap());
    near!(mean_of_means => 2.5, 12, "S2 §6.2");
    left.merge(&right);
    near!(left.mean().unwrap() => 2.25, 12, "S2 §6.2 MEAN over hosts");
    near!(left.stddev().unwrap() => 0.559_017, 6, "S2 §6.2 STDEV over hosts");
}

#[test]
fn s2_6_2_the_language_and_the_parts_give_the_same() {
    let (mean, sigma) = by_rule(&C);
    near!(mean => 2.25, 9, "S2 §6.2 MEAN");
    near!(sigma => 0.559_017, 6, "S2 §6.2 STDEV");
}

proptest! {
    #[test]
    fn s2_6_2_mean_and_deviation_of_any_division_among_hosts_are_those_of_all(
        values in prop::collection::vec(0.001_f64..1e6, 2..40),
        hosts in prop::collection::vec(0_usize..5, 40),
        last_first in any::<bool>(),
    ) {
        let mut parts = vec![Numbers::default(); 5];
        for (value, host) in values.iter().zip(&hosts) {
            parts[*host].add(*value);
        }
        if last_first {
            parts.reverse();
        }
        let mut merged = Numbers::default();
        parts.iter().for_each(|part| merged.merge(part));
        let all = of(&values);
        prop_assert_eq!(merged.sum(), all.sum());
        prop_assert_eq!(merged.mean(), all.mean());
        prop_assert_eq!(merged.stddev(), all.stddev());
    }
}
