/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes and parses datagrams. Anybody may have sent a received one, so the
 * parser checks all of it before use.
 */
#include "datagram.h"

#include <endian.h>
#include <string.h>

/* Whether it is between a source and one target of an open flow. */
static bool is_of_pair(const struct datagram_flow *flow, unsigned type)
{
	return flow->open && (type == DATAGRAM_REPORT || type == DATAGRAM_JOIN);
}

static size_t put_head(const struct datagram_flow *flow,
    const struct datagram *datagram, struct datagram_head *head)
{
	*head = (struct datagram_head){
		.instance = htole64(is_of_pair(flow, datagram->type)
			? datagram->pair
			: flow->instance),
		.type = (uint8_t)datagram->type,
		.flags = datagram->flags,
		.source = htole16((uint16_t)datagram->source),
		.number = htole32(datagram->number),
	};
	return sizeof(*head);
}

static size_t put_report(const struct datagram *datagram,
    struct datagram_report report, char *header)
{
	struct datagram_range range;
	size_t size = sizeof(report);
	uint32_t i;

	report.target = htole32(datagram->target);
	report.n_missing = htole32(datagram->n_missing);
	memcpy(header, &report, sizeof(report));
	for (i = 0; i < datagram->n_missing; i++) {
		range.first = htole32(datagram->missing[i].first);
		range.count = htole32(datagram->missing[i].count);
		memcpy(header + size, &range, sizeof(range));
		size += sizeof(range);
	}
	return size;
}

size_t dfi__datagram_encode(const struct datagram_flow *flow,
    const struct datagram *datagram, char header[DATAGRAM_HEADER_MAX])
{
	struct datagram_report report;
	struct datagram_state state;
	struct datagram_position position;
	struct datagram_data data;
	struct datagram_join join;

	switch (datagram->type) {
	case DATAGRAM_DATA:
		put_head(flow, datagram, &data.head);
		data.total = htole64(datagram->total);
		data.used = htole32(datagram->used);
		data.zero = 0;
		memcpy(header, &data, sizeof(data));
		return sizeof(data);
	case DATAGRAM_STATE:
		put_head(flow, datagram, &state.head);
		state.total = htole64(datagram->total);
		memcpy(header, &state, sizeof(state));
		return sizeof(state);
	case DATAGRAM_REPORT:
		put_head(flow, datagram, &report.head);
		return put_report(datagram, report, header);
	case DATAGRAM_POSITION:
		put_head(flow, datagram, &position.head);
		position.position = htole64(datagram->position);
		position.count = htole32(datagram->count);
		position.zero = 0;
		memcpy(header, &position, sizeof(position));
		return sizeof(position);
	case DATAGRAM_JOIN:
		put_head(flow, datagram, &join.head);
		join.total = htole64(datagram->total);
		join.first = htole64(datagram->first);
		join.mark = htole64(datagram->mark);
		join.target = htole32(datagram->target);
		join.zero = 0;
		memcpy(header, &join, sizeof(join));
		return sizeof(join);
	}
	return 0;
}

static bool parse_data(const struct datagram_flow *flow, const char *at,
    size_t size, struct datagram *datagram)
{
	const struct ring_geometry *g = &flow->geometry;
	struct datagram_data data;

	if (size < sizeof(data) || datagram->flags)
		return false;
	memcpy(&data, at, sizeof(data));
	datagram->total = le64toh(data.total);
	datagram->used = le32toh(data.used);
	datagram->payload = at + sizeof(data);
	return !data.zero && datagram->used &&
	    (datagram->used == FOOTER_MARK ||
		(datagram->used <= g->segment_bytes &&
		    datagram->used % g->tuple_size == 0)) &&
	    size - sizeof(data) == datagram_payload(g, datagram->used);
}

