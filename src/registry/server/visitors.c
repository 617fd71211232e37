/* SPDX-License-Identifier: Apache-2.0 */
/* Entries are an array without gaps, so that a random one is found fast. */
#include "visitors.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "registry/wire/address.h"
#include "base/error.h"

/* The part of the process's descriptors that entries may have. */
#define FILES_PART 8
#define ENTRIES_MIN 8
/* How many random entries are compared; the largest origin loses one. */
#define CANDIDATES 8
/* How many are tried to find one of an origin with half of the entries. */
#define SEARCHES 64

static uint32_t affordable(uint32_t max)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
	    limit.rlim_cur / FILES_PART < max)
		max = (uint32_t)(limit.rlim_cur / FILES_PART);
	return max < ENTRIES_MIN ? ENTRIES_MIN : max;
}

int dfi__visitors_init(struct visitor_room *room, uint32_t max)
{
	*room = (struct visitor_room){ .max = affordable(max) };
	room->entries = calloc(room->max, sizeof(struct visitor_entry *));
	if (!room->entries)
		return dfi__fail(-ENOMEM, "no memory for the registry");
	if (getrandom(&room->seed, sizeof(room->seed), GRND_NONBLOCK) < 0)
		room->seed = (uintptr_t)room;
	return 0;
}

void dfi__visitors_free(struct visitor_room *room)
{
	free(room->entries);
	room->entries = NULL;
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

uint32_t dfi__visitors_user(const struct visitor_room *room, uint32_t user)
{
	return mix(room->seed ^ user) % VISITOR_ORIGINS;
}

/* A host may have all addresses of one IPv6 prefix of 64 bits. */
bool dfi__visitors_address(
    const struct visitor_room *room, int fd, uint32_t *origin)
{
	struct address peer = { .size = sizeof(peer.socket) };
	struct in6_addr ip;
	uint64_t number = 0;

	if (getpeername(fd, &peer.socket.any, &peer.size))
		return false;
	ip = dfi__ip_as_v6(&peer.socket.ip);
	if (IN6_IS_ADDR_V4MAPPED(&ip))
		memcpy(&number, ip.s6_addr + 12, sizeof(uint32_t));
	else
		memcpy(&number, ip.s6_addr, sizeof(number));
	*origin = mix(room->seed ^ number) % VISITOR_ORIGINS;
	return true;
}

static struct visitor_entry *random_entry(struct visitor_room *room)
{
	return room->entries[mix(room->seed + ++room->random) % room->n];
}

/* Choose a entry to free, one of this origin if it has too many. */
static struct visitor_entry *choose(
    struct visitor_room *room, bool crowded, uint32_t origin)
{
	struct visitor_entry *best = NULL, *entry;
	uint32_t i;

	for (i = 0; i < SEARCHES && (i < CANDIDATES || !best); i++) {
		entry = random_entry(room);
		if (crowded && entry->origin != origin)
			continue;
		if (entry->spent)
			return entry;
		if (!best ||
		    room->n_of[entry->origin] > room->n_of[best->origin])
			best = entry;
	}
	for (i = 0; !best; i++)
		if (room->entries[i]->origin == origin)
			best = room->entries[i];
	return best;
}

struct visitor_entry *dfi__visitors_excess(
    struct visitor_room *room, uint32_t origin)
{
	bool crowded = room->n_of[origin] >= room->max / 2;

	if (!crowded && room->n < room->max)
		return NULL;
	return choose(room, crowded, origin);
}

struct visitor_entry *dfi__visitors_any(struct visitor_room *room)
{
	return room->n ? choose(room, false, 0) : NULL;
}

void dfi__visitors_enter(
    struct visitor_room *room, struct visitor_entry *entry, uint32_t origin)
{
	entry->index = room->n;
	entry->origin = origin;
	room->entries[room->n++] = entry;
	room->n_of[origin]++;
}

void dfi__visitors_leave(struct visitor_room *room, struct visitor_entry *entry)
{
	struct visitor_entry *last = room->entries[--room->n];

	room->n_of[entry->origin]--;
	room->entries[entry->index] = last;
	last->index = entry->index;
}
