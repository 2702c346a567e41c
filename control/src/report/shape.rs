//! The shapes of `sluice get -o json`: versioned, stable, names instead of numbers.
//!
//! What a daemon of another version leaves out is read as empty. A field is added freely; one is renamed or removed only with a new [`API_VERSION`].

use serde::{Deserialize, Serialize};

/// The version of every shape here.
pub(crate) const API_VERSION: &str = "sluice/v1";

/// What a list is a list of.
pub(crate) trait Item {
    /// The `kind` of the list.
    const KIND: &'static str;
}

/// A list of items of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct List<T> {
    /// [`API_VERSION`].
    #[serde(rename = "apiVersion", default)]
    pub(crate) api_version: String,
    /// Which kind.
    #[serde(default)]
    pub(crate) kind: String,
    /// Sum of what the items count, for the kinds where that means something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
    /// The items.
    pub(crate) items: Vec<T>,
}

impl<T: Item> List<T> {
    /// A list without a total.
    pub(crate) fn new(items: Vec<T>) -> Self {
        Self { api_version: API_VERSION.to_owned(), kind: T::KIND.to_owned(), total: None, items }
    }

    /// The same with a total.
    pub(crate) fn with_total(items: Vec<T>, total: u64) -> Self {
        Self { total: Some(total), ..Self::new(items) }
    }
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Packets.
    pub(crate) packets: u64,
    /// Bytes of whole frames without FCS.
    pub(crate) bytes: u64,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Port {
    /// Its name.
    pub(crate) name: String,
    /// Its device.
    pub(crate) device: String,
    /// `workload` or `uplink`.
    pub(crate) kind: String,
    /// The network it is in.
    pub(crate) network: Option<String>,
    /// `attached`, `missing` (no usable device) or `refused` (the device is there and can not be taken).
    pub(crate) state: String,
    /// Why it is not attached.
    pub(crate) why: Option<String>,
    /// How frames reach it: `zero-copy`, `copy` or `generic`.
    pub(crate) mode: Option<String>,
    /// Queues bound.
    pub(crate) queues: u16,
    /// Most bytes of an IP packet its device carries.
    pub(crate) mtu: Option<u32>,
    /// Received.
    pub(crate) rx: Counts,
    /// Sent.
    pub(crate) tx: Counts,
    /// Of what it sent into the switch, dropped.
    pub(crate) drops: u64,
    /// What the kernel counted below the worker.
    pub(crate) kernel: Kernel,
}

/// What the kernel dropped or refused under a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Kernel {
    /// Frames longer than a chunk.
    pub(crate) rx_dropped: u64,
    /// Frames that found the RX ring full.
    pub(crate) rx_ring_full: u64,
    /// Times the fill ring was empty.
    pub(crate) rx_fill_ring_empty: u64,
    /// Fill descriptors refused.
    pub(crate) rx_invalid: u64,
    /// TX descriptors refused.
    pub(crate) tx_invalid: u64,
    /// Descriptors from the kernel that made no sense.
    pub(crate) bad_descriptors: u64,
}

/// One flow entry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Flow {
    /// The fields of its key, under the names used in `match:`.
    pub(crate) key: Fields,
    /// `forward` or `drop`.
    pub(crate) verdict: String,
    /// The ports it leaves by.
    pub(crate) out: Vec<String>,
    /// Why it is dropped.
    pub(crate) reason: Option<String>,
    /// The rules that decided it, in the order of the tables.
    pub(crate) rules: Vec<RuleRef>,
    /// Packets.
    pub(crate) packets: u64,
    /// Bytes.
    pub(crate) bytes: u64,
    /// Milliseconds since its last packet.
    pub(crate) idle_ms: u64,
}

/// A rule by table and name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RuleRef {
    /// Its table.
    pub(crate) table: String,
    /// Its name.
    pub(crate) name: String,
}

/// One rule of a table.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rule {
    /// Its table.
    pub(crate) table: String,
    /// Higher wins.
    pub(crate) priority: u16,
    /// Its name.
    pub(crate) name: String,
    /// What it matches, as written.
    #[serde(rename = "match")]
    pub(crate) matches: String,
    /// What it does.
    pub(crate) action: String,
    /// Where it is written: file, line and column.
    pub(crate) place: String,
    /// Packets it decided.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

/// One entry of the forwarding database.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Station {
    /// Its network.
    pub(crate) network: String,
    /// VLAN in it; zero for untagged.
    pub(crate) vlan: u16,
    /// Its MAC.
    pub(crate) mac: String,
    /// The port it is behind.
    pub(crate) port: String,
    /// `static` or `learned`.
    pub(crate) origin: String,
    /// Milliseconds since its last packet, for a learned one.
    pub(crate) age_ms: Option<u64>,
}

