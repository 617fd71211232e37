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

struct port {
	struct multicast_port base;
	struct network *network;
	struct port *next;
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
	char *base;
	uint32_t n_users;
	bool closing;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct port *ports;
static struct words *all_words;
static uint64_t n_opened;
static bool is_cut;

/* ---- Under the lock ---------------------------------------------------- */

static void announce(struct port *port)
{
	if (port->armed || port->broken)
		(void)eventfd_write(port->news, 1);
	port->armed = false;
}

static void arrive(struct port *port, const void *header, size_t header_size,
    const void *payload, size_t payload_size)
{
	uint32_t at = (port->first + port->n) % port->attr.receives;
	char *to = port->bytes + (size_t)at * port->attr.receive_size;

	if (is_cut || port->n == port->attr.receives ||
	    header_size + payload_size > port->attr.receive_size)
		return;
	memcpy(to, header, header_size);
	if (payload_size)
		memcpy(to + header_size, payload, payload_size);
	port->sizes[at] = (uint32_t)(header_size + payload_size);
	port->n++;
	announce(port);
}

static bool is_for(const struct port *port, const struct port *from,
    const struct multicast_peer *to)
{
	if (port->attr.key != from->attr.key)
		return false;
	if (to)
		return port->number == to->number;
	return port != from && port->attr.member &&
	    strcmp(port->group, from->group) == 0;
}

void fake_network_cut(void)
{
	pthread_mutex_lock(&lock);
	is_cut = true;
	pthread_mutex_unlock(&lock);
}

void fake_network_break(void)
{
	struct port *port;

	pthread_mutex_lock(&lock);
	for (port = ports; port; port = port->next) {
		port->broken = true;
		announce(port);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- Ports ------------------------------------------------------------- */

static int broken(void)
{
	return dfi__fail(-ECONNRESET, "the fake network is broken");
}

static int port_send(struct multicast_port *base, struct multicast_peer *peer,
    const void *header, size_t header_size, const void *payload,
    size_t payload_size)
{
	struct port *port = (struct port *)base;
	const char *memory = port->attr.memory;
	struct port *to;
	int ret = 0;

	assert(header_size <= MULTICAST_HEADER_MAX);
	assert(header_size + payload_size <= port->attr.max_size);
	assert(!payload_size ||
	    ((const char *)payload >= memory &&
		(const char *)payload + payload_size <=
		    memory + port->attr.memory_size));
	pthread_mutex_lock(&lock);
	if (port->broken)
		ret = -ECONNRESET;
	else if (port->under_way == UNDER_WAY)
		ret = -EAGAIN;
	else
		port->under_way++;
	for (to = ports; !ret && to; to = to->next)
		if (is_for(to, port, peer))
			arrive(to, header, header_size, payload, payload_size);
	pthread_mutex_unlock(&lock);
	return ret == -ECONNRESET ? broken() : ret;
}

static int port_room(struct multicast_port *base)
{
	struct port *port = (struct port *)base;
	bool is_broken, room;

	pthread_mutex_lock(&lock);
	is_broken = port->broken;
	room = port->under_way < UNDER_WAY;
	pthread_mutex_unlock(&lock);
	return is_broken ? broken() : room;
}

static int port_progress(struct multicast_port *base)
{
	struct port *port = (struct port *)base;
	char bytes[MULTICAST_LARGEST];
	uint32_t size;
	int n = 0;

	pthread_mutex_lock(&lock);
	port->under_way = 0;
	while (port->n && !port->broken) {
		size = port->sizes[port->first];
		memcpy(bytes,
		    port->bytes + (size_t)port->first * port->attr.receive_size,
		    size);
		port->first = (port->first + 1) % port->attr.receives;
		port->n--;
		pthread_mutex_unlock(&lock);
		port->attr.received(port->attr.arg, bytes, size);
		n++;
		pthread_mutex_lock(&lock);
	}
	n = port->broken ? -ECONNRESET : n;
	pthread_mutex_unlock(&lock);
	return n < 0 ? broken() : n;
}

static void port_arm(struct multicast_port *base)
{
	struct port *port = (struct port *)base;

	pthread_mutex_lock(&lock);
	port->armed = true;
	/* Datagrams under way complete some time. */
	if (port->under_way)
		announce(port);
	pthread_mutex_unlock(&lock);
}

static void port_alarm(struct multicast_port *base, int64_t at)
{
	struct port *port = (struct port *)base;
	struct itimerspec time = { .it_value.tv_nsec = 0 };
	int ret;

	if (at != DEADLINE_NEVER)
		time.it_value = deadline_timespec(at > 0 ? at : 1);
	ret = timerfd_settime(port->timer, TFD_TIMER_ABSTIME, &time, NULL);
	assert(ret == 0);
}

static int peer_open(struct multicast_port *base,
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
	struct port *port = arg;
	uint64_t n;

	(void)what;
	if (read(fd, &n, sizeof(n)) == sizeof(n))
		port->attr.ready(port->attr.arg);
}

static struct event *watch(struct port *port, int fd)
{
	struct event *event = event_new(dfi__loop_base(port->network->loop), fd,
	    EV_READ | EV_PERSIST, on_event, port);

	int ret = event ? event_add(event, NULL) : -1;

	assert(ret == 0);
	return event;
}

static int add_events(void *arg)
{
	struct port *port = arg;

	port->news_event = watch(port, port->news);
	port->timer_event = watch(port, port->timer);
	return 0;
}

static int remove_events(void *arg)
{
	struct port *port = arg;

	event_free(port->news_event);
	event_free(port->timer_event);
	return 0;
}

/* ---- Opening and closing ----------------------------------------------- */

static void port_close(struct multicast_port *base)
{
	struct port *port = (struct port *)base;
	struct port **at;

	dfi__loop_call(
	    port->network->loop, remove_events, port, DEADLINE_NEVER);
	pthread_mutex_lock(&lock);
	for (at = &ports; *at != port; at = &(*at)->next)
		;
	*at = port->next;
	pthread_mutex_unlock(&lock);
	close(port->news);
	close(port->timer);
	free(port->bytes);
	free(port->sizes);
	free(port);
}

static const struct multicast_ops port_ops = {
	.close = port_close,
	.peer_open = peer_open,
	.peer_close = peer_close,
	.send = port_send,
	.room = port_room,
	.progress = port_progress,
	.arm = port_arm,
	.alarm = port_alarm,
};

/* ---- Words ------------------------------------------------------------- */

static int export_words(struct transport *transport, struct region *region,
    const struct ring_layout *layout)
{
	struct words *words = calloc(1, sizeof(*words));

	assert(words && layout->n_slots == 0);
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
	region->export = &words->export;
	return 0;
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
	words->region->transport->ops->region.destroy(words->region);
	free(words);
}

static void unexport_words(struct region *region)
{
	struct words *words = (struct words *)region->export;

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
    uint32_t ring, struct stage *stage, const struct wait_limit *wait_limit,
    struct remote **remote)
{
	struct user *user = calloc(1, sizeof(*user));
	struct words *words;

	(void)stage; /* numbers are not sent */
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

static int add(struct remote *remote, uint64_t offset, uint64_t n)
{
	struct user *user = (struct user *)remote;

	user->before = atomic_fetch_add(
	    (_Atomic uint64_t *)(void *)(user->words->base + offset), n);
	atomic_fetch_add(&n_adds, 1);
	return 0;
}

static int added(struct remote *remote, uint64_t offset, uint64_t *before)
{
	(void)offset;
	if (atomic_load(&adds_are_held))
		return 0;
	*before = ((struct user *)remote)->before;
	return 1;
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
    struct multicast_port **out)
{
	struct network *network = (struct network *)transport;
	struct port *port = calloc(1, sizeof(*port));

	(void)deadline;
	assert(attr->max_size <= MULTICAST_LARGEST);
	assert(port && attr->receives);
	port->base.ops = &port_ops;
	port->base.max_size = attr->max_size;
	port->base.receives = attr->receives;
	port->network = network;
	port->attr = *attr;
	snprintf(port->group, sizeof(port->group), "%s", attr->group);
	port->bytes = calloc(attr->receives, attr->receive_size);
	port->sizes = calloc(attr->receives, sizeof(port->sizes[0]));
	port->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	port->timer = timerfd_create(
	    CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	assert(port->bytes && port->sizes);
	assert(port->news >= 0 && port->timer >= 0);
	pthread_mutex_lock(&lock);
	port->number = ++n_opened;
	port->next = ports;
	ports = port;
	pthread_mutex_unlock(&lock);
	memcpy(port->base.address.bytes, &port->number, sizeof(port->number));
	dfi__loop_call(network->loop, add_events, port, DEADLINE_NEVER);
	*out = &port->base;
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
