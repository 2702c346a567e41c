//! Golden replays: each folder of `cases/replay` is configuration, frames, and what must become of them, to the byte.
#![cfg(test)]

use std::fs;

use tests::golden::{check, folder};

macro_rules! cases {
    ($($sentence:ident = $folder:literal;)*) => {
        $(
            #[test]
            fn $sentence() {
                check($folder);
            }
        )*

        #[test]
        fn every_folder_of_cases_has_a_sentence() {
            let mut there: Vec<String> =
                fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            there.sort();
            assert_eq!(there, [$($folder),*]);
        }
    };
}

cases! {
    a_frame_goes_where_its_destination_was_last_seen_and_everywhere_when_it_was_not = "001-learning-and-flooding";
    bad_sources_and_link_control_are_not_forwarded_and_llc_is_no_ethertype = "002-frames-no-bridge-forwards";
    a_station_is_forgotten_after_the_aging_time_by_the_clock_of_the_capture = "003-aging";
    flows_follow_a_station_that_moves_at_its_first_frame = "004-a-station-moves";
    the_higher_priority_wins_and_every_drop_names_its_rule = "005-rules-by-name";
    a_port_in_a_group_is_closed_but_for_its_rules_and_the_drop_is_called_default = "006-groups-deny-by-default";
    an_address_is_in_a_set_when_one_of_its_prefixes_holds_it = "007-sets";
    a_workload_can_not_send_with_the_mac_ip_arp_or_nd_of_another = "008-port-security";
    frames_stay_in_their_vlan_and_leave_with_the_tag_of_the_port = "009-vlans";
    output_rules_write_change_and_remove_tags = "010-vlan-edits";
    the_gateway_answers_arp_nd_and_ping_and_nothing_else = "011-the-gateway-answers";
    forward_rules_rewrite_headers_and_leave_every_checksum_right = "012-forward-and-rewrite";
    output_rules_set_dscp_per_port_and_keep_ecn = "013-dscp-on-the-way-out";
    a_frame_over_the_mtu_of_its_output_is_dropped_and_counted = "014-oversize";
    lengths_that_lie_are_malformed_and_never_match_a_rule_about_ports = "015-lengths-that-lie";
    less_than_an_ethernet_header_is_a_runt = "016-runts";
    ttl_length_ecn_and_tcp_flags_are_asked_of_every_packet = "017-what-is-outside-the-flow-key-is-asked-each-time";
    a_later_fragment_never_matches_a_rule_about_ports = "018-fragments-and-port-rules";
    ports_are_found_behind_extension_headers_or_the_packet_is_dropped = "019-extension-headers";
    networks_learn_and_flood_apart = "020-networks-are-apart";
    a_forward_rule_overrides_the_network = "021-forward-targets";
    frames_of_one_time_come_in_the_order_of_in = "022-ties";
    partial_checksums_are_completed = "023-partial-checksums";
    packet_too_big_passes_every_acl = "024-icmp-errors-and-acls";
}
