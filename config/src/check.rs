//! What must hold between the parts of a model.

mod overlap;

use core::net::IpAddr;
use std::collections::BTreeMap;

use flow_table::policy::PortKind;

use crate::{
    diagnostics::{Diagnostic, Sink},
    ids::{MAX_NETWORKS, MAX_PORTS},
    model::{HostSharing, Model, Network, Port, Subnet},
    place::{At, Place},
    value::address::is_network_or_broadcast,
};

pub(crate) fn model(model: &Model, sink: &mut Sink) {
    let networks: BTreeMap<&str, &Network> =
        model.networks.iter().map(|network| (network.name.as_str(), &network.value)).collect();
    check_counts(model, sink);
    check_vnis(model, sink);
    for network in networks.values() {
        check_gateways(network, sink);
        check_overlaps(network, sink);
    }
    let mut taken = Taken::default();
    for network in networks.values() {
        taken.gateways(network);
    }
    for port in &model.ports {
        let network = port.network.as_ref().and_then(|name| networks.get(name.as_str()).copied());
        if port.kind == PortKind::Workload {
            check_subnets(port, network, sink);
        }
        taken.port(port, sink);
    }
    check_shared_uplinks(model, sink);
    overlap::check(model, sink);
}

/// Of a shared uplink's frames Sluice takes those to MACs and addresses that it knows to be a workload's.
fn check_shared_uplinks(model: &Model, sink: &mut Sink) {
    let mut shared: BTreeMap<&str, &At<Port>> = BTreeMap::new();
    for port in &model.ports {
        let Some(network) = port.network.as_ref().filter(|_| port.kind == PortKind::Uplink) else { continue };
        if port.host == HostSharing::Shared {
            shared.entry(network.as_str()).or_insert(port);
        }
    }
    for port in model.ports.iter().filter(|port| port.kind == PortKind::Workload) {
        let Some(uplink) = port.network.as_ref().and_then(|network| shared.get(network.as_str())) else { continue };
        let lacks = match (&port.mac, &*port.addresses) {
            (None, []) => "\"mac\" and \"addresses\"",
            (None, _) => "\"mac\"",
            (Some(_), []) => "\"addresses\"",
            (Some(_), _) => continue,
        };
        let (workload, uplink_name) = (port.name.as_str(), uplink.name.as_str());
        let message = format!(
            "port \"{workload}\" needs {lacks}: of the frames on its network's uplink \"{uplink_name}\", which is shared with \
             the host, only those to them are taken"
        );
        let hint = format!("write {lacks} at \"{workload}\", or host: exclusive at \"{uplink_name}\"");
        sink.push(Diagnostic::at(port.place, message).also(uplink.place).hint(hint));
    }
}

fn check_counts(model: &Model, sink: &mut Sink) {
    for (count, max, what) in
        [(model.ports.len(), MAX_PORTS, "ports"), (model.networks.len(), MAX_NETWORKS, "networks")]
    {
        if u32::try_from(count).map_or(true, |count| count > max) {
            sink.push(Diagnostic::of_file(format!("there are {count} {what}; the most is {max}")));
        }
    }
}

fn check_vnis(model: &Model, sink: &mut Sink) {
    let mut seen = BTreeMap::new();
    for vni in model.networks.iter().filter_map(|network| network.vni) {
        if let Some(first) = seen.insert(vni.value, vni.place) {
            let message = format!("vni: another network has the VNI {}", vni.get());
            sink.push(Diagnostic::at(vni.place, message).also(first));
        }
    }
}

fn check_gateways(network: &Network, sink: &mut Sink) {
    for subnet in &network.subnets {
        let Some(gateway) = &subnet.gateway else { continue };
        let (cidr, address) = (&subnet.cidr, gateway.value);
        if !cidr.contains(&address) {
            let message = format!("gateway: {address} is not in its subnet {}", cidr.value);
            sink.push(Diagnostic::at(gateway.place, message).also(cidr.place));
        } else if is_network_or_broadcast(cidr, address) {
            let which = if address == cidr.network() { "network" } else { "broadcast" };
            let message = format!("gateway: {address} is the {which} address of {}", cidr.value);
            sink.push(Diagnostic::at(gateway.place, message).also(cidr.place));
        }
    }
}

