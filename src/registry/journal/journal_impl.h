/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the journal share: journal.c (writing), compact.c, and
 * read.c. Only these include it.
 *
 *	file	magic 8, version 4, 0 4, store 8, checksum 8; records
 *	record	size 4, check of size and number 4, checksum 8; changes
 */
#ifndef DFI_REGISTRY_JOURNAL_IMPL_H
#define DFI_REGISTRY_JOURNAL_IMPL_H

#include "journal.h"

#define JOURNAL_NAME "journal"
#define JOURNAL_NEW "journal.new"
#define JOURNAL_VERSION 1

struct journal_start {
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t store;
	uint64_t checksum; /* of what is before it */
};

struct journal_head {
	uint32_t size; /* of the changes behind it */
	uint32_t check;
	uint64_t checksum; /* of the changes */
};

struct journal_file {
	int fd;     /* -1: none */
	uint64_t n; /* records */
	uint64_t size;
};

struct journal {
	struct journal_files files;
	uint64_t store;
	struct journal_file file;
	struct journal_bytes next; /* the head and the changes of a record */
	uint64_t least;            /* size after the last compaction */
	int broken;                /* 0: it is not */
	/* Of a compaction: */
	struct journal_file fresh;
	struct journal_bytes slice; /* as next */
	struct journal_bytes tail;  /* records since its beginning */
	bool switching;
};

/* Fill in the head of a record, which begins these bytes. */
void dfi__journal_seal(
    uint64_t store, uint64_t number, uint8_t *record, size_t size);

/* A head that was read: its size is known to be right. */
bool dfi__journal_head_is_whole(
    uint64_t store, uint64_t number, const struct journal_head *head);
uint64_t dfi__journal_checksum(
    uint64_t store, uint64_t number, const void *changes, size_t size);

/* Write all: 0 or a negative errno value, without a text. */
int dfi__journal_write(struct journal *journal, struct journal_file *file,
    const void *from, size_t size);

/* Make a file of this name with nothing but its start. */
int dfi__journal_make(
    struct journal *journal, const char *name, struct journal_file *file);

/* Record the text about an error that an operation on files returned. */
int dfi__journal_fail(const struct journal *journal, int err);

/* Read the file: all that is whole is applied. */
int dfi__journal_read(
    struct journal *journal, const struct journal_hooks *hooks);

#endif
