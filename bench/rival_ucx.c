/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX between two processes of one host.
 *
 * By tag, the target has receives posted ahead, and the source has sends
 * outstanding.
 *
 * By active messages, the source has sends outstanding as well, and the target
 * keeps what UCX hands over until it has read it.
 *
 * By puts, the other end's memory has a ring of messages, and two counters. A
 * message is put, and then counted by a second put behind a fence. In a round
 * trip it is put alone, and its last word, which changes, says that it has
 * come, as shared memory is written in order.
 */
#include <sched.h>
#include <stdio.h>
#include <ucp/api/ucp.h>

#include "rival_messages.h"

#define BATCH_SIZE ((size_t)32 << 10)
#define RING_SIZE ((size_t)1 << 20)
#define WINDOW 16 /* messages outstanding by tag */
#define TAG 1

/* The counters in shared memory: messages put here, and taken there. */
#define WRITTEN_AT 0
#define TAKEN_AT 64
#define RING_AT 128

#define POLLS 64

/* Active messages: their number, and how many may wait to be read. */
#define MESSAGE 1
#define MAX_ARRIVED 1024
#define SHORT_SIZE 256 /* UCX lends the memory of longer ones */

struct arrived {
	const char *at;
	size_t size;
	bool lent; /* by UCX */
	char copy[SHORT_SIZE];
};

struct state {
	ucp_context_h context;
	ucp_worker_h ucp;
	ucp_ep_h ep;
	ucp_mem_h handle;
	ucp_rkey_h rkey;
	char *memory;   /* that the other end puts into, or of messages */
	char *buffer;   /* messages are built here */
	uint64_t there; /* the other end's memory */
	size_t size;    /* of the largest message */
	uint64_t slots; /* of the ring */
	uint64_t put, got, taken;
	uint64_t left;          /* tuples to receive */
	uint64_t unposted;      /* of these, without a posted receive */
	uint64_t last;          /* the word that the last message had */
	void *requests[WINDOW]; /* sends */
	void *receives[WINDOW];
	uint64_t posted;
	struct arrived *arrived;  /* a ring of MAX_ARRIVED */
	uint64_t n_arrived, read; /* active messages */
	ucs_status_t status;      /* of the handler */
};

static int fail(struct worker *worker, const char *what, ucs_status_t status)
{
	snprintf(worker->seat->error, sizeof(worker->seat->error), "%s: %s",
	    what, ucs_status_string(status));
	return -EIO;
}

/* Wait for a request, and free it. */
static ucs_status_t complete(const struct worker *worker, void *request)
{
	const struct state *state = worker->state;
	uint32_t polls = 0;
	ucs_status_t status;

	if (!request)
		return UCS_OK;
	if (UCS_PTR_IS_ERR(request))
		return UCS_PTR_STATUS(request);
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
		if (ucp_worker_progress(state->ucp))
			polls = 0;
		else
			raw_poll_pause(worker->plan->yields, &polls);
	}
	ucp_request_free(request);
	return status;
}

/* An active message. Short ones lie in UCX's queue, and go after this call. */
static ucs_status_t keep_message(void *arg, const void *header,
    size_t header_size, void *data, size_t size,
    const ucp_am_recv_param_t *param)
{
	struct state *state = arg;
	struct arrived *arrived =
	    &state->arrived[state->n_arrived % MAX_ARRIVED];
	bool lent = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA;

	(void)header;
	(void)header_size;
	if (state->n_arrived - state->read == MAX_ARRIVED ||
	    (!lent && size > SHORT_SIZE)) {
		state->status = UCS_ERR_EXCEEDS_LIMIT;
		return UCS_OK;
	}
	state->n_arrived++;
	*arrived = (struct arrived){ .at = data, .size = size, .lent = lent };
	if (lent)
		return UCS_INPROGRESS;
	memcpy(arrived->copy, data, size);
	arrived->at = arrived->copy;
	return UCS_OK;
}

static ucs_status_t take_messages(struct state *state)
{
	ucp_am_handler_param_t param = {
		.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
		    UCP_AM_HANDLER_PARAM_FIELD_CB |
		    UCP_AM_HANDLER_PARAM_FIELD_ARG,
		.id = MESSAGE,
		.cb = keep_message,
		.arg = state,
	};

	return ucp_worker_set_am_recv_handler(state->ucp, &param);
}

/* ---- Meeting ----------------------------------------------------------- */

