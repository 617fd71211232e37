/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What arrives on any connection completes on one queue: messages, and writes
 * with immediate data, which say that a segment or a credit is in memory now.
 * Endpoints that wait take the completions themselves. The control thread is
 * woken for messages, which are solicited, and while some endpoint sleeps for
 * everything. What else arrives while no endpoint looks is for endpoints that
 * will, and until then takes a receive; sources take some now and then.
 */
#include "verbs.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include "../base/atomic.h"
#include "../base/compiler.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/loop.h"
#include "../base/wait.h"

/* Completions that are taken at once. */
#define BATCH 32

/*
 * While some endpoints take completions and others sleep, the control thread
 * only looks now and then whether the former still do.
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

uint32_t dfi__verbs_link_take(struct verbs *verbs, struct verbs_conn *conn)
{
	struct verbs_link *links;
	uint32_t i, n;

	for (i = 0; i < verbs->n_links; i++)
		if (!verbs->links[i].conn)
			break;
	if (i == verbs->n_links) {
		n = verbs->n_links ? 2 * verbs->n_links : 16;
		links = realloc(verbs->links, n * sizeof(*links));
		if (!links)
			return NO_LINK;
		memset(links + verbs->n_links, 0,
		    (n - verbs->n_links) * sizeof(*links));
		verbs->links = links;
		verbs->n_links = n;
	}
	verbs->links[i] = (struct verbs_link){ .conn = conn };
	return i;
}

/* The link that a peer's number names, if it is of that peer. */
static struct verbs_link *link_at(
    struct verbs *verbs, uint32_t number, uint32_t qp_num)
{
	struct verbs_link *link;

	if (number >= verbs->n_links)
		return NULL;
	link = &verbs->links[number];
	if (!link->conn || link->conn->qp->qp_num != qp_num)
		return NULL;
	return link;
}

/* Where the reader of a region, and the writer of a ring, say that they sleep.
 */
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

/* What is published comes before. The poll lock is held, which arm() takes. */
static inline void wake(struct verbs *verbs, _Atomic uint32_t *word)
{
	if (wait_wake_locked(word))
		verbs->woke = true;
}

static _Atomic uint64_t *footer_at(const struct verbs_link *link, uint32_t slot)
{
	const struct ring_layout *layout = &link->export->layout;

	return (_Atomic uint64_t *)(void *)(verbs_ring_base(
						link->export, link->ring) +
	    layout->first_slot + (uint64_t)slot * layout->slot_size +
	    layout->footer_offset);
}

/* The link's next segment is the one behind; for each, a product would cost. */
static inline void link_go_on(struct verbs_link *link)
{
	const struct ring_layout *layout = &link->export->layout;

	if (likely(++link->slot < layout->n_slots)) {
		link->next_footer =
		    (_Atomic uint64_t *)(void *)((char *)link->next_footer +
			layout->slot_size);
		return;
	}
	link->slot = 0;
	link->next_footer = footer_at(link, 0);
}

/*
 * The payload of the next segment, so many bytes, is in memory. Its footer did
 * not travel: it would often be a packet of its own.
 */
static inline void segment_arrived(
    struct verbs *verbs, struct verbs_link *link, uint32_t bytes)
{
	struct verbs_export *export = link->export;
	_Atomic uint64_t *footer = link->next_footer;

	if (unlikely(!export || export->closing || !export->layout.n_slots))
		return; /* nobody will read it */
	export->layout.next_footer(&export->layout, bytes, link->footer);
	atomic_set(&footer[0], link->footer[0]);
	/* Pairs with the reader's observe of this word (reader.c). */
	atomic_publish(&footer[1], link->footer[1]);
	wake(verbs, reader_word(export));
	link_go_on(link);
}

/* The end mark, which was held back until now, is for all to see. */
static void end_arrived(struct verbs *verbs, struct verbs_link *link)
{
	struct verbs_export *export = link->export;
	_Atomic uint64_t *state;

	link->ended = true;
	if (!export || export->closing || !export->layout.n_slots)
		return;
	state = (_Atomic uint64_t *)(void *)(verbs_ring_base(
						 export, link->ring) +
	    export->layout.end_footer + 8);
	/* Pairs with the reader's observe of this word (reader.h). */
	atomic_publish(state, atomic_peek(state) ^ TRANSPORT_HELD);
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
	struct verbs_link *link = link_at(
	    verbs, imm >> VERBS_IMM_BITS, wc->qp_num);

	if (unlikely(!link))
		return; /* late: its ring was given up */
	switch (imm & ((1u << VERBS_IMM_BITS) - 1)) {
	case VERBS_IMM_SEGMENT:
		segment_arrived(verbs, link, wc->byte_len);
		break;
	case VERBS_IMM_END:
		end_arrived(verbs, link);
		break;
	case VERBS_IMM_CREDIT:
		credit_arrived(verbs, link);
		break;
	}
}

