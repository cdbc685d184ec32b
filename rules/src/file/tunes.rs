//! The entries of `tune`: actions, conditions and guards.

use plan::{Keyword, Moment};
use syntax::diag::{Diagnostic, Span};
use syntax::fields::{ENTRIES_MAX, Fields, Wrong, formula, text, too_many, wrong_shape};
use syntax::yaml::{Tree, YamlNode};

use super::keys;
use super::{ActionEntry, GuardEntry, InverseEntry, SyncEntry, TuneEntry};

pub(super) fn tunes(tree: &Tree, wrong: Wrong<'_>) -> Vec<TuneEntry> {
    match &tree.node {
        YamlNode::Sequence(items) if items.len() > ENTRIES_MAX => {
            wrong.push(too_many("`tune`", ENTRIES_MAX, items.len(), tree.span));
            Vec::new()
        }
        YamlNode::Sequence(items) => items.iter().filter_map(|item| tune(item, wrong)).collect(),
        _ => {
            wrong_shape(tree, "`tune`", "a list (`- set: …`)", wrong);
            Vec::new()
        }
    }
}

fn tune(tree: &Tree, wrong: Wrong<'_>) -> Option<TuneEntry> {
    let fields = Fields::of(tree, &keys::TUNE, wrong)?;
    let span = fields.entries.first().map_or(tree.span, |(key, _)| key.span);
    let action = action(&fields, wrong)?;
    Some(TuneEntry {
        span,
        action,
        inverse: fields.get("inverse").and_then(|value| inverse(value, wrong)),
        was: fields.formula("was", wrong),
        because: fields.text("because", wrong),
        remains: fields.text("remains", wrong),
        with: fields.text("with", wrong),
        inside: fields.text("in", wrong),
        place: fields.text("place", wrong),
        role: fields.text("role", wrong),
        value: fields.formula("value", wrong),
        when: fields.formula("when", wrong),
        while_holds: fields.formula("while", wrong),
        initial: fields.formula("initial", wrong),
        expect: fields.formula("expect", wrong),
        stale: fields.formula("stale", wrong),
        after: fields.text("after", wrong),
        at: fields.get("at").and_then(|value| sync_point(value, span, wrong)),
        together: fields.text("together", wrong),
        independent: fields.formula("independent", wrong),
        holds_for: fields.formula("for", wrong),
        every: fields.text("every", wrong),
        range: fields.formula("range", wrong),
        guard: fields.get("guard").and_then(|value| guard(value, span, wrong)),
        cooldown: fields.formula("cooldown", wrong),
        finding: fields.template("finding", wrong),
        next_start: fields.template("next_start", wrong),
    })
}

/// The action of a tune; the outer `None` stands for a reported error, the inner for advice.
fn action(fields: &Fields<'_>, wrong: Wrong<'_>) -> Option<Option<ActionEntry>> {
    let given = Keyword::ALL.into_iter().filter_map(|keyword| {
        let (key, tree) = fields.entries.iter().find(|(key, _)| key.raw == keyword.name())?;
        Some((keyword, *key, *tree))
    });
    let given: Vec<_> = given.collect();
    let (keyword, tree) = match given.as_slice() {
        [] => return Some(None),
        [(keyword, _, tree)] => (*keyword, *tree),
        [(_, first, _), (_, second, _), ..] => {
            let message = format!(
                "a tune does one thing, and this has `{}` and `{}`",
                first.raw, second.raw
            );
            wrong.push(Diagnostic::wrong("E0150", second.span, message).at(first.span, ""));
            return None;
        }
    };
    let target = text(tree, wrong)?;
    let call = match keyword {
        Keyword::Call | Keyword::InsertCall | Keyword::SetArgument => Some(formula(tree, wrong)?),
        _ => None,
    };
    Some(Some(ActionEntry {
        keyword,
        target,
        call,
    }))
}

fn inverse(tree: &Tree, wrong: Wrong<'_>) -> Option<InverseEntry> {
    let text = text(tree, wrong)?;
    let call = match text.raw.as_str() {
        "none" => None,
        _ => Some(formula(tree, wrong)?),
    };
    Some(InverseEntry { text, call })
}

fn sync_point(tree: &Tree, place: Span, wrong: Wrong<'_>) -> Option<SyncEntry> {
    let fields = Fields::of(tree, &keys::SYNC, wrong)?;
    let (moment, function) = match (fields.text("entry", wrong), fields.text("return", wrong)) {
        (Some(function), None) => (Moment::Entry, function),
        (None, Some(function)) => (Moment::Return, function),
        _ => {
            let message = "`at` must have one of `entry` and `return`";
            wrong.push(Diagnostic::wrong("E0111", place, message));
            return None;
        }
    };
    Some(SyncEntry { moment, function })
}

fn guard(tree: &Tree, place: Span, wrong: Wrong<'_>) -> Option<GuardEntry> {
    let fields = Fields::of(tree, &keys::GUARD, wrong)?;
    let span = fields.entries.first().map_or(place, |(key, _)| key.span);
    let maximize = fields.get("maximize");
    let objective = match (maximize, fields.get("minimize")) {
        (Some(of), None) | (None, Some(of)) => formula(of, wrong)?,
        _ => {
            let message = "a guard must have one of `maximize` and `minimize`";
            wrong.push(Diagnostic::wrong("E0111", span, message));
            return None;
        }
    };
    let over = fields.formula("over", wrong);
    let margin = fields.formula("undo_if_worse_by", wrong);
    Some(GuardEntry {
        span,
        maximize: maximize.is_some(),
        objective,
        over,
        margin,
        was: fields.formula("was", wrong),
        retry: fields.formula("retry", wrong),
        keep: fields.text("keep", wrong),
    })
}
