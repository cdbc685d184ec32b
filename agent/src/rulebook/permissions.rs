//! Which rules may act.

use plan::Mode;
use rules::CheckedRule;
use session::requests::NotSwitched;

use super::sources;
use crate::exit::Failure;

#[derive(Debug, Default)]
pub(super) struct Permissions {
    /// The value of `--apply`: nothing, everything (an empty list), or names.
    apply: Option<Vec<String>>,
    /// Rules that act now.
    applying: Vec<String>,
    /// Rules that the user named. Others that must be named never apply.
    named: Vec<String>,
    /// The session reverts everything at its end, so that rules with calls without an inverse may not act.
    reverts_everything: bool,
}

impl Permissions {
    pub(super) fn new(checked: &[CheckedRule], apply: Option<&[String]>) -> Result<Permissions, Failure> {
        Ok(Permissions {
            applying: sources::applying(checked, apply)?,
            named: apply.unwrap_or_default().to_vec(),
            apply: apply.map(<[String]>::to_vec),
            reverts_everything: false,
        })
    }

    /// Whether a rule acts now.
    pub(super) fn applies(&self, name: &str) -> bool {
        self.applying.iter().any(|applying| applying == name)
    }

    pub(super) fn is_named(&self, name: &str) -> bool {
        self.named.iter().any(|named| named == name)
    }

    /// Whether `--apply` permits a rule, also one that is added later.
    pub(super) fn permits(&self, name: &str) -> bool {
        let names = self.apply.as_ref();
        names.is_some_and(|names| names.is_empty() || names.iter().any(|of| of == name))
    }

    /// Whether a rule may not act because its calls have no inverse.
    pub(super) fn forbids_calls_of(&self, rule: &CheckedRule) -> bool {
        self.reverts_everything && stays(rule)
    }

    /// A rule acts from now on, whatever it does: the caller has checked that it may.
    pub(super) fn apply(&mut self, name: &str) {
        self.applying.push(name.to_owned());
    }

    /// Sets the mode of a rule.
    pub(super) fn switch(&mut self, rule: &CheckedRule, mode: Mode) -> Result<(), NotSwitched> {
        if mode == Mode::Applying && rule.must_be_named() && !self.is_named(rule.name()) {
            return Err(NotSwitched::NotNamed);
        }
        if mode == Mode::Applying && self.forbids_calls_of(rule) {
            return Err(NotSwitched::Stays);
        }
        self.applying.retain(|applying| applying != rule.name());
        if mode == Mode::Applying {
            self.apply(rule.name());
        }
        Ok(())
    }

    /// The user names a rule.
    pub(super) fn name(&mut self, name: &str) {
        self.named.push(name.to_owned());
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.applying.retain(|applying| applying != name);
        self.named.retain(|named| named != name);
    }

    /// For a session that reverts everything at its end: it is an error if `--apply` named a rule with calls
    /// without an inverse, and the others only advise. Returns a sentence for each of these.
    pub(super) fn revert_everything<'a>(
        &mut self,
        rules: impl Iterator<Item = &'a CheckedRule>,
    ) -> Result<Vec<String>, Failure> {
        self.reverts_everything = true;
        let mut advising = Vec::new();
        for rule in rules.filter(|rule| stays(rule)) {
            let name = rule.name();
            if self.is_named(name) {
                return Err(Failure::invalid(format!("--apply={name}: {}", why_not(rule))));
            }
            if self.applies(name) {
                advising.push(format!("{name} only advises: {}", why_not(rule)));
                self.applying.retain(|applying| applying != name);
            }
        }
        Ok(advising)
    }
}

/// Whether a rule makes calls without an inverse.
fn stays(rule: &CheckedRule) -> bool {
    rule.plan().actions.iter().any(|action| action.stays)
}

pub(super) fn why_not(rule: &CheckedRule) -> String {
    let calls = rule.plan().actions.iter().filter(|action| action.stays);
    let calls: Vec<String> = calls.map(|action| format!("{}()", action.target)).collect();
    format!(
        "its call {} has no `inverse` and cannot be reverted at the end of the session; such rules act with --keep",
        calls.join(", ")
    )
}
