/* SPDX-License-Identifier: Apache-2.0 */
/* The counter has a region of its own, with one "ring", which has no slots. */
#include "dispenser.h"

#include "../base/error.h"
#include "../buffers/segment.h"
#include "../transport/transport.h"
#include "context.h"

#define DISPENSER_OFFSET sizeof(struct region_header)
#define DISPENSER_REGION_SIZE \
	(DISPENSER_OFFSET + sizeof(struct dispenser_words))

static const struct ring_layout layout = {
	.n_rings = 1,
	.first_ring = DISPENSER_OFFSET,
	.ring_size = sizeof(struct dispenser_words),
};

int dfi__dispenser_create(
    struct dfi *dfi, uint64_t first, struct dispenser *dispenser)
{
	struct transport *transport = dfi->transport;
	int ret = transport->ops->region_create(
	    transport, DISPENSER_REGION_SIZE, &dispenser->region);

	if (ret < 0)
		return ret;
	dispenser->words =
	    (struct dispenser_words *)(void *)((char *)dispenser->region->base +
		DISPENSER_OFFSET);
	atomic_set(&dispenser->words->closed, 0);
	atomic_set(&dispenser->words->next, first);
	dispenser->name.region = dispenser->region->name;
	return 0;
}

void dfi__dispenser_destroy(struct dispenser *dispenser)
{
	if (!dispenser->region)
		return;
	atomic_set(&dispenser->words->closed, 1);
	dispenser->region->transport->ops->region_destroy(dispenser->region);
	dispenser->region = NULL;
}

int dfi__dispenser_open(struct dfi *dfi, const struct node *holder,
    const struct dispenser_name *name, int64_t deadline,
    struct dispenser_user *user)
{
	int ret;

	if (holder->host_id != dfi->node.host_id)
		return dfi__fail(-EHOSTUNREACH,
		    "it is on host %s, this is %s: open it in processes there",
		    holder->host, dfi->node.host);
	if (name->region.size < DISPENSER_REGION_SIZE)
		return dfi__fail(-EBADMSG,
		    "its entry in the registry is damaged: its counter has "
		    "%lu bytes",
		    (unsigned long)name->region.size);
	ret = dfi->transport->ops->remote_open(dfi->transport, user,
	    &name->region, &layout, 0, deadline, &user->remote);
	if (ret < 0)
		return ret;
	user->words = (struct dispenser_words *)(void *)user->remote->ring;
	return 0;
}

void dfi__dispenser_close(struct dispenser_user *user)
{
	if (user->remote)
		user->remote->transport->ops->remote_close(user->remote);
	user->remote = NULL;
}
