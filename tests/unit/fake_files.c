/* SPDX-License-Identifier: Apache-2.0 */
/* See fake_files.h. */
#include "fake_files.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* What a disk writes at once, or not. */
#define BLOCK 64

uint64_t fake_files_random(struct fake_files *fake, uint64_t below)
{
	uint64_t x = fake->random += 0x9e3779b97f4a7c15;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return (x ^ x >> 31) % below;
}

/* Returns whether the operation fails; it has then no effect. */
static bool fails(struct fake_files *fake)
{
	if (fake->n_until_crash && !--fake->n_until_crash)
		fake->crashed = true;
	if (fake->crashed)
		return true;
	if (fake_files_random(fake, 1000) >= fake->fail_per_mille)
		return false;
	fake->n_failed++;
	return true;
}

static void copy_bytes(struct fake_bytes *to, const struct fake_bytes *from)
{
	to->at = realloc(to->at, from->size + 1);
	cr_assert_not_null(to->at);
	if (from->size)
		memcpy(to->at, from->at, from->size);
	to->size = from->size;
}

static struct fake_name *find(struct fake_name *names, const char *name)
{
	int i;

	for (i = 0; i < FAKE_FILES; i++)
		if (names[i].inode && !strcmp(names[i].name, name))
			return &names[i];
	return NULL;
}

static void set_name(
    struct fake_name *names, const char *name, struct fake_inode *inode)
{
	struct fake_name *entry = find(names, name);
	int i;

	for (i = 0; !entry && i < FAKE_FILES; i++)
		if (!names[i].inode)
			entry = &names[i];
	cr_assert_not_null(entry);
	strcpy(entry->name, name);
	entry->inode = inode;
}

static int fake_open(void *arg, const char *name, int flags)
{
	struct fake_files *fake = arg;
	struct fake_name *entry = find(fake->now, name);
	struct fake_inode *inode = entry ? entry->inode : NULL;
	int fd;

	if (fails(fake))
		return -EIO;
	if (!inode && !(flags & O_CREAT))
		return -ENOENT;
	if (!inode) {
		inode = calloc(1, sizeof(*inode));
		cr_assert_not_null(inode);
		cr_assert_lt(fake->n_inodes, 4096);
		fake->inodes[fake->n_inodes++] = inode;
		set_name(fake->now, name, inode);
	}
	if (flags & O_TRUNC)
		inode->now.size = 0;
	for (fd = 0; fake->open[fd]; fd++)
		cr_assert_lt(fd, 63);
	fake->open[fd] = inode;
	fake->at[fd] = 0;
	return fd;
}

static void fake_close(void *arg, int fd)
{
	struct fake_files *fake = arg;

	cr_assert_not_null(fake->open[fd]);
	fake->open[fd] = NULL;
}

static int64_t fake_read(void *arg, int fd, void *to, size_t size)
{
	struct fake_files *fake = arg;
	const struct fake_bytes *bytes = &fake->open[fd]->now;
	size_t left = bytes->size - fake->at[fd];

	if (fails(fake))
		return -EIO;
	size = size < left ? size : left;
	if (size > 1)
		size = 1 + fake_files_random(fake, size);
	if (size)
		memcpy(to, bytes->at + fake->at[fd], size);
	fake->at[fd] += size;
	return (int64_t)size;
}

static int64_t fake_write(void *arg, int fd, const void *from, size_t size)
{
	struct fake_files *fake = arg;
	struct fake_bytes *bytes = &fake->open[fd]->now;
	bool full = fails(fake);

	if (fake->crashed)
		return -EIO;
	if (size > 1)
		size = 1 + fake_files_random(fake, size);
	bytes->at = realloc(bytes->at, bytes->size + size + 1);
	cr_assert_not_null(bytes->at);
	memcpy(bytes->at + bytes->size, from, size);
	bytes->size += size;
	return full ? -ENOSPC : (int64_t)size;
}

static int64_t fake_size(void *arg, int fd)
{
	struct fake_files *fake = arg;

	return fails(fake) ? -EIO : (int64_t)fake->open[fd]->now.size;
}

