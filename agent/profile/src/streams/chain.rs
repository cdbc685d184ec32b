//! The stages of a chain, and the functions that show what each does, as the user names them.

use std::str::FromStr;

/// A stage, and the functions that show what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFunctions {
    pub name: String,
    /// It is called for each activation.
    pub work: String,
    /// It waits for an item.
    pub take: Option<String>,
    /// It waits for room for an item.
    pub put: Option<String>,
}

/// Why stages make no chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StageMistake {
    #[error("expected NAME=WORK, NAME=WORK,TAKE or NAME=WORK,TAKE,PUT: a stage and its functions")]
    NoStage,
    #[error("`{0}` is no name of a module: it has letters, digits and _, and begins with a letter")]
    NoName(String),
    #[error("the stage {0} has no WORK function, which is called for each item")]
    NoWork(String),
    #[error("one stage is no chain: name those that it takes items from, or sends them to")]
    Alone,
    #[error("the stage {0} is named twice")]
    StageTwice(String),
    #[error(
        "{function} is named twice ({}), and its calls could not be distinguished: leave it out, or name a function \
         that only one of them calls", stages.join(", ")
    )]
    FunctionTwice { function: String, stages: [String; 2] },
}

impl FromStr for StageFunctions {
    type Err = StageMistake;

    fn from_str(text: &str) -> Result<StageFunctions, StageMistake> {
        let (name, functions) = text.split_once('=').ok_or(StageMistake::NoStage)?;
        if !contract::is_plain_name(name) {
            return Err(StageMistake::NoName(name.to_owned()));
        }
        let mut functions = separated(functions).into_iter();
        let mut next = || functions.next().filter(|function| !function.is_empty());
        let stage = StageFunctions {
            name: name.to_owned(),
            work: next().ok_or_else(|| StageMistake::NoWork(name.to_owned()))?,
            take: next(),
            put: next(),
        };
        functions.next().map_or(Ok(stage), |_| Err(StageMistake::NoStage))
    }
}

/// The names between commas. Those in brackets belong to a name, as in `Queue<int, 8>::take`.
fn separated(text: &str) -> Vec<String> {
    let mut depth = 0;
    let is_separator = |c: char| {
        match c {
            '(' | '<' => depth += 1,
            ')' | '>' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    text.split(is_separator)
        .map(|name| name.trim().to_owned())
        .collect()
}

impl StageFunctions {
    /// The functions of a stage.
    pub fn functions(&self) -> impl Iterator<Item = &String> {
        [Some(&self.work), self.take.as_ref(), self.put.as_ref()]
            .into_iter()
            .flatten()
    }

    /// The function whose calls are the items that it takes.
    pub(super) fn takes(&self) -> &str {
        self.take.as_ref().unwrap_or(&self.work)
    }

    pub(super) fn sends(&self) -> &str {
        self.put.as_ref().unwrap_or(&self.work)
    }

    pub(super) fn takes_or_puts(&self) -> String {
        let others: Vec<&str> = self.functions().skip(1).map(String::as_str).collect();
        others.join(" or ")
    }

    /// `works in encode_frame, takes in next_frame, sends in store_frame`
    pub(super) fn about(&self, is_within: bool) -> String {
        let mut about = format!("works in {}", self.work);
        for (does, function) in [("takes", &self.take), ("sends", &self.put)] {
            if let Some(function) = function {
                about.push_str(&format!(", {does} in {function}"));
            }
        }
        if is_within {
            about.push_str(", called within it");
        }
        about
    }

    /// Whether items flow from each of these stages to the next one.
    ///
    /// # Errors
    /// If there is one only, or a name twice.
    pub fn check(stages: &[StageFunctions]) -> Result<(), StageMistake> {
        if stages.len() == 1 {
            return Err(StageMistake::Alone);
        }
        let mut known: Vec<(&String, &String)> = Vec::new();
        for stage in stages {
            if known.iter().any(|(name, _)| **name == stage.name) {
                return Err(StageMistake::StageTwice(stage.name.clone()));
            }
            for function in stage.functions() {
                if let Some((name, _)) = known.iter().find(|(_, other)| *other == function) {
                    return Err(StageMistake::FunctionTwice {
                        function: function.clone(),
                        stages: [(*name).clone(), stage.name.clone()],
                    });
                }
                known.push((&stage.name, function));
            }
        }
        Ok(())
    }
}
