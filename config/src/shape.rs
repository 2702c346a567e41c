//! What a part of the file may hold: one description, from which both the reader's check and the JSON Schema are made.

use crate::{
    diagnostics::{Diagnostic, Sink},
    place::Place,
    tree::{Kind, Map, Node, Scalar, quoted},
    value::{Fault, number},
};

/// What a value may be.
pub(crate) enum Shape {
    /// One scalar that satisfies a law.
    Leaf(&'static Leaf),
    /// A whole number.
    Integer { min: u64, max: u64 },
    /// A whole number, or a range of them such as `80-90`.
    Span { min: u64, max: u64 },
    /// A power of two.
    PowerOfTwo { min: u64, max: u64 },
    /// One of these words.
    Word(&'static [&'static str]),
    /// A list, which may be empty.
    List(&'static Shape),
    /// A list, not empty.
    AtLeastOne(&'static Shape),
    /// One value or a list of them, not empty.
    OneOrMany(&'static Shape),
    /// A map with these keys.
    Object(&'static Object),
    /// One of these words, or a map with these keys.
    WordOr(&'static [&'static str], &'static Object),
}

/// A scalar's law.
pub(crate) struct Leaf {
    /// What it is, for the schema's reader.
    pub(crate) what: &'static str,
    /// A regular expression that holds for every legal text, and refuses most others.
    pub(crate) pattern: Option<&'static str>,
    /// True when a number may stand there too.
    pub(crate) numeric: bool,
    /// True when several stand in one text with commas between, and never in a list: a list is of alternatives.
    pub(crate) joined: bool,
    pub(crate) check: fn(&Scalar) -> Result<(), Fault>,
}

/// A map's keys.
pub(crate) struct Object {
    /// What it is, with its article.
    pub(crate) what: &'static str,
    pub(crate) keys: &'static [Key],
    /// When not empty, exactly one of these keys is given.
    pub(crate) one_of: &'static [&'static str],
    /// Keys that mean something, but not in this version: the key and what to say, advice after a semicolon.
    pub(crate) later: &'static [(&'static str, &'static str)],
    /// Names that operators know from elsewhere, and the key that says the same here.
    pub(crate) known_as: &'static [(&'static str, &'static str)],
}

impl Object {
    pub(crate) const fn new(what: &'static str, keys: &'static [Key]) -> Self {
        Self { what, keys, one_of: &[], later: &[], known_as: &[] }
    }

    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

/// One key of a map.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
}

impl Key {
    pub(crate) const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, doc, shape, required: true }
    }

    pub(crate) const fn optional(name: &'static str, shape: Shape, doc: &'static str) -> Self {
        Self { name, doc, shape, required: false }
    }
}

impl Shape {
    /// The map that a value of this shape may be or hold.
    pub(crate) fn object(&self) -> Option<&'static Object> {
        match self {
            Self::Object(object) | Self::WordOr(_, object) => Some(object),
            Self::List(of) | Self::AtLeastOne(of) | Self::OneOrMany(of) => of.object(),
            _ => None,
        }
    }
}

/// Reports all that is wrong with the form of `node`, the value of `key`; true when nothing is.
pub(crate) fn check(node: &Node, shape: &Shape, key: &str, sink: &mut Sink) -> bool {
    let before = sink.len();
    let clean = match (&node.kind, shape) {
        (Kind::Bad, _) => false,
        (Kind::List(items), Shape::List(of) | Shape::AtLeastOne(of) | Shape::OneOrMany(of)) => {
            if items.is_empty() && !matches!(shape, Shape::List(_)) {
                let diagnostic = Diagnostic::at(node.place, format!("{key}: the list is empty"));
                sink.push(diagnostic.hint("name at least one, or leave the key out"));
            }
            let wrong = items.iter().filter(|item| !check(item, of, key, sink)).count();
            wrong == 0
        }
        (Kind::Scalar(_), Shape::OneOrMany(of)) => check(node, of, key, sink),
        (Kind::Map(map), Shape::Object(object) | Shape::WordOr(_, object)) => check_map(map, node.place, object, sink),
        (Kind::Scalar(scalar), shape) => {
            let fault = if scalar.is_missing() {
                Fault::new(format!("a value is missing; expected {}", expected(shape)))
            } else {
                match check_scalar(scalar, shape) {
                    Ok(()) => return true,
                    Err(fault) => fault,
                }
            };
            sink.push(fault.at(node.place, key));
            false
        }
        (_, shape) => {
            let message = format!("{key}: expected {}, found {}", expected(shape), node.found());
            let diagnostic = Diagnostic::at(node.place, message);
            sink.push(match (joined(node, shape), node.items().len()) {
                (Some(text), 2) => diagnostic.hint(format!("write {} for both", quoted(&text))),
                (Some(text), _) => diagnostic.hint(format!("write {}", quoted(&text))),
                (None, _) => diagnostic,
            });
            false
        }
    };
    clean && sink.len() == before
}