static enum verbs_notify choose_notify(
    const struct verbs *verbs, const struct verbs_conn *conn)
{
	if (verbs->settings->verbs_notify != VERBS_NOTIFY_AUTO)
		return verbs->settings->verbs_notify;
	return ibv_query_qp_data_in_order(conn->qp, IBV_WR_RDMA_WRITE, 0)
	    ? VERBS_NOTIFY_FOOTER
	    : VERBS_NOTIFY_IMM;
}

/* A peer wants to add to words of ours, as others may. */
static int open_words(struct verbs_conn *conn, struct verbs_export *export,
    const struct verbs_message *message, struct verbs_message *answer)
{
	uint32_t number = dfi__verbs_link_take(conn->verbs, conn);
	struct verbs_link *link;

	if (number == NO_LINK)
		return -ENOMEM;
	link = &conn->verbs->links[number];
	link->to_link = message->link;
	link->export = export;
	link->ring = message->ring;
	export->n_links++;
	answer->link = number;
	answer->address = (uintptr_t)verbs_ring_base(export, message->ring);
	answer->rkey = export->mr->rkey;
	return 0;
}

/* A peer wants to write a ring. 0, or why not. */
static int open_ring(struct verbs_conn *conn,
    const struct verbs_message *message, struct verbs_message *answer)
{
	struct verbs *verbs = conn->verbs;
	struct verbs_export *export;
	struct verbs_link *link;
	struct verbs_ring *ring;
	_Atomic uint64_t *before;
	uint32_t number;

	for (export = verbs->exports; export; export = export->next)
		if (export->base.name.key == message->key)
			break;
	if (!export || export->closing)
		return -ECONNRESET;
	if (message->ring >= export->layout.n_rings ||
	    message->size != export->layout.ring_size)
		return -EBADMSG;
	if (!export->layout.n_slots)
		return open_words(conn, export, message, answer);
	ring = &export->rings[message->ring];
	if (atomic_peek(&ring->used))
		return -EEXIST;
	number = dfi__verbs_link_take(verbs, conn);
	if (number == NO_LINK)
		return -ENOMEM;
	link = &verbs->links[number];
	link->to_link = message->link;
	link->export = export;
	link->ring = message->ring;
	link->credit_address = message->address;
	link->credit_rkey = message->rkey;
	link->first_state = verbs_footer_state(export, message->ring,
	    export->layout.first_slot + export->layout.footer_offset);
	before = footer_at(link, export->layout.n_slots - 1);
	link->footer[0] = atomic_peek(&before[0]);
	link->footer[1] = atomic_peek(&before[1]);
	link->next_footer = footer_at(link, 0);
	export->n_links++;
	ring->link = number;
	ring->notify = choose_notify(verbs, conn);
	atomic_publish(&ring->used, true);
	atomic_set(ring->notify == VERBS_NOTIFY_FOOTER ? &export->base.silent
						       : &export->base.told,
	    true);
	answer->link = number;
	answer->address = (uintptr_t)verbs_ring_base(export, message->ring);
	answer->rkey = export->mr->rkey;
	answer->notify = ring->notify;
	return 0;
}

static void on_open(
    struct verbs_conn *conn, const struct verbs_message *message)
{
	struct verbs_message answer = {
		.type = VERBS_OPENED,
		.to_link = message->link,
	};

	answer.error = open_ring(conn, message, &answer);
	(void)dfi__verbs_send(conn, &answer); /* else it is broken */
}

static void on_opened(
    struct verbs_link *link, const struct verbs_message *message)
{
	struct verbs_remote *remote = link->remote;

	if (!remote || remote->opened)
		return;
	remote->to_link = message->link;
	remote->address = message->address;
	remote->rkey = message->rkey;
	if (remote->layout.n_slots)
		remote->notify = message->notify == VERBS_NOTIFY_FOOTER
		    ? VERBS_NOTIFY_FOOTER
		    : VERBS_NOTIFY_IMM;
	remote->opened = message->error < 0 ? message->error : 1;
	pthread_cond_broadcast(&link->conn->verbs->answered);
}

/* The writer has gone, and everything that it wrote is here. */
static void on_close(struct verbs_link *link)
{
	if (link->export)
		(void)dfi__verbs_leave_export(link);
	link->export = NULL;
	dfi__verbs_say_closed(link);
}

static void on_closed(struct verbs_link *link)
{
	if (link->remote && link->remote->closing)
		dfi__verbs_free_remote(link->remote);
}

static void message_arrived(
    struct verbs *verbs, const struct verbs_message *message, uint32_t qp_num)
{
	struct verbs_conn *conn = conn_of(verbs, qp_num);
	struct verbs_link *link;

	if (!conn)
		return;
	pthread_mutex_lock(&verbs->table);
	if (message->type == VERBS_OPEN) {
		/* On one that we made, only its writer may post. */
		if (conn->accepted)
			on_open(conn, message);
	} else {
		link = link_at(verbs, message->to_link, qp_num);
		if (link && message->type == VERBS_OPENED)
			on_opened(link, message);
		else if (link && link->export && message->type == VERBS_CLOSE)
			on_close(link);
		else if (link && message->type == VERBS_CLOSED)
			on_closed(link);
	}
	pthread_mutex_unlock(&verbs->table);
}

