//! A YAML file as a tree of nodes that know their places.
//!
//! Scalars keep their text and whether it was plain, so that a port may be called `on`, `null` or `1e3`; what a text
//! means is decided where it is read. Anchors, aliases, tags and merge keys are refused: without them no file grows
//! when it is read, and what is written beside a rule is all there is to the rule.

use std::collections::HashSet;

use granit_parser::{ErrorKind, Event, Marker, Parser, ScalarStyle, ScanError, Span};

use crate::{
    diagnostics::{Diagnostic, Sink},
    place::Place,
};

/// Levels of lists and maps in one another.
const DEPTH: usize = 32;
/// Bytes of a file: some 500 000 rules.
pub(crate) const MAX_BYTES: usize = 64 << 20;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Map),
    /// Something already reported.
    Bad,
}

#[derive(Debug, Clone)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes.
    pub(crate) plain: bool,
}

impl Scalar {
    /// No value: nothing at all, or `~`. The word `null` is text; where text is not wanted it is wrong by itself.
    pub(crate) fn is_missing(&self) -> bool {
        self.plain && matches!(&*self.text, "" | "~")
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_place: Place,
    pub(crate) node: Node,
}

#[derive(Debug, Default)]
pub(crate) struct Map {
    pub(crate) entries: Vec<Entry>,
}

impl Map {
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.node)
    }
}

impl Node {
    pub(crate) fn map(&self) -> Option<&Map> {
        if let Kind::Map(map) = &self.kind { Some(map) } else { None }
    }

    pub(crate) fn scalar(&self) -> Option<&Scalar> {
        if let Kind::Scalar(scalar) = &self.kind { Some(scalar) } else { None }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        self.scalar().map(|scalar| scalar.text.as_str())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.map()?.get(key)
    }

    /// The items of a list; a single value is a list of itself.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.kind {
            Kind::List(items) => items,
            Kind::Bad => &[],
            Kind::Scalar(_) | Kind::Map(_) => core::slice::from_ref(self),
        }
    }

    /// What it is, for a message.
    pub(crate) fn found(&self) -> String {
        match &self.kind {
            Kind::Scalar(scalar) if scalar.is_missing() || scalar.text.is_empty() => "nothing".to_owned(),
            Kind::Scalar(scalar) => quoted(&scalar.text),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) | Kind::Bad => "a map".to_owned(),
        }
    }

    /// The node on one line, as an operator would write it.
    pub(crate) fn one_line(&self) -> String {
        let joined = |parts: Vec<String>| parts.join(", ");
        match &self.kind {
            Kind::Scalar(scalar) => scalar.text.clone(),
            Kind::List(items) => format!("[{}]", joined(items.iter().map(Self::one_line).collect())),
            Kind::Map(map) => {
                let pair = |entry: &Entry| format!("{}: {}", entry.key, entry.node.one_line());
                format!("{{{}}}", joined(map.entries.iter().map(pair).collect()))
            }
            Kind::Bad => String::new(),
        }
    }
}

/// Text in quotes, shortened when it is long.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 60;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("\"{}...\"", text.get(..end).unwrap_or_default().escape_debug()),
        None => format!("\"{}\"", text.escape_debug()),
    }
}

/// Reads `text`; `None` when what is wrong left no tree.
pub(crate) fn parse(text: &str, sink: &mut Sink) -> Option<Node> {
    let options = granit_parser::options! {
        emit_unresolved_aliases: true,
        emit_anchor_events: true,
        emit_comments: false,
        flow_nesting_limit: DEPTH,
        block_nesting_limit: DEPTH,
    };
    let mut builder = Builder { text, sink, stack: Vec::new(), root: None, documents: 0 };
    for event in Parser::new_from_str_with_options(text, options) {
        match event {
            Ok((event, span)) => builder.take(event, span)?,
            Err(error) => {
                builder.sink.push(syntax_error(&error));
                return None;
            }
        }
    }
    let root = builder.root.take();
    if root.is_none() {
        let hint = "the least is \"apiVersion: sluice/v1\"";
        sink.push(Diagnostic::at(Place::START, "the file says nothing").hint(hint));
    }
    root
}

enum Frame {
    List { place: Place, items: Vec<Node> },
    Map { place: Place, entries: Vec<Entry>, key: Option<(String, Place)> },
}

struct Builder<'s> {
    text: &'s str,
    sink: &'s mut Sink,
    stack: Vec<Frame>,
    root: Option<Node>,
    documents: usize,
}

