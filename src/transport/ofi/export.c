/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's end of rings: regions that peers can write to, by a random key
 * that only those get who know the region's name; the fate of their rings; and
 * credits.
 */
#include "conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "fabric.h"

static void free_export(struct ofi_export *export)
{
	struct ofi *ofi = (struct ofi *)export->base.transport;
	struct region *region = export->region;
	struct ofi_export **at;

	for (at = &ofi->exports; *at != export; at = &(*at)->next)
		;
	*at = export->next;
	if (export->mr)
		(void)fi_close(&export->mr->fid);
	if (region_leave(region))
		region->transport->ops->region.destroy(region);
	free(export->rings);
	free(export);
}

/* Nothing is locked, and the memory is there already. */
int dfi__ofi_export_room(struct transport *transport, uint64_t size)
{
	(void)transport;
	(void)size;
	return 0;
}

/* Words are changed by messages only, so peers can't write them. */
static int register_region(struct ofi *ofi, struct ofi_export *export)
{
	struct region *region = export->region;
	uint64_t key;
	int ret;

	if (getentropy(&export->base.name.key, sizeof(key)) ||
	    getentropy(&key, sizeof(key)))
		return dfi__fail(-EIO, "getentropy: %s", strerror(errno));
	if (!export->layout.n_slots)
		return 0;
	ret = fi_mr_reg(ofi->domain, region->base, region->name.size,
	    FI_REMOTE_WRITE, 0, key, 0, &export->mr, NULL);
	return ret ? dfi__ofi_fail(ofi, "fi_mr_reg", ret) : 0;
}

/* A count of segments must follow from its low bits. */
static int check_layout(const struct ring_layout *layout)
{
	if (layout->n_slots < OFI_VALUE_MASK / 2)
		return 0;
	return dfi__fail(-EOPNOTSUPP,
	    "ofi: rings have %u segments, but at most %lu over libfabric",
	    layout->n_slots, (unsigned long)OFI_VALUE_MASK / 2);
}

int dfi__ofi_export(struct transport *transport, struct region *region,
    const struct ring_layout *layout)
{
	struct ofi *ofi = (struct ofi *)transport;
	struct ofi_export *export;
	int ret = check_layout(layout);
	uint32_t i;

	if (ret < 0)
		return ret;
	export = calloc(1, sizeof(*export));
	if (!export)
		return dfi__fail(-ENOMEM, "ofi: out of memory");
	export->rings = calloc(layout->n_rings, sizeof(export->rings[0]));
	if (!export->rings) {
		ret = dfi__fail(-ENOMEM, "ofi: out of memory");
		goto free_new;
	}
	for (i = 0; i < layout->n_rings; i++)
		export->rings[i].link = NETWORK_NO_LINK;
	export->region = region;
	export->layout = *layout;
	export->base.transport = transport;
	export->base.name = region->name;
	memcpy(export->base.name.address, transport->address,
	    sizeof(transport->address));
	ret = register_region(ofi, export);
	if (ret < 0)
		goto free_new;
	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	export->next = ofi->exports;
	ofi->exports = export;
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
	region_add_export(region, &export->base);
	return 0;

free_new:
	free(export->rings);
	free(export);
	return ret;
}

void dfi__ofi_put_export(struct ofi_export *export)
{
	if (!--export->n_links && export->closing)
		free_export(export);
}

bool dfi__ofi_leave_export(struct ofi_link *link)
{
	struct ofi_export *export = link->export;
	bool written = link->written;

	/* A word that many add to has no single writer. */
	if (export->layout.n_slots) {
		export->rings[link->ring].link = NETWORK_NO_LINK;
		if (!written)
			atomic_set(&export->rings[link->ring].used, false);
	}
	dfi__ofi_put_export(export);
	return written;
}

void dfi__ofi_unexport(struct export *base)
{
	struct ofi_export *export = (struct ofi_export *)base;
	struct ofi *ofi = (struct ofi *)export->base.transport;

	dfi__ofi_lock_poll(ofi);
	pthread_mutex_lock(&ofi->table);
	export->closing = true;
	if (!export->n_links)
		free_export(export);
	pthread_mutex_unlock(&ofi->table);
	lock_release(&ofi->poll);
}

enum ring_loss dfi__ofi_ring_lost(
    const struct export *base, uint32_t ring, uint64_t node)
{
	const struct ofi_export *export = (const struct ofi_export *)base;

	return network_ring_lost(&export->rings[ring], node);
}

const char *dfi__ofi_ring_why(
    const struct export *base, uint32_t ring, uint64_t node)
{
	const struct ofi_export *export = (const struct ofi_export *)base;

	return network_ring_why(&export->rings[ring], node);
}

void dfi__ofi_free_exports(struct ofi *ofi)
{
	while (ofi->exports)
		free_export(ofi->exports);
}

/* A write of no bytes: all is in its completion data. */
static void post_credit(
    struct ofi_link *link, uint64_t consumed, enum ring_closed closed)
{
	struct ofi_conn *conn = link->conn;
	ssize_t ret;

	if (atomic_peek(&conn->broken) || !conn->ep)
		return; /* the ring is lost; no error here */
	ret = fi_inject_writedata(conn->ep, NULL, 0,
	    ofi_data(link->to_link, OFI_DATA_CREDIT, closed, consumed), 0, 0,
	    link->credit_key);
	if (ret)
		dfi__ofi_break(conn, fi_strerror((int)-ret));
	atomic_fetch_add(&conn->sent, 1);
	ofi_count(&conn->ofi->counts.credits, 1);
}

int dfi__ofi_give_credit(struct region *region, struct export *base,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	struct ofi_export *export = (struct ofi_export *)base;
	struct ofi *ofi = (struct ofi *)export->base.transport;
	struct ofi_link *link;

	(void)region;
	(void)layout;
	if (!atomic_observe(&export->rings[ring].used))
		return 0;
	pthread_mutex_lock(&ofi->table);
	link = export->rings[ring].link == NETWORK_NO_LINK
	    ? NULL
	    : dfi__ofi_link(ofi, export->rings[ring].link);
	if (link)
		post_credit(link, consumed, closed);
	pthread_mutex_unlock(&ofi->table);
	return 1;
}
