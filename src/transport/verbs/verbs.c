/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport's operations on memory: exports, which are registered regions,
 * and remotes, whose segments are sent from an image of a peer's ring.
 */
#include "verbs.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/fence.h"
#include "base/fork_files.h"
#include "base/loop.h"
#include "base/settings.h"

/*
 * What keeps the device's queue pairs: a forked child can't use them, but would
 * have them answer for a process that has died. The descriptors of the device
 * are those of all contexts here.
 */
#define N_FILES 5

static void list_files(const struct verbs *verbs, int fds[N_FILES])
{
	fds[0] = verbs->device.context->cmd_fd;
	fds[1] = verbs->device.context->async_fd;
	fds[2] = verbs->channel->fd;
	fds[3] = verbs->hold->channel->fd;
	fds[4] = verbs->cm->fd;
}

static void keep_files(const struct verbs *verbs)
{
	int fds[N_FILES], i;

	list_files(verbs, fds);
	for (i = 0; i < N_FILES; i++)
		dfi__fork_remove(fds[i]);
}

static int close_files_in_children(const struct verbs *verbs)
{
	int fds[N_FILES], i, ret = 0;

	list_files(verbs, fds);
	for (i = 0; !ret && i < N_FILES; i++)
		ret = dfi__fork_add(fds[i]);
	if (ret < 0)
		while (--i > 0)
			dfi__fork_remove(fds[i - 1]);
	return ret;
}

static int verbs_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **transport)
{
	struct verbs *verbs = calloc(1, sizeof(*verbs));
	pthread_condattr_t attr;
	int ret;

	if (!verbs)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	verbs->base.ops = &dfi__verbs_ops;
	verbs->loop = loop;
	verbs->settings = settings;
	verbs->self = *self;
	pthread_mutex_init(&verbs->table, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&verbs->answered, &attr);
	pthread_condattr_destroy(&attr);
	dfi__fence_setup();
	/* Has no effect, and is not needed, where fork() copies pinned pages.
	 */
	ibv_fork_init();
	ret = dfi__verbs_choose(settings, self->route_to, &verbs->device);
	if (ret < 0)
		goto free_verbs;
	ret = dfi__verbs_hold(verbs);
	if (ret < 0)
		goto free_verbs;
	verbs->pd = ibv_alloc_pd(verbs->device.context);
	if (!verbs->pd) {
		ret = dfi__verbs_fail_port(
		    &verbs->device, "a protection domain", errno);
		goto let_go;
	}
	ret = dfi__verbs_arrivals_start(verbs);
	if (ret < 0)
		goto free_pd;
	ret = dfi__verbs_breaks_start(verbs);
	if (ret < 0)
		goto stop_arrivals;
	ret = dfi__verbs_events_start(verbs);
	if (ret < 0)
		goto stop_breaks;
	ret = dfi__verbs_listen(verbs);
	if (ret < 0)
		goto stop_events;
	ret = close_files_in_children(verbs);
	if (ret < 0)
		goto unlisten;
	*transport = &verbs->base;
	return 0;

unlisten:
	dfi__verbs_unlisten(verbs);
stop_events:
	dfi__verbs_events_stop(verbs);
stop_breaks:
	dfi__verbs_breaks_stop(verbs);
stop_arrivals:
	dfi__verbs_arrivals_stop(verbs);
free_pd:
	ibv_dealloc_pd(verbs->pd);
let_go:
	rdma_destroy_id(verbs->hold);
free_verbs:
	pthread_cond_destroy(&verbs->answered);
	pthread_mutex_destroy(&verbs->table);
	free(verbs);
	return ret;
}

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
	region->transport->ops->region.destroy(region);
	free(export->rings);
	free(export);
}

static void verbs_stop(struct transport *transport)
{
	struct verbs *verbs = (struct verbs *)transport;
	uint32_t i;

	keep_files(verbs);
	dfi__verbs_see_off(verbs);
	dfi__verbs_arrivals_quiet(verbs);
	dfi__verbs_breaks_quiet(verbs);
	dfi__verbs_unlisten_quiet(verbs);
	dfi__verbs_drain_all(verbs);
	dfi__verbs_events_stop(verbs);
	dfi__verbs_unlisten(verbs);
	/* Remotes whose owner has not said CLOSED. */
	for (i = 0; i < verbs->n_links; i++)
		if (verbs->links[i].remote)
			dfi__verbs_free_remote(verbs->links[i].remote);
	while (verbs->exports)
		free_export(verbs->exports);
	dfi__verbs_breaks_stop(verbs);
	dfi__verbs_arrivals_stop(verbs);
	ibv_dealloc_pd(verbs->pd);
	rdma_destroy_id(verbs->hold);
	free(verbs->links);
	free(verbs->polled);
	pthread_cond_destroy(&verbs->answered);
	pthread_mutex_destroy(&verbs->table);
	free(verbs);
}

