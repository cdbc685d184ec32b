//! A Rust program with variables in modules, fields, an atomic, a generic function and methods. It answers
//! each input line with their values.

use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicI32, Ordering};

mod limits {
    use super::AtomicI32;

    pub struct Limits {
        pub threads: i32,
        pub share: f64,
    }
    pub static mut LIMITS: Limits = Limits {
        threads: 4,
        share: 0.5,
    };
    pub static DEPTH: AtomicI32 = AtomicI32::new(7);
}

static mut COUNT: i32 = 3;

struct Solver {
    level: i32,
}

impl Solver {
    #[inline(never)]
    fn step(&mut self, by: i32) {
        self.level = std::hint::black_box(self.level + by);
    }
}

#[inline(never)]
fn say<T: std::fmt::Display>(what: T) {
    println!("{what}");
    let _ = std::io::stdout().flush();
}

fn main() {
    let mut solver = Solver { level: 0 };
    say("ready");
    for _ in std::io::stdin().lock().lines() {
        solver.step(1);
        limits::DEPTH.fetch_add(0, Ordering::Relaxed);
        // SAFETY: this program has one thread.
        let (threads, share, count) = unsafe {
            (
                std::ptr::read_volatile(&raw const limits::LIMITS.threads),
                std::ptr::read_volatile(&raw const limits::LIMITS.share),
                std::ptr::read_volatile(&raw const COUNT),
            )
        };
        let depth = limits::DEPTH.load(Ordering::Relaxed);
        say(format!("threads={threads} share={share} depth={depth} count={count}"));
    }
}
