/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input from peers over their queue pairs, in any order: messages, immediate
 * data, and writes where they are allowed. Peers have two connections; over a
 * third one we write a ring of theirs. In all cases only a peer with the key
 * learns of memory; a refusal has its reason and changes nothing; each link
 * belongs to a connection, and to a ring or a remote, which know it; and
 * nothing is left when all have gone.
 *
 * The input: the way in which rings tell of segments; then operations, each a
 * byte of enum operation and, above, what else is special, and what belongs to
 * it.
 */
#include <string.h>

#include <dfi/log.h>

#include "base/error.h"
#include "message_rig.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/checksum.h"

enum operation {
	SAY,       /* any message, of any size */
	SAY_RIGHT, /* a message with numbers that there are */
	ORDER,     /* immediate data */
	WRITE,     /* into a region, or the shadow ring of a remote */
	SEAL,      /* a segment with the footer that is expected */
	READ,      /* our reader */
	SEND,      /* our writer */
	OPEN,      /* a ring of theirs */
	CLOSE,
	COMPLETE, /* what was posted */
	LEAVE,    /* a connection, or a region of ours */
	TURN,     /* of the control thread */
	REQUEST,  /* to connect */
	NEWS,     /* of rdma_cm, about a connection, or the listener */
};

#define OPERATION_BITS 4

static const struct settings modes[] = {
	{ .verbs_notify = VERBS_NOTIFY_IMM, .huge_pages = HUGE_PAGES_NEVER },
	{ .verbs_notify = VERBS_NOTIFY_FOOTER, .huge_pages = HUGE_PAGES_NEVER },
	{ .verbs_notify = VERBS_NOTIFY_CHECKSUM,
	    .huge_pages = HUGE_PAGES_NEVER },
};

static struct {
	const uint8_t *at;
	size_t left;
} input;

static uint64_t number(size_t size)
{
	uint64_t value = 0;

	if (size > input.left)
		size = input.left;
	if (size)
		memcpy(&value, input.at, size);
	input.at += size;
	input.left -= size;
	return value;
}

static void bytes(void *to, size_t size)
{
	size_t n = size < input.left ? size : input.left;

	memset(to, 0, size);
	if (n)
		memcpy(to, input.at, n);
	input.at += n;
	input.left -= n;
}

/* Whether the message must have an effect. */
static bool has_effect(const struct verbs_conn *conn, uint32_t size)
{
	const struct verbs_message *m = &rig.message;
	const struct verbs_link *link;

	if (size != sizeof(*m))
		return false;
	if (m->type == VERBS_OPEN)
		return conn->accepted;
	if (m->to_link >= rig.verbs.n_links)
		return false;
	link = &rig.verbs.links[m->to_link];
	if (link->conn != conn)
		return false;
	/* VERBS_OPENED comes at once: see open_theirs(). */
	return m->type == VERBS_CLOSE
	    ? link->export != NULL
	    : m->type == VERBS_CLOSED && link->remote && link->remote->closing;
}

/* Earlier segments may become visible now, so they are taken first. */
static void say(struct verbs_conn *conn, uint32_t size)
{
	static struct rig_state before, after;
	bool broken, effect;

	dfi__verbs_settle(&rig.verbs.base);
	rig_take_state(&before);
	effect = has_effect(conn, size);
	rig.from = conn;
	rig.n_answers = 0;
	rig.error = 0;
	rig_arrive(conn, IBV_WC_RECV, 0, size);
	dfi__verbs_settle(&rig.verbs.base);
	broken = atomic_peek(&conn->broken);
	fuzz_check(rig.n_answers <= (effect && rig.message.type == VERBS_OPEN));
	if (effect && rig.message.type == VERBS_OPEN)
		fuzz_check(broken || rig.n_answers == 1);
	if (effect && !rig.error)
		return;
	rig_take_state(&after);
	fuzz_check(memcmp(&before, &after, sizeof(before)) == 0);
}

static void say_right(unsigned special)
{
	struct verbs_conn *conn = rig_conn(special);
	uint8_t what = (uint8_t)number(1);

	rig.message = (struct verbs_message){
		.type = 1 + what % 4,
		.key = what & 4 ? WORD_KEY : RING_KEY,
		.ring = what >> 3 & 1,
		.size = what & 4 ? CACHE_LINE : rig.geometry.ring_size,
		.error = what & 16 ? -EEXIST : 0,
		.notify = what >> 5,
	};
	rig.message.link = (uint32_t)number(1);
	rig.message.to_link = (uint32_t)number(1);
	say(conn, sizeof(rig.message));
}

/* Immediate data is too late without a link of its connection. */
static void order(struct verbs_conn *conn, unsigned special)
{
	static struct rig_state before, after;
	uint32_t imm = (uint32_t)number(special & 4 ? 4 : 1);
	uint32_t size = (uint32_t)number(special & 8 ? 4 : 1);
	bool ours = verbs_link_at(
	    &rig.verbs, imm >> VERBS_IMM_BITS, conn->qp->qp_num);

	dfi__verbs_settle(&rig.verbs.base);
	rig_take_state(&before);
	rig_arrive(conn, IBV_WC_RECV_RDMA_WITH_IMM, imm, size);
	dfi__verbs_settle(&rig.verbs.base);
	rig_take_state(&after);
	fuzz_check(ours || memcmp(&before, &after, sizeof(before)) == 0);
}

