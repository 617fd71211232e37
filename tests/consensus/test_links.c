/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links over flows of this process. As over RDMA, a flush finds the position of
 * a segment still on its way, and a source finds its peer silent.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "examples/consensus/links_impl.h"

#define MS UINT64_C(1000000)
#define LONG_NS (60000 * MS) /* only what hangs reaches it */

/* This many flushes to come find no position. */
static unsigned late;

/* This many connection attempts end without an answer; and their kinds. */
static unsigned quiet, n_tries;
static struct
try {
	uint32_t limit_ms;
	unsigned failures; /* of the link before */
}
tries[8];
static _Atomic(struct link *) connecting;

static struct dfi_registry *registry;
static bool came, is_up, is_gone;
static unsigned last_from, left;

/* In place of the library's. */
int dfi_source_flush(struct dfi_source *source)
{
	int (*flush)(struct dfi_source *);
	void *symbol = dlsym(RTLD_NEXT, "dfi_source_flush");

	memcpy(&flush, &symbol, sizeof(flush));
	if (!late)
		return flush(source);
	late--;
	return -EAGAIN;
}

/* The same. One thread calls it, which has the link. */
int dfi_source_open(struct dfi *dfi, const char *flow, uint32_t number,
    const struct dfi_source_attr *attr, struct dfi_source **source)
{
	int (*open)(struct dfi *, const char *, uint32_t,
	    const struct dfi_source_attr *, struct dfi_source **);
	void *symbol = dlsym(RTLD_NEXT, "dfi_source_open");
	struct link *link;

	memcpy(&open, &symbol, sizeof(open));
	if (!quiet)
		return open(dfi, flow, number, attr, source);
	while (!(link = atomic_load(&connecting)))
		sched_yield();
	cr_assert_lt(n_tries, sizeof(tries) / sizeof(tries[0]));
	tries[n_tries++] = (struct try){
		.limit_ms = attr->open_timeout_ms,
		.failures = link->failures,
	};
	return n_tries <= quiet ? -ETIMEDOUT
				: open(dfi, flow, number, attr, source);
}

static void on_change(void *arg, struct link *link, bool up)
{
	(void)arg;
	(void)link;
	is_up = up;
}

static void on_receive(
    void *arg, struct link *link, unsigned from, const char *bytes, size_t size)
{
	(void)arg;
	(void)link;
	last_from = from;
	cr_assert_eq(size, LINK_TUPLE);
	cr_assert_str_eq(bytes, "seven");
	came = true;
}

static void on_left(void *arg, struct link *link, unsigned from)
{
	(void)arg;
	(void)link;
	left |= 1u << from;
}

static void on_closed(void *arg, struct link *link, void *link_arg)
{
	(void)arg;
	(void)link;
	(void)link_arg;
	is_gone = true;
}

static struct links *open_links(void)
{
	struct dfi_registry_attr attr = DFI_REGISTRY_ATTR_INIT;
	struct links_setup setup = {
		.node_name = "test",
		.n_helpers = 1,
		.open_timeout_ms = 60000,
		.ops = {
			.changed = on_change,
			.receive = on_receive,
			.left = on_left,
			.closed = on_closed,
		},
	};
	static char address[64];
	struct links *links;

	snprintf(address, sizeof(address), "unix:@dfi-links-%d", (int)getpid());
	attr.listen = address;
	cr_assert_eq(
	    dfi_registry_start(&attr, &registry), 0, "%s", dfi_errmsg());
	setup.registry = address;
	cr_assert_eq(links_open(&setup, &links), 0, "%s", dfi_errmsg());
	return links;
}

static void close_links(struct links *links)
{
	links_close(links);
	dfi_registry_stop(registry);
}

static struct link *open_ordered(struct links *links)
{
	const struct link_setup setup = {
		.kind = LINK_ORDERED,
		.name = "order",
		.segment_size = 1024,
		.segments = 16,
		.n_ends = 1,
		.create = true,
		.open_ms = 60000,
		.once = true,
	};
	uint64_t deadline = now_ns() + LONG_NS;
	struct link *link = links_add(links, &setup);

	cr_assert_not_null(link);
	while (!is_up && now_ns() < deadline) {
		links_poll(links, 1);
		links_wait(links, deadline);
	}
	cr_assert(is_up);
	return link;
}

Test(links, a_segment_whose_place_is_late_is_sent)
{
	struct links *links = open_links();
	struct link *link = open_ordered(links);
	uint64_t deadline = now_ns() + LONG_NS;
	char *message = link_begin(link, LINK_TUPLE);

	cr_assert_not_null(message);
	strcpy(message, "seven");
	late = 3;
	link_send_alone(link, LINK_TUPLE);
	while (!came && now_ns() < deadline) {
		links_flush(links);
		links_poll(links, 1);
		links_wait(links, deadline);
	}
	cr_assert(came, "it waits, and nobody asks again");
	cr_assert_eq(late, 0);
	close_links(links);
}

