/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves segments of 8 KiB over RDMA, for instructions.sh, through a device made
 * by hand that takes work requests and completes them. The shadow ring is the
 * target's ring itself, so payloads need no copy, which the counts would be of
 * mostly. Fails if a segment takes another number of work requests or signalled
 * completions than it should.
 *
 * instructions_verbs [WAY]: with its name, only that one.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "buffers/reader.h"
#include "buffers/writer.h"
#include "count_this.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"

enum {
	SEGMENT = 8192,
	SEGMENTS = 32,        /* of the ring */
	BURST = SEGMENTS / 2, /* segments of a round */
	ROUNDS = 8,           /* four times through the ring */
	QP_NUM = 7,
	KEY = 12,
	INTERVAL = 32,
};

/* Completions that wait to be polled: arrivals, and those of sends. */
struct completions {
	struct ibv_wc wcs[2 * SEGMENTS];
	int n;
};

static struct ibv_cq arrivals_cq;
static struct completions arrivals, sends;
static uint32_t n_writes, n_credits, n_signalled;

static void complete(struct completions *queue, const struct ibv_wc *wc)
{
	if (queue->n == 2 * SEGMENTS)
		errx(1, "nobody takes completions");
	queue->wcs[queue->n++] = *wc;
}

static void send_one(const struct ibv_send_wr *wr)
{
	bool inlined = wr->send_flags & IBV_SEND_INLINE;
	uint32_t bytes = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++)
		bytes += wr->sg_list[i].length;
	/* A credit; other payloads are there already. */
	if (inlined && wr->opcode != IBV_WR_SEND)
		memcpy((void *)(uintptr_t)wr->wr.rdma.remote_addr,
		    (const void *)(uintptr_t)wr->sg_list[0].addr, bytes);
	if (inlined)
		n_credits++;
	else
		n_writes++;
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		complete(&arrivals,
		    &(struct ibv_wc){
			.status = IBV_WC_SUCCESS,
			.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
			.imm_data = wr->imm_data,
			.byte_len = bytes,
			.qp_num = QP_NUM,
		    });
	if (!(wr->send_flags & IBV_SEND_SIGNALED))
		return;
	n_signalled++;
	complete(&sends,
	    &(struct ibv_wc){ .status = IBV_WC_SUCCESS, .wr_id = wr->wr_id });
}

static int post_send(
    struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	for (; wr; wr = wr->next)
		send_one(wr);
	return 0;
}

static int post_receives(
    struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)wr;
	(void)bad;
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	struct completions *queue = cq == &arrivals_cq ? &arrivals : &sends;

	if (n > queue->n)
		n = queue->n;
	memcpy(wcs, queue->wcs, (size_t)n * sizeof(*wcs));
	queue->n -= n;
	memmove(queue->wcs, queue->wcs + n,
	    (size_t)queue->n * sizeof(queue->wcs[0]));
	return n;
}

static struct ibv_context context = {
	.ops = {
		.post_send = post_send,
		.poll_cq = poll_cq,
		.post_srq_recv = post_receives,
	},
};
static struct ibv_cq arrivals_cq = { .context = &context };
static struct ibv_cq sends_cq = { .context = &context };
static struct ibv_qp qp = { .context = &context, .qp_num = QP_NUM };
static struct ibv_srq receives = { .context = &context };
static struct ibv_mr mr;
static struct verbs_message messages[VERBS_RECEIVES];
static struct settings settings;
static struct verbs verbs;
static struct verbs_conn conn;
static struct verbs_export export;
static struct network_ring ring;
static struct verbs_link links[2];
static struct verbs_remote remote;
static struct region region;
static struct reader reader;
static struct writer writer;

static void check(int ret)
{
	if (ret < 0)
		errx(1, "%s", dfi_errmsg());
}

/* One connection serves both ends. */
static void start_device(void)
{
	pthread_mutex_init(&verbs.table, NULL);
	verbs.base.ops = &dfi__verbs_ops;
	verbs.settings = &settings;
	verbs.arrivals = &arrivals_cq;
	verbs.receives = &receives;
	verbs.messages = messages;
	verbs.messages_mr[0] = &mr;
	verbs.conns = &conn;
	verbs.links = links;
	verbs.n_links = 2;
	conn = (struct verbs_conn){
		.verbs = &verbs,
		.qp = &qp,
		.sends = &sends_cq,
		.accepted = true,
		.max_sends = 4 * INTERVAL,
		.max_inline = 64,
		.interval = INTERVAL,
	};
}

/* In the target's memory nobody looks for credit. */
static int give_no_credit(struct region *of, struct export *through,
    const struct ring_layout *layout, uint32_t number, uint64_t consumed,
    enum ring_closed closed)
{
	(void)of;
	(void)through;
	(void)layout;
	(void)number;
	(void)consumed;
	(void)closed;
	return 0;
}

static const struct transport_ops memory_ops = {
	.ring.give_credit = give_no_credit,
};
static struct transport memory = { .ops = &memory_ops };

