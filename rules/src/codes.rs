//! The page of every diagnostic code: what is wrong, why it matters, what to do. Shown by `tuneagent explain`.

/// A code and its page.
#[derive(Debug)]
pub struct Page {
    /// Such as `E0107`.
    pub code: &'static str,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// What it means and what to do.
    pub text: &'static str,
}

/// The page of `code`; letters of either case.
pub fn explain(code: &str) -> Option<&'static Page> {
    PAGES.iter().find(|page| page.code.eq_ignore_ascii_case(code))
}

const fn page(code: &'static str, title: &'static str, text: &'static str) -> Page {
    Page { code, title, text }
}

/// Every page, in the order of the codes.
pub const PAGES: &[Page] = &[
    page(
        "E0101",
        "the file is not well-formed YAML",
        "Brackets, quotes or indentation do not fit together, and what follows cannot be read. YAML is indented by\n\
         spaces, never by tabs; a value that begins with one of { [ & * ! | > % @ must be put into quotes.",
    ),
    page(
        "E0102",
        "a colon that YAML takes for a key",
        "A colon with a space behind it ends a key, also in the middle of a value:\n\n    \
         finding: slow: {x} a step       # an error\n    \
         finding: \"slow: {x} a step\"     # right\n\n\
         Put all of the value into quotes, or write it on lines of its own below a `|`.",
    ),
    page(
        "E0103",
        "a comma inside {} cut a formula",
        "Inside braces YAML ends a value at every comma. What is written\n\n    \
         {value: clamp(x, 1, 8)}\n\n\
         reads as three keys, `value` with `clamp(x`, and `1` and `8)` with nothing. Most readers of YAML say\n\
         nothing. A `[` begins a list there, as in {value: x[-1]}. Put the formula into quotes, or write the mapping on\n\
         lines of its own.",
    ),
    page(
        "E0104",
        "a key without a value",
        "Behind the key there is nothing, `~` or `null`. A rule has no use for nothing: leave the key out.",
    ),
    page(
        "E0105",
        "in the language, but not in this version",
        "The rule language is larger than this version of it. Left out are: windows that are detected\n\
         (`detect`), the partner and the communicator of an MPI call (`peer`, `communicator`), and setting\n\
         a text.\n\
         What is left out is refused rather than ignored, so that no rule means less than it says.",
    ),
    page(
        "E0106",
        "a tag, an anchor, an alias or a merge",
        "They make one text of a file mean something that stands elsewhere, and readers of YAML do not agree on them.\n\
         Write the value where it is needed. A formula that is needed twice gets a name under `metrics`.",
    ),
    page(
        "E0107",
        "a key given twice",
        "Most readers of YAML keep the last of two equal keys and say nothing. Both places are shown: leave one out,\n\
         or give one another name.",
    ),
    page(
        "E0108",
        "not exactly one rule in the file",
        "A file holds one rule: one YAML document, which is not empty. Further rules go into files of their own.",
    ),
    page(
        "E0109",
        "a word that is a boolean to some",
        "on, off, yes and no are booleans to YAML 1.1 and texts to YAML 1.2. For values there are `true` and\n\
         `false`; a text is put into quotes; a key gets another name.",
    ),
    page(
        "E0110",
        "an unknown key",
        "The place has no such key. Unknown keys are errors because a misspelled `guard` would otherwise be no guard.",
    ),
    page(
        "E0111",
        "something required is missing",
        "A rule needs its name, an `about` and a window; a probe its place, and in a rule with several roles its role. A\n\
         change needs what its keyword requires: `set` and `set_arg` a value, `replace` a `with`, `insert_call` an `in`.\n\
         A tune needs its `when` or `while`; only a change without a guard may lack it, and then acts whenever its\n\
         value differs from the last one.",
    ),
    page(
        "E0112",
        "a value of the wrong shape",
        "Where a mapping, a list or a text is needed stands another of them. Sections are mappings (`name: value`\n\
         lines), `tune` is a list (each item begins with a dash).",
    ),
    page(
        "E0113",
        "this cannot be a name",
        "A rule's name has small letters, digits and dashes: `openmpi-busy-wait`. All other names stand in formulas\n\
         and have letters, digits and underscores, begin with a letter, and are not words of the formulas (and, or,\n\
         not, by, where, in, at, over, for, to, as, true, false). A variable's name has no spaces.\n\
         A mark is named with its provider, as in `app:step`.",
    ),
    page(
        "E0120",
        "a formula that cannot be read",
        "Loosest first: or, and, not, comparisons and `in`, + and -, * / and %, a minus before a value, ^, `by`, `at`,\n\
         `over` and `as`, members and calls. Comparisons in a row run one way: `1 <= value <= 8`. Texts are in double\n\
         quotes.",
    ),
    page(
        "E0121",
        "a unit that is not known, or not at its number",
        "Number and unit are written without a space: 50us, 4KiB, 10%. The units are % ns us ms s min B KB MB GB KiB\n\
         MiB GiB; capitals count.",
    ),
    page(
        "E0122",
        "a quote or a brace without its partner",
        "A text in a formula ends with the quote it began with. In `finding` and `next_start` formulas stand in\n\
         braces; for a brace itself write it twice.",
    ),
    page(
        "E0123",
        "too large",
        "Every part of a rule has a bound, so that no file can exhaust the program that reads it: 256 KiB a file, 256\n\
         entries a section, 256 parts a formula, 100 mistakes listed. Give parts of a long formula names under `metrics`.",
    ),
    page(
        "E0130",
        "an unknown name",
        "Nothing of this name is known at this place. Roles know facts (mpi, rank, size, exe) and parameters; metrics\n\
         and tunes know parameters, metrics, measures, the window and the probes.",
    ),
    page(
        "E0131",
        "definitions in a circle",
        "Each of these needs the value of another of them first. Definitions may stand in any order, but not in a\n\
         circle.",
    ),
    page(
        "E0132",
        "a name with two meanings",
        "What a name means must not depend on where it is looked up first: parameters, roles, probes, windows and\n\
         metrics share one set of names, and may not take those that are built in.",
    ),
    page(
        "E0133",
        "a function that is not known, or called wrongly",
        "There is no function of this name, or it takes another number of arguments. min and max fold a table when\n\
         they have one argument, and choose among values when they have several.",
    ),
    page(
        "E0134",
        "a name in the wrong place",
        "Facts belong to roles, measurements to metrics and tunes, constants everywhere. A role or a probe has no\n\
         value of its own, but can be counted; the hits of a span have durations, which must be reduced.",
    ),
    page(
        "E0135",
        "a rule that is used and cannot be",
        "`use: [iteration-time]` takes the definitions of another rule that this one needs: metrics that its formulas\n\
         name, with their probes, windows and roles. The other rule is found by its name, must be right by itself, and\n\
         may not use this one. Something of it must be needed.",
    ),
    page(
        "E0140",
        "the wrong type",
        "Values are booleans, texts or numbers, and none is taken for another: a condition is compared, not counted.",
    ),
    page(
        "E0141",
        "dimensions that do not fit",
        "Numbers carry dimensions: times, bytes, their products and quotients; counts and shares have none. Adding or\n\
         comparing unlike ones is a mistake in the formula, and the message names the factor that is missing. To\n\
         turn a time into a number divide by its unit: `x / 1ms`.",
    ),
    page(
        "E0142",
        "a constant without a value",
        "A parameter or a setting is computed before anything is measured, and this one divides by 0 or is not finite.",
    ),
    page(
        "E0143",
        "a table where one value is needed",
        "Measures of processes have a row for each process. Texts, ranges and guards need one value: fold the rows\n\
         with sum, mean, min or max.",
    ),
    page(
        "E0144",
        "nothing to fold",
        "The argument of a reduction is a single value already, or `by process` would leave a 1 in every row, or a\n\
         condition would choose all rows or none. A metric of an inner window is a table in the windows around it only:\n\
         say that one, `{in: iteration, value: …}`. A quantile of all values since the beginning cannot be kept in\n\
         bounded room.",
    ),
    page(
        "E0145",
        "a setting out of its range",
        "Windows last 10ms to 60min; `for` and `over` are 1 to 1000 windows; `undo_if_worse_by` is at least 0% and less\n\
         than 100%; a cooldown is not negative; a priority is an integer.",
    ),
    page(
        "E0146",
        "tables with different keys",
        "Two tables combine row by row, on equal keys. A table by process and one by a captured value have no keys in\n\
         common: fold one of them, or make both by the same key, as in `sum(x) by send.to`.",
    ),
    page(
        "E0147",
        "in which window",
        "Every formula is evaluated at the close of one window, or at a hit in it. A rule with several says which:\n\
         `{in: window, value: …}` for a metric, `every: window` in a tune; else it is the window of the metrics it uses,\n\
         else the innermost of its hits. Of a window around it a formula sees what is known while that is open: the\n\
         captures of its boundaries, its index, values so far (`sum(x over iteration)`), and metrics of instances before\n\
         (`C[-1]`). Of a window within it, it sees the metrics of all instances as a table, and `count(window)`.",
    ),
    page(
        "E0148",
        "the boundaries of a window",
        "A window lasts some time (`every`) or goes from hit to hit (`from`, `to` or `until`), and only the latter has a\n\
         key, a condition on completeness, a timeout, and instances to leave out. Where a key places hits, the probe the\n\
         window begins at captures it. `from` names a probe, one end of a span (`loop.entry`), the window around it, or\n\
         the window itself, which then begins again when its last instance closed. `until` is about the hits so far.",
    ),
    page(
        "E0149",
        "a join that joins nothing",
        "A join makes pairs of the hits of two probes: `of: [send, compute]`, what comes first and what it causes, and\n\
         `by: [send.to = compute.process]`, what is equal in both. Each first is paired once, first in first out.",
    ),
    page(
        "E0150",
        "a tune that does nothing, or half of something",
        "A tune makes one change or advises. Changes are set, call, load, replace, insert_call, remove_call, set_arg,\n\
         affinity, enable and disable, each with keys of its own. Advice needs a `finding`, and what belongs to a change\n\
         (role, value, range, guard, cooldown) has no place in it.",
    ),
    page(
        "E0151",
        "two tunes on one target",
        "Both would change the same thing, and what it is would depend on who came last. Make one tune with a\n\
         value that covers both cases.",
    ),
    page(
        "E0152",
        "a probe that nothing uses",
        "A warning: no formula counts its hits or their durations. It is not armed, and can be left out.",
    ),
    page(
        "E0153",
        "what cannot be read",
        "A probe reads global variables, the first six arguments (`arg(0)` to `arg(5)`, or by their names) and the\n\
         returned value (`ret`), and from there members (`cfg.chunk`, `head->next`), elements (`limits[2]`) and what is\n\
         pointed to (`*arg(1)`). Where the program has no debug information the type is said: `as i32`, of i8 i16 i32\n\
         i64 u8 u16 u32 u64 f32 f64 bool char and str(1) to str(64).\n\
         Real numbers among the arguments are passed in registers that a probe cannot read. The ways out: a global\n\
         variable that has the number; a pointer to it (`*arg(1) as f64`); a mark of `include/tuneagent.h`, which\n\
         passes its bits (`arg(1) as f64`).",
    ),
    page(
        "E0154",
        "more than a probe can read",
        "The program waits while a probe reads: at most 6 values a hit, each over at most 4 pointers.",
    ),
    page(
        "E0155",
        "what cannot be computed where an argument is passed",
        "The value of `set_arg` is computed in the program at every call, by a few instructions: with `original`, the\n\
         value that is passed, there are + - * / min max clamp. All that does not depend on it is computed before.",
    ),
    page(
        "E0156",
        "a decision at a hit that must wait for others",
        "With `decide: true` a process is held at the hit until the decision is made. Hits of other processes are known\n\
         only when each of them has handed in all that came before, which can take longer than a process may be held.",
    ),
    page(
        "E0157",
        "a key that belongs to half of a quotient",
        "A warning: `by` binds tighter than `/`. In `sum(a) / sum(b) by process` the first sum is one value for all\n\
         rows. To divide row by row give both the key: `(sum(a) by process) / (sum(b) by process)`.",
    ),
    page(
        "E0158",
        "a decision that a process would have to be held for",
        "`decide: true` holds a process at the hit until the window closed last is evaluated. A process may be held for a\n\
         millisecond; hits are evaluated a millisecond after they happened at the earliest, for only then those of all CPUs\n\
         are there and in order, and the change has to be armed after that. It would be held in vain at every hit. Without\n\
         `decide` the change takes effect at the next hit after it was decided.",
    ),
    page(
        "E0159",
        "a call without an inverse where it may have to be reverted",
        "A guard undoes what does harm, and `while` what is no longer wanted. Of a call only its rule can say what undoes it:\n\n    \
         call: omp_set_num_threads(n)\n    \
         was: omp_get_max_threads()\n    \
         inverse: omp_set_num_threads(was)\n\n\
         `was` is read just before the call, by the same thread at the same place, and that thread makes the inverse. A call\n\
         without one has no guard and no `while`, and is made only by sessions that leave in place what they did (`--keep`),\n\
         unless it leaves nothing to revert: `inverse: none`, and `because:` says why.",
    ),
    page(
        "E0160",
        "a role that no process has",
        "The condition of the role is false of every process of the program, or speaks of facts that are not known: `rank`\n\
         of a program without MPI, or an `exe` that is written otherwise. What the rule measures and changes in that role\n\
         it does when a process takes the role. If no process has any role of a rule, the rule is about another program.",
    ),
    page(
        "E0161",
        "the program has no such function",
        "No file of the process defines a function of this name. It may be inlined wherever it is called (`noinline` keeps\n\
         it), static in a file without symbols, or C++, whose names the linker writes otherwise. `--bind` gives a\n\
         name of the rule another name in the program.",
    ),
    page(
        "E0162",
        "the program has no such variable",
        "No file of the process defines a global variable of this name. It may be local to a function, optimised away, or\n\
         static in a file without symbols. `--bind` gives a name of the rule another name in the program.",
    ),
    page(
        "E0163",
        "a name that means several things",
        "Several files of the process define the name. Every copy of a function is probed. No copy of a variable is read or\n\
         written, since it is not known which one the program uses.",
    ),
    page(
        "E0164",
        "a type that is not known",
        "The program has no debug information on what is read, so its size and kind are not known. State them in the rule:\n\n    \
         step.rows: number_of_rows as i64",
    ),
    page(
        "E0165",
        "another type than the rule needs",
        "What the debug information says of the variable or parameter does not go with what the rule does with it. A\n\
         number is not written to a boolean, and no value to a variable of another size; numbers with a fraction are\n\
         passed in registers that a probe cannot read.",
    ),
    page(
        "E0166",
        "a variable that is read-only",
        "The compiler or the loader has put the variable where the program itself cannot write it, and the program relies on it\n\
         not to change. It is never written.",
    ),
    page(
        "E0167",
        "a variable that cannot be used",
        "The name means something that cannot be read or written from outside, such as a thread-local variable, of which every\n\
         thread has its own, or the process could not be inspected.",
    ),
    page(
        "E0168",
        "the program has no such mark, or a mark without this argument",
        "A mark is a place that the source of the program names (`include/tuneagent.h`, SystemTap's `sys/sdt.h`). It is found in\n\
         the notes of the file, which stay when it is stripped. `tuneagent symbols` lists the marks of a program, and what\n\
         each passes.",
    ),
    page(
        "E0169",
        "a sync point that is not one function",
        "`at` names the entry or the return of one function, with its module where several have one of that name:\n\
         `at: {entry: libapp.so:step}`. A pattern or a set of functions has many entries, and a change is made at one.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a test may look at the sources")]
    fn codes_in(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                codes_in(&path, found);
            } else if !["codes.rs", "tests.rs"].contains(&path.file_name().unwrap().to_str().unwrap()) {
                let text = std::fs::read_to_string(&path).unwrap();
                let quoted = text
                    .split('"')
                    .filter(|part| part.len() == 5 && part.starts_with("E0"));
                found.extend(quoted.map(String::from));
            }
        }
    }

    #[test]
    fn every_code_in_use_has_a_page_and_every_page_a_use() {
        let mut used = BTreeSet::new();
        codes_in(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src")), &mut used);
        let pages: BTreeSet<String> = PAGES.iter().map(|page| page.code.to_string()).collect();
        assert_eq!(used, pages);
        assert!(PAGES.is_sorted_by_key(|page| page.code));
    }

    #[test]
    fn a_page_is_found_in_either_case() {
        assert_eq!(explain("e0107").map(|page| page.code), Some("E0107"));
        assert!(explain("E9999").is_none());
    }
}
