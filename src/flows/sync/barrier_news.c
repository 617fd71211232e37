/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The news of a barrier, on the control thread, and the errors of calls that
 * follow from it. barrier_participants.c has the protocol; this file has the
 * texts.
 */
#include "barrier_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "registry/client/client.h"
#include "flows/context/context.h"

#define NAMED_MISSING 3 /* participants that a text names */

/*
 * After this time the end of a process counts even if the registry reports
 * nothing. Participants on other hosts learn only from the registry, so the
 * registry gets this time: otherwise participants could disagree whether a
 * round was complete. With at_last, half a second of it has passed already
 * (processes.c). It is shorter than the two seconds in which a loss is
 * reported.
 */
#define SUSPICION_NS (1300 * NS_PER_MS)
#define SUSPICION_LEFT_NS (800 * NS_PER_MS)

/*
 * Whether the entry is one of a participant that counts; then *node is its. An
 * entry that can't be read is another participant than before.
 */
static bool on_put(struct dfi_barrier *barrier,
    const struct registry_event *event, struct node *node)
{
	struct barrier_participants *participants = &barrier->participants;
	struct barrier_participant participant;
	uint32_t index;

	if (!dfi__endpoint_index(event->key, &index))
		return false;
	if (dfi__participant_decode(event->data, event->size, &participant) <
	    0) {
		dfi__log(DFI_LOG_WARN, "%s: %s", event->key, dfi_errmsg());
		dfi__participants_delete(participants, index);
		return false;
	}
	dfi__participants_put(participants, index, &participant);
	*node = participant.node;
	return index < participants->n &&
	    participant_joined(participants, index);
}

/* Nothing more can report the suspect's progress: it is lost. */
static void lose_suspect(struct dfi_barrier *barrier)
{
	dfi__participants_delete(&barrier->participants, barrier->suspect);
	barrier->suspect = barrier->participants.n;
}

void dfi__barrier_process_ended(
    struct process_watcher *watcher, const struct node *node, bool at_last)
{
	struct dfi_barrier *barrier = (void *)((char *)watcher -
	    offsetof(struct dfi_barrier, processes));
	struct barrier_participants *participants = &barrier->participants;
	uint32_t i;

	pthread_mutex_lock(&barrier->lock);
	for (i = 0; i < participants->n; i++)
		if (participant_joined(participants, i) &&
		    dfi__node_is_process(
			&participants->participant[i].node, node))
			break;
	/* Later ends may follow from the first. */
	if (i < participants->n && barrier->suspect == participants->n) {
		barrier->suspect = i;
		barrier->suspect_until = clock_now_ns() +
		    (at_last ? SUSPICION_LEFT_NS : SUSPICION_NS);
		if (barrier->registry_lost)
			lose_suspect(barrier);
	}
	(void)wait_wake_locked(&barrier->sleeping);
	pthread_mutex_unlock(&barrier->lock);
}

void dfi__barrier_event(void *arg, const struct registry_event *event)
{
	struct dfi_barrier *barrier = arg;
	bool joined = false;
	struct node node;
	uint32_t index;

	pthread_mutex_lock(&barrier->lock);
	if (event->type == REGISTRY_LOST)
		barrier->registry_lost = true;
	else if (event->type == REGISTRY_BACK)
		barrier->registry_lost = false;
	else if (event->type == REGISTRY_PUT)
		joined = on_put(barrier, event, &node);
	/*
	 * If replaced, the PUT that follows shows whether the participant is
	 * another.
	 */
	else if (event->type == REGISTRY_DELETE && !event->replaced &&
	    dfi__endpoint_index(event->key, &index)) {
		dfi__participants_delete(&barrier->participants, index);
		/* The next owner of the index is another participant. */
		if (index == barrier->suspect)
			barrier->suspect = barrier->participants.n;
	}
	if (barrier->registry_lost)
		lose_suspect(barrier);
	(void)wait_wake_locked(&barrier->sleeping);
	pthread_mutex_unlock(&barrier->lock);
	if (joined)
		dfi__processes_watch(barrier->dfi->processes, &node);
	dfi__barrier_withdraw(barrier);
}

/* Under the lock. A lost registry gets the entry when it is back. */
static bool must_withdraw(const struct dfi_barrier *barrier)
{
	const struct barrier_participants *participants =
	    &barrier->participants;

	return participants->lost < participants->n &&
	    !barrier->registry_lost && !barrier->publishing &&
	    !barrier->withdrawn;
}

