//! `tuneagent explain E0107`: the page of an error.

use crate::exit::{Code, Failure, Outcome};

pub(super) fn run(id: &str) -> Outcome {
    match rules::explain(id) {
        Some(page) => {
            say!("{}: {}\n\n{}", page.code, page.title, page.text);
            Ok(Code::Done)
        }
        None => Err(Failure::not_there(format!(
            "nothing is known as {id}; error codes look like E0107"
        ))),
    }
}
