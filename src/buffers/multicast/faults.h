/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a network may do to datagrams, for tests: between the port, which hands
 * over what it has received, and the parser. DFI_TEST_FAULTS asks for it with a
 * list separated by commas:
 *
 *	drop=P          it is lost
 *	duplicate=P     it comes twice
 *	reorder=P       one to three others come before it
 *	delay=P         it comes up to delay_us later
 *	delay_us=N      default 1000; reordered ones don't come later, either
 *	seed=N          default 1
 *
 * with probabilities P from 0 to 1, each drawn by itself for each datagram.
 * Only in the library that tests link (faults.c); in the one that is installed
 * (faults_none.c) asking is an error, so that no test passes without.
 *
 * One thread at a time; each receiver has its own, so that one may miss what
 * others get.
 */
#ifndef DFI_BUFFERS_MULTICAST_FAULTS_H
#define DFI_BUFFERS_MULTICAST_FAULTS_H

#include <stddef.h>
#include <stdint.h>

struct faults;

/* Takes a datagram that came through; the memory is the caller's again then. */
typedef void faults_deliver(void *arg, const void *data, size_t size);

/*
 * As DFI_TEST_FAULTS says; *faults NULL: it says nothing. salt: of this
 * receiver, so that others of the same seed see other faults. -EINVAL: it is
 * not valid, or this library injects none. -ENOMEM.
 */
int dfi__faults_open(uint64_t salt, struct faults **faults);
void dfi__faults_close(struct faults *faults);

/*
 * A datagram has come: deliver it, and others that it was to wait for, or not.
 * faults NULL: deliver it.
 */
void dfi__faults_receive(struct faults *faults, const void *data, size_t size,
    int64_t now, faults_deliver *deliver, void *arg);

/* Deliver the datagrams whose delay is over at now, in nanoseconds. */
void dfi__faults_progress(
    struct faults *faults, int64_t now, faults_deliver *deliver, void *arg);

/* When there is something to deliver, if ever. */
int64_t dfi__faults_due(const struct faults *faults);

/* In the library for tests only: */

struct faults_counts {
	uint64_t received, dropped, duplicated, reordered, delayed;
};

/* As dfi__faults_open(), of a text. */
int dfi__faults_parse(const char *text, uint64_t salt, struct faults **faults);
void dfi__faults_query(
    const struct faults *faults, struct faults_counts *counts);

#endif