/* ---- What they write ---------------------------------------------------- */

static void write_memory(unsigned special)
{
	const struct verbs_remote *remote = rig.remotes[special % REMOTES];
	uint64_t size = rig.regions[0].name.size;
	char *at = rig.queued ? rig.regions[0].base : NULL;
	size_t from = number(2), n = number(1) % 64;

	if (special & 2) {
		at = remote ? remote->base.ring : NULL;
		size = rig.geometry.ring_size;
	}
	if (!at)
		return;
	from %= size;
	bytes(at + from, min_u64(n, size - from));
}

/* In the next slot, one that a target takes for whole. */
static void write_sealed(unsigned special)
{
	const struct verbs_export *export = rig.exports[0];
	const struct verbs_link *link;
	uint64_t room = (uint64_t)rig.geometry.footer_offset,
		 n = number(1) % (room + 1);
	uint64_t footer[2];
	uint32_t ring = special % RINGS;
	char *payload;

	if (!export || export->rings[ring].link == NETWORK_NO_LINK)
		return;
	link = &rig.verbs.links[export->rings[ring].link];
	payload = (char *)link->next_footer - room + verbs_payload_at(room, n);
	bytes(payload, n);
	memcpy(footer, link->footer, sizeof(footer));
	footer_next(&export->layout.shape, n, footer);
	if (export->rings[ring].notify == VERBS_NOTIFY_CHECKSUM)
		dfi__verbs_seal(payload, n, footer[1], footer);
	else if (verbs_payload_at(room, n))
		footer[1] |= FOOTER_FLAG_SHIFTED;
	memcpy((char *)link->next_footer, footer, sizeof(footer));
}

/* ---- What we do --------------------------------------------------------- */

static void read_segment(unsigned ring)
{
	struct reader *reader = &rig.readers[ring];
	const char *base = rig.regions[0].base, *payload;
	volatile char sum = 0;
	uint64_t n, i;
	int ret;

	if (!rig.exports[0] || rig.refused[ring])
		return;
	dfi__verbs_progress(&rig.verbs.base, 1);
	if (!reader_ready(reader)) {
		ret = dfi__reader_check_end(reader);
		fuzz_check(ret == 0 || ret == -EBADMSG);
		rig.refused[ring] = ret < 0;
		return;
	}
	ret = reader_take(reader, &payload, &n);
	fuzz_check(ret == 0 || ret == -EBADMSG);
	rig.refused[ring] = ret < 0;
	for (i = 0; !ret && i < n; i++) {
		fuzz_check(payload + i >= base &&
		    payload + i < base + rig.regions[0].name.size);
		sum = (char)(sum + payload[i]);
	}
	fuzz_check(ret || reader_release(reader) == 0);
}

static void send_segment(unsigned i, bool end)
{
	struct writer *writer = &rig.writers[i];
	int ret;

	if (!rig.remotes[i] || !writer->remote)
		return;
	if (end) {
		ret = dfi__writer_end(writer, FOOTER_FLAG_END);
		writer->remote = NULL;
		fuzz_check(ret == 0 || ret == -ECONNRESET);
		return;
	}
	ret = writer_open(writer);
	fuzz_check(
	    ret == 1 || ret == 0 || ret == -EBADMSG || ret == -ECONNRESET);
	if (ret < 1)
		return;
	memset(writer->segment, 1, rig.geometry.segment_bytes);
	ret = dfi__writer_publish(writer, TUPLE * (1 + number(1) % TUPLES));
	fuzz_check(ret == 0 || ret == -ECONNRESET);
}

/* They answer as the input says, at once or never. */
static void open_theirs(unsigned special)
{
	const struct region_name name = { .address = "10.0.0.1:7", .key = 3 };
	const struct ring_layout layout = ring_layout(&rig.geometry, RINGS);
	unsigned i = special % REMOTES;
	struct remote *remote;
	bool answered;
	int ret;

	if (rig.remotes[i] || ++rig.n_opened > OPENED_MAX)
		return;
	rig_conn(OURS);
	rig.answers = special & 2;
	if (special & 4) {
		rig.message = (struct verbs_message){
			.type = VERBS_OPENED,
			.to_link = UINT32_MAX,
		};
		rig.message.error = (int32_t)number(4);
		rig.message.notify = (uint32_t)number(1);
		rig.message.link = (uint32_t)number(4);
	} else {
		bytes(&rig.message, sizeof(rig.message));
	}
	ret = dfi__verbs_ops.ring.open(&rig.verbs.base, &rig, &name, &layout, 0,
	    NULL, WAIT_LIMIT(0), &remote);
	answered = special & 2 && !rig.answers;
	rig.answers = false;
	fuzz_check(!ret || dfi__peer_error(ret) == ret);
	if (answered && special & 4 && rig.message.error)
		fuzz_check(ret ==
		    (rig_is_error_of_open(rig.message.error) ? rig.message.error
							     : -EBADMSG));
	if (ret)
		return;
	fuzz_check(rig.message.type == VERBS_OPENED && !rig.message.error);
	rig.remotes[i] = (struct verbs_remote *)remote;
	dfi__writer_init(&rig.writers[i], remote, &rig.geometry, 0);
}

