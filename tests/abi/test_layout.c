/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary interface: sizes and offsets of all public structs, and values of
 * all public constants. Compiled programs contain these, and inline functions
 * of sources and targets use them. Any change breaks linked programs. Attribute
 * structs may grow at their end, and new constants may be added; nothing else
 * may change.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <dfi/dfi.h>

static unsigned n_failed;

static void pin(const char *what, long long is, long long was)
{
	if (is == was)
		return;
	printf("%s is %lld, it was %lld\n", what, is, was);
	n_failed++;
}

#define PIN_SIZE(type, size) \
	pin("sizeof(struct " #type ")", (long long)sizeof(struct type), (size))
#define PIN(type, member, offset, size)                                     \
	do {                                                                \
		pin("offsetof(struct " #type ", " #member ")",              \
		    (long long)offsetof(struct type, member), (offset));    \
		pin("sizeof(" #type "." #member ")",                        \
		    (long long)sizeof(((struct type *)0)->member), (size)); \
	} while (0)
#define PIN_VALUE(constant, value) \
	pin(#constant, (long long)(constant), (value))

static void pin_the_rest(void)
{
	PIN_VALUE(DFI_MAX_PARTICIPANTS, 1024);

	PIN_SIZE(dfi_attr, 72);
	PIN(dfi_attr, size, 0, 4);
	PIN(dfi_attr, lease_ttl_ms, 4, 4);
	PIN(dfi_attr, registry, 8, 8);
	PIN(dfi_attr, node_name, 16, 8);
	PIN(dfi_attr, open_timeout_ms, 24, 4);
	PIN(dfi_attr, reserved, 28, 4);
	PIN(dfi_attr, registry_key, 32, 8);
	PIN(dfi_attr, registry_ca, 40, 8);
	PIN(dfi_attr, registry_cert, 48, 8);
	PIN(dfi_attr, registry_private_key, 56, 8);
	PIN(dfi_attr, registry_flags, 64, 4);
	PIN(dfi_attr, reserved2, 68, 4);

	PIN_SIZE(dfi_counter, 32);
	PIN(dfi_counter, name, 0, 24);
	PIN(dfi_counter, value, 24, 8);

	PIN_SIZE(dfi_field, 32);
	PIN(dfi_field, name, 0, 8);
	PIN(dfi_field, type_name, 8, 8);
	PIN(dfi_field, type, 16, 4);
	PIN(dfi_field, offset, 20, 4);
	PIN(dfi_field, size, 24, 4);
	PIN(dfi_field, reserved, 28, 4);

	PIN_SIZE(dfi_schema, 16);
	PIN(dfi_schema, fields, 0, 8);
	PIN(dfi_schema, n_fields, 8, 4);
	PIN(dfi_schema, tuple_size, 12, 4);

	PIN_SIZE(dfi_registry_attr, 104);
	PIN(dfi_registry_attr, size, 0, 4);
	PIN(dfi_registry_attr, flags, 4, 4);
	PIN(dfi_registry_attr, listen, 8, 8);
	PIN(dfi_registry_attr, max_connections, 16, 4);
	PIN(dfi_registry_attr, max_keys, 20, 4);
	PIN(dfi_registry_attr, max_watches, 24, 4);
	PIN(dfi_registry_attr, max_output, 28, 4);
	PIN(dfi_registry_attr, max_bytes, 32, 8);
	PIN(dfi_registry_attr, key, 40, 8);
	PIN(dfi_registry_attr, ca, 48, 8);
	PIN(dfi_registry_attr, cert, 56, 8);
	PIN(dfi_registry_attr, private_key, 64, 8);
	PIN(dfi_registry_attr, max_client_keys, 72, 4);
	PIN(dfi_registry_attr, n_users, 76, 4);
	PIN(dfi_registry_attr, users, 80, 8);
	PIN(dfi_registry_attr, state, 88, 8);
	PIN(dfi_registry_attr, grace_ms, 96, 4);
	PIN_VALUE(DFI_MAX_REGISTRY_USERS, 32);
}

static void pin_settings(void)
{
	PIN_SIZE(dfi_setting_info, 48);
	PIN(dfi_setting_info, variable, 0, 8);
	PIN(dfi_setting_info, value, 8, 8);
	PIN(dfi_setting_info, initial, 16, 8);
	PIN(dfi_setting_info, help, 24, 8);
	PIN(dfi_setting_info, error, 32, 8);
	PIN(dfi_setting_info, origin, 40, 4);
	PIN(dfi_setting_info, reserved, 44, 4);
	PIN_VALUE(DFI_SETTING_DEFAULT, 0);
	PIN_VALUE(DFI_SETTING_ENVIRONMENT, 1);
	PIN_VALUE(DFI_SETTING_ATTRIBUTE, 2);
}

static void pin_stats(void)
{
	PIN_SIZE(dfi_endpoint_stats, 312);
	PIN(dfi_endpoint_stats, flow, 0, 128);
	PIN(dfi_endpoint_stats, instance, 128, 8);
	PIN(dfi_endpoint_stats, role, 136, 4);
	PIN(dfi_endpoint_stats, index, 140, 4);
	PIN(dfi_endpoint_stats, tuples, 144, 8);
	PIN(dfi_endpoint_stats, bytes, 152, 8);
	PIN(dfi_endpoint_stats, segments, 160, 8);
	PIN(dfi_endpoint_stats, partial_segments, 168, 8);
	PIN(dfi_endpoint_stats, stalls, 176, 8);
	PIN(dfi_endpoint_stats, stall_ns, 184, 8);
	PIN(dfi_endpoint_stats, polls, 192, 8);
	PIN(dfi_endpoint_stats, yields, 200, 8);
	PIN(dfi_endpoint_stats, sleeps, 208, 8);
	PIN(dfi_endpoint_stats, long_stalls, 216, 8);
	PIN(dfi_endpoint_stats, waiting_ns, 224, 8);
	PIN(dfi_endpoint_stats, waits_for, 232, 4);
	PIN(dfi_endpoint_stats, peer, 236, 4);
	PIN(dfi_endpoint_stats, copied_bytes, 240, 8);
	PIN(dfi_endpoint_stats, gaps, 248, 8);
	PIN(dfi_endpoint_stats, lost_segments, 256, 8);
	PIN(dfi_endpoint_stats, incarnation, 264, 8);
	PIN(dfi_endpoint_stats, dropped, 272, 8);
	PIN(dfi_endpoint_stats, evictions, 280, 8);
	PIN(dfi_endpoint_stats, epoch, 288, 8);
	PIN(dfi_endpoint_stats, n_partitions, 296, 4);
	PIN(dfi_endpoint_stats, n_moving, 300, 4);
	PIN(dfi_endpoint_stats, filtered, 304, 8);

	PIN_VALUE(DFI_MAX_COUNTERS, 32);
	PIN_SIZE(dfi_transport_stats, 1216);
	PIN(dfi_transport_stats, transport, 0, 16);
	PIN(dfi_transport_stats, device, 16, 64);
	PIN(dfi_transport_stats, address, 80, 48);
	PIN(dfi_transport_stats, writes, 128, 8);
	PIN(dfi_transport_stats, bytes, 136, 8);
	PIN(dfi_transport_stats, credits, 144, 8);
	PIN(dfi_transport_stats, messages, 152, 8);
	PIN(dfi_transport_stats, completions, 160, 8);
	PIN(dfi_transport_stats, connections, 168, 4);
	PIN(dfi_transport_stats, broken_connections, 172, 4);
	PIN(dfi_transport_stats, memory_regions, 176, 4);
	PIN(dfi_transport_stats, receives, 180, 4);
	PIN(dfi_transport_stats, is_known, 184, 4);
	PIN(dfi_transport_stats, n_counters, 188, 4);
	PIN(dfi_transport_stats, counters, 192, 1024);

	PIN_SIZE(dfi_node_stats, 200);
	PIN(dfi_node_stats, node, 0, 152);
	PIN(dfi_node_stats, error, 152, 8);
	PIN(dfi_node_stats, endpoints, 160, 8);
	PIN(dfi_node_stats, errors, 168, 8);
	PIN(dfi_node_stats, n_endpoints, 176, 4);
	PIN(dfi_node_stats, n_errors, 180, 4);
	PIN(dfi_node_stats, transports, 184, 8);
	PIN(dfi_node_stats, n_transports, 192, 4);
	PIN(dfi_node_stats, reserved, 196, 4);

	PIN_SIZE(dfi_error_info, 288);
	PIN(dfi_error_info, code, 0, 4);
	PIN(dfi_error_info, reserved, 4, 4);
	PIN(dfi_error_info, count, 8, 8);
	PIN(dfi_error_info, first_ns, 16, 8);
	PIN(dfi_error_info, last_ns, 24, 8);
	PIN(dfi_error_info, text, 32, 256);
	PIN_VALUE(DFI_ROLE_SOURCE, 1);
	PIN_VALUE(DFI_ROLE_TARGET, 2);
	PIN_VALUE(DFI_ROLE_COMBINER_INPUT, 3);
	PIN_VALUE(DFI_ROLE_COMBINER_OUTPUT, 4);
	PIN_VALUE(DFI_MAX_ERRORS, 32);
}

static void pin_devices(void)
{
	PIN_SIZE(dfi_device_info, 748);
	PIN(dfi_device_info, transport, 0, 16);
	PIN(dfi_device_info, device, 16, 64);
	PIN(dfi_device_info, state, 80, 16);
	PIN(dfi_device_info, link_layer, 96, 16);
	PIN(dfi_device_info, interface, 112, 16);
	PIN(dfi_device_info, address, 128, 48);
	PIN(dfi_device_info, gid, 176, 40);
	PIN(dfi_device_info, reason, 216, 512);
	PIN(dfi_device_info, port, 728, 4);
	PIN(dfi_device_info, mtu, 732, 4);
	PIN(dfi_device_info, gid_index, 736, 4);
	PIN(dfi_device_info, chosen, 740, 4);
	PIN(dfi_device_info, plain_text, 744, 4);
}

static void pin_flow_attributes(void)
{
	PIN_SIZE(dfi_flow_attr, 304);
	PIN(dfi_flow_attr, size, 0, 4);
	PIN(dfi_flow_attr, kind, 4, 4);
	PIN(dfi_flow_attr, schema, 8, 8);
	PIN(dfi_flow_attr, n_sources, 16, 4);
	PIN(dfi_flow_attr, n_targets, 20, 4);
	PIN(dfi_flow_attr, goal, 24, 4);
	PIN(dfi_flow_attr, routing, 28, 4);
	PIN(dfi_flow_attr, key, 32, 8);
	PIN(dfi_flow_attr, radix_shift, 40, 4);
	PIN(dfi_flow_attr, radix_bits, 44, 4);
	PIN(dfi_flow_attr, splits, 48, 8);
	PIN(dfi_flow_attr, segment_size, 56, 4);
	PIN(dfi_flow_attr, segment_count, 60, 4);
	PIN(dfi_flow_attr, flags, 64, 4);
	PIN(dfi_flow_attr, transport, 68, 4);
	PIN(dfi_flow_attr, verify, 72, 4);
	PIN(dfi_flow_attr, reserved, 76, 4);
	PIN(dfi_flow_attr, replicate, 80, 56);
	PIN(dfi_flow_attr, combine, 136, 88);
	PIN(dfi_flow_attr, open, 224, 80);

	PIN_SIZE(dfi_replicate_attr, 56);
	PIN(dfi_replicate_attr, multicast_address, 0, 8);
	PIN(dfi_replicate_attr, method, 8, 4);
	PIN(dfi_replicate_attr, ordered, 12, 4);
	PIN(dfi_replicate_attr, loss_policy, 16, 4);
	PIN(dfi_replicate_attr, gap_timeout_us, 20, 4);
	PIN(dfi_replicate_attr, reserved, 24, 32);

	PIN_SIZE(dfi_combine_attr, 88);
	PIN(dfi_combine_attr, aggregates, 0, 8);
	PIN(dfi_combine_attr, group_by, 8, 8);
	PIN(dfi_combine_attr, max_groups, 16, 8);
	PIN(dfi_combine_attr, window_tuples, 24, 8);
	PIN(dfi_combine_attr, combining_bytes, 32, 8);
	PIN(dfi_combine_attr, n_aggregates, 40, 4);
	PIN(dfi_combine_attr, when_full, 44, 4);
	PIN(dfi_combine_attr, source_combining, 48, 4);
	PIN(dfi_combine_attr, fan_in, 52, 4);
	PIN(dfi_combine_attr, reserved, 56, 32);

	PIN_SIZE(dfi_open_attr, 80);
	PIN(dfi_open_attr, membership, 0, 4);
	PIN(dfi_open_attr, min_sources, 4, 4);
	PIN(dfi_open_attr, min_targets, 8, 4);
	PIN(dfi_open_attr, on_loss, 12, 4);
	PIN(dfi_open_attr, evict_after_ms, 16, 4);
	PIN(dfi_open_attr, partitions, 20, 4);
	PIN(dfi_open_attr, hold_bytes, 24, 8);
	PIN(dfi_open_attr, input_position, 32, 8);
	PIN(dfi_open_attr, return_timeout_ms, 40, 4);
	PIN(dfi_open_attr, unused, 44, 4);
	PIN(dfi_open_attr, spill_dir, 48, 8);
	PIN(dfi_open_attr, reserved, 56, 24);
}

static void pin_flow_needs(void)
{
	PIN_SIZE(dfi_flow_needs, 176);
	PIN(dfi_flow_needs, segment_size, 0, 4);
	PIN(dfi_flow_needs, segment_count, 4, 4);
	PIN(dfi_flow_needs, rings, 8, 8);
	PIN(dfi_flow_needs, ring_payload_bytes, 16, 8);
	PIN(dfi_flow_needs, ring_bytes, 24, 8);
	PIN(dfi_flow_needs, target_bytes, 32, 8);
	PIN(dfi_flow_needs, shadow_bytes, 40, 8);
	PIN(dfi_flow_needs, transport, 48, 4);
	PIN(dfi_flow_needs, target_descriptors, 52, 4);
	PIN(dfi_flow_needs, source_queue_pairs, 56, 4);
	PIN(dfi_flow_needs, process_descriptors, 60, 4);
	PIN(dfi_flow_needs, source_bytes, 64, 8);
	PIN(dfi_flow_needs, replication, 72, 4);
	PIN(dfi_flow_needs, n_combiners, 76, 4);
	PIN(dfi_flow_needs, combiner_bytes, 80, 8);
	PIN(dfi_flow_needs, combiner_shadow_bytes, 88, 8);
	PIN(dfi_flow_needs, send_buffer_bytes, 96, 8);
	PIN(dfi_flow_needs, sequencer_bytes, 104, 8);
	PIN(dfi_flow_needs, sequencer_shadow_bytes, 112, 8);
	PIN(dfi_flow_needs, target_receives, 120, 8);
	PIN(dfi_flow_needs, source_receives, 128, 8);
	PIN(dfi_flow_needs, combiner_receives, 136, 8);
	PIN(dfi_flow_needs, target_datagram_bytes, 144, 8);
	PIN(dfi_flow_needs, source_datagram_bytes, 152, 8);
	PIN(dfi_flow_needs, source_descriptors, 160, 4);
	PIN(dfi_flow_needs, devices, 164, 4);
	PIN(dfi_flow_needs, pair_bytes, 168, 8);
}

static void pin_flow_info(void)
{
	PIN_SIZE(dfi_flow_info, 3104);
	PIN(dfi_flow_info, name, 0, 128);
	PIN(dfi_flow_info, creator, 128, 160);
	PIN(dfi_flow_info, instance, 288, 8);
	PIN(dfi_flow_info, kind, 296, 4);
	PIN(dfi_flow_info, goal, 300, 4);
	PIN(dfi_flow_info, routing, 304, 4);
	PIN(dfi_flow_info, flags, 308, 4);
	PIN(dfi_flow_info, n_sources, 312, 4);
	PIN(dfi_flow_info, n_targets, 316, 4);
	PIN(dfi_flow_info, attached_sources, 320, 4);
	PIN(dfi_flow_info, attached_targets, 324, 4);
	PIN(dfi_flow_info, tuple_size, 328, 4);
	PIN(dfi_flow_info, n_fields, 332, 4);
	PIN(dfi_flow_info, segment_size, 336, 4);
	PIN(dfi_flow_info, segment_count, 340, 4);
	PIN(dfi_flow_info, ring_bytes, 344, 8);
	PIN(dfi_flow_info, schema, 352, 1024);
	PIN(dfi_flow_info, key, 1376, 256);
	PIN(dfi_flow_info, transport, 1632, 4);
	PIN(dfi_flow_info, verify, 1636, 4);
	PIN(dfi_flow_info, replication, 1640, 4);
	PIN(dfi_flow_info, ordered, 1644, 4);
	PIN(dfi_flow_info, devices, 1648, 1024);
	PIN(dfi_flow_info, loss_policy, 2672, 4);
	PIN(dfi_flow_info, gap_timeout_us, 2676, 4);
	PIN(dfi_flow_info, fan_in, 2680, 4);
	PIN(dfi_flow_info, n_combiners, 2684, 4);
	PIN(dfi_flow_info, attached_combiners, 2688, 4);
	PIN(dfi_flow_info, reserved, 2692, 4);
	PIN(dfi_flow_info, missing_sources, 2696, 128);
	PIN(dfi_flow_info, missing_targets, 2824, 128);
	PIN(dfi_flow_info, missing_combiners, 2952, 128);
	PIN(dfi_flow_info, membership, 3080, 4);
	PIN(dfi_flow_info, on_loss, 3084, 4);
	PIN(dfi_flow_info, min_sources, 3088, 4);
	PIN(dfi_flow_info, min_targets, 3092, 4);
	PIN(dfi_flow_info, finished, 3096, 4);
	PIN(dfi_flow_info, reserved_2, 3100, 4);

	PIN_SIZE(dfi_member_info, 464);
	PIN(dfi_member_info, role, 0, 4);
	PIN(dfi_member_info, seat, 4, 4);
	PIN(dfi_member_info, incarnation, 8, 8);
	PIN(dfi_member_info, node, 16, 64);
	PIN(dfi_member_info, host, 80, 64);
	PIN(dfi_member_info, pid, 144, 4);
	PIN(dfi_member_info, n_peers, 148, 4);
	PIN(dfi_member_info, peers, 152, 128);
	PIN(dfi_member_info, epoch, 280, 8);
	PIN(dfi_member_info, n_partitions, 288, 4);
	PIN(dfi_member_info, n_moving, 292, 4);
	PIN(dfi_member_info, partitions, 296, 128);
	PIN(dfi_member_info, leaving, 424, 4);
	PIN(dfi_member_info, unused, 428, 4);
	PIN(dfi_member_info, reserved, 432, 32);

	PIN_SIZE(dfi_node_info, 152);
	PIN(dfi_node_info, name, 0, 64);
	PIN(dfi_node_info, host, 64, 64);
	PIN(dfi_node_info, id, 128, 8);
	PIN(dfi_node_info, pid, 136, 4);
	PIN(dfi_node_info, n_sources, 140, 4);
	PIN(dfi_node_info, n_targets, 144, 4);
	PIN(dfi_node_info, is_own, 148, 4);
}

static void pin_sources(void)
{
	PIN_SIZE(dfi_source_attr, 72);
	PIN(dfi_source_attr, size, 0, 4);
	PIN(dfi_source_attr, flags, 4, 4);
	PIN(dfi_source_attr, schema, 8, 8);
	PIN(dfi_source_attr, route, 16, 8);
	PIN(dfi_source_attr, route_arg, 24, 8);
	PIN(dfi_source_attr, open_timeout_ms, 32, 4);
	PIN(dfi_source_attr, stall_timeout_ms, 36, 4);
	PIN(dfi_source_attr, wait, 40, 4);
	PIN(dfi_source_attr, close_timeout_ms, 44, 4);
	PIN(dfi_source_attr, linger_us, 48, 4);
	PIN(dfi_source_attr, reserved, 52, 4);
	PIN(dfi_source_attr, route_set, 56, 8);
	PIN(dfi_source_attr, share_with, 64, 8);

	PIN_SIZE(dfi_source_stats, 112);
	PIN(dfi_source_stats, tuples, 0, 8);
	PIN(dfi_source_stats, bytes, 8, 8);
	PIN(dfi_source_stats, segments, 16, 8);
	PIN(dfi_source_stats, partial_segments, 24, 8);
	PIN(dfi_source_stats, stalls, 32, 8);
	PIN(dfi_source_stats, stall_ns, 40, 8);
	PIN(dfi_source_stats, polls, 48, 8);
	PIN(dfi_source_stats, yields, 56, 8);
	PIN(dfi_source_stats, sleeps, 64, 8);
	PIN(dfi_source_stats, long_stalls, 72, 8);
	PIN(dfi_source_stats, copied_bytes, 80, 8);
	PIN(dfi_source_stats, combined_tuples, 88, 8);
	PIN(dfi_source_stats, records, 96, 8);
	PIN(dfi_source_stats, combining_stops, 104, 8);

	PIN_SIZE(dfi_source_lane, 16);
	PIN(dfi_source_lane, next, 0, 8);
	PIN(dfi_source_lane, end, 8, 8);

	PIN_SIZE(dfi_source_head, 48);
	PIN(dfi_source_head, only, 0, 16);
	PIN(dfi_source_head, lanes, 16, 8);
	PIN(dfi_source_head, n_targets, 24, 4);
	PIN(dfi_source_head, tuple_size, 28, 4);
	PIN(dfi_source_head, inline_routing, 32, 4);
	PIN(dfi_source_head, key_offset, 36, 4);
	PIN(dfi_source_head, targets, 40, 8);
	PIN(dfi_source_head, table, 40, 8);

	PIN_SIZE(dfi_source_table, 16);
	PIN(dfi_source_table, inside, 0, 4);
	PIN(dfi_source_table, n_partitions, 4, 4);
	PIN(dfi_source_table, lanes, 8, 8);

	PIN_SIZE(dfi_span, 16);
	PIN(dfi_span, tuples, 0, 8);
	PIN(dfi_span, count, 8, 4);
	PIN(dfi_span, target, 12, 4);

	PIN_SIZE(dfi_source_cursor, 32);
	PIN(dfi_source_cursor, next, 0, 8);
	PIN(dfi_source_cursor, end, 8, 8);
	PIN(dfi_source_cursor, source, 16, 8);
	PIN(dfi_source_cursor, lane, 24, 4);
	PIN(dfi_source_cursor, status, 28, 4);
}

static void pin_combiners(void)
{
	PIN_SIZE(dfi_combiner_attr, 32);
	PIN(dfi_combiner_attr, size, 0, 4);
	PIN(dfi_combiner_attr, flags, 4, 4);
	PIN(dfi_combiner_attr, open_timeout_ms, 8, 4);
	PIN(dfi_combiner_attr, stall_timeout_ms, 12, 4);
	PIN(dfi_combiner_attr, close_timeout_ms, 16, 4);
	PIN(dfi_combiner_attr, wait, 20, 4);
	PIN(dfi_combiner_attr, max_groups, 24, 8);

	PIN_SIZE(dfi_combiner_stats, 96);
	PIN(dfi_combiner_stats, tuples, 0, 8);
	PIN(dfi_combiner_stats, bytes, 8, 8);
	PIN(dfi_combiner_stats, segments, 16, 8);
	PIN(dfi_combiner_stats, records, 24, 8);
	PIN(dfi_combiner_stats, record_bytes, 32, 8);
	PIN(dfi_combiner_stats, record_segments, 40, 8);
	PIN(dfi_combiner_stats, windows, 48, 8);
	PIN(dfi_combiner_stats, early, 56, 8);
	PIN(dfi_combiner_stats, stalls, 64, 8);
	PIN(dfi_combiner_stats, stall_ns, 72, 8);
	PIN(dfi_combiner_stats, send_stalls, 80, 8);
	PIN(dfi_combiner_stats, send_stall_ns, 88, 8);
}

static void pin_targets(void)
{
	PIN_SIZE(dfi_target_attr, 40);
	PIN(dfi_target_attr, size, 0, 4);
	PIN(dfi_target_attr, flags, 4, 4);
	PIN(dfi_target_attr, schema, 8, 8);
	PIN(dfi_target_attr, open_timeout_ms, 16, 4);
	PIN(dfi_target_attr, stall_timeout_ms, 20, 4);
	PIN(dfi_target_attr, wait, 24, 4);
	PIN(dfi_target_attr, idle_after_ms, 28, 4);
	PIN(dfi_target_attr, store_epoch, 32, 8);

	PIN_SIZE(dfi_target_stats, 88);
	PIN(dfi_target_stats, tuples, 0, 8);
	PIN(dfi_target_stats, bytes, 8, 8);
	PIN(dfi_target_stats, segments, 16, 8);
	PIN(dfi_target_stats, stalls, 24, 8);
	PIN(dfi_target_stats, stall_ns, 32, 8);
	PIN(dfi_target_stats, polls, 40, 8);
	PIN(dfi_target_stats, yields, 48, 8);
	PIN(dfi_target_stats, sleeps, 56, 8);
	PIN(dfi_target_stats, long_stalls, 64, 8);
	PIN(dfi_target_stats, gaps, 72, 8);
	PIN(dfi_target_stats, lost_segments, 80, 8);

	PIN_SIZE(dfi_event, 48);
	PIN(dfi_event, type, 0, 4);
	PIN(dfi_event, seat, 4, 4);
	PIN(dfi_event, incarnation, 8, 8);
	PIN(dfi_event, value, 16, 8);
	PIN(dfi_event, epoch, 24, 8);
	PIN(dfi_event, partition, 32, 4);
	PIN(dfi_event, flags, 36, 4);
	PIN(dfi_event, reserved, 40, 8);

	PIN_SIZE(dfi_gap, 24);
	PIN(dfi_gap, first, 0, 8);
	PIN(dfi_gap, count, 8, 4);
	PIN(dfi_gap, source, 12, 4);
	PIN(dfi_gap, position, 16, 8);

	PIN_SIZE(dfi_target_head, 24);
	PIN(dfi_target_head, next, 0, 8);
	PIN(dfi_target_head, end, 8, 8);
	PIN(dfi_target_head, tuple_size, 16, 4);
	PIN(dfi_target_head, source, 20, 4);

	PIN_SIZE(dfi_target_group_attr, 16);
	PIN(dfi_target_group_attr, size, 0, 4);
	PIN(dfi_target_group_attr, flags, 4, 4);
	PIN(dfi_target_group_attr, stall_timeout_ms, 8, 4);
	PIN(dfi_target_group_attr, wait, 12, 4);

	PIN_SIZE(dfi_target_group_batch, 56);
	PIN(dfi_target_group_batch, batch, 0, 24);
	PIN(dfi_target_group_batch, target, 24, 8);
	PIN(dfi_target_group_batch, arg, 32, 8);
	PIN(dfi_target_group_batch, flow, 40, 8);
	PIN(dfi_target_group_batch, index, 48, 4);
	PIN(dfi_target_group_batch, reserved, 52, 4);

	PIN_SIZE(dfi_batch, 24);
	PIN(dfi_batch, tuples, 0, 8);
	PIN(dfi_batch, count, 8, 4);
	PIN(dfi_batch, stride, 12, 4);
	PIN(dfi_batch, source, 16, 4);
	PIN(dfi_batch, reserved, 20, 4);

	PIN_SIZE(dfi_target_cursor, 32);
	PIN(dfi_target_cursor, next, 0, 8);
	PIN(dfi_target_cursor, end, 8, 8);
	PIN(dfi_target_cursor, target, 16, 8);
	PIN(dfi_target_cursor, status, 24, 4);
	PIN(dfi_target_cursor, reserved, 28, 4);
}

static void pin_values(void)
{
	PIN_VALUE(DFI_WAIT_DEFAULT, 0);
	PIN_VALUE(DFI_WAIT_ADAPTIVE, 1);
	PIN_VALUE(DFI_WAIT_SPIN, 2);
	PIN_VALUE(DFI_WAIT_BLOCK, 3);
	PIN_VALUE(DFI_NONBLOCK, 1);
	PIN_VALUE(DFI_REGISTRY_INSECURE, 1);
	PIN_VALUE(DFI_INT8, 1);
	PIN_VALUE(DFI_INT16, 2);
	PIN_VALUE(DFI_INT32, 3);
	PIN_VALUE(DFI_INT64, 4);
	PIN_VALUE(DFI_UINT8, 5);
	PIN_VALUE(DFI_UINT16, 6);
	PIN_VALUE(DFI_UINT32, 7);
	PIN_VALUE(DFI_UINT64, 8);
	PIN_VALUE(DFI_FLOAT, 9);
	PIN_VALUE(DFI_DOUBLE, 10);
	PIN_VALUE(DFI_BYTES, 11);
	PIN_VALUE(DFI_USER, 12);
	PIN_VALUE(DFI_SHUFFLE, 1);
	PIN_VALUE(DFI_REPLICATE, 2);
	PIN_VALUE(DFI_COMBINE, 3);
	PIN_VALUE(DFI_REPLICATION_DEFAULT, 0);
	PIN_VALUE(DFI_REPLICATION_NAIVE, 1);
	PIN_VALUE(DFI_REPLICATION_MULTICAST, 2);
	PIN_VALUE(DFI_ALL_TARGETS, UINT32_MAX);
	PIN_VALUE(DFI_BANDWIDTH, 0);
	PIN_VALUE(DFI_LATENCY, 1);
	PIN_VALUE(DFI_ROUTE_HASH, 0);
	PIN_VALUE(DFI_ROUTE_RADIX, 1);
	PIN_VALUE(DFI_ROUTE_RANGE, 2);
	PIN_VALUE(DFI_ROUTE_ROUND_ROBIN, 3);
	PIN_VALUE(DFI_ROUTE_FUNCTION, 4);
	PIN_VALUE(DFI_ROUTE_DIRECT, 5);
	PIN_VALUE(DFI_FLOW_PERSISTENT, 1);
	PIN_VALUE(DFI_TRANSPORT_DEFAULT, 0);
	PIN_VALUE(DFI_TRANSPORT_AUTO, 1);
	PIN_VALUE(DFI_TRANSPORT_SHM, 2);
	PIN_VALUE(DFI_TRANSPORT_VERBS, 3);
	PIN_VALUE(DFI_TRANSPORT_OFI, 4);
	PIN_VALUE(DFI_INLINE_NONE, 0);
	PIN_VALUE(DFI_INLINE_ONE, 1);
	PIN_VALUE(DFI_INLINE_HASH64, 2);
	PIN_VALUE(DFI_INLINE_TABLE64, 3);
	PIN_VALUE(DFI_LOG_ERROR, 1);
	PIN_VALUE(DFI_LOG_WARN, 2);
	PIN_VALUE(DFI_LOG_INFO, 3);
	PIN_VALUE(DFI_LOG_DEBUG, 4);
	PIN_VALUE(DFI_MAX_FIELDS, 256);
	PIN_VALUE(DFI_MAX_FIELD_NAME, 63);
	PIN_VALUE(DFI_MAX_TUPLE_SIZE, 1048576);
	PIN_VALUE(DFI_MAX_ENDPOINTS, 4096);
	PIN_VALUE(DFI_MAX_FLOW_NAME, 127);
	PIN_VALUE(DFI_MAX_KEYS, 8);
	PIN_VALUE(DFI_MAX_SEGMENT_SIZE, 67108864);
	PIN_VALUE(DFI_MAX_SEGMENT_COUNT, 1048576);
}

/* Error codes are those of the system; the list of them is pinned. */
static void pin_errors(void)
{
	static const int codes[] = {
#define X(code, text) code,
		DFI_ERRORS(X)
#undef X
	};

	pin("the number of error codes", sizeof(codes) / sizeof(codes[0]), 35);
	pin("the first one", codes[0], EINVAL);
	pin("the last one", codes[sizeof(codes) / sizeof(codes[0]) - 1], EIO);
}

int main(void)
{
	pin_the_rest();
	pin_stats();
	pin_devices();
	pin_settings();
	pin_flow_attributes();
	pin_flow_needs();
	pin_flow_info();
	pin_sources();
	pin_combiners();
	pin_targets();
	pin_values();
	pin_errors();
	return n_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
