/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzzed end: its start, the peers' view of it, and its end. */
#include "message_rig.h"

#include <arpa/inet.h>
#include <string.h>

struct rig rig;

static struct ibv_pd domain = { .context = &fake_context };
static struct ibv_mr messages_mr;

static int give_credit(struct region *region, struct export *export,
    const struct ring_layout *layout, uint32_t ring, uint64_t consumed,
    enum ring_closed closed)
{
	struct ring_header *header =
	    (struct ring_header *)(void *)((char *)region->base +
		layout->first_ring + ring * layout->ring_size);

	(void)export;
	atomic_publish(&header->credit.consumed, consumed);
	atomic_publish(&header->credit.closed, closed);
	return 1;
}

static void region_destroy(struct region *region)
{
	free(region->base);
	region->base = NULL;
}

static const struct transport_ops memory_ops = {
	.name = "fuzz",
	.ring.give_credit = give_credit,
	.region.destroy = region_destroy,
};
static struct transport memory = { .ops = &memory_ops };

/* ---- What we post ------------------------------------------------------- */

bool rig_is_error_of_open(int32_t error)
{
	return error == -ECONNRESET || error == -EBADMSG || error == -EEXIST ||
	    error == -EBUSY || error == -ENOMEM;
}

/* The answer to rig.message has only what was asked for. */
static void check_answer(
    const struct verbs_conn *conn, const struct verbs_message *answer)
{
	uint32_t i = rig.message.key == WORD_KEY;
	const struct verbs_export *export = rig.exports[i];
	uint64_t at = answer->address;

	fuzz_check(conn == rig.from && conn->accepted);
	fuzz_check(answer->to_link == rig.message.link);
	rig.n_answers++;
	rig.error = answer->error;
	if (answer->error) {
		fuzz_check(rig_is_error_of_open(answer->error));
		fuzz_check(!answer->address && !answer->rkey && !answer->link);
		return;
	}
	fuzz_check(export && rig.message.key == export->base.name.key);
	fuzz_check(rig.message.ring < export->layout.n_rings);
	fuzz_check(rig.message.size == export->layout.ring_size);
	fuzz_check(at == (uintptr_t)verbs_ring_base(export, rig.message.ring) &&
	    answer->rkey == FAKE_RKEY && answer->link < rig.verbs.n_links);
	rig.queued |= !i;
}

void rig_arrive(struct verbs_conn *conn, enum ibv_wc_opcode opcode,
    uint32_t imm, uint32_t size)
{
	fake_arrive((struct ibv_wc){
	    .opcode = opcode,
	    .imm_data = htonl(imm),
	    .byte_len = size,
	    .qp_num = conn->qp->qp_num,
	});
}

/* The answer to a request of ours is there at once, if there is one. */
static void posted(struct verbs_conn *conn, const struct ibv_send_wr *wr)
{
	struct verbs_message sent;

	if (wr->opcode != IBV_WR_SEND)
		return;
	fuzz_check(wr->sg_list->length == sizeof(sent));
	memcpy(&sent, (const void *)(uintptr_t)wr->sg_list->addr, sizeof(sent));
	if (sent.type == VERBS_OPENED)
		check_answer(conn, &sent);
	else if (sent.type == VERBS_CLOSED)
		fuzz_check(conn->accepted);
	else
		fuzz_check(!conn->accepted);
	if (sent.type != VERBS_OPEN || !rig.answers)
		return;
	rig.answers = false;
	if (rig.message.to_link == UINT32_MAX)
		rig.message.to_link = sent.link;
	rig_arrive(conn, IBV_WC_RECV, 0, sizeof(rig.message));
}

static void freed(struct verbs_conn *conn)
{
	unsigned i;

	for (i = 0; i < CONNS; i++)
		if (rig.conns[i] == conn)
			rig.conns[i] = NULL;
}

/* RIG_PEER connects to node 2, which we are. */
static bool find(void *arg, uint64_t node, uint8_t token[MEMBER_TOKEN_SIZE])
{
	(void)arg;
	memset(token, (int)node, MEMBER_TOKEN_SIZE);
	return node == RIG_PEER || node == 2;
}

