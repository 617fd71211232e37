/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One copy of a ring for several readers, on shared memory and one thread, over
 * the wrap-around of all counters; half of the readers belong to another
 * context, with its own mapping. And to whom memory is granted.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dfi/error.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "transport/shm/message.h"
#include "transport/shm/shm.h"
#include "counted.h"
#include "dumped.h"
#include "tests/unit/stop_loop.h"

enum {
	N_READERS = 4,
	N_SOURCES = 2,
	SOURCE = 1, /* the one that is */
	N_SEGMENTS = 60,
};

static struct settings settings = {
	.huge_pages = HUGE_PAGES_NEVER,
	.open_timeout_ms = 60000,
};
static struct loop *loops[2];
static struct transport *shm[2];

static void setup(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		cr_assert_eq(dfi__loop_start("test", &loops[i]), 0);
		cr_assert_eq(
		    dfi__shm_ops.start(loops[i], &settings, NULL, &shm[i]), 0);
	}
}

static void teardown(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		dfi__shm_ops.stop(shm[i]);
		stop_loop(loops[i]);
	}
}

TestSuite(shared_ring, .init = setup, .fini = teardown, .timeout = 300);

struct fixture {
	struct ring_geometry slots, ring;
	struct region *regions[N_READERS];
	struct reader readers[N_READERS];
	struct writer rings[N_READERS];
	struct replica_writer replica_writer;
	uint64_t taken[N_READERS]; /* tuples */
};

static int64_t soon(void)
{
	return deadline_in_ms(60000);
}

static void grant(struct fixture *f, uint32_t i)
{
	cr_assert_eq(
	    dfi__shm_ops.region.grant(f->replica_writer.shared_ring.region,
		&f->regions[i]->name, SOURCE, WAIT_LIMIT(soon())),
	    0, "%s", dfi_errmsg());
}

static void start(struct fixture *f, uint32_t count, uint64_t first)
{
	struct ring_layout layout;
	struct remote *remote;
	uint32_t i;

	memset(f, 0, sizeof(*f));
	f->slots = ring_geometry_with(TUPLE, SEGMENT_TUPLES * TUPLE, count, 0,
	    count % 2 ? FOOTER_IN_FRONT : FOOTER_BEHIND);
	f->ring = ring_geometry_apart(f->slots);
	layout = ring_layout(&f->ring, N_SOURCES);
	cr_assert_eq(dfi__replica_init(&f->replica_writer, f->rings, N_READERS,
			 shm[0], &f->slots, first),
	    0);
	for (i = 0; i < N_READERS; i++) {
		cr_assert_eq(
		    dfi__shm_ops.region.create(shm[i % 2],
			region_size(&f->ring, N_SOURCES), &f->regions[i]),
		    0);
		dfi__region_init(f->regions[i]);
		f->regions[i]->granted_size = region_size(&f->slots, 1);
		dfi__reader_init(&f->readers[i], f->regions[i], &f->ring,
		    N_SOURCES, SOURCE, first);
		cr_assert_eq(
		    dfi__shm_ops.ring.open(shm[0], NULL, &f->regions[i]->name,
			&layout, SOURCE, NULL, WAIT_LIMIT(soon()), &remote),
		    0, "%s", dfi_errmsg());
		dfi__writer_init(&f->rings[i], remote, &f->ring, first);
		cr_assert(!dfi__writer_ring_used(&f->rings[i]));
		grant(f, i);
		cr_assert(!reader_ready(&f->readers[i]));
	}
	/* Also where the slots are granted. */
	cr_assert_eq(mappings_of("memfd:dfi", NULL).dumped, 0);
}

static void announce(struct fixture *f)
{
	uint32_t i;

	for (i = 0; i < N_READERS; i++) {
		cr_assert_eq(dfi__shared_ring_open(
				 &f->replica_writer.shared_ring, &f->rings[i]),
		    0);
		cr_assert(dfi__writer_ring_used(&f->rings[i]));
		cr_assert(reader_ready(&f->readers[i]));
	}
}

static void stop(struct fixture *f)
{
	uint32_t i;

	for (i = 0; i < N_READERS; i++) {
		dfi__shm_ops.ring.close(f->rings[i].remote);
		dfi__shm_ops.region.destroy(f->regions[i]);
	}
	dfi__replica_free(&f->replica_writer);
}

static void for_each_ring(void (*fn)(struct fixture *f))
{
	struct fixture f;
	uint32_t count;
	size_t i;

	for (count = 1; count <= 5; count++)
		for (i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
			start(&f, count, starts[i]);
			announce(&f);
			fn(&f);
			stop(&f);
		}
}