static void start_target(const struct ring_geometry *g)
{
	uint64_t size = region_size(g, 1);

	region = (struct region){
		.transport = &memory,
		.base = aligned_alloc(2 * CACHE_LINE, size),
		.name.size = size,
		.exports = &export.base,
	};
	if (!region.base)
		err(1, "a region");
	memset(region.base, 0, size);
	ring = (struct network_ring){ .link = NETWORK_NO_LINK };
	export = (struct verbs_export){
		.base = { .transport = &verbs.base, .name.key = KEY },
		.region = &region,
		.rings = &ring,
		.mr = &mr,
		.layout = ring_layout(g, 1),
	};
	export.layout.first_footer[1] = footer_state(UINT64_MAX, 0, 0);
	verbs.exports = &export;
	dfi__region_init(&region);
	dfi__reader_init(&reader, &region, g, 1, 0, 0);
}

/* The source's link is the second; the target takes the first for its end. */
static void start_source(
    const struct ring_geometry *g, enum verbs_notify notify)
{
	char *base = (char *)region.base + export.layout.first_ring;

	links[0] = (struct verbs_link){ .conn = NULL };
	links[1] = (struct verbs_link){ .conn = &conn, .remote = &remote };
	remote = (struct verbs_remote){
		.base = { .transport = &verbs.base, .ring = base },
		.conn = &conn,
		.layout = export.layout,
		.shadow.mr = &mr,
		.notify = notify,
		.address = (uintptr_t)base,
	};
	settings.verbs_notify = notify;
	messages[0] = (struct verbs_message){
		.type = VERBS_OPEN,
		.link = 1,
		.key = KEY,
		.address = (uintptr_t)base,
		.size = g->ring_size,
	};
	complete(&arrivals,
	    &(struct ibv_wc){
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = sizeof(messages[0]),
		.qp_num = QP_NUM,
	    });
	dfi__verbs_take(&verbs);
	if (ring.link != 0)
		errx(1, "the ring was not opened");
	dfi__writer_init(&writer, &remote.base, g, 0);
}

static void write_segments(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (writer_open(&writer) != 1)
			errx(1, "the ring is full");
		check(dfi__writer_publish(&writer, SEGMENT));
	}
}

/* With the credits for the source, which it takes here. */
static void take_segments(uint32_t n)
{
	const char *payload;
	uint64_t bytes;

	for (uint32_t i = 0; i < n; i++) {
		while (!reader_ready(&reader))
			dfi__verbs_progress(&verbs.base, 1);
		check(reader_take(&reader, &payload, &bytes));
		if (bytes != SEGMENT)
			errx(
			    1, "a segment has %lu bytes", (unsigned long)bytes);
		check(reader_release(&reader));
	}
	dfi__verbs_progress(&verbs.base, 1);
}

struct way {
	const char *name;
	enum verbs_notify notify;
	bool takes; /* count the target's work, not the source's */
};

static const struct way ways[] = {
	{ "write, immediate data", VERBS_NOTIFY_IMM, false },
	{ "take, immediate data", VERBS_NOTIFY_IMM, true },
	{ "write, in order", VERBS_NOTIFY_FOOTER, false },
	{ "take, in order", VERBS_NOTIFY_FOOTER, true },
	{ "write, checksum", VERBS_NOTIFY_CHECKSUM, false },
	{ "take, checksum", VERBS_NOTIFY_CHECKSUM, true },
};

/* A work request for each segment, and one for each quarter of a ring. */
static void expect_requests(const struct way *way, uint32_t n, uint64_t before)
{
	uint32_t credits = n / (SEGMENTS / 4);
	uint32_t signalled = (uint32_t)((before + n + credits) / INTERVAL -
	    before / INTERVAL);

	if (n_writes != n || n_credits != credits || n_signalled != signalled)
		errx(1,
		    "%s: %u segments took %u writes, %u credits instead of %u, "
		    "and %u signalled requests instead of %u",
		    way->name, n, n_writes, n_credits, credits, n_signalled,
		    signalled);
}

static void run_rounds(const struct way *way, uint32_t n_rounds)
{
	uint64_t before = conn.posted;

	n_writes = n_credits = n_signalled = 0;
	for (uint32_t i = 0; i < n_rounds; i++) {
		if (way->takes) {
			write_segments(BURST);
			count_this(take_segments, BURST);
		} else {
			count_this(write_segments, BURST);
			take_segments(BURST);
		}
	}
	count_ends();
	expect_requests(way, n_rounds * BURST, before);
}

static void run(const struct way *way)
{
	struct ring_geometry g = ring_geometry(64, SEGMENT, SEGMENTS);

	start_device();
	start_target(&g);
	start_source(&g, way->notify);
	run_rounds(way, ROUNDS);
	run_rounds(way, ROUNDS);
	run_rounds(way, 2 * ROUNDS);
	printf("%u\tsegment\t%s\n", ROUNDS * BURST, way->name);
	verbs.n_polled = 0;
	arrivals.n = sends.n = 0;
	free(region.base);
}

int main(int argc, char **argv)
{
	count_begins();
	for (uint32_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (argc < 2 || strcmp(argv[1], ways[i].name) == 0)
			run(&ways[i]);
	return fflush(stdout) || ferror(stdout);
}
