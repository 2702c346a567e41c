//! The sections `sets` and `groups`.

use flow_table::{id::Priority, rule::TableId};
use ipnet::IpNet;

use crate::{
    diagnostics::{Diagnostic, Sink},
    grammar::GROUP_RULE,
    model::{Action, AddressSet, Condition, Group, Rule, RuleText},
    place::At,
    read::{Rules, flows::priority, matches, names::Names, text_at},
    shape::Shape,
    tree::{Node, quoted},
    value::address,
};

pub(super) fn sets(nodes: &[Node], names: &mut Names, sink: &mut Sink) -> Vec<At<AddressSet>> {
    let mut sets = Vec::new();
    for node in nodes {
        let Some(name) = text_at(node, "name") else { continue };
        let items = node.get("cidrs").map(Node::items).unwrap_or_default();
        let read: Option<Vec<IpNet>> = items.iter().map(|item| address::prefix(item.text()?).ok()).collect();
        // A set with a bad entry is known by name and has no addresses: its users are not judged.
        let cidrs = read.unwrap_or_default();
        names.claim_set(&name, cidrs.clone(), sink);
        let place = name.place;
        sets.push(At::new(AddressSet { name, cidrs }, place));
    }
    sets
}

/// Which way a group's rules look.
#[derive(Clone, Copy)]
struct Direction {
    key: &'static str,
    table: TableId,
    member: fn(Vec<String>) -> Condition,
    peer: matches::Side,
}

const FROM: Direction =
    Direction { key: "from", table: TableId::AclFrom, member: Condition::In, peer: matches::Side::Destination };
const TO: Direction =
    Direction { key: "to", table: TableId::AclTo, member: Condition::Out, peer: matches::Side::Source };

pub(super) fn groups(nodes: &[Node], names: &Names, rules: &mut Rules<'_>) -> Vec<At<Group>> {
    let mut groups = Vec::new();
    for node in nodes {
        let Some(name) = text_at(node, "name") else { continue };
        for direction in [FROM, TO] {
            for (index, item) in node.get(direction.key).map(Node::items).unwrap_or_default().iter().enumerate() {
                group_rule(item, &name, index + 1, direction, names, rules);
            }
        }
        let has = |key: &str| node.get(key).is_some();
        let place = name.place;
        groups.push(At::new(Group { has_from: has("from"), has_to: has("to"), name }, place));
    }
    groups
}

/// Refuses groups that guard nobody and that no rule names: whoever is in one expects to be guarded.
pub(super) fn refuse_idle(groups: &[At<Group>], names: &Names, sink: &mut Sink) {
    for group in groups.iter().filter(|group| !group.has_from && !group.has_to && !names.is_used(&group.name)) {
        let message = format!("the group {} has no rules, and no rule names it: it guards nobody", quoted(&group.name));
        let hint = "write from or to, with [] to deny everything, or name it in the peers of a rule";
        sink.push(Diagnostic::at(group.place, message).hint(hint));
    }
}

fn group_rule(
    item: &Node,
    group: &str,
    number: usize,
    direction: Direction,
    names: &Names,
    rules: &mut Rules<'_>,
) -> Option<()> {
    let (name, place) = match text_at(item, "name") {
        Some(own) => {
            rules.claim(&own, own.place);
            (own.value, own.place)
        }
        // No operator's name has a slash, and groups have names of their own.
        None => (format!("{group}/{}/{number}", direction.key), item.place),
    };
    if !rules.is_clean(item, &Shape::Object(&GROUP_RULE)) {
        return None;
    }
    let (word, action) = match item.get("deny") {
        Some(_) => ("deny", Action::Drop),
        None => ("allow-stateless", Action::Allow),
    };
    let node = item.get(word)?;
    let mut matches = matches::of_group(node, direction.peer, names, rules.sink)?.matches;
    let members = names.members(group);
    if members.is_empty() {
        // Nobody it could guard: kept, so that its name is known, and without packets.
        matches.clear();
    }
    for conditions in &mut matches {
        conditions.insert(0, (direction.member)(members.to_vec()));
    }
    let text = RuleText { matches: node.one_line(), action: word.to_owned() };
    let priority = priority(item).unwrap_or(Priority::DEFAULT);
    rules.push(Rule { name, table: direction.table, priority, matches, action, text }, place);
    Some(())
}