static bool take(struct fixture *f, uint32_t i)
{
	struct reader *reader = &f->readers[i];

	if (!reader->slots && reader_ready(reader))
		cr_assert_eq(
		    dfi__reader_find_slots(reader), 0, "%s", dfi_errmsg());
	if (!reader_ready(reader))
		return false;
	counted_take(reader, i, &f->taken[i]);
	return true;
}

/* Reader i looks at each i + 1 steps only; the slowest decides. */
static void stream(struct fixture *f)
{
	uint64_t n = 0, sent = 0, step;
	uint32_t i;

	for (step = 0; n < N_SEGMENTS; step++) {
		n += (uint64_t)counted_send(&f->replica_writer, n, &sent);
		for (i = 0; i < N_READERS; i++)
			if (step % (i + 1) == 0)
				take(f, i);
	}
	for (i = 0; i < N_READERS; i++) {
		cr_assert_eq(
		    dfi__replica_end(&f->replica_writer, i, FOOTER_FLAG_END),
		    0);
		cr_assert(reader_end_marked(&f->readers[i]));
		while (take(f, i))
			;
		cr_assert_eq(f->taken[i], sent);
		cr_assert_eq(dfi__reader_check_end(&f->readers[i]), 0, "%s",
		    dfi_errmsg());
		cr_assert_eq(f->readers[i].end, READER_ENDED);
		cr_assert_eq(f->rings[i].moved, 0);
	}
	cr_assert_eq(f->replica_writer.lane.moved, 0);
}

Test(shared_ring, each_reader_gets_each_tuple_once_and_in_order)
{
	for_each_ring(stream);
}

static void fill(struct fixture *f)
{
	uint64_t n, sent = 0;
	uint32_t i, k;

	for (n = 0; counted_send(&f->replica_writer, n, &sent); n++)
		;
	cr_assert_eq(n, f->slots.segment_count);
	for (i = 0; i < N_READERS; i++) {
		cr_assert_eq(dfi__replica_open(&f->replica_writer), 0);
		cr_assert_geq(f->replica_writer.short_of, i);
		for (k = 0; k < n; k++)
			cr_assert(take(f, i));
	}
	cr_assert_eq(counted_send(&f->replica_writer, n, &sent), 1);
}

Test(shared_ring, has_no_room_while_one_reader_has_given_nothing_back)
{
	for_each_ring(fill);
}

static void leave_out(struct fixture *f)
{
	uint64_t n, sent = 0;
	uint32_t i;

	for (n = 0; counted_send(&f->replica_writer, n, &sent); n++)
		;
	for (i = 1; i < N_READERS; i++)
		dfi__reader_close(&f->readers[i], RING_CANCELLED);
	for (; n < N_SEGMENTS; n++) {
		while (take(f, 0))
			;
		cr_assert_eq(counted_send(&f->replica_writer, n, &sent), 1);
	}
	while (take(f, 0))
		;
	cr_assert_eq(f->taken[0], sent);
	dfi__reader_close(&f->readers[0], RING_CANCELLED);
	for (i = 0; counted_send(&f->replica_writer, n, &sent); i++)
		cr_assert_leq(i, f->slots.segment_count, "nobody takes them");
}

Test(shared_ring, leaves_out_who_has_cancelled)
{
	for_each_ring(leave_out);
}

/* The readers share the memory as well. */
Test(shared_ring, outlives_its_source)
{
	uint64_t n, sent = 0;
	struct fixture f;
	uint32_t i;

	start(&f, 4, 0);
	announce(&f);
	for (n = 0; counted_send(&f.replica_writer, n, &sent); n++)
		;
	dfi__replica_free(&f.replica_writer);
	for (i = 0; i < N_READERS; i++) {
		while (take(&f, i))
			;
		cr_assert_eq(f.taken[i], sent);
	}
	stop(&f);
}

Test(shared_ring, segments_that_were_not_granted_are_not_taken)
{
	struct fixture f;
	uint64_t size;
	uint32_t i;

	start(&f, 4, 0);
	/* Another key than that of the granted memory. */
	f.replica_writer.shared_ring.region->name.key ^= 1;
	announce(&f);
	f.replica_writer.shared_ring.region->name.key ^= 1;
	for (i = 0; i < N_READERS; i++) {
		cr_assert_eq(dfi__reader_find_slots(&f.readers[i]), -EBADMSG);
		cr_assert_not_null(strstr(dfi_errmsg(), "key"));
		/* Segments of another source do not count. */
		cr_assert_null(dfi__shm_ops.region.granted(f.regions[i], 0,
		    f.replica_writer.shared_ring.region->name.key, &size));
	}
	stop(&f);
}