static bool parse_state(const char *at, size_t size, struct datagram *datagram)
{
	struct datagram_state state;

	if (size != sizeof(state) ||
	    datagram->flags & ~(DATAGRAM_END | DATAGRAM_ABORT))
		return false;
	memcpy(&state, at, sizeof(state));
	datagram->total = le64toh(state.total);
	return true;
}

/* Only in flows whose segments have positions. */
static bool parse_position(const struct datagram_flow *flow, const char *at,
    size_t size, struct datagram *datagram)
{
	struct datagram_position position;

	if (size != sizeof(position) || datagram->flags ||
	    !(flow->geometry.parts & SEGMENT_GLOBAL))
		return false;
	memcpy(&position, at, sizeof(position));
	datagram->position = le64toh(position.position);
	datagram->count = le32toh(position.count);
	return !position.zero && datagram->count &&
	    datagram->count <= flow->geometry.segment_count;
}

/* Only in open flows. */
static bool parse_join(const struct datagram_flow *flow, const char *at,
    size_t size, struct datagram *datagram)
{
	struct datagram_join join;

	if (size != sizeof(join) || datagram->flags || !flow->open)
		return false;
	memcpy(&join, at, sizeof(join));
	datagram->total = le64toh(join.total);
	datagram->first = le64toh(join.first);
	datagram->mark = le64toh(join.mark);
	datagram->target = le32toh(join.target);
	return !join.zero && (uint32_t)datagram->first == datagram->number;
}

static bool parse_report(const struct datagram_flow *flow, const char *at,
    size_t size, struct datagram *datagram)
{
	struct datagram_report report;
	struct datagram_range range;
	uint32_t i;

	if (size < sizeof(report) ||
	    datagram->flags &
		~(DATAGRAM_DONE | DATAGRAM_CANCELLED | DATAGRAM_USED))
		return false;
	memcpy(&report, at, sizeof(report));
	datagram->target = le32toh(report.target);
	datagram->n_missing = le32toh(report.n_missing);
	if (datagram->target >= flow->n_targets ||
	    datagram->n_missing > DATAGRAM_MISSING_MAX ||
	    size != sizeof(report) + datagram->n_missing * sizeof(range))
		return false;
	for (i = 0; i < datagram->n_missing; i++) {
		memcpy(&range, at + sizeof(report) + i * sizeof(range),
		    sizeof(range));
		datagram->missing[i].first = le32toh(range.first);
		datagram->missing[i].count = le32toh(range.count);
		if (!datagram->missing[i].count ||
		    datagram->missing[i].count > flow->geometry.segment_count)
			return false;
	}
	return true;
}

/* A source knows the pairs of all its targets, so it compares by itself. */
static bool is_ours(
    const struct datagram_flow *flow, const struct datagram_head *head)
{
	uint64_t instance = le64toh(head->instance);

	if (!is_of_pair(flow, head->type))
		return instance == flow->instance;
	return head->type == DATAGRAM_REPORT || instance == flow->pair;
}

bool dfi__datagram_parse(const struct datagram_flow *flow, const void *data,
    size_t size, struct datagram *datagram)
{
	struct datagram_head head;

	if (size < sizeof(head))
		return false;
	memcpy(&head, data, sizeof(head));
	if (!is_ours(flow, &head) || le16toh(head.source) >= flow->n_sources)
		return false;
	datagram->pair = le64toh(head.instance);
	datagram->type = head.type;
	datagram->flags = head.flags;
	datagram->source = le16toh(head.source);
	datagram->number = le32toh(head.number);
	switch (head.type) {
	case DATAGRAM_DATA:
		return parse_data(flow, data, size, datagram);
	case DATAGRAM_STATE:
		return parse_state(data, size, datagram);
	case DATAGRAM_REPORT:
		return parse_report(flow, data, size, datagram);
	case DATAGRAM_POSITION:
		return parse_position(flow, data, size, datagram);
	case DATAGRAM_JOIN:
		return parse_join(flow, data, size, datagram);
	default:
		return false;
	}
}