impl Builder<'_> {
    /// Takes one event; `None` ends the reading.
    fn take(&mut self, event: Event<'_>, span: Span) -> Option<()> {
        let place = place_of(&span);
        self.refuse_tag(&event, &span);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second YAML document starts here; a configuration is one document";
                    self.sink.push(Diagnostic::at(place, message).hint("remove the line \"---\""));
                    return None;
                }
            }
            Event::Scalar(text, style, ..) => {
                // Where nothing is written the parser says "~", over no characters.
                let plain = style == ScalarStyle::Plain;
                let text = if plain && span.is_empty() { String::new() } else { text.into_owned() };
                let scalar = Scalar { text, plain };
                self.put(Node { place, kind: Kind::Scalar(scalar) });
            }
            Event::SequenceStart(..) => self.open(Frame::List { place: start_of(&span), items: Vec::new() })?,
            Event::MappingStart(..) => {
                self.open(Frame::Map { place: start_of(&span), entries: Vec::new(), key: None })?;
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Anchor(_, name) => {
                let message = format!("YAML anchors (&{name}) are not read");
                self.sink.push(Diagnostic::at(place, message).hint("write the value out wherever it is meant"));
            }
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let diagnostic = Diagnostic::at(
                    place,
                    format!("YAML aliases ({}) are not read", span.slice(self.text).unwrap_or("*")),
                );
                self.sink.push(diagnostic.hint("write the value out wherever it is meant"));
                self.put(Node { place, kind: Kind::Bad });
            }
            _ => {}
        }
        Some(())
    }

    fn refuse_tag(&mut self, event: &Event<'_>, span: &Span) {
        if let Some(tag) = event.tag() {
            let place = span.tag_span().map_or_else(|| place_of(span), |span| place_of(&span));
            let message = format!("YAML tags ({}) are not read", tag.original());
            self.sink.push(Diagnostic::at(place, message).hint("write the value without it"));
        }
    }

    fn open(&mut self, frame: Frame) -> Option<()> {
        let (Frame::List { place, .. } | Frame::Map { place, .. }) = &frame;
        if self.stack.len() >= DEPTH {
            let message = format!("lists and maps are nested more than {DEPTH} deep here");
            self.sink.push(Diagnostic::at(*place, message));
            return None;
        }
        self.stack.push(frame);
        Some(())
    }

    fn close(&mut self) {
        match self.stack.pop() {
            Some(Frame::List { place, items }) => self.put(Node { place, kind: Kind::List(items) }),
            Some(Frame::Map { place, entries, .. }) => {
                let entries = unique(entries, self.sink);
                self.put(Node { place, kind: Kind::Map(Map { entries }) });
            }
            None => {}
        }
    }

    /// Hands a finished node to what it is in.
    fn put(&mut self, mut node: Node) {
        match self.stack.last_mut() {
            None => self.root = (!matches!(&node.kind, Kind::Scalar(s) if s.is_missing())).then_some(node),
            Some(Frame::List { items, .. }) => items.push(node),
            Some(Frame::Map { entries, key, .. }) => match key.take() {
                Some((key, key_place)) => {
                    if matches!(&node.kind, Kind::Scalar(s) if s.plain && s.text.is_empty()) {
                        node.place = key_place;
                    }
                    entries.push(Entry { key, key_place, node });
                }
                None => *key = Some(self::key(node, self.sink)),
            },
        }
    }
}

/// A node in a key's position; an empty text for one that was reported.
fn key(node: Node, sink: &mut Sink) -> (String, Place) {
    match node.kind {
        Kind::Scalar(scalar) if scalar.plain && scalar.text == "<<" => {
            let diagnostic = Diagnostic::at(node.place, "YAML merge keys (<<) are not read");
            sink.push(diagnostic.hint("write the keys out wherever they are meant"));
            (String::new(), node.place)
        }
        Kind::Scalar(scalar) if !scalar.text.is_empty() => (scalar.text, node.place),
        Kind::Bad => (String::new(), node.place),
        Kind::Scalar(_) | Kind::List(_) | Kind::Map(_) => {
            let what = node.found();
            sink.push(Diagnostic::at(node.place, format!("a key is a word, not {what}")));
            (String::new(), node.place)
        }
    }
}

/// Refuses all but the first of entries with one key. O(n log n).
fn unique(mut entries: Vec<Entry>, sink: &mut Sink) -> Vec<Entry> {
    let mut order: Vec<(&str, Place)> = entries.iter().map(|entry| (&*entry.key, entry.key_place)).collect();
    order.sort_unstable();
    let mut again = HashSet::new();
    let mut first: Option<(&str, Place)> = None;
    for (key, place) in order {
        match first {
            // Such were reported already.
            Some((known, _)) if known == key && key.is_empty() => {}
            Some((known, known_place)) if known == key => {
                sink.push(
                    Diagnostic::at(place, format!("the key {} is given twice in one map", quoted(key)))
                        .also(known_place),
                );
                again.insert(place);
            }
            _ => first = Some((key, place)),
        }
    }
    entries.retain(|entry| !again.contains(&entry.key_place) && !entry.key.is_empty());
    entries
}

fn place_of(span: &Span) -> Place {
    let start = start_of(span);
    let width = if span.end.line() == span.start.line() { span.end.col().saturating_sub(span.start.col()) } else { 1 };
    Place { width: narrow(width).max(1), ..start }
}

fn start_of(span: &Span) -> Place {
    place_of_marker(&span.start)
}

fn place_of_marker(marker: &Marker) -> Place {
    Place { line: narrow(marker.line()).max(1), col: narrow(marker.col()).saturating_add(1), width: 1 }
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn syntax_error(error: &ScanError) -> Diagnostic {
    let place = place_of_marker(error.marker());
    let diagnostic = Diagnostic::at(place, format!("this is not YAML: {}", error.kind()));
    match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabAtBlockScalarStart => diagnostic.hint("indent with spaces"),
        ErrorKind::RecursionLimitExceeded => {
            Diagnostic::at(place, format!("lists and maps are nested more than {DEPTH} deep here"))
        }
        ErrorKind::ExpectedBlockMappingKey
        | ErrorKind::InvalidIndentation
        | ErrorKind::MappingValueNotAllowed
        | ErrorKind::SimpleKeyExpected => {
            diagnostic.hint("look at the indentation, and for a missing colon, of this line and the one before")
        }
        _ => diagnostic,
    }
}
