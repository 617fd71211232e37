/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of an open flow below flows/<name>/<instance>/: the table in
 * "Members" of docs/open-flows.md.
 */
#ifndef DFI_FLOWS_OPEN_KEYS_H
#define DFI_FLOWS_OPEN_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum open_key_kind {
	OPEN_KEY_ASSIGN = 1, /* assign */
	OPEN_KEY_CUT,        /* cuts/<number> */
	OPEN_KEY_FLUSH,      /* flushes/<number>/<incarnation> */
	OPEN_KEY_GIVEN_UP,   /* given-up/<source> */
	OPEN_KEY_HAND,       /* hand/<target>/<incarnation> */
	OPEN_KEY_PAIR,       /* pairs/<target>/<incarnation>/<source> */
	OPEN_KEY_REPORT,     /* reports/<number>/<incarnation> */
	OPEN_KEY_SOURCE,     /* sources/<source> */
	OPEN_KEY_TABLE,      /* tables/<number> */
	OPEN_KEY_TARGET,     /* targets/<target> */
	OPEN_KEY_LEAVE,      /* will-leave/<target>/<incarnation> */
	OPEN_KEY_VIEW,       /* views/<number> */
};

struct open_key {
	enum open_key_kind kind;
	uint32_t source, target; /* 0 in kinds without it */
	uint64_t incarnation;    /* of the target, or who flushes; likewise */
	uint64_t number;         /* of a table or view */
};

#define OPEN_KEY_SIZE 56 /* the longest, with its NUL */

void dfi__open_key_write(char text[OPEN_KEY_SIZE], const struct open_key *key);

/*
 * Read what is behind the last "/" of the prefix. False: it is none of these
 * keys, or not as dfi__open_key_write() has it, or there is no such seat.
 */
bool dfi__open_key_read(const char *text, uint32_t n_sources,
    uint32_t n_targets, struct open_key *key);

#endif
