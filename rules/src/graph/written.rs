//! A checked formula as people write it; names of what it uses come from its rule.

use crate::function::{FUNCTIONS, Meaning, Reduction, ScalarFunction};
use crate::rule::CheckedRule;
use crate::term::{Fact, Field, Fold, Reach, Rowed, Statistic, Term, Typed};
use crate::value::show_cell;

/// Writes formulas of a rule.
pub(super) struct Written<'a> {
    pub(super) rule: &'a CheckedRule,
    /// The window that the formula lives in.
    pub(super) window: usize,
}

/// What a part does, without its parts.
pub(super) fn head(term: &Term) -> String {
    match term {
        Term::Negate(_) => "-".to_string(),
        Term::Not(_) => "not".to_string(),
        Term::Arithmetic(operator, ..) => operator.sign().to_string(),
        Term::Both(..) => "and".to_string(),
        Term::Either(..) => "or".to_string(),
        Term::Compare { comparison, .. } => comparison.sign().to_string(),
        Term::Reduce(reduction, _) => reduction_name(*reduction).to_string(),
        Term::Apply(function, _) => function_name(*function).to_string(),
        Term::Row { .. } => "[ ]".to_string(),
        Term::Chosen { .. } => "where".to_string(),
        Term::Keys(_) => "keys".to_string(),
        _ => "?".to_string(),
    }
}

fn reduction_name(reduction: Reduction) -> &'static str {
    let same = |meaning: Meaning| match (meaning, reduction) {
        (Meaning::Reduction(Reduction::Quantile(_)), Reduction::Quantile(_)) => true,
        (Meaning::Reduction(other) | Meaning::Both(other, _), _) => other == reduction,
        _ => false,
    };
    let found = FUNCTIONS.iter().find(|function| same(function.meaning));
    found.map_or("?", |function| function.name)
}

fn function_name(wanted: ScalarFunction) -> &'static str {
    let same = |meaning: Meaning| matches!(meaning, Meaning::Scalar(function) | Meaning::Both(_, function) if function == wanted);
    let found = FUNCTIONS.iter().find(|function| same(function.meaning));
    found.map_or("?", |function| function.name)
}

