/* SPDX-License-Identifier: Apache-2.0 */
/* Invariants for any input: links between objects go both ways. */
#include <string.h>
#include "message_rig.h"

static uint64_t sum(const struct region *region)
{
	const uint8_t *at = region->base;
	uint64_t sum = 0, i;

	for (i = 0; i < region->name.size && at; i++)
		sum = sum * 31 + at[i];
	return sum;
}

void rig_take_state(struct rig_state *state)
{
	unsigned i;

	memset(state, 0, sizeof(*state));
	fuzz_check(rig.verbs.n_links <= LINKS_MAX);
	if (rig.verbs.n_links)
		memcpy(state->links, rig.verbs.links,
		    rig.verbs.n_links * sizeof(state->links[0]));
	if (rig.exports[0])
		memcpy(
		    state->rings, rig.exports[0]->rings, sizeof(state->rings));
	for (i = 0; i < 2; i++)
		if (rig.exports[i])
			state->n_export_links[i] = rig.exports[i]->n_links;
	for (i = 0; i < REMOTES; i++)
		if (rig.remotes[i])
			memcpy(&state->remotes[i], rig.remotes[i],
			    sizeof(state->remotes[i]));
	state->n_polled = rig.verbs.n_polled;
	state->region_sum = sum(&rig.regions[0]);
}

static bool is_listed(const struct verbs_conn *conn)
{
	const struct verbs_conn *at;

	for (at = rig.verbs.conns; at && at != conn; at = at->next)
		;
	return at;
}

/* Of a ring or of words, by whom both know each other. */
static void check_export_link(const struct verbs_link *link)
{
	const struct verbs_export *export = link->export;
	const struct network_ring *ring = &export->rings[link->ring];

	fuzz_check(link->ring < export->layout.n_rings);
	if (!export->layout.n_slots)
		return;
	fuzz_check(&rig.verbs.links[ring->link] == link && ring->used);
	fuzz_check(ring->notify == rig.verbs.settings->verbs_notify);
	fuzz_check(link->slot < export->layout.n_slots &&
	    link->blank_slot < export->layout.n_slots &&
	    link->next_footer == verbs_footer_at(link, link->slot));
}

static void check_link(uint32_t number)
{
	const struct verbs_link *link = &rig.verbs.links[number];

	fuzz_check(is_listed(link->conn));
	fuzz_check(!link->export || !link->remote);
	fuzz_check(link->conn->accepted == !link->remote);
	if (link->export)
		check_export_link(link);
	else if (link->remote)
		fuzz_check(link->remote->link == number &&
		    link->remote->conn == link->conn);
	else
		fuzz_check(link->owing == VERBS_OWES_CLOSED);
	fuzz_check(link->owing != VERBS_OWES_CREDIT || link->export != NULL);
}

static void check_export(const struct verbs_export *export)
{
	uint32_t n = 0, n_words[2] = { 0 }, i;
	const struct verbs_link *link;

	for (i = 0; i < rig.verbs.n_links; i++) {
		link = &rig.verbs.links[i];
		if (!link->conn || link->export != export)
			continue;
		n++;
		if (!export->layout.n_slots)
			n_words[link->conn == rig.conns[0]]++;
	}
	fuzz_check(n == export->n_links && (n || !export->closing));
	/* Each connection has words open once. */
	fuzz_check(n_words[0] <= 1 && n_words[1] <= 1);
	for (i = 0; i < export->layout.n_rings; i++) {
		fuzz_check(export->rings[i].link == NETWORK_NO_LINK ||
		    rig.verbs.links[export->rings[i].link].export == export);
		fuzz_check(!export->rings[i].lost ||
		    export->rings[i].writer == RIG_PEER);
	}
}

/* The rings that the transport counts, whatever their way to notice segments.
 */
static uint64_t counted_rings(void)
{
	struct dfi_transport_stats stats = { .n_counters = 0 };
	uint64_t n = 0;
	uint32_t i;

	dfi__verbs_ops.query(&rig.verbs.base, &stats);
	for (i = 0; i < stats.n_counters; i++)
		if (strstr(stats.counters[i].name, "_rings"))
			n += stats.counters[i].value;
	return n;
}

static void check_counts(void)
{
	const struct verbs_link *link;
	uint32_t owing[CONNS] = { 0 }, rings = 0, i, k;

	for (i = 0; i < rig.verbs.n_links; i++) {
		link = &rig.verbs.links[i];
		if (!link->conn)
			continue;
		check_link(i);
		rings += link->export && link->export->layout.n_slots;
		for (k = 0; k < CONNS; k++)
			owing[k] += link->conn == rig.conns[k] &&
			    link->owing != VERBS_OWES_NOTHING;
	}
	for (k = 0; k < CONNS; k++)
		fuzz_check(!rig.conns[k] || rig.conns[k]->n_owing == owing[k]);
	fuzz_check(rig.verbs.n_polled ==
	    (rig.verbs.settings->verbs_notify == VERBS_NOTIFY_CHECKSUM ? rings
								       : 0));
	fuzz_check(counted_rings() >= rings);
}

void rig_check(void)
{
	const struct verbs_export *export;

	check_counts();
	for (export = rig.verbs.exports; export; export = export->next)
		check_export(export);
}
