/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inline calls of C and C++ as another language's binding finds them: by
 * name, in the shared library. Each one moves tuples.
 */
#include <dlfcn.h>
#include <error.h>
#include <stdbool.h>
#include <string.h>

#include <dfi/dfi.h>

struct kv {
	uint64_t key, val;
};
static const struct dfi_field fields[] = { DFI_FIELD(struct kv, key),
	DFI_FIELD(struct kv, val) };
static const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);

static struct dfi *dfi;

static void check(bool ok, const char *what)
{
	if (!ok)
		error(1, 0, "%s: %s", what, dfi_errmsg());
}

/* The library's function, not the one of the headers. */
#define FIND(name)                                                    \
	do {                                                          \
		void *at = dlsym(RTLD_DEFAULT, "dfi_" #name);         \
                                                                      \
		if (!at)                                              \
			error(1, 0, "dfi_" #name " is not exported"); \
		memcpy(&(name), &at, sizeof(at));                     \
	} while (0)

static void open_ends(const char *name, uint32_t kind, uint32_t routing,
    struct dfi_source **source, struct dfi_target **target)
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;

	flow.kind = kind;
	flow.routing = routing;
	flow.schema = &schema;
	flow.n_sources = flow.n_targets = 1;
	check(dfi_flow_create(dfi, name, &flow) == 0, name);
	check(dfi_target_open(dfi, name, 0, NULL, target) == 0, name);
	check(dfi_source_open(dfi, name, 0, NULL, source) == 0, name);
}

static void close_ends(struct dfi_source *source, struct dfi_target *target)
{
	check(dfi_source_close(source) == 0, "closing the source");
	check(dfi_target_close(target) == 0, "closing the target");
}

static void move_tuples(void)
{
	struct kv kv = { .key = 1 };
	struct dfi_source_cursor in;
	struct dfi_target_cursor out;
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;
	int (*source_push)(struct dfi_source *, const void *);
	int (*source_push_to)(struct dfi_source *, uint32_t, const void *);
	int (*source_cursor_push)(
	    struct dfi_source_cursor *, const void *, size_t);
	int (*target_consume)(struct dfi_target *, const void **);
	const void *(*target_cursor_get)(struct dfi_target_cursor *, size_t);

	FIND(source_push);
	FIND(source_push_to);
	FIND(source_cursor_push);
	FIND(target_consume);
	FIND(target_cursor_get);
	open_ends("calls", DFI_SHUFFLE, DFI_ROUTE_HASH, &source, &target);
	check(source_push(source, &kv) == 0, "push");
	kv.key = 2;
	check(source_push_to(source, 0, &kv) == 0, "push_to");
	kv.key = 3;
	in = dfi_source_cursor_open(source, 0, sizeof(kv));
	check(source_cursor_push(&in, &kv, sizeof(kv)) == 0, "cursor_push");
	check(dfi_source_cursor_close(in) == 0, "closing a cursor");
	check(dfi_source_flush(source) == 0, "flush");
	for (kv.key = 1; kv.key < 3; kv.key++)
		check(target_consume(target, &tuple) == 1 &&
			memcmp(tuple, &kv, sizeof(kv)) == 0,
		    "consume");
	out = dfi_target_cursor_open(target, sizeof(kv));
	tuple = target_cursor_get(&out, sizeof(kv));
	check(tuple && memcmp(tuple, &kv, sizeof(kv)) == 0, "cursor_get");
	check(dfi_target_cursor_close(out) == 0, "closing a cursor");
	close_ends(source, target);
}

static void move_to_a_set(void)
{
	int (*source_push_set)(struct dfi_source *, uint64_t, const void *);
	struct kv kv = { .key = 4 };
	struct dfi_source *source;
	struct dfi_target *target;
	const void *tuple;

	FIND(source_push_set);
	open_ends("sets", DFI_REPLICATE, DFI_ROUTE_DIRECT, &source, &target);
	check(source_push_set(source, 1, &kv) == 0, "push_set");
	check(dfi_source_flush(source) == 0, "flush");
	check(dfi_target_consume(target, &tuple) == 1 &&
		memcmp(tuple, &kv, sizeof(kv)) == 0,
	    "consume");
	close_ends(source, target);
}

static void find_routes(void)
{
	uint64_t (*hash64)(uint64_t);
	uint32_t (*hash_partition)(uint64_t, uint32_t);
	uint32_t (*hash64_partition)(uint64_t, uint32_t);
	uint32_t (*radix_partition)(uint64_t, uint32_t, uint32_t, uint32_t);

	FIND(hash64);
	FIND(hash_partition);
	FIND(hash64_partition);
	FIND(radix_partition);
	check(hash64(7) == dfi_hash64(7), "hash64");
	check(hash_partition(hash64(7), 5) ==
		dfi_hash_partition(dfi_hash64(7), 5),
	    "hash_partition");
	check(hash64_partition(7, 5) == dfi_hash64_partition(7, 5),
	    "hash64_partition");
	check(radix_partition(0xab, 4, 4, 16) == 0xa, "radix_partition");
}

int main(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;
	struct dfi_registry *registry;

	check(dfi_registry_start(NULL, &registry) == 0, "registry");
	attr.registry = dfi_registry_address(registry);
	check(dfi_open(&attr, &dfi) == 0, "context");
	move_tuples();
	move_to_a_set();
	find_routes();
	check(dfi_close(dfi) == 0, "closing the context");
	return dfi_registry_stop(registry) < 0;
}