static ucs_status_t open_worker(struct state *state)
{
	ucp_params_t params = {
		.field_mask = UCP_PARAM_FIELD_FEATURES,
		.features = UCP_FEATURE_TAG | UCP_FEATURE_RMA | UCP_FEATURE_AM,
	};
	ucp_worker_params_t worker_params = {
		.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
		.thread_mode = UCS_THREAD_MODE_SINGLE,
	};
	ucp_mem_map_params_t map = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH |
		    UCP_MEM_MAP_PARAM_FIELD_FLAGS,
		.length = RING_AT + state->slots * state->size,
		.flags = UCP_MEM_MAP_ALLOCATE,
	};
	ucp_mem_attr_t attr = { .field_mask = UCP_MEM_ATTR_FIELD_ADDRESS };
	ucs_status_t status = ucp_init(&params, NULL, &state->context);

	if (status == UCS_OK)
		status = ucp_worker_create(
		    state->context, &worker_params, &state->ucp);
	if (status == UCS_OK)
		status = take_messages(state);
	if (status == UCS_OK)
		status = ucp_mem_map(state->context, &map, &state->handle);
	if (status == UCS_OK)
		status = ucp_mem_query(state->handle, &attr);
	if (status != UCS_OK)
		return status;
	state->memory = attr.address;
	/* No tuple of a round trip has this word. */
	memset(state->memory, 0xff, map.length);
	memset(state->memory, 0, RING_AT);
	state->last = UINT64_MAX;
	return UCS_OK;
}

/* The address of the worker, and behind it the key of the memory. */
static ucs_status_t publish(struct worker *worker, const struct state *state)
{
	struct rival_address own = { .at = (uintptr_t)state->memory };
	ucp_address_t *address;
	size_t address_size, key_size;
	void *key;
	ucs_status_t status = ucp_worker_get_address(
	    state->ucp, &address, &address_size);

	if (status != UCS_OK)
		return status;
	status = ucp_rkey_pack(state->context, state->handle, &key, &key_size);
	if (status == UCS_OK && address_size + key_size > RIVAL_NAME_SIZE)
		status = UCS_ERR_BUFFER_TOO_SMALL;
	if (status == UCS_OK) {
		own.key = address_size;
		own.name_size = (uint32_t)(address_size + key_size);
		memcpy(own.name, address, address_size);
		memcpy(own.name + address_size, key, key_size);
		ucp_rkey_buffer_release(key);
		rival_publish(worker, &own);
	}
	ucp_worker_release_address(state->ucp, address);
	return status;
}

static ucs_status_t connect_ends(
    struct state *state, const struct rival_address *other)
{
	ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
		.address = (const ucp_address_t *)(const void *)other->name,
	};
	ucs_status_t status = ucp_ep_create(state->ucp, &params, &state->ep);

	state->there = other->at;
	if (status == UCS_OK)
		status = ucp_ep_rkey_unpack(
		    state->ep, other->name + other->key, &state->rkey);
	return status;
}

/* A message each way makes the connection. */
static ucs_status_t warm_up(struct worker *worker, struct state *state)
{
	ucp_request_param_t param = { .op_attr_mask = 0 };
	char out[8] = "", in[8];
	void *receive = ucp_tag_recv_nbx(
	    state->ucp, in, sizeof(in), TAG, UINT64_MAX, &param);
	ucs_status_t status = complete(
	    worker, ucp_tag_send_nbx(state->ep, out, sizeof(out), TAG, &param));

	return status == UCS_OK ? complete(worker, receive) : status;
}

static size_t message_size(const struct plan *plan)
{
	if (plan->trips || plan->api == API_PUSH ||
	    plan->tuple_size > BATCH_SIZE)
		return plan->tuple_size;
	return BATCH_SIZE / plan->tuple_size * plan->tuple_size;
}

static int ucx_prepare(struct worker *worker)
{
	struct state *state = calloc(1, sizeof(*state));
	struct rival_address other;
	ucs_status_t status;
	int ret;

	worker->state = state;
	if (!state)
		return worker_fail_errno(worker, "a worker");
	state->size = message_size(worker->plan);
	state->slots = RING_SIZE / state->size;
	state->slots = state->slots < WINDOW ? WINDOW : state->slots;
	state->left = state->unposted = worker->plan->tuples;
	state->buffer = aligned_alloc(
	    64, (WINDOW * state->size + 63) / 64 * 64);
	state->arrived = calloc(MAX_ARRIVED, sizeof(*state->arrived));
	if (!state->buffer || !state->arrived)
		return worker_fail_errno(worker, "a buffer");
	status = open_worker(state);
	if (status == UCS_OK)
		status = publish(worker, state);
	if (status != UCS_OK)
		return fail(worker, "UCX", status);
	ret = rival_await(worker, &other);
	if (ret)
		return ret;
	status = connect_ends(state, &other);
	if (status == UCS_OK)
		status = warm_up(worker, state);
	return status == UCS_OK ? 0 : fail(worker, "a connection", status);
}

/* ---- By tag ------------------------------------------------------------ */

