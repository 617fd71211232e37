/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions: segments, credits, messages and sends. A provider works inside
 * its calls only, so whoever looks for completions also moves the bytes of all
 * connections. Endpoints that wait do so themselves. While one does, the
 * control thread looks now and then only; else it sleeps on the wait
 * descriptors of the queues. fi_trywait() says when that is safe.
 */
#include "conn.h"

#include <event2/event.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "base/compiler.h"
#include "base/error.h"
#include "base/log.h"
#include "base/wait.h"
#include "fabric.h"

/* How many completions are taken at once. */
#define BATCH 32

/*
 * How often the control thread checks that an endpoint which was looking for
 * completions still does.
 */
#define IDLE_CHECK_US 2000

/*
 * After so many looks that found nothing, although a descriptor was ready, the
 * control thread also pauses: the provider may be unable to accept a
 * connection, for want of descriptors, and says nothing.
 */
#define MOST_IDLE 64

/* Looks by endpoints after which they end the control thread's watch. */
#define MOST_WATCHED 64

/* Where the reader of a region, or the writer of a ring, sleeps. */
static _Atomic uint32_t *reader_word(const struct ofi_export *export)
{
	return (_Atomic uint32_t *)(void *)((char *)export->region->base +
	    REGION_WAIT_OFFSET);
}

static _Atomic uint32_t *writer_word(const struct ofi_remote *remote)
{
	return (_Atomic uint32_t *)(void *)(remote->base.ring +
	    remote->layout.wait_offset);
}

void dfi__ofi_wake_reader(const struct ofi_export *export)
{
	wait_wake_locked(reader_word(export));
}

void dfi__ofi_wake_writer(const struct ofi_remote *remote)
{
	wait_wake_locked(writer_word(remote));
}

/* The payload of the next segment is in memory; its footer did not travel. */
static void segment_arrived(struct ofi_link *link, uint64_t bytes)
{
	struct ofi_export *export = link->export;
	_Atomic uint64_t *footer = link->next_footer;

	if (unlikely(!export || export->closing || !export->layout.n_slots))
		return; /* nobody will read it */
	link->written = true;
	footer_next_sent(&export->layout.shape, bytes, link->footer);
	atomic_set(&footer[0], link->footer[0]);
	/* Pairs with the reader's observe of this word (reader.h). */
	atomic_publish(&footer[1], link->footer[1]);
	dfi__ofi_wake_reader(export);
	if (++link->slot == export->layout.n_slots)
		link->slot = 0;
	link->next_footer = ofi_footer_at(link, link->slot);
}

static void credit_arrived(struct ofi_link *link, uint64_t data)
{
	struct ofi_remote *remote = link->remote;
	struct ring_credit *credit;
	uint64_t known;

	if (!remote || !remote->layout.n_slots)
		return;
	credit = (struct ring_credit *)(void *)remote->base.ring;
	known = atomic_peek(&credit->consumed);
	/* They pair with dfi__writer_room() and writer_closed(). */
	atomic_publish(
	    &credit->consumed, ofi_count_of(known, ofi_data_value(data)));
	if (ofi_data_closed(data))
		atomic_publish(&credit->closed, ofi_data_closed(data));
	dfi__ofi_wake_writer(remote);
}

static void data_arrived(struct ofi *ofi, uint64_t data)
{
	struct ofi_link *link = dfi__ofi_link(ofi, ofi_data_link(data));

	if (unlikely(!link))
		return; /* late: its ring was given up */
	link->conn->heard++;
	switch (ofi_data_kind(data)) {
	case OFI_DATA_SEGMENT:
		segment_arrived(link, ofi_data_value(data));
		break;
	case OFI_DATA_CREDIT:
		credit_arrived(link, data);
		break;
	case OFI_DATA_PIECE:
		link->written = true;
		break;
	}
}

/* Sends have left: the connection's writer may sleep for that. */
static void sends_completed(struct ofi_conn *conn)
{
	struct ofi *ofi = conn->ofi;
	uint32_t i;

	atomic_fetch_add(&conn->completed, OFI_SIGNAL_INTERVAL);
	ofi_count(&ofi->counts.completions, 1);
	for (i = 0; i < ofi->n_links; i++)
		if (ofi->links[i].conn == conn && ofi->links[i].remote)
			dfi__ofi_wake_writer(ofi->links[i].remote);
}

static void post_receive(struct ofi_operation *receive)
{
	ssize_t ret = fi_recv(receive->conn->ep, receive->message,
	    sizeof(*receive->message), NULL, 0, receive);

	if (ret)
		dfi__ofi_break(receive->conn, fi_strerror((int)-ret));
}

