//! What a benchmark is told on its command line: `--quick`, and numbers above 0.

use crate::Result;

pub(super) struct Options {
    pub(super) quick: bool,
    numbers: Vec<(String, f64)>,
}

impl Options {
    /// Refuses what the benchmark does not know.
    pub(super) fn parse(bench: &str, words: &[&str], known: &[&str]) -> Result<Options> {
        let mut options = Options {
            quick: false,
            numbers: Vec::new(),
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if *word == "--quick" {
                options.quick = true;
            } else if known.contains(word) {
                let number = words.next().and_then(|value| value.parse().ok());
                let number = number.filter(|value| *value > 0.0);
                let number = number.ok_or(format!("{word} wants a number above 0"))?;
                options.numbers.push(((*word).to_owned(), number));
            } else {
                let known: String = known.iter().map(|word| format!(", {word} N")).collect();
                return Err(format!(
                    "bench {bench} does not know {word}; it knows --quick{known}"
                ));
            }
        }
        Ok(options)
    }

    /// What was given of it, the last one; else one of these: for the quick form, and for the long one.
    pub(super) fn number(&self, name: &str, (quick, long): (f64, f64)) -> f64 {
        let given = self.numbers.iter().rfind(|(given, _)| given == name);
        let or = if self.quick { quick } else { long };
        given.map_or(or, |(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mistyped_is_told_with_what_there_is() {
        let known = ["--rounds", "--ranks"];
        let told = |words: &[&str]| Options::parse("b", words, &known).map(|_| ()).unwrap_err();
        assert_eq!(
            told(&["--round", "2"]),
            "bench b does not know --round; it knows --quick, --rounds N, --ranks N"
        );
        assert!(told(&["--rounds", "0"]).contains("a number above 0"));
        assert!(told(&["--rounds"]).contains("a number above 0"));
        let given = Options::parse("b", &["--ranks", "3", "--quick"], &known).unwrap();
        assert_eq!(
            (
                given.number("--ranks", (1.0, 2.0)),
                given.number("--rounds", (1.0, 2.0))
            ),
            (3.0, 1.0)
        );
    }
}
