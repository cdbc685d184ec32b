//! The keys a rule may have, place by place, and those of the language that this version leaves out.
//!
//! One table for all who need it: the reader of rule files, the JSON Schema and the page of the language. A new key is
//! a line in `known`: `key("name", Shape::…, "One sentence.")`, with `.required()` if every such mapping must have it.

/// The keys of one kind of mapping.
#[derive(Debug)]
pub(crate) struct Keys {
    /// What the mapping is called in messages.
    pub(crate) place: &'static str,
    pub(crate) known: &'static [Key],
    /// Of each of these there must be exactly one.
    pub(crate) one_of: &'static [&'static [&'static str]],
    /// In the language, but not in this version.
    pub(crate) later: &'static [&'static str],
}

impl Keys {
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.known.iter().map(|key| key.name).collect()
    }
}

/// A key, what its value is, and what it is for.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) doc: &'static str,
    pub(crate) required: bool,
    /// Keys that must stand beside it.
    pub(crate) beside: &'static [&'static str],
}

const fn key(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key {
        name,
        shape,
        doc,
        required: false,
        beside: &[],
    }
}

impl Key {
    const fn required(mut self) -> Key {
        self.required = true;
        self
    }

    const fn beside(mut self, others: &'static [&'static str]) -> Key {
        self.beside = others;
        self
    }
}