static int verbs_remote_room(
    struct transport *transport, uint64_t size, uint64_t locked)
{
	const struct verbs *verbs = (const struct verbs *)transport;

	return dfi__verbs_room(
	    verbs, size, locked, verbs->settings->huge_pages);
}

/*
 * What may not be locked is refused before it is reserved; what other threads
 * lock meanwhile is found when it is registered.
 */
static int verbs_export_room(struct transport *transport, uint64_t size)
{
	return dfi__verbs_lock_room((const struct verbs *)transport, size);
}

static int verbs_export(struct transport *transport, struct region *region,
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
		export->rings[i].link = NO_LINK;
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
	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	dfi__verbs_receives_need(verbs, transport_region_receives(layout));
	export->next = verbs->exports;
	verbs->exports = export;
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
	region->export = &export->base;
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

	/* Of words that many add to, nobody is the writer. */
	if (!layout->n_slots) {
		dfi__verbs_put_export(export);
		return false;
	}
	dfi__verbs_take_ring((struct verbs *)export->base.transport, link);
	dfi__verbs_unpoll_ring((struct verbs *)export->base.transport, link);
	written = verbs_footer_state(export, link->ring,
		      layout->first_slot + layout->shape.footer_offset) !=
		link->first_state ||
	    verbs_footer_state(export, link->ring, layout->end_footer);
	export->rings[link->ring].link = NO_LINK;
	if (!written)
		atomic_set(&export->rings[link->ring].used, false);
	dfi__verbs_put_export(export);
	return written;
}

static void verbs_unexport(struct region *region)
{
	struct verbs_export *export = (struct verbs_export *)region->export;
	struct verbs *verbs = (struct verbs *)export->base.transport;

	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	export->closing = true;
	if (!export->n_links)
		free_export(export);
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
}

/*
 * Who came in its place may write through memory, and so open no ring here. But
 * nobody may in place of who has written.
 */
static enum ring_loss verbs_ring_lost(
    const struct export *base, uint32_t ring, uint64_t node)
{
	const struct verbs_export *export = (const struct verbs_export *)base;
	const struct verbs_ring *at = &export->rings[ring];
	uint32_t lost = atomic_observe(&at->lost);

	return lost == RING_LOST_UNWRITTEN && node && at->writer != node
	    ? RING_KEPT
	    : (enum ring_loss)lost;
}

static const char *verbs_ring_why(
    const struct export *base, uint32_t ring, uint64_t node)
{
	const struct verbs_export *export = (const struct verbs_export *)base;
	const char *why = export->rings[ring].why;

	return verbs_ring_lost(base, ring, node) && why[0] ? why : NULL;
}

static const char *verbs_remote_why(const struct remote *remote)
{
	return dfi__verbs_why(((const struct verbs_remote *)remote)->conn);
}

void dfi__verbs_free_remote(struct verbs_remote *remote)
{
	struct verbs *verbs = (struct verbs *)remote->base.transport;

	if (remote->link != NO_LINK) {
		verbs->links[remote->link] = (struct verbs_link){
			.conn = NULL,
		};
		dfi__verbs_receives_spare(verbs, TRANSPORT_RING_RECEIVES);
	}
	dfi__verbs_free_shadow(remote);
	free(remote);
}

/*
 * Return the connection, and free the remote; if it was opened, only when the
 * owner has answered that it gives no more credits.
 */
static void leave_conn(
    struct verbs *verbs, struct verbs_remote *remote, bool opened)
{
	struct verbs_message message = { .type = VERBS_CLOSE };
	struct verbs_conn *conn = remote->conn;
	uint64_t one = 1;

	/* The image goes, from which the queue pair may still send. */
	if (opened && conn->completed < remote->last)
		(void)dfi__verbs_poll_sends(conn);
	if (opened && conn->completed < remote->last)
		dfi__verbs_break(conn, "a ring was left in the middle");
	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	message.link = remote->link;
	message.to_link = remote->to_link; /* may come late, if not opened */
	/* Under the lock, because the answer may come at once. */
	remote->closing = opened && !dfi__verbs_send(conn, &message);
	if (!--conn->n_remotes)
		conn->writer = NULL;
	if (!remote->closing || atomic_peek(&remote->base.lost))
		dfi__verbs_free_remote(remote);
	/* The control thread frees it. */
	if (atomic_peek(&conn->broken) && !conn->writer)
		(void)!write(verbs->breaks, &one, sizeof(one));
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
}

