//! Collects the folds of a rule, each once per window: metrics, tunes and conditions with equal folds share
//! one.

use std::sync::Arc;

use syntax::diag::Span;

use crate::folds::{Intake, NOWHERE, WindowFolds};
use crate::rule::{CheckedRule, FilledPart, Tune};
use crate::term::{Fold, FoldRange, Rowed, Term, Typed};
use crate::window::{Window, WindowKind};

/// The folds of one window while they are collected, with their keys.
#[derive(Default)]
struct Gathered {
    keys: Vec<String>,
    folds: Vec<(Fold, usize)>,
    newest: Vec<(usize, usize, u32)>,
    runs: bool,
}

impl CheckedRule {
    /// Assigns each fold its index in the table of its window, and builds the tables, one for each window.
    pub(crate) fn gather_folds(&mut self) {
        let mut gathered: Vec<Gathered> = self.windows.iter().map(|_| Gathered::default()).collect();
        self.each_formula(&mut |home, formula| {
            each_fold(formula, &mut |fold| {
                let window = match fold.range {
                    FoldRange::Enclosing(window) => window,
                    FoldRange::Instance | FoldRange::Newest(_) | FoldRange::Run => home,
                };
                if let Some(gathered) = gathered.get_mut(window) {
                    fold.slot = gathered.index(fold);
                }
            });
        });
        let probes = self.probes.iter().map(|probe| &probe.name);
        let names: Vec<String> = probes
            .chain(self.joins.iter().map(|join| &join.name))
            .cloned()
            .collect();
        let table = |gathered: Gathered| Arc::new(gathered.table(&names));
        self.folds = gathered.into_iter().map(table).collect();
    }

    /// Calls `f` on every formula of a window, with the window's index.
    fn each_formula(&mut self, f: &mut impl FnMut(usize, &mut Typed)) {
        for metric in &mut self.metrics {
            f(metric.window, &mut metric.value);
        }
        for tune in &mut self.tunes {
            let window = tune.trigger.window();
            tune.each_formula(&mut |formula| f(window, formula));
        }
        for run in &mut self.runs {
            f(run.window, &mut run.of);
            run.by.iter_mut().for_each(|by| f(run.window, by));
        }
        for (index, window) in self.windows.iter_mut().enumerate() {
            window.each_formula(&mut |formula| f(index, formula));
        }
    }
}

impl Tune {
    fn each_formula(&mut self, f: &mut impl FnMut(&mut Typed)) {
        self.when.iter_mut().for_each(&mut *f);
        self.expect.iter_mut().for_each(&mut *f);
        for template in [&mut self.finding, &mut self.next_start].into_iter().flatten() {
            for part in &mut template.0 {
                if let FilledPart::Value(value) = part {
                    f(value);
                }
            }
        }
        if let Some(change) = &mut self.action {
            change.formulas_mut().for_each(&mut *f);
            if let Some(guard) = &mut change.guard {
                f(&mut guard.objective);
                guard.was.iter_mut().for_each(&mut *f);
            }
            change.range.iter_mut().for_each(|(condition, _)| f(condition));
        }
    }
}

impl Window {
    fn each_formula(&mut self, f: &mut impl FnMut(&mut Typed)) {
        if let WindowKind::Probed(boundaries) = &mut self.kind {
            boundaries.until.iter_mut().for_each(&mut *f);
            boundaries.discard.iter_mut().for_each(&mut *f);
            boundaries
                .complete
                .iter_mut()
                .for_each(|(_, condition)| f(condition));
        }
    }
}

impl Gathered {
    fn index(&mut self, fold: &Fold) -> usize {
        let key = key(fold);
        let known = self.keys.iter().position(|known| *known == key);
        let index = known.unwrap_or_else(|| {
            self.keys.push(key);
            self.folds.push((fold.clone(), 0));
            self.keys.len() - 1
        });
        self.folds
            .iter_mut()
            .skip(index)
            .take(1)
            .for_each(|(_, uses)| *uses += 1);
        match fold.range {
            FoldRange::Newest(hits) => self.newest.push((index, fold.probe, hits)),
            FoldRange::Run => self.runs = true,
            FoldRange::Instance | FoldRange::Enclosing(_) => {}
        }
        index
    }

    fn table(self, names: &[String]) -> WindowFolds {
        let folds: Vec<Intake> = self.folds.iter().map(|(fold, _)| Intake::of(fold)).collect();
        let mut of_probe = vec![Vec::new(); names.len()];
        let mut keeps = vec![false; names.len()];
        for (index, ((fold, _), intake)) in self.folds.iter().zip(&folds).enumerate() {
            if intake.waits {
                keeps
                    .iter_mut()
                    .skip(fold.probe)
                    .take(1)
                    .for_each(|keeps| *keeps = true);
            } else {
                of_probe
                    .iter_mut()
                    .skip(fold.probe)
                    .take(1)
                    .for_each(|of: &mut Vec<usize>| of.push(index));
            }
        }
        WindowFolds {
            folds,
            gathered: self.folds,
            names: names.to_vec(),
            of_probe,
            keeps,
            newest: self.newest,
            runs: self.runs,
        }
    }
}

/// A canonical text of the fold without its place in the file: equal for equal folds, and for folds that
/// differ only in the range of instances, because the state of each instance is the same.
fn key(fold: &Fold) -> String {
    let mut typed = Typed::new(
        crate::types::Type::PLAIN,
        Span::default(),
        Term::Fold(Box::new(Fold {
            range: FoldRange::Instance,
            ..fold.clone()
        })),
    );
    forget_places(&mut typed);
    format!("{typed:?}")
}

fn forget_places(typed: &mut Typed) {
    typed.span = Span::default();
    match &mut typed.term {
        Term::Fold(fold) => {
            fold.slot = NOWHERE;
            fold.text.clear();
            parts(fold).into_iter().for_each(forget_places);
        }
        Term::Call { body, .. } => forget_places(Arc::make_mut(body)),
        Term::Compare { text, .. } | Term::Each { text, .. } | Term::OfCalls { text, .. } => text.clear(),
        _ => {}
    }
    typed.children_mut().into_iter().for_each(forget_places);
}

fn parts(fold: &mut Fold) -> Vec<&mut Typed> {
    let by = match &mut fold.by {
        Some(Rowed::By(by)) => Some(by),
        Some(Rowed::ByProcess) | None => None,
    };
    let parts = [fold.of.as_mut(), fold.second.as_mut(), fold.filter.as_mut(), by];
    parts.into_iter().flatten().collect()
}

/// Calls `f` on every fold in a formula, inner ones first.
fn each_fold(typed: &mut Typed, f: &mut impl FnMut(&mut Fold)) {
    match &mut typed.term {
        Term::Fold(fold) => {
            for part in parts(fold) {
                each_fold(part, f);
            }
            f(fold);
        }
        Term::Call { body, .. } => each_fold(Arc::make_mut(body), f),
        _ => {}
    }
    for part in typed.children_mut() {
        each_fold(part, f);
    }
}
