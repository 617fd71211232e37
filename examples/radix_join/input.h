/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the workers join, synthetic or from files, and what a match means.
 */
#ifndef RADIX_JOIN_INPUT_H
#define RADIX_JOIN_INPUT_H

#include "generate.h"
#include "image.h"
#include "options.h"
#include "relation.h"

struct input {
	struct plan plan;
	bool has_image;
	struct image image;
	struct generator generator;
};

/*
 * image_fd is that of the tables, or -1 for synthetic input. 0, or -1 after a
 * complaint.
 */
int input_open(
    struct input *input, const struct options *options, int image_fd);
void input_close(struct input *input);

/*
 * Memory is touched before the join, so a join that doesn't fit would end with
 * a process killed, maybe another one. Each tuple is there twice: as input, and
 * in a store. 0, or -1 after a complaint: this machine's nodes need more than
 * it has left.
 */
int input_check_memory(
    const struct input *input, const struct options *options);

/* A worker's slices of both relations. */
struct slices {
	struct tuple *tuples[N_RELATIONS];
	uint64_t n[N_RELATIONS];
};

/* Make them. 0, or -1 after a complaint. slices_free() also undoes that. */
int slices_make(
    struct slices *slices, const struct input *input, uint32_t worker);
void slices_free(struct slices *slices);

/* Takes pairs with equal hashes: compares strings, sums up, passes rows on. */
struct matcher {
	const struct image *image;
	struct result *result;
	/* Called with each match's entries. */
	int (*emit)(void *arg, uint64_t inner, uint64_t outer);
	void *emit_arg;
};

/* For struct join: arg is a struct matcher. 0, or what emit returned. */
int matcher_match(void *arg, uint64_t inner_payload, uint64_t outer_payload);

#endif