static void complete(struct verbs_conn *conn, enum fake_sends sends)
{
	fake_complete(conn, sends);
	if (dfi__verbs_poll_sends(conn) || !conn->accepted)
		return;
	dfi__verbs_lock_poll(&rig.verbs);
	pthread_mutex_lock(&rig.verbs.table);
	dfi__verbs_pay(conn);
	pthread_mutex_unlock(&rig.verbs.table);
	lock_release(&rig.verbs.poll);
}

/* A member's message with at most one other byte, and any size. */
static void request(unsigned special)
{
	const struct handshake handshake = rig_handshake();
	uint8_t data[UINT8_MAX] = { 0 };
	uint8_t size = sizeof(handshake), at;
	unsigned i = special % OURS;
	bool right;

	memcpy(data, &handshake, sizeof(handshake));
	if (special & 4)
		size = (uint8_t)number(1);
	at = (uint8_t)number(1);
	data[at % sizeof(handshake)] ^= (uint8_t)number(1);
	if (rig.conns[i])
		return;
	memcpy(&rig.handshake, data, sizeof(rig.handshake));
	/* Nobody reads the fields of a refusal. */
	rig.handshake.refusal = 0;
	right = size >= sizeof(handshake) &&
	    memcmp(&rig.handshake, &handshake, sizeof(handshake)) == 0;
	fuzz_check(rig_request(i, data, size) == right);
	fuzz_check(right || rig.refusal == EPROTO || rig.refusal == EACCES);
}

/* The listener reports only events that leave the device in place. */
static void order_news(unsigned special)
{
	static const enum rdma_cm_event_type types[] = {
		RDMA_CM_EVENT_ESTABLISHED,
		RDMA_CM_EVENT_DISCONNECTED,
		RDMA_CM_EVENT_REJECTED,
		RDMA_CM_EVENT_UNREACHABLE,
		RDMA_CM_EVENT_CONNECT_ERROR,
		RDMA_CM_EVENT_DEVICE_REMOVAL,
		RDMA_CM_EVENT_TIMEWAIT_EXIT,
		RDMA_CM_EVENT_ADDR_CHANGE,
	};
	uint8_t type = (uint8_t)number(1), size = (uint8_t)number(1);
	struct rdma_cm_id *id = rig.verbs.listener;
	uint8_t data[UINT8_MAX];

	bytes(data, size);
	type %= sizeof(types) / sizeof(types[0]);
	if (special < 4 * CONNS)
		id = rig_conn(special)->id;
	else if (types[type] == RDMA_CM_EVENT_DEVICE_REMOVAL)
		return;
	fake_event(types[type], id, data, size);
	fake_turn();
}

static void leave(unsigned special)
{
	if (special < 2)
		rig_unexport(special);
	else if (rig.conns[special % CONNS] && special < 8)
		dfi__verbs_left(rig.conns[special % CONNS]);
	else if (rig.conns[special % CONNS])
		dfi__verbs_break(rig.conns[special % CONNS], "it is to");
}

static void run_operation(void)
{
	uint8_t byte = (uint8_t)number(1);
	unsigned special = byte >> OPERATION_BITS;

	switch (byte % (1 << OPERATION_BITS)) {
	case SAY:
		bytes(&rig.message, sizeof(rig.message));
		say(rig_conn(special),
		    special & 8 ? (uint32_t)number(1) : sizeof(rig.message));
		break;
	case SAY_RIGHT:
		say_right(special);
		break;
	case ORDER:
		order(rig_conn(special), special);
		break;
	case WRITE:
		write_memory(special);
		break;
	case SEAL:
		write_sealed(special);
		break;
	case READ:
		read_segment(special % RINGS);
		break;
	case SEND:
		send_segment(special % REMOTES, special & 2);
		break;
	case OPEN:
		open_theirs(special);
		break;
	case CLOSE:
		rig_close(special % REMOTES);
		break;
	case COMPLETE:
		complete(rig_conn(special),
		    (enum fake_sends)((special >> 2) % (FAKE_FAIL + 1)));
		break;
	case LEAVE:
		leave(special);
		break;
	case TURN:
		fake_turn();
		break;
	case REQUEST:
		request(special);
		break;
	case NEWS:
		order_news(special);
		break;
	}
}

static void ignore_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	dfi_log_set(DFI_LOG_ERROR, ignore_line, NULL);
	input.at = data;
	input.left = size;
	rig_start(&modes[number(1) % (sizeof(modes) / sizeof(modes[0]))]);
	while (input.left) {
		run_operation();
		rig_check();
	}
	rig_stop();
	return 0;
}
