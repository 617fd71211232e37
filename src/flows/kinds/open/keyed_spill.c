/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a source with spill_dir: R6 of docs/open-flows.md. A segment
 * that its target has given back and not acknowledged is copied there before
 * its slot is used again. The registry says what was acknowledged, as credit
 * says what was given back.
 */
#include "keyed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"
#include "buffers/layout/checksum.h"

/*
 * A file is used as a ring of slots: offsets don't grow with all that was ever
 * sent, as a file system takes no more than some TiB.
 */
#define MOST_BYTES (UINT64_C(1) << 40)

/* After so many segments that were acknowledged, a file gives space back. */
#define PUNCH_SEGMENTS 64

struct spill_file {
	struct writer_keeper keeper;
	struct spill *spill;
	int fd; /* -1: none yet */
	uint64_t acked, punched;
};

struct spill {
	struct dfi_source *source;
	int err; /* why a file took no segment, or gave none */
	struct spilled *buffer;
	size_t entry;           /* bytes of a segment in a file */
	uint64_t slots;         /* of a file */
	struct spill_file of[]; /* of each target's seat */
};

/* It has no name, so it is gone with the process. -1: spill->err. */
static int new_file(struct spill *spill)
{
	const char *dir = spill->source->flow.spill_dir;
	char path[DFI_MAX_SPILL_DIR + sizeof("/dfi-spill-XXXXXX")];
	int fd;

	snprintf(path, sizeof(path), "%s/dfi-spill-XXXXXX", dir);
	fd = file_up(mkostemp(path, O_CLOEXEC));
	if (fd < 0) {
		spill->err = errno;
		return -1;
	}
	(void)unlink(path);
	return fd;
}

int dfi__spill_fail(struct dfi_source *source)
{
	struct spill *spill = open_source(source)->keyed->spill;
	int err = spill->err;

	/* Whether the disk is full, the quota or what a file may have. */
	bool full = err == ENOSPC || err == EDQUOT || err == EFBIG;

	spill->err = 0;
	return !err ? 0
		    : dfi__fail(full ? -ENOSPC : -err,
			  "flow '%s': %s %u: open.spill_dir '%s': a file of "
			  "tuples that are not acknowledged: %s",
			  source->flow.name, SOURCE_ID(source),
			  source->flow.spill_dir, strerror(err));
}

void dfi__spill_forget(struct open_source *open)
{
	if (open->keyed->spill)
		open->keyed->spill->err = 0;
}

bool dfi__spill_failed(const struct open_source *open)
{
	return open->keyed->spill->err != 0;
}

static uint64_t keep_copies(
    struct writer_keeper *keeper, struct writer *ring, uint64_t returned);

int dfi__spill_new(struct dfi_source *source)
{
	uint32_t i, n = source->flow.n_targets;
	struct spill *spill = calloc(
	    1, sizeof(*spill) + n * sizeof(spill->of[0]));
	int fd;

	open_source(source)->keyed->spill = spill;
	if (spill) {
		spill->source = source;
		spill->entry = sizeof(struct spilled) +
		    dfi__flow_geometry(&source->flow).segment_bytes;
		spill->slots = MOST_BYTES / spill->entry;
		spill->buffer = malloc(spill->entry);
		for (i = 0; i < n; i++)
			spill->of[i] =
			    (struct spill_file){ .keeper.keep = keep_copies,
				    .spill = spill,
				    .fd = -1 };
	}
	if (!spill || !spill->buffer)
		return dfi__fail(
		    -ENOMEM, "flow '%s': out of memory", source->flow.name);
	/* Errors of the directory show now. */
	fd = new_file(spill);
	if (fd < 0)
		return dfi__spill_fail(source);
	close(fd);
	return 0;
}

void dfi__spill_free(struct spill *spill)
{
	uint32_t i;

	if (!spill)
		return;
	for (i = 0; i < spill->source->flow.n_targets; i++)
		if (spill->of[i].fd >= 0)
			close(spill->of[i].fd);
	free(spill->buffer);
	free(spill);
}

void dfi__spill_take(struct open_source *open, uint32_t seat)
{
	struct spill_file *file = &open->keyed->spill->of[seat];

	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	file->acked = file->punched = 0;
	open->ends[seat]->rings[0].keeper = &file->keeper;
}