static void operation_completed(struct ofi_operation *operation, size_t size)
{
	struct ofi_conn *conn = operation->conn;

	if (!operation->message) {
		sends_completed(conn);
		return;
	}
	conn->heard++;
	if (size == sizeof(*operation->message))
		dfi__ofi_message_arrived(conn, operation->message);
	else
		dfi__ofi_break(conn, "it got a message of another size");
	if (conn->ep && !atomic_peek(&conn->broken))
		post_receive(operation);
}

/* An operation has failed, or ended with its endpoint. */
static void take_error(struct ofi *ofi)
{
	struct fi_cq_err_entry error = { .err = 0 };
	struct ofi_operation *operation;

	if (fi_cq_readerr(ofi->cq, &error, 0) < 0)
		return;
	operation = error.op_context;
	if (operation && error.err != FI_ECANCELED)
		dfi__ofi_break(operation->conn, fi_strerror(error.err));
}

/* Returns how many were taken, or -1 for an error that was. */
static ssize_t take_batch(struct ofi *ofi)
{
	struct fi_cq_data_entry entries[BATCH];
	ssize_t n = fi_cq_read(ofi->cq, entries, BATCH), i;

	if (n == -FI_EAVAIL) {
		take_error(ofi);
		return -1;
	}
	for (i = 0; i < n; i++)
		if (entries[i].flags & FI_REMOTE_WRITE)
			data_arrived(ofi, entries[i].data);
		else if (entries[i].op_context)
			operation_completed(
			    entries[i].op_context, entries[i].len);
	return n > 0 ? n : 0;
}

static void take_all(struct ofi *ofi)
{
	while (take_batch(ofi))
		atomic_set(&ofi->n_idle, 0);
}

/*
 * An endpoint looked while the control thread watches. A look may change what
 * the provider waits for: room in a socket, when it could not send all. The
 * control thread must learn of that. And if it doesn't run, as threads of
 * higher priority do, an endpoint that goes on looking ends the watch, which
 * makes each packet costlier.
 */
static void looked(struct ofi *ofi)
{
	if (++ofi->watched_looks >= MOST_WATCHED) {
		dfi__ofi_descriptors_leave(ofi);
		/* Pairs with dfi__ofi_arm(). */
		atomic_store(&ofi->watching, false);
		dfi__ofi_wake(ofi);
	} else if (dfi__ofi_descriptors_changed(ofi)) {
		dfi__ofi_wake(ofi);
	}
}

void dfi__ofi_take(struct ofi *ofi)
{
	take_all(ofi);
	if (atomic_peek(&ofi->watching))
		looked(ofi);
}

void dfi__ofi_progress(struct transport *transport, uint32_t looks)
{
	struct ofi *ofi = (struct ofi *)transport;

	/* Another thread does it, or waits to do it. */
	if (atomic_peek(&ofi->n_waiting) || !lock_try(&ofi->poll))
		return;
	atomic_set(&ofi->polls, atomic_peek(&ofi->polls) + 1);
	/* A look at the queue is a system call: what comes meanwhile waits. */
	(void)looks;
	while (take_batch(ofi) == BATCH)
		;
	if (unlikely(atomic_peek(&ofi->watching)))
		looked(ofi);
	lock_release(&ofi->poll);
}

void dfi__ofi_lock_poll(struct ofi *ofi)
{
	atomic_fetch_add(&ofi->n_waiting, 1);
	dfi__lock_take(&ofi->poll);
	atomic_fetch_sub(&ofi->n_waiting, 1);
}

void dfi__ofi_settle(struct transport *transport)
{
	struct ofi *ofi = (struct ofi *)transport;

	dfi__ofi_lock_poll(ofi);
	dfi__ofi_take(ofi);
	lock_release(&ofi->poll);
}

void dfi__ofi_arm(struct transport *transport)
{
	struct ofi *ofi = (struct ofi *)transport;

	/* Pairs with look(): one of the two sees what the other has set. */
	atomic_store(&ofi->sleeper, true);
	dfi__ofi_settle(transport);
	/* Nothing can arrive, and the control thread sees no events. */
	if (unlikely(fcntl(ofi->wake, F_GETFD) < 0)) {
		dfi__ofi_lose_all(ofi);
		return;
	}
	if (!atomic_load(&ofi->watching))
		dfi__ofi_wake(ofi);
}

/* ---- The control thread ------------------------------------------------ */

void dfi__ofi_wake(struct ofi *ofi)
{
	uint64_t one = 1;

	if (write(ofi->wake, &one, sizeof(one)) < 0)
		dfi__log(DFI_LOG_ERROR, "ofi: eventfd: %s", strerror(errno));
}

/* Whether a queue may be slept on: it is empty, and more will wake. */
static bool may_sleep(struct ofi *ofi)
{
	struct fid *fids[] = { &ofi->cq->fid, &ofi->eq->fid };

	return fi_trywait(ofi->fabric, fids, 1) == 0 &&
	    fi_trywait(ofi->fabric, fids + 1, 1) == 0;
}

