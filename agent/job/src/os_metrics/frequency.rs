//! The clock frequency of CPUs, if the kernel reports it (cpufreq; most virtual machines have none).

use std::{collections::BTreeSet, fs};

use profile::Frequency;

/// Most CPUs whose frequency is read; each read may take an interrupt.
const CPUS_MAX: usize = 64;

/// The current frequency of these CPUs, in hertz, or of 64 of them; `None` if the kernel does not report it.
pub fn frequency(cpus: &BTreeSet<usize>) -> Option<Frequency> {
    let step = cpus.len().div_ceil(CPUS_MAX).max(1);
    let file = |cpu: &usize| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    let texts = cpus
        .iter()
        .step_by(step)
        .map(|cpu| fs::read_to_string(file(cpu)).ok());
    of_texts(&texts.collect::<Option<Vec<_>>>()?)
}

/// From the kernel's texts, in kilohertz.
fn of_texts(texts: &[String]) -> Option<Frequency> {
    let read = |text: &String| text.trim().parse::<f64>().ok().map(|kilohertz| kilohertz * 1e3);
    let all = texts.iter().map(read).collect::<Option<Vec<f64>>>()?;
    (!all.is_empty()).then(|| Frequency {
        least_hz: all.iter().copied().fold(f64::INFINITY, f64::min),
        mean_hz: all.iter().sum::<f64>() / all.len() as f64,
        most_hz: all.iter().copied().fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_read_in_hertz_and_are_none_where_any_is_missing() {
        let of = |texts: &[&str]| of_texts(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let found = of(&["2000000\n", "3000000\n"]).unwrap();
        assert_eq!((found.least_hz, found.mean_hz, found.most_hz), (2e9, 2.5e9, 3e9));
        assert_eq!(of(&["2000000\n", "<unknown>\n"]), None);
        assert_eq!(of(&[]), None);
        assert_eq!(frequency(&BTreeSet::from([usize::MAX])), None);
    }
}