static int fake_truncate(void *arg, int fd, uint64_t size)
{
	struct fake_files *fake = arg;

	if (fails(fake))
		return -EIO;
	cr_assert_leq(size, fake->open[fd]->now.size);
	fake->open[fd]->now.size = size;
	return 0;
}

static int fake_sync(void *arg, int fd)
{
	struct fake_files *fake = arg;

	if (fails(fake))
		return -EIO;
	if (!fake->forgetful)
		copy_bytes(&fake->open[fd]->synced, &fake->open[fd]->now);
	return 0;
}

static int fake_sync_names(void *arg)
{
	struct fake_files *fake = arg;

	if (fails(fake))
		return -EIO;
	memcpy(fake->synced, fake->now, sizeof(fake->synced));
	return 0;
}

static int fake_rename(void *arg, const char *from, const char *to)
{
	struct fake_files *fake = arg;
	struct fake_name *entry = find(fake->now, from);
	struct fake_inode *inode;

	if (fails(fake))
		return -EIO;
	cr_assert_not_null(entry);
	inode = entry->inode;
	entry->inode = NULL;
	set_name(fake->now, to, inode);
	return 0;
}

static int fake_remove(void *arg, const char *name)
{
	struct fake_files *fake = arg;
	struct fake_name *entry = find(fake->now, name);

	if (fails(fake))
		return -EIO;
	if (!entry)
		return -ENOENT;
	entry->inode = NULL;
	return 0;
}

static const struct journal_file_ops ops = {
	.open = fake_open,
	.close = fake_close,
	.read = fake_read,
	.write = fake_write,
	.size = fake_size,
	.truncate = fake_truncate,
	.sync = fake_sync,
	.sync_names = fake_sync_names,
	.rename = fake_rename,
	.remove = fake_remove,
};

void fake_files_init(struct fake_files *fake, uint64_t seed)
{
	memset(fake, 0, sizeof(*fake));
	fake->random = seed;
	fake->files.ops = &ops;
	fake->files.arg = fake;
	fake->files.path = "/state";
}

/* Each block that was not synced is there, or is not, or is wrong. */
static void lose_unsynced(struct fake_files *fake, struct fake_inode *inode)
{
	struct fake_bytes *now = &inode->now, *synced = &inode->synced;
	bool longer = now->size > synced->size;
	size_t common = longer ? synced->size : now->size, size, i;

	/* A truncation is done or not. */
	if (!longer && fake_files_random(fake, 2))
		copy_bytes(now, synced);
	/* The file is only appended to, so what was synced is its beginning. */
	if (longer) {
		size = common + fake_files_random(fake, now->size - common + 1);
		now->size = size;
		for (i = common; i < size; i++)
			if (i == common || i % BLOCK == 0)
				switch (fake_files_random(fake, 4)) {
				case 0:
					memset(now->at + i, 0,
					    size - i < BLOCK - i % BLOCK
						? size - i
						: BLOCK - i % BLOCK);
					break;
				case 1:
					now->at[i] ^= 1;
					break;
				default:
					break;
				}
	}
	copy_bytes(synced, now);
}

void fake_files_crash(struct fake_files *fake)
{
	int i;

	for (i = 0; i < 64; i++)
		fake->open[i] = NULL;
	for (i = 0; i < fake->n_inodes; i++)
		lose_unsynced(fake, fake->inodes[i]);
	/* Names that were not synced are as before, or as they were set. */
	if (fake_files_random(fake, 2))
		memcpy(fake->now, fake->synced, sizeof(fake->now));
	memcpy(fake->synced, fake->now, sizeof(fake->synced));
	fake->crashed = false;
	fake->n_until_crash = 0;
}

struct fake_bytes *fake_files_find(struct fake_files *fake, const char *name)
{
	struct fake_name *entry = find(fake->now, name);

	return entry ? &entry->inode->now : NULL;
}

void fake_files_free(struct fake_files *fake)
{
	int i;

	for (i = 0; i < fake->n_inodes; i++) {
		free(fake->inodes[i]->now.at);
		free(fake->inodes[i]->synced.at);
		free(fake->inodes[i]);
	}
}
