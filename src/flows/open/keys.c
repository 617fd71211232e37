/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the keys of an open flow. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "flows/open/keys.h"

void dfi__open_key_write(char text[OPEN_KEY_SIZE], const struct open_key *key)
{
	switch (key->kind) {
	case OPEN_KEY_ASSIGN:
		snprintf(text, OPEN_KEY_SIZE, "assign");
		break;
	case OPEN_KEY_CUT:
		snprintf(text, OPEN_KEY_SIZE, "cuts/%" PRIu64, key->number);
		break;
	case OPEN_KEY_FLUSH:
		snprintf(text, OPEN_KEY_SIZE, "flushes/%" PRIu64 "/%" PRIu64,
		    key->number, key->incarnation);
		break;
	case OPEN_KEY_GIVEN_UP:
		snprintf(text, OPEN_KEY_SIZE, "given-up/%" PRIu32, key->source);
		break;
	case OPEN_KEY_HAND:
		snprintf(text, OPEN_KEY_SIZE, "hand/%" PRIu32 "/%" PRIu64,
		    key->target, key->incarnation);
		break;
	case OPEN_KEY_PAIR:
		snprintf(text, OPEN_KEY_SIZE,
		    "pairs/%" PRIu32 "/%" PRIu64 "/%" PRIu32, key->target,
		    key->incarnation, key->source);
		break;
	case OPEN_KEY_REPORT:
		snprintf(text, OPEN_KEY_SIZE, "reports/%" PRIu64 "/%" PRIu64,
		    key->number, key->incarnation);
		break;
	case OPEN_KEY_SOURCE:
		snprintf(text, OPEN_KEY_SIZE, "sources/%" PRIu32, key->source);
		break;
	case OPEN_KEY_TABLE:
		snprintf(text, OPEN_KEY_SIZE, "tables/%" PRIu64, key->number);
		break;
	case OPEN_KEY_TARGET:
		snprintf(text, OPEN_KEY_SIZE, "targets/%" PRIu32, key->target);
		break;
	case OPEN_KEY_LEAVE:
		snprintf(text, OPEN_KEY_SIZE, "will-leave/%" PRIu32 "/%" PRIu64,
		    key->target, key->incarnation);
		break;
	case OPEN_KEY_VIEW:
		snprintf(text, OPEN_KEY_SIZE, "views/%" PRIu64, key->number);
		break;
	}
}

/* A decimal number without a sign or leading zeros; NULL: there is none. */
static const char *read_number(const char *text, uint64_t *number)
{
	uint64_t value = 0;
	const char *at;

	if (*text == '0' && text[1] >= '0' && text[1] <= '9')
		return NULL;
	for (at = text; *at >= '0' && *at <= '9'; at++) {
		if (value > (UINT64_MAX - 9) / 10)
			return NULL;
		value = value * 10 + (uint64_t)(*at - '0');
	}
	*number = value;
	return at > text ? at : NULL;
}

/* The same of a seat below n. */
static const char *read_seat(const char *text, uint32_t n, uint32_t *seat)
{
	uint64_t number;
	const char *end = read_number(text, &number);

	if (!end || number >= n)
		return NULL;
	*seat = (uint32_t)number;
	return end;
}

/* "<target>/<incarnation>" */
static const char *read_target(
    const char *text, uint32_t n_targets, struct open_key *key)
{
	const char *end = read_seat(text, n_targets, &key->target);

	return end && *end == '/' ? read_number(end + 1, &key->incarnation)
				  : NULL;
}

/* A number that is not 0. */
static const char *read_view(const char *text, struct open_key *key)
{
	const char *end = read_number(text, &key->number);

	return key->number ? end : NULL;
}

/* "<number>/<incarnation>" */
static const char *read_note(const char *text, struct open_key *key)
{
	const char *end = read_view(text, key);

	return end && *end == '/' ? read_number(end + 1, &key->incarnation)
				  : NULL;
}

static bool begins(const char *text, const char *with, const char **rest)
{
	size_t length = strlen(with);

	*rest = text + length;
	return strncmp(text, with, length) == 0;
}

bool dfi__open_key_read(const char *text, uint32_t n_sources,
    uint32_t n_targets, struct open_key *key)
{
	const char *end;

	memset(key, 0, sizeof(*key));
	if (begins(text, "assign", &end)) {
		key->kind = OPEN_KEY_ASSIGN;
	} else if (begins(text, "cuts/", &end)) {
		key->kind = OPEN_KEY_CUT;
		end = read_view(end, key);
	} else if (begins(text, "flushes/", &end)) {
		key->kind = OPEN_KEY_FLUSH;
		end = read_note(end, key);
	} else if (begins(text, "given-up/", &end)) {
		key->kind = OPEN_KEY_GIVEN_UP;
		end = read_seat(end, n_sources, &key->source);
	} else if (begins(text, "hand/", &end)) {
		key->kind = OPEN_KEY_HAND;
		end = read_target(end, n_targets, key);
	} else if (begins(text, "pairs/", &end)) {
		key->kind = OPEN_KEY_PAIR;
		end = read_target(end, n_targets, key);
		end = end && *end == '/'
		    ? read_seat(end + 1, n_sources, &key->source)
		    : NULL;
	} else if (begins(text, "reports/", &end)) {
		key->kind = OPEN_KEY_REPORT;
		end = read_note(end, key);
	} else if (begins(text, "sources/", &end)) {
		key->kind = OPEN_KEY_SOURCE;
		end = read_seat(end, n_sources, &key->source);
	} else if (begins(text, "tables/", &end)) {
		key->kind = OPEN_KEY_TABLE;
		end = read_view(end, key);
	} else if (begins(text, "targets/", &end)) {
		key->kind = OPEN_KEY_TARGET;
		end = read_seat(end, n_targets, &key->target);
	} else if (begins(text, "views/", &end)) {
		key->kind = OPEN_KEY_VIEW;
		end = read_view(end, key);
	} else if (begins(text, "will-leave/", &end)) {
		key->kind = OPEN_KEY_LEAVE;
		end = read_target(end, n_targets, key);
	} else {
		return false;
	}
	return end && !*end;
}
