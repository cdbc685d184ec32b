//! The policy of a node: what its service does for users without rights, as root wrote it into a file.

use syntax::diag::Diagnostic;
use syntax::fields::read;
use syntax::fields::{Fields, Wrong};
use syntax::json::Object;
use syntax::keys::Shape::{Formula, Mapping, Words};
use syntax::keys::keys;
use syntax::schema::{document, mapping};
use syntax::yaml::Tree;

const OWN: &str = "own";
const NONE: &str = "none";

/// The words that say whose programs an entry is about.
const WHOSE: &[&str] = &[OWN, NONE];

keys! {
    POLICY "a policy" {
        "watch" => Words(WHOSE), "The programs that users may watch with probes: their `own` (the default), or `none`.";
        "apply" => Words(WHOSE), "The programs that sessions of users with probes of the service may change: their `own`, or `none` (the default).";
        "limits" => Mapping(&LIMITS), "Upper bounds of what the service does at a time.";
    }
    LIMITS "limits" {
        "sessions_per_user" => Formula, "Sessions of one user; 2 unless stated.";
        "sessions" => Formula, "Sessions of all users; 16 unless stated.";
        "probes" => Formula, "Functions that one session probes; 2000 unless stated.";
    }
}

/// Upper bounds of what the service does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub sessions_per_user: u32,
    /// Sessions of all users.
    pub sessions: u32,
    /// Functions that one session probes.
    pub probes: u32,
}

/// What the service of a node does for users without rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodePolicy {
    /// Users may watch their own programs with probes.
    pub watches_own: bool,
    /// Sessions with these probes may change the programs of their user.
    pub applies_to_own: bool,
    pub limits: Limits,
}

/// The policy of a node without a file.
impl Default for NodePolicy {
    fn default() -> NodePolicy {
        NodePolicy {
            watches_own: true,
            applies_to_own: false,
            limits: Limits {
                sessions_per_user: 2,
                sessions: 16,
                probes: 2000,
            },
        }
    }
}

impl NodePolicy {
    /// Parses the text of a policy file. What it leaves out has its default.
    ///
    /// # Errors
    /// All errors in its YAML, keys, words and numbers, in the order of the file.
    pub fn parse(source: &str) -> Result<NodePolicy, Vec<Diagnostic>> {
        read(source, None, policy)
    }

    /// What it permits, in sentences.
    pub fn in_words(&self) -> Vec<String> {
        let Limits {
            sessions_per_user,
            sessions,
            probes,
        } = self.limits;
        let apply = match self.applies_to_own {
            true => {
                "A session with these probes may change the programs of its user: `--apply` works as without the service."
            }
            false => {
                "A session with these probes may not change programs: `--apply` is refused. Users can still change their own programs without it."
            }
        };
        match self.watches_own {
            false => vec!["No user may watch programs with probes of this service; root needs no service.".to_owned()],
            true => vec![
                "Each user may watch their own programs with probes, but no set-uid program and no process that has forbidden it.".to_owned(),
                apply.to_owned(),
                format!("A user may have {sessions_per_user} sessions at a time, all users together {sessions}. A session may probe {probes} functions."),
            ],
        }
    }
}

/// The JSON Schema of a policy file, as text.
pub fn schema() -> String {
    let mut definitions = Object::new();
    let policy = mapping(&POLICY, &mut definitions);
    document(policy, definitions, "A policy of tuneagent")
}

fn policy(tree: &Tree, wrong: Wrong<'_>) -> Option<NodePolicy> {
    let mut policy = NodePolicy::default();
    let fields = Fields::of(tree, &POLICY, wrong)?;
    is_own(&fields, "watch", &mut policy.watches_own, wrong);
    is_own(&fields, "apply", &mut policy.applies_to_own, wrong);
    if let Some(tree) = fields.get("limits") {
        let fields = Fields::of(tree, &LIMITS, wrong)?;
        let limits = &mut policy.limits;
        number(
            &fields,
            "sessions_per_user",
            64,
            &mut limits.sessions_per_user,
            wrong,
        );
        number(&fields, "sessions", 256, &mut limits.sessions, wrong);
        number(&fields, "probes", 3000, &mut limits.probes, wrong);
    }
    Some(policy)
}

