/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network faults for tests. They apply between the endpoint, which hands over
 * received datagrams, and the parser. DFI_TEST_FAULTS lists them, separated by
 * commas:
 *
 *	drop=P          the datagram is lost
 *	duplicate=P     it arrives twice
 *	reorder=P       one to three later datagrams arrive before it
 *	delay=P         it arrives up to delay_us late
 *	delay_us=N      default 1000; also bounds the delay of reorder
 *	seed=N          default 1
 *
 * P is a probability from 0 to 1. Each fault is drawn by itself for each
 * datagram. Only the library that tests link has faults (faults.c). In the
 * installed library (faults_none.c) the variable is an error, so that no test
 * passes without faults.
 *
 * One thread at a time makes calls. Each receiver has its own faults, so that
 * one may lose what others get.
 */
#ifndef DFI_BUFFERS_MULTICAST_FAULTS_H
#define DFI_BUFFERS_MULTICAST_FAULTS_H

#include <stddef.h>
#include <stdint.h>

struct faults;

/* Takes a datagram. The memory is the caller's again when it returns. */
typedef void faults_deliver(void *arg, const void *data, size_t size);

/*
 * Create faults from DFI_TEST_FAULTS; *faults is NULL if it is not set. salt
 * differs between receivers, so that they see different faults with one seed.
 * -EINVAL: the value is not valid, or this library injects no faults. -ENOMEM.
 */
int dfi__faults_open(uint64_t salt, struct faults **faults);
void dfi__faults_close(struct faults *faults);

/*
 * A datagram has arrived: deliver it, and held ones that waited for it, or hold
 * or drop it. With faults NULL, deliver it.
 */
void dfi__faults_receive(struct faults *faults, const void *data, size_t size,
    int64_t now, faults_deliver *deliver, void *arg);

/*
 * Deliver the held datagrams whose delay has passed at time now, in
 * nanoseconds.
 */
void dfi__faults_progress(
    struct faults *faults, int64_t now, faults_deliver *deliver, void *arg);

/* The time of the next delivery, or DEADLINE_NEVER. */
int64_t dfi__faults_due(const struct faults *faults);

/* In the library for tests only: */

struct faults_counts {
	uint64_t received, dropped, duplicated, reordered, delayed;
};

/* As dfi__faults_open(), from a text. */
int dfi__faults_parse(const char *text, uint64_t salt, struct faults **faults);
void dfi__faults_query(
    const struct faults *faults, struct faults_counts *counts);

#endif
