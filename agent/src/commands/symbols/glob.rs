//! Patterns with `*` for any text and `?` for one character.

/// A pattern.
#[derive(Debug)]
pub(super) struct Glob<'a>(&'a str);

impl<'a> Glob<'a> {
    pub(super) fn new(pattern: &'a str) -> Glob<'a> {
        Glob(pattern)
    }

    pub(super) fn has_wildcards(&self) -> bool {
        self.0.contains(['*', '?'])
    }

    /// Goes back to the last `*` only: the time is at most the product of the lengths.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut p, mut t) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while let Some(byte) = text.get(t) {
            match pattern.get(p) {
                Some(b'*') => {
                    star = Some((p, t));
                    p += 1;
                }
                Some(wanted) if *wanted == b'?' || wanted == byte => {
                    p += 1;
                    t += 1;
                }
                _ => match &mut star {
                    Some((at, from)) => {
                        *from += 1;
                        (p, t) = (*at + 1, *from);
                    }
                    None => return false,
                },
            }
        }
        pattern
            .get(p..)
            .unwrap_or_default()
            .iter()
            .all(|byte| *byte == b'*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_take_any_text_and_question_marks_one_character() {
        for (pattern, text, expected) in [
            ("solver*", "solver_step", true),
            ("*step", "solver_step", true),
            ("*l*r*p", "solver_step", true),
            ("s?lver*", "solver", true),
            ("s?lver", "slver", false),
            ("*", "", true),
            ("?", "", false),
            ("step", "solver_step", false),
            ("*aab", "aaaab", true),
            ("a*b*c", "abbd", false),
            ("app::*", "app::Solver::step(int)", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }
}
