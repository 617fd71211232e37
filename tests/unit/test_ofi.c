/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport on libfabric, over the loopback address: who may connect, what
 * a stranger can do, and that the control thread works for an owner that does
 * not. The tests of flows run over it as ofi.test_*.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../flow/flow_help.h"
#include "flows/context/network.h"
#include "flows/context/shared_counter.h"
#include "flows/endpoint/target.h"
#include "transport/ofi/conn.h"
#include "transport/ofi/fabric.h"

static struct rig rig;
static struct ofi *ours, *theirs; /* of rig.dfi and of rig.other */

static struct ofi *ofi_of(struct dfi *dfi)
{
	struct transport *transport;

	cr_assert_eq(dfi__network_open(dfi, DFI_TRANSPORT_OFI, &transport), 0,
	    "%s", dfi_errmsg());
	return (struct ofi *)transport;
}

static void setup(void)
{
	setenv("DFI_TRANSPORT", "ofi", 1);
	rig_start(&rig);
	ours = ofi_of(rig.dfi);
	theirs = ofi_of(rig.other);
}

static void teardown(void)
{
	rig_stop(&rig);
}

TestSuite(stranger, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(counter, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(member, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(progress, .init = setup, .fini = teardown, .timeout = 300);
TestSuite(ofi, .timeout = 300);

/* ---- Data of completions ----------------------------------------------- */

Test(ofi, completion_data_keeps_its_parts)
{
	uint64_t data = ofi_data(0xfedcba98, OFI_DATA_CREDIT, RING_CANCELLED,
	    OFI_VALUE_MASK + UINT64_C(6));

	cr_assert_eq(ofi_data_link(data), 0xfedcba98);
	cr_assert_eq(ofi_data_kind(data), OFI_DATA_CREDIT);
	cr_assert_eq(ofi_data_closed(data), RING_CANCELLED);
	cr_assert_eq(ofi_data_value(data), 5);
}

Test(ofi, counts_follow_from_their_low_bits)
{
	const uint64_t known[] = { 0, 1, OFI_VALUE_MASK, OFI_VALUE_MASK + 1,
		UINT64_MAX - 3 };
	size_t i;
	uint64_t n;

	for (i = 0; i < N_ELEMENTS(known); i++)
		for (n = 0; n < 10; n++)
			cr_assert_eq(ofi_count_of(known[i],
					 (known[i] + n) & OFI_VALUE_MASK),
			    known[i] + n);
}

/* ---- What is refused --------------------------------------------------- */

static int start_alone(void)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	struct dfi_target *target;
	int ret;

	rig_start(&rig);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	ret = dfi_target_open(rig.dfi, "f", 0, NULL, &target);
	if (!ret)
		cr_assert_eq(dfi_target_close(target), 0);
	return ret;
}

Test(ofi, refuses_a_provider_that_libfabric_lacks)
{
	setenv("DFI_TRANSPORT", "ofi", 1);
	setenv("DFI_OFI_PROVIDER", "pigeon", 1);
	assert_error(start_alone(), -ENODEV, "flow 'f': target 0",
	    "provider 'pigeon'", "DFI_OFI_PROVIDER=tcp");
	rig_stop(&rig);
}

Test(ofi, refuses_multicast)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;

	rig_start(&rig);
	attr.kind = DFI_REPLICATE;
	attr.schema = &kv_schema;
	attr.n_sources = attr.n_targets = 1;
	attr.transport = DFI_TRANSPORT_OFI;
	attr.replicate.method = DFI_REPLICATION_MULTICAST;
	assert_error(dfi_flow_create(rig.dfi, "f", &attr), -EOPNOTSUPP,
	    "flow 'f'", "ofi (libfabric)", "leave replicate.method 0");
	attr.replicate.method = 0;
	cr_assert_eq(dfi_flow_create(rig.dfi, "f", &attr), 0);
	rig_stop(&rig);
}

/* ---- Shared counters ---------------------------------------------------- */

#define N_NUMBERS 3000
#define FIRST_NUMBER 16

struct taker {
	struct shared_counter_user user;
	pthread_t thread;
	_Atomic uint8_t *taken; /* how often each number was */
	bool failed;
};

static void *take_numbers(void *arg)
{
	struct taker *taker = arg;
	uint64_t number;
	int i, ret;

	for (i = 0; i < N_NUMBERS && !taker->failed; i++) {
		while (
		    (ret = shared_counter_take(&taker->user, 1, &number)) == 0)
			;
		taker->failed = ret < 0 || number < FIRST_NUMBER ||
		    number >= FIRST_NUMBER + 2 * N_NUMBERS;
		if (!taker->failed)
			atomic_fetch_add(
			    &taker->taken[number - FIRST_NUMBER], 1);
	}
	return NULL;
}

/* The holder's processor adds for those that come over libfabric. */
Test(counter, gives_each_number_once_by_memory_and_over_libfabric)
{
	static _Atomic uint8_t taken[2 * N_NUMBERS];
	const enum dfi_transport ways[] = { DFI_TRANSPORT_AUTO,
		DFI_TRANSPORT_OFI };
	struct shared_counter counter = { .region = NULL };
	struct taker takers[2];
	int i;

	cr_assert_eq(dfi__shared_counter_create(rig.dfi, DFI_TRANSPORT_OFI,
			 "test", FIRST_NUMBER, &counter),
	    0, "%s", dfi_errmsg());
	for (i = 0; i < 2; i++) {
		takers[i] = (struct taker){ .taken = taken };
		cr_assert_eq(
		    dfi__shared_counter_open(rig.other, ways[i], &rig.dfi->node,
			&counter.published, WAIT_LIMIT(deadline_in_ms(LONG_MS)),
			&takers[i].user),
		    0, "%s", dfi_errmsg());
	}
	cr_assert_not_null(takers[0].user.words);
	cr_assert_null(takers[1].user.words);
	for (i = 0; i < 2; i++)
		cr_assert_eq(pthread_create(&takers[i].thread, NULL,
				 take_numbers, &takers[i]),
		    0);
	for (i = 0; i < 2; i++) {
		pthread_join(takers[i].thread, NULL);
		cr_assert_not(takers[i].failed);
		dfi__shared_counter_close(&takers[i].user);
	}
	for (i = 0; i < 2 * N_NUMBERS; i++)
		cr_assert_eq(taken[i], 1, "number %d", i);
	dfi__shared_counter_destroy(&counter);
}

/* ---- Members that leave ------------------------------------------------- */

struct leaving {
	struct dfi *dfi;
	struct dfi_target *target;
};

/* Nobody is a member: the target has left while its answer was on its way. */
static bool find_nobody(
    void *arg, uint64_t node, uint8_t token[MEMBER_TOKEN_SIZE])
{
	struct leaving *leaving = arg;

	(void)node;
	(void)token;
	if (leaving->dfi) {
		cr_assert_eq(dfi_target_close(leaving->target), 0);
		cr_assert_eq(dfi_close(leaving->dfi), 0);
		leaving->dfi = NULL;
	}
	return false;
}

Test(member, that_leaves_while_a_source_connects_is_named)
{
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct leaving leaving = { .dfi = rig_join(&rig) };
	struct member self = theirs->self;
	struct dfi_source *source;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 16);
	leaving.target = open_target(leaving.dfi, "f", 0, 0);
	theirs->self.find = find_nobody;
	theirs->self.arg = &leaving;
	attr.open_timeout_ms = LONG_MS;
	assert_error(dfi_source_open(rig.other, "f", 0, &attr, &source),
	    -ECONNRESET, "flow 'f'", "target 0", "died or closed");
	theirs->self = self;
}

