//! The section `flows`.

use flow_table::{id::Priority, rule::TableId};

use crate::{
    grammar::FLOW,
    model::{Rule, RuleText},
    read::{Rules, actions, matches, names::Names, text_at},
    shape::Shape,
    tree::Node,
    value::number,
};

pub(super) fn flows(nodes: &[Node], names: &Names, rules: &mut Rules<'_>) {
    for node in nodes {
        flow(node, names, rules);
    }
}

fn flow(node: &Node, names: &Names, rules: &mut Rules<'_>) -> Option<()> {
    let name = text_at(node, "name")?;
    rules.claim(&name, name.place);
    if !rules.is_clean(node, &Shape::Object(&FLOW)) {
        return None;
    }
    let table = table(node.get("table")?.text()?)?;
    let (match_node, action_node) = (node.get("match")?, node.get("action")?);
    let read = matches::of_flow(match_node, table, names, rules.sink);
    let action = actions::action(action_node, table, read.as_ref(), names, rules.sink);
    let text = RuleText { matches: match_node.one_line(), action: action_node.one_line() };
    let priority = priority(node).unwrap_or(Priority::DEFAULT);
    let rule = Rule { name: name.value, table, priority, matches: read?.matches, action: action?, text };
    rules.push(rule, name.place);
    Some(())
}

fn table(name: &str) -> Option<TableId> {
    TableId::ALL.into_iter().find(|table| table.name() == name)
}

/// The value of the key `priority`.
pub(super) fn priority(node: &Node) -> Option<Priority> {
    let number = number::integer(node.get("priority")?.scalar()?, 0, u64::from(u16::MAX)).ok()?;
    u16::try_from(number).ok().map(Priority)
}
