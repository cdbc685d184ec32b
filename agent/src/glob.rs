//! Patterns with `*` for any text and `?` for one character.

/// Whether a pattern has one of both; else it fits the text that it is, and no other.
pub fn has_wildcards(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// Whether a pattern fits all of a text. Goes back to the last `*` only: the time is at most the product of the lengths.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.chars(), text.chars());
    // The pattern behind the last star, and the text that the star has not taken yet.
    let mut star = None;
    while let Some(next) = text.clone().next() {
        match pattern.next() {
            Some('*') => star = Some((pattern.clone(), text.clone())),
            Some(wanted) if wanted == '?' || wanted == next => drop(text.next()),
            _ => match &mut star {
                Some((behind, rest)) => {
                    rest.next();
                    (pattern, text) = (behind.clone(), rest.clone());
                }
                None => return false,
            },
        }
    }
    pattern.all(|wanted| wanted == '*')
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
            ("?", "é", true),
            ("step", "solver_step", false),
            ("*aab", "aaaab", true),
            ("a*b*c", "abbd", false),
            ("app::*", "app::Solver::step(int)", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
