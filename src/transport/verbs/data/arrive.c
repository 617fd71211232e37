/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives on any connection completes on one queue: messages, and writes
 * with immediate data, which say that a segment or a credit is in memory now.
 * Endpoints that wait take the completions themselves. Messages wake the
 * control thread, as they are solicited; other arrivals wake it only while some
 * endpoint sleeps. An arrival that no endpoint takes occupies a receive until
 * an endpoint looks again; sources take some of them now and then.
 *
 * Segments whose footers have checksums complete on no queue; the same
 * functions also look at these footers.
 */

#include "arrive.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include "base/atomic.h"
#include "base/compiler.h"
#include "base/error.h"
#include "base/files.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/wait.h"
#include "checksum.h"
#include "conn.h"
#include "message.h"
#include "ring.h"
#include "transport/verbs/device/fail.h"

/* How many completions are taken at once. */
#define BATCH 32

/*
 * While some endpoints take completions and others sleep, the control thread
 * checks at this interval that the former still do.
 */
#define IDLE_CHECK_US 5000

static struct verbs_conn *conn_of(const struct verbs *verbs, uint32_t qp_num)
{
	struct verbs_conn *conn;

	for (conn = verbs->conns; conn; conn = conn->next)
		if (conn->qp && conn->qp->qp_num == qp_num)
			break;
	return conn;
}

/* Where the reader of a region, or the writer of a ring, sleeps. */
static _Atomic uint32_t *reader_word(const struct verbs_export *export)
{
	return (_Atomic uint32_t *)(void *)((char *)export->region->base +
	    REGION_WAIT_OFFSET);
}

static _Atomic uint32_t *writer_word(const struct verbs_remote *remote)
{
	return (_Atomic uint32_t *)(void *)(remote->base.ring +
	    remote->layout.wait_offset);
}

/* Call after publishing, under the poll lock, which arm() takes. */
static inline void wake(struct verbs *verbs, _Atomic uint32_t *word)
{
	if (wait_wake_locked(word))
		verbs->woke = true;
}

/*
 * The payload of the next segment is in memory. Its footer did
 * not travel, as it would often be a packet of its own, or another footer
 * travelled. flags: of footer[1].
 */
static inline void segment_arrived(struct verbs *verbs, struct verbs_link *link,
    uint64_t bytes, uint64_t flags)
{
	struct verbs_export *export = link->export;
	_Atomic uint64_t *footer = link->next_footer;

	if (unlikely(!export || export->closing || !export->layout.n_slots))
		return; /* nobody will read it */
	footer_next(&export->layout.shape, bytes, link->footer);
	atomic_set(&footer[0], link->footer[0]);
	/* Pairs with the reader's observe of this word (reader.c). */
	atomic_publish(&footer[1], link->footer[1] | flags);
	wake(verbs, reader_word(export));
	link->next_footer = verbs_footer_behind(link, footer, &link->slot);
}

/* The same for a mark. */
static rarely void mark_arrived(
    struct verbs *verbs, struct verbs_link *link, uint64_t flags)
{
	const struct verbs_export *export = link->export;
	_Atomic uint64_t *footer = link->next_footer;

	if (!export || export->closing || !export->layout.n_slots)
		return;
	footer_next_mark(link->footer);
	atomic_set(&footer[0], link->footer[0]);
	/* Pairs as above. */
	atomic_publish(&footer[1], link->footer[1] | flags);
	wake(verbs, reader_word(export));
	link->next_footer = verbs_footer_behind(link, footer, &link->slot);
}

/*
 * Take the next segments of a link whose footers have checksums, as far as they
 * are complete. Returns whether there was one.
 */
static always_inline bool take_whole(
    struct verbs *verbs, struct verbs_link *link, uint32_t most)
{
	uint64_t sealed, bytes, flags;
	uint32_t n, number;

	for (n = 0; n < most; n++) {
		/*
		 * A device wrote it: the first word is read after it, but no
		 * other order is known.
		 */
		sealed = atomic_observe(&link->next_footer[1]);
		number = (uint32_t)link->footer[1] + 1;
		if (likely((uint32_t)sealed != footer_sealed_number(number)) ||
		    link->export->closing ||
		    !dfi__verbs_is_whole(link, sealed, &bytes, &flags))
			break;
		if (unlikely(bytes & SENT_MARK))
			mark_arrived(verbs, link, flags);
		else
			segment_arrived(verbs, link, bytes, flags);
	}
	return n;
}

