/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One lock protects the list of datagram endpoints and the datagrams that wait
 * in each. An arrival is announced once, to an endpoint that has armed, as
 * devices do.
 */
#include "fake_network.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/loop.h"
#include "base/wait.h"
#include "transport/multicast.h"
#include "transport/transport.h"

/* The most datagrams under way: few, so that endpoints often have no room. */
#define UNDER_WAY 8

struct network {
	struct transport base;
	struct loop *loop;
};

struct fake_endpoint {
	struct multicast_endpoint base;
	struct network *network;
	struct fake_endpoint *next;
	struct multicast_attr attr;
	char group[64];
	uint64_t number;
	/* The waiting datagrams, each of receive_size bytes. */
	char *bytes;
	uint32_t *sizes;
	uint32_t first, n;
	uint32_t under_way;
	bool armed, broken;
	int news, timer;
	struct event *news_event, *timer_event;
};

struct multicast_peer {
	uint64_t number;
};

/* Words that a transport grants; they stay while anybody has them open. */
struct words {
	struct export export;
	struct words *next;
	struct region *region;
	char *base; /* NULL: they have gone with their context */
	uint32_t n_users;
	bool closing;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_endpoint *endpoints;
static struct words *all_words;
static uint64_t n_opened;
static bool is_cut;

/* ---- Under the lock ---------------------------------------------------- */

static void announce(struct fake_endpoint *endpoint)
{
	if (endpoint->armed || endpoint->broken)
		(void)eventfd_write(endpoint->news, 1);
	endpoint->armed = false;
}

static void arrive(struct fake_endpoint *endpoint, const void *header,
    size_t header_size, const void *payload, size_t payload_size)
{
	uint32_t at = (endpoint->first + endpoint->n) % endpoint->attr.receives;
	char *to = endpoint->bytes + (size_t)at * endpoint->attr.receive_size;

	if (is_cut || endpoint->n == endpoint->attr.receives ||
	    header_size + payload_size > endpoint->attr.receive_size)
		return;
	memcpy(to, header, header_size);
	if (payload_size)
		memcpy(to + header_size, payload, payload_size);
	endpoint->sizes[at] = (uint32_t)(header_size + payload_size);
	endpoint->n++;
	announce(endpoint);
}

static bool is_for(const struct fake_endpoint *endpoint,
    const struct fake_endpoint *from, const struct multicast_peer *to)
{
	if (endpoint->attr.key != from->attr.key)
		return false;
	if (to)
		return endpoint->number == to->number;
	return endpoint != from && endpoint->attr.member &&
	    strcmp(endpoint->group, from->group) == 0;
}

void fake_network_cut(void)
{
	pthread_mutex_lock(&lock);
	is_cut = true;
	pthread_mutex_unlock(&lock);
}

void fake_network_break(void)
{
	struct fake_endpoint *endpoint;

	pthread_mutex_lock(&lock);
	for (endpoint = endpoints; endpoint; endpoint = endpoint->next) {
		endpoint->broken = true;
		announce(endpoint);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- Ports ------------------------------------------------------------- */

static int broken(void)
{
	return dfi__fail(-ECONNRESET, "the fake network is broken");
}

static int endpoint_send(struct multicast_endpoint *base,
    struct multicast_peer *peer, const void *header, size_t header_size,
    const void *payload, size_t payload_size)
{
	struct fake_endpoint *endpoint = (struct fake_endpoint *)base;
	const char *memory = endpoint->attr.memory;
	struct fake_endpoint *to;
	int ret = 0;

	assert(header_size <= MULTICAST_HEADER_MAX);
	assert(header_size + payload_size <= endpoint->attr.max_size);
	assert(!payload_size ||
	    ((const char *)payload >= memory &&
		(const char *)payload + payload_size <=
		    memory + endpoint->attr.memory_size));
	pthread_mutex_lock(&lock);
	if (endpoint->broken)
		ret = -ECONNRESET;
	else if (endpoint->under_way == UNDER_WAY)
		ret = -EAGAIN;
	else
		endpoint->under_way++;
	for (to = endpoints; !ret && to; to = to->next)
		if (is_for(to, endpoint, peer))
			arrive(to, header, header_size, payload, payload_size);
	pthread_mutex_unlock(&lock);
	return ret == -ECONNRESET ? broken() : ret;
}

static int endpoint_room(struct multicast_endpoint *base)
{
	struct fake_endpoint *endpoint = (struct fake_endpoint *)base;
	bool is_broken, room;

	pthread_mutex_lock(&lock);
	is_broken = endpoint->broken;
	room = endpoint->under_way < UNDER_WAY;
	pthread_mutex_unlock(&lock);
	return is_broken ? broken() : room;
}

static int endpoint_take(struct multicast_endpoint *base)
{
	struct fake_endpoint *endpoint = (struct fake_endpoint *)base;
	char bytes[MULTICAST_LARGEST];
	uint32_t size;
	int n = 0;

	pthread_mutex_lock(&lock);
	endpoint->under_way = 0;
	while (endpoint->n && !endpoint->broken) {
		size = endpoint->sizes[endpoint->first];
		memcpy(bytes,
		    endpoint->bytes +
			(size_t)endpoint->first * endpoint->attr.receive_size,
		    size);
		endpoint->first = (endpoint->first + 1) %
		    endpoint->attr.receives;
		endpoint->n--;
		pthread_mutex_unlock(&lock);
		endpoint->attr.received(endpoint->attr.arg, bytes, size);
		n++;
		pthread_mutex_lock(&lock);
	}
	n = endpoint->broken ? -ECONNRESET : n;
	pthread_mutex_unlock(&lock);
	return n < 0 ? broken() : n;
}

static void endpoint_arm(struct multicast_endpoint *base)
{
	struct fake_endpoint *endpoint = (struct fake_endpoint *)base;

	pthread_mutex_lock(&lock);
	endpoint->armed = true;
	/* Datagrams under way complete some time. */
	if (endpoint->under_way)
		announce(endpoint);
	pthread_mutex_unlock(&lock);
}

static void endpoint_alarm(struct multicast_endpoint *base, int64_t at)
{
	struct fake_endpoint *endpoint = (struct fake_endpoint *)base;
	struct itimerspec time = { .it_value.tv_nsec = 0 };
	int ret;

	if (at != DEADLINE_NEVER)
		time.it_value = deadline_timespec(at > 0 ? at : 1);
	ret = timerfd_settime(endpoint->timer, TFD_TIMER_ABSTIME, &time, NULL);
	assert(ret == 0);
}

static int peer_open(struct multicast_endpoint *base,
    const struct multicast_address *address, struct multicast_peer **peer)
{
	(void)base;
	*peer = calloc(1, sizeof(**peer));
	assert(*peer);
	memcpy(*peer, address->bytes, sizeof(**peer));
	return 0;
}

static void peer_close(struct multicast_peer *peer)
{
	free(peer);
}

/* ---- On the control thread --------------------------------------------- */

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct fake_endpoint *endpoint = arg;
	uint64_t n;

	(void)what;
	if (read(fd, &n, sizeof(n)) == sizeof(n))
		endpoint->attr.ready(endpoint->attr.arg);
}

static struct event *watch(struct fake_endpoint *endpoint, int fd)
{
	struct event *event = event_new(dfi__loop_base(endpoint->network->loop),
	    fd, EV_READ | EV_PERSIST, on_event, endpoint);

	int ret = event ? event_add(event, NULL) : -1;

	assert(ret == 0);
	return event;
}

static int add_events(void *arg)
{
	struct fake_endpoint *endpoint = arg;

	endpoint->news_event = watch(endpoint, endpoint->news);
	endpoint->timer_event = watch(endpoint, endpoint->timer);
	return 0;
}

static int remove_events(void *arg)
{
	struct fake_endpoint *endpoint = arg;

	event_free(endpoint->news_event);
	event_free(endpoint->timer_event);
	return 0;
}

/* ---- Opening and closing ----------------------------------------------- */

static void endpoint_close(struct multicast_endpoint *base)
{
	struct fake_endpoint *endpoint = (struct fake_endpoint *)base;
	struct fake_endpoint **at;

	dfi__loop_call(
	    endpoint->network->loop, remove_events, endpoint, DEADLINE_NEVER);
	pthread_mutex_lock(&lock);
	for (at = &endpoints; *at != endpoint; at = &(*at)->next)
		;
	*at = endpoint->next;
	pthread_mutex_unlock(&lock);
	close(endpoint->news);
	close(endpoint->timer);
	free(endpoint->bytes);
	free(endpoint->sizes);
	free(endpoint);
}

static const struct multicast_ops endpoint_ops = {
	.close = endpoint_close,
	.peer_open = peer_open,
	.peer_close = peer_close,
	.send = endpoint_send,
	.room = endpoint_room,
	.take = endpoint_take,
	.arm = endpoint_arm,
	.alarm = endpoint_alarm,
};

/* ---- Words ------------------------------------------------------------- */

static int export_room(struct transport *transport, uint64_t size)
{
	(void)transport;
	(void)size;
	return 0;
}

static int export_words(struct transport *transport, struct region *region,
    const struct ring_layout *layout)
{
	struct words *words;

	if (layout->n_slots)
		return dfi__fail(-EOPNOTSUPP, "fake: it exports no rings");
	words = calloc(1, sizeof(*words));
	assert(words);
	words->export.transport = transport;
	words->export.name = region->name;
	snprintf(words->export.name.address, sizeof(words->export.name.address),
	    "%s", transport->address);
	words->region = region;
	words->base = (char *)region->base + layout->first_ring;
	pthread_mutex_lock(&lock);
	words->next = all_words;
	all_words = words;
	pthread_mutex_unlock(&lock);
	region_add_export(region, &words->export);
	return 0;
}

/* The lock is held. */
static void leave_region(struct words *words)
{
	if (words->base && region_leave(words->region))
		words->region->transport->ops->region.destroy(words->region);
	words->base = NULL;
}

/* The lock is held. */
static void put_words(struct words *words)
{
	struct words **at;

	if (!words->closing || words->n_users)
		return;
	for (at = &all_words; *at != words; at = &(*at)->next)
		;
	*at = words->next;
	leave_region(words);
	free(words);
}

static void unexport_words(struct export *export)
{
	struct words *words = (struct words *)export;

	pthread_mutex_lock(&lock);
	words->closing = true;
	put_words(words);
	pthread_mutex_unlock(&lock);
}

struct user {
	struct remote base;
	struct user *next;
	struct words *words;
	uint64_t before; /* what the last add() found */
	_Atomic uint32_t *waits;
};

static struct user *users;

/* Answers are on their way, and this many were asked for. */
static _Atomic bool adds_are_held;
static _Atomic uint32_t n_adds;

void fake_network_hold_adds(bool hold)
{
	const struct user *user;

	atomic_store(&adds_are_held, hold);
	pthread_mutex_lock(&lock);
	for (user = users; !hold && user; user = user->next)
		wait_wake_fenced(user->waits);
	pthread_mutex_unlock(&lock);
}

uint32_t fake_network_adds(void)
{
	return atomic_load(&n_adds);
}

static int open_words(struct transport *transport, const void *writer,
    const struct region_name *name, const struct ring_layout *layout,
    uint32_t ring, struct send_buffer *send_buffer,
    const struct wait_limit *wait_limit, struct remote **remote)
{
	struct user *user = calloc(1, sizeof(*user));
	struct words *words;

	(void)send_buffer; /* numbers are not sent */
	(void)writer;
	(void)wait_limit;
	assert(user && layout->n_slots == 0 && ring == 0);
	pthread_mutex_lock(&lock);
	for (words = all_words; words; words = words->next)
		if (words->export.name.key == name->key && !words->closing)
			break;
	if (words)
		words->n_users++;
	pthread_mutex_unlock(&lock);
	if (!words) {
		free(user);
		return dfi__fail(-ECONNREFUSED, "no such words");
	}
	user->base.transport = transport;
	user->base.ring = calloc(1, layout->ring_size);
	assert(user->base.ring);
	user->waits = (_Atomic uint32_t *)(void *)(user->base.ring +
	    layout->wait_offset);
	user->words = words;
	pthread_mutex_lock(&lock);
	user->next = users;
	users = user;
	pthread_mutex_unlock(&lock);
	*remote = &user->base;
	return 0;
}

/* There is always enough. */
static int room(struct transport *transport, uint64_t size, uint64_t locked)
{
	(void)transport;
	(void)size;
	(void)locked;
	return 0;
}

static void close_words(struct remote *remote)
{
	struct user *user = (struct user *)remote, **at;

	pthread_mutex_lock(&lock);
	for (at = &users; *at != user; at = &(*at)->next)
		;
	*at = user->next;
	user->words->n_users--;
	put_words(user->words);
	pthread_mutex_unlock(&lock);
	free(user->base.ring);
	free(user);
}

/* As the end of a context breaks its connections. */
static void lose_words(const struct transport *transport)
{
	struct words *words;
	struct user *user;

	pthread_mutex_lock(&lock);
	for (words = all_words; words; words = words->next)
		if (words->export.transport == transport)
			leave_region(words);
	for (user = users; user; user = user->next)
		if (!user->words->base)
			wait_wake_fenced(user->waits);
	pthread_mutex_unlock(&lock);
}

static int fail_lost(void)
{
	return dfi__fail(-ECONNRESET, "the peer has gone");
}

static int add(struct remote *remote, uint64_t offset, uint64_t n)
{
	struct user *user = (struct user *)remote;
	char *base;

	pthread_mutex_lock(&lock);
	base = user->words->base;
	if (base)
		user->before = atomic_fetch_add(
		    (_Atomic uint64_t *)(void *)(base + offset), n);
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&n_adds, 1);
	return base ? 0 : fail_lost();
}

static int added(struct remote *remote, uint64_t offset, uint64_t *before)
{
	struct user *user = (struct user *)remote;
	bool lost;

	(void)offset;
	if (atomic_load(&adds_are_held))
		return 0;
	pthread_mutex_lock(&lock);
	lost = !user->words->base;
	pthread_mutex_unlock(&lock);
	*before = user->before;
	return lost ? fail_lost() : 1;
}

/* A thread that lets answers go on wakes all. */
static void arm_words(struct remote *remote)
{
	(void)remote;
}

static bool reaches(const struct transport *transport, const char *address)
{
	(void)transport;
	(void)address;
	return true;
}

static bool multicast_is_v6(const struct transport *transport)
{
	(void)transport;
	return false;
}

static uint32_t multicast_size(const struct transport *transport)
{
	(void)transport;
	return MULTICAST_LARGEST;
}

static uint64_t multicast_bytes(
    const struct transport *transport, const struct multicast_attr *attr)
{
	(void)transport;
	return (uint64_t)attr->receives * attr->receive_size;
}

static int multicast_room(
    struct transport *transport, const struct multicast_attr *attr)
{
	(void)transport;
	(void)attr;
	return 0;
}

static int multicast_open(struct transport *transport,
    const struct multicast_attr *attr, int64_t deadline,
    struct multicast_endpoint **out)
{
	struct network *network = (struct network *)transport;
	struct fake_endpoint *endpoint = calloc(1, sizeof(*endpoint));

