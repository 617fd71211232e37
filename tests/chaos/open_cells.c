/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of chaos in open flows, and their totals; see open_cells.h. */
#include "open_cells.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What carries segments between processes of a host. */
enum {
	MEMORY = 1,
	OFI = 2,
	VERBS = 4,
	ALL = MEMORY | OFI | VERBS,
};

#define LOSS(on_loss) (1u << (on_loss))
#define REPLAYED                                           \
	(LOSS(DFI_ON_LOSS_FAIL) | LOSS(DFI_ON_LOSS_DROP) | \
	    LOSS(DFI_ON_LOSS_REPLAY))
#define NOT_REPLAYED (LOSS(DFI_ON_LOSS_FAIL) | LOSS(DFI_ON_LOSS_DROP))

static const struct way {
	const char *name;
	uint32_t kind, routing, method;
	bool ordered;
	unsigned losses, carriers;
} ways[] = {
	{ "shuffle direct", DFI_SHUFFLE, DFI_ROUTE_DIRECT, 0, false, REPLAYED,
	    ALL },
	{ "shuffle function", DFI_SHUFFLE, DFI_ROUTE_FUNCTION, 0, false,
	    REPLAYED, ALL },
	{ "shuffle round robin", DFI_SHUFFLE, DFI_ROUTE_ROUND_ROBIN, 0, false,
	    REPLAYED, ALL },
	{ "shuffle any", DFI_SHUFFLE, DFI_ROUTE_ANY, 0, false, REPLAYED, ALL },
	{ "shuffle hash", DFI_SHUFFLE, DFI_ROUTE_HASH, 0, false, REPLAYED,
	    ALL },
	{ "shuffle radix", DFI_SHUFFLE, DFI_ROUTE_RADIX, 0, false, REPLAYED,
	    ALL },
	{ "shuffle range", DFI_SHUFFLE, DFI_ROUTE_RANGE, 0, false, REPLAYED,
	    ALL },
	{ "replicate naive", DFI_REPLICATE, 0, DFI_REPLICATION_NAIVE, false,
	    NOT_REPLAYED, ALL },
	{ "replicate shared", DFI_REPLICATE, 0, DFI_REPLICATION_DEFAULT, false,
	    NOT_REPLAYED, MEMORY },
	{ "replicate multicast", DFI_REPLICATE, 0, DFI_REPLICATION_MULTICAST,
	    false, NOT_REPLAYED, VERBS },
	{ "replicate ordered", DFI_REPLICATE, 0, DFI_REPLICATION_DEFAULT, true,
	    NOT_REPLAYED, ALL },
	{ "combine", DFI_COMBINE, 0, 0, false, NOT_REPLAYED, ALL },
};

#define N_WAYS (sizeof(ways) / sizeof(ways[0]))

static const char *const losses[] = { "fail", "drop", "replay" };

static struct open_total totals[OPEN_MAX_CELLS];

unsigned open_violations(const struct open_verdict *verdict)
{
	unsigned n = 0;
	int i;

	for (i = 0; i < OPEN_HARMS; i++)
		n += verdict->n[i];
	return n;
}

static unsigned carrier(void)
{
	const char *transport = getenv("DFI_TRANSPORT");

	return transport && !strcmp(transport, "verbs") ? VERBS
	    : transport && !strcmp(transport, "ofi")    ? OFI
							: MEMORY;
}

static struct open_cell make_cell(const struct way *way, uint32_t on_loss)
{
	struct open_cell cell = {
		.kind = way->kind,
		.routing = way->routing,
		.method = way->method,
		.ordered = way->ordered,
		.on_loss = on_loss,
	};

	snprintf(
	    cell.name, sizeof(cell.name), "%s %s", way->name, losses[on_loss]);
	return cell;
}

static uint32_t list_cells(struct open_cell *cells, const char *only)
{
	uint32_t n = 0, i, on_loss;

	for (i = 0; i < N_WAYS; i++)
		for (on_loss = 0; on_loss <= DFI_ON_LOSS_REPLAY; on_loss++) {
			cells[n] = make_cell(&ways[i], on_loss);
			cells[n].number = n;
			n += ways[i].carriers & carrier() &&
			    ways[i].losses & LOSS(on_loss) &&
			    strstr(cells[n].name, only);
		}
	if (n)
		return n;
	fprintf(
	    stderr, "open_chaos: no cell over this transport is '%s'\n", only);
	exit(EXIT_FAILURE);
}

struct open_cell open_choose_cell(uint64_t seed, const char *only)
{
	struct open_cell cells[OPEN_MAX_CELLS];
	uint32_t n = list_cells(cells, only);

	return cells[seed % n];
}

uint32_t open_n_cells(const char *only)
{
	struct open_cell cells[OPEN_MAX_CELLS];

	return list_cells(cells, only);
}

struct open_total *open_total_of(const char *name)
{
	struct open_total *total = totals;

	while (total->name[0] && strcmp(total->name, name) != 0)
		total++;
	snprintf(total->name, sizeof(total->name), "%s", name);
	return total;
}

static void add_both(unsigned *to, const unsigned *from)
{
	to[0] += from[0];
	to[1] += from[1];
}

static void add(struct open_total *to, const struct open_total *from)
{
	int i;

	to->runs += from->runs;
	to->latency += from->latency;
	to->pushed += from->pushed;
	to->blinks += from->blinks;
	to->cuts += from->cuts;
	to->offs += from->offs;
	add_both(to->joined, from->joined);
	add_both(to->left, from->left);
	add_both(to->aborted, from->aborted);
	add_both(to->killed, from->killed);
	add_both(to->stopped, from->stopped);
	add_both(to->evicted, from->evicted);
	add_both(to->failed, from->failed);
	for (i = 0; i < OPEN_HARMS; i++)
		to->verdict.n[i] += from->verdict.n[i];
}

static void print_both(const unsigned *n)
{
	char text[24];

	snprintf(text, sizeof(text), "%u+%u", n[0], n[1]);
	printf(" %9s", text);
}

static void print_total(const struct open_total *total)
{
	const unsigned *n = total->verdict.n;

	printf("%-27s %5u %7u", total->name, total->runs, total->latency);
	print_both(total->joined);
	print_both(total->left);
	print_both(total->aborted);
	print_both(total->killed);
	print_both(total->stopped);
	print_both(total->evicted);
	print_both(total->failed);
	printf(" %6u %4u %3u %9" PRIu64 " %5u %6u %4u %7u\n", total->blinks,
	    total->cuts, total->offs, total->pushed, n[OPEN_HANG],
	    n[OPEN_HARMED], n[OPEN_LOST], n[OPEN_DOUBLED]);
}

void open_print_totals(void)
{
	struct open_total all = { .name = "all" };
	const struct open_total *total;

	printf(
	    "Members as sources+targets, a stay each; machines that were cut "
	    "off for a moment\n(blinks), or for longer (cuts), or powered off "
	    "(offs); tuples as pushed.\n"
	    "%-27s %5s %7s %9s %9s %9s %9s %9s %9s %9s %6s %4s %3s %9s %5s "
	    "%6s %4s %7s\n",
	    "cell", "runs", "latency", "joined", "left", "aborted", "killed",
	    "stopped", "evicted", "failed", "blinks", "cuts", "offs", "tuples",
	    "hangs", "harmed", "lost", "doubled");
	for (total = totals; total->name[0]; total++) {
		print_total(total);
		add(&all, total);
	}
	print_total(&all);
}
