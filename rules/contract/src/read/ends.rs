//! Whether the streams and modules of a contract file agree on who sends and who receives.

use std::collections::BTreeSet;

use syntax::diag::Diagnostic;

use super::super::exact::Exact;
use super::super::model::{Contract, Module, Stream, SubContract};
use super::ContractReader;

/// The streams that a module takes and gives.
struct Used {
    taken: BTreeSet<usize>,
    given: BTreeSet<usize>,
}

impl ContractReader<'_, '_> {
    /// Each stream and each module must name the other.
    pub(super) fn ends(&mut self, out: &Contract) {
        for (at, module) in out.modules.iter().enumerate() {
            let used = match &module.part {
                Some(part) => {
                    self.mapped(module, part, at, out);
                    used_by_part(part, at, out)
                }
                None => used_by_computations(module),
            };
            for (index, stream) in out.streams.iter().enumerate() {
                self.agree(
                    module,
                    stream,
                    [
                        (stream.to.contains(&at), used.taken.contains(&index)),
                        (stream.from.contains(&at), used.given.contains(&index)),
                    ],
                );
            }
            let named_like = |name: &str| out.streams.iter().any(|stream| stream.name == name);
            for computation in module.computations.iter().filter(|it| named_like(&it.name)) {
                let message = format!("`{}` is a stream and a computation", computation.name);
                self.push("E0107", module.span, message);
            }
        }
        self.fed(out);
    }

    /// `ends` has for the receiving and the sending side what the stream says and what the module says.
    fn agree(&mut self, module: &Module, stream: &Stream, ends: [(bool, bool); 2]) {
        let (m, s) = (&module.name, &stream.name);
        let wrong = match ends[0] {
            (true, false) => Some(format!("the stream `{s}` leads to `{m}`, which does not take it")),
            (false, true) => Some(format!("`{m}` takes `{s}`, which does not lead to it")),
            _ => None,
        };
        let gives = match ends[1] {
            (true, false) => Some(format!(
                "the stream `{s}` comes from `{m}`, which does not give it"
            )),
            (false, true) => Some(format!("`{m}` gives `{s}`, which does not come from it")),
            _ => None,
        };
        for message in wrong.into_iter().chain(gives) {
            let wrong = Diagnostic::wrong("E0171", stream.span, message);
            self.wrong.push(wrong.at(module.span, "the module"));
        }
    }

    /// Items must be sent on every stream that has senders.
    fn fed(&mut self, out: &Contract) {
        let zero = Exact::from_integer(0);
        for (index, stream) in out.streams.iter().enumerate() {
            let feeds = |module: &usize| {
                let module = &out.modules[*module];
                let mut gives = module.computations.iter().flat_map(|it| &it.gives);
                module.part.is_some() || gives.any(|(to, items)| *to == index && *items > zero)
            };
            if !stream.from.is_empty() && !stream.from.iter().any(feeds) {
                let message = format!("no activation sends an item on `{}`", stream.name);
                self.push("E0172", stream.span, message);
            }
        }
    }

    /// The interfaces of a part have the directions of the streams that they are mapped to.
    fn mapped(&mut self, module: &Module, part: &SubContract, at: usize, out: &Contract) {
        let inner = &out.parts[part.contract];
        let mut reached = BTreeSet::new();
        for (outer, stream) in &part.map {
            let (outer, stream) = (&out.streams[*outer], &inner.streams[*stream]);
            let into = outer.to.contains(&at) && stream.from.is_empty();
            let out_of = outer.from.contains(&at) && stream.to.is_empty();
            if !into && !out_of {
                let message = format!(
                    "`{}` of `{}` is not open where `{}` needs it",
                    stream.name, inner.name, outer.name
                );
                self.push("E0171", module.span, message);
            }
            if !reached.insert(&stream.name) {
                let message = format!("`{}` of `{}` is mapped twice", stream.name, inner.name);
                self.push("E0171", module.span, message);
            }
        }
        let open = inner
            .streams
            .iter()
            .filter(|it| it.from.is_empty() || it.to.is_empty());
        for stream in open.filter(|stream| !reached.contains(&stream.name)) {
            let message = format!(
                "the open stream `{}` of `{}` is not mapped",
                stream.name, inner.name
            );
            self.push("E0170", module.span, message);
        }
    }
}

fn used_by_computations(module: &Module) -> Used {
    let all = module.computations.iter();
    Used {
        taken: all.clone().flat_map(|it| &it.takes).copied().collect(),
        given: all.flat_map(|it| &it.gives).map(|(stream, _)| *stream).collect(),
    }
}

/// The streams that are mapped to streams of the part.
fn used_by_part(part: &SubContract, at: usize, out: &Contract) -> Used {
    let side = |side: fn(&Stream) -> &Vec<usize>| {
        let ends = part
            .map
            .keys()
            .filter(|stream| side(&out.streams[**stream]).contains(&at));
        ends.copied().collect()
    };
    Used {
        taken: side(|stream| &stream.to),
        given: side(|stream| &stream.from),
    }
}
