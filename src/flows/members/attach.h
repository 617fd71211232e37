/* SPDX-License-Identifier: Apache-2.0 */
/* What sources and targets have in common: attaching to a flow by its name. */
#ifndef DFI_FLOWS_MEMBERS_ATTACH_H
#define DFI_FLOWS_MEMBERS_ATTACH_H

#include <stdint.h>
#include "flows/descriptor/descriptor.h"

struct shared_counter;
struct dfi;
struct peers;

/*
 * Wait until the flow is published, and take its descriptor; checks index and,
 * if schema isn't NULL, the schema. Of a flow with a tree, *flow is the part
 * that the endpoint sees. The caller frees *flow.
 */
int dfi__attach_find(struct dfi *dfi, const char *name, const char *role,
    uint32_t index, const struct dfi_schema *schema, int64_t deadline,
    struct flow *flow);

/*
 * The same for a combiner of a tree: both parts that it sees. -EPROTOTYPE: the
 * flow has no tree.
 */
int dfi__attach_find_combiner(struct dfi *dfi, const char *name, uint32_t index,
    int64_t deadline, struct flow *input, struct flow *output);

/*
 * Publish this context's source, which writes to remote if that isn't NULL, and
 * where its datagrams go to, unless port is; -EEXIST if the index is taken.
 */
int dfi__attach_claim(struct dfi *dfi, const struct flow *flow, uint32_t index,
    const struct remote *remote, const struct multicast_address *port,
    int64_t deadline);

/*
 * Watch the sources, and publish this context's target and why its region is
 * not exported, "" if it is, and the flow's sequencer, NULL if another has it;
 * -EEXIST likewise.
 */
int dfi__attach_join(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct region *region, const char *why,
    const struct shared_counter *sequencer,
    const struct multicast_address *port, struct peers *sources,
    int64_t deadline);

/* How a target leaves that lives. */
enum attach_end {
	ATTACH_STAYS = 0,
	ATTACH_CANCELLED, /* it wants no more tuples */
	ATTACH_DONE,      /* it has all that there were */
};

/* Publish that of this context's target, attached before. */
int dfi__attach_end(struct dfi *dfi, const struct flow *flow, uint32_t index,
    const struct region *region, const struct shared_counter *sequencer,
    enum attach_end end, int64_t deadline);

#endif