/// The items of a list as the one text that was to be written instead, if it is one.
fn joined(node: &Node, shape: &Shape) -> Option<String> {
    let (Kind::List(items), Shape::Leaf(leaf)) = (&node.kind, shape) else { return None };
    let texts: Vec<&str> = items.iter().filter(|_| leaf.joined).filter_map(Node::text).collect();
    let scalar = Scalar { text: texts.join(","), plain: true };
    (texts.len() == items.len() && (leaf.check)(&scalar).is_ok()).then_some(scalar.text)
}

fn check_scalar(scalar: &Scalar, shape: &Shape) -> Result<(), Fault> {
    match shape {
        Shape::Leaf(leaf) => (leaf.check)(scalar),
        Shape::Integer { min, max } => number::integer(scalar, *min, *max).map(drop),
        Shape::Span { min, max } => number::span(scalar, *min, *max).map(drop),
        Shape::PowerOfTwo { min, max } => number::power_of_two(scalar, *min, *max).map(drop),
        Shape::Word(words) | Shape::WordOr(words, _) if words.contains(&&*scalar.text) => Ok(()),
        Shape::Word(words) => Err(not_a_word(scalar, shape, words)),
        Shape::WordOr(words, object) => {
            let known = object.known_as.iter().find(|(known, here)| *known == scalar.text && words.contains(here));
            if let Some((_, here)) = known {
                return Err(not_a_word(scalar, shape, &[]).hint(format!("did you mean \"{here}\"?")));
            }
            if let Some((_, text)) = object.later.iter().find(|(word, _)| *word == scalar.text) {
                return Err(Fault::with_advice(text));
            }
            if object.key(&scalar.text).is_some() {
                let fault = Fault::new(format!("{} needs a value", quoted(&scalar.text)));
                return Err(fault.hint(format!("write {{ {}: ... }}", scalar.text)));
            }
            Err(not_a_word(scalar, shape, words))
        }
        Shape::List(of) | Shape::AtLeastOne(of) => {
            let fault = Fault::new(format!("expected a list, found {}", quoted(&scalar.text)));
            let one = check_scalar(scalar, of).is_ok();
            Err(if one { fault.hint(format!("write [{}]", scalar.text)) } else { fault })
        }
        Shape::OneOrMany(_) | Shape::Object(_) => {
            let found = if scalar.is_missing() { "nothing".to_owned() } else { quoted(&scalar.text) };
            Err(Fault::new(format!("expected {}, found {found}", expected(shape))))
        }
    }
}