void dfi__verbs_take_ring(struct verbs *verbs, struct verbs_link *link)
{
	struct verbs_export *export = link->export;

	if (export->rings[link->ring].notify == VERBS_NOTIFY_CHECKSUM)
		take_whole(verbs, link, export->layout.n_slots);
}

/*
 * A call looks for segments with checksums in their rings, up to
 * CHECKSUM_PASSES times until it finds some, and takes at most one batch of
 * each ring. Then it looks at the completion queue. While it finds such
 * segments, it looks at the queue in one of QUEUE_TURN calls only.
 */
#define CHECKSUM_PASSES 16
#define QUEUE_TURN 8

static always_inline bool take_checksums(struct verbs *verbs)
{
	uint32_t passes, i;
	bool any = false;

	for (passes = 0; !any && passes < CHECKSUM_PASSES; passes++)
		for (i = 0; i < verbs->n_polled; i++)
			any |= take_whole(
			    verbs, &verbs->links[verbs->polled[i]], BATCH);
	return any;
}

/* Publish the end mark, which was held back until now. */
static void end_arrived(struct verbs *verbs, struct verbs_link *link)
{
	struct verbs_export *export = link->export;
	_Atomic uint64_t *state;

	link->ended = true;
	if (!export || export->closing || !export->layout.n_slots)
		return;
	/* All segments precede the end mark. */
	dfi__verbs_take_ring(verbs, link);
	state = (_Atomic uint64_t *)(void *)(verbs_ring_base(
						 export, link->ring) +
	    export->layout.end_footer + 8);
	/* Pairs with the reader's observe of this word (reader.h). */
	atomic_publish(state, footer_release(atomic_peek(state)));
	wake(verbs, reader_word(export));
}

/* The credit itself is in memory already. */
static void credit_arrived(struct verbs *verbs, struct verbs_link *link)
{
	if (link->remote)
		wake(verbs, writer_word(link->remote));
}

static always_inline void immediate_arrived(
    struct verbs *verbs, const struct ibv_wc *wc)
{
	uint32_t imm = ntohl(wc->imm_data);
	struct verbs_link *link = verbs_link_at(
	    verbs, imm >> VERBS_IMM_BITS, wc->qp_num);

	if (unlikely(!link))
		return; /* late: its ring was given up */
	switch (imm & ((1u << VERBS_IMM_BITS) - 1)) {
	case VERBS_IMM_SEGMENT:
		segment_arrived(verbs, link, wc->byte_len, 0);
		break;
	case VERBS_IMM_MARK:
		mark_arrived(verbs, link, 0);
		break;
	case VERBS_IMM_END:
		end_arrived(verbs, link);
		break;
	case VERBS_IMM_CREDIT:
		credit_arrived(verbs, link);
		break;
	}
}

/* A receive was used up. It is posted again later, together with others. */
static void spend_receive(struct verbs *verbs, uint64_t number)
{
	int err;

	verbs->spent[verbs->n_spent++] = number;
	if (verbs->n_spent < VERBS_REPOST)
		return;
	verbs->n_spent = 0;
	err = dfi__verbs_post_receives(verbs, verbs->spent, VERBS_REPOST);
	if (err)
		dfi__log(DFI_LOG_ERROR, "verbs: %s: posting receives: %s",
		    dfi__verbs_port(&verbs->device).text, strerror(err));
}

static void other_arrived(struct verbs *verbs, const struct ibv_wc *wc)
{
	struct verbs_conn *conn = conn_of(verbs, wc->qp_num);

	if (!conn)
		return;
	if (wc->status != IBV_WC_SUCCESS)
		dfi__verbs_break(conn, ibv_wc_status_str(wc->status));
	else if (wc->byte_len == sizeof(struct verbs_message))
		dfi__verbs_message_arrived(conn, &verbs->messages[wc->wr_id]);
}

static always_inline void arrived(
    struct verbs *verbs, const struct ibv_wc *wcs, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		if (likely(wcs[i].status == IBV_WC_SUCCESS &&
			wcs[i].opcode == IBV_WC_RECV_RDMA_WITH_IMM))
			immediate_arrived(verbs, &wcs[i]);
		else
			other_arrived(verbs, &wcs[i]);
		spend_receive(verbs, wcs[i].wr_id);
	}
}

/* Take arrivals after this many looks; the poll lock is held. */
static always_inline void take_arrivals(struct verbs *verbs, uint32_t looks)
{
	struct ibv_wc wcs[BATCH];
	int n;

	do
		n = ibv_poll_cq(verbs->arrivals, BATCH, wcs);
	while (!n && --looks);
	for (;;) {
		arrived(verbs, wcs, n);
		if (likely(n < BATCH))
			break;
		n = ibv_poll_cq(verbs->arrivals, BATCH, wcs);
	}
	/* Nothing can arrive any more, on any connection. */
	if (unlikely(n < 0))
		dfi__verbs_break_all(
		    verbs, "the queue of what arrives can't be read");
}

