use crate::bench::*;
#[test]
fn scratch() {
    let src = "rule: network
about: b
roles:
  rank: rank >= 0
probes:
  turn:   {role: rank, entry:  f}
  send:    {role: rank, span: MPI_Send}
capture:
  turn.vt:   arg(0)
windows:
  iteration: {from: turn, key: vt}
metrics:
  busy: sum(send.duration) by process
  time: last(turn.time) by process - first(turn.time) by process
  c: count(turn) by process
  f: first(turn.time) by process
  l: last(turn.time) by process
  d: iteration.duration
";
    let mut b = Bench::new(src, 2);
    for i in 0..5 {
        for r in 0..2 {
            let t = 10.0 + 10.0 * (i as f64) + 3.0 * (r as f64);
            b.hit("turn", r, t, 0.0, &[i as f64]);
            b.hit("send", r, t + 5.0, 1.0, &[]);
        }
    }
    b.until(100.0);
    for s in b.shut() {
        for m in ["busy", "time", "c", "f", "l", "d"] {
            print!("{m} {} | ", s.told(m));
        }
        println!();
    }
}