Test(shared_ring, region_too_small_for_a_ring_is_not_taken)
{
	struct region *small;
	struct fixture f;
	uint32_t i;

	start(&f, 64, 0);
	cr_assert_eq(dfi__shm_ops.region.create(shm[0], 1, &small), 0);
	for (i = 0; i < N_READERS; i++) {
		cr_assert_eq(
		    dfi__shm_ops.region.grant(
			small, &f.regions[i]->name, SOURCE, WAIT_LIMIT(soon())),
		    -EBADMSG);
		f.regions[i]->granted_size = 1;
		cr_assert_eq(
		    dfi__shm_ops.region.grant(
			small, &f.regions[i]->name, SOURCE, WAIT_LIMIT(soon())),
		    0);
		atomic_set(&f.readers[i].head->total, small->name.key);
		cr_assert_eq(dfi__reader_find_slots(&f.readers[i]), -EBADMSG);
	}
	stop(&f);
	dfi__shm_ops.region.destroy(small);
}

/* All of it would be had as soon as it is mapped. */
Test(shared_ring, region_that_no_ring_needs_is_not_mapped)
{
	struct shm_grant_request request = { .ring = SOURCE, .key = 7 };
	struct region_name name;
	struct region *large;
	struct fixture f;
	struct stat st;
	uint32_t i;
	int fd;

	request.size = 16 << 20;
	fd = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, (off_t)request.size), 0);
	cr_assert_eq(
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
	    0);
	start(&f, 4, 0);
	cr_assert_eq(
	    dfi__shm_ops.region.create(shm[0], request.size, &large), 0);
	for (i = 0; i < N_READERS; i++) {
		name = f.regions[i]->name;
		cr_assert_eq(dfi__shm_ops.region.grant(
				 large, &name, SOURCE, WAIT_LIMIT(soon())),
		    -EBADMSG);
		cr_assert_not_null(strstr(dfi_errmsg(), "refused the region"));
		request.base.key = name.key;
		cr_assert_eq(dfi__shm_pass_grant(
				 &name, &request, fd, WAIT_LIMIT(soon())),
		    -EBADMSG);
		/* A grant for a region that does not exist is none. */
		request.base.key ^= 1;
		cr_assert_eq(dfi__shm_pass_grant(
				 &name, &request, fd, WAIT_LIMIT(soon())),
		    -ECONNRESET);
	}
	cr_assert_eq(fstat(fd, &st), 0);
	cr_assert_eq(st.st_blocks, 0);
	close(fd);
	stop(&f);
	dfi__shm_ops.region.destroy(large);
}

/* Sources that failed to attach leave resources behind, but not for ever. */
Test(shared_ring, newest_of_many_that_were_granted_is_kept)
{
	uint64_t size, first = 0, last = 0;
	struct region *region;
	struct fixture f;
	uint32_t i, k;

	start(&f, 4, 0);
	for (i = 0; i < N_READERS; i++)
		f.regions[i]->granted_size = 4096;
	for (k = 0; k < 20; k++) {
		cr_assert_eq(
		    dfi__shm_ops.region.create(shm[0], 4096, &region), 0);
		last = region->name.key;
		first = k ? first : last;
		for (i = 0; i < N_READERS; i++)
			cr_assert_eq(dfi__shm_ops.region.grant(region,
					 &f.regions[i]->name, SOURCE,
					 WAIT_LIMIT(soon())),
			    0);
		dfi__shm_ops.region.destroy(region);
	}
	for (i = 0; i < N_READERS; i++) {
		cr_assert_null(dfi__shm_ops.region.granted(
		    f.regions[i], SOURCE, first, &size));
		cr_assert_not_null(dfi__shm_ops.region.granted(
		    f.regions[i], SOURCE, last, &size));
		cr_assert_eq(size, 4096);
	}
	stop(&f);
}

Test(shared_ring, region_that_is_closed_is_granted_nothing)
{
	struct region_name names[2];
	struct region *region;
	int i;

	cr_assert_eq(dfi__shm_ops.region.create(shm[0], 4096, &region), 0);
	for (i = 0; i < 2; i++) {
		struct region *closed;

		cr_assert_eq(
		    dfi__shm_ops.region.create(shm[i], 4096, &closed), 0);
		names[i] = closed->name;
		dfi__shm_ops.region.destroy(closed);
		cr_assert_eq(dfi__shm_ops.region.grant(
				 region, &names[i], 0, WAIT_LIMIT(soon())),
		    -ECONNRESET);
		cr_assert_not_null(strstr(dfi_errmsg(), "has closed"));
	}
	dfi__shm_ops.region.destroy(region);
}
