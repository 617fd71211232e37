/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory to send from: shadow rings, and send buffers, which many remotes of a
 * writer share. A provider sends from any memory, so none is registered.
 */
#include "conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/reservation.h"
#include "fabric.h"

/* The rules, and the start of an error text: which provider it concerns. */
static struct send_memory_rules rules_of(const struct ofi *ofi, char what[160])
{
	snprintf(what, 160, "ofi: %s: memory to send from",
	    dfi__ofi_location(ofi).text);
	return (struct send_memory_rules){
		.what = what,
		.huge_pages = ofi->settings->huge_pages,
		.dump = ofi->settings->dump_rings,
	};
}

int dfi__ofi_room(struct transport *transport, uint64_t size, uint64_t locked)
{
	char what[160];
	struct send_memory_rules rules = rules_of(
	    (const struct ofi *)transport, what);

	(void)locked;
	return dfi__send_memory_room(&rules, size);
}

static int create(
    const struct ofi *ofi, uint64_t size, struct send_memory *memory)
{
	char what[160];
	struct send_memory_rules rules = rules_of(ofi, what);
	struct reservation reservation;
	int ret = -ENOMEM;

	if (dfi__send_memory_tries_huge(&rules, size))
		ret = dfi__send_memory_map(
		    &rules, size, SEND_PAGES_HUGE, memory, &reservation);
	if (ret < 0 && rules.huge_pages != HUGE_PAGES_REQUIRE)
		ret = dfi__send_memory_map(
		    &rules, size, SEND_PAGES_ORDINARY, memory, &reservation);
	if (ret < 0)
		return ret;
	memset(memory->at, 0, memory->size);
	dfi__reservation_end(&reservation);
	return 0;
}

/* ---- Send buffers ------------------------------------------------------ */

struct ofi_send_buffer {
	struct send_buffer base;
	struct send_memory memory;
	/* Remotes that may send from it, and 1 until its writer frees it. */
	_Atomic uint32_t users;
};

int dfi__ofi_send_buffer_create(
    struct transport *transport, uint64_t size, struct send_buffer **out)
{
	struct ofi_send_buffer *send_buffer = calloc(1, sizeof(*send_buffer));
	int ret;

	if (!send_buffer)
		return dfi__fail(-ENOMEM, "ofi: out of memory");
	ret = create((const struct ofi *)transport, size, &send_buffer->memory);
	if (ret < 0) {
		free(send_buffer);
		return ret;
	}
	send_buffer->base.transport = transport;
	send_buffer->base.at = send_buffer->memory.at;
	atomic_set(&send_buffer->users, 1);
	*out = &send_buffer->base;
	return 0;
}

void dfi__ofi_send_buffer_free(struct send_buffer *base)
{
	struct ofi_send_buffer *send_buffer = (struct ofi_send_buffer *)base;

	if (atomic_fetch_sub(&send_buffer->users, 1) > 1)
		return;
	dfi__send_memory_free(&send_buffer->memory);
	free(send_buffer);
}

/* ---- Shadow rings ------------------------------------------------------ */

int dfi__ofi_create_shadow(struct ofi *ofi, struct ofi_remote *remote)
{
	int ret = create(ofi,
	    transport_shadow_size(
		&remote->layout, remote->base.send_buffer != NULL),
	    &remote->shadow);

	if (ret < 0) {
		remote->base.send_buffer = NULL;
		return ret;
	}
	remote->base.ring = remote->shadow.at;
	if (remote->base.send_buffer)
		atomic_fetch_add(
		    &((struct ofi_send_buffer *)remote->base.send_buffer)
			 ->users,
		    1);
	return 0;
}

void dfi__ofi_free_shadow(struct ofi_remote *remote)
{
	if (remote->base.ring)
		dfi__send_memory_free(&remote->shadow);
	if (remote->base.send_buffer)
		dfi__ofi_send_buffer_free(remote->base.send_buffer);
}