/* Handle all that is there. Whether more is, after so many turns. */
#define TURNS 8
static bool handle(struct ofi *ofi)
{
	bool more = true;
	int i;

	for (i = 0; more && i < TURNS; i++) {
		dfi__ofi_lock_poll(ofi);
		more = !dfi__ofi_take_events(ofi);
		take_all(ofi);
		more = !may_sleep(ofi) || more;
		lock_release(&ofi->poll);
	}
	return more;
}

/* Watch the queues or not. Returns whether it does. */
static bool set_watching(struct ofi *ofi, bool watching)
{
	dfi__ofi_lock_poll(ofi);
	if (watching) {
		/* The list has what is new after a look only. */
		take_all(ofi);
		watching = dfi__ofi_descriptors_watch(ofi);
	} else {
		dfi__ofi_descriptors_leave(ofi);
	}
	ofi->watched_looks = 0;
	atomic_store(&ofi->watching, watching);
	lock_release(&ofi->poll);
	if (watching == ofi->has_events)
		return watching;
	ofi->has_events = watching;
	if (watching) {
		event_add(ofi->cq_event, NULL);
		event_add(ofi->eq_event, NULL);
		evtimer_del(ofi->idle_timer);
	} else {
		event_del(ofi->cq_event);
		event_del(ofi->eq_event);
	}
	return watching;
}

/*
 * Look, and choose how to go on: by the descriptors, or, while endpoints look
 * for completions themselves and none has gone to sleep, by the timer.
 */
static void look(struct ofi *ofi)
{
	struct timeval later = { .tv_usec = IDLE_CHECK_US };
	bool paused = atomic_fetch_add(&ofi->n_idle, 1) >= MOST_IDLE;
	uint32_t polls = atomic_peek(&ofi->polls);
	bool slept = atomic_exchange(&ofi->sleeper, false);
	bool active = polls != ofi->seen_polls && !slept;
	bool more = handle(ofi);

	ofi->seen_polls = polls;
	if (paused) {
		atomic_set(&ofi->n_idle, 0);
		active = true;
	}
	/* It may be unable to, for want of memory. */
	active = !set_watching(ofi, !active);
	/* Pairs with dfi__ofi_arm(). */
	if (active && !paused && atomic_load(&ofi->sleeper))
		active = !set_watching(ofi, true);
	if (active)
		evtimer_add(ofi->idle_timer, &later);
	else if (more)
		event_active(ofi->wake_event, EV_READ, 0);
}

static void on_ready(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	look(arg);
}

static void on_wake(evutil_socket_t fd, short what, void *arg)
{
	struct ofi *ofi = arg;
	uint64_t count;

	(void)what;
	if (read((int)fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		return;
	if (atomic_exchange(&ofi->breaks, false))
		dfi__ofi_handle_breaks(ofi);
	look(ofi);
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	dfi__ofi_settle(arg);
	dfi__ofi_beat(arg);
}

int dfi__ofi_watch(struct ofi *ofi)
{
	struct event_base *base = dfi__loop_base(ofi->loop);
	uint32_t ms = dfi__ofi_beat_ms(ofi);
	struct timeval beat = {
		.tv_sec = ms / 1000,
		.tv_usec = (ms % 1000) * 1000,
	};
	int eq = -1;
	int ret = fi_control(&ofi->eq->fid, FI_GETWAIT, &eq);

	if (ret)
		return dfi__ofi_fail(ofi, "a wait descriptor", ret);
	ofi->wake_event = event_new(
	    base, ofi->wake, EV_READ | EV_PERSIST, on_wake, ofi);
	ofi->cq_event = event_new(
	    base, ofi->descriptors.set, EV_READ | EV_PERSIST, on_ready, ofi);
	ofi->eq_event = event_new(
	    base, eq, EV_READ | EV_PERSIST, on_ready, ofi);
	ofi->idle_timer = evtimer_new(base, on_ready, ofi);
	ofi->beat_timer = event_new(base, -1, EV_PERSIST, on_beat, ofi);
	if (!ofi->wake_event || !ofi->cq_event || !ofi->eq_event ||
	    !ofi->idle_timer || !ofi->beat_timer ||
	    event_add(ofi->wake_event, NULL) < 0 ||
	    event_add(ofi->beat_timer, &beat) < 0)
		return dfi__fail(-ENOMEM, "ofi: out of memory");
	look(ofi);
	return 0;
}

void dfi__ofi_quiet(struct ofi *ofi)
{
	struct event **events[] = { &ofi->wake_event, &ofi->cq_event,
		&ofi->eq_event, &ofi->idle_timer, &ofi->beat_timer };
	size_t i;

	for (i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		if (*events[i])
			event_free(*events[i]);
		*events[i] = NULL;
	}
}
