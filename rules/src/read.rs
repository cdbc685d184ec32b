//! Values in the program's memory as plain data: their paths and layouts. The agent reads them, the actuator
//! writes them.

use std::fmt;

use plan::Key;

/// A value to be read in the program at a hit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedCapture {
    pub source: Source,
    /// Its layout; `None` leaves it to the program's debug information.
    pub layout: Option<Layout>,
}

impl PlannedCapture {
    /// The capture as a key, the number of the iteration that each process begins; `None` if it is not a
    /// complete argument or global variable.
    pub(crate) fn as_key(&self) -> Option<Key> {
        // Layouts other than integers of 4 or 8 bytes get a size that the actuator refuses.
        let bytes = self.layout.map(|layout| match layout {
            Layout::I32 | Layout::U32 => 4,
            Layout::I64 | Layout::U64 => 8,
            Layout::I8 | Layout::U8 | Layout::Char | Layout::Bool | Layout::I16 | Layout::U16 => 1,
            Layout::F32 | Layout::F64 | Layout::Str(_) => 0,
        });
        match (&self.source.base, self.source.steps.as_slice()) {
            (Base::Argument(number), []) => Some(Key::Argument {
                number: *number,
                bytes,
            }),
            (Base::NamedArgument(name), []) => Some(Key::NamedArgument { name: name.clone() }),
            (Base::Global(name), []) => Some(Key::Variable {
                name: name.clone(),
                bytes,
            }),
            _ => None,
        }
    }
}

/// The location of a value: a base, and the path from there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    pub base: Base,
    /// The path from the base, in order.
    pub steps: Vec<Step>,
}

/// The base of the path to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// An argument of the function, by index from 0.
    Argument(u8),
    /// An argument by name, which the program's debug information resolves.
    NamedArgument(String),
    ReturnValue,
    /// A global variable, or a static member of a class with `::`.
    Global(String),
    /// A value that is known without reading the program.
    Known(Known),
}

/// A value that is known for each hit of a pattern or a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The name of the called function.
    Function,
    /// The bytes to be sent, as passed to an MPI call.
    Bytes,
    /// The number of threads of the team that an OpenMP function starts.
    Threads,
    /// The number of threads that the program requests; 0 if it leaves the number to the library.
    Stated,
    /// A value of an iteration of the detected loop.
    Iteration(IterationValue),
}

/// What is known of an iteration of the detected loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationValue {
    /// Counts the iterations. Those of the ranks of a job that belong together have the same number.
    Number,
    /// Differs from that of every other iteration, except those of other ranks that belong together with it.
    Instance,
    /// Threads of its largest OpenMP team.
    Threads,
    /// Time of its thread outside parallel regions.
    Sequential,
    /// Time that all threads work in parallel regions.
    Working,
    /// Time of all threads from the begin of a region until they work, and from the end of all work to that of
    /// the region.
    Overhead,
    /// Time of all threads waiting at the end of a region for the last one.
    Waiting,
}

/// A step on the path to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Field(String),
    Index(u32),
    Dereference,
}

impl Source {
    /// A complete global variable as a source.
    pub fn global(name: impl Into<String>) -> Source {
        Source {
            base: Base::Global(name.into()),
            steps: Vec::new(),
        }
    }

    /// The name, if it is a complete global variable.
    pub fn global_name(&self) -> Option<&str> {
        match (&self.base, self.steps.as_slice()) {
            (Base::Global(name), []) => Some(name),
            _ => None,
        }
    }

    /// The notation on the command line, which has no brackets around a dereference: `(*head)[1]` is
    /// `head[0][1]`.
    pub(crate) fn as_path(&self) -> String {
        let pointed = |steps: &[Step]| {
            steps
                .iter()
                .rev()
                .take_while(|step| **step == Step::Dereference)
                .count()
        };
        let (way, behind) = self.steps.split_at(self.steps.len() - pointed(&self.steps));
        let base = Source {
            base: self.base.clone(),
            steps: Vec::new(),
        };
        let mut out = format!("{}{base}", "*".repeat(behind.len()));
        for (place, step) in way.iter().enumerate() {
            match (step, way.get(place + 1)) {
                (Step::Dereference, Some(Step::Field(_))) => {}
                (Step::Dereference, _) => out.push_str("[0]"),
                (Step::Field(name), _) => {
                    let is_pointed = place > 0 && way[place - 1] == Step::Dereference;
                    out.push_str(if is_pointed { "->" } else { "." });
                    out.push_str(name);
                }
                (Step::Index(index), _) => out.push_str(&format!("[{index}]")),
            }
        }
        out
    }

    /// Number of pointers on the path.
    pub fn depth(&self) -> usize {
        let follows = |step: &&Step| **step == Step::Dereference;
        self.steps.iter().filter(follows).count()
    }
}