fn not_a_word(scalar: &Scalar, shape: &Shape, words: &[&'static str]) -> Fault {
    let fault = Fault::new(format!("expected {}, found {}", expected(shape), quoted(&scalar.text)));
    match (nearest(&scalar.text, words.iter().copied()), shape) {
        (Some(word), _) => fault.hint(format!("did you mean \"{word}\"?")),
        (None, Shape::WordOr(_, object)) => {
            let keys: Vec<&str> = object.keys.iter().map(|key| key.name).collect();
            fault.hint(format!("it is {}, or a map with {}", words.join(", "), keys.join(", ")))
        }
        (None, _) => fault,
    }
}

/// What belongs there, for a message.
fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Leaf(leaf) => leaf.what.to_owned(),
        Shape::Integer { min, max } => format!("a whole number from {min} to {max}"),
        Shape::Span { min, max } => format!("a whole number from {min} to {max} or a range such as \"{min}-{max}\""),
        Shape::PowerOfTwo { min, max } => format!("a power of two from {min} to {max}"),
        Shape::Word(words) => one_of(words),
        Shape::List(_) | Shape::AtLeastOne(_) => "a list".to_owned(),
        Shape::OneOrMany(of) => format!("{}, or a list of such", expected(of)),
        Shape::Object(object) if object.what.starts_with("the ") => "a map".to_owned(),
        Shape::Object(object) => format!("a map ({})", object.what),
        Shape::WordOr(_, object) => object.what.to_owned(),
    }
}

fn one_of(words: &[&str]) -> String {
    match words {
        [] => "nothing".to_owned(),
        [one] => format!("\"{one}\""),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

fn check_map(map: &Map, place: Place, object: &'static Object, sink: &mut Sink) -> bool {
    let mut clean = true;
    for entry in &map.entries {
        match object.key(&entry.key) {
            Some(key) => clean &= check(&entry.node, &key.shape, key.name, sink),
            None => {
                sink.push(unknown_key(&entry.key, entry.key_place, object));
                clean = false;
            }
        }
    }
    for key in object.keys.iter().filter(|key| key.required && map.entry(key.name).is_none()) {
        sink.push(Diagnostic::at(place, format!("{} needs the key \"{}\"", object.what, key.name)).hint(key.doc));
        clean = false;
    }
    let given: Vec<_> = map.entries.iter().filter(|entry| object.one_of.contains(&&*entry.key)).collect();
    match &*given {
        [] if !object.one_of.is_empty() && clean => {
            sink.push(Diagnostic::at(
                place,
                format!("{} needs one of the keys {}", object.what, one_of(object.one_of)),
            ));
            clean = false;
        }
        [first, second, ..] => {
            let message = format!("{} has either \"{}\" or \"{}\", not both", object.what, first.key, second.key);
            sink.push(Diagnostic::at(second.key_place, message).also(first.key_place));
            clean = false;
        }
        _ => {}
    }
    clean
}

fn unknown_key(key: &str, place: Place, object: &'static Object) -> Diagnostic {
    if let Some((_, text)) = object.later.iter().find(|(later, _)| *later == key) {
        let fault = Fault::with_advice(text);
        return Diagnostic { hint: fault.hint, ..Diagnostic::at(place, fault.message) };
    }
    let diagnostic = Diagnostic::at(place, format!("unknown key {} in {}", quoted(key), object.what));
    let named = object.known_as.iter().find(|(known, _)| *known == key).map(|(_, here)| *here);
    if let Some(here) = named {
        return diagnostic.hint(format!("did you mean \"{here}\"?"));
    }
    // One indent too far left: the key belongs to a map below.
    let below = object.keys.iter().find(|k| k.shape.object().is_some_and(|below| below.key(key).is_some()));
    if let Some(below) = below {
        return diagnostic.hint(format!("\"{key}\" belongs under \"{}\"; is the indentation right?", below.name));
    }
    match nearest(key, object.keys.iter().map(|key| key.name)) {
        Some(near) => diagnostic.hint(format!("did you mean \"{near}\"?")),
        None => {
            let keys: Vec<&str> = object.keys.iter().map(|key| key.name).collect();
            diagnostic.hint(format!("its keys are {}", keys.join(", ")))
        }
    }
}

/// The word that was probably meant, if there is one.
pub fn nearest<'w>(text: &str, words: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let fold = |text: &str| text.to_ascii_lowercase().replace(['_', '.'], "-");
    let wanted = fold(text.get(..64).unwrap_or(text));
    let allowed = (wanted.chars().count() / 3).clamp(1, 3);
    words
        .into_iter()
        .map(|word| (strsim::osa_distance(&wanted, &fold(word)), word))
        .filter(|(distance, word)| *distance <= allowed && *distance < word.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}
