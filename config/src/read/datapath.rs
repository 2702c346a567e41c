//! The sections `node` and `datapath`.

use crate::{
    diagnostics::{Diagnostic, Sink},
    model::{Datapath, Node, Poll, Worker},
    place::At,
    read::text_at,
    tree,
    value::{address, number},
};

pub(super) fn node(node: &tree::Node) -> Option<Node> {
    let vtep = node.get("vtep").and_then(|vtep| Some(At::new(address::address(vtep.text()?).ok()?, vtep.place)));
    Some(Node { name: text_at(node, "name")?, vtep })
}

pub(super) fn datapath(node: &tree::Node, sink: &mut Sink) -> Datapath {
    let default = Datapath::default();
    let number = |from: &tree::Node, key: &str| {
        let number = number::integer(from.get(key)?.scalar()?, 0, u64::from(u32::MAX)).ok()?;
        u32::try_from(number).ok()
    };
    let workers = match node.get("workers").map(tree::Node::items) {
        Some([_, second, ..]) => {
            let diagnostic = Diagnostic::at(second.place, "workers: one worker is supported in this version");
            sink.push(diagnostic.hint("leave one"));
            default.workers
        }
        Some([one]) => {
            vec![Worker { core: number(one, "core").and_then(|core| u16::try_from(core).ok()) }]
        }
        _ => default.workers,
    };
    let poll = match node.get("poll").and_then(tree::Node::text) {
        Some("busy") => Poll::Busy,
        _ => Poll::Adaptive,
    };
    Datapath {
        workers,
        poll,
        umem_chunks: node.get("umem").and_then(|umem| number(umem, "chunks")).unwrap_or(default.umem_chunks),
        ring: number(node, "ring").unwrap_or(default.ring),
        flows: number(node, "flows").unwrap_or(default.flows),
    }
}
