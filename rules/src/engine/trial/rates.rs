//! How often the guard errs, by simulation: the table of docs/guard.md is what this prints. Seeded, and made of additions
//! alone, so that it comes out the same everywhere.

use super::judge;

const TRIALS: u32 = 1000;
const MARGIN: f64 = 0.05;

/// splitmix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Mean 0, deviation 1: twelve uniform numbers, as near to normal as is needed here.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

#[derive(Clone, Copy)]
enum Noise {
    /// Windows that know nothing of each other.
    Independent,
    /// Half of each window's deviation goes over into the next.
    Drifting,
    /// One window in twenty takes twice as long on top.
    Spiky,
}

/// The objective (a duration, less is better) of `count` windows around `mean`.
fn windows(random: &mut Random, noise: Noise, deviation: f64, mean: f64, count: usize) -> Vec<f64> {
    let mut last = random.normal();
    let window = |_| {
        let fresh = random.normal();
        last = match noise {
            Noise::Drifting => 0.5 * last + 0.75f64.sqrt() * fresh,
            Noise::Independent | Noise::Spiky => fresh,
        };
        let spike = if matches!(noise, Noise::Spiky) && random.uniform() < 0.05 {
            1.0
        } else {
            0.0
        };
        mean * (1.0 + deviation * last + spike).max(0.01)
    };
    (0..count).map(window).collect()
}

/// The share of trials in which a change that makes things `loss` worse is undone.
fn undone(noise: Noise, deviation: f64, over: usize, loss: f64) -> f64 {
    let mut random = Random(20_070_501);
    let wrong = (0..TRIALS)
        .filter(|_| {
            let before = windows(&mut random, noise, deviation, 1.0, over);
            let after = windows(&mut random, noise, deviation, 1.0 + loss, over);
            !judge(&before, &after, false, MARGIN).keep
        })
        .count();
    wrong as f64 / f64::from(TRIALS)
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        0.0 => "0".to_owned(),
        share if share < 1.0 => "< 1".to_owned(),
        share => format!("{share:.0}"),
    }
}

const LOSSES: [f64; 3] = [0.1, 0.2, 0.5];

fn table() -> String {
    let mut lines = vec![
        "| noise | deviation of a window | windows | undone though nothing changed | kept though 10 % worse | 20 % worse | 50 % worse |"
            .to_owned(),
        "|---|---|---|---|---|---|---|".to_owned(),
    ];
    for (name, noise) in [
        ("independent", Noise::Independent),
        ("drifting", Noise::Drifting),
        ("spiky", Noise::Spiky),
    ] {
        for deviation in [0.01, 0.05, 0.1, 0.2] {
            for over in [5, 10, 20] {
                let kept = LOSSES.map(|loss| percent(1.0 - undone(noise, deviation, over, loss)));
                lines.push(format!(
                    "| {name} | {:.0} % | {over} | {} % | {} % | {} % | {} % |",
                    deviation * 100.0,
                    percent(undone(noise, deviation, over, 0.0)),
                    kept[0],
                    kept[1],
                    kept[2],
                ));
            }
        }
    }
    lines.join("\n")
}

#[test]
fn the_rates_of_the_guards_errors_are_those_that_are_documented() {
    let page = include_str!("../../../../docs/guard.md");
    let table = table();
    assert!(page.contains(&table), "docs/guard.md should have:\n{table}");
}

#[test]
fn with_little_noise_the_guard_hardly_errs() {
    for noise in [Noise::Independent, Noise::Drifting] {
        assert!(undone(noise, 0.01, 5, 0.0) < 0.001);
        assert!(undone(noise, 0.05, 5, 0.0) < 0.1);
        for loss in LOSSES {
            assert!(undone(noise, 0.01, 5, loss) > 0.99, "{loss}");
        }
        assert!(undone(noise, 0.05, 10, 0.2) > 0.97);
    }
    assert!(undone(Noise::Independent, 0.05, 5, 0.0) < 0.02);
}

#[test]
fn spikes_hardly_make_the_guard_err() {
    for (deviation, over) in [(0.01, 5), (0.01, 20), (0.05, 10), (0.05, 20)] {
        let false_undo = undone(Noise::Spiky, deviation, over, 0.0);
        let missed = 1.0 - undone(Noise::Spiky, deviation, over, 0.2);
        assert!(
            false_undo < 0.04 && missed < 0.04,
            "{deviation} {over}: {false_undo} {missed}"
        );
    }
}

#[test]
fn noise_makes_the_guard_undo_rather_than_keep_a_loss() {
    for deviation in [0.1, 0.2] {
        let (false_undo, missed) = (
            undone(Noise::Independent, deviation, 10, 0.0),
            1.0 - undone(Noise::Independent, deviation, 10, 0.5),
        );
        assert!(
            missed < 0.01,
            "a loss of half is seen through a deviation of {deviation}: {missed}"
        );
        assert!(false_undo < 0.25, "{deviation}: {false_undo}");
    }
}