void dfi__barrier_withdraw(struct dfi_barrier *barrier)
{
	struct barrier_participants *participants = &barrier->participants;
	struct barrier_participant last;
	char key[KEY_SIZE];
	size_t size;
	void *data;
	bool must;

	pthread_mutex_lock(&barrier->lock);
	must = must_withdraw(barrier);
	if (must) {
		last = barrier->self;
		last.set = participants->set;
		last.round = participants->completed;
		last.lost_id = participants->participant[participants->lost].id;
		barrier->withdrawn = true;
	}
	pthread_mutex_unlock(&barrier->lock);
	if (!must)
		return;
	dfi__participant_key(key, barrier->name, participants->self);
	/* A participant whose own entry is gone publishes nothing more. */
	data = last.lost_id == last.id ? NULL
				       : dfi__participant_encode(&last, &size);
	dfi__client_retire(barrier->dfi->registry, key, data, data ? size : 0);
	free(data);
}

void dfi__barrier_name(char *text, size_t size, uint32_t index,
    const struct barrier_participant *participant)
{
	if (!participant->id)
		snprintf(text, size, "participant %u", index);
	else
		snprintf(text, size,
		    "participant %u (node %s, host %s, pid %u)", index,
		    participant->node.name, participant->node.host,
		    participant->node.pid);
}

int dfi__barrier_check(struct dfi_barrier *barrier)
{
	const struct barrier_participants *participants =
	    &barrier->participants;
	char name[256];

	if (barrier->suspect < participants->n &&
	    clock_now_ns() >= barrier->suspect_until)
		lose_suspect(barrier);
	if (participants->disagree) {
		dfi__barrier_name(name, sizeof(name), participants->other_index,
		    &participants->other);
		return dfi__fail(-EPROTOTYPE,
		    "barrier '%s': %s has opened it for %u participants, and "
		    "participant %u for %u: all must name the same number",
		    barrier->name, name, participants->other.n_participants,
		    participants->self, participants->n);
	}
	if (participants->lost < participants->n) {
		dfi__barrier_name(name, sizeof(name), participants->lost,
		    &participants->participant[participants->lost]);
		return dfi__fail(-ECONNRESET,
		    "barrier '%s': %s died or closed before round %llu was "
		    "complete",
		    barrier->name, name,
		    (unsigned long long)participants->completed + 1);
	}
	if (barrier->registry_lost)
		return dfi__fail(-ENOTCONN,
		    "barrier '%s': the connection to the registry is lost",
		    barrier->name);
	return 0;
}

/* A text that grows up to its size, and is then cut. */
struct text {
	char at[400];
	size_t used;
};

static void __attribute__((format(printf, 2, 3)))
append(struct text *text, const char *fmt, ...)
{
	va_list ap;
	int length;

	va_start(ap, fmt);
	length = vsnprintf(
	    text->at + text->used, sizeof(text->at) - text->used, fmt, ap);
	va_end(ap);
	if (length > 0)
		text->used += (size_t)length;
	if (text->used >= sizeof(text->at))
		text->used = sizeof(text->at) - 1;
}

/* Whether the round waits for a participant. */
static bool is_missing(
    const struct barrier_participants *participants, uint32_t i, uint64_t round)
{
	if (!participants->set)
		return !participant_joined(participants, i);
	return participants->participant[i].round < round;
}

int dfi__barrier_missing(const struct dfi_barrier *barrier, uint64_t round)
{
	const struct barrier_participants *participants =
	    &barrier->participants;
	struct text text = { .used = 0 };
	uint32_t i, n_missing = 0;
	char name[256];

	for (i = 0; i < participants->n; i++) {
		if (!is_missing(participants, i, round) ||
		    n_missing++ >= NAMED_MISSING)
			continue;
		if (participant_joined(participants, i))
			dfi__barrier_name(name, sizeof(name), i,
			    &participants->participant[i]);
		else
			snprintf(name, sizeof(name), "participant %u", i);
		append(&text, "%s%s has not %s", n_missing > 1 ? ", " : "",
		    name, participants->set ? "arrived" : "opened it");
	}
	if (n_missing > NAMED_MISSING)
		append(&text, ", and %u more", n_missing - NAMED_MISSING);
	return dfi__fail(-ETIMEDOUT, "barrier '%s': round %llu of %u: %s",
	    barrier->name, (unsigned long long)round, participants->n, text.at);
}
