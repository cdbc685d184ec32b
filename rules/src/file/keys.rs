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
    later: &["use", "for"],
};

pub(crate) const PROBE: Keys = Keys {
    place: "a probe",
    known: &["role", "entry", "return", "span"],
    later: &["mark", "in", "from", "to"],
};

pub(crate) const WINDOW: Keys = Keys {
    place: "a window",
    known: &[
        "every", "from", "to", "key", "complete", "timeout", "skip", "discard", "straddle",
    ],
    later: &["detect", "within", "until"],
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
    later: &[
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
        "place",
        "in",
    ],
};

pub(crate) const JOIN: Keys = Keys {
    place: "a join",
    known: &["of", "by"],
    later: &[],
};

pub(crate) const SYNC: Keys = Keys {
    place: "`at`",
    known: &["entry", "return"],
    later: &["decide"],
};

pub(crate) const GUARD: Keys = Keys {
    place: "a guard",
    known: &["maximize", "minimize", "over", "undo_if_worse_by"],
    later: &[],
};
