//! Rates from counters, by a rule (§5).

use crate::bench::Bench;

#[test]
fn s3_eq_24_and_25_a_rate_is_a_difference_of_counts_over_a_window_behind_the_transient() {
    let rule = "\
rule: rates
about: Items in and out of a computation.
roles:
  sink: rank == 0
probes:
  begin: {role: sink, entry: first_item}
  items: {role: sink, entry: receive}
  done:  {role: sink, span: compute}
windows:
  phase: {from: begin, skip: 1}
metrics:
  i: count(items) / phase.duration
  e: count(done) / phase.duration
  t: sum(done.duration) / count(done)
";
    let mut bench = Bench::new(rule, 1);
    for phase in 0..4_u32 {
        let start = f64::from(phase) * 2000.0;
        bench.hit("begin", 0, start, 0.0, &[]);
        // The first phase fills the buffers and is skipped (S3 §5).
        let items = if phase == 0 { 3 } else { 20 };
        for item in 1..=items {
            let at = start + 90.0 * f64::from(item);
            bench.hit("items", 0, at, 0.0, &[]);
            bench.hit("done", 0, at + 80.0, 60.0, &[]);
        }
    }
    bench.until(10_000.0);
    let shut = bench.shut();
    assert_eq!(shut.len(), 2);
    for shut in shut {
        near!(shut.value("i") => 10.0, 9, "S3 (25) rate of an input, items/s");
        near!(shut.value("e") => 10.0, 9, "S3 (28) e = i");
        near!(shut.value("t") * 1e3 => 60.0, 9, "S3 §9 service time, ms");
    }
}
