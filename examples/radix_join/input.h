/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The input of workers, synthetic or from files, and the work for each match.
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

/* How to join relations of these sizes. */
void plan_make(struct plan *plan, const struct options *options,
    const uint64_t n_tuples[N_RELATIONS]);

/*
 * Compare the needs of this machine's nodes for the plan, plus this many bytes,
 * with the free memory. Returns 0, or -1 after a complaint that begins with
 * what and ends with the advice, or names the workers if these need most of it.
 */
int plan_check_memory(const struct plan *plan, const struct options *options,
    uint64_t more, const char *what, const char *advice);

/*
 * image_fd is that of the tables, or -1 for synthetic input. 0, or -1 after a
 * complaint.
 */
int input_open(
    struct input *input, const struct options *options, int image_fd);
void input_close(struct input *input);

/*
 * 0, or -1 after a complaint: this machine's nodes need more memory than is
 * free.
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

/*
 * For pairs with equal hashes: compares strings, adds up sums, passes rows on.
 */
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
