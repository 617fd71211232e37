/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Segments whose footers have checksums, over a device made by hand: it keeps
 * posted requests, and their bytes reach the target's ring when the test says
 * so, in any order.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <dfi/error.h>

#include "buffers/reader.h"
#include "buffers/writer.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/checksum.h"
#include "transport/verbs/data/message.h"
#include "transport/verbs/data/ring.h"

enum {
	SEGMENTS = 4,
	LARGEST = 16384,
	QP_NUM = 7,
	KEY = 12,
};

/* Segments and tuples, for rings that have been in use for long. Each byte has
 * its top bit set. */
#define FIRST UINT64_C(0x8182838485868788)
#define TOTAL UINT64_C(0xf1f2f3f4f5f6f7f8)

/* What was posted last. */
static struct {
	uint64_t address;
	uint32_t size;
	bool immediate;
	char bytes[LARGEST];
} sent;

static char tuples[LARGEST];  /* of the last segment */
static struct ibv_wc done[8]; /* the next completion at the target */
static int n_done;
static uint32_t n_polls;

static int post_send(
    struct ibv_qp *to, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	int i;

	(void)to;
	(void)bad;
	sent.address = wr->wr.rdma.remote_addr;
	sent.immediate = wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	sent.size = 0;
	for (i = 0; i < wr->num_sge; i++) {
		cr_assert_leq(sent.size + wr->sg_list[i].length, LARGEST);
		memcpy(sent.bytes + sent.size,
		    (const void *)(uintptr_t)wr->sg_list[i].addr,
		    wr->sg_list[i].length);
		sent.size += wr->sg_list[i].length;
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	(void)cq;
	n_polls++;
	if (n > n_done)
		n = n_done;
	memcpy(wcs, done, (size_t)n * sizeof(*wcs));
	n_done = 0;
	return n;
}

static struct ibv_context context = {
	.ops = { .post_send = post_send, .poll_cq = poll_cq },
};
static struct ibv_cq queue = { .context = &context };
static struct ibv_qp qp = { .context = &context, .qp_num = QP_NUM };
static struct ibv_mr mr;
static const struct settings settings = {
	.verbs_notify = VERBS_NOTIFY_CHECKSUM,
};
static struct verbs_message message;
static struct verbs verbs;
static struct verbs_conn conn;
static struct verbs_export export;
static struct network_ring ring;
static struct verbs_link links[1];
static struct verbs_remote remote;
static struct region region;
static struct reader reader;
static struct writer writer;
static uint64_t random_state;
static uint64_t first, total; /* sent before */
static uint32_t n_taken;

static uint32_t random_below(uint32_t n)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1;
	return (uint32_t)(random_state >> 33) % n;
}

static void *zeroed(uint64_t bytes)
{
	void *at = aligned_alloc(2 * CACHE_LINE,
	    align_up(bytes + TRANSPORT_SEND_BUFFER_PAD, 2 * CACHE_LINE));

	cr_assert_not_null(at);
	memset(at, 0, bytes);
	return at;
}

/* The result of waking a sleeping reader for a segment. */
static void (*when_taken)(void);

void __wrap_dfi__wait_wake(_Atomic uint32_t *word);
void __real_dfi__wait_wake(_Atomic uint32_t *word);

void __wrap_dfi__wait_wake(_Atomic uint32_t *word)
{
	if (when_taken)
		when_taken();
	else
		__real_dfi__wait_wake(word);
}

