//! A tree of nodes as a model.
//!
//! The form of the whole tree is checked first. What is read here is then only what has the right form; the rest was
//! reported, and is left out, so that one error does not cause others elsewhere.

mod actions;
mod datapath;
mod flows;
mod groups;
mod matches;
mod names;
mod networks;
mod ports;
mod security;

use std::collections::BTreeMap;

use crate::{
    check,
    diagnostics::{Diagnostic, Sink},
    grammar::ROOT,
    model::{Model, Rule},
    place::{At, Place},
    read::names::Names,
    shape::{self, Shape},
    tree::{Node, quoted},
};

/// Reads the file; what is returned is whole only when nothing was reported.
pub(crate) fn read(root: &Node, sink: &mut Sink) -> Model {
    let clean = shape::check(root, &Shape::Object(&ROOT), "the configuration", sink);
    let section = |key: &str| root.get(key).map(Node::items).unwrap_or_default();

    let mut names = Names::default();
    let mut model = Model {
        node: root.get("node").and_then(datapath::node),
        datapath: root.get("datapath").map(|node| datapath::datapath(node, sink)).unwrap_or_default(),
        ..Model::default()
    };
    model.networks = networks::networks(section("networks"), &mut names, sink);
    names.claim_groups(section("groups"), sink);
    model.ports = ports::ports(section("ports"), &mut names, sink);
    model.sets = groups::sets(section("sets"), &mut names, sink);
    names.seal(&model.ports, clean);

    let mut rules = Rules { all: Vec::new(), names: BTreeMap::new(), sink, clean };
    for port in &model.ports {
        security::rules(port, &mut rules);
    }
    model.groups = groups::groups(section("groups"), &names, &mut rules);
    flows::flows(section("flows"), &names, &mut rules);
    groups::refuse_idle(&model.groups, &names, rules.sink);
    model.rules = rules.all;
    check::model(&model, rules.sink);
    model
}

/// The rules read so far. A name is claimed by a rule that could not be read, too.
struct Rules<'s> {
    all: Vec<At<Rule>>,
    names: BTreeMap<String, Place>,
    sink: &'s mut Sink,
    /// True when the form of the whole file is right.
    clean: bool,
}

impl Rules<'_> {
    /// Reports a name that another rule has.
    fn claim(&mut self, name: &str, place: Place) {
        if let Some(first) = self.names.get(name) {
            let message = format!("another rule is named {}", quoted(name));
            self.sink.push(Diagnostic::at(place, message).also(*first).hint("names of rules are unique in all tables"));
            return;
        }
        self.names.insert(name.to_owned(), place);
    }

    fn push(&mut self, rule: Rule, place: Place) {
        self.all.push(At::new(rule, place));
    }

    /// True when the form of `node` is right.
    fn is_clean(&self, node: &Node, shape: &Shape) -> bool {
        self.clean || shape::check(node, shape, "", &mut Sink::default())
    }
}

/// The text of a scalar under `key`, with its place.
fn text_at(node: &Node, key: &str) -> Option<At<String>> {
    let value = node.get(key)?;
    let text = value.scalar().filter(|scalar| !scalar.is_missing())?.text.clone();
    Some(At::new(text, value.place))
}