	(void)deadline;
	assert(attr->max_size <= MULTICAST_LARGEST);
	assert(endpoint && attr->receives);
	endpoint->base.ops = &endpoint_ops;
	endpoint->base.max_size = attr->max_size;
	endpoint->base.receives = attr->receives;
	endpoint->network = network;
	endpoint->attr = *attr;
	snprintf(endpoint->group, sizeof(endpoint->group), "%s", attr->group);
	endpoint->bytes = calloc(attr->receives, attr->receive_size);
	endpoint->sizes = calloc(attr->receives, sizeof(endpoint->sizes[0]));
	endpoint->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	endpoint->timer = timerfd_create(
	    CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	assert(endpoint->bytes && endpoint->sizes);
	assert(endpoint->news >= 0 && endpoint->timer >= 0);
	pthread_mutex_lock(&lock);
	endpoint->number = ++n_opened;
	endpoint->next = endpoints;
	endpoints = endpoint;
	pthread_mutex_unlock(&lock);
	memcpy(endpoint->base.address.bytes, &endpoint->number,
	    sizeof(endpoint->number));
	dfi__loop_call(network->loop, add_events, endpoint, DEADLINE_NEVER);
	*out = &endpoint->base;
	return 0;
}

static int network_start(struct loop *loop, const struct settings *settings,
    const struct member *self, struct transport **transport)
{
	struct network *network = calloc(1, sizeof(*network));

	(void)settings;
	(void)self;
	assert(network);
	network->base.ops = &dfi__verbs_ops;
	snprintf(
	    network->base.address, sizeof(network->base.address), "10.0.0.1:1");
	network->loop = loop;
	*transport = &network->base;
	return 0;
}

static void network_stop(struct transport *transport)
{
	lose_words(transport);
	free(transport);
}

static void describe(const struct transport *transport,
    const struct remote *remote, char text[TRANSPORT_WAY_SIZE])
{
	(void)transport;
	(void)remote;
	snprintf(text, TRANSPORT_WAY_SIZE, "a fake network");
}

static void query(
    struct transport *transport, struct dfi_transport_stats *stats)
{
	(void)transport;
	(void)stats;
}

static const struct mcast_ops mcast_ops = {
	.is_v6 = multicast_is_v6,
	.size = multicast_size,
	.bytes = multicast_bytes,
	.room = multicast_room,
	.open = multicast_open,
};

const struct transport_ops dfi__verbs_ops = {
	.name = "verbs",
	.start = network_start,
	.stop = network_stop,
	.describe = describe,
	.reaches = reaches,
	.region.export_room = export_room,
	.region.export = export_words,
	.region.unexport = unexport_words,
	.ring.room = room,
	.ring.open = open_words,
	.ring.close = close_words,
	.counter.add = add,
	.counter.added = added,
	.ring.arm = arm_words,
	.query = query,
	.mcast = &mcast_ops,
};
