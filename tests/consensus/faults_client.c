/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client of the fault runner. On each lane it has one random command at a
 * time. There are few keys, so commands often meet. Each value is written only
 * once.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "../../examples/consensus/client.h"
#include "faults.h"

#define COMMAND_TIMEOUT_NS UINT64_C(8000000000)

struct caller {
	struct board *board;
	struct client_notes *notes;
	struct kv_client *client;
	unsigned number;
	uint64_t random, n_values, think_ns;
	uint64_t seen[FAULTS_KEYS]; /* the last value that was read there */
	uint64_t next_at[FAULTS_LANES];
	bool busy[FAULTS_LANES];
	unsigned n_busy;
};

uint64_t faults_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t draw(struct caller *caller, uint64_t below)
{
	uint64_t x = caller->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	caller->random = x;
	return x % below;
}

static size_t value_text(char *text, uint64_t value)
{
	return (size_t)snprintf(text, 20, "%" PRIu64, value);
}

static uint64_t value_of(const struct kv_client_answer *answer)
{
	char text[24] = "";

	if (answer->value_size >= sizeof(text))
		return LIN_ANY;
	memcpy(text, answer->value, answer->value_size);
	return strtoull(text, NULL, 10);
}

static void judge(struct lin_op *op, const struct kv_client_answer *answer)
{
	op->result = answer->status == KV_OK ? LIN_DONE : LIN_FAILED;
	if (op->kind == LIN_GET)
		op->seen = answer->status == KV_OK ? value_of(answer)
						   : LIN_ABSENT;
	if (op->kind == LIN_CAS && op->result == LIN_FAILED)
		op->seen = answer->status == KV_NOT_FOUND ? LIN_ABSENT
		    : answer->value_size                  ? value_of(answer)
							  : LIN_ANY;
}

static void on_answer(void *arg, const struct kv_client_answer *answer)
{
	struct caller *caller = arg;
	struct note *note = &caller->notes->notes[answer->tag];
	uint64_t now = faults_now();

	caller->busy[answer->lane] = false;
	caller->n_busy--;
	caller->next_at[answer->lane] = now + caller->think_ns;
	if (answer->status == KV_UNKNOWN || answer->status == KV_BUSY ||
	    answer->status == KV_NO_QUORUM)
		return;
	if (answer->status != KV_OK && answer->status != KV_NOT_FOUND &&
	    answer->status != KV_DIFFERENT) {
		fprintf(stderr, "client %u: status %u of an op %u\n",
		    caller->number, answer->status, answer->op);
		_exit(3);
	}
	note->op.returned = now;
	judge(&note->op, answer);
	if (note->op.kind == LIN_GET && note->op.seen != LIN_ANY)
		caller->seen[note->op.key] = note->op.seen;
	atomic_store(&note->done, true);
	if (note->op.invoked > atomic_load(&caller->notes->last_invoked))
		atomic_store(&caller->notes->last_invoked, note->op.invoked);
	atomic_fetch_add(&caller->notes->n_ok, 1);
}

static void make_up(struct caller *caller, struct lin_op *op)
{
	uint64_t what = draw(caller, 100);

	op->key = draw(caller, FAULTS_KEYS);
	op->kind = what < 40 ? LIN_GET
	    : what < 75      ? LIN_PUT
	    : what < 85      ? LIN_DELETE
			     : LIN_CAS;
	if (op->kind == LIN_PUT || op->kind == LIN_CAS)
		op->value = ((uint64_t)caller->number + 1) << 40 |
		    ++caller->n_values;
	if (op->kind == LIN_CAS)
		op->expected = caller->seen[op->key];
}

static bool submit(struct caller *caller, unsigned lane)
{
	static const uint8_t ops[] = { KV_GET, KV_PUT, KV_DELETE, KV_CAS };
	struct kv_client_command command = { .flags = 0 };
	unsigned n = atomic_load(&caller->notes->n);
	char key[16], value[24], expected[24];
	struct note *note;

	if (n == FAULTS_MAX_OPS)
		return false;
	note = &caller->notes->notes[n];
	make_up(caller, &note->op);
	command.op = ops[note->op.kind];
	command.key = key;
	command.key_size = (uint16_t)snprintf(
	    key, sizeof(key), "k%" PRIu64, note->op.key);
	if (note->op.value) {
		command.value = value;
		command.value_size = (uint16_t)value_text(
		    value, note->op.value);
	}
	if (note->op.kind == LIN_CAS && note->op.expected == LIN_ABSENT) {
		command.flags = KV_ABSENT;
	} else if (note->op.kind == LIN_CAS) {
		command.expected = expected;
		command.expected_size = (uint16_t)value_text(
		    expected, note->op.expected);
	}
	note->op.invoked = faults_now();
	atomic_store(&caller->notes->n, n + 1);
	if (kv_client_submit(caller->client, lane, &command, n) < 0) {
		fprintf(stderr, "client %u: %s\n", caller->number,
		    kv_client_error());
		_exit(3);
	}
	caller->busy[lane] = true;
	caller->n_busy++;
	return true;
}

static void name_leader(struct caller *caller)
{
	struct kv_client_stats stats;

	if (caller->number)
		return;
	kv_client_query(caller->client, &stats);
	atomic_store(&caller->board->leader, stats.leader);
}

static void run(struct caller *caller)
{
	uint64_t now;
	unsigned lane;
	bool stop;

	do {
		stop = atomic_load(&caller->board->stop);
		now = faults_now();
		for (lane = 0; lane < FAULTS_LANES && !stop; lane++)
			if (!caller->busy[lane] && now >= caller->next_at[lane])
				submit(caller, lane);
		kv_client_wait(caller->client, caller->think_ns);
		name_leader(caller);
	} while (!stop || caller->n_busy);
}

pid_t client_start(
    const struct cluster *cluster, struct board *board, unsigned number)
{
	struct caller *caller;
	struct kv_client_options options = {
		.registry = cluster->setting->registry,
		.cluster = cluster->name,
		.n_replicas = cluster->plan->n_replicas,
		.lanes = FAULTS_LANES,
		.index_reads = cluster->plan->index_reads,
		.timeout_ns = COMMAND_TIMEOUT_NS,
		.open_timeout_ns = cluster->setting->open_ms *
		    UINT64_C(1000000),
		.done = on_answer,
	};
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	caller = calloc(1, sizeof(*caller));
	if (!caller)
		_exit(3);
	caller->board = board;
	caller->notes = &board->clients[number];
	caller->number = number;
	caller->think_ns = cluster->setting->think_ms * UINT64_C(1000000);
	caller->random = (cluster->plan->seed + 1) * 7919 + number;
	options.arg = caller;
	if (kv_client_open(&options, &caller->client) < 0) {
		fprintf(stderr, "client %u: %s\n", number, kv_client_error());
		_exit(3);
	}
	run(caller);
	kv_client_close(caller->client);
	_exit(0);
}