void dfi__verbs_take(struct verbs *verbs)
{
	uint32_t i;

	take_arrivals(verbs, 1);
	for (i = 0; i < verbs->n_polled; i++)
		dfi__verbs_take_ring(verbs, &verbs->links[verbs->polled[i]]);
}

void dfi__verbs_progress(struct transport *transport, uint32_t looks)
{
	struct verbs *verbs = (struct verbs *)transport;
	uint32_t polls;

	/*
	 * Another thread does it or waits to do it. On few processors, a
	 * spinning thread would otherwise take the lock again before a sleeping
	 * one runs.
	 */
	if (atomic_peek(&verbs->n_waiting) || !lock_try(&verbs->poll))
		return;
	polls = atomic_peek(&verbs->polls) + 1;
	atomic_set(&verbs->polls, polls);
	if (!verbs->n_polled)
		take_arrivals(verbs, looks);
	else if (!take_checksums(verbs) || polls % QUEUE_TURN == 0)
		take_arrivals(verbs, 1);
	lock_release(&verbs->poll);
}

void dfi__verbs_take_some(struct verbs *verbs)
{
	struct ibv_wc wcs[BATCH];

	if (atomic_peek(&verbs->n_waiting) || !lock_try(&verbs->poll))
		return;
	/* If the queue can't be read, others find that out. */
	arrived(verbs, wcs, ibv_poll_cq(verbs->arrivals, BATCH, wcs));
	lock_release(&verbs->poll);
}

void dfi__verbs_lock_poll(struct verbs *verbs)
{
	atomic_fetch_add(&verbs->n_waiting, 1);
	dfi__lock_take(&verbs->poll);
	atomic_fetch_sub(&verbs->n_waiting, 1);
}

/* Request that the next arrival, or message, wakes the control thread. */
static void arm(struct verbs *verbs, bool messages_only)
{
	ibv_req_notify_cq(verbs->arrivals, messages_only);
	/* Earlier arrivals cause no event, and progress() may skip them. */
	dfi__verbs_take(verbs);
}

void dfi__verbs_arm(struct transport *transport)
{
	struct verbs *verbs = (struct verbs *)transport;

	atomic_set(&verbs->sleeper, true);
	dfi__verbs_lock_poll(verbs);
	arm(verbs, false);
	lock_release(&verbs->poll);
}

void dfi__verbs_settle(struct transport *transport)
{
	struct verbs *verbs = (struct verbs *)transport;

	dfi__verbs_lock_poll(verbs);
	dfi__verbs_take(verbs);
	lock_release(&verbs->poll);
}

static bool reader_sleeps(const struct verbs *verbs)
{
	const struct verbs_export *export;

	for (export = verbs->exports; export; export = export->next)
		if (!export->closing && export->layout.n_slots &&
		    atomic_peek(reader_word(export)))
			return true;
	return false;
}

/* The table may have thousands; begin where the last one slept. */
static bool writer_sleeps(struct verbs *verbs)
{
	const struct verbs_remote *remote;
	uint32_t at = verbs->sleeping_link, i;

	for (i = 0; i < verbs->n_links; i++, at++) {
		if (at >= verbs->n_links)
			at = 0;
		remote = verbs->links[at].remote;
		if (remote && atomic_peek(writer_word(remote))) {
			verbs->sleeping_link = at;
			return true;
		}
	}
	return false;
}

/*
 * Tells whether an arrival would wake an endpoint. If one has just been woken,
 * it may sleep again soon, so the answer is yes without a look. Both locks are
 * held.
 */
static bool endpoint_sleeps(struct verbs *verbs)
{
	bool woke = verbs->woke;

	verbs->woke = false;
	return woke || reader_sleeps(verbs) || writer_sleeps(verbs);
}

/*
 * Tells whether all arrivals have to be taken soon, whichever endpoint they are
 * for: some endpoint sleeps, or too few receives are left. The poll lock is
 * held. An endpoint that goes to sleep sets its word first and then arms under
 * this lock: either before us, so that we see its word, or after us.
 */
static bool must_take_all(struct verbs *verbs)
{
	bool must;

	pthread_mutex_lock(&verbs->table);
	must = atomic_peek(&verbs->needed) > atomic_peek(&verbs->n_receives) ||
	    endpoint_sleeps(verbs);
	pthread_mutex_unlock(&verbs->table);
	return must;
}

