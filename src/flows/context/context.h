/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The context: the state that all flows and endpoints of one membership share.
 */
#ifndef DFI_FLOWS_CONTEXT_CONTEXT_H
#define DFI_FLOWS_CONTEXT_CONTEXT_H

#include <stdatomic.h>
#include <dfi/context.h>
#include "base/cancel.h"
#include "base/clock.h"
#include "base/settings.h"
#include "base/wait.h"
#include "flows/descriptor/descriptor.h"
#include "handle.h"

struct linger_clock;
struct loop;
struct registry_client;
struct network;
struct processes;
struct stats_list;
struct tombstones;
struct transport;

struct dfi {
	char unused[HANDLE_MAGIC_OFFSET];
	uint32_t magic;
	/* Threads that have read magic and have not yet counted in n_users. */
	_Atomic uint32_t entering;
	struct settings settings;
	struct node node;
	struct loop *loop;
	struct registry_client *registry;
	struct transport *transport; /* makes regions in memory of this host */
	struct network *network;     /* to other hosts; starts on first use */
	struct linger_clock *linger;
	struct processes *processes;  /* that hold peers on this host */
	_Atomic uint64_t ring_memory; /* bytes; see declare.h */
	/*
	 * Open handles except target groups, plus running calls; see
	 * CONTEXT_USE().
	 */
	_Atomic uint32_t n_users;
	struct stats_list *stats;
	struct tombstones *tombstones;
};

_Static_assert(offsetof(struct dfi, magic) == HANDLE_MAGIC_OFFSET, "handle");
_Static_assert(
    offsetof(struct dfi, entering) == HANDLE_ABORTERS_OFFSET, "handle");

/*
 * The steps of dfi_open() (flows/open_context.c). Between join and publish, the
 * floors above add their state, each a member of struct dfi that is NULL until
 * then.
 *
 * new: make a context without a control thread, and complete the attributes.
 * join: the registry and the transports; the control thread runs. publish: the
 * node's entry. free: close what is open; on the control thread.
 */
int dfi__context_new(
    const struct dfi_attr *user, struct dfi_attr *attr, struct dfi **dfi);
int dfi__context_join(
    struct dfi *dfi, const struct dfi_attr *attr, int64_t deadline);
int dfi__context_publish(struct dfi *dfi, int64_t deadline);
void dfi__context_free(struct dfi *dfi);

/*
 * Leave the registry and the networks, if nothing uses the context: the errors
 * are those of dfi_close(). From then on nobody enters it.
 */
int dfi__context_retire(struct dfi *dfi);

/* The deadline of a call with timeout_ms; 0: the context's timeout. */
static inline int64_t context_deadline(
    const struct dfi *dfi, uint32_t timeout_ms)
{
	return deadline_in_ms(
	    timeout_ms ? timeout_ms : dfi->settings.open_timeout_ms);
}

/* The wait policy of a handle's attribute; the text of -EINVAL names `what`. */
int dfi__context_wait(const struct dfi *dfi, uint32_t wait, const char *what,
    struct wait_policy *policy);

/* The wait limit of one wait of a handle; stall_timeout_ms 0: no limit. */
static inline struct wait_time wait_time(uint32_t stall_timeout_ms)
{
	struct wait_time time = {
		.timeout_ns = DEADLINE_NEVER,
		.deadline = DEADLINE_NEVER,
	};

	if (stall_timeout_ms)
		time.timeout_ns = (int64_t)stall_timeout_ms * NS_PER_MS;
	return time;
}

/*
 * Keep the context from being closed. The errors are those of handle_check(),
 * and -EBUSY: another thread is closing it. Any thread may call this at any
 * time.
 */
int dfi__context_enter(struct dfi *dfi);
void dfi__context_leave(struct dfi *dfi);

static inline void context_use_end(struct dfi **dfi)
{
	if (*dfi)
		dfi__context_leave(*dfi);
}

/*
 * Declares ret, the result of dfi__context_enter(), in a call that takes a
 * context. The context stays at least until that call returns. After
 * context_use_keep(&use) it stays as long as the handle that the call opened.
 * The thread can't be cancelled in the call.
 */
#define CONTEXT_USE(dfi, ret)                    \
	CANCEL_POINT;                            \
	int ret = dfi__context_enter(dfi);       \
	__attribute__((cleanup(context_use_end), \
	    unused)) struct dfi *use = ret < 0 ? NULL : (dfi)

static inline void context_use_keep(struct dfi **use)
{
	*use = NULL;
}

#endif
