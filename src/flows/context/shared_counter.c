/* SPDX-License-Identifier: Apache-2.0 */
/* A shared counter has a region of its own with one "ring" without slots. */
#include "shared_counter.h"

#include <stdio.h>
#include "base/error.h"
#include "base/log.h"
#include "buffers/layout/segment.h"
#include "context.h"
#include "network.h"
#include "region.h"

#define SHARED_COUNTER_OFFSET sizeof(struct region_header)
#define SHARED_COUNTER_REGION_SIZE \
	(SHARED_COUNTER_OFFSET + sizeof(struct shared_counter_words))

static const struct ring_layout layout = {
	.n_rings = 1,
	.first_ring = SHARED_COUNTER_OFFSET,
	.ring_size = sizeof(struct shared_counter_words),
	.wait_offset = offsetof(struct shared_counter_words, waits),
};

uint64_t dfi__shared_counter_bytes(const struct dfi *dfi)
{
	return dfi->transport->ops->region.bytes(
	    dfi->transport, SHARED_COUNTER_REGION_SIZE);
}

uint64_t dfi__shared_counter_shadow_bytes(const struct dfi *dfi)
{
	return transport_shadow_bytes(transport_shadow_size(&layout, false),
	    dfi->settings.huge_pages == HUGE_PAGES_REQUIRE);
}

/* The rule of a flow with that transport. */
static bool may_need_network(
    const struct dfi *dfi, enum dfi_transport transport)
{
	struct flow flow = { .transport = transport };

	return dfi__network_may_be_needed(dfi, &flow);
}

static enum dfi_transport choice(
    const struct dfi *dfi, enum dfi_transport transport)
{
	return transport ? transport
			 : (enum dfi_transport)dfi->settings.transport;
}

/*
 * Export the words by the first device that can add, so that all users take
 * numbers through it: two can't add to one word.
 */
static int export_words(struct dfi *dfi, enum dfi_transport choice,
    struct shared_counter *shared_counter)
{
	struct region *region = shared_counter->region;
	struct network_list list;
	unsigned i;
	int ret = dfi__network_open_all(dfi, choice, &list);

	if (ret < 0)
		return ret;
	for (i = 0, ret = -EOPNOTSUPP; ret == -EOPNOTSUPP && i < list.n; i++)
		ret = list.at[i]->ops->region.export(
		    list.at[i], region, &layout);
	return ret;
}

int dfi__shared_counter_create(struct dfi *dfi, enum dfi_transport transport,
    const char *what, uint64_t first, struct shared_counter *shared_counter)
{
	struct transport *memory = dfi->transport;
	char *why = shared_counter->published.why;
	int ret = memory->ops->region.create(
	    memory, SHARED_COUNTER_REGION_SIZE, &shared_counter->region);

	if (ret < 0)
		return ret;
	shared_counter->words = (struct shared_counter_words *)(void
		*)((char *)shared_counter->region->base +
	    SHARED_COUNTER_OFFSET);
	atomic_set(&shared_counter->words->closed, 0);
	atomic_set(&shared_counter->words->waits, 0);
	atomic_set(&shared_counter->words->waits_name, 0);
	atomic_set(&shared_counter->words->next, first);
	shared_counter->published.more = NULL; /* there are two */
	dfi__region_publish(shared_counter->region, &shared_counter->published);
	if (!may_need_network(dfi, transport)) {
		dfi__network_why_none(choice(dfi, transport), why,
		    sizeof(shared_counter->published.why));
		return 0;
	}
	ret = export_words(dfi, choice(dfi, transport), shared_counter);
	if (!ret)
		dfi__region_publish(
		    shared_counter->region, &shared_counter->published);
	if (ret < 0 && choice(dfi, transport) == DFI_TRANSPORT_AUTO) {
		snprintf(why, sizeof(shared_counter->published.why), "%s",
		    dfi_errmsg());
		dfi__log(DFI_LOG_WARN,
		    "%s: only processes on this host can take its numbers: %s",
		    what, why);
		ret = 0;
	}
	if (ret < 0)
		dfi__shared_counter_destroy(shared_counter);
	return ret;
}

void dfi__shared_counter_destroy(struct shared_counter *shared_counter)
{
	struct region *region = shared_counter->region;

	if (!region)
		return;
	shared_counter->region = NULL;
	atomic_set(&shared_counter->words->closed, 1);
	region_close(region);
}

static int open_through_memory(struct dfi *dfi, const struct node *holder,
    const struct published_region *published,
    const struct wait_limit *wait_limit, struct shared_counter_user *user)
{
	const struct region_name *name = dfi__region_memory(published);
	enum host_distance distance = dfi__host_distance(
	    &holder->at, &dfi->node.at);
	int ret;

	if (distance == HOST_OTHER || distance == HOST_OTHER_NETWORK)
		return dfi__fail(-EHOSTUNREACH,
		    "its host is %s, this one is %s: %s; and over %s it can't "
		    "be reached: %s",
		    holder->host, dfi->node.host, dfi__host_why_apart(distance),
		    dfi__network_name(),
		    published->why[0] ? published->why
				      : "its version can't do that");
	if (!name)
		return dfi__fail(-EBADMSG,
		    "its entry in the registry is damaged: it has no address "
		    "of memory");
	ret = dfi->transport->ops->ring.open(dfi->transport, user, name,
	    &layout, 0, NULL, wait_limit, &user->remote);
	if (!ret)
		user->words =
		    (struct shared_counter_words *)(void *)user->remote->ring;
	return dfi__host_explain(ret, distance);
}