void dfi__spill_learn(struct open_source *open)
{
	const struct seat_watch *seats = &open->pairs.seats;
	struct spill_file *file = open->keyed->spill->of;
	uint32_t i;

	for (i = 0; i < open_seats(open->source); i++, file++)
		if (open->ends[i] && seats->acks[i].pair == open->taken[i]->id)
			file->acked = max_u64(file->acked,
			    min_u64(seats->acks[i].segments,
				open->ends[i]->rings[0].seq));
}

uint64_t dfi__spill_unacked(const struct open_source *open, uint32_t seat)
{
	return open->ends[seat]->rings[0].seq -
	    open->keyed->spill->of[seat].acked;
}

/* ---- Writing and reading ------------------------------------------------- */

static off_t offset_of(const struct spill *spill, uint64_t number)
{
	return (off_t)(number % spill->slots * spill->entry);
}

/* Whether a segment of that size may be written: 0, or an errno value. */
static int refuse(const struct spill_file *file, uint64_t number, size_t size)
{
	const struct spill *spill = file->spill;

	if (number >= file->acked + spill->slots)
		return ENOSPC;
	return file_exceeds_limit((uint64_t)offset_of(spill, number) + size)
	    ? EFBIG
	    : 0;
}

/* A segment as it lies in its slot. */
static bool write_one(
    struct spill_file *file, const struct writer *ring, uint64_t number)
{
	struct spill *spill = file->spill;
	const struct ring_geometry *g = &ring->geometry;
	uint64_t slot = (ring->slot + g->segment_count - (ring->seq - number)) %
	    g->segment_count;
	const char *tuples = ring->remote->ring +
	    slot_offset(g, (uint32_t)slot) + g->payload_offset;
	const struct segment_header *header = segment_header(g, tuples);
	uint64_t bytes = min_u64(header->records, g->segment_bytes);
	size_t size;
	size_t done = 0;
	ssize_t n;

	bytes -= bytes % g->tuple_size;
	size = sizeof(*spill->buffer) + bytes;
	spill->err = refuse(file, number, size);
	if (spill->err)
		return false;
	spill->buffer->bytes = bytes;
	memcpy(spill->buffer->tuples, tuples, bytes);
	/* After an error, the next try begins again. */
	for (; done < size; done += (size_t)n) {
		n = pwrite(file->fd, (const char *)spill->buffer + done,
		    size - done, offset_of(spill, number) + (off_t)done);
		if (n > 0)
			continue;
		spill->err = n < 0 ? errno : ENOSPC;
		return false;
	}
	return true;
}

/* A file system that can't give space back makes the file longer only. */
static void punch(struct spill_file *file)
{
	const struct spill *spill = file->spill;
	uint64_t n;

	if (file->acked - file->punched < PUNCH_SEGMENTS || file->fd < 0)
		return;
	/* In two parts where the slots begin anew. */
	for (; file->punched < file->acked; file->punched += n) {
		n = min_u64(file->acked - file->punched,
		    spill->slots - file->punched % spill->slots);
		(void)fallocate(file->fd,
		    FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    offset_of(spill, file->punched), (off_t)(n * spill->entry));
	}
}

static uint64_t keep_copies(
    struct writer_keeper *keeper, struct writer *ring, uint64_t returned)
{
	struct spill_file *file = (struct spill_file *)keeper;
	uint64_t number = ring->consumed;

	punch(file);
	if (number < file->acked)
		number = min_u64(file->acked, returned);
	for (; number < returned; number++) {
		if (file->fd < 0)
			file->fd = new_file(file->spill);
		if (file->fd < 0 || !write_one(file, ring, number))
			return number;
	}
	file->spill->err = 0;
	return number;
}

const struct spilled *dfi__spill_read(
    const struct open_source *open, uint32_t seat, uint64_t number, size_t size)
{
	struct spill *spill = open->keyed->spill;
	const struct spill_file *file = &spill->of[seat];
	struct spilled *spilled = spill->buffer;
	ssize_t n = pread(file->fd, spilled, size, offset_of(spill, number));

	/* The last of a file may be shorter. */
	if (n >= (ssize_t)sizeof(*spilled) &&
	    spilled->bytes <= spill->entry - sizeof(*spilled) &&
	    !(spilled->bytes % spill->source->head.tuple_size) &&
	    (size == sizeof(*spilled) ||
		(uint64_t)n >= sizeof(*spilled) + spilled->bytes))
		return spilled;
	spill->err = n < 0 ? errno : EIO;
	return NULL;
}
