//! CPUs among programs (thesis of Corbalan, Fig. 4.12): each has one, and the next one always goes to the program
//! whose speedup grows most by it. For curves whose gains S(p+1) / S(p) fall with p this gives the greatest product
//! of the speedups.

/// What the programs have now stays unless the product of the speedups grows by this share.
const HYSTERESIS: f64 = 0.05;

/// Upper bound of the CPUs that are divided.
const CPUS_MAX: f64 = 65_536.0;

/// Divides `cpus` among programs, of which each has a serial fraction and a present size.
pub(crate) fn shares(cpus: f64, programs: &[(f64, f64)]) -> Vec<u32> {
    let cpus = cpus.clamp(0.0, CPUS_MAX) as u32;
    let speedup = |program: usize, threads: u32| amdahl(programs[program].0.clamp(0.0, 1.0), threads);
    let best = divided(cpus, programs.len(), speedup);
    let now: Vec<u32> = programs
        .iter()
        .map(|(_, now)| now.clamp(0.0, CPUS_MAX) as u32)
        .collect();
    let fits = !now.contains(&0) && now.iter().sum::<u32>() <= cpus;
    match fits && product(&best, speedup) <= (1.0 + HYSTERESIS) * product(&now, speedup) {
        true => now,
        false => best,
    }
}

/// The greedy allocation. CPUs that make no program faster are left over.
fn divided(cpus: u32, programs: usize, speedup: impl Fn(usize, u32) -> f64) -> Vec<u32> {
    let mut sizes = vec![1_u32; programs];
    let gain = |program: usize, threads: u32| speedup(program, threads + 1) / speedup(program, threads);
    let mut gains: Vec<f64> = (0..programs).map(|program| gain(program, 1)).collect();
    for _ in programs as u32..cpus {
        let best = gains
            .iter()
            .enumerate()
            .max_by(|one, other| one.1.total_cmp(other.1));
        let Some((program, _)) = best.filter(|(_, gain)| **gain > 1.0) else {
            break;
        };
        sizes[program] += 1;
        gains[program] = gain(program, sizes[program]);
    }
    sizes
}

fn product(sizes: &[u32], speedup: impl Fn(usize, u32) -> f64) -> f64 {
    let speedups = sizes
        .iter()
        .enumerate()
        .map(|(program, threads)| speedup(program, *threads));
    speedups.product()
}

fn amdahl(serial: f64, threads: u32) -> f64 {
    1.0 / (serial + (1.0 - serial) / f64::from(threads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pseudo_random::mixed;

    /// Random numbers from 0 to 1.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> f64 {
            self.0 += 1;
            mixed(self.0) as f64 / u64::MAX as f64
        }
    }

    /// The greatest product of speedups with at most `cpus` CPUs and at least one for each program: all numbers of
    /// CPUs for the first one, with the best of the others for what is left.
    fn brute_force(curves: &[Vec<f64>], cpus: usize) -> f64 {
        // The best product by the number of CPUs of the programs so far.
        let mut best: Vec<f64> = vec![1.0; cpus + 1];
        for curve in curves {
            let of = |all: usize| {
                (1..=all)
                    .map(|own| curve[own - 1] * best[all - own])
                    .fold(0.0, f64::max)
            };
            best = (0..=cpus).map(of).collect();
        }
        best[cpus]
    }

    /// A concave speedup curve up to its peak, which may lie within `cpus`.
    fn curve(random: &mut Random, cpus: usize) -> Vec<f64> {
        let keep = 1.0 - 0.5 * random.next() * random.next();
        let loss = if random.next() < 0.3 {
            0.05 * random.next()
        } else {
            0.0
        };
        let (mut speedup, mut step) = (1.0, 1.0);
        let grow = |_| {
            let before = speedup;
            step = step * keep * (0.9 + 0.1 * random.next()) - loss;
            speedup = f64::max(speedup + step, 0.01);
            before
        };
        (0..=cpus).map(grow).collect()
    }

    #[test]
    fn the_greedy_allocation_is_the_best_one_in_2_000_random_cases() {
        let mut random = Random(0);
        for case in 0..2_000 {
            let programs = 1 + (random.next() * 4.999) as usize;
            let cpus = programs + (random.next() * (64.999 - programs as f64)) as usize;
            let curves: Vec<Vec<f64>> = (0..programs).map(|_| curve(&mut random, cpus)).collect();
            let speedup = |program: usize, threads: u32| curves[program][threads as usize - 1];
            let sizes = divided(cpus as u32, programs, speedup);
            assert!(
                sizes.iter().sum::<u32>() <= cpus as u32 && !sizes.contains(&0),
                "{case}: {sizes:?}"
            );
            let (found, best) = (product(&sizes, speedup), brute_force(&curves, cpus));
            assert!(
                (found / best - 1.0).abs() < 1e-9,
                "{case}: {sizes:?} of {cpus} give {found}, not {best}"
            );
        }
    }

    #[test]
    fn a_program_that_does_not_scale_leaves_its_cpus_to_one_that_does() {
        let programs = |one: f64, other: f64| [(0.95, one), (0.02, other)];
        assert_eq!(shares(16.0, &programs(8.0, 8.0)), [1, 15]);
        // The next quantum finds what this one made.
        assert_eq!(shares(16.0, &programs(1.0, 15.0)), [1, 15]);
        // A CPU fewer must be given back; one more is taken if that gains enough.
        assert_eq!(shares(15.0, &programs(1.0, 15.0)), [1, 14]);
        assert_eq!(shares(17.0, &programs(1.0, 15.0)), [1, 16]);
        assert_eq!(shares(22.0, &programs(1.0, 20.0)), [1, 20]);
    }

    #[test]
    fn shares_that_are_right_stay_and_each_program_has_one_cpu_at_least() {
        assert_eq!(shares(16.0, &[(0.02, 8.0), (0.02, 8.0)]), [8, 8]);
        assert_eq!(shares(16.0, &[(0.02, 8.0), (0.03, 8.0)]), [8, 8]);
        assert_eq!(shares(2.0, &[(0.0, 4.0), (0.0, 4.0), (0.5, 4.0)]), [1, 1, 1]);
        // Nothing to gain: CPUs are left over.
        assert_eq!(shares(8.0, &[(1.0, 9.0)]), [1]);
        assert_eq!(shares(8.0, &[]), [0; 0]);
    }
}