static char *tag_claim(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	void **request = &state->requests[state->put % WINDOW];
	ucs_status_t status = complete(worker, *request);

	(void)size;
	*request = NULL;
	if (status == UCS_OK)
		return state->buffer + state->put % WINDOW * state->size;
	(void)fail(worker, "ucp_tag_send_nbx", status);
	return NULL;
}

static int tag_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	ucp_request_param_t param = { .op_attr_mask = 0 };
	uint64_t at = state->put++ % WINDOW;

	state->requests[at] = ucp_tag_send_nbx(
	    state->ep, state->buffer + at * state->size, size, TAG, &param);
	return 0;
}

static int tag_flush(struct worker *worker)
{
	struct state *state = worker->state;
	uint32_t i;

	for (i = 0; i < WINDOW; i++)
		if (!tag_claim(worker, 0))
			return -EIO;
		else
			state->put++;
	return 0;
}

/* The tuples of a message if so many are left. */
static uint64_t message_tuples(const struct worker *worker, uint64_t left)
{
	const struct state *state = worker->state;
	uint64_t n = state->size / worker->plan->tuple_size;

	return n < left ? n : left;
}

/*
 * Post receives ahead, but none for which no message comes: what was lent last
 * time has been read. In round trips there is one at a time.
 */
static void post_receives(const struct worker *worker, struct state *state)
{
	ucp_request_param_t param = { .op_attr_mask = 0 };
	bool trips = worker->plan->trips;
	uint64_t until = state->got + (trips ? 1 : WINDOW), at;

	for (; state->posted < until && (trips || state->unposted > 0);
	     state->posted++) {
		at = state->posted % WINDOW;
		state->unposted -= message_tuples(worker, state->unposted);
		state->receives[at] = ucp_tag_recv_nbx(state->ucp,
		    state->memory + RING_AT + at * state->size, state->size,
		    TAG, UINT64_MAX, &param);
	}
}

/* The bytes of the message that comes next. */
static ssize_t next_size(const struct worker *worker, struct state *state)
{
	size_t tuple_size = worker->plan->tuple_size;
	uint64_t n = 1;

	if (!worker->plan->trips) {
		n = message_tuples(worker, state->left);
		state->left -= n;
	}
	return (ssize_t)(n * tuple_size);
}

static ssize_t tag_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	uint64_t slot = state->got % WINDOW;
	ucs_status_t status;

	post_receives(worker, state);
	status = complete(worker, state->receives[slot]);
	state->receives[slot] = NULL;
	if (status != UCS_OK)
		return fail(worker, "ucp_tag_recv_nbx", status);
	state->got++;
	*at = state->memory + RING_AT + slot * state->size;
	return next_size(worker, state);
}

static const struct rival_calls tag_calls = {
	.claim = tag_claim,
	.commit = tag_commit,
	.consume = tag_consume,
	.flush = tag_flush,
	.batch_size = BATCH_SIZE,
};

/* ---- By active messages ------------------------------------------------ */

static int am_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
		.flags = UCP_AM_SEND_FLAG_EAGER,
	};
	uint64_t at = state->put++ % WINDOW;

	state->requests[at] = ucp_am_send_nbx(state->ep, MESSAGE, NULL, 0,
	    state->buffer + at * state->size, size, &param);
	return 0;
}

static void give_back(const struct state *state, struct arrived *arrived)
{
	if (arrived->lent)
		ucp_am_data_release(state->ucp, (void *)(uintptr_t)arrived->at);
	arrived->lent = false;
}

static ssize_t am_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	struct arrived *arrived;
	uint32_t polls = 0;

	/* The one before has been read; at first there was none. */
	give_back(state,
	    &state->arrived[(state->read + MAX_ARRIVED - 1) % MAX_ARRIVED]);
	while (state->read == state->n_arrived && state->status == UCS_OK)
		if (ucp_worker_progress(state->ucp))
			polls = 0;
		else
			raw_poll_pause(worker->plan->yields, &polls);
	if (state->status != UCS_OK)
		return fail(worker, "active messages", state->status);
	arrived = &state->arrived[state->read++ % MAX_ARRIVED];
	*at = arrived->at;
	return (ssize_t)arrived->size;
}

static const struct rival_calls am_calls = {
	.claim = tag_claim,
	.commit = am_commit,
	.consume = am_consume,
	.flush = tag_flush,
	.batch_size = BATCH_SIZE,
};

/* ---- By puts ----------------------------------------------------------- */

static uint64_t word_at(const struct state *state, size_t offset)
{
	const _Atomic uint64_t *word =
	    (const _Atomic uint64_t *)(const void *)(state->memory + offset);

	return atomic_load_explicit(word, memory_order_acquire);
}

