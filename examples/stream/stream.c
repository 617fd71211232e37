/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <errno.h>
#include <time.h>

#include "../../common/complain.h"

/* A ring has room for a second of events, and for each mark a segment. */
enum {
	SEGMENT = 16384,
	SEGMENTS = 64,
};

static const struct dfi_field fields[] = {
	DFI_FIELD(struct tuple, sensor),
	DFI_FIELD(struct tuple, time),
	DFI_FIELD(struct tuple, value),
	DFI_FIELD(struct tuple, number),
	DFI_FIELD(struct tuple, producer),
	DFI_FIELD(struct tuple, unused),
};
const struct dfi_schema tuple_schema = DFI_SCHEMA(struct tuple, fields);

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

void sleep_ms(unsigned ms)
{
	const struct timespec time = { (time_t)(ms / 1000),
		(long)(ms % 1000) * 1000000 };

	nanosleep(&time, NULL);
}

int flow_failed(const char *what)
{
	return complain("%s: %s", what, dfi_errmsg());
}

/* It stays for those that come after its creator. */
int create_flow(struct dfi *dfi)
{
	struct dfi_flow_attr attr = DFI_FLOW_ATTR_INIT;
	int ret;

	attr.kind = DFI_SHUFFLE;
	attr.schema = &tuple_schema;
	attr.n_sources = PRODUCERS;
	attr.n_targets = CONSUMERS;
	attr.routing = DFI_ROUTE_HASH;
	attr.key = "sensor";
	attr.segment_size = SEGMENT;
	attr.segment_count = SEGMENTS;
	attr.flags = DFI_FLOW_PERSISTENT;
	attr.open.membership = DFI_MEMBERS_OPEN;
	attr.open.partitions = PARTITIONS;
	attr.open.on_loss = DFI_ON_LOSS_DROP;
	attr.open.evict_after_ms = EVICT_MS;
	ret = dfi_flow_create(dfi, FLOW, &attr);
	return ret < 0 && ret != -EEXIST ? flow_failed("the flow") : 0;
}