/* A ring at the target. */
static void start_target(const struct ring_geometry *g)
{
	region.base = zeroed(region_size(g, 1));
	region.name.size = region_size(g, 1);
	region.exports = &export.base;
	dfi__region_init(&region);
	dfi__reader_init(&reader, &region, g, 1, 0, first);
	atomic_set(&reader.total, total);

	pthread_mutex_init(&verbs.table, NULL);
	verbs.base.ops = &dfi__verbs_ops;
	verbs.settings = &settings;
	verbs.arrivals = &queue;
	verbs.messages = &message;
	verbs.conns = &conn;
	verbs.links = links;
	verbs.n_links = 1;
	conn = (struct verbs_conn){
		.verbs = &verbs,
		.qp = &qp,
		.sends = &queue,
		.accepted = true,
		.max_sends = 4096,
		.interval = 32,
	};
	ring.link = NETWORK_NO_LINK;
	export.base.transport = &verbs.base;
	export.base.name.key = KEY;
	export.region = &region;
	export.rings = &ring;
	export.mr = &mr;
	export.layout = ring_layout(g, 1);
	export.layout.first_footer[0] = total;
	export.layout.first_footer[1] = footer_state(first - 1, 0, 0);
	verbs.exports = &export;
}

/* A source asks for it: the answer. */
static struct verbs_message ask(const struct ring_geometry *g)
{
	struct verbs_message answer;

	message = (struct verbs_message){
		.type = VERBS_OPEN,
		.key = KEY,
		.size = g->ring_size,
	};
	done[n_done++] = (struct ibv_wc){
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV,
		.byte_len = sizeof(message),
		.qp_num = QP_NUM,
	};
	dfi__verbs_take(&verbs);
	cr_assert_eq(sent.size, sizeof(answer));
	memcpy(&answer, sent.bytes, sizeof(answer));
	return answer;
}

static void start_source(const struct ring_geometry *g)
{
	struct verbs_message answer = ask(g);

	cr_assert_eq(answer.error, 0);
	cr_assert_eq(answer.notify, VERBS_NOTIFY_CHECKSUM);
	/* They are seen only after somebody took them, and nobody is woken. */
	cr_assert(export.base.queued);
	cr_assert(export.base.unwoken);
	links[0].credit.consumed = first;
	remote = (struct verbs_remote){
		.base = { .transport = &verbs.base,
		    .ring = zeroed(g->ring_size) },
		.conn = &conn,
		.layout = export.layout,
		.shadow.mr = &mr,
		.to_link = answer.link,
		.notify = answer.notify,
		.address = answer.address,
	};
	dfi__writer_init(&writer, &remote.base, g, first);
	atomic_set(&writer.total, total);
}

static void start_at(uint64_t segments, uint64_t so_many_tuples,
    uint32_t tuple_size, uint32_t segment_size)
{
	struct ring_geometry g = ring_geometry(
	    tuple_size, segment_size, SEGMENTS);

	random_state = 20261125;
	first = segments;
	total = so_many_tuples;
	start_target(&g);
	start_source(&g);
}

static void start(uint32_t tuple_size, uint32_t segment_size)
{
	start_at(FIRST, TOTAL, tuple_size, segment_size);
}

static void stop(void)
{
	free(verbs.polled);
	free(remote.base.ring);
	free(region.base);
}

TestSuite(verbs_checksum, .fini = stop, .timeout = 300);

/* The source sends a segment of this many bytes, none of them 0. */
static void send_segment(uint64_t used)
{
	uint64_t i;

	conn.completed = conn.posted;
	cr_assert_eq(verbs.base.ops->ring.give_credit(&region, &export.base,
			 &export.layout, 0, reader.seq, RING_OPEN),
	    1);
	atomic_set(&writer_header(&writer)->credit.consumed, reader.seq);
	cr_assert_eq(writer_open(&writer), 1);
	for (i = 0; i < used; i++)
		writer.segment[i] = tuples[i] = (char)(1 + random_below(255));
	cr_assert_eq(dfi__writer_publish(&writer, used), 0);
	cr_assert_not(sent.immediate);
}

static void deliver(uint32_t from, uint32_t to)
{
	memcpy((char *)(uintptr_t)sent.address + from, sent.bytes + from,
	    to - from);
}