/* ---- Strangers --------------------------------------------------------- */

static void address_of(const struct ofi *ofi, union ip *ip)
{
	cr_assert(dfi__ip_parse(ofi->base.address, ip));
}

/* The handshake of rig.other to a port of this host. */
static struct handshake handshake_to(uint16_t port)
{
	struct handshake_self self = dfi__ofi_handshake(theirs);
	struct handshake handshake;
	union ip to;
	struct handshake_path path = {
		.from = &to.any,
		.to = &to.any,
		.port = htons(port),
	};

	address_of(ours, &to);
	cr_assert_eq(dfi__handshake_greet(&self, &path, &handshake), 0);
	return handshake;
}

static struct ofi_conn *new_conn(const union ip *to)
{
	struct ofi_conn *conn;
	struct fi_info *info;

	cr_assert_eq(dfi__ofi_info(theirs, to, &info), 0);
	cr_assert_eq(dfi__ofi_new_conn(theirs, info, false, &conn), 0);
	fi_freeinfo(info);
	conn->writer = &rig;
	dfi__ofi_lock_poll(theirs);
	pthread_mutex_lock(&theirs->table);
	dfi__ofi_list_conn(conn);
	pthread_mutex_unlock(&theirs->table);
	lock_release(&theirs->poll);
	return conn;
}

