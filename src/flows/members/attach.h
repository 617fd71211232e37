/* SPDX-License-Identifier: Apache-2.0 */
/* Attaching to a flow by its name, for sources and targets. */
#ifndef DFI_FLOWS_MEMBERS_ATTACH_H
#define DFI_FLOWS_MEMBERS_ATTACH_H

#include <stdint.h>
#include "flows/descriptor/descriptor.h"

struct shared_counter;
struct dfi;
struct peers;

/*
 * Wait until the flow is published, and decode its descriptor into *flow.
 * Checks index and, if it isn't NULL, schema. For a flow with a tree, *flow is
 * the part that the endpoint sees. The caller frees *flow.
 */
int dfi__attach_find(struct dfi *dfi, const char *name, const char *role,
    uint32_t index, const struct dfi_schema *schema, int64_t deadline,
    struct flow *flow);

/*
 * The same for a combiner, which sees two parts of the tree. -EPROTOTYPE: the
 * flow has no tree.
 */
int dfi__attach_find_combiner(struct dfi *dfi, const char *name, uint32_t index,
    int64_t deadline, struct flow *input, struct flow *output);

/*
 * Publish this context's source. device: which ones it uses, for people, or "".
 * If port isn't NULL, it says where the source's datagrams go. -EEXIST: the
 * index is taken.
 */
int dfi__attach_claim(struct dfi *dfi, const struct flow *flow, uint32_t index,
    const char *device, const struct multicast_address *datagram_address,
    int64_t deadline);

/*
 * Watch the sources and publish this context's target. why: the reason why its
 * region is not exported, or "". sequencer: the flow's shared counter, or NULL
 * if another target has it. -EEXIST: the index is taken.
 */
int dfi__attach_join(struct dfi *dfi, struct flow *flow, uint32_t index,
    const struct region *region, const char *why,
    const struct shared_counter *sequencer,
    const struct multicast_address *datagram_address, struct peers *sources,
    int64_t deadline);

/*
 * Append the description of a transport's device, and if remote isn't NULL how
 * its owner learns of segments. separator: what stands before it if the text is
 * not empty.
 */
void dfi__attach_describe(const struct transport *transport,
    const struct remote *remote, const char *separator,
    char text[TRANSPORT_WAY_SIZE]);

/* How a live target leaves. */
enum attach_end {
	ATTACH_STAYS = 0,
	ATTACH_CANCELLED, /* it wants no more tuples */
	ATTACH_DONE,      /* it has received all tuples */
	ATTACH_LEFT,      /* it closes before that, as in struct endpoint */
};

/*
 * Publish how this context's attached target leaves. given_back: of
 * ATTACH_LEFT.
 */
int dfi__attach_end(struct dfi *dfi, const struct flow *flow, uint32_t index,
    const struct region *region, const struct shared_counter *sequencer,
    enum attach_end end, uint64_t given_back, int64_t deadline);

#endif
