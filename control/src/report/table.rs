//! The same shapes as columns for eyes.

use std::time::Duration;

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

use super::shape::{Drop, Fields, Flow, List, Port, Rule, Station, Status, Worker};

/// What can be shown in columns.
pub(crate) trait Columns {
    /// The headings; one that starts with `>` is of a column of numbers.
    const HEADINGS: &'static [&'static str];

    /// One row, a cell a heading.
    fn row(&self) -> Vec<String>;
}

/// `list` in columns: plain text, two spaces between columns, numbers to the right.
pub(crate) fn render<T: Columns>(list: &List<T>) -> String {
    let mut text = columns(T::HEADINGS, list.items.iter().map(Columns::row));
    if let Some(total) = list.total {
        text.push_str(&format!("total {total}\n"));
    }
    text
}

/// Columns under `headings`.
pub(crate) fn columns(headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(headings.iter().map(|heading| heading.trim_start_matches('>')));
    table.add_rows(rows);
    for (column, heading) in table.column_iter_mut().zip(headings) {
        column.set_padding((0, 2));
        if heading.starts_with('>') {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text: String = table.lines().map(|line| format!("{}\n", line.trim_end())).collect();
    if text.trim().is_empty() {
        text.clear();
    }
    text
}

fn dash(text: Option<&str>) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned()
}

/// Seconds with one decimal below ten, whole ones above.
fn seconds(ms: u64) -> String {
    let time = Duration::from_millis(ms);
    if ms < 10_000 { format!("{:.1}s", time.as_secs_f64()) } else { format!("{}s", time.as_secs()) }
}

impl Columns for Port {
    const HEADINGS: &'static [&'static str] = &[
        "NAME",
        "DEVICE",
        "KIND",
        "NETWORK",
        "STATE",
        "WHY",
        "MODE",
        ">QUEUES",
        ">MTU",
        ">RX PKTS",
        ">RX BYTES",
        ">TX PKTS",
        ">TX BYTES",
        ">DROPS",
        ">RING FULL",
        ">FILL EMPTY",
        ">TOO LONG",
    ];

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.device.clone(),
            self.kind.clone(),
            dash(self.network.as_deref()),
            self.state.clone(),
            dash(self.why.as_deref()),
            dash(self.mode.as_deref()),
            self.queues.to_string(),
            self.mtu.map_or_else(|| "-".to_owned(), |mtu| mtu.to_string()),
            self.rx.packets.to_string(),
            self.rx.bytes.to_string(),
            self.tx.packets.to_string(),
            self.tx.bytes.to_string(),
            self.drops.to_string(),
            self.kernel.rx_ring_full.to_string(),
            self.kernel.rx_fill_ring_empty.to_string(),
            self.kernel.rx_dropped.to_string(),
        ]
    }
}

impl Columns for Flow {
    const HEADINGS: &'static [&'static str] = &["FLOW", "VERDICT", "RULES", ">PKTS", ">BYTES", ">IDLE"];

    fn row(&self) -> Vec<String> {
        let verdict = match &self.reason {
            Some(reason) => format!("{}: {reason}", self.verdict),
            None => format!("to {}", self.out.join(",")),
        };
        let rules: Vec<String> = self.rules.iter().map(|rule| format!("{}/{}", rule.table, rule.name)).collect();
        vec![
            shorten(&self.key).to_string(),
            verdict,
            dash(Some(&rules.join(","))),
            self.packets.to_string(),
            self.bytes.to_string(),
            seconds(self.idle_ms),
        ]
    }
}

/// Without what the other fields already say.
fn shorten(key: &Fields) -> Fields {
    let is_ip = key.0.iter().any(|(name, _)| name == "ip.src");
    Fields(key.0.iter().filter(|(name, _)| !(is_ip && name == "eth.type")).cloned().collect())
}

impl Columns for Rule {
    const HEADINGS: &'static [&'static str] =
        &["TABLE", ">PRIORITY", "RULE", "MATCH", "ACTION", "PLACE", ">PKTS", ">BYTES"];

    fn row(&self) -> Vec<String> {
        vec![
            self.table.clone(),
            self.priority.to_string(),
            self.name.clone(),
            self.matches.clone(),
            self.action.clone(),
            self.place.clone(),
            self.packets.to_string(),
            self.bytes.to_string(),
        ]
    }
}

impl Columns for Station {
    const HEADINGS: &'static [&'static str] = &["NETWORK", ">VLAN", "MAC", "PORT", "ORIGIN", ">AGE"];

    fn row(&self) -> Vec<String> {
        vec![
            self.network.clone(),
            if self.vlan == 0 { "-".to_owned() } else { self.vlan.to_string() },
            self.mac.clone(),
            self.port.clone(),
            self.origin.clone(),
            self.age_ms.map_or_else(|| "-".to_owned(), seconds),
        ]
    }
}

impl Columns for Worker {
    const HEADINGS: &'static [&'static str] = &[
        ">GENERATION",
        ">POLLS",
        ">BUSY",
        ">SLEEPS",
        ">HITS",
        ">MISSES",
        ">UNCACHED",
        ">FLOWS",
        ">ROOM",
        ">CHUNKS",
        ">FREE",
        ">RX",
        ">TX",
        ">DROPPED",
        ">HELD",
        "BALANCED",
    ];

    fn row(&self) -> Vec<String> {
        let numbers = [
            self.generation,
            self.polls,
            self.busy_polls,
            self.sleeps,
            self.hits,
            self.misses,
            self.uncached,
            self.flows,
            self.flow_capacity,
            self.chunks,
            self.chunks_free,
            self.frames.rx,
            self.frames.tx,
            self.frames.dropped,
            self.frames.held,
        ];
        let mut row: Vec<String> = numbers.iter().map(u64::to_string).collect();
        row.push(if self.frames.balanced { "yes" } else { "NO" }.to_owned());
        row
    }
}

impl Columns for Drop {
    const HEADINGS: &'static [&'static str] = &["REASON", "PORT", "RULE", ">PKTS", "EXPLANATION"];

    fn row(&self) -> Vec<String> {
        vec![
            self.reason.clone(),
            self.port.clone(),
            dash(self.rule.as_deref()),
            self.packets.to_string(),
            self.explanation.clone(),
        ]
    }
}

impl Columns for Status {
    const HEADINGS: &'static [&'static str] =
        &["NODE", ">GENERATION", "CONFIG", "HASH", ">PORTS", ">ATTACHED", "STARTED", "LAST RELOAD"];

    fn row(&self) -> Vec<String> {
        let reload = match &self.last_reload {
            None => "-".to_owned(),
            Some(reload) if reload.ok => format!("ok at {}", reload.at),
            Some(reload) => format!(
                "refused at {}: {}",
                reload.at,
                reload.error.as_deref().and_then(|error| error.lines().next()).unwrap_or_default()
            ),
        };
        vec![
            dash(self.node.as_deref()),
            self.generation.to_string(),
            self.config.clone(),
            self.hash.chars().take(12).collect(),
            self.ports.to_string(),
            self.ports_attached.to_string(),
            self.started.clone(),
            reload,
        ]
    }
}
