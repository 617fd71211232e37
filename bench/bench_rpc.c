/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A service and its clients, each a thread that sends a request when it has the
 * reply to the last one and has thought for a time. In each round all clients
 * join, ask for the time of a round, and one of them leaves and joins again
 * while the others are there. Rounds of flows and of sockets take turns.
 */
#include <dfi/dfi.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../common/complain.h"
#include "../common/threads.h"
#include "bench.h"
#include "board.h"
#include "rpc.h"
#include "values.h"

static const struct column columns[] = {
	{ "clients", "clients", 7, 0, false },
	{ "think", "think[us]", 9, 1, false },
	{ "value", "result[us]", 10, 1, false },
	{ "p99", "99 %[us]", 9, 1, false },
	{ "baseline_value", "limit[us]", 9, 1, false },
	{ "ratio", "ratio", 6, 3, false },
	{ "baseline", "limit is", 12, 0, false },
	{ "join", "join[us]", 8, 0, false },
	{ "join_p99", "join 99 %[us]", 13, 0, false },
	{ "tuple_size", "tuple[B]", 8, 0, true },
	{ "wait", "wait", 8, 0, true },
	{ "min", "min[us]", 8, 1, true },
	{ "max", "max[us]", 8, 1, true },
	{ "p999", "99.9 %[us]", 10, 1, true },
	{ "baseline_p99", "limit 99 %[us]", 14, 1, true },
	{ "rate", "rate[1/s]", 10, 0, true },
	{ "joins", "joins", 7, 0, true },
	{ "baseline_join", "limit join[us]", 14, 0, true },
	{ "transport", "transport", 9, 0, true },
	{ "verified", "verified", 8, 0, true },
	{ 0 },
};

/* A service, and what its rounds had. */
struct side {
	struct rpc_service service;
	struct histogram trips, joins;
	double values[STATS_MAX_VALUES]; /* medians of rounds, in us */
	double seconds;                  /* of all rounds */
};

enum {
	FLOWS = 0,
	SOCKETS,
	N_SIDES,
};

struct round {
	const struct rpc_options *options;
	struct side *side;
	uint32_t n_clients, n_joins;
	uint64_t end_ns;
	pthread_barrier_t joined, asked, over;
};

struct visitor {
	pthread_t thread;
	struct round *round;
	struct rpc_client client;
	uint32_t number;
	bool failed;
	struct histogram trips, joins;
};

static void think(uint64_t ns)
{
	struct timespec time = {
		.tv_sec = (time_t)(ns / UINT64_C(1000000000)),
		.tv_nsec = (long)(ns % UINT64_C(1000000000)),
	};

	if (ns)
		nanosleep(&time, NULL);
}

/* The next request, which no other one equals, and its reply. */
static bool ask(struct visitor *visitor)
{
	struct rpc_client *client = &visitor->client;
	uint32_t size = client->service->tuple_size;

	client->request[RPC_ID]++;
	memcpy((char *)client->request + size - sizeof(uint64_t),
	    &client->request[RPC_ID], sizeof(uint64_t));
	if (!client->service->ops->call(client))
		return false;
	if (memcmp(client->request, client->reply, size) == 0)
		return true;
	complain("client %u: not the reply to its request", visitor->number);
	return false;
}

/* Join, and have the first reply. */
static bool join(struct visitor *visitor)
{
	uint64_t begin = now_ns();

	if (!visitor->client.service->ops->join(&visitor->client))
		return false;
	if (!ask(visitor))
		return false;
	histogram_add(&visitor->joins, now_ns() - begin);
	return true;
}

static bool ask_often(struct visitor *visitor)
{
	const struct round *round = visitor->round;
	uint64_t begin;

	while ((begin = now_ns()) < round->end_ns) {
		if (!ask(visitor))
			return false;
		histogram_add(&visitor->trips, now_ns() - begin);
		think(round->options->think_ns);
	}
	return true;
}

static bool join_often(struct visitor *visitor)
{
	const struct rpc_ops *ops = visitor->client.service->ops;
	uint32_t i;

	for (i = 0; i < visitor->round->n_joins; i++)
		if (!ops->leave(&visitor->client) || !join(visitor))
			return false;
	return true;
}

/* A visitor that has failed goes on to meet the others. */
static void *visit(void *arg)
{
	struct visitor *visitor = arg;
	struct round *round = visitor->round;
	bool done = join(visitor);

	/* Joins at once, beside others', are not counted. */
	visitor->joins = (struct histogram){ 0 };
	pthread_barrier_wait(&round->joined);
	if (visitor->number == 0)
		round->end_ns = now_ns() +
		    (uint64_t)(round->options->common.seconds * 1e9);
	pthread_barrier_wait(&round->asked);
	done = done && ask_often(visitor);
	pthread_barrier_wait(&round->over);
	if (visitor->number == 0)
		done = done && join_often(visitor);
	if (done)
		done = visitor->client.service->ops->leave(&visitor->client);
	visitor->failed = !done;
	return NULL;
}

/* Start a round's threads; false: the process can't go on. */
static void start_visitors(struct round *round, struct visitor *visitors)
{
	uint32_t i;

	for (i = 0; i < round->n_clients; i++) {
		visitors[i].round = round;
		visitors[i].number = i;
		visitors[i].client.service = &round->side->service;
		visitors[i].client.request[RPC_ID] = (uint64_t)(i + 1) << 40;
		if (thread_start(&visitors[i].thread, visit, &visitors[i]) != 0)
			exit(1); /* those before it wait */
	}
}

