/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sleeping in poll(). The owner announces itself in a wait word (base/wait.h).
 * Its descriptor becomes readable when a peer, or a thread of this process,
 * wakes that word. The waker may be in any process of this host that maps the
 * word. Beside the word lies the name of an abstract socket, to which the waker
 * sends an empty datagram. A timer makes up for notices that can't come.
 *
 * All calls except dfi__notify_send() are for the owner's thread.
 */
#ifndef DFI_BASE_NOTIFY_H
#define DFI_BASE_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>
#include "atomic.h"

/*
 * The layout of wait words in shared memory: a word, and the name at offset 8.
 */
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
	uint64_t progress;   /* as passed at the last sleep */
	int64_t quiet_since; /* start of the same progress; 0: no sleep yet */
	/* For wakers of this process that use no ring's word. */
	struct notify_word self;
};

/*
 * Open and close the socket that sends notices. Call them before and after all
 * wakers of this process, any number of times, in pairs. -EMFILE, -EIO.
 */
int dfi__notify_setup(void);
void dfi__notify_cleanup(void);

/* The descriptor is readable at first. -EMFILE, -ENOMEM, -EIO. */
int dfi__notify_open(struct notify *notify);
void dfi__notify_close(struct notify *notify);

/* dfi__notify_open() in allocated memory. dfi__notify_free() takes NULL. */
int dfi__notify_new(struct notify **notify);
void dfi__notify_free(struct notify *notify);

/* Take all notices. The descriptor is readable again only after a new one. */
void dfi__notify_drain(struct notify *notify);

/*
 * Announce the owner in a word. true: it was not announced there yet, so call
 * dfi__notify_sleep().
 */
bool dfi__notify_announce(struct notify *notify, _Atomic uint32_t *word);

/*
 * Call it after announcing (fresh: a new announcement) and before looking once
 * more. It orders the two, and sets the timer. unwoken: there is no waker, so
 * only the timer ends the sleep. It fires less often the longer progress, any
 * count, is unchanged.
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
