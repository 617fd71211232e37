/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared receive queue. Each message needs a receive, and so does each
 * segment or credit with immediate data. A sender that finds none is told to
 * retry, which is correct but slow. So the queue has as many receives as may be
 * needed for the rings of this context, and for the rings that it writes,
 * within the limit of the device.
 */

#include "arrive.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/atomic.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/maps.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "base/settings.h"
#include "memory.h"
#include "message.h"
#include "transport/verbs/device/fail.h"

int dfi__verbs_post_receives(
    struct verbs *verbs, const uint64_t *numbers, uint32_t n)
{
	struct ibv_recv_wr wrs[VERBS_REPOST], *bad;
	struct ibv_sge sges[VERBS_REPOST];
	uint32_t i;

	for (i = 0; i < n; i++) {
		sges[i] = (struct ibv_sge){
			.addr = (uintptr_t)&verbs->messages[numbers[i]],
			.length = sizeof(verbs->messages[0]),
			.lkey = verbs->messages_mr[numbers[i] / VERBS_RECEIVES]
				    ->lkey,
		};
		wrs[i] = (struct ibv_recv_wr){
			.wr_id = numbers[i],
			.next = i + 1 < n ? &wrs[i + 1] : NULL,
			.sg_list = &sges[i],
			.num_sge = 1,
		};
	}
	return ibv_post_srq_recv(verbs->receives, wrs, &bad);
}

/*
 * Post more receives, until a memory region of them is full; the previous call
 * may have stopped inside one. The poll lock is held, or no other thread exists
 * yet.
 */
static int add_receives(struct verbs *verbs)
{
	uint32_t posted = atomic_peek(&verbs->n_receives), i, k;
	uint32_t region = posted / VERBS_RECEIVES;
	uint32_t first = region * VERBS_RECEIVES;
	uint32_t end = (uint32_t)min_u64(
	    first + VERBS_RECEIVES, verbs->device.limits.receives);
	struct ibv_mr **mr = &verbs->messages_mr[region];
	uint64_t numbers[VERBS_REPOST];
	int err;

	if (!*mr)
		*mr = ibv_reg_mr(verbs->pd, &verbs->messages[first],
		    (end - first) * sizeof(verbs->messages[0]),
		    IBV_ACCESS_LOCAL_WRITE);
	if (!*mr)
		return dfi__verbs_fail_register(&verbs->device,
		    (end - first) * sizeof(verbs->messages[0]), errno);
	for (; posted < end; posted += k) {
		k = (uint32_t)min_u64(VERBS_REPOST, end - posted);
		for (i = 0; i < k; i++)
			numbers[i] = posted + i;
		err = dfi__verbs_post_receives(verbs, numbers, k);
		if (err)
			return dfi__verbs_fail_port(
			    &verbs->device, "posting receives", err);
		atomic_set(&verbs->n_receives, posted + k);
	}
	return 0;
}

/* Pages are used only where receives are posted. */
static int map_messages(struct verbs *verbs, uint64_t size)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		return dfi__fail_map(size, "verbs: receives");
	dfi__memory_keep_out(at, size, verbs->settings->dump_rings);
	verbs->messages = at;
	return add_receives(verbs);
}

int dfi__verbs_receives_start(struct verbs *verbs)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = verbs->device.limits.receives,
		    .max_sge = 1 },
	};
	uint64_t size = VERBS_MAX_RECEIVES * sizeof(verbs->messages[0]);
	struct reservation reservation;
	int ret = dfi__verbs_reserve(verbs, size,
	    VERBS_RECEIVES * sizeof(verbs->messages[0]), &reservation);

	if (ret < 0)
		return ret;
	verbs->receives = ibv_create_srq(verbs->pd, &attr);
	ret = verbs->receives ? map_messages(verbs, size)
			      : dfi__verbs_fail_port(&verbs->device,
				    "a shared receive queue", errno);
	dfi__reservation_end(&reservation);
	return ret;
}

/* The queue is destroyed, so nothing writes into the memory. */
void dfi__verbs_receives_stop(struct verbs *verbs)
{
	size_t i;

	if (verbs->receives)
		ibv_destroy_srq(verbs->receives);
	for (i = 0; i < VERBS_MAX_RECEIVES / VERBS_RECEIVES; i++)
		if (verbs->messages_mr[i])
			ibv_dereg_mr(verbs->messages_mr[i]);
	if (verbs->messages)
		munmap(verbs->messages,
		    VERBS_MAX_RECEIVES * sizeof(verbs->messages[0]));
}

/* Whether more receives are needed than are posted, and the device has them. */
static bool is_short(const struct verbs *verbs)
{
	uint32_t n = atomic_peek(&verbs->n_receives);

	return n < atomic_peek(&verbs->needed) &&
	    n < verbs->device.limits.receives;
}

/*
 * After a refusal no more memory is asked for so long, as asking may wait for
 * seconds: a source that opens many rings must not do so for each.
 */
#define REFUSED_NS (INT64_C(60) * NS_PER_S)

/* Reserve the memory of more receives, and post them. */
static int grow(struct verbs *verbs)
{
	struct reservation reservation;
	char where[160];
	int ret;

	if (clock_now_ns() < atomic_peek(&verbs->refused_until))
		return dfi__fail(
		    -ENOMEM, "there was no memory for more a moment ago");
	snprintf(where, sizeof(where), "verbs: %s: memory for receives",
	    dfi__verbs_port(&verbs->device).text);
	ret = dfi__reservation_begin(&reservation, "",
	    VERBS_RECEIVES * sizeof(verbs->messages[0]), where);
	if (ret < 0) {
		atomic_set(&verbs->refused_until, clock_now_ns() + REFUSED_NS);
		return ret;
	}
	dfi__verbs_lock_poll(verbs);
	/* Another thread may have posted them meanwhile. */
	if (is_short(verbs))
		ret = add_receives(verbs);
	lock_release(&verbs->poll);
	dfi__reservation_end(&reservation);
	return ret;
}

void dfi__verbs_receives_need(struct verbs *verbs, uint64_t n)
{
	uint64_t before = atomic_fetch_add(&verbs->needed, n);
	bool enough = before <= atomic_peek(&verbs->n_receives);
	const char *why = "max_srq_wr, max_cqe";

	while (is_short(verbs))
		if (grow(verbs) < 0) {
			why = dfi_errmsg();
			break;
		}
	if (atomic_peek(&verbs->needed) <= atomic_peek(&verbs->n_receives))
		return;
	/* From now on the control thread posts them again. */
	ibv_req_notify_cq(verbs->arrivals, 0);
	if (enough)
		dfi__log(DFI_LOG_INFO,
		    "verbs: %s port %u: %u receives where %lu may arrive at "
		    "once, so that peers may have to send again: %s",
		    verbs->device.name, verbs->device.port,
		    atomic_peek(&verbs->n_receives),
		    (unsigned long)atomic_peek(&verbs->needed), why);
}

void dfi__verbs_receives_spare(struct verbs *verbs, uint64_t n)
{
	atomic_fetch_sub(&verbs->needed, n);
}
