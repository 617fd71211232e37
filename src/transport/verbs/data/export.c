/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's end of rings: regions that are registered with the device, so
 * that peers can write to them, and the fate of the rings in them.
 */
#include "arrive.h"
#include "checksum.h"
#include "memory.h"
#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "base/error.h"
#include "transport/verbs/device/fail.h"

static void free_export(struct verbs_export *export)
{
	struct verbs *verbs = (struct verbs *)export->base.transport;
	struct region *region = export->region;
	struct verbs_export **at;

	for (at = &verbs->exports; *at != export; at = &(*at)->next)
		;
	*at = export->next;
	dfi__verbs_receives_spare(
	    verbs, transport_region_receives(&export->layout));
	ibv_dereg_mr(export->mr);
	if (region_leave(region))
		region->transport->ops->region.destroy(region);
	free(export->rings);
	free(export);
}

/*
 * Refuse memory that may not be locked before it is reserved. If other threads
 * lock memory meanwhile, registration fails instead.
 */
int dfi__verbs_export_room(struct transport *transport, uint64_t size)
{
	return dfi__verbs_lock_room((const struct verbs *)transport, size);
}

int dfi__verbs_export(struct transport *transport, struct region *region,
    const struct ring_layout *layout)
{
	struct verbs *verbs = (struct verbs *)transport;
	struct verbs_export *export;
	int ret = layout->n_slots ? 0 : dfi__verbs_check_atomics(verbs);
	uint32_t i;

	if (ret < 0)
		return ret;
	ret = -ENOMEM;
	export = calloc(1, sizeof(*export));
	if (!export)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	export->rings = calloc(layout->n_rings, sizeof(export->rings[0]));
	if (!export->rings) {
		dfi__fail(-ENOMEM, "verbs: out of memory");
		goto free_new;
	}
	for (i = 0; i < layout->n_rings; i++)
		export->rings[i].link = NETWORK_NO_LINK;
	export->region = region;
	export->layout = *layout;
	export->mr = ibv_reg_mr(verbs->pd, region->base, region->name.size,
	    IBV_ACCESS_LOCAL_WRITE |
		(layout->n_slots ? IBV_ACCESS_REMOTE_WRITE
				 : IBV_ACCESS_REMOTE_ATOMIC));
	if (!export->mr) {
		ret = dfi__verbs_fail_register(
		    &verbs->device, region->name.size, errno);
		goto free_new;
	}
	export->base.transport = transport;
	export->base.name = region->name;
	memcpy(export->base.name.address, transport->address,
	    sizeof(transport->address));
	if (getrandom(&export->base.name.key, sizeof(export->base.name.key),
		0) != sizeof(export->base.name.key)) {
		ret = dfi__fail(-EIO, "getrandom: %s", strerror(errno));
		goto deregister;
	}
	dfi__verbs_receives_need(verbs, transport_region_receives(layout));
	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	export->next = verbs->exports;
	verbs->exports = export;
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
	region_add_export(region, &export->base);
	return 0;

deregister:
	ibv_dereg_mr(export->mr);
free_new:
	free(export->rings);
	free(export);
	return ret;
}

void dfi__verbs_put_export(struct verbs_export *export)
{
	if (!--export->n_links && export->closing)
		free_export(export);
}

bool dfi__verbs_leave_export(struct verbs_link *link)
{
	struct verbs_export *export = link->export;
	const struct ring_layout *layout = &export->layout;
	bool written;

	/* A word that many add to has no single writer. */
	if (!layout->n_slots) {
		dfi__verbs_put_export(export);
		return false;
	}
	dfi__verbs_take_ring((struct verbs *)export->base.transport, link);
	dfi__verbs_unpoll_ring((struct verbs *)export->base.transport, link);
	written = verbs_footer_state(export, link->ring,
		      layout_footer(layout, 0)) != link->first_state ||
	    verbs_footer_state(export, link->ring, layout->end_footer);
	export->rings[link->ring].link = NETWORK_NO_LINK;
	if (!written)
		atomic_set(&export->rings[link->ring].used, false);
	dfi__verbs_put_export(export);
	return written;
}

void dfi__verbs_unexport(struct export *base)
{
	struct verbs_export *export = (struct verbs_export *)base;
	struct verbs *verbs = (struct verbs *)export->base.transport;

	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	export->closing = true;
	if (!export->n_links)
		free_export(export);
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
}

enum ring_loss dfi__verbs_ring_lost(
    const struct export *base, uint32_t ring, uint64_t node)
{
	const struct verbs_export *export = (const struct verbs_export *)base;

	return network_ring_lost(&export->rings[ring], node);
}

const char *dfi__verbs_ring_why(
    const struct export *base, uint32_t ring, uint64_t node)
{
	const struct verbs_export *export = (const struct verbs_export *)base;

	return network_ring_why(&export->rings[ring], node);
}

void dfi__verbs_free_exports(struct verbs *verbs)
{
	while (verbs->exports)
		free_export(verbs->exports);
}
