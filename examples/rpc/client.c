/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client: it takes a seat, asks for squares, and leaves the seat to others.
 * Usage: rpc-client [REQUESTS [VISITS [PAUSE_MS]]]
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include "rpc.h"

#define TIMEOUT_MS 20000 /* for a reply, and for a server to come */

struct client {
	struct dfi_source *requests;
	struct dfi_target *replies;
	uint64_t last_id;
};

static void pause_ms(unsigned long ms)
{
	struct timespec time = { (time_t)(ms / 1000),
		(long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

/* Take a seat of each flow: replies first, so that no request is without. */
static void join(struct dfi *dfi, struct client *client)
{
	struct dfi_target_attr target_attr = DFI_TARGET_ATTR_INIT;
	struct dfi_source_attr source_attr = DFI_SOURCE_ATTR_INIT;
	int ret;

	target_attr.stall_timeout_ms = target_attr.open_timeout_ms = TIMEOUT_MS;
	source_attr.stall_timeout_ms = source_attr.open_timeout_ms = TIMEOUT_MS;
	target_attr.schema = &reply_schema;
	source_attr.schema = &request_schema;
	while ((ret = dfi_target_open(dfi, REPLIES, DFI_ANY_SEAT, &target_attr,
		    &client->replies)) == -EBUSY)
		pause_ms(10); /* all seats are taken */
	check(ret);
	while ((ret = dfi_source_open(dfi, REQUESTS, DFI_ANY_SEAT, &source_attr,
		    &client->requests)) == -EBUSY)
		pause_ms(10);
	check(ret);
	if (getrandom(&client->last_id, sizeof(client->last_id), 0) < 0)
		err(1, "getrandom");
}

static void leave(struct client *client)
{
	check(dfi_source_close(client->requests));
	check(dfi_target_close(client->replies));
}

/*
 * Ask for a square. -ETIMEDOUT: there was no reply in time; the server may have
 * got the request, or not.
 */
static int call(struct client *client, uint64_t value, uint64_t *square)
{
	struct request request = {
		.id = ++client->last_id,
		.value = value,
		.seat = (uint32_t)dfi_target_seat(client->replies),
	};
	int ret = dfi_source_push(client->requests, &request);
	const struct reply *reply;
	const void *tuple;

	if (ret < 0)
		return ret;
	while ((ret = dfi_target_consume(client->replies, &tuple)) > 0) {
		reply = tuple;
		/* Others are late: this client, or the last one in its seat,
		 * waits for them no more. */
		if (reply->id != request.id)
			continue;
		*square = reply->value;
		return 0;
	}
	return ret < 0 ? ret : -ESHUTDOWN;
}

/* A number of the command line, or its default. */
static unsigned long argument(char **argv, int argc, int i, unsigned long value)
{
	char *end = NULL;

	if (argc > 4)
		errx(64, "too many arguments: REQUESTS VISITS PAUSE_MS");
	if (argc <= i)
		return value;
	value = strtoul(argv[i], &end, 10);
	if (*end || end == argv[i] || argv[i][0] == '-')
		errx(64,
		    "'%s' is no number: rpc-client [REQUESTS [VISITS "
		    "[PAUSE_MS]]]",
		    argv[i]);
	return value;
}

int main(int argc, char **argv)
{
	unsigned long n_requests = argument(argv, argc, 1, 10);
	unsigned long n_visits = argument(argv, argc, 2, 1);
	unsigned long pause = argument(argv, argc, 3, 0);
	unsigned long n_replies = 0, n_late = 0;
	struct client client;
	struct dfi *dfi;
	uint64_t square;
	int ret;

	check(dfi_open(NULL, &dfi));
	for (unsigned long visit = 0; visit < n_visits; visit++) {
		join(dfi, &client);
		for (uint64_t i = 0; i < n_requests; i++) {
			ret = call(&client, i, &square);
			if (ret == -ETIMEDOUT) {
				n_late++;
				continue;
			}
			check(ret);
			if (square != i * i)
				errx(1, "%" PRIu64 " is no square", square);
			n_replies++;
			pause_ms(pause);
		}
		leave(&client);
	}
	check(dfi_close(dfi));
	printf("%lu visit%s, %lu replies, %lu timed out\n", n_visits,
	    n_visits == 1 ? "" : "s", n_replies, n_late);
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
	return n_late != 0;
}
