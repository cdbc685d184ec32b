//! Parses YAML into a tree in which every scalar keeps its raw text and its place.
//!
//! Only structure is taken from YAML: numbers, booleans and nulls are not interpreted, and everything
//! ambiguous (tags, anchors, aliases, merges, duplicate keys, several documents) is refused. Keys are not
//! interpreted here.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span as Marked};

use crate::diag::{Diagnostic, Span};
use crate::text::Text;

/// The maximum size of a rule file, in bytes; the largest shipped one has less than 4 KiB.
const FILE_BYTES_MAX: usize = 256 * 1024;
/// Maximum nesting depth of mappings and lists; the language needs four levels.
const DEEPEST: usize = 16;

/// What the YAML library reports where a brace or bracket is not closed.
const NOT_CLOSED: [&str; 4] = [
    "parsing a flow mapping",
    "parsing a flow sequence",
    "invalid indentation in flow construct",
    "illegal placement of ':'",
];

/// A value of the file.
#[derive(Clone, Debug)]
pub struct Tree {
    pub node: YamlNode,
    pub span: Span,
}

/// The kind of a value of the file.
#[derive(Clone, Debug)]
pub enum YamlNode {
    Scalar(Text),
    /// A key without a value.
    Missing,
    /// An error was reported; users of the value report no further errors.
    Broken,
    Mapping(Vec<(Text, Tree)>),
    Sequence(Vec<Tree>),
}

impl Tree {
    /// Its description in messages.
    pub fn what(&self) -> &'static str {
        match self.node {
            YamlNode::Scalar(_) => "a text",
            YamlNode::Missing | YamlNode::Broken => "nothing",
            YamlNode::Mapping(_) => "a mapping",
            YamlNode::Sequence(_) => "a list",
        }
    }
}

/// The tree of `source`, with the errors in its YAML. The tree is present if there is anything to continue
/// with.
///
/// If `place` is given, all spans are set to it, because the source is not the file that is displayed.
pub fn read(source: &str, place: Option<Span>) -> (Option<Tree>, Vec<Diagnostic>) {
    if source.len() > FILE_BYTES_MAX {
        let message = format!(
            "a file may have at most {FILE_BYTES_MAX} bytes, this one has {}",
            source.len()
        );
        return (None, vec![Diagnostic::error("E0123", message)]);
    }
    // saphyr counts characters, this crate counts bytes.
    let bytes = source
        .char_indices()
        .map(|(at, _)| at)
        .chain([source.len()])
        .collect();
    let mut reader = Reader {
        source,
        bytes,
        place,
        events: Parser::new_from_str(source),
        open: Vec::new(),
        wrong: Vec::new(),
    };
    // The reason for a stop has been reported.
    let tree = reader.document().unwrap_or_default();
    (tree, reader.wrong)
}

/// Parsing cannot continue; the reason has been reported.
struct Stop;

struct Reader<'a> {
    source: &'a str,
    bytes: Vec<usize>,
    /// The place that all spans are set to.
    place: Option<Span>,
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// The beginnings of the mappings and lists that are being read.
    open: Vec<Span>,
    wrong: Vec<Diagnostic>,
}