static bool end_visitors(struct round *round, struct visitor *visitors,
    double *median_us, bool counts)
{
	static struct histogram trips;
	struct side *side = round->side;
	bool done = true;
	uint32_t i;

	trips = (struct histogram){ 0 };
	for (i = 0; i < round->n_clients; i++) {
		pthread_join(visitors[i].thread, NULL);
		histogram_merge(&trips, &visitors[i].trips);
		done &= !visitors[i].failed;
		if (counts)
			histogram_merge(&side->joins, &visitors[i].joins);
	}
	*median_us = histogram_percentile(&trips, 0.5) / 1000;
	if (counts) {
		histogram_merge(&side->trips, &trips);
		side->seconds += round->options->common.seconds;
	}
	return done;
}

static bool measure_round(const struct rpc_options *options, struct side *side,
    uint32_t n_clients, double *median_us, bool counts)
{
	struct round round = {
		.options = options,
		.side = side,
		.n_clients = n_clients,
		.n_joins = options->n_joins,
	};
	struct visitor *visitors = calloc(n_clients, sizeof(*visitors));
	bool done;

	if (!visitors) {
		complain("out of memory for %u clients", n_clients);
		return false;
	}
	pthread_barrier_init(&round.joined, NULL, n_clients);
	pthread_barrier_init(&round.asked, NULL, n_clients);
	pthread_barrier_init(&round.over, NULL, n_clients);
	start_visitors(&round, visitors);
	done = end_visitors(&round, visitors, median_us, counts);
	pthread_barrier_destroy(&round.joined);
	pthread_barrier_destroy(&round.asked);
	pthread_barrier_destroy(&round.over);
	free(visitors);
	return done;
}

static bool measure(
    const struct rpc_options *options, struct side *sides, uint32_t n_clients)
{
	double unused;
	uint32_t i, s;
	bool done = true;

	for (s = 0; s < N_SIDES && done; s++)
		done = measure_round(
		    options, &sides[s], n_clients, &unused, false);
	for (i = 0; i < options->common.repeat && done; i++)
		for (s = 0; s < N_SIDES && done; s++)
			done = measure_round(options, &sides[s], n_clients,
			    &sides[s].values[i], true);
	return done;
}

static json_t *percentile(const struct histogram *histogram, double fraction)
{
	return report_number(histogram_percentile(histogram, fraction) / 1000);
}

static void add_row(const struct rpc_options *options, struct report *report,
    const struct side *sides, uint32_t n_clients)
{
	const struct common_options *common = &options->common;
	const struct side *flows = &sides[FLOWS], *sockets = &sides[SOCKETS];
	struct summary summary = stats_summary(flows->values, common->repeat);
	json_t *row = json_pack("{s:s, s:i, s:f, s:i, s:s}", "experiment",
	    "rpc", "clients", (int)n_clients, "think",
	    (double)options->think_ns / 1000, "tuple_size",
	    (int)common->tuple_sizes[0], "wait", wait_name(common->wait));

	report_result(row, "us", &summary, common->repeat, true);
	json_object_set_new(row, "p99", percentile(&flows->trips, 0.99));
	json_object_set_new(row, "p999", percentile(&flows->trips, 0.999));
	json_object_set_new(row, "rate",
	    report_number((double)flows->trips.count / flows->seconds));
	json_object_set_new(
	    row, "joins", json_integer((json_int_t)flows->joins.count));
	json_object_set_new(row, "join",
	    flows->joins.count ? percentile(&flows->joins, 0.5) : json_null());
	json_object_set_new(row, "join_p99",
	    flows->joins.count ? percentile(&flows->joins, 0.99) : json_null());
	report_baseline(row, sockets->service.ops->name, flows->values,
	    sockets->values, common->repeat);
	json_object_set_new(
	    row, "baseline_p99", percentile(&sockets->trips, 0.99));
	json_object_set_new(row, "baseline_join",
	    sockets->joins.count ? percentile(&sockets->joins, 0.5)
				 : json_null());
	json_object_set_new(row, "transport",
	    json_string(transport_name(flows->service.session->transport)));
	report_row(report, row);
}

static bool run_clients(const struct rpc_options *options,
    struct session *session, struct report *report, uint32_t n_clients)
{
	static const struct rpc_ops *const ops[N_SIDES] = { &rpc_flow_ops,
		&rpc_socket_ops };
	static struct side sides[N_SIDES];
	uint32_t s, n_started = 0;
	bool done = true;

	for (s = 0; s < N_SIDES; s++)
		sides[s] = (struct side){
			.service = {
				.ops = ops[s],
				.session = session,
				.options = &options->common,
				.n_seats = n_clients,
				.tuple_size = options->common.tuple_sizes[0],
			},
		};
	while (done && n_started < N_SIDES) {
		done = ops[n_started]->start(&sides[n_started].service);
		n_started += done;
	}
	done = done && measure(options, sides, n_clients);
	while (n_started-- > 0)
		done &= ops[n_started]->stop(&sides[n_started].service);
	if (done)
		add_row(options, report, sides, n_clients);
	return done;
}

int bench_rpc(int argc, char **argv)
{
	static struct rpc_options options;
	struct session session;
	struct report report;
	bool done = true;
	uint32_t i, most = 0;
	int status;

	rpc_options_parse(argc, argv, &options);
	if (!session_open(&options.common, &session))
		return 1;
	for (i = 0; i < options.n_client_counts; i++)
		if (options.clients[i] > most)
			most = (uint32_t)options.clients[i];
	report_open(&report, options.common.format, "rpc", columns, most + 1);
	for (i = 0; i < options.n_client_counts && done; i++)
		done = run_clients(
		    &options, &session, &report, (uint32_t)options.clients[i]);
	status = report_close(&report);
	session_close(&session);
	return done ? status : 1;
}