/// Reads one of [`WHOSE`].
fn is_own(fields: &Fields<'_>, name: &str, into: &mut bool, wrong: Wrong<'_>) {
    let Some(text) = fields.text(name, wrong) else {
        return;
    };
    match text.raw.trim() {
        word if WHOSE.contains(&word) => *into = word == OWN,
        word => {
            let message = format!("`{name}` is `{OWN}` or `{NONE}`, not `{word}`");
            wrong.push(Diagnostic::wrong("E0145", text.span, message));
        }
    }
}

/// Reads a number from 1 to `most`.
fn number(fields: &Fields<'_>, name: &str, most: u32, into: &mut u32, wrong: Wrong<'_>) {
    let Some(text) = fields.text(name, wrong) else {
        return;
    };
    match text.raw.trim().parse() {
        Ok(number) if (1..=most).contains(&number) => *into = number,
        _ => {
            let message = format!("`{name}` is a number from 1 to {most}, not `{}`", text.raw.trim());
            wrong.push(Diagnostic::wrong("E0145", text.span, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::tests::schemas::{accepted, kept};
    use syntax::diag::line_column;

    /// Each key with another value than its default.
    const ALL: &str = "watch: none\napply: own\nlimits: {sessions_per_user: 3, sessions: 17, probes: 100}\n";

    #[test]
    fn what_a_file_states_replaces_the_defaults_and_nothing_else_does() {
        let limits = |sessions_per_user, sessions, probes| Limits {
            sessions_per_user,
            sessions,
            probes,
        };
        let all = NodePolicy {
            watches_own: false,
            applies_to_own: true,
            limits: limits(3, 17, 100),
        };
        assert_eq!(NodePolicy::parse(ALL), Ok(all));
        for (source, expected) in [
            ("watch: own\n", NodePolicy::default()),
            (
                "apply: own\n",
                NodePolicy {
                    applies_to_own: true,
                    ..NodePolicy::default()
                },
            ),
            (
                "limits: {sessions: 1}\n",
                NodePolicy {
                    limits: limits(2, 1, 2000),
                    ..NodePolicy::default()
                },
            ),
        ] {
            assert_eq!(NodePolicy::parse(source), Ok(expected), "{source}");
            assert_eq!(accepted(&schema(), source), Ok(()), "{source}");
        }
        assert_eq!(accepted(&schema(), ALL), Ok(()));
    }

    #[test]
    fn each_mistake_is_located() {
        for (source, code, place) in [
            ("wacht: own\n", "E0110", (1, 1)),
            ("watch: all\n", "E0145", (1, 8)),
            ("apply: nobody\n", "E0145", (1, 8)),
            ("watch: own\nlimits:\n  sessions: 0\n", "E0145", (3, 13)),
            ("limits: {probes: 3001}\n", "E0145", (1, 18)),
            ("limits: {sessions_per_user: two}\n", "E0145", (1, 29)),
            ("limits: {session: 3}\n", "E0110", (1, 10)),
            ("limits: 3\n", "E0112", (1, 9)),
            ("watch: own\nwatch: own\n", "E0107", (2, 1)),
            ("- watch\n", "E0112", (1, 1)),
            ("", "E0108", (1, 1)),
        ] {
            let wrong = NodePolicy::parse(source).unwrap_err();
            let first = wrong.first().unwrap();
            let (span, _) = first.labels.first().unwrap();
            let line_column = line_column(source, span.start);
            assert_eq!((first.code, line_column), (code, place), "{source:?}: {wrong:?}");
        }
    }

    #[test]
    fn the_words_state_every_number_and_name_what_is_forbidden() {
        let words = |policy: NodePolicy| policy.in_words().join("\n");
        let default = words(NodePolicy::default());
        for part in [
            "own programs",
            "`--apply` is refused",
            "2 sessions",
            "together 16",
            "2000 functions",
        ] {
            assert!(default.contains(part), "{part}: {default}");
        }
        let none = words(NodePolicy {
            watches_own: false,
            ..NodePolicy::default()
        });
        assert!(
            none.starts_with("No user") && !none.contains("sessions at a time"),
            "{none}"
        );
        assert!(
            words(NodePolicy {
                applies_to_own: true,
                ..NodePolicy::default()
            })
            .contains("`--apply` works")
        );
    }

    #[test]
    fn the_schema_in_the_repository_is_made_of_the_table_and_refuses_other_keys_and_words() {
        kept("library/policy.schema.json", |_| schema() + "\n");
        for source in [
            "wacht: own\n",
            "watch: all\n",
            "limits: 3\n",
            "limits: {session: 3}\n",
        ] {
            assert!(accepted(&schema(), source).is_err(), "{source}");
        }
    }
}