static void end_conn(struct ofi_conn *conn)
{
	conn->writer = NULL;
	dfi__ofi_break(conn, NULL);
	dfi__ofi_end_broken(theirs);
}

/*
 * Ask rig.dfi for a connection with this data: 0, or the errno value that it
 * refuses with. The caller ends the connection.
 */
static int ask(const void *data, size_t size, struct ofi_conn **conn)
{
	struct handshake answer = { .refusal = 0 };
	enum ofi_conn_state state = OFI_CONNECTING;
	union ip to;

	address_of(ours, &to);
	*conn = new_conn(&to);
	cr_assert_eq(fi_connect((*conn)->ep, &to, data, size), 0);
	while (state == OFI_CONNECTING) {
		usleep(1000);
		pthread_mutex_lock(&theirs->table);
		state = (*conn)->state;
		pthread_mutex_unlock(&theirs->table);
	}
	if (state == OFI_REFUSED && (*conn)->answer_size == sizeof(answer))
		memcpy(&answer, (*conn)->answer, sizeof(answer));
	return state == OFI_REFUSED ? answer.refusal : 0;
}

static int knock(const void *data, size_t size)
{
	struct ofi_conn *conn;
	int ret = ask(data, size, &conn);

	end_conn(conn);
	return ret;
}

Test(stranger, is_refused_without_a_proof)
{
	struct handshake handshake = handshake_to(dfi__ip_port(&ours->address));
	struct handshake changed = handshake;

	cr_assert_eq(knock(&handshake, sizeof(handshake)), 0);
	cr_assert_eq(knock(NULL, 0), EPROTO);
	cr_assert_eq(knock(&handshake, sizeof(handshake) - 1), EPROTO);
	changed.magic++;
	cr_assert_eq(knock(&changed, sizeof(changed)), EPROTO);
	changed = handshake;
	changed.version++;
	cr_assert_eq(knock(&changed, sizeof(changed)), EPROTO);
	changed = handshake;
	changed.node++;
	cr_assert_eq(knock(&changed, sizeof(changed)), EACCES);
	changed = handshake;
	changed.proof[0] ^= 1;
	cr_assert_eq(knock(&changed, sizeof(changed)), EACCES);
	changed = handshake;
	changed.nonce++;
	cr_assert_eq(knock(&changed, sizeof(changed)), EACCES);
	/* Heard elsewhere: it proves nothing here. */
	changed = handshake_to(
	    (uint16_t)(dfi__ip_port(&ours->address) ^ UINT16_C(1)));
	cr_assert_eq(knock(&changed, sizeof(changed)), EACCES);
}

/* A TCP connection to rig.dfi from an address of this host. */
static int plug(uint32_t host)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in from = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(host),
	};
	union ip to;

	address_of(ours, &to);
	cr_assert_geq(fd, 0);
	cr_assert_eq(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
	cr_assert_eq(connect(fd, &to.any, sizeof(to.in)), 0);
	return fd;
}

/* A request of rig.other for a connection, as it is on the wire. */
static size_t overhear(uint8_t *bytes, size_t size)
{
	struct handshake handshake = handshake_to(dfi__ip_port(&ours->address));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), from;
	struct sockaddr_in at = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t at_size = sizeof(at);
	struct ofi_conn *conn;
	union ip to;
	ssize_t n;

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &at_size), 0);
	cr_assert(dfi__ip_copy((struct sockaddr *)&at, &to));
	conn = new_conn(&to);
	cr_assert_eq(
	    fi_connect(conn->ep, &to, &handshake, sizeof(handshake)), 0);
	from = accept(fd, NULL, NULL);
	cr_assert_geq(from, 0);
	n = recv(from, bytes, size, 0);
	cr_assert_gt(n, (ssize_t)sizeof(handshake));
	close(from);
	close(fd);
	end_conn(conn);
	return (size_t)n;
}

/*
 * Bytes that are no request, a request with a wrong proof, and writes behind
 * both; before, while and after a member writes. Nothing of it is in the rings,
 * and what the member writes arrives.
 */
