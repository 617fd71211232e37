/* SPDX-License-Identifier: Apache-2.0 */
/* Counters on their way to another process: only valid ones are accepted. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "flows/endpoint/stats.h"
#include "transport/transports.h"

static struct stats_page page, back;

static void fill_endpoint(uint32_t i)
{
	struct dfi_endpoint_stats *stats = &page.endpoints[i];

	memset(stats->flow, 'f', sizeof(stats->flow) - 1);
	stats->instance = UINT64_MAX - i;
	stats->role = DFI_ROLE_SOURCE + i % DFI_ROLE_COMBINER_OUTPUT;
	stats->index = DFI_MAX_ENDPOINTS - 1;
	stats->waits_for = i % 2 ? DFI_MAX_ENDPOINTS - 1 : 0;
	stats->tuples = stats->bytes = stats->segments = UINT64_MAX - 2 * i;
	stats->partial_segments = stats->stalls = UINT64_MAX - 3 * i;
	stats->stall_ns = stats->polls = stats->yields = UINT64_MAX - 4 * i;
	stats->sleeps = stats->long_stalls = UINT64_MAX - 5 * i;
	stats->waiting_ns = UINT64_MAX - 6 * i;
	stats->copied_bytes = UINT64_MAX - 7 * i;
	stats->gaps = UINT64_MAX - 8 * i;
	stats->lost_segments = UINT64_MAX - 9 * i;
	stats->peer = i % (DFI_MAX_ENDPOINTS + 1);
	stats->incarnation = stats->epoch = UINT64_MAX - 10 * i;
	stats->dropped = stats->evictions = UINT64_MAX - 11 * i;
	stats->n_partitions = DFI_MAX_PARTITIONS - i;
	stats->n_moving = i;
	stats->filtered = UINT64_MAX - 12 * i;
	page.ids[i] = UINT64_MAX - STATS_PAGE + i;
}

/* With names and values as long as can be. */
static void fill_transport(uint32_t i)
{
	struct dfi_transport_stats *stats = &page.transports[i];
	struct dfi_counter *counter;

	strcpy(stats->transport,
	    i % 2 && dfi__transports[1].name ? dfi__transports[1].name
					     : dfi__transports[0].name);
	stats->is_known = 1;
	memset(stats->device, 'd', sizeof(stats->device) - 1);
	memset(stats->address, 'a', sizeof(stats->address) - 1);
	stats->writes = stats->bytes = UINT64_MAX - i;
	stats->credits = stats->messages = UINT64_MAX - 2 * i;
	stats->completions = UINT64_MAX - 3 * i;
	stats->connections = stats->broken_connections = UINT32_MAX - i;
	stats->memory_regions = stats->receives = UINT32_MAX - 2 * i;
	for (; stats->n_counters < DFI_MAX_COUNTERS; stats->n_counters++) {
		counter = &stats->counters[stats->n_counters];
		memset(counter->name, 'c', sizeof(counter->name) - 1);
		counter->value = UINT64_MAX - stats->n_counters;
	}
}

static void fill_page(void)
{
	uint32_t i;

	memset(&page, 0, sizeof(page));
	page.node = UINT64_MAX;
	page.more = true;
	for (i = 0; i < STATS_PAGE; i++)
		fill_endpoint(i);
	page.n_endpoints = STATS_PAGE;
	for (i = 0; i < DFI_MAX_ERRORS; i++) {
		page.errors[i].code = -(int)(i + 1);
		page.errors[i].count = UINT64_MAX;
		page.errors[i].first_ns = page.errors[i].last_ns = INT64_MAX;
		memset(
		    page.errors[i].text, 'e', sizeof(page.errors[i].text) - 1);
	}
	page.n_errors = DFI_MAX_ERRORS;
	for (i = 0; i < NETWORK_DEVICES; i++)
		fill_transport(i);
	page.n_transports = NETWORK_DEVICES;
}

