//! Mean and standard deviation of all ranks. S2 has MEAN and STDEV at every level but does not describe how parts
//! combine; S0 sends every value, because its σ needs μ first (§5.2.4). That any division of values gives the same
//! is a law of the aggregates (`rules/src/aggregate/tests`).

use crate::bench::Bench;

/// S1 §9.1: four chunks of 200 tasks in 400, 500, 300 and 600 ms, C in ms.
const C: [f64; 4] = [2.0, 2.5, 1.5, 3.0];

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

#[test]
fn s2_6_2_the_language_and_the_parts_give_the_same() {
    let mut bench = Bench::new(SPREAD, C.len() as u32);
    for (rank, value) in (0..).zip(C) {
        bench.hit("begin", rank, 10.0, 0.0, &[1.0]);
        bench.hit("work", rank, 500.0, value, &[]);
        bench.hit("end", rank, 1000.0, 0.0, &[]);
    }
    bench.until(2000.0);
    let shut = bench.shut().remove(0);
    // The mean of the means of three ranks and of the fourth would be 2.5.
    near!(shut.value("average") * 1e3 => 2.25, 9, "S2 §6.2 MEAN, S1 §9.1 μ");
    near!(shut.value("sigma") * 1e3 => 0.559_017, 6, "S2 §6.2 STDEV, S1 §9.1 σ of the values there are");
}