int dfi__verbs_lost(const struct verbs_remote *remote)
{
	const char *why = dfi__verbs_why(remote->conn);

	return dfi__fail(-ECONNRESET, "verbs: the connection with %s broke: %s",
	    remote->conn->peer, why ? why : "the peer has gone");
}

static int opening_failed(
    const struct verbs_remote *remote, uint32_t ring, int err)
{
	const char *peer = remote->conn->peer;
	struct verbs_place place = dfi__verbs_gid(&remote->conn->verbs->device);

	if (err == -ECONNRESET && atomic_observe(&remote->conn->broken))
		return dfi__verbs_lost(remote);
	switch (err) {
	case -EEXIST:
		return dfi__fail(err,
		    "verbs: %s: ring %u at %s has had a writer: a flow runs "
		    "once",
		    place.text, ring, peer);
	case -EBUSY:
		return dfi__fail(err,
		    "verbs: %s: the connection with %s has the counter open "
		    "already: it may be opened once over each",
		    place.text, peer);
	case -ECONNRESET:
		return dfi__fail(err, "verbs: %s: %s has closed the region",
		    place.text, peer);
	case -ETIMEDOUT:
		return dfi__fail(err,
		    "verbs: %s: %s did not answer the request for ring %u",
		    place.text, peer, ring);
	default:
		return dfi__fail(err,
		    "verbs: %s: %s refused to open ring %u: %s", place.text,
		    peer, ring, strerror(-err));
	}
}

/* How often who waits for an answer looks whether the request has failed. */
#define ANSWER_CHECK_NS (INT64_C(100) * NS_PER_MS)

/* What the owner says; the request may find that the connection is broken. */
static int await_answer(struct verbs *verbs, const struct verbs_remote *remote,
    const struct wait_limit *wait_limit)
{
	int64_t deadline = wait_limit->deadline;
	bool given_up = false;
	struct timespec until;
	int64_t now;
	int ret;

	pthread_mutex_lock(&verbs->table);
	while (!remote->opened && !given_up) {
		now = clock_now_ns();
		if (now >= deadline)
			break;
		until = deadline_timespec(now + ANSWER_CHECK_NS < deadline
			? now + ANSWER_CHECK_NS
			: deadline);
		pthread_cond_timedwait(&verbs->answered, &verbs->table, &until);
		(void)dfi__verbs_poll_sends(remote->conn);
		given_up = wait_limit_given_up(wait_limit);
	}
	ret = remote->opened ? remote->opened : -ETIMEDOUT;
	pthread_mutex_unlock(&verbs->table);
	return ret;
}

/* Ask the owner for the ring, and wait for the answer. */
static int open_ring(struct verbs *verbs, struct verbs_remote *remote,
    const struct region_name *name, uint32_t ring,
    const struct wait_limit *wait_limit)
{
	struct verbs_message message = {
		.type = VERBS_OPEN,
		.link = remote->link,
		.key = name->key,
		.address = (uintptr_t)remote->base.ring,
		.size = remote->layout.ring_size,
		.rkey = remote->image.mr->rkey,
		.ring = ring,
	};
	int ret = dfi__verbs_send(remote->conn, &message);

	/* No word is set: the answer is a message, which wakes in any case. */
	dfi__verbs_arm(&verbs->base);
	if (!ret) {
		ret = await_answer(verbs, remote, wait_limit);
		/*
		 * The owner may still open the ring, and write credits into the
		 * image that is freed now; its answer may find the link in
		 * other hands. So this connection is done with.
		 */
		if (ret == -ETIMEDOUT)
			dfi__verbs_break(remote->conn, "no answer");
	}
	return ret < 0 ? opening_failed(remote, ring, ret) : 0;
}

static uint32_t take_link(struct verbs *verbs, struct verbs_remote *remote)
{
	uint32_t number;

	dfi__verbs_lock_poll(verbs);
	pthread_mutex_lock(&verbs->table);
	number = dfi__verbs_link_take(verbs, remote->conn);
	if (number != NO_LINK) {
		verbs->links[number].remote = remote;
		dfi__verbs_receives_need(verbs, TRANSPORT_RING_RECEIVES);
	}
	pthread_mutex_unlock(&verbs->table);
	lock_release(&verbs->poll);
	return number;
}

