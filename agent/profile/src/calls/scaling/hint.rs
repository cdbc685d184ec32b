//! Speedups that a user states (S4-26): shown beside those that were measured, and used for nothing.

/// A measured speedup contradicts a stated one if they differ by more than this share of the measured one.
const CONTRADICTS: f64 = 0.1;

/// The stated speedup with a number of threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpeedupHint {
    pub threads: u32,
    pub speedup: f64,
}

impl SpeedupHint {
    /// Reads lines such as `8,6.4`: threads and speedup. The first line may have names. The error is the number of
    /// the line that cannot be read; 0 if there is none.
    pub fn parse(text: &str) -> Result<Vec<SpeedupHint>, usize> {
        let lines = text.lines().map(str::trim).enumerate();
        let mut hints = Vec::new();
        for (number, line) in lines.filter(|(_, line)| !line.is_empty()) {
            match SpeedupHint::of(line) {
                Some(hint) => hints.push(hint),
                None if number == 0 && !line.starts_with(|c: char| c.is_ascii_digit()) => {}
                None => return Err(number + 1),
            }
        }
        hints.sort_by_key(|hint| hint.threads);
        (!hints.is_empty()).then_some(hints).ok_or(0)
    }

    fn of(line: &str) -> Option<SpeedupHint> {
        let (threads, speedup) = line.split_once(',')?;
        let hint = SpeedupHint {
            threads: threads.trim().parse().ok()?,
            speedup: speedup.trim().parse().ok()?,
        };
        (hint.threads > 0 && hint.speedup > 0.0 && hint.speedup.is_finite()).then_some(hint)
    }

    pub fn is_contradicted_by(&self, measured: f64) -> bool {
        (self.speedup - measured).abs() > CONTRADICTS * measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_read_by_lines_and_what_cannot_be_read_is_named_by_its_line() {
        let hints = SpeedupHint::parse("threads,speedup\n8, 6.4\n\n2,1.9\n").unwrap();
        let of = |threads, speedup| SpeedupHint { threads, speedup };
        assert_eq!(hints, [of(2, 1.9), of(8, 6.4)]);
        assert_eq!(SpeedupHint::parse("threads,speedup\n8 6.4"), Err(2));
        assert_eq!(SpeedupHint::parse("8;6.4"), Err(1));
        assert_eq!(SpeedupHint::parse("2,0"), Err(1));
        assert_eq!(SpeedupHint::parse("4,nan"), Err(1));
        assert_eq!(SpeedupHint::parse("threads,speedup\n"), Err(0));
        assert!(of(8, 6.4).is_contradicted_by(5.1) && !of(8, 6.4).is_contradicted_by(6.0));
    }
}