/// The worker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Worker {
    /// Generation of the policy in force.
    pub(crate) generation: u64,
    /// Passes over the ports.
    pub(crate) polls: u64,
    /// Passes that found a frame.
    pub(crate) busy_polls: u64,
    /// Times it slept.
    pub(crate) sleeps: u64,
    /// Lookups that found a flow.
    pub(crate) hits: u64,
    /// Lookups that did not.
    pub(crate) misses: u64,
    /// Walks that were not cached.
    pub(crate) uncached: u64,
    /// Flow entries now.
    pub(crate) flows: u64,
    /// Room for flow entries.
    pub(crate) flow_capacity: u64,
    /// Entries removed because they were idle.
    pub(crate) expired: u64,
    /// Entries removed to make room.
    pub(crate) evicted: u64,
    /// Partial checksums completed.
    pub(crate) checksums_completed: u64,
    /// UMEM chunks in all.
    pub(crate) chunks: u64,
    /// Free ones.
    pub(crate) chunks_free: u64,
    /// Those in the rings of sockets.
    pub(crate) chunks_lent: u64,
    /// Where every frame went.
    pub(crate) frames: Frames,
}

/// The terms of the conservation law: rx + generated + copies = tx + consumed + dropped + held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Frames {
    /// Received.
    pub(crate) rx: u64,
    /// Made by the switch.
    pub(crate) generated: u64,
    /// Copied for further outputs.
    pub(crate) copies: u64,
    /// Sent.
    pub(crate) tx: u64,
    /// Ended in an answer.
    pub(crate) consumed: u64,
    /// Dropped.
    pub(crate) dropped: u64,
    /// Kept for later.
    pub(crate) held: u64,
    /// True when both sides of the law are equal.
    pub(crate) balanced: bool,
}

/// Drops of one reason, from one port, by one rule.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Drop {
    /// Why, as a stable name.
    pub(crate) reason: String,
    /// Why, as a sentence.
    pub(crate) explanation: String,
    /// The port the packets came from.
    pub(crate) port: String,
    /// The rule that dropped them; `default` where a table's default did, absent where no table was asked.
    pub(crate) rule: Option<String>,
    /// How many.
    pub(crate) packets: u64,
}

/// The daemon.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    /// Version of the program.
    pub(crate) version: String,
    /// Process.
    pub(crate) pid: u32,
    /// Name of the node, where the configuration gives one.
    pub(crate) node: Option<String>,
    /// The configuration file.
    pub(crate) config: String,
    /// SHA-256 of the file in force, as `sha256sum` prints it.
    pub(crate) hash: String,
    /// Generation of the policy in force; it rises by one with every accepted load.
    pub(crate) generation: u64,
    /// When the daemon started, RFC 3339.
    pub(crate) started: String,
    /// Ports configured.
    pub(crate) ports: u64,
    /// Of them attached.
    pub(crate) ports_attached: u64,
    /// The last reload; `None` before the first.
    pub(crate) last_reload: Option<Reload>,
}

/// The outcome of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Reload {
    /// How many reloads were tried, this one included.
    pub(crate) attempt: u64,
    /// True when what the file says is in force.
    pub(crate) ok: bool,
    /// Generation in force after it.
    pub(crate) generation: u64,
    /// SHA-256 of the file that was tried, where it could be read.
    pub(crate) hash: Option<String>,
    /// Why it was refused.
    pub(crate) error: Option<String>,
    /// When, RFC 3339.
    pub(crate) at: String,
}

macro_rules! kinds {
    ($($item:ident = $kind:literal),*) => { $(impl Item for $item { const KIND: &'static str = $kind; })* };
}
kinds!(
    Port = "Ports",
    Flow = "Flows",
    Rule = "Tables",
    Station = "Fdb",
    Worker = "Workers",
    Drop = "Drops",
    Status = "Status"
);

/// Fields in order, written as one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Fields(pub(crate) Vec<(String, Value)>);

/// A number or a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Value {
    /// A number.
    Number(u64),
    /// A text.
    Text(String),
}

impl Fields {
    /// Adds a number.
    pub(crate) fn number(&mut self, name: &str, value: impl Into<u64>) {
        self.0.push((name.to_owned(), Value::Number(value.into())));
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.to_owned(), Value::Text(value.into())));
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl std::fmt::Display for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, value)) in self.0.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl Serialize for Fields {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Fields;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of fields")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some(entry) = map.next_entry()? {
                    fields.0.push(entry);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}
