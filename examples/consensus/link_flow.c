/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flow of each kind of link: its attributes, and the memory of its ends in
 * this process.
 */
#include "links_impl.h"

static const struct dfi_field fields[] = {
	{ .name = "bytes", .type = DFI_BYTES, .size = LINK_TUPLE },
};

const struct dfi_schema link_schema = {
	.fields = fields,
	.n_fields = 1,
	.tuple_size = LINK_TUPLE,
};

void link_flow_attr(const struct link_setup *setup, struct dfi_flow_attr *attr)
{
	bool ordered = setup->kind == LINK_ORDERED;
	bool open = setup->kind == LINK_OPEN_IN || setup->kind == LINK_OPEN_OUT;

	*attr = (struct dfi_flow_attr)DFI_FLOW_ATTR_INIT;
	attr->schema = &link_schema;
	attr->n_sources = attr->n_targets = ordered ? setup->n_ends : 1;
	if (open) {
		attr->n_sources = setup->n_sources;
		attr->n_targets = setup->n_targets;
	}
	attr->replicate.ordered = ordered;
	attr->kind = ordered || setup->replicate ? DFI_REPLICATE : DFI_SHUFFLE;
	if (attr->kind == DFI_SHUFFLE)
		attr->routing = open && setup->n_targets == 1
		    ? DFI_ROUTE_ANY /* it tells when the target is gone */
		    : DFI_ROUTE_DIRECT;
	if (open) {
		attr->open.membership = DFI_MEMBERS_OPEN;
		attr->open.on_loss = DFI_ON_LOSS_DROP;
		attr->open.evict_after_ms = setup->evict_ms;
	}
	attr->segment_count = setup->segments;
	if (ordered && setup->multicast) {
		attr->replicate.method = DFI_REPLICATION_MULTICAST;
		attr->replicate.loss_policy = DFI_LOSS_NOTIFY;
	} else {
		attr->segment_size = setup->segment_size;
	}
}

int link_needs(struct dfi *dfi, const struct link_setup *setup, uint64_t *bytes)
{
	struct dfi_flow_needs needs;
	struct dfi_flow_attr attr;
	int ret;

	link_flow_attr(setup, &attr);
	ret = dfi_flow_estimate(dfi, &attr, &needs);
	if (ret < 0)
		return ret;
	switch (setup->kind) {
	case LINK_IN:
		*bytes += needs.target_bytes;
		return 0;
	case LINK_OUT:
		*bytes += needs.source_bytes;
		return 0;
	case LINK_OPEN_IN:
		*bytes += needs.pair_bytes * setup->n_sources;
		return 0;
	case LINK_OPEN_OUT:
		return 0; /* the rings are those of its targets */
	case LINK_ORDERED:
	default:
		*bytes += needs.target_bytes + needs.source_bytes;
		return 0;
	}
}
