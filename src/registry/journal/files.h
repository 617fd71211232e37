/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A registry's state directory, and the operations on its files. They are a
 * table, so that tests can replace them by ones that fail, and by ones that
 * forget what was not synced.
 */
#ifndef DFI_REGISTRY_JOURNAL_FILES_H
#define DFI_REGISTRY_JOURNAL_FILES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Each returns a negative errno value if it fails, and sets no text. Names are
 * of files in the directory.
 */
struct journal_file_ops {
	/* flags of open(2). Returns a number for the calls below. */
	int (*open)(void *arg, const char *name, int flags);
	void (*close)(void *arg, int fd);
	/* The next bytes, as many as there are; 0: the end. */
	int64_t (*read)(void *arg, int fd, void *to, size_t size);
	/* At the end of the file; may write less than size. */
	int64_t (*write)(void *arg, int fd, const void *from, size_t size);
	int64_t (*size)(void *arg, int fd);
	int (*truncate)(void *arg, int fd, uint64_t size);
	/* Afterwards, the file's content survives the loss of power, */
	int (*sync)(void *arg, int fd);
	/* and the directory's names do. */
	int (*sync_names)(void *arg);
	int (*rename)(void *arg, const char *from, const char *to);
	int (*remove)(void *arg, const char *name);
};

struct journal_files {
	const struct journal_file_ops *ops;
	void *arg;
	const char *path; /* of the directory, for texts */
};

struct journal_directory;

/*
 * Open the directory, or make it, and lock it; *files stays valid until it is
 * closed. A forked child closes it. -ENOENT: of its parent. -EACCES: it is not
 * this user's alone (mode 0700), or can't be opened. -ENOTDIR. -EBUSY: another
 * registry has locked it. -EROFS, -ENOLCK, -EMFILE, -ENOMEM, -EIO, -ENOSPC.
 */
int dfi__journal_directory_open(const char *path,
    struct journal_directory **directory, struct journal_files *files);

/* NULL is allowed. */
void dfi__journal_directory_close(struct journal_directory *directory);

/* The operations on real files. Only tests change it. */
extern struct journal_file_ops dfi__journal_file_ops;

#endif