/* Encode the page, and decode it as the page after id after. */
static int send_page(uint64_t after)
{
	size_t size;
	void *data = dfi__stats_encode(&page, &size);
	int ret;

	cr_assert_not_null(data);
	cr_assert_leq(size, TRANSPORT_REPORT_MAX);
	ret = dfi__stats_decode(data, size, after, &back);
	free(data);
	return ret;
}

Test(stats_page, largest_comes_back_as_it_was)
{
	fill_page();
	cr_assert_eq(send_page(page.ids[0] - 1), 0);
	cr_assert_eq(memcmp(&page, &back, sizeof(page)), 0);
}

Test(stats_page, empty_one_is_valid)
{
	memset(&page, 0, sizeof(page));
	cr_assert_eq(send_page(0), 0);
	cr_assert_eq(back.n_endpoints, 0);
	cr_assert_eq(back.more, false);
}

Test(stats_page, ids_must_go_on_from_what_was_asked)
{
	fill_page();
	cr_assert_eq(send_page(page.ids[0]), -EBADMSG);
	page.ids[7] = page.ids[6];
	cr_assert_eq(send_page(0), -EBADMSG);
}

Test(stats_page, more_needs_something_to_go_on_from)
{
	fill_page();
	page.n_endpoints = 0;
	cr_assert_eq(send_page(0), -EBADMSG);
}

Test(stats_page, endpoints_must_be_possible)
{
	fill_page();
	page.endpoints[3].role = DFI_ROLE_COMBINER_OUTPUT + 1;
	cr_assert_eq(send_page(0), -EBADMSG);
	fill_page();
	page.endpoints[3].index = DFI_MAX_ENDPOINTS;
	cr_assert_eq(send_page(0), -EBADMSG);
	fill_page();
	page.endpoints[3].waits_for = DFI_MAX_ENDPOINTS;
	cr_assert_eq(send_page(0), -EBADMSG);
	fill_page();
	page.endpoints[3].flow[5] = '\n';
	cr_assert_eq(send_page(0), -EBADMSG);
	fill_page();
	page.endpoints[3].flow[0] = '\0';
	cr_assert_eq(send_page(0), -EBADMSG);
}

Test(stats_page, transport_of_another_library_is_known_as_such)
{
	struct dfi_transport_stats *stats = &page.transports[0];
	uint64_t value;

	memset(&page, 0, sizeof(page));
	page.n_transports = 1;
	strcpy(stats->transport, "pigeon");
	stats->is_known = 1; /* there */
	stats_count(stats, "feathers", 7);
	cr_assert_eq(send_page(0), 0);
	cr_assert_str_eq(back.transports[0].transport, "pigeon");
	cr_assert_eq(back.transports[0].is_known, 0);
	cr_assert_eq(
	    dfi_transport_counter(&back.transports[0], "feathers", &value), 0);
	cr_assert_eq(value, 7);
}

Test(stats_page, texts_are_made_printable)
{
	memset(&page, 0, sizeof(page));
	page.n_errors = 1;
	strcpy(page.errors[0].text, "two\nlines\x1b[0m");
	page.n_transports = 1;
	strcpy(page.transports[0].device, "mlx\t5");
	stats_count(&page.transports[0], "a\033b", 1);
	cr_assert_eq(send_page(0), 0);
	cr_assert_str_eq(back.errors[0].text, "two?lines?[0m");
	cr_assert_str_eq(back.transports[0].device, "mlx?5");
	cr_assert_str_eq(back.transports[0].counters[0].name, "a?b");
}

Test(stats_page, cut_or_random_bytes_are_refused)
{
	size_t size, cut;
	char *data;

	fill_page();
	data = dfi__stats_encode(&page, &size);
	cr_assert_not_null(data);
	for (cut = size - 1; cut > size - 30; cut--)
		cr_assert_eq(dfi__stats_decode(data, cut, 0, &back), -EBADMSG);
	memset(data, 0xff, size);
	cr_assert_eq(dfi__stats_decode(data, size, 0, &back), -EBADMSG);
	free(data);
}