/// An address is in one subnet at most. Two prefixes that overlap are one in the other, and sorted, one comes after it.
fn check_overlaps(network: &Network, sink: &mut Sink) {
    let mut subnets: Vec<&Subnet> = network.subnets.iter().collect();
    subnets.sort_by_key(|subnet| (subnet.cidr.network(), subnet.cidr.prefix_len(), subnet.cidr.place));
    let mut widest: Option<&Subnet> = None;
    for subnet in subnets {
        let Some(around) = widest.filter(|around| around.cidr.contains(&subnet.cidr.value)) else {
            widest = Some(subnet);
            continue;
        };
        let (first, second) = if around.cidr.place <= subnet.cidr.place { (around, subnet) } else { (subnet, around) };
        let message = if first.cidr == second.cidr {
            format!("cidr: the network has {} twice", second.cidr.value)
        } else {
            format!("cidr: {} overlaps {} of the same network", second.cidr.value, first.cidr.value)
        };
        sink.push(Diagnostic::at(second.cidr.place, message).also(first.cidr.place));
    }
}

/// A workload's addresses lie in its network's subnets.
fn check_subnets(port: &Port, network: Option<&Network>, sink: &mut Sink) {
    let Some(network) = network.filter(|network| !network.subnets.is_empty()) else { return };
    for address in &port.addresses {
        let host = address.addr();
        // A link-local address is in no subnet of the network, and every IPv6 host has one.
        if matches!(host, IpAddr::V6(v6) if v6.is_unicast_link_local()) {
            continue;
        }
        let Some(subnet) = network.subnets.iter().find(|subnet| subnet.cidr.contains(&host)) else {
            let message = format!("addresses: {host} is in no subnet of network \"{}\"", network.name.value);
            let subnets: Vec<String> = network.subnets.iter().map(|subnet| subnet.cidr.value.to_string()).collect();
            let diagnostic = Diagnostic::at(address.place, message).also(network.name.place);
            sink.push(diagnostic.hint(format!("its subnets are {}", subnets.join(", "))));
            continue;
        };
        if is_network_or_broadcast(&subnet.cidr, host) {
            let which = if host == subnet.cidr.network() { "network" } else { "broadcast" };
            let message = format!("addresses: {host} is the {which} address of {}", subnet.cidr.value);
            sink.push(Diagnostic::at(address.place, message).also(subnet.cidr.place));
        }
    }
}

/// Addresses and MACs that someone in a network has.
#[derive(Default)]
struct Taken<'m> {
    addresses: BTreeMap<(&'m str, IpAddr), Holder>,
    macs: BTreeMap<(&'m str, flow_table::mac::MacAddr), Holder>,
}

#[derive(Clone, Copy)]
struct Holder {
    place: Place,
    gateway: bool,
}

impl<'m> Taken<'m> {
    fn gateways(&mut self, network: &'m Network) {
        let name = network.name.as_str();
        for gateway in network.subnets.iter().filter_map(|subnet| subnet.gateway.as_ref()) {
            self.addresses.insert((name, gateway.value), Holder { place: gateway.place, gateway: true });
        }
        let place = network.gateway_mac.place;
        self.macs.insert((name, network.gateway_mac.value), Holder { place, gateway: true });
    }

    fn port(&mut self, port: &'m At<Port>, sink: &mut Sink) {
        let Some(network) = port.network.as_ref().map(At::as_str) else { return };
        for address in &port.addresses {
            let host = address.addr();
            if let Some(first) = self.addresses.get(&(network, host)) {
                let holder = if first.gateway { "the gateway" } else { "a port" };
                let message = format!("addresses: {host} is taken in network \"{network}\" by {holder}");
                sink.push(Diagnostic::at(address.place, message).also(first.place));
                continue;
            }
            self.addresses.insert((network, host), Holder { place: address.place, gateway: false });
        }
        let Some(mac) = &port.mac else { return };
        if let Some(first) = self.macs.get(&(network, mac.value)) {
            let holder = if first.gateway { "the gateway" } else { "another port" };
            let message = format!("mac: {} is taken in network \"{network}\" by {holder}", mac.value);
            sink.push(Diagnostic::at(mac.place, message).also(first.place));
            return;
        }
        self.macs.insert((network, mac.value), Holder { place: mac.place, gateway: false });
    }
}