Test(stranger, writes_nothing)
{
	struct rng rng = { test_setting("SEED", 1) };
	uint8_t request[512], bytes[4096];
	struct dfi_target *target;
	struct dfi_source *source;
	size_t size, n, i;
	void *before;
	uint64_t number;
	int fds[60], f;

	size = overhear(request, sizeof(request));
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 16);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	before = malloc(target->region->name.size);
	cr_assert_not_null(before);
	memcpy(before, target->region->base, target->region->name.size);
	for (f = 0; f < (int)N_ELEMENTS(fds); f++) {
		fds[f] = plug(INADDR_LOOPBACK);
		n = 1 + rng_below(&rng, sizeof(bytes));
		for (i = 0; i < n; i++)
			bytes[i] = (uint8_t)rng_next(&rng);
		if (f % 3 && n > size) {
			memcpy(bytes, request, size);
			/* In the proof, the last part of a request. */
			if (f % 3 == 1)
				bytes[size - 1] ^= 1;
			else
				bytes[rng_below(&rng, 8)] ^= 1;
		}
		cr_assert_geq(send(fds[f], bytes, n, MSG_NOSIGNAL), 0);
	}
	usleep(200000);
	cr_assert_eq(
	    memcmp(before, target->region->base, target->region->name.size), 0);
	for (number = 0; number < 100; number++) {
		push_number(source, number);
		if (number % 4 != 3)
			continue;
		for (i = 0; i < 4; i++)
			expect_number(target, number - 3 + i);
	}
	for (f = 0; f < (int)N_ELEMENTS(fds); f++)
		close(fds[f]);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	end_target(target);
	free(before);
}

/* How many peers rig.dfi has accepted so far, of those that still are. */
static unsigned n_accepted(void)
{
	const struct ofi_conn *conn;
	unsigned n = 0;

	pthread_mutex_lock(&ours->table);
	for (conn = ours->conns; conn; conn = conn->next)
		n += conn->accepted && !atomic_peek(&conn->broken);
	pthread_mutex_unlock(&ours->table);
	return n;
}

/* Send a recorded request, and wait for the answer. Returns its socket. */
static int replay(uint32_t host, const uint8_t *request, size_t size)
{
	int fd = plug(host);
	uint8_t answer[512];

	cr_assert_eq(send(fd, request, size, MSG_NOSIGNAL), (ssize_t)size);
	/* A refusal is an answer as well. */
	cr_assert_gt(recv(fd, answer, sizeof(answer), 0), 0);
	return fd;
}

/*
 * It proves nothing from another address. From the same one it gets a
 * connection, but no ring, whatever is sent on it.
 */
Test(stranger, gets_no_ring_by_a_recorded_request)
{
	struct rng rng = { test_setting("SEED", 1) };
	uint8_t request[512], bytes[4096];
	struct dfi_target *target;
	struct dfi_source *source;
	size_t size, i;
	int fds[8], f;
	void *before;

	size = overhear(request, sizeof(request));
	create_kv_flow(rig.dfi, "f", 1, 1, 4, 16);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	before = malloc(target->region->name.size);
	cr_assert_not_null(before);
	memcpy(before, target->region->base, target->region->name.size);
	cr_assert_eq(n_accepted(), 1);
	fds[0] = replay(INADDR_LOOPBACK + 1, request, size);
	cr_assert_eq(n_accepted(), 1);
	for (f = 1; f < (int)N_ELEMENTS(fds); f++) {
		fds[f] = replay(INADDR_LOOPBACK, request, size);
		for (i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)rng_next(&rng);
		/* Versions, operations and sizes that the provider has. */
		bytes[0] = 3;
		bytes[1] = (uint8_t)f;
		cr_assert_gt(
		    send(fds[f], bytes, sizeof(bytes), MSG_NOSIGNAL), 0);
	}
	usleep(200000);
	cr_assert_eq(
	    memcmp(before, target->region->base, target->region->name.size), 0);
	push_number(source, 7);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_number(target, 7);
	end_target(target);
	for (f = 0; f < (int)N_ELEMENTS(fds); f++)
		close(fds[f]);
	free(before);
}

/* Write with a key, and say that a segment has come for link 0. */
static void forge(struct ofi_conn *conn, uint64_t key, size_t size)
{
	static char bytes[256];
	struct iovec iov = { .iov_base = bytes, .iov_len = size };
	struct fi_rma_iov to = { .addr = 0, .len = size, .key = key };
	struct fi_msg_rma message = {
		.msg_iov = &iov,
		.iov_count = 1,
		.rma_iov = &to,
		.rma_iov_count = 1,
		.context = &conn->writes,
		.data = ofi_data(0, OFI_DATA_SEGMENT, 0, 16),
	};

	memset(bytes, 0xff, sizeof(bytes));
	(void)fi_writemsg(
	    conn->ep, &message, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE);
}

