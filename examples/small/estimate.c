/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the needs of a flow before anything is reserved: example-estimate
 * [SOURCES [TARGETS [TUPLE_BYTES]]]
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include "../../common/complain.h"
#include "small.h"

static uint32_t number(const char *name, const char *text, long most)
{
	char *end, plain[256];
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || *end || end == text || n < 1 || n > most)
		errx(2, "%s is 1 to %ld, not '%s'", name, most,
		    escape_text(plain, sizeof(plain), text));
	return (uint32_t)n;
}

int main(int argc, char *argv[])
{
	struct dfi_flow_attr flow = DFI_FLOW_ATTR_INIT;
	struct dfi_field field = { .name = "row", .type = DFI_BYTES };
	struct dfi_schema schema = { &field, 1, 0 };
	struct dfi_registry *registry;
	struct dfi_flow_needs needs;
	struct dfi *dfi;

	flow.kind = DFI_SHUFFLE;
	flow.n_sources = flow.n_targets = 4;
	if (argc > 1)
		flow.n_sources = number("SOURCES", argv[1], DFI_MAX_ENDPOINTS);
	if (argc > 2)
		flow.n_targets = number("TARGETS", argv[2], DFI_MAX_ENDPOINTS);
	schema.tuple_size = 16;
	if (argc > 3)
		schema.tuple_size = number(
		    "TUPLE_BYTES", argv[3], DFI_MAX_TUPLE_SIZE);
	field.size = schema.tuple_size;
	flow.schema = &schema;

	dfi = start(&registry);
	check(dfi_flow_estimate(dfi, &flow, &needs));
	printf("%" PRIu64 " rings of %" PRIu32 " segments of %" PRIu32
	       " bytes\n",
	    needs.rings, needs.segment_count, needs.segment_size);
	printf("%.1f MiB of memory for each target, %.1f MiB in all\n",
	    (double)needs.target_bytes / (1 << 20),
	    (double)needs.target_bytes * flow.n_targets / (1 << 20));
	printf("%" PRIu32 " open files for each target\n",
	    needs.target_descriptors);
	stop(dfi, registry);
	return 0;
}
