//! The file's form as a JSON Schema, for editors and other tools.
//!
//! Made from the same description as the reader's check, so that the two can not disagree about a key.

use serde_json::{Map, Value, json};

use crate::{
    grammar::ROOT,
    shape::{Leaf, Object, Shape},
};

/// The JSON Schema (draft 2020-12) of a configuration file.
#[must_use]
pub fn schema() -> Value {
    let mut schema = object(&ROOT);
    if let Value::Object(map) = &mut schema {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        map.insert("title".to_owned(), json!("Sluice configuration"));
    }
    schema
}

fn object(object: &Object) -> Value {
    let mut properties = Map::new();
    for key in object.keys {
        let mut value = shape(&key.shape);
        if let Value::Object(map) = &mut value {
            map.insert("description".to_owned(), json!(key.doc));
        }
        properties.insert(key.name.to_owned(), value);
    }
    let mut schema = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    let required: Vec<&str> = object.keys.iter().filter(|key| key.required).map(|key| key.name).collect();
    let one_of: Vec<Value> = object.one_of.iter().map(|key| json!({ "required": [key] })).collect();
    if let Value::Object(map) = &mut schema {
        if !required.is_empty() {
            map.insert("required".to_owned(), json!(required));
        }
        if !one_of.is_empty() {
            map.insert("oneOf".to_owned(), Value::Array(one_of));
        }
    }
    schema
}

fn shape(of: &Shape) -> Value {
    match of {
        Shape::Leaf(of) => leaf(of),
        Shape::Integer { min, max } => integer(*min, *max),
        Shape::Span { min, max } => {
            json!({ "anyOf": [integer(*min, *max), { "type": "string", "pattern": "^[0-9]+ *- *[0-9]+$" }] })
        }
        Shape::PowerOfTwo { min, max } => {
            let powers = core::iter::successors(Some(*min), |power| power.checked_mul(2));
            json!({ "enum": powers.take_while(|power| power <= max).collect::<Vec<_>>() })
        }
        Shape::Word(words) => json!({ "enum": words }),
        Shape::List(item) => json!({ "type": "array", "items": shape(item) }),
        Shape::AtLeastOne(item) => json!({ "type": "array", "minItems": 1, "items": shape(item) }),
        Shape::OneOrMany(item) => {
            json!({ "anyOf": [shape(item), { "type": "array", "minItems": 1, "items": shape(item) }] })
        }
        Shape::Object(of) => object(of),
        Shape::WordOr(words, of) => json!({ "anyOf": [{ "enum": words }, object(of)] }),
    }
}

fn integer(min: u64, max: u64) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max })
}

fn leaf(leaf: &Leaf) -> Value {
    let mut text = json!({ "type": "string", "title": leaf.what });
    if let (Value::Object(map), Some(pattern)) = (&mut text, leaf.pattern) {
        map.insert("pattern".to_owned(), json!(pattern));
    }
    if leaf.numeric { json!({ "anyOf": [{ "type": "integer" }, text] }) } else { text }
}