static const struct sockaddr_in addresses[2] = {
	{ .sin_family = AF_INET, .sin_addr.s_addr = 1, .sin_port = 50000 },
	{ .sin_family = AF_INET, .sin_addr.s_addr = 2, .sin_port = 7 },
};

static struct verbs be_node(uint64_t node)
{
	struct verbs verbs = {
		.device = { .name = "fake0", .port = 1 },
		.self = { .node = node, .find = find },
	};

	find(NULL, node, verbs.self.token);
	return verbs;
}

static void set_path(struct rdma_cm_id *id, bool accepts)
{
	memcpy(
	    rdma_get_local_addr(id), &addresses[accepts], sizeof(addresses[0]));
	memcpy(
	    rdma_get_peer_addr(id), &addresses[!accepts], sizeof(addresses[0]));
}

struct handshake rig_handshake(void)
{
	struct verbs verbs = be_node(RIG_PEER);
	struct rdma_cm_id id = { .verbs = NULL };
	struct handshake handshake;

	set_path(&id, false);
	fuzz_check(dfi__verbs_send_handshake(&verbs, &id, &handshake) == 0);
	return handshake;
}

/* The end that has connected takes the answer. */
static void answered(
    struct rdma_cm_id *to, const struct handshake *answer, bool accepted)
{
	struct verbs verbs = be_node(RIG_PEER);
	struct rdma_cm_id id = { .verbs = NULL };
	struct rdma_cm_event event = {
		.id = &id,
		.param.conn = { .private_data = answer,
		    .private_data_len = sizeof(*answer) },
	};

	set_path(&id, false);
	fuzz_check(!rig.accepted && !rig.refusal);
	rig.accepted = accepted ? to->context : NULL;
	rig.refusal = answer->refusal;
	fuzz_check(accepted == !answer->refusal);
	if (accepted)
		fuzz_check(dfi__verbs_accepted(
			       &verbs, &event, rig.handshake.nonce, "it") == 0);
}

bool rig_request(unsigned i, const void *data, uint8_t size)
{
	struct rdma_cm_id *id;
	unsigned n_objects;

	fuzz_check(!rig.conns[i] && i != OURS);
	fake_turn();
	n_objects = fake_objects;
	rig.accepted = NULL;
	rig.refusal = 0;
	id = fake_id();
	set_path(id, true);
	fake_event(RDMA_CM_EVENT_CONNECT_REQUEST, id, data, size);
	fake_turn();
	fuzz_check(!rig.accepted == (rig.refusal != 0));
	fuzz_check(rig.accepted || fake_objects == n_objects);
	rig.conns[i] = rig.accepted;
	return rig.accepted;
}

static struct verbs_conn *connect_conn(void)
{
	struct verbs_conn *conn = dfi__verbs_new_conn(
	    &rig.verbs, fake_id(), false);

	fuzz_check(conn && dfi__verbs_create_qp(conn) == 0);
	strcpy(conn->peer, "10.0.0.1:7");
	conn->next = rig.verbs.conns;
	rig.verbs.conns = conn;
	return conn;
}

struct verbs_conn *rig_conn(unsigned i)
{
	i %= CONNS;
	if (rig.conns[i])
		return rig.conns[i];
	if (i == OURS)
		return rig.conns[i] = connect_conn();
	rig.handshake = rig_handshake();
	fuzz_check(rig_request(i, &rig.handshake, sizeof(rig.handshake)));
	return rig.conns[i];
}

/* ---- Beginning and end -------------------------------------------------- */

static struct verbs_export *new_export(
    unsigned i, uint64_t size, const struct ring_layout *layout, uint64_t key)
{
	struct region *region = &rig.regions[i];
	struct verbs_export *export;

	region->transport = &memory;
	region->name.size = size;
	fuzz_check(
	    dfi__verbs_ops.region.export(&rig.verbs.base, region, layout) == 0);
	export = (struct verbs_export *)region->exports;
	export->base.name.key = key;
	return export;
}

