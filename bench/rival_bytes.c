/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of tuples through descriptors, which block. */
#include "rival_bytes.h"

#include <unistd.h>

static size_t largest_message(const struct plan *plan)
{
	return plan->tuple_size > BYTES_BATCH ? plan->tuple_size : BYTES_BATCH;
}

int rival_bytes_prepare(struct worker *worker)
{
	struct rival_bytes *bytes = calloc(1, sizeof(*bytes));

	worker->state = bytes;
	if (!bytes)
		return worker_fail_errno(worker, "a worker");
	bytes->in = bytes->out = -1;
	bytes->message = aligned_alloc(
	    64, (largest_message(worker->plan) + 63) / 64 * 64);
	bytes->arrived = malloc(worker->plan->tuple_size + BYTES_READ);
	return bytes->message && bytes->arrived
	    ? 0
	    : worker_fail_errno(worker, "a buffer");
}

static char *bytes_claim(struct worker *worker, size_t size)
{
	struct rival_bytes *bytes = worker->state;

	(void)size;
	return bytes->message;
}

static int bytes_commit(struct worker *worker, size_t size)
{
	struct rival_bytes *bytes = worker->state;
	const char *from = bytes->message;
	ssize_t n;

	for (; size > 0; from += n, size -= (size_t)n) {
		n = write(bytes->out, from, size);
		if (n < 0)
			return worker_fail_errno(worker, "write");
	}
	return 0;
}

static ssize_t bytes_consume(struct worker *worker, const char **at)
{
	struct rival_bytes *bytes = worker->state;
	size_t tuple_size = worker->plan->tuple_size;
	ssize_t n;

	bytes->have -= bytes->consumed;
	memmove(bytes->arrived, bytes->arrived + bytes->consumed, bytes->have);
	do {
		n = read(bytes->in, bytes->arrived + bytes->have, BYTES_READ);
		if (n == 0)
			errno = EPIPE;
		if (n <= 0)
			return worker_fail_errno(worker, "read");
		bytes->have += (size_t)n;
	} while (bytes->have < tuple_size);
	bytes->consumed = bytes->have / tuple_size * tuple_size;
	*at = bytes->arrived;
	return (ssize_t)bytes->consumed;
}

static const struct rival_calls calls = {
	.claim = bytes_claim,
	.commit = bytes_commit,
	.consume = bytes_consume,
	.batch_size = BYTES_BATCH,
};

int rival_bytes_run(struct worker *worker)
{
	return rival_messages(worker, &calls);
}

void rival_bytes_finish(struct worker *worker)
{
	struct rival_bytes *bytes = worker->state;

	if (!bytes)
		return;
	if (bytes->out >= 0)
		close(bytes->out);
	if (bytes->in >= 0 && bytes->in != bytes->out)
		close(bytes->in);
	free(bytes->message);
	free(bytes->arrived);
	free(bytes);
}