/* This process demands memory. */
static int fail_choice(
    const struct dfi *dfi, const struct published_region *published)
{
	return dfi__fail(-EHOSTUNREACH,
	    "all take its numbers over %s, as some may be on other hosts: set "
	    "DFI_TRANSPORT=auto here, or %s where it is",
	    dfi__region_network(published)->transport->name,
	    dfi->transport->ops->name);
}

static int open_through_device(struct dfi *dfi, enum dfi_transport chosen,
    const struct published_region *published,
    const struct wait_limit *wait_limit, struct shared_counter_user *user)
{
	struct network_ways ways;
	struct network_way *way = ways.at;
	int ret;

	ret = dfi__network_ways(dfi, chosen, published, 0, NULL, &ways);
	if (ret < 0)
		return ret;
	return way->transport->ops->ring.open(way->transport, user,
	    &way->address->name, &layout, 0, NULL, wait_limit, &user->remote);
}

/*
 * Whether to try the memory of a counter that has a network address: its users
 * there add by the holder's processor, and this one is on the holder's host.
 */
static bool may_share_memory(const struct dfi *dfi, enum dfi_transport chosen,
    const struct node *holder, const struct published_region *published)
{
	enum host_distance distance = dfi__host_distance(
	    &holder->at, &dfi->node.at);

	return dfi__region_network(published)->transport->processor_adds &&
	    dfi__region_memory(published) &&
	    (chosen == DFI_TRANSPORT_AUTO || transport_is_memory(chosen)) &&
	    distance != HOST_OTHER && distance != HOST_OTHER_NETWORK;
}

/* Only passing the memory shows whether it can be shared. */
static int open_on_host(struct dfi *dfi, enum dfi_transport transport,
    const struct node *holder, const struct published_region *published,
    const struct wait_limit *wait_limit, struct shared_counter_user *user)
{
	enum dfi_transport chosen = choice(dfi, transport);
	int ret = -ECONNRESET;

	if (may_share_memory(dfi, chosen, holder, published))
		ret = open_through_memory(
		    dfi, holder, published, wait_limit, user);
	else if (transport_is_memory(chosen))
		return fail_choice(dfi, published);
	if ((ret == -ECONNRESET || ret == -EACCES) &&
	    !transport_is_memory(chosen) && !wait_limit_given_up(wait_limit))
		ret = open_through_device(
		    dfi, chosen, published, wait_limit, user);
	return ret;
}

int dfi__shared_counter_open(struct dfi *dfi, enum dfi_transport transport,
    const struct node *holder, const struct published_region *published,
    const struct wait_limit *wait_limit, struct shared_counter_user *user)
{
	if (!transport_region_fits(published->size, SHARED_COUNTER_REGION_SIZE))
		return dfi__fail(-EBADMSG,
		    "its entry in the registry is damaged: its counter has "
		    "%lu bytes",
		    (unsigned long)published->size);
	if (dfi__region_network(published))
		return open_on_host(
		    dfi, transport, holder, published, wait_limit, user);
	/* A device adds to the counter, so no processor may. */
	if (published->has_unknown)
		return dfi__fail(-EHOSTUNREACH,
		    "its numbers are taken over a transport that this version "
		    "of the library lacks: use the holder's version here");
	return open_through_memory(dfi, holder, published, wait_limit, user);
}

/*
 * Take the numbers asked for. 1: they have arrived. 0: they are on their way.
 */
static int take_asked(struct shared_counter_user *user, uint64_t *first)
{
	struct remote *remote = user->remote;
	int ret = remote->transport->ops->counter.added(
	    remote, offsetof(struct shared_counter_words, next), first);

	if (ret > 0)
		user->is_asked = false;
	return ret;
}

static int ask(struct shared_counter_user *user, uint64_t n)
{
	struct remote *remote = user->remote;
	int ret = remote->transport->ops->counter.add(
	    remote, offsetof(struct shared_counter_words, next), n);

	if (!ret) {
		user->asked = n;
		user->is_asked = true;
	}
	return ret;
}

int dfi__shared_counter_take_far(
    struct shared_counter_user *user, uint64_t n, uint64_t *first)
{
	uint64_t others;
	int ret = 1;

	if (user->is_asked && user->asked != n)
		ret = take_asked(user, &others);
	if (ret > 0 && !user->is_asked) {
		ret = ask(user, n);
		if (ret < 0)
			return ret;
	}
	return user->asked == n ? take_asked(user, first) : ret;
}

_Atomic uint32_t *dfi__shared_counter_wait_word(
    const struct shared_counter_user *user)
{
	return (_Atomic uint32_t *)(void *)(user->remote->ring +
	    layout.wait_offset);
}

void dfi__shared_counter_arm(const struct shared_counter_user *user)
{
	user->remote->transport->ops->ring.arm(user->remote);
}

void dfi__shared_counter_close(struct shared_counter_user *user)
{
	if (user->remote)
		user->remote->transport->ops->ring.close(user->remote);
	user->remote = NULL;
}
