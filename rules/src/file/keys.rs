//! The keys a rule may have, place by place, and those of the language that this version leaves out.

/// The keys of one kind of mapping.
pub(crate) struct Keys {
    /// What the mapping is called in messages.
    pub(crate) place: &'static str,
    pub(crate) known: &'static [&'static str],
    /// In the language, but not in this version.
    pub(crate) later: &'static [&'static str],
}

pub(crate) const RULE: Keys = Keys {
    place: "a rule",
    known: &[
        "rule",
        "about",
        "source",
        "use",
        "names",
        "parameters",
        "roles",
        "probes",
        "capture",
        "join",
        "windows",
        "metrics",
        "tune",
    ],
    later: &[],
};

pub(crate) const ROLE: Keys = Keys {
    place: "a role",
    known: &["if", "count"],
    later: &[],
};

pub(crate) const PROBE: Keys = Keys {
    place: "a probe",
    known: &["role", "entry", "return", "span"],
    later: &["mark"],
};

pub(crate) const WINDOW: Keys = Keys {
    place: "a window",
    known: &[
        "every", "from", "to", "until", "within", "key", "complete", "timeout", "skip", "discard", "straddle",
    ],
    later: &["detect"],
};

pub(crate) const METRIC: Keys = Keys {
    place: "a metric",
    known: &["in", "value"],
    later: &[],
};

pub(crate) const TUNE: Keys = Keys {
    place: "a tune",
    known: &[
        "set",
        "call",
        "load",
        "replace",
        "with",
        "insert_call",
        "remove_call",
        "set_arg",
        "affinity",
        "enable",
        "disable",
        "in",
        "place",
        "role",
        "value",
        "when",
        "for",
        "while",
        "every",
        "range",
        "initial",
        "expect",
        "guard",
        "cooldown",
        "stale",
        "after",
        "at",
        "together",
        "independent",
        "finding",
        "next_start",
    ],
    later: &[],
};

pub(crate) const JOIN: Keys = Keys {
    place: "a join",
    known: &["of", "by"],
    later: &[],
};

pub(crate) const SYNC: Keys = Keys {
    place: "`at`",
    known: &["entry", "return", "decide"],
    later: &[],
};

pub(crate) const GUARD: Keys = Keys {
    place: "a guard",
    known: &["maximize", "minimize", "over", "undo_if_worse_by"],
    later: &[],
};

/// The keys of a file that says what a program calls the names of a rule.
pub(crate) const BINDINGS: Keys = Keys {
    place: "a bindings file",
    known: &["for", "names"],
    later: &[],
};