impl Written<'_> {
    /// The formula; `probe` is the one of whose hits it is.
    pub(super) fn of(&self, of: &Typed, probe: Option<usize>) -> String {
        let part = |of: &Typed| self.of(of, probe);
        match &of.term {
            Term::Constant(value) => show_cell(&Ok(value.clone()), of.of),
            Term::Known(value) => value.show(of.of),
            Term::Metric(metric) => self.metric(*metric),
            Term::Inner { metric, window } => {
                format!("{} of each {}", self.metric(*metric), self.window(*window))
            }
            Term::Measure(measure) => measure.name().to_string(),
            Term::WindowDuration => format!("{}.duration", self.window(self.window)),
            Term::WindowIndex => format!("{}.index", self.window(self.window)),
            Term::RoleCount(role) => format!("count({})", self.role(*role)),
            Term::Hits {
                probe,
                statistic,
                by_process,
            } => self.hits(*probe, *statistic, *by_process),
            Term::Fold(fold) => self.fold(fold),
            Term::Call { metric, argument, .. } => format!("{}({})", self.metric(*metric), part(argument)),
            Term::Variable(depth) => ["n", "m", "k", "l"]
                .get(*depth)
                .copied()
                .unwrap_or("n")
                .to_string(),
            Term::Each { of, from, to, depth } => {
                let name = ["n", "m", "k", "l"].get(*depth).copied().unwrap_or("n");
                format!("{} for {name} in {} to {}", part(of), part(from), part(to))
            }
            Term::Over { metric, count } => format!("{} over {count}", self.metric(*metric)),
            Term::Earlier { metric, back } | Term::Enclosing { metric, back, .. } => {
                format!("{}[-{back}]", self.metric(*metric))
            }
            Term::InnerCount(window) => format!("count({})", self.window(*window)),
            Term::EnclosingIndex(window) => format!("{}.index", self.window(*window)),
            Term::Run(place) => self.run(*place),
            Term::At { measure, probe } => format!("{} at {}", measure.name(), self.probe(*probe)),
            Term::OfCalls { measure, filter } => format!("{} where {}", measure.name(), part(filter)),
            Term::Original => "original".to_string(),
            Term::Field(field) => self.field(*field, probe),
            Term::Read(place) => format!("read {place}"),
            Term::Fact(fact) => match fact {
                Fact::Mpi => "mpi",
                Fact::Rank => "rank",
                Fact::Size => "size",
                Fact::Exe => "exe",
            }
            .to_string(),
            Term::Loads(glob) => format!("loads(\"{glob}\")"),
            Term::Has(symbol) => format!("has({symbol})"),
            Term::Proposed => "value".to_string(),
            Term::Compare { text, .. } => text.clone(),
            Term::Negate(of) => format!("-{}", part(of)),
            Term::Not(of) => format!("not {}", part(of)),
            Term::Arithmetic(_, a, b) | Term::Both(a, b) | Term::Either(a, b) => {
                format!("({} {} {})", part(a), head(&of.term), part(b))
            }
            Term::Row { of, key } => format!("{}[{}]", part(of), part(key)),
            Term::Chosen { of, condition } => format!("{} where {}", part(of), part(condition)),
            Term::Keys(of) => format!("keys of {}", part(of)),
            Term::Reduce(..) | Term::Apply(..) => {
                let parts: Vec<String> = of.children().into_iter().map(part).collect();
                format!("{}({})", head(&of.term), parts.join(", "))
            }
        }
    }

    fn metric(&self, metric: usize) -> String {
        self.rule
            .metrics
            .get(metric)
            .map_or_else(String::new, |metric| metric.name.clone())
    }

    fn window(&self, window: usize) -> String {
        self.rule
            .windows
            .get(window)
            .map_or_else(String::new, |window| window.name.clone())
    }

    fn role(&self, role: usize) -> String {
        self.rule
            .roles
            .get(role)
            .map_or_else(String::new, |role| role.name.clone())
    }

    fn probe(&self, probe: usize) -> String {
        let own = self.rule.probes.get(probe).map(|probe| probe.name.clone());
        let join = probe.checked_sub(self.rule.probes.len());
        let join = join
            .and_then(|join| self.rule.joins.get(join))
            .map(|join| join.name.clone());
        own.or(join).unwrap_or_default()
    }

    fn hits(&self, probe: usize, statistic: Statistic, by_process: bool) -> String {
        let name = self.probe(probe);
        let by = if by_process { " by process" } else { "" };
        match statistic {
            Statistic::Count => format!("count({name}){by}"),
            Statistic::Sum => format!("sum({name}.duration){by}"),
            Statistic::Mean => format!("mean({name}.duration){by}"),
            Statistic::Min => format!("min({name}.duration){by}"),
            Statistic::Max => format!("max({name}.duration){by}"),
        }
    }

    fn fold(&self, fold: &Fold) -> String {
        let part = |of: &Typed| self.of(of, Some(fold.probe));
        let of = fold.of.as_ref().map_or_else(|| self.probe(fold.probe), part);
        let reach = match fold.reach {
            Reach::Instance => String::new(),
            Reach::Enclosing(window) => format!(" over {}", self.window(window)),
            Reach::Newest(count) => format!(" over {count} {}", self.probe(fold.probe)),
            Reach::Run => " over run".to_string(),
        };
        let filter = fold
            .filter
            .as_ref()
            .map_or(String::new(), |filter| format!(" where {}", part(filter)));
        let second = fold
            .second
            .as_ref()
            .map_or(String::new(), |second| format!(", {}", part(second)));
        let second = match fold.reduction {
            Reduction::Quantile(share) => format!(", {}%", share * 100.0),
            _ => second,
        };
        let by = match &fold.by {
            None => String::new(),
            Some(Rowed::ByProcess) => " by process".to_string(),
            Some(Rowed::By(key)) => format!(" by {}", part(key)),
        };
        format!(
            "{}({of}{reach}{filter}{second}){by}",
            reduction_name(fold.reduction)
        )
    }

    fn field(&self, field: Field, probe: Option<usize>) -> String {
        let name = probe.map_or_else(String::new, |probe| self.probe(probe));
        let part = match field {
            Field::Time => "time".to_string(),
            Field::Process => "process".to_string(),
            Field::Thread => "thread".to_string(),
            Field::Host => "host".to_string(),
            Field::Duration => "duration".to_string(),
            Field::Capture(place) => self.capture(probe, place),
        };
        format!("{name}.{part}")
    }

    fn capture(&self, probe: Option<usize>, place: usize) -> String {
        let Some(probe) = probe else { return String::new() };
        if let Some(own) = self.rule.probes.get(probe) {
            return own
                .captures
                .get(place)
                .map_or_else(String::new, |(name, _)| name.clone());
        }
        let join = probe.checked_sub(self.rule.probes.len());
        let join = join.and_then(|join| self.rule.joins.get(join));
        let Some((join, (side, field))) = join.and_then(|join| Some((join, join.parts.get(place)?))) else {
            return String::new();
        };
        self.field(*field, Some(if *side == 0 { join.of.0 } else { join.of.1 }))
    }

    fn run(&self, place: usize) -> String {
        let Some(run) = self.rule.runs.get(place) else {
            return String::new();
        };
        let of = self.of(&run.of, None);
        let by = run
            .by
            .as_ref()
            .map_or(String::new(), |by| format!(" by {}", self.of(by, None)));
        match &run.fold {
            crate::rule::RunFold::Reduce(reduction) => {
                format!("{}({of} over run)", reduction_name(*reduction))
            }
            crate::rule::RunFold::Ewma(weight) => format!("ewma({of}, {weight}{by} over run)"),
        }
    }
}
