//! What a rule asks to be done to a process, as the session passes it on: plain data.

use crate::evidence::Cores;

/// What is done to one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The process's slot.
    pub slot: u32,
    /// The keyword of the rule: `set`, `call`.
    pub keyword: &'static str,
    /// What it acts on: `set_arg send(2)`.
    pub label: String,
    /// In words: `call flush(3)`; of a `set` the variable alone.
    pub text: String,
    /// What it takes.
    pub deed: Deed,
}

/// What a change takes. A function is a name or a pattern, with its module and a colon before it where it is named.
#[derive(Clone, Debug, PartialEq)]
pub enum Deed {
    /// A variable gets a value.
    Write(Write),
    /// A function is called once.
    Call {
        /// Which, with what.
        call: Invocation,
        /// How it is taken back.
        inverse: Inverse,
    },
    /// A library is loaded.
    Load {
        /// A name or a path.
        library: String,
    },
    /// Another function runs instead of one.
    Replace {
        /// The one.
        function: String,
        /// The other.
        with: String,
    },
    /// A function is called whenever another one is entered, or returns.
    InsertCall {
        /// Which.
        function: String,
        /// With what: constants.
        arguments: Vec<Passed>,
        /// The other one.
        inside: String,
        /// At its returns, not at its entry.
        at_return: bool,
    },
    /// A function is called no more.
    RemoveCall {
        /// Which.
        function: String,
        /// Where; none is everywhere.
        inside: Option<String>,
    },
    /// An argument is changed at each call.
    SetArgument {
        /// Of which function.
        function: String,
        /// Which, the first is 0.
        argument: u8,
        /// What it becomes, as it is written by hand: `min(original, 4)`.
        value: String,
    },
    /// Threads are bound to cores; which ones follows from all processes of the job.
    Bind(Cores),
}

/// A function, with what it is called with.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// Which.
    pub function: String,
    /// With what.
    pub arguments: Vec<Passed>,
}

/// How a call is taken back.
#[derive(Clone, Debug, PartialEq)]
pub enum Inverse {
    /// The rule does not say: it stays.
    Unstated,
    /// The rule says that it leaves nothing to be taken back.
    NotNeeded,
    /// By another call of the same thread.
    Call {
        /// What that thread calls just before the first call, for its result.
        was: Option<Invocation>,
        /// The other call.
        call: Invocation,
    },
}

/// What a function is called with.
#[derive(Clone, Debug, PartialEq)]
pub enum Passed {
    /// A whole number.
    Whole(i64),
    /// Any other number.
    Real(f64),
    /// A text.
    Text(String),
    /// What a variable of the program holds when the call is made.
    Variable(String),
    /// What was read just before the call that is taken back.
    Was,
}

/// One variable of one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The variable, or a part of one.
    pub variable: String,
    /// Every copy of it.
    pub everywhere: bool,
    /// The value, as text.
    pub value: String,
    /// Its type as the rule has it, where the program has no debug information: of a number only if the rule states it.
    pub type_name: Option<String>,
}

/// Where a process says which iteration it begins. Without a size the program's debug information says it.
#[derive(Clone, Debug, PartialEq)]
pub enum Key {
    /// In an argument of the function.
    Argument {
        /// Which, the first is 0.
        number: u8,
        /// Its size.
        bytes: Option<u8>,
    },
    /// In an argument by its name.
    NamedArgument {
        /// Which.
        name: String,
    },
    /// In a variable.
    Variable {
        /// Which.
        name: String,
        /// Its size.
        bytes: Option<u8>,
    },
}