static bool is_broken(void *arg)
{
	const struct ofi_conn *conn = arg;

	dfi__ofi_settle(&theirs->base);
	return atomic_peek(&conn->broken);
}

/* A member, whose process knows the region of no target. */
Test(stranger, guesses_no_key)
{
	struct handshake handshake;
	struct dfi_target *target;
	struct dfi_source *source;
	struct ofi_conn *conn;
	uint64_t key, guesses[12];
	size_t i;
	void *before;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 16);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	push_number(source, 1);
	key = fi_mr_key(ours->exports->mr);
	for (i = 0; i < N_ELEMENTS(guesses); i++)
		guesses[i] = i < 4 ? i : key ^ UINT64_C(1) << (5 * i);
	before = malloc(target->region->name.size);
	cr_assert_not_null(before);
	memcpy(before, target->region->base, target->region->name.size);
	for (i = 0; i < N_ELEMENTS(guesses); i++) {
		handshake = handshake_to(dfi__ip_port(&ours->address));
		cr_assert_eq(ask(&handshake, sizeof(handshake), &conn), 0);
		/* Also without bytes: only what is told of them. */
		forge(conn, guesses[i], i % 2 ? 256 : 0);
		cr_assert(eventually(is_broken, conn), "guess %zu", i);
		end_conn(conn);
	}
	cr_assert_eq(
	    memcmp(before, target->region->base, target->region->name.size), 0);
	push_number(source, 2);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_number(target, 1);
	expect_number(target, 2);
	end_target(target);
	free(before);
}