/* Wait until a word of the memory is no longer `old`. */
static uint64_t await_change(
    const struct worker *worker, size_t offset, uint64_t old)
{
	const struct state *state = worker->state;
	uint32_t polls, yields = 0;
	uint64_t now;

	for (polls = 1;; polls++) {
		now = word_at(state, offset);
		if (now != old)
			return now;
		if (polls % POLLS)
			continue;
		ucp_worker_progress(state->ucp);
		if (worker->plan->yields && ++yields > RAW_SPINS / POLLS)
			sched_yield();
	}
}

static ucs_status_t put_bytes(
    const struct worker *worker, const void *from, size_t size, size_t offset)
{
	const struct state *state = worker->state;
	ucp_request_param_t param = { .op_attr_mask = 0 };

	return complete(worker,
	    ucp_put_nbx(state->ep, from, size, state->there + offset,
		state->rkey, &param));
}

static char *put_claim(struct worker *worker, size_t size)
{
	const struct state *state = worker->state;

	(void)size;
	return state->buffer;
}

static size_t slot_of(const struct state *state, uint64_t number)
{
	return RING_AT + number % state->slots * state->size;
}

static int put_commit(struct worker *worker, size_t size)
{
	struct state *state = worker->state;
	uint64_t taken = word_at(state, TAKEN_AT);
	ucs_status_t status;

	while (state->put - taken == state->slots)
		taken = await_change(worker, TAKEN_AT, taken);
	status = put_bytes(
	    worker, state->buffer, size, slot_of(state, state->put));
	state->put++;
	if (status == UCS_OK)
		status = ucp_worker_fence(state->ucp);
	if (status == UCS_OK)
		status = put_bytes(
		    worker, &state->put, sizeof(state->put), WRITTEN_AT);
	return status == UCS_OK ? 0 : fail(worker, "ucp_put_nbx", status);
}

static ssize_t put_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	ucs_status_t status;

	/* The messages before this one have been read. */
	if (state->got - state->taken >= (state->slots + 3) / 4) {
		state->taken = state->got;
		status = put_bytes(
		    worker, &state->taken, sizeof(state->taken), TAKEN_AT);
		if (status != UCS_OK)
			return fail(worker, "ucp_put_nbx", status);
	}
	if (word_at(state, WRITTEN_AT) == state->got)
		(void)await_change(worker, WRITTEN_AT, state->got);
	*at = state->memory + slot_of(state, state->got++);
	return next_size(worker, state);
}

static const struct rival_calls put_calls = {
	.claim = put_claim,
	.commit = put_commit,
	.consume = put_consume,
	.batch_size = BATCH_SIZE,
};

static int trip_commit(struct worker *worker, size_t size)
{
	const struct state *state = worker->state;
	ucs_status_t status = put_bytes(worker, state->buffer, size, RING_AT);

	return status == UCS_OK ? 0 : fail(worker, "ucp_put_nbx", status);
}

static ssize_t trip_consume(struct worker *worker, const char **at)
{
	struct state *state = worker->state;
	size_t size = worker->plan->tuple_size;

	state->last = await_change(
	    worker, RING_AT + size / 8 * 8 - 8, state->last);
	*at = state->memory + RING_AT;
	return (ssize_t)size;
}

static const struct rival_calls trip_calls = {
	.claim = put_claim,
	.commit = trip_commit,
	.consume = trip_consume,
};

/* ---- The job ----------------------------------------------------------- */

static int ucx_run(struct worker *worker)
{
	if (worker->plan->rival == RIVAL_UCX_TAG)
		return rival_messages(worker, &tag_calls);
	if (worker->plan->rival == RIVAL_UCX_AM)
		return rival_messages(worker, &am_calls);
	return worker->plan->trips ? rival_messages(worker, &trip_calls)
				   : rival_messages(worker, &put_calls);
}

static void ucx_finish(struct worker *worker)
{
	struct state *state = worker->state;
	uint32_t i;

	if (!state)
		return;
	rival_await_end(worker);
	for (i = 0; state->arrived && i < MAX_ARRIVED; i++)
		give_back(state, &state->arrived[i]);
	if (state->rkey)
		ucp_rkey_destroy(state->rkey);
	if (state->handle)
		ucp_mem_unmap(state->context, state->handle);
	/* With its endpoint, and what was posted. */
	if (state->ucp)
		ucp_worker_destroy(state->ucp);
	if (state->context)
		ucp_cleanup(state->context);
	free(state->arrived);
	free(state->buffer);
	free(state);
}

static const char *version(void)
{
	static char text[48];

	snprintf(text, sizeof(text), "UCX %s", ucp_get_version_string());
	return text;
}

const struct rival rival_ucx = {
	.version = version,
	.job = {
		.prepare = ucx_prepare,
		.run = ucx_run,
		.finish = ucx_finish,
	},
};