/* Request events for the arrivals that endpoints do not take themselves. */
static void rearm(struct verbs *verbs)
{
	struct timeval later = { .tv_usec = IDLE_CHECK_US };
	uint32_t polls = atomic_peek(&verbs->polls);
	/* The thread that polled may have gone to sleep since. */
	bool slept = atomic_exchange(&verbs->sleeper, false);
	bool active = polls != verbs->seen_polls && !slept;
	bool all;

	verbs->seen_polls = polls;
	dfi__verbs_lock_poll(verbs);
	all = must_take_all(verbs);
	arm(verbs, !all || active);
	lock_release(&verbs->poll);
	if (all && active)
		evtimer_add(verbs->arm_timer, &later);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	rearm(arg);
}

/*
 * Sends have completed: the connection's writer may sleep for that, and credits
 * may wait for it. The poll lock is held.
 */
static void sends_completed(struct verbs_conn *conn)
{
	struct verbs *verbs = conn->verbs;
	uint32_t i;

	if (conn->accepted) {
		pthread_mutex_lock(&verbs->table);
		dfi__verbs_pay(conn);
		pthread_mutex_unlock(&verbs->table);
		return;
	}
	for (i = 0; i < verbs->n_links; i++)
		if (verbs->links[i].conn == conn && verbs->links[i].remote)
			credit_arrived(verbs, &verbs->links[i]);
}

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct verbs *verbs = arg;
	bool arrivals = false, gone;
	struct ibv_cq *cq;
	void *conn;

	(void)fd;
	(void)what;
	dfi__verbs_lock_poll(verbs);
	while (ibv_get_cq_event(verbs->channel, &cq, &conn) == 0) {
		ibv_ack_cq_events(cq, 1);
		if (cq == verbs->arrivals)
			arrivals = true;
		else
			sends_completed(conn);
	}
	/* The kernel has taken the device away: the file stays readable. */
	gone = errno != EAGAIN && errno != EINTR;
	if (arrivals)
		dfi__verbs_take(verbs);
	lock_release(&verbs->poll);
	if (arrivals)
		rearm(verbs);
	if (gone) {
		event_del(verbs->arrivals_event);
		dfi__verbs_break_all(verbs, "the device is gone");
	}
}

int dfi__verbs_arrivals_watch(struct verbs *verbs)
{
	struct event_base *base = dfi__loop_base(verbs->loop);

	verbs->arrivals_event = event_new(
	    base, verbs->channel->fd, EV_READ | EV_PERSIST, on_event, verbs);
	verbs->arm_timer = evtimer_new(base, on_timer, verbs);
	if (!verbs->arrivals_event || !verbs->arm_timer ||
	    event_add(verbs->arrivals_event, NULL) < 0)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	rearm(verbs);
	return 0;
}

void dfi__verbs_arrivals_quiet(struct verbs *verbs)
{
	if (verbs->arrivals_event)
		event_free(verbs->arrivals_event);
	if (verbs->arm_timer)
		event_free(verbs->arm_timer);
	verbs->arrivals_event = verbs->arm_timer = NULL;
}

static int fail_verb(const struct verbs *verbs, const char *what)
{
	return dfi__verbs_fail_port(&verbs->device, what, errno);
}

static int create_queue(struct verbs *verbs)
{
	int flags;

	verbs->channel = ibv_create_comp_channel(verbs->device.context);
	if (!verbs->channel)
		return fail_verb(verbs, "a completion channel");
	verbs->channel->fd = file_up(verbs->channel->fd);
	flags = fcntl(verbs->channel->fd, F_GETFL);
	if (flags < 0 ||
	    fcntl(verbs->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return fail_verb(verbs, "the completion channel");
	/* A receive is posted again only after its completion is taken. */
	verbs->arrivals = ibv_create_cq(verbs->device.context,
	    (int)verbs->device.limits.receives + 1, NULL, verbs->channel, 0);
	if (!verbs->arrivals)
		return fail_verb(verbs, "a completion queue");
	return 0;
}

int dfi__verbs_arrivals_start(struct verbs *verbs)
{
	int ret = create_queue(verbs);

	if (!ret)
		ret = dfi__verbs_receives_start(verbs);
	if (ret < 0)
		dfi__verbs_arrivals_stop(verbs);
	return ret;
}

void dfi__verbs_arrivals_stop(struct verbs *verbs)
{
	dfi__verbs_receives_stop(verbs);
	if (verbs->arrivals)
		ibv_destroy_cq(verbs->arrivals);
	if (verbs->channel)
		ibv_destroy_comp_channel(verbs->channel);
}