/* Messages that name what belongs to others: each is ignored or refused. */
Test(stranger, cannot_speak_for_others)
{
	struct handshake handshake = handshake_to(dfi__ip_port(&ours->address));
	struct ofi_message message = { .type = OFI_OPEN, .key = 0 };
	struct dfi_target *target;
	struct dfi_source *source;
	struct ofi_conn *conn;
	uint32_t type, name;

	create_kv_flow(rig.dfi, "f", 1, 1, 4, 16);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(ask(&handshake, sizeof(handshake), &conn), 0);
	/* A ring of a region whose name is guessed. */
	message.key = ours->exports->base.name.key ^ 1;
	message.count = ours->exports->layout.ring_size;
	cr_assert_eq(dfi__ofi_send(conn, &message), 0);
	for (type = OFI_CLOSE; type <= OFI_ADDED + 1; type++)
		for (name = 0; name < 4; name++) {
			message = (struct ofi_message){
				.type = type,
				.to_link = name,
				.count = 1,
			};
			cr_assert_eq(dfi__ofi_send(conn, &message), 0);
			/* Its receives are posted again when taken. */
			dfi__ofi_settle(&ours->base);
		}
	push_number(source, 1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	expect_number(target, 1);
	end_target(target);
	end_conn(conn);
}

/* ---- Owners that compute ----------------------------------------------- */

#define SLOTS 16

static void fill_and_close(const char *flow, uint32_t index)
{
	struct dfi_source *source = open_source(rig.other, flow, index, 0);
	uint32_t i;

	for (i = 0; i < SLOTS; i++)
		push_number(source, i);
	/* All that was written has arrived, as the owner's process says. */
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
}

/*
 * The target has consumed, so that its process left the work to it, and then
 * makes no call.
 */
Test(progress, is_made_for_a_target_that_computes)
{
	struct dfi_sequencer *holder, *user;
	struct dfi_target *target;
	uint64_t first;
	int64_t start;
	uint32_t i, s;

	create_kv_flow(rig.dfi, "f", 3, 1, 1, SLOTS);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	cr_assert_eq(dfi_sequencer_create(rig.dfi, "s", 0, &holder), 0);
	fill_and_close("f", 0);
	for (i = 0; i < SLOTS; i++)
		expect_number(target, i);
	start = now_ms();
	fill_and_close("f", 1);
	fill_and_close("f", 2);
	cr_assert_eq(dfi_sequencer_open(rig.other, "s", LONG_MS, &user), 0);
	for (i = 0; i < 100; i++) {
		cr_assert_eq(
		    dfi_sequencer_next(user, 1, &first), 0, "%s", dfi_errmsg());
		cr_assert_eq(first, i);
	}
	/* Each step waits for the process of the target and holder. */
	cr_assert_lt(now_ms() - start, SHORT_MS);
	cr_assert_eq(dfi_sequencer_close(user), 0);
	cr_assert_eq(dfi_sequencer_close(holder), 0);
	for (s = 0; s < 2 * SLOTS; s++) {
		const void *tuple;

		cr_assert_eq(consume_soon(target, &tuple), 1);
	}
	end_target(target);
}

/*
 * A pace would hold up the stream, as the target's looks bring its bytes. The
 * segments come as seldom as makes other targets pace.
 */
#define STREAM_SEGMENTS 500u
#define STREAM_GAP_NS 300000

static _Thread_local bool consumes;
static unsigned n_paces;

int __real_clock_nanosleep(clockid_t clock, int flags,
    const struct timespec *time, struct timespec *left);
int __wrap_clock_nanosleep(clockid_t clock, int flags,
    const struct timespec *time, struct timespec *left)
{
	n_paces += consumes;
	return __real_clock_nanosleep(clock, flags, time, left);
}

static void *send_slowly(void *arg)
{
	struct timespec gap = { .tv_nsec = STREAM_GAP_NS };
	uint64_t i;

	for (i = 0; i < STREAM_SEGMENTS; i++) {
		if (dfi_source_push(arg, &(struct kv){ i, i }) ||
		    dfi_source_flush(arg))
			return "a push failed";
		nanosleep(&gap, NULL);
	}
	return dfi_source_close(arg) ? "the close failed" : NULL;
}

Test(progress, goes_on_while_a_target_waits_for_a_slow_stream)
{
	struct dfi_target *target;
	struct dfi_source *source;
	pthread_t thread;
	const void *tuple;
	void *why;
	uint32_t n = 0;

	create_kv_flow(rig.dfi, "f", 1, 1, 1, 64);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_gt(target->pace.segments, 0);
	cr_assert_eq(pthread_create(&thread, NULL, send_slowly, source), 0);
	consumes = true;
	while (dfi_target_consume(target, &tuple) > 0)
		n++;
	consumes = false;
	cr_assert_eq(pthread_join(thread, &why), 0);
	cr_assert_null(why, "%s", (char *)why);
	cr_assert_eq(n, STREAM_SEGMENTS);
	cr_assert_eq(n_paces, 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

/* A segment of several pieces is seen when its last one is there. */
Test(progress, large_segments_come_whole)
{
	enum {
		WORDS = 3 << 15
	}; /* 768 KiB */
	struct dfi_field field = { .name = "words",
		.type = DFI_BYTES,
		.size = WORDS * sizeof(uint64_t) };
	struct dfi_schema schema = { .tuple_size = WORDS * sizeof(uint64_t),
		.fields = &field,
		.n_fields = 1 };
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	uint64_t *words = malloc(WORDS * sizeof(uint64_t));
	struct dfi_target *target;
	struct dfi_source *source;
	const void *tuple;
	const uint64_t *got;
	uint64_t i, n;

	cr_assert_not_null(words);
	attr.kind = DFI_SHUFFLE;
	attr.schema = &schema;
	attr.routing = DFI_ROUTE_ROUND_ROBIN;
	attr.n_sources = attr.n_targets = 1;
	attr.segment_size = WORDS * sizeof(uint64_t);
	attr.segment_count = 2;
	cr_assert_eq(
	    dfi_flow_create(rig.dfi, "f", &attr), 0, "%s", dfi_errmsg());
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	for (n = 0; n < 5; n++) {
		for (i = 0; i < WORDS; i++)
			words[i] = mix(n, i);
		cr_assert_eq(dfi_source_push(source, words), 0);
		cr_assert_eq(dfi_source_flush(source), 0);
		cr_assert_eq(consume_soon(target, &tuple), 1);
		got = tuple;
		for (i = 0; i < WORDS; i++)
			cr_assert_eq(got[i], mix(n, i));
	}
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
	free(words);
}

static bool watches(struct ofi *ofi)
{
	return atomic_load(&ofi->watching);
}

/*
 * The control thread of a process that does nothing sleeps on all descriptors
 * of the queue. Takes the poll lock, so that this stays so.
 */
static void await_watch(struct ofi *ofi)
{
	int64_t until = now_ms() + LONG_MS;

	for (;;) {
		dfi__ofi_lock_poll(ofi);
		if (watches(ofi) && !dfi__ofi_descriptors_changed(ofi))
			return;
		lock_release(&ofi->poll);
		cr_assert_lt(now_ms(), until);
		usleep(1000);
	}
}

/* Also one whose priority keeps the control thread from running. */
Test(progress, an_endpoint_that_looks_ends_the_watch)
{
	struct kv kv = numbered_kv(1);
	struct dfi_target *target;
	struct dfi_source *source;
	uint32_t i;

	create_kv_flow(rig.dfi, "f", 1, 1, 1, SLOTS);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	await_watch(ours);
	cr_assert_gt(ours->descriptors.n_watched, 1);
	/* With the lock, the control thread can't go on. */
	for (i = 0; i < 1000 && watches(ours); i++)
		dfi__ofi_take(ours);
	cr_assert_not(watches(ours), "%u looks", i);
	cr_assert_eq(ours->descriptors.n_watched, 0);
	lock_release(&ours->poll);
	/* And nothing is lost: it watches again, and sees the tuple. */
	await_watch(ours);
	lock_release(&ours->poll);
	cr_assert_eq(dfi_source_push(source, &kv), 0);
	expect_number(target, 1);
	cr_assert_eq(dfi_source_close(source), 0);
	end_target(target);
}

/* ---- Signs of life ----------------------------------------------------- */

/* The control thread looks as late after a beat as this says. */
struct late_look {
	int64_t unheard_ns; /* from then on back */
	int64_t late_ns;
	int64_t left_unheard_ns;
	bool broke;
};

static int look_late(void *arg)
{
	struct late_look *late = arg;
	struct ofi_conn *conn = ours->conns;
	int64_t now;

	/* What has come is no sign of life any more. */
	dfi__ofi_settle(&ours->base);
	dfi__ofi_lock_poll(ours);
	now = clock_now_ns();
	ours->beat_due = now - late->late_ns;
	conn->heard_seen = conn->heard;
	conn->heard_at = now - late->late_ns - late->unheard_ns;
	lock_release(&ours->poll);
	dfi__ofi_beat(ours);
	late->left_unheard_ns = clock_now_ns() - conn->heard_at;
	late->broke = atomic_peek(&conn->broken);
	return 0;
}

static struct late_look when_late(int64_t unheard_ms, int64_t late_ms)
{
	struct late_look late = { .unheard_ns = unheard_ms * NS_PER_MS,
		.late_ns = late_ms * NS_PER_MS };

	cr_assert_eq(dfi__loop_call(ours->loop, look_late, &late,
			 clock_now_ns() + LONG_MS * NS_PER_MS),
	    0);
	return late;
}

/* The four looks in DFI_OFI_TIMEOUT bound what a cut takes to be seen. */
Test(member, time_without_looks_counts_neither_for_a_peer_nor_against_it)
{
	const int64_t timeout = ours->settings->ofi_timeout_ms;
	struct dfi_target *target;
	struct dfi_source *source;
	struct late_look late;

	create_kv_flow(rig.dfi, "f", 1, 1, 1, 16);
	target = open_target(rig.dfi, "f", 0, DFI_NONBLOCK);
	source = open_source(rig.other, "f", 0, 0);
	push_number(source, 1);
	expect_number(target, 1);
	late = when_late(timeout / 2, 10 * timeout);
	cr_assert_not(late.broke);
	cr_assert_geq(late.left_unheard_ns, late.unheard_ns,
	    "the peer got its time again");
	/* The fourth look, though the one before was a little late. */
	late = when_late(timeout - 2, 0);
	cr_assert(late.broke);
	dfi_source_abort(source);
	cr_assert_lt(dfi_source_close(source), 0);
	dfi_target_close(target);
}

/* ---- Connections of both directions ------------------------------------ */

TestSuite(sharing, .init = setup, .fini = teardown, .timeout = 300);

static bool has_one(void *arg)
{
	return device_stats(arg).connections == 1;
}

static bool has_none(void *arg)
{
	return device_stats(arg).connections == 0;
}

static void send_one(
    struct dfi_source *source, struct dfi_target *target, uint64_t number)
{
	push_number(source, number);
	cr_assert_eq(dfi_source_flush(source), 0, "%s", dfi_errmsg());
	expect_number(target, number);
}

/* The one that was made first carries both, and outlives either source. */
static void both_ways(bool first_ends_first)
{
	struct dfi_target *targets[2];
	struct dfi_source *sources[2];
	uint32_t ends = first_ends_first ? 0 : 1;

	create_kv_flow(rig.dfi, "there", 1, 1, 4, 16);
	create_kv_flow(rig.dfi, "back", 1, 1, 4, 16);
	targets[0] = open_target(rig.other, "there", 0, DFI_NONBLOCK);
	targets[1] = open_target(rig.dfi, "back", 0, DFI_NONBLOCK);
	sources[0] = open_source(rig.dfi, "there", 0, 0);
	sources[1] = open_source(rig.other, "back", 0, 0);
	cr_assert(eventually(has_one, rig.dfi));
	cr_assert(eventually(has_one, rig.other));
	send_one(sources[0], targets[0], 1);
	send_one(sources[1], targets[1], 2);
	cr_assert_eq(dfi_source_close(sources[ends]), 0, "%s", dfi_errmsg());
	end_target(targets[ends]);
	send_one(sources[!ends], targets[!ends], 3);
	cr_assert(has_one(rig.dfi));
	cr_assert_eq(dfi_source_close(sources[!ends]), 0, "%s", dfi_errmsg());
	end_target(targets[!ends]);
	cr_assert(eventually(has_none, rig.dfi));
	cr_assert(eventually(has_none, rig.other));
	cr_assert_eq(dfi_flow_remove(rig.dfi, "there"), 0);
	cr_assert_eq(dfi_flow_remove(rig.dfi, "back"), 0);
}

Test(sharing, one_connection_has_the_rings_of_both_directions)
{
	both_ways(true);
	both_ways(false);
}

static bool is_free(void *arg)
{
	return !atomic_observe(&((struct network_ring *)arg)->used);
}

static int writer;

static bool opens_late(void *arg)
{
	struct ofi_export *export = arg;
	struct remote *late;
	int ret = dfi__ofi_remote_open(&theirs->base, &writer,
	    &export->base.name, &export->layout, 1, NULL,
	    WAIT_LIMIT(clock_now_ns() + LONG_MS * NS_PER_MS), &late);

	if (ret)
		cr_assert_eq(ret, -EEXIST, "%s", dfi_errmsg());
	else
		dfi__ofi_remote_close(late);
	return !ret;
}

/*
 * A writer gives up a ring on a connection that others use: it stays, and the
 * ring is free again, also if its owner has opened it late.
 */
Test(sharing, a_ring_that_is_opened_too_late_is_left)
{
	struct ofi_export *export;
	struct remote *used, *late;
	struct dfi_target *target, *there;
	struct dfi_source *source;

	create_kv_flow(rig.dfi, "there", 1, 1, 4, 16);
	create_kv_flow(rig.dfi, "back", 2, 1, 4, 16);
	there = open_target(rig.other, "there", 0, DFI_NONBLOCK);
	source = open_source(rig.dfi, "there", 0, 0);
	target = open_target(rig.dfi, "back", 0, DFI_NONBLOCK);
	export = (struct ofi_export *)target->region->exports;
	cr_assert_eq(
	    dfi__ofi_remote_open(&theirs->base, &writer, &export->base.name,
		&export->layout, 0, NULL,
		WAIT_LIMIT(clock_now_ns() + LONG_MS * NS_PER_MS), &used),
	    0, "%s", dfi_errmsg());
	cr_assert(eventually(has_one, rig.dfi));
	assert_error(
	    dfi__ofi_remote_open(&theirs->base, &writer, &export->base.name,
		&export->layout, 1, NULL, WAIT_LIMIT(clock_now_ns()), &late),
	    -ETIMEDOUT, "no time was left to ask");
	pthread_mutex_lock(&ours->table); /* it answers nothing */
	assert_error(dfi__ofi_remote_open(&theirs->base, &writer,
			 &export->base.name, &export->layout, 1, NULL,
			 WAIT_LIMIT(clock_now_ns() + 50 * NS_PER_MS), &late),
	    -ETIMEDOUT, "ring 1");
	pthread_mutex_unlock(&ours->table);
	cr_assert(eventually(opens_late, export));
	dfi__ofi_remote_close(used);
	cr_assert(eventually(is_free, &export->rings[0]));
	cr_assert(eventually(is_free, &export->rings[1]));
	cr_assert(has_one(rig.dfi));
	send_one(source, there, 1);
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	end_target(there);
	cr_assert_eq(dfi_target_close(target), 0);
}