/* The receive was used; later, which is soon enough, it is posted again. */
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
	struct verbs_conn *conn;

	if (wc->status == IBV_WC_SUCCESS) {
		if (wc->byte_len == sizeof(struct verbs_message))
			message_arrived(
			    verbs, &verbs->messages[wc->wr_id], wc->qp_num);
		return;
	}
	conn = conn_of(verbs, wc->qp_num);
	if (conn)
		dfi__verbs_break(conn, ibv_wc_status_str(wc->status));
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

/* Take what is there after so many looks; the poll lock is held. */
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
	/* Nothing will arrive any more, on any connection. */
	if (unlikely(n < 0))
		dfi__verbs_break_all(
		    verbs, "the queue of what arrives can't be read");
}

void dfi__verbs_take(struct verbs *verbs)
{
	take_arrivals(verbs, 1);
}

void dfi__verbs_progress(struct transport *transport, uint32_t looks)
{
	struct verbs *verbs = (struct verbs *)transport;

	/* Somebody does it now, or waits to do it: on few processors who spins
	 * would else take the lock again before who sleeps for it runs. */
	if (atomic_peek(&verbs->n_waiting) || !lock_try(&verbs->poll))
		return;
	atomic_set(&verbs->polls, atomic_peek(&verbs->polls) + 1);
	take_arrivals(verbs, looks);
	lock_release(&verbs->poll);
}

void dfi__verbs_take_some(struct verbs *verbs)
{
	struct ibv_wc wcs[BATCH];

	if (atomic_peek(&verbs->n_waiting) || !lock_try(&verbs->poll))
		return;
	/* A queue that can't be read is for others to find. */
	arrived(verbs, wcs, ibv_poll_cq(verbs->arrivals, BATCH, wcs));
	lock_release(&verbs->poll);
}

void dfi__verbs_lock_poll(struct verbs *verbs)
{
	atomic_fetch_add(&verbs->n_waiting, 1);
	dfi__lock_take(&verbs->poll);
	atomic_fetch_sub(&verbs->n_waiting, 1);
}

/* Have the next arrival, or message, wake the control thread. */
static void arm(struct verbs *verbs, bool messages_only)
{
	ibv_req_notify_cq(verbs->arrivals, messages_only);
	/* What came before is announced by nobody, and progress() may skip. */
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

/* There may be thousands; where the last one slept is a good place to begin. */
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
 * Whether an arrival would wake an endpoint, or may soon, as one has just been
 * woken: then it is not worth looking at all. Both locks are held.
 */
static bool endpoint_sleeps(struct verbs *verbs)
{
	bool woke = verbs->woke;

	verbs->woke = false;
	return woke || reader_sleeps(verbs) || writer_sleeps(verbs);
}

/*
 * Whether all that arrives has to be taken soon, whoever it is for: for who
 * sleeps, or because there are fewer receives than may be needed. The poll lock
 * is held: an endpoint that goes to sleep says so first, and then arms under
 * this lock, before us, so that we see its word, or after us.
 */
static bool must_take_all(struct verbs *verbs)
{
	bool must;

	pthread_mutex_lock(&verbs->table);
	must = verbs->needed > atomic_peek(&verbs->n_receives) ||
	    endpoint_sleeps(verbs);
	pthread_mutex_unlock(&verbs->table);
	return must;
}

/* Be woken again as far as endpoints do not look themselves. */
static void rearm(struct verbs *verbs)
{
	struct timeval later = { .tv_usec = IDLE_CHECK_US };
	uint32_t polls = atomic_peek(&verbs->polls);
	/* Who went to sleep since may be the one who has polled. */
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
 * Sends have completed, for which the connection's writer may sleep, or credits
 * wait. The poll lock is held.
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

static int add_events(void *arg)
{
	struct verbs *verbs = arg;
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

static int remove_events(void *arg)
{
	struct verbs *verbs = arg;

	if (verbs->arrivals_event)
		event_free(verbs->arrivals_event);
	if (verbs->arm_timer)
		event_free(verbs->arm_timer);
	verbs->arrivals_event = verbs->arm_timer = NULL;
	return 0;
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
	flags = fcntl(verbs->channel->fd, F_GETFL);
	if (flags < 0 ||
	    fcntl(verbs->channel->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return fail_verb(verbs, "the completion channel");
	/* A receive is posted again only after its completion was taken. */
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
	if (!ret)
		ret = dfi__loop_call(verbs->loop, add_events, verbs);
	if (ret < 0)
		dfi__verbs_arrivals_stop(verbs);
	return ret;
}

void dfi__verbs_arrivals_quiet(struct verbs *verbs)
{
	dfi__loop_call(verbs->loop, remove_events, verbs);
}

void dfi__verbs_arrivals_stop(struct verbs *verbs)
{
	dfi__verbs_arrivals_quiet(verbs);
	dfi__verbs_receives_stop(verbs);
	if (verbs->arrivals)
		ibv_destroy_cq(verbs->arrivals);
	if (verbs->channel)
		ibv_destroy_comp_channel(verbs->channel);
}
