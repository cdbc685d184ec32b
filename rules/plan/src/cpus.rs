//! A list of CPUs in the notation of the kernel: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// At least one CPU, by number. Serialized as the list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuList(BTreeSet<usize>);

/// The text is not a list.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not a list of CPUs: expected one such as 0-3,8")]
pub struct CpuListError(String);

impl CpuList {
    /// The size of the C library's CPU mask.
    pub const MAX: usize = 1024;

    /// `None` for an empty set, or for a number that does not fit a mask.
    pub fn new(cpus: BTreeSet<usize>) -> Option<CpuList> {
        let fits = cpus.last().is_some_and(|last| *last < CpuList::MAX);
        fits.then_some(CpuList(cpus))
    }

    pub fn cpus(&self) -> &BTreeSet<usize> {
        &self.0
    }

    /// With its noun: `CPU 3`, `CPUs 0-3,8`.
    pub fn with_noun(&self) -> String {
        match self.0.len() {
            1 => format!("CPU {self}"),
            _ => format!("CPUs {self}"),
        }
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<CpuList, CpuListError> {
        let number = |text: &str| text.parse().ok().filter(|cpu: &usize| *cpu < CpuList::MAX);
        let range = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let cpus = ranges.and_then(|ranges| CpuList::new(ranges.into_iter().flatten().collect()));
        cpus.ok_or_else(|| CpuListError(text.to_owned()))
    }
}

impl TryFrom<String> for CpuList {
    type Error = CpuListError;

    fn try_from(text: String) -> Result<CpuList, CpuListError> {
        text.parse()
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.to_string()
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for cpu in &self.0 {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
                _ => ranges.push((*cpu, *cpu)),
            }
        }
        for (place, (first, last)) in ranges.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_written_as_it_is_read() {
        for text in ["0", "0-3", "0-3,8", "1,3,5-7", "1023"] {
            assert_eq!(text.parse::<CpuList>().unwrap().to_string(), text);
        }
        assert_eq!("1,0,1".parse::<CpuList>().unwrap().to_string(), "0-1");
        for text in ["", "a", "3-1", "1,", "1-", "-1", "0-99999999999", "1024"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }
}