/// The notation in a rule.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = match &self.base {
            Base::Argument(number) => format!("arg({number})"),
            Base::NamedArgument(name) => format!("arg({name})"),
            Base::ReturnValue if self.steps.is_empty() => "what it returns".to_string(),
            Base::ReturnValue => "ret".to_string(),
            Base::Global(name) => name.clone(),
            Base::Known(Known::Function) => "the name of the function".to_string(),
            Base::Known(Known::Bytes) => "the bytes to send".to_string(),
            Base::Known(Known::Threads) => "the size of the team".to_string(),
            Base::Known(Known::Stated) => "the size that is stated for the team".to_string(),
            Base::Known(Known::Iteration(_)) => "a value of the iteration".to_string(),
        };
        let mut steps = self.steps.iter().peekable();
        while let Some(step) = steps.next() {
            match (step, steps.peek()) {
                (Step::Dereference, Some(Step::Field(name))) => {
                    out.push_str("->");
                    out.push_str(name);
                    steps.next();
                }
                (Step::Dereference, None) => out = format!("*{out}"),
                (Step::Dereference, Some(_)) => out = format!("(*{out})"),
                (Step::Field(name), _) => {
                    out.push('.');
                    out.push_str(name);
                }
                (Step::Index(index), _) => out.push_str(&format!("[{index}]")),
            }
        }
        f.write_str(&out)
    }
}

macro_rules! layouts {
    ($($variant:ident $name:literal;)*) => {
        /// The layout of a value in memory, little-endian.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Layout {
            $(#[doc = concat!("As ", $name, ".")] $variant,)*
            /// A zero-terminated text of at most this number of bytes.
            Str(u8),
        }

        impl Layout {
            /// Every layout of a number or boolean, with its name.
            pub const ALL: &'static [(&'static str, Layout)] = &[$(($name, Layout::$variant),)*];
        }
    };
}

layouts! {
    I8 "i8"; I16 "i16"; I32 "i32"; I64 "i64"; U8 "u8"; U16 "u16"; U32 "u32"; U64 "u64"; F32 "f32"; F64 "f64";
    Bool "bool"; Char "char";
}

/// Maximum length of a text, in bytes.
const TEXT_BYTES_MAX: u8 = 64;

impl Layout {
    /// Its name in rules.
    pub fn name(self) -> String {
        if let Layout::Str(length) = self {
            return format!("str({length})");
        }
        let found = Layout::ALL.iter().find(|(_, known)| *known == self);
        found.map_or_else(String::new, |(name, _)| (*name).to_string())
    }

    /// The layout called `name`: `i32`, `str(16)`.
    pub fn named(name: &str) -> Option<Layout> {
        let text = name.strip_prefix("str(").and_then(|rest| rest.strip_suffix(')'));
        if let Some(length) = text {
            let length = length.parse().ok();
            return length
                .filter(|length| (1..=TEXT_BYTES_MAX).contains(length))
                .map(Layout::Str);
        }
        let found = Layout::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, layout)| *layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_value_is_printed_as_it_is_written() {
        let source = |base, steps| Source { base, steps }.to_string();
        let field = |name: &str| Step::Field(name.to_string());
        let head = || Base::Global("head".to_string());
        assert_eq!(
            source(
                head(),
                vec![Step::Dereference, field("next"), Step::Dereference, field("n")]
            ),
            "head->next->n"
        );
        assert_eq!(source(Base::Argument(1), vec![Step::Dereference]), "*arg(1)");
        assert_eq!(
            source(head(), vec![Step::Dereference, Step::Index(1)]),
            "(*head)[1]"
        );
        assert_eq!(source(head(), vec![field("a"), Step::Index(2)]), "head.a[2]");
    }

    #[test]
    fn a_way_without_brackets_leads_to_the_same_place() {
        let path = |steps: &[Step]| {
            let base = Base::Global("head".to_string());
            let steps = steps.to_vec();
            Source { base, steps }.as_path()
        };
        let (pointed, field) = (Step::Dereference, Step::Field("n".to_string()));
        for (steps, expected) in [
            (&[][..], "head"),
            (&[field.clone(), Step::Index(2)], "head.n[2]"),
            (
                &[pointed.clone(), field.clone(), pointed.clone(), field.clone()],
                "head->n->n",
            ),
            (&[pointed.clone(), Step::Index(1)], "head[0][1]"),
            (&[pointed.clone(), pointed.clone(), field.clone()], "head[0]->n"),
            (&[pointed.clone(), pointed.clone()], "**head"),
            (&[Step::Index(1), pointed.clone()], "*head[1]"),
        ] {
            assert_eq!(path(steps), expected, "{steps:?}");
        }
    }

    #[test]
    fn a_text_has_a_length() {
        assert_eq!(Layout::named("str(32)"), Some(Layout::Str(32)));
        for wrong in ["str", "str(0)", "str(65)", "str(999)", "str(x)"] {
            assert_eq!(Layout::named(wrong), None);
        }
    }
}