/* The completion of a write with immediate data. */
static void complete(enum verbs_imm what)
{
	done[n_done++] = (struct ibv_wc){
		.status = IBV_WC_SUCCESS,
		.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
		.imm_data = htonl(what),
		.qp_num = QP_NUM,
	};
}

static bool seen(void)
{
	verbs.base.ops->settle(&verbs.base);
	return reader_ready(&reader);
}

/* The reader has the last segment now. */
static void expect_taken(uint64_t used)
{
	const char *payload = NULL;
	uint64_t bytes = 0;

	cr_assert(reader_ready(&reader));
	cr_assert_eq(
	    reader_take(&reader, &payload, &bytes), 0, "%s", dfi_errmsg());
	cr_assert_eq(bytes, used);
	cr_assert_eq(memcmp(payload, tuples, used), 0);
}

/* The numbers below n, in any order. */
static void shuffle(uint32_t *order, uint32_t n)
{
	uint32_t i, k, number;

	for (i = 0; i < n; i++)
		order[i] = i;
	for (i = n; i > 1; i--) {
		k = random_below(i);
		number = order[i - 1];
		order[i - 1] = order[k];
		order[k] = number;
	}
}

/* The reader's next loan. */
static bool payload_is_there(uint64_t used)
{
	uint64_t room = (uint64_t) export.layout.shape.footer_offset;

	return memcmp((const char *)reader.head - room +
		       verbs_payload_at(room, used),
		   tuples, used) == 0;
}

/*
 * The bytes come one by one, up to the last: a byte that has not come keeps its
 * old value, but is written all the same. Either all in any order, or first the
 * payload and then the footer, each in any order.
 */
static void deliver_shuffled(uint64_t used)
{
	uint32_t order[LARGEST], i, footer = sent.size - 16;
	bool published = false;

	if (random_below(2)) {
		shuffle(order, sent.size);
	} else {
		shuffle(order, footer);
		shuffle(order + footer, 16);
		for (i = footer; i < sent.size; i++)
			order[i] += footer;
	}
	for (i = 0; i < sent.size; i++) {
		deliver(order[i], order[i] + 1);
		if (published || !seen())
			continue;
		published = true;
		cr_assert(
		    payload_is_there(used), "byte %u of %u", i, sent.size);
	}
	cr_assert(published);
	expect_taken(used);
}

/* Laps over laps, so that slots hold segments that were there before, and
 * counts of which any bit may be set. */
Test(verbs_checksum, segment_is_seen_once_all_of_its_bytes_are_there)
{
	uint32_t lap;

	start(64, 64);
	for (lap = 0; lap < 2048 * SEGMENTS; lap++) {
		send_segment(64);
		cr_assert_eq(sent.size, 80);
		deliver_shuffled(64);
	}
}

/* All of it but one byte, whichever; the footer is there. */
Test(verbs_checksum, one_byte_that_is_missing_is_enough)
{
	uint32_t missing;

	start(64, 64);
	for (missing = 0; missing < 64; missing++) {
		send_segment(64);
		deliver(0, missing);
		deliver(missing + 1, sent.size);
		cr_assert(payload_is_there(64) || !seen());
		deliver(missing, missing + 1);
		cr_assert(seen());
		expect_taken(64);
	}
}

/* All but one byte of it is there. */
static void expect_to_wait_for(uint32_t missing)
{
	send_segment(64);
	deliver(0, missing);
	deliver(missing + 1, sent.size);
	cr_assert_not(seen());
	deliver(missing, missing + 1);
	cr_assert(seen());
	expect_taken(64);
}

/* Publishing a footer overwrites it, which must not come first. */
Test(verbs_checksum, each_byte_of_the_footer_is_waited_for)
{
	uint32_t lap;

	start(64, 64);
	for (lap = 0; lap < 512 * SEGMENTS; lap++)
		expect_to_wait_for(64 + lap % 16);
}