static void start_exports(void)
{
	const struct ring_geometry g = ring_geometry(
	    TUPLE, TUPLE * TUPLES, SLOTS);
	const struct ring_layout rings = ring_layout(&g, RINGS);
	const struct ring_layout words = {
		.n_rings = 1,
		.first_ring = CACHE_LINE,
		.ring_size = CACHE_LINE,
	};
	uint64_t size = region_size(&g, RINGS);
	unsigned i;

	rig.geometry = g;
	for (i = 0; i < 2; i++) {
		rig.regions[i].base = aligned_alloc(128, align_up(size, 128));
		fuzz_check(rig.regions[i].base);
		memset(rig.regions[i].base, 0, align_up(size, 128));
	}
	dfi__region_init(&rig.regions[0]);
	for (i = 0; i < RINGS; i++)
		dfi__reader_init(&rig.readers[i], &rig.regions[0], &g, RINGS, i,
		    RING_FIRST_SEGMENT);
	rig.exports[0] = new_export(0, size, &rings, RING_KEY);
	rig.exports[1] = new_export(1, 2 * CACHE_LINE, &words, WORD_KEY);
}

void rig_start(const struct settings *settings)
{
	memset(&rig, 0, sizeof(rig));
	fake_posted = posted;
	fake_freed = freed;
	fake_answered = answered;
	rig.verbs = (struct verbs){
		.base.ops = &dfi__verbs_ops,
		.self = be_node(2).self,
		.settings = settings,
		.device = { .name = "fake0",
		    .port = 1,
		    .address.in = addresses[1],
		    .context = &fake_context,
		    .limits = { .sends = SENDS, .atomics = true } },
		.pd = &domain,
		.arrivals = &fake_arrivals,
		.receives = &fake_receives,
		.messages = &rig.message,
		.messages_mr = { &messages_mr },
		.n_receives = VERBS_RECEIVES,
	};
	pthread_mutex_init(&rig.verbs.table, NULL);
	pthread_cond_init(&rig.verbs.answered, NULL);
	fuzz_check(dfi__verbs_breaks_start(&rig.verbs) == 0);
	fuzz_check(dfi__verbs_listen(&rig.verbs) == 0);
	fuzz_check(dfi__verbs_breaks_watch(&rig.verbs) == 0);
	fuzz_check(dfi__verbs_listen_watch(&rig.verbs) == 0);
	start_exports();
}

void rig_unexport(unsigned i)
{
	if (rig.exports[i]) {
		dfi__verbs_ops.region.unexport(&rig.exports[i]->base);
		if (region_leave(&rig.regions[i]))
			region_destroy(&rig.regions[i]);
	}
	rig.exports[i] = NULL;
}

void rig_close(unsigned i)
{
	if (rig.remotes[i])
		dfi__verbs_ops.ring.close(&rig.remotes[i]->base);
	rig.remotes[i] = NULL;
}

void rig_stop(void)
{
	uint32_t i;

	for (i = 0; i < CONNS; i++)
		if (rig.conns[i])
			dfi__verbs_left(rig.conns[i]);
	for (i = 0; i < REMOTES; i++)
		rig_close(i);
	fake_turn();
	rig_check();
	fuzz_check(!rig.verbs.conns);
	for (i = 0; i < rig.verbs.n_links; i++)
		fuzz_check(!rig.verbs.links[i].conn);
	rig_unexport(0);
	rig_unexport(1);
	fuzz_check(!rig.verbs.exports && !rig.verbs.n_polled);
	dfi__verbs_unlisten_quiet(&rig.verbs);
	dfi__verbs_breaks_quiet(&rig.verbs);
	dfi__verbs_unlisten(&rig.verbs);
	fuzz_check(!rig.verbs.needed && !fake_objects);
	dfi__verbs_breaks_stop(&rig.verbs);
	free(rig.verbs.links);
	free(rig.verbs.polled);
	pthread_cond_destroy(&rig.verbs.answered);
	pthread_mutex_destroy(&rig.verbs.table);
}