/*
 * Once, over a connection that there is or a new one. *stale: it was one that
 * had been used before, and was found broken now.
 */
static int open_once(struct verbs *verbs, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct stage *stage, const struct wait_limit *wait_limit,
    bool *stale, struct remote **out)
{
	struct verbs_remote *remote = calloc(1, sizeof(*remote));
	bool used;
	int ret;

	*stale = false;
	if (!remote)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	remote->base.transport = &verbs->base;
	remote->base.stage = stage;
	remote->layout = *layout;
	remote->link = NO_LINK;
	ret = dfi__verbs_connect(
	    verbs, writer, name->address, wait_limit, &remote->conn);
	if (ret < 0) {
		free(remote);
		return ret;
	}
	remote->base.queue = remote->conn;
	/* By others; this writer's rings would be lost with it. */
	used = remote->conn->posted && remote->conn->n_remotes == 1;
	ret = dfi__verbs_create_shadow(verbs, remote);
	if (ret < 0)
		goto leave;
	remote->link = take_link(verbs, remote);
	if (remote->link == NO_LINK) {
		ret = dfi__fail(-ENOMEM, "verbs: out of memory");
		goto leave;
	}
	ret = open_ring(verbs, remote, name, ring, wait_limit);
	if (ret < 0)
		goto leave;
	*out = &remote->base;
	return 0;

leave:
	*stale = used && ret == -ECONNRESET &&
	    atomic_peek(&remote->conn->broken);
	leave_conn(verbs, remote, false);
	return ret;
}

/*
 * A connection that lay idle may have broken without anybody noticing. Its end
 * says nothing about the peer: a new one does.
 */
static int verbs_remote_open(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct stage *stage, const struct wait_limit *wait_limit,
    struct remote **out)
{
	struct verbs *verbs = (struct verbs *)transport;
	char broke[256];
	bool stale, again = false;
	int ret = layout->n_slots ? 0 : dfi__verbs_check_atomics(verbs);

	if (ret < 0)
		return ret;
	for (;;) {
		ret = open_once(verbs, writer, name, layout, ring, stage,
		    wait_limit, &stale, out);
		if (!stale)
			break;
		again = true;
		snprintf(broke, sizeof(broke), "%s", dfi_errmsg());
	}
	/* It may have had us as the writer, and not know that we are gone. */
	if (ret == -EEXIST && again)
		return dfi__fail(-ECONNRESET, "%s", broke);
	return ret;
}

static void verbs_remote_close(struct remote *base)
{
	struct verbs *verbs = (struct verbs *)base->transport;

	leave_conn(verbs, (struct verbs_remote *)base, true);
}

/* A part of the ring's image, to be sent. */
static struct ibv_sge part_of(
    const struct verbs_remote *remote, uint64_t offset, uint64_t size)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)remote->base.ring + offset,
		.length = (uint32_t)size,
		.lkey = remote->image.mr->lkey,
	};
}

/* The payload of a segment, and maybe what is behind it, to be sent. */
static struct ibv_sge payload_of(const struct verbs_remote *remote,
    const struct transport_write *write, uint64_t size)
{
	if (!remote->base.stage)
		return part_of(remote, write->payload_offset, size);
	return (struct ibv_sge){
		.addr = (uintptr_t)write->staged,
		.length = (uint32_t)size,
		.lkey = remote->stage_key,
	};
}

/* One write of parts of the image to an offset in the ring, which is counted.
 */
static always_inline int post_write(struct verbs_remote *remote,
    uint64_t offset, struct ibv_sge *parts, int n, const enum verbs_imm *imm,
    bool more)
{
	struct verbs_conn *conn = remote->conn;
	struct ibv_send_wr *wr = &remote->request;
	uint64_t size = parts[0].length + (n > 1 ? parts[1].length : 0);

	wr->sg_list = parts;
	wr->num_sge = n;
	wr->opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	if (imm)
		wr->imm_data = htobe32(
		    remote->to_link << VERBS_IMM_BITS | *imm);
	wr->wr.rdma.remote_addr = remote->address + offset;
	wr->wr.rdma.rkey = remote->rkey;
	wr->send_flags = 0;
	verbs_count(&conn->counts.writes, 1);
	verbs_count(&conn->counts.bytes, size);
	if (size <= conn->max_inline) {
		wr->send_flags = IBV_SEND_INLINE;
		verbs_count(&conn->counts.inline_writes, 1);
	}
	if (unlikely(more))
		return dfi__verbs_post_later(conn, wr);
	return verbs_post(conn, wr, imm && *imm == VERBS_IMM_END);
}

