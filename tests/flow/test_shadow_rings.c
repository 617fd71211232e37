/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pages from which a source sends over verbs. Reserved huge pages belong to
 * the machine, so the caller reserves some, or none: tests/testbed/flows.sh
 * does both.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow_help.h"

#define MIB (UINT64_C(1) << 20)

static struct rig rig;

static unsigned long free_huge_pages(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	unsigned long n = 0;
	char line[128];

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "HugePages_Free: %lu", &n) == 1)
			break;
	fclose(file);
	return n;
}

/* What the context has said to others. */
static uint64_t messages_of(struct dfi *dfi)
{
	return device_stats(dfi).messages;
}

/* Bytes of private huge pages in this process; only shadow rings have any. */
static uint64_t huge_shadow_rings(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	uint64_t start, end, sum = 0;
	char line[256];

	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		if (strstr(line, "/anon_hugepage") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2)
			sum += end - start;
	fclose(file);
	return sum;
}

static void start(const char *huge_pages)
{
	if (!over_verbs())
		cr_skip_test("DFI_TRANSPORT is not verbs");
	setenv("DFI_HUGE_PAGES", huge_pages, 1);
	rig_start(&rig);
}

/* Rings of about this many bytes from one source. */
static void create_flow_to(uint32_t n_targets, uint64_t bytes)
{
	create_kv_flow(
	    rig.dfi, "f", 1, n_targets, (uint32_t)(bytes / 16 / 32), 32);
}

static void create_flow(uint64_t bytes)
{
	create_flow_to(1, bytes);
}

static void move_tuples(struct dfi_source *source, struct dfi_target *target)
{
	struct kv kv = { .key = 0 };
	const void *tuple;
	uint64_t i;

	for (i = 0; i < 100; i++) {
		kv.val = i;
		cr_assert_eq(dfi_source_push(source, &kv), 0);
	}
	cr_assert_eq(dfi_source_close(source), 0, "%s", dfi_errmsg());
	for (i = 0; i < 100; i++) {
		cr_assert_eq(dfi_target_consume(target, &tuple), 1);
		cr_assert_eq(((const struct kv *)tuple)->val, i);
	}
	cr_assert_eq(dfi_target_consume(target, &tuple), 0);
	cr_assert_eq(dfi_target_close(target), 0);
}

static bool no_huge_shadow_rings(void *arg)
{
	(void)arg;
	return huge_shadow_rings() == 0;
}

Test(shadow_rings, lie_on_huge_pages_that_are_free)
{
	struct dfi_target *target;
	struct dfi_source *source;

	if (free_huge_pages() < 8)
		cr_skip_test("fewer than 8 huge pages are free");
	start("try");
	create_flow(2 * MIB);
	target = open_target(rig.dfi, "f", 0, 0);
	cr_assert_eq(huge_shadow_rings(), 0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(huge_shadow_rings(), 4 * MIB, "%lu",
	    (unsigned long)huge_shadow_rings());
	move_tuples(source, target);
	cr_assert(eventually(no_huge_shadow_rings, NULL));
	rig_stop(&rig);
}

Test(shadow_rings, lie_on_ordinary_pages_if_no_others_are_wanted)
{
	struct dfi_target *target;
	struct dfi_source *source;

	start("never");
	create_flow(2 * MIB);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(huge_shadow_rings(), 0);
	move_tuples(source, target);
	rig_stop(&rig);
}

Test(shadow_rings, lie_on_ordinary_pages_if_no_others_are_free)
{
	struct dfi_target *target;
	struct dfi_source *source;

	if (free_huge_pages() > 0)
		cr_skip_test("huge pages are free");
	start("try");
	create_flow(2 * MIB);
	target = open_target(rig.dfi, "f", 0, 0);
	source = open_source(rig.other, "f", 0, 0);
	cr_assert_eq(huge_shadow_rings(), 0);
	move_tuples(source, target);
	rig_stop(&rig);
}

Test(shadow_rings, need_huge_pages_that_are_required)
{
	unsigned long pages = free_huge_pages();
	struct dfi_source_attr attr = DFI_SOURCE_ATTR_INIT;
	struct dfi_target *target;
	struct dfi_source *source;

	if (pages < 8 || pages > 64)
		cr_skip_test("not 8 to 64 huge pages are free");
	start("require");
	/* The target takes more than half of them. */
	create_flow((pages / 2 + 1) * 2 * MIB);
	target = open_target(rig.dfi, "f", 0, 0);
	attr.open_timeout_ms = LONG_MS;
	assert_error(dfi_source_open(rig.other, "f", 0, &attr, &source),
	    -ENOMEM, " port ", "bytes of huge pages", "vm.nr_hugepages",
	    "DFI_HUGE_PAGES=try");
	cr_assert_eq(huge_shadow_rings(), 0);
	dfi_target_close(target);
	rig_stop(&rig);
}

/* The first of a source's two shadow rings fits, and both are missing. */
Test(shadow_rings, need_huge_pages_for_all_before_the_first_is_had)
{
	unsigned long pages = free_huge_pages(), each = pages / 3;
	struct dfi_target *targets[2];
	struct dfi_source *source;
	uint64_t messages;
	char need[64];
	int i;

	if (pages < 8 || pages > 64)
		cr_skip_test("not 8 to 64 huge pages are free");
	start("require");
	/* With its headers a ring takes a page more. */
	create_flow_to(2, (each - 1) * 2 * MIB);
	for (i = 0; i < 2; i++)
		targets[i] = open_target(rig.dfi, "f", (uint32_t)i, 0);
	cr_assert_geq(free_huge_pages(), each);
	messages = messages_of(rig.other);
	snprintf(need, sizeof(need), "%lu bytes of huge pages",
	    (unsigned long)(2 * each * 2 * MIB));
	assert_error(dfi_source_open(rig.other, "f", 0, NULL, &source), -ENOMEM,
	    "flow 'f': source 0: ", need, "vm.nr_hugepages",
	    "DFI_HUGE_PAGES=try");
	cr_assert_eq(messages_of(rig.other), messages);
	for (i = 0; i < 2; i++)
		dfi_target_close(targets[i]);
	rig_stop(&rig);
}