/* The number of a slot's last segment is -4 to -1 then. */
Test(verbs_checksum, each_byte_of_the_first_footers_is_waited_for)
{
	uint32_t i;

	start_at(0, 0, 64, 64);
	for (i = 0; i < SEGMENTS; i++)
		expect_to_wait_for(72 + i);
}

Test(verbs_checksum, later_segment_waits_for_the_one_before_it)
{
	char early[LARGEST];
	uint64_t address;
	uint32_t size;

	start(16, 16);
	send_segment(16);
	memcpy(early, sent.bytes, sent.size);
	address = sent.address;
	size = sent.size;
	send_segment(16);
	deliver(0, sent.size);
	cr_assert_not(seen());
	memcpy((void *)(uintptr_t)address, early, size);
	cr_assert(seen());
	cr_assert_eq(dfi__reader_arrived(&reader), FIRST + 2);
}

/* Full ones, and such whose payload ends at their footer. */
Test(verbs_checksum, partial_segments_are_seen_when_they_are_whole)
{
	uint32_t n_moved = 0, lap;
	uint64_t used;

	start(24, 1000);
	for (lap = 0; lap < 1024 * SEGMENTS; lap++) {
		used = 24 * (lap % 3 ? 1 + random_below(41) : 41);
		send_segment(used);
		n_moved += sent.size < 1000;
		deliver_shuffled(used);
	}
	cr_assert_gt(n_moved, 512 * SEGMENTS);
}

/* Its size exceeds the slot: a peer may say anything. */
Test(verbs_checksum, size_beyond_the_slot_is_refused_by_the_reader)
{
	uint64_t state, bytes = 0;
	const char *payload;

	start(64, 64);
	send_segment(64);
	memcpy(&state, sent.bytes + 72, sizeof(state));
	state |= UINT64_C(0x7f7f7f) << 32;
	memcpy(sent.bytes + 72, &state, sizeof(state));
	deliver(0, sent.size);
	cr_assert(seen());
	cr_assert_eq(reader_take(&reader, &payload, &bytes), -EBADMSG);
}

static void expect_end(int ret)
{
	cr_assert(reader_end_marked(&reader));
	cr_assert_eq(dfi__reader_check_end(&reader), ret, "%s", dfi_errmsg());
}

static void expect_no_end(void)
{
	cr_assert_not(reader_end_marked(&reader));
}

Test(verbs_checksum, end_mark_comes_behind_the_segments)
{
	start(64, 64);
	send_segment(64);
	deliver(0, sent.size);
	cr_assert_eq(dfi__writer_end(&writer, FOOTER_FLAG_END), 0);
	cr_assert(sent.immediate);
	deliver(0, sent.size);
	cr_assert_not(reader_end_marked(&reader));
	complete(VERBS_IMM_END);
	when_taken = expect_no_end;
	/* The queue alone is looked at. */
	dfi__verbs_take_some(&verbs);
	expect_taken(64);
	expect_end(0);
	cr_assert_eq(reader.end, READER_ENDED);
}

/* Of which the device has said that it is there. */
Test(verbs_checksum, end_behind_a_segment_that_is_damaged_is_an_error)
{
	start(64, 64);
	send_segment(64);
	sent.bytes[5] ^= 1;
	deliver(0, sent.size);
	cr_assert_eq(dfi__writer_end(&writer, FOOTER_FLAG_END), 0);
	deliver(0, sent.size);
	complete(VERBS_IMM_END);
	cr_assert_not(seen());
	expect_end(-EBADMSG);
}

Test(verbs_checksum, what_is_there_is_taken_when_its_writer_goes)
{
	start(64, 64);
	send_segment(64);
	deliver(0, sent.size);
	cr_assert(dfi__verbs_leave_export(&links[0]));
	cr_assert_eq(verbs.n_polled, 0);
	cr_assert(reader_ready(&reader));
}

