//! The permitted keys of each mapping of a rule file, shared by its reader, the JSON Schema and the language's reference.

use syntax::keys::NameForm::{Captured, Metric, Plain};
use syntax::keys::Shape::{Either, Entries, Formula, List, Mapping, Name, Symbol, Template, Text, Words};
use syntax::keys::keys;

keys! {
    RULE "a rule" {
        "rule" => Text, "The rule's name: small letters, digits and single dashes.", required;
        "about" => Text, "What the rule is for, in a sentence.", required;
        "source" => Text, "Where the idea comes from.";
        "gained" => Text, "How much faster it made a program where that was measured, in a sentence.";
        "must_be_named" => Text, "Why the rule acts only where `--apply=` names it. One that changes code or loads libraries must be named anyway.";
        "results" => Text, "How the change affects the program's results, in a sentence.";
        "priority" => Text,
            "Which of two rules that change the same target goes first: the one with the greater number (default 0); with equal numbers they are not loaded together.";
        "use" => List(&Name), "Other rules whose probes, windows and metrics this one uses.";
        "assumptions" => List(&Text), "What must hold of a program for the model to be right, a sentence each.";
        "corrections" => List(&Text), "Where the rule departs from its source, and why, a sentence each.";
        "names" => Entries(Plain, &Text), "Names of the program that may be bound to others, each with what it is.";
        "parameters" => Entries(Plain, &Either(&[Formula, Mapping(&PARAMETER)])),
            "Constants and counts of roles; a user may replace each by another formula.";
        "roles" => Entries(Plain, &Either(&[Formula, Mapping(&ROLE)])),
            "Which processes the rule is about: for each role a condition on the facts of a process.";
        "probes" => Entries(Plain, &Mapping(&PROBE)), "Functions of the program that are watched.";
        "capture" => Entries(Captured, &Formula),
            "What is read in the program at each hit of a probe: a global variable, `arg(0)` to `arg(5)`, `ret`, and what they point to.";
        "join" => Entries(Plain, &Mapping(&JOIN)), "Streams of pairs: each hit of one probe with that of another that it causes.";
        "windows" => Entries(Plain, &Mapping(&WINDOW)), "When formulas are evaluated.", required;
        "metrics" => Entries(Metric, &Either(&[Formula, Mapping(&METRIC)])), "Formulas with names, in any order.";
        "tune" => List(&Mapping(&TUNE)), "What to find, and what to change.";
    }
    ROLE "a role" {
        "if" => Formula, "The condition on the facts of a process.", required;
        "count" => Text, "How many processes there must be, `1..25`; with fewer the rule waits.";
    }
    PARAMETER "a parameter" {
        "value" => Formula, "The default value.", required;
        "about" => Text, "What it means.", required;
    }
    PROBE "a probe" one_of [&["entry", "return", "span", "mark"]] {
        "role" => Name, "The role whose processes are probed; may be left out where there is one.";
        "entry" => Symbol, "The function at whose entry the probe sits.";
        "return" => Symbol, "The function at whose return the probe sits.";
        "span" => Either(&[Symbol, List(&Symbol)]),
            "The function that is timed from entry to return, or two: from the entry of the first to the return of the second.";
        "mark" => Symbol, "The mark that the program has in its source, as `provider:name`.";
    }
    WINDOW "a window" one_of [&["every", "from", "detect"]] {
        "every" => Formula, "The length of a window of time.";
        "detect" => Words(&["period"]), "An instance is an iteration of the detected loop of each process.";
        "from" => Either(&[Name, List(&Name)]),
            "The probe whose hits begin an instance; or `[outer, own]`: one begins with the outer window and again each time the last one has ended.";
        "to" => Name, "The probe at whose hits an instance ends; without it the next begin ends it.";
        "until" => Formula, "The instance ends with the hit that makes this true of what it has so far.";
        "within" => Name, "The outer window that contains this one.";
        "key" => Either(&[Name, Entries(Plain, &Name)]),
            "The capture that decides to which instance a hit belongs, or one for each probe.";
        "complete" => Entries(Plain, &Formula),
            "For each role the condition that must hold of each of its processes before an instance closes.";
        "timeout" => Formula, "How long an instance waits for what is missing.";
        "skip" => Formula, "How many instances are left out at first.";
        "discard" => Formula, "Instances for which this is true or none are left out.";
        "straddle" => Words(&["end", "begin", "split", "drop"]),
            "Where a span across a boundary belongs: to the instance it ends in, to the one it begins in, to each with its part, or to none.";
    }
    METRIC "a metric" {
        "in" => Name, "The window it lives in.", required;
        "value" => Formula, "Its formula.", required;
    }
    TUNE "a tune" {
        "set" => Symbol, "The variable to write, or a part of one; a tune without an action only finds.", beside(&["value"]);
        "call" => Formula, "The function to call once: `flush(cfg.level)`.";
        "inverse" => Formula,
            "The call that reverts a call, made by the same thread: `set_level(was)`; or `none`, with `because`.", beside(&["call"]);
        "was" => Formula,
            "Called just before the call, by the same thread; its result is `was` in the inverse: `level()`.", beside(&["call", "inverse"]);
        "because" => Text,
            "Why a call with `inverse: none` leaves nothing to revert.", beside(&["call", "inverse"]);
        "remains" => Text,
            "What the inverse does not restore, as a clause: the last line of a session says so.", beside(&["call", "inverse"]);
        "load" => Text, "The shared library to load.";
        "replace" => Symbol, "The function whose calls go to another.", beside(&["with"]);
        "with" => Symbol, "The function they go to.";
        "insert_call" => Formula, "The function to call whenever another is entered or left.", beside(&["in"]);
        "remove_call" => Symbol, "The function that is no longer called.";
        "set_arg" => Formula, "The argument to change at the entry of a function: `send(2)`, with its type where there is no debug information: `send(2) as u32`. `openmp.size` is the size that a program states for its OpenMP teams.", beside(&["value"]);
        "affinity" => Words(&["spread", "compact"]), "How processes are bound to cores of their own.";
        "enable" => Name, "The probe to switch on.";
        "disable" => Name, "The probe to switch off.";
        "in" => Symbol, "The function in which a call is inserted or removed; `all` for a variable that several libraries have.";
        "place" => Words(&["entry", "return"]), "Where the call is inserted.";
        "role" => Name, "The role in whose processes it is written.";
        "value" => Formula, "What is written, to all or to each process.";
        "when" => Formula, "The condition under which the tune acts, once.";
        "for" => Formula, "How many windows in a row the condition must hold.";
        "while" => Formula, "Instead of `when`: what was done is reverted when this no longer holds.";
        "every" => Name, "When the tune is evaluated: at the end of this window, or at each hit of this probe.";
        "range" => Formula, "A condition on `value`; where it is false nothing is written.";
        "initial" => Formula, "The value written at the start, until the first window.";
        "expect" => Formula, "What the model predicts; the decision carries it.";
        "guard" => Mapping(&GUARD), "What reverts a change that does harm.";
        "cooldown" => Formula, "The time between two decisions.";
        "stale" => Formula, "After so many windows a decision is given up if the actuator has not reported its result.";
        "after" => Symbol, "The variable whose tune must have been applied before.";
        "at" => Mapping(&SYNC), "Where in the program each process takes the change.";
        "together" => Name, "The window at whose begin all processes take the change, or none.";
        "independent" => Words(&["true", "false"]), "Whether it is on trial beside other changes.";
        "finding" => Template, "The text of the finding while the condition holds.";
        "next_start" => Template, "What to start the program with next time.";
    }
    JOIN "a join" {
        "of" => List(&Name), "The two probes: what comes first, and what it causes.", required;
        "by" => List(&Text), "What is equal in both, written `send.to = compute.process`.", required;
    }
    SYNC "`at`" one_of [&["entry", "return"]] {
        "entry" => Symbol, "The function at whose entry the change is made.";
        "return" => Symbol, "The function at whose return the change is made.";
    }
    GUARD "a guard" one_of [&["maximize", "minimize"]] {
        "maximize" => Formula, "What should grow.";
        "minimize" => Formula, "What should shrink.";
        "over" => Formula, "How many windows before and after are compared.", required;
        "undo_if_worse_by" => Formula, "The share by which it may get worse.", required;
        "was" => Formula, "A number of the window before the change, known in the objective as `was`; the tune then follows.";
        "retry" => Formula, "After how many windows a reverted tune tries again.";
        "keep" => Words(&["better", "not_worse"]), "What stays: what is confirmed to be better (the default), or what is not worse, where the objective compares with a model.";
    }
    /// The keys of a file that binds the names of a rule to those of a program.
    BINDINGS "a bindings file" {
        "for" => Name, "The rule.", required;
        "names" => Entries(Plain, &Symbol), "What the program calls the names that the rule declares.", required;
    }
}

/// Every kind of mapping, in the order of the documentation.
#[cfg(test)]
pub(crate) const ALL: &[&syntax::keys::KeyTable] = &[
    &RULE, &PARAMETER, &PROBE, &JOIN, &WINDOW, &METRIC, &TUNE, &SYNC, &GUARD,
];