/* With immediate data the payload is enough. */
static int post_payload(
    struct verbs_remote *remote, const struct transport_write *write)
{
	static const enum verbs_imm imm = VERBS_IMM_SEGMENT;
	struct ibv_sge part = payload_of(remote, write, write->payload_size);

	return post_write(
	    remote, write->payload_offset, &part, 1, &imm, write->more);
}

/* Where the footer of a segment lies, to be sent: all have their own. */
static uint64_t footer_in_image(
    const struct verbs_remote *remote, uint64_t offset)
{
	const struct ring_layout *layout = &remote->layout;

	if (!remote->base.stage || offset < layout->first_slot)
		return offset;
	return layout->first_slot +
	    (offset - layout->first_slot) / layout->slot_size *
	    sizeof(struct segment_footer);
}

/*
 * The footer goes into the image, to be sent from there, with this state. Its
 * offset there.
 */
static uint64_t put_footer(const struct verbs_remote *remote,
    const struct transport_write *write, uint64_t state)
{
	uint64_t offset = footer_in_image(remote, write->footer_offset);
	uint64_t *footer = (uint64_t *)(void *)(remote->base.ring + offset);

	footer[0] = write->footer[0];
	footer[1] = state;
	return offset;
}

/* The same of a segment's, with a checksum where that is the way. */
static inline uint64_t put_segment_footer(const struct verbs_remote *remote,
    const struct transport_write *write, uint64_t flags)
{
	uint64_t offset = put_footer(remote, write, write->footer[1] | flags);

	if (remote->notify == VERBS_NOTIFY_CHECKSUM)
		dfi__verbs_seal(remote->base.stage
			? write->staged
			: remote->base.ring + write->payload_offset,
		    write->payload_size,
		    (uint64_t *)(void *)(remote->base.ring + offset));
	return offset;
}

/*
 * A target that polls footers needs both in one work request, as devices keep
 * the order within one write only (docs/decisions/0018-partial-segments.md). So
 * the payload of a partial segment moves to its footer on the way; some bytes
 * behind it fill the last cache line.
 */
static int post_with_footer(
    struct verbs_remote *remote, const struct transport_write *write)
{
	uint64_t room = write->footer_offset - write->payload_offset;
	uint64_t at = verbs_payload_at(room, write->payload_size);
	uint64_t footer = put_segment_footer(
	    remote, write, unlikely(at) ? FOOTER_FLAG_SHIFTED : 0);
	struct ibv_sge parts[2];
	int n = 2;

	parts[0] = payload_of(remote, write, room - at);
	if (likely(!at && !remote->base.stage)) {
		parts[0].length += sizeof(write->footer);
		n = 1;
	} else {
		parts[1] = part_of(remote, footer, sizeof(write->footer));
	}
	return post_write(
	    remote, write->payload_offset + at, parts, n, NULL, write->more);
}

/*
 * The end mark comes with immediate data in any case: so it can't overtake a
 * segment.
 */
static int post_end(
    struct verbs_remote *remote, const struct transport_write *write)
{
	static const enum verbs_imm imm = VERBS_IMM_END;
	struct ibv_sge part = part_of(remote,
	    put_footer(remote, write, footer_hold(write->footer[1])),
	    sizeof(write->footer));

	return post_write(remote, write->footer_offset, &part, 1, &imm, false);
}

/* A writer takes some of what has arrived each so many writes. */
#define TAKE_WRITES 16

static int verbs_write(struct remote *base, const struct transport_write *write)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;
	int ret;

	if (unlikely(!write->payload_size))
		ret = post_end(remote, write);
	else if (remote->notify == VERBS_NOTIFY_IMM)
		ret = post_payload(remote, write);
	else
		ret = post_with_footer(remote, write);
	if (unlikely(ret)) {
		remote->unsent = true;
		return dfi__verbs_lost(remote);
	}
	remote->last = remote->conn->posted;
	/* Credits that a source does not wait for take receives, too. */
	if (remote->last % TAKE_WRITES == 0)
		dfi__verbs_take_some((struct verbs *)base->transport);
	return 0;
}