impl<'a> Reader<'a> {
    fn byte(&self, marker: &Marker) -> usize {
        self.bytes
            .get(marker.index())
            .copied()
            .unwrap_or(self.source.len())
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Stop> {
        match self.events.next_event() {
            Some(Ok((event, Marked { start, end }))) => {
                let span = Span::new(self.byte(&start), self.byte(&end));
                Ok((event, self.place.unwrap_or(span)))
            }
            Some(Err(error)) => {
                let wrong = self.scan_error(&error);
                self.wrong.push(wrong);
                Err(Stop)
            }
            None => Err(Stop),
        }
    }

    fn document(&mut self) -> Result<Option<Tree>, Stop> {
        let mut tree = None;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::DocumentStart(_) if tree.is_some() => {
                    self.wrong.push(
                        Diagnostic::wrong(
                            "E0108",
                            span,
                            "a file holds one rule or contract, here a second document begins",
                        )
                        .help("put each into a file of its own"),
                    );
                    return Ok(tree);
                }
                Event::Nothing | Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                event => tree = Some(self.value(event, span, 0)?),
            }
        }
        if tree.is_none() {
            let help = "a rule begins with `rule: its-name`, a contract with `contract: its-name`; a policy has an entry such as `watch: own`";
            self.wrong
                .push(Diagnostic::wrong("E0108", Span::new(0, 0), "the file is empty").help(help));
        }
        Ok(tree)
    }

    fn value(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Tree, Stop> {
        if depth > DEEPEST {
            let message = format!("mappings and lists may nest {DEEPEST} deep");
            self.wrong.push(Diagnostic::wrong("E0123", span, message));
            return Err(Stop);
        }
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag) => (*anchor, tag.is_some()),
            Event::MappingStart(anchor, tag) | Event::SequenceStart(anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if anchor != 0 || tag {
            let what = if tag { "a tag (`!`)" } else { "an anchor (`&`)" };
            self.refuse(what, span);
        }
        self.open.push(span);
        let node = match event {
            Event::Scalar(raw, style, ..) => self.scalar(&raw, style, span),
            Event::SequenceStart(..) => self.sequence(depth)?,
            Event::MappingStart(..) => self.mapping(depth)?,
            _ => {
                self.refuse("an alias (`*`)", span);
                YamlNode::Broken
            }
        };
        self.open.pop();
        Ok(Tree { node, span })
    }

    fn refuse(&mut self, what: &str, span: Span) {
        self.wrong.push(
            Diagnostic::wrong("E0106", span, format!("{what} has no place in the file"))
                .help("write the value out where it is needed; in formulas, give it a name under `metrics`"),
        );
    }

    fn scalar(&mut self, raw: &str, style: ScalarStyle, span: Span) -> YamlNode {
        let plain = style == ScalarStyle::Plain;
        if plain && matches!(raw, "" | "~" | "null") {
            return YamlNode::Missing;
        }
        if plain && is_switch(raw) {
            let help = if raw.starts_with(['o', 'O', 'y', 'Y']) && !raw.eq_ignore_ascii_case("off") {
                "write `true`, or put the word into quotes if it is a text"
            } else {
                "write `false`, or put the word into quotes if it is a text"
            };
            self.switch(raw, span, help);
        }
        if let Some(place) = self.place {
            return YamlNode::Scalar(Text::elsewhere(raw, place));
        }
        let quoted = matches!(style, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted);
        YamlNode::Scalar(Text::locate(
            raw,
            self.source,
            span,
            span.start + usize::from(quoted),
        ))
    }

    fn switch(&mut self, raw: &str, span: Span, help: &str) {
        let message = format!("`{raw}` is a boolean to some readers of YAML and a text to others");
        self.wrong
            .push(Diagnostic::wrong("E0109", span, message).help(help));
    }

    fn sequence(&mut self, depth: usize) -> Result<YamlNode, Stop> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(YamlNode::Sequence(items)),
                (event, span) => items.push(self.value(event, span, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<YamlNode, Stop> {
        let mut entries: Vec<(Text, Tree)> = Vec::new();
        let mut keys: BTreeMap<String, Span> = BTreeMap::new();
        let mut cut = false;
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(YamlNode::Mapping(entries));
            }
            let switch = matches!(&event, Event::Scalar(raw, ScalarStyle::Plain, ..) if is_switch(raw));
            let before = self.wrong.len();
            let key = self.value(event, span, depth + 1)?;
            if switch {
                self.wrong.truncate(before);
                let raw = self.source.get(span.start..span.end).unwrap_or("").to_string();
                self.switch(&raw, span, "give it another name");
            }
            let (event, span) = self.next()?;
            let mut value = self.value(event, span, depth + 1)?;
            let YamlNode::Scalar(key) = key.node else {
                self.wrong
                    .push(Diagnostic::wrong("E0112", key.span, "a key must be a word"));
                continue;
            };
            if matches!(value.node, YamlNode::Missing) {
                if self.missing(&key, &mut entries, &mut cut) {
                    continue;
                }
                value.node = YamlNode::Broken;
            }
            if key.raw == "<<" {
                self.refuse("a merge (`<<`)", key.span);
            } else if let Some(first) = keys.get(&key.raw) {
                self.wrong.push(twice(&key, *first));
            } else {
                keys.insert(key.raw.clone(), key.span);
                entries.push((key, value));
            }
        }
    }

    /// Reports a key without a value. True if it is not a key but the rest of a formula that YAML split at a
    /// comma: it follows a value with an open bracket.
    fn missing(&mut self, key: &Text, entries: &mut [(Text, Tree)], cut: &mut bool) -> bool {
        if let Some((_, Tree { node, .. })) = entries.last_mut()
            && let YamlNode::Scalar(open) = node
            && unbalanced(&open.raw)
        {
            self.wrong.push(
                Diagnostic::error(
                    "E0103",
                    "inside `{}` YAML ends a value at every comma, and cut this formula",
                )
                .at(open.span, "the formula as YAML sees it")
                .at(key.span, "taken for a key of its own")
                .help("put the formula into quotes, or write the mapping on lines of its own"),
            );
            *node = YamlNode::Broken;
            *cut = true;
            return true;
        }
        if !*cut {
            let message = format!("`{}` has no value", key.raw);
            self.wrong.push(Diagnostic::wrong("E0104", key.span, message));
        }
        *cut
    }

    fn scan_error(&self, error: &ScanError) -> Diagnostic {
        let at = self.byte(error.marker());
        let next = self
            .source
            .get(at..)
            .and_then(|rest| rest.chars().next())
            .map_or(0, char::len_utf8);
        let place = self.place.unwrap_or(Span::new(at, at + next));
        if error.info().starts_with("mapping values are not allowed") {
            return Diagnostic::error("E0102", "YAML takes this colon for the end of a key")
                .at(place, "a colon with a space behind it")
                .help("put all of the value into quotes, or write a longer text below `|`; if this begins a key, indent it like the others");
        }
        let in_braces = error
            .info()
            .contains("parsing a flow mapping, did not find expected");
        if in_braces && self.source.get(at..).is_some_and(|rest| rest.starts_with('[')) {
            return Diagnostic::wrong(
                "E0103",
                place,
                "inside `{}` YAML takes this bracket for the begin of a list",
            )
            .help("put the formula into quotes, or write the mapping on lines of its own");
        }
        if error.info().contains("trailing content after") {
            return Diagnostic::error("E0101", "to YAML the value ends with its closing quote")
                .at(place, "something follows")
                .help("put single quotes around a formula that begins with a text in double quotes");
        }
        if error.info().contains("simple key expect") {
            return Diagnostic::wrong(
                "E0101",
                self.without_colon(at),
                "this has no colon behind its key",
            )
            .help("write `key: value`, or `key:` above lines that are indented");
        }
        if error.info().contains("unknown anchor") {
            return Diagnostic::wrong("E0106", place, "an alias (`*`) has no place in the file")
                .help("a value that begins with `*` is an alias to YAML: put it into quotes");
        }
        if error.info().contains("tab") {
            // The parser's place is behind it, or in the line before it.
            let line = self.source[..at].rfind('\n').map_or(0, |end| end + 1);
            let tab = self.source[line..].find('\t').map(|behind| line + behind);
            let place = tab.map_or(place, |tab| Span::new(tab, tab + 1));
            return Diagnostic::wrong("E0101", place, "YAML permits no tab here").help("indent with spaces");
        }
        if let Some(wrong) = self.not_closed(error, place) {
            return wrong;
        }
        Diagnostic::wrong(
            "E0101",
            place,
            format!("this is not well-formed YAML: {}", error.info()),
        )
    }

    /// A brace or bracket without its partner, with the place where it opens.
    fn not_closed(&self, error: &ScanError, place: Span) -> Option<Diagnostic> {
        if !NOT_CLOSED.iter().any(|info| error.info().contains(info)) {
            return None;
        }
        let opening = |span: &Span| self.source.get(span.start..)?.chars().next();
        let mut open = self.open.iter().rev();
        let (at, message) = open.find_map(|span| match opening(span)? {
            '{' => Some((span.start, "this `{` is not closed: expected `,` or `}`")),
            '[' => Some((span.start, "this `[` is not closed: expected `,` or `]`")),
            _ => None,
        })?;
        let wrong = Diagnostic::error("E0101", message).at(Span::new(at, at + 1), "opened here");
        Some(wrong.at(place, "not expected here"))
    }

    /// The line that YAML reads as a key at `at`: that line, or the one above if it has no colon itself.
    fn without_colon(&self, at: usize) -> Span {
        let line_of = |at: usize| self.source[..at].rfind('\n').map_or(0, |end| end + 1);
        let mut begin = line_of(at);
        let line = self.source[begin..].lines().next().unwrap_or_default();
        if line.is_empty() || line.contains(':') {
            begin = line_of(self.source[..begin].trim_end().len());
        }
        let line = self.source[begin..].lines().next().unwrap_or_default();
        let end = begin + line.trim_end().len();
        Span::new(end - line.trim().len(), end)
    }
}

fn twice(key: &Text, first: Span) -> Diagnostic {
    Diagnostic::error("E0107", format!("`{}` is given twice", key.raw))
        .at(key.span, "again here")
        .at(first, "first here")
}

pub fn is_switch(raw: &str) -> bool {
    ["on", "off", "yes", "no"]
        .iter()
        .any(|word| raw.eq_ignore_ascii_case(word))
}

fn unbalanced(raw: &str) -> bool {
    raw.matches(['(', '[']).count() > raw.matches([')', ']']).count()
}