Test(links, a_link_that_closes_forgets_what_is_late)
{
	struct links *links = open_links();
	struct link *link = open_ordered(links);
	char *message = link_begin(link, LINK_TUPLE);

	cr_assert_not_null(message);
	strcpy(message, "seven");
	late = UINT32_MAX;
	link_send_alone(link, LINK_TUPLE);
	links_flush(links);
	link_close(link);
	close_links(links);
	cr_assert_not(is_up);
}

/* The next one of the link's ends goes up. */
static void await_change(struct links *links)
{
	uint64_t deadline = now_ns() + LONG_NS;

	is_up = false;
	while (!is_up && now_ns() < deadline) {
		links_wait(links, deadline);
		links_poll(links, 1);
	}
	cr_assert(is_up);
}

Test(links, a_peer_that_is_quiet_gets_time_for_a_lost_datagram)
{
	struct links *links = open_links();
	struct link_setup setup = {
		.kind = LINK_IN,
		.segment_size = 1024,
		.segments = 16,
	};
	unsigned i;

	strcpy(setup.name, "pair");
	cr_assert_not_null(links_add(links, &setup));
	await_change(links);
	quiet = 2;
	setup.kind = LINK_OUT;
	atomic_store(&connecting, links_add(links, &setup));
	await_change(links);
	cr_assert_eq(n_tries, 3);
	for (i = 0; i < n_tries; i++) {
		cr_assert_eq(tries[i].failures, i);
		/* With a datagram lost, the rest has as long as before. */
		cr_assert_eq(tries[i].limit_ms,
		    LINK_CONNECT_MS + (i ? LINK_RESEND_MS : 0));
	}
	close_links(links);
}

Test(links, an_owner_without_links_sleeps)
{
	struct links *links = open_links();
	uint64_t until = now_ns() + 50 * MS;
	struct links_stats stats;

	while (now_ns() < until) {
		links_poll(links, 1);
		links_wait(links, until);
	}
	links_query(links, &stats);
	cr_assert_lt(stats.waits, 5, "it has slept %lu times in 50 ms",
	    (unsigned long)stats.waits);
	close_links(links);
}

/* A message with the text that on_receive() expects, when there is room. */
static void send_seven(struct links *links, struct link *link, unsigned to)
{
	uint64_t deadline = now_ns() + LONG_NS;
	char *message;

	came = false;
	while (!(message = link_begin_to(link, to, LINK_TUPLE))) {
		cr_assert_lt(now_ns(), deadline, "no room");
		links_wait(links, deadline);
		links_poll(links, 1);
	}
	strcpy(message, "seven");
	link_send(link, LINK_TUPLE);
	links_flush(links);
	while (!came) {
		cr_assert_lt(now_ns(), deadline, "nothing comes");
		links_wait(links, deadline);
		links_poll(links, 1);
	}
}

static unsigned n_members = 2; /* at most, besides the creator */

static struct link_setup member(const char *name, bool in, bool create)
{
	struct link_setup setup = {
		.kind = in ? LINK_OPEN_IN : LINK_OPEN_OUT,
		.segment_size = 1024,
		.segments = 4,
		.create = create,
		.end = LINK_ANY_SEAT,
		.n_sources = in == create ? n_members : 1,
		.n_targets = in == create ? 1 : n_members,
	};

	strcpy(setup.name, name);
	return setup;
}

static struct link *add_member(
    struct links *links, const char *name, bool in, bool create)
{
	const struct link_setup setup = member(name, in, create);
	struct link *link = links_add(links, &setup);

	cr_assert_not_null(link);
	await_change(links);
	return link;
}

static void await_left(struct links *links, unsigned seat)
{
	uint64_t deadline = now_ns() + LONG_NS;

	while (!(left >> seat & 1)) {
		cr_assert_lt(now_ns(), deadline, "%u has not left", seat);
		links_wait(links, deadline);
		links_poll(links, 1);
	}
}

Test(links, a_member_that_leaves_gives_its_seat_to_the_next)
{
	struct links *links = open_links();
	struct link *link;
	unsigned i, seat;

	add_member(links, "open", true, true);
	for (i = 0; i < 5; i++) {
		link = add_member(links, "open", false, false);
		send_seven(links, link, 0);
		seat = link_seat(link);
		cr_assert_eq(last_from, seat);
		left = 0;
		link_close(link);
		await_left(links, seat);
	}
	close_links(links);
}

Test(links, a_message_goes_to_the_member_in_its_seat)
{
	struct links *links = open_links();
	struct link *out = add_member(links, "open", false, true);
	struct link *in[2];
	unsigned i;

	for (i = 0; i < 2; i++)
		in[i] = add_member(links, "open", true, false);
	cr_assert_neq(link_seat(in[0]), link_seat(in[1]));
	for (i = 0; i < 2; i++)
		send_seven(links, out, link_seat(in[i]));
	close_links(links);
}

Test(links, a_member_s_link_breaks_with_the_flow_and_comes_up_again)
{
	struct links *links = open_links();
	struct link *out;
	unsigned i;

	n_members = 1;
	out = add_member(links, "open", false, true);
	add_member(links, "open", true, false);
	for (i = 0; i < 3; i++) {
		send_seven(links, out, 0);
		link_reset(out);
		while (link_up(out))
			links_poll(links, 1);
	}
	close_links(links);
}
