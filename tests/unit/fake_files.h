/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a state directory in memory, which remember what was synced: a
 * crash takes back anything else, or a part of it. Operations can be made to
 * fail, as the seed says.
 */
#ifndef DFI_TESTS_FAKE_FILES_H
#define DFI_TESTS_FAKE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "registry/journal/files.h"

#define FAKE_FILES 8

struct fake_bytes {
	uint8_t *at;
	size_t size;
};

struct fake_inode {
	struct fake_bytes now, synced;
};

struct fake_name {
	char name[32];
	struct fake_inode *inode;
};

struct fake_files {
	struct journal_files files;
	uint64_t random;
	unsigned fail_per_mille; /* of the operations */
	unsigned n_until_crash;  /* operations; 0: none is planned */
	bool crashed;            /* nothing has an effect any more */
	bool forgetful;          /* sync does nothing: to test the test */
	struct fake_name now[FAKE_FILES], synced[FAKE_FILES];
	struct fake_inode *inodes[4096];
	int n_inodes;
	struct fake_inode *open[64];
	size_t at[64]; /* where reads go on */
	unsigned n_failed;
};

void fake_files_init(struct fake_files *fake, uint64_t seed);
void fake_files_free(struct fake_files *fake);

/* The power fails, and comes back. */
void fake_files_crash(struct fake_files *fake);

/* The content of a file, to look at or damage it; NULL: there is none. */
struct fake_bytes *fake_files_find(struct fake_files *fake, const char *name);

uint64_t fake_files_random(struct fake_files *fake, uint64_t below);

#endif