/// What a value looks like.
#[derive(Debug)]
pub(crate) enum Shape {
    Text,
    /// Words for people with formulas in braces.
    Template,
    Formula,
    /// What the rule calls something: a role, a probe, a window.
    Name,
    /// What the program calls something: a function, a variable.
    Symbol,
    Words(&'static [&'static str]),
    Mapping(&'static Keys),
    /// Names that the author chooses, each with such a value.
    Entries(Names, &'static Shape),
    List(&'static Shape),
    Either(&'static [Shape]),
}

/// The form of names that an author chooses.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Names {
    /// `step`
    Plain,
    /// `step.rows`
    Captured,
    /// `pace` or `T(n)`
    Metric,
}

pub(crate) const RULE: Keys = Keys {
    place: "a rule",
    known: &[
        key(
            "rule",
            Shape::Text,
            "The rule's name: small letters, digits and single dashes.",
        )
        .required(),
        key("about", Shape::Text, "What the rule is for, in a sentence.").required(),
        key("source", Shape::Text, "Where the idea comes from."),
        key(
            "results",
            Shape::Text,
            "What becomes of what the program computes when the rule changes it, in a sentence.",
        ),
        key(
            "priority",
            Shape::Text,
            "Of two rules that change the same, the one with the greater number goes first (0 where none is given); with \
             equal ones they are not loaded together.",
        ),
        key(
            "use",
            Shape::List(&Shape::Name),
            "Other rules whose probes, windows and metrics this one speaks of.",
        ),
        key(
            "assumptions",
            Shape::List(&Shape::Text),
            "What must hold of a program for the model to be right, a sentence each.",
        ),
        key(
            "corrections",
            Shape::List(&Shape::Text),
            "Where the rule departs from its source, and why, a sentence each.",
        ),
        key(
            "names",
            Shape::Entries(Names::Plain, &Shape::Text),
            "Names of the program that may be bound to others, each with what it is.",
        ),
        key(
            "parameters",
            Shape::Entries(
                Names::Plain,
                &Shape::Either(&[Shape::Formula, Shape::Mapping(&PARAMETER)]),
            ),
            "Constants and counts of roles; a user may replace each by another formula.",
        ),
        key(
            "roles",
            Shape::Entries(
                Names::Plain,
                &Shape::Either(&[Shape::Formula, Shape::Mapping(&ROLE)]),
            ),
            "Which processes the rule is about: for each role a condition on the facts of a process.",
        ),
        key(
            "probes",
            Shape::Entries(Names::Plain, &Shape::Mapping(&PROBE)),
            "Functions of the program that are watched.",
        ),
        key(
            "capture",
            Shape::Entries(Names::Captured, &Shape::Formula),
            "What is read in the program at each hit of a probe: a global variable, `arg(0)` to `arg(5)`, `ret`, and what they point to.",
        ),
        key(
            "join",
            Shape::Entries(Names::Plain, &Shape::Mapping(&JOIN)),
            "Streams of pairs: each hit of one probe with that of another that it causes.",
        ),
        key(
            "windows",
            Shape::Entries(Names::Plain, &Shape::Mapping(&WINDOW)),
            "When formulas are evaluated.",
        )
        .required(),
        key(
            "metrics",
            Shape::Entries(
                Names::Metric,
                &Shape::Either(&[Shape::Formula, Shape::Mapping(&METRIC)]),
            ),
            "Formulas with names, in any order.",
        ),
        key(
            "tune",
            Shape::List(&Shape::Mapping(&TUNE)),
            "What to find, and what to change.",
        ),
    ],
    one_of: &[],
    later: &[],
};

pub(crate) const ROLE: Keys = Keys {
    place: "a role",
    known: &[
        key("if", Shape::Formula, "The condition on the facts of a process.").required(),
        key(
            "count",
            Shape::Text,
            "How many processes there must be, `1..25`; with fewer the rule waits.",
        ),
    ],
    one_of: &[],
    later: &[],
};

pub(crate) const PARAMETER: Keys = Keys {
    place: "a parameter",
    known: &[
        key("value", Shape::Formula, "The default value.").required(),
        key("about", Shape::Text, "What it means.").required(),
    ],
    one_of: &[],
    later: &[],
};

pub(crate) const PROBE: Keys = Keys {
    place: "a probe",
    known: &[
        key(
            "role",
            Shape::Name,
            "The role whose processes are probed; may be left out where there is one.",
        ),
        key(
            "entry",
            Shape::Symbol,
            "The function at whose entry the probe sits.",
        ),
        key(
            "return",
            Shape::Symbol,
            "The function at whose return the probe sits.",
        ),
        key(
            "span",
            Shape::Either(&[Shape::Symbol, Shape::List(&Shape::Symbol)]),
            "The function that is timed from entry to return, or two: from the entry of the first to the return of the second.",
        ),
        key(
            "mark",
            Shape::Symbol,
            "The mark that the program has in its source, as `provider:name`.",
        ),
    ],
    one_of: &[&["entry", "return", "span", "mark"]],
    later: &[],
};

pub(crate) const WINDOW: Keys = Keys {
    place: "a window",
    known: &[
        key("every", Shape::Formula, "The length of a window of time."),
        key(
            "from",
            Shape::Either(&[Shape::Name, Shape::List(&Shape::Name)]),
            "The probe at whose hits an instance begins; or a list of the window around it and its own name: with that, and again when the last one has ended.",
        ),
        key(
            "to",
            Shape::Name,
            "The probe at whose hits an instance ends; without it the next begin ends it.",
        ),
        key(
            "until",
            Shape::Formula,
            "The instance ends with the hit that makes this true of what it has so far.",
        ),
        key(
            "within",
            Shape::Name,
            "The window whose instances its own lie in.",
        ),
        key(
            "key",
            Shape::Either(&[Shape::Name, Shape::Entries(Names::Plain, &Shape::Name)]),
            "The capture that says to which instance a hit belongs, or one for each probe.",
        ),
        key(
            "complete",
            Shape::Entries(Names::Plain, &Shape::Formula),
            "For each role the condition that must hold of each of its processes before an instance closes.",
        ),
        key(
            "timeout",
            Shape::Formula,
            "How long an instance waits for what is missing.",
        ),
        key(
            "skip",
            Shape::Formula,
            "How many instances are left out at first.",
        ),
        key(
            "discard",
            Shape::Formula,
            "Instances for which this is true or none are left out.",
        ),
        key(
            "straddle",
            Shape::Words(&["end", "begin", "split", "drop"]),
            "Where a span across a boundary belongs: to the instance it ends in, to the one it begins in, to each with its part, or to none.",
        ),
    ],
    one_of: &[&["every", "from"]],
    later: &["detect"],
};

pub(crate) const METRIC: Keys = Keys {
    place: "a metric",
    known: &[
        key("in", Shape::Name, "The window it lives in.").required(),
        key("value", Shape::Formula, "Its formula.").required(),
    ],
    one_of: &[],
    later: &[],
};

pub(crate) const TUNE: Keys = Keys {
    place: "a tune",
    known: &[
        key(
            "set",
            Shape::Symbol,
            "The variable to write, or a part of one; a tune without an action only finds.",
        )
        .beside(&["value"]),
        key(
            "call",
            Shape::Formula,
            "The function to call once: `flush(cfg.level)`.",
        ),
        key(
            "inverse",
            Shape::Formula,
            "The call that reverts a call, made by the same thread: `set_level(was)`; or `none`, with `because`.",
        )
        .beside(&["call"]),
        key(
            "was",
            Shape::Formula,
            "What is called just before a call, by the same thread, for the value that its inverse passes: `level()`.",
        )
        .beside(&["call", "inverse"]),
        key(
            "because",
            Shape::Text,
            "Why a call with `inverse: none` leaves nothing to revert.",
        )
        .beside(&["call", "inverse"]),
        key("load", Shape::Text, "The shared library to load."),
        key(
            "replace",
            Shape::Symbol,
            "The function whose calls go to another.",
        )
        .beside(&["with"]),
        key("with", Shape::Symbol, "The function they go to."),
        key(
            "insert_call",
            Shape::Formula,
            "The function to call whenever another is entered or left.",
        )
        .beside(&["in"]),
        key(
            "remove_call",
            Shape::Symbol,
            "The function that is no longer called.",
        ),
        key(
            "set_arg",
            Shape::Formula,
            "The argument to change at the entry of a function: `send(2)`.",
        )
        .beside(&["value"]),
        key(
            "affinity",
            Shape::Words(&["spread", "compact"]),
            "How processes are bound to cores of their own.",
        ),
        key("enable", Shape::Name, "The probe to switch on."),
        key("disable", Shape::Name, "The probe to switch off."),
        key(
            "in",
            Shape::Symbol,
            "The function in which a call is inserted or removed; `all` for a variable that several libraries have.",
        ),
        key(
            "place",
            Shape::Words(&["entry", "return"]),
            "Where the call is inserted.",
        ),
        key("role", Shape::Name, "The role in whose processes it is written."),
        key(
            "value",
            Shape::Formula,
            "What is written, to all or to each process.",
        ),
        key(
            "when",
            Shape::Formula,
            "The condition under which the tune acts, once.",
        ),
        key(
            "for",
            Shape::Formula,
            "How many windows in a row the condition must hold.",
        ),
        key(
            "while",
            Shape::Formula,
            "Instead of `when`: what was done is undone when this no longer holds.",
        ),
        key(
            "every",
            Shape::Name,
            "The window at whose close, or the probe at whose hits, the tune is looked at.",
        ),
        key(
            "range",
            Shape::Formula,
            "A condition on `value`; outside nothing is written.",
        ),
        key(
            "initial",
            Shape::Formula,
            "The value written at the start, until the first window.",
        ),
        key(
            "expect",
            Shape::Formula,
            "What the model promises; the decision carries it.",
        ),
        key(
            "guard",
            Shape::Mapping(&GUARD),
            "What undoes a change that does harm.",
        ),
        key("cooldown", Shape::Formula, "The time between two decisions."),
        key(
            "stale",
            Shape::Formula,
            "After so many windows a decision without a receipt is given up.",
        ),
        key(
            "after",
            Shape::Symbol,
            "The variable whose tune must have been applied before.",
        ),
        key(
            "at",
            Shape::Mapping(&SYNC),
            "Where in the program each process takes the change.",
        ),
        key(
            "together",
            Shape::Name,
            "The window at whose begin all processes take the change, or none.",
        ),
        key(
            "independent",
            Shape::Words(&["true", "false"]),
            "Whether it is on trial beside other changes.",
        ),
        key(
            "finding",
            Shape::Template,
            "The text of the finding while the condition holds.",
        ),
        key(
            "next_start",
            Shape::Template,
            "What to start the program with next time.",
        ),
    ],
    one_of: &[],
    later: &[],
};

pub(crate) const JOIN: Keys = Keys {
    place: "a join",
    known: &[
        key(
            "of",
            Shape::List(&Shape::Name),
            "The two probes: what comes first, and what it causes.",
        )
        .required(),
        key(
            "by",
            Shape::List(&Shape::Text),
            "What is equal in both, written `send.to = compute.process`.",
        )
        .required(),
    ],
    one_of: &[],
    later: &[],
};

pub(crate) const SYNC: Keys = Keys {
    place: "`at`",
    known: &[
        key(
            "entry",
            Shape::Symbol,
            "The function at whose entry the change is made.",
        ),
        key(
            "return",
            Shape::Symbol,
            "The function at whose return the change is made.",
        ),
        key(
            "decide",
            Shape::Words(&["true", "false"]),
            "Whether the process waits there until the window closed last is evaluated.",
        ),
    ],
    one_of: &[&["entry", "return"]],
    later: &[],
};

pub(crate) const GUARD: Keys = Keys {
    place: "a guard",
    known: &[
        key("maximize", Shape::Formula, "What should grow."),
        key("minimize", Shape::Formula, "What should shrink."),
        key(
            "over",
            Shape::Formula,
            "How many windows before and after are compared.",
        )
        .required(),
        key(
            "undo_if_worse_by",
            Shape::Formula,
            "The share by which it may get worse.",
        )
        .required(),
        key(
            "was",
            Shape::Formula,
            "A number of the window before the change, known in the objective as `was`; the tune then follows.",
        ),
        key(
            "retry",
            Shape::Formula,
            "After how many windows an undone tune tries again.",
        ),
    ],
    one_of: &[&["maximize", "minimize"]],
    later: &[],
};

/// Every kind of mapping, in the order of the documents.
#[cfg(test)]
pub(crate) const ALL: &[&Keys] = &[
    &RULE, &PARAMETER, &PROBE, &JOIN, &WINDOW, &METRIC, &TUNE, &SYNC, &GUARD,
];

/// The keys of a file that says what a program calls the names of a rule.
pub(crate) const BINDINGS: Keys = Keys {
    place: "a bindings file",
    known: &[
        key("for", Shape::Name, "The rule.").required(),
        key(
            "names",
            Shape::Entries(Names::Plain, &Shape::Symbol),
            "What the program calls the names that the rule declares.",
        )
        .required(),
    ],
    one_of: &[],
    later: &[],
};