/* By a source that shares memory, which is the one that is attached. */
static void expect_refused(const struct ring_geometry *g)
{
	char *before = zeroed(region.name.size);

	memcpy(before, region.base, region.name.size);
	cr_assert_eq(ask(g).error, -EEXIST);
	cr_assert_eq(memcmp(before, region.base, region.name.size), 0);
	cr_assert_eq(verbs.n_polled, 0);
	free(before);
}

Test(verbs_checksum, ring_that_was_written_through_memory_is_refused)
{
	struct ring_geometry g = ring_geometry(64, 64, SEGMENTS);
	struct ring_header *header;

	start_target(&g);
	header = (struct ring_header *)(void *)verbs_ring_base(&export, 0);
	atomic_set(&reader_footer(&reader, 0)->state, footer_state(0, 64, 0));
	expect_refused(&g);
	dfi__reader_init(&reader, &region, &g, 1, 0, first);
	atomic_set(&header->credit.consumed, 1);
	expect_refused(&g);
	dfi__reader_init(&reader, &region, &g, 1, 0, first);
	atomic_set(&header->end.state, FOOTER_FLAG_END);
	expect_refused(&g);
	dfi__reader_init(&reader, &region, &g, 1, 0, first);
	cr_assert_eq(ask(&g).error, 0);
}

/* A report during the opening of the ring stays as it is. */
Test(verbs_checksum, slots_that_were_written_are_not_made_ready)
{
	uint64_t state = footer_state(1, 0x80, 0);

	start_at(0, 0, 64, 64);
	atomic_set(&reader_footer(&reader, 1)->state, state);
	dfi__verbs_blank_new(&links[0]);
	cr_assert_eq(reader_footer(&reader, 1)->state, state);
	cr_assert_eq(reader_footer(&reader, 2)->state, 0x7f7f7f7e);
}

/* Each writer finds the ring as if it were the first. */
Test(verbs_checksum, ring_that_was_left_unwritten_has_another_writer)
{
	start_at(0, 0, 64, 64);
	cr_assert_not(dfi__verbs_leave_export(&links[0]));
	links[0].conn = NULL;
	free(remote.base.ring);
	start_source(&writer.geometry);
	cr_assert_eq(verbs.n_polled, 1);
	send_segment(64);
	deliver_shuffled(64);
}

Test(verbs_checksum, nothing_is_published_once_nobody_reads)
{
	start(64, 64);
	export.closing = true;
	send_segment(64);
	deliver(0, sent.size);
	cr_assert_not(seen());
}

/* A waiting reader looks again and again, and always finds one. */
Test(verbs_checksum, segments_one_after_another_leave_the_queue_its_turn)
{
	uint32_t polls = 0, i;

	start(64, 64);
	for (i = 0; i < 64; i++) {
		send_segment(64);
		deliver(0, sent.size);
		n_polls = 0;
		verbs.base.ops->progress(&verbs.base, 1);
		polls += n_polls;
		expect_taken(64);
	}
	cr_assert_geq(polls, 4);
	cr_assert_leq(polls, 16);
}

/* The owner gives back, and the source sends, as fast as segments are taken. */
static void send_another(void)
{
	n_taken++;
	when_taken = NULL;
	if (n_taken > 1) {
		reader.seq++;
		reader.head = reader_footer(
		    &reader, (uint32_t)(n_taken - 1) % SEGMENTS);
	}
	send_segment(64);
	deliver(0, sent.size);
	when_taken = send_another;
}

Test(verbs_checksum, endless_segments_keep_nobody_for_ever)
{
	start(64, 64);
	send_segment(64);
	deliver(0, sent.size);
	atomic_set(&((struct region_header *)region.base)->reader_waits, 1);
	when_taken = send_another;
	verbs.base.ops->settle(&verbs.base);
	cr_assert_eq(n_taken, SEGMENTS);
}

Test(verbs_checksum, who_finds_nothing_looks_at_the_queue)
{
	start(64, 64);
	n_polls = 0;
	verbs.base.ops->progress(&verbs.base, 1);
	cr_assert_eq(n_polls, 1);
}