static void verbs_post_remote(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;

	if (dfi__verbs_post_held(remote->conn))
		remote->unsent = true;
}

/*
 * Whether the connection has room for all segments that its writer may have
 * open, so that sending one needs no waiting.
 */
static bool has_room(const struct verbs_conn *conn)
{
	uint64_t under_way = conn->posted - conn->completed;
	uint64_t open = 2 * (uint64_t)conn->n_remotes;

	return under_way + min_u64(open, conn->max_sends / 2) < conn->max_sends;
}

/*
 * That the target has given the slot back proves that its write arrived, before
 * its completion does. Should the acknowledgement be lost, the queue pair sends
 * it again, whatever the slot holds by then; but the target's drops what it has
 * had (InfiniBand C9-105), and so does TCP below iWARP.
 */
static int verbs_slot_is_free(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;
	struct verbs_conn *conn = remote->conn;
	bool broken = atomic_peek(&conn->broken);

	if (likely(!broken && has_room(conn)))
		return 1;
	if (broken || dfi__verbs_poll_sends(conn))
		return dfi__verbs_lost(remote);
	return has_room(conn);
}

static void verbs_arm_remote(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;

	ibv_req_notify_cq(remote->conn->sends, 0);
	/*
	 * Who waits for a number from a word learns by that whether the peer is
	 * there. A probe would do harm: whenever something is acknowledged,
	 * soft-RoCE puts off sending again what is not (the kernel's
	 * rxe_comp.c, retrans_timer), and nothing else acknowledges a number.
	 * So once its answer is lost twice, probes would put it off for ever.
	 */
	if (remote->layout.n_slots)
		dfi__verbs_probe(remote->conn);
	dfi__verbs_arm(base->transport);
}

/* The clock is read once in so many looks of one who spins. */
#define PROBE_WAITS 4096

static int verbs_remote_progress(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;

	dfi__verbs_progress(base->transport, 1);
	if (++remote->waits % PROBE_WAITS == 0)
		dfi__verbs_probe(remote->conn);
	if (atomic_peek(&remote->conn->broken) ||
	    dfi__verbs_poll_sends(remote->conn))
		return dfi__verbs_lost(remote);
	return 0;
}

static int verbs_drained(struct remote *base)
{
	struct verbs_remote *remote = (struct verbs_remote *)base;

	int ret;

	/*
	 * The end mark is signalled if it was posted; else what came before it
	 * may never complete.
	 */
	if (remote->unsent)
		return dfi__verbs_lost(remote);
	ret = dfi__verbs_poll_sends(remote->conn);
	/* What failed may be another ring's, or came later. */
	if (remote->conn->completed >= remote->last)
		return 1;
	/* After a device's or queue's failure nothing completes any more. */
	return ret || dfi__verbs_why(remote->conn) ? dfi__verbs_lost(remote)
						   : 0;
}

static const struct mcast_ops verbs_mcast_ops = {
	.size = dfi__verbs_multicast_size,
	.bytes = dfi__verbs_multicast_bytes,
	.room = dfi__verbs_multicast_room,
	.open = dfi__verbs_multicast_open,
};

const struct transport_ops dfi__verbs_ops = {
	.name = "verbs",
	.start = verbs_start,
	.stop = verbs_stop,
	.reaches = dfi__verbs_reaches,
	.progress = dfi__verbs_progress,
	.settle = dfi__verbs_settle,
	.arm = dfi__verbs_arm,
	.describe = dfi__verbs_describe,
	.query = dfi__verbs_query,
	.region.export_room = verbs_export_room,
	.region.export = verbs_export,
	.region.unexport = verbs_unexport,
	.ring.stage_create = dfi__verbs_stage_create,
	.ring.stage_free = dfi__verbs_stage_free,
	.ring.room = verbs_remote_room,
	.ring.open = verbs_remote_open,
	.ring.close = verbs_remote_close,
	.ring.write = verbs_write,
	.ring.post = verbs_post_remote,
	.ring.give_credit = dfi__verbs_give_credit,
	.ring.slot_is_free = verbs_slot_is_free,
	.ring.drained = verbs_drained,
	.ring.lost = verbs_ring_lost,
	.ring.writer_why = verbs_ring_why,
	.ring.owner_why = verbs_remote_why,
	.ring.progress = verbs_remote_progress,
	.ring.arm = verbs_arm_remote,
	.counter.add = dfi__verbs_add,
	.counter.added = dfi__verbs_added,
	.mcast = &verbs_mcast_ops,
};
