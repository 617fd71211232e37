/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping in poll(): a descriptor that becomes readable when a peer, or a
 * thread of this process, wakes a word in which its owner has announced itself
 * (base/wait.h). The waker may be in any process of this host that maps the
 * word: beside it lies the name of an abstract socket, to which it sends an
 * empty datagram. A timer makes up for notices that can't come.
 *
 * All but dfi__notify_send() are for the owner's thread.
 */
#ifndef DFI_BASE_NOTIFY_H
#define DFI_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include "atomic.h"

/* As wait words in shared memory lie: a word, and the name 8 bytes behind. */
struct notify_word {
	_Atomic uint32_t word;
	uint32_t unused;
	_Atomic uint64_t name;
};

struct notify {
	int fd; /* for the application: an epoll of the two below */
	int socket;
	int timer;
	uint64_t name;
	int64_t timer_at;    /* when the timer fires; 0: it is not set */
	bool unfenced;       /* wakers may miss us */
	uint64_t progress;   /* at the last sleep */
	int64_t quiet_since; /* it has not changed; 0: no sleep yet */
	/* For wakers of this process that have no ring's word. */
	struct notify_word self;
};

/*
 * Before and after all wakers of this process: what notices are sent from. Any
 * number of times, in pairs. -EMFILE, -EIO.
 */
int dfi__notify_setup(void);
void dfi__notify_cleanup(void);

/* The descriptor is readable at first. -EMFILE, -ENOMEM, -EIO. */
int dfi__notify_open(struct notify *notify);
void dfi__notify_close(struct notify *notify);

/* The same in memory of its own; NULL is allowed. */
int dfi__notify_new(struct notify **notify);
void dfi__notify_free(struct notify *notify);

/* Take what has come: not readable any more until something new comes. */
void dfi__notify_drain(struct notify *notify);

/*
 * Announce the owner in a word. Whether it was not announced there already:
 * then dfi__notify_sleep() is due.
 */
bool dfi__notify_announce(struct notify *notify, _Atomic uint32_t *word);

/*
 * After announcing, if fresh, and before looking once more: order the two, and
 * set the timer. unwoken: nobody wakes, so the timer must, which it does less
 * often the longer progress, whatever that counts, has been the same.
 */
void dfi__notify_sleep(struct notify *notify, bool fresh, bool unwoken,
    uint64_t progress, int64_t deadline);

/* Withdraw the announcement. */
void dfi__notify_withdraw(_Atomic uint32_t *word);

/* Make the descriptor readable. */
void dfi__notify_kick(const struct notify *notify);

/* Wake the owner of a name; any thread, also in signal handlers. */
void dfi__notify_send(uint64_t name);

/* How long a sleep lasts at most; only tests change it. */
extern int64_t dfi__notify_longest_ns;

#endif
