/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for devices: a core dump holds it only if asked, and it is reserved
 * while its pages are taken, which registration does. No device is needed: the
 * one made here looks at memory that it should register, and mostly refuses it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <dfi/log.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/reservation.h"
#include "dumped.h"
#include "transport/verbs/data/arrive.h"
#include "transport/verbs/data/memory.h"
#include "transport/verbs/multicast/multicast.h"

static struct mappings registered;
static unsigned n_unreserved; /* of those */

/* What this process has reserved, in bytes; see tests/CMakeLists.txt. */
static uint64_t reserved;
static bool nothing_is_left;
static unsigned n_asked;

/* Whether the device registers memory, and its number of posted receives. */
static bool registers;
static uint32_t n_posted;

/* libibverbs and librdmacm */

struct ibv_mr *(
    ibv_reg_mr)(struct ibv_pd *pd, void *at, size_t length, int access)
{
	struct mappings one = mappings_of(NULL, at);

	(void)pd;
	(void)access;
	registered.n += one.n;
	registered.dumped += one.dumped;
	n_unreserved += length > reserved;
	if (registers)
		return calloc(1, sizeof(struct ibv_mr));
	errno = ENOMEM;
	return NULL;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t length,
    uint64_t iova, unsigned int access)
{
	(void)iova;
	return (ibv_reg_mr)(pd, at, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	free(mr);
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	free(srq);
	return 0;
}

int ibv_query_device(
    struct ibv_context *context, struct ibv_device_attr *device)
{
	(void)context;
	*device = (struct ibv_device_attr){ .max_qp_wr = 64, .max_cqe = 64 };
	return 0;
}

int(ibv_query_port)(struct ibv_context *context, uint8_t number,
    struct _compat_ibv_port_attr *port)
{
	(void)context;
	(void)number;
	((struct ibv_port_attr *)(void *)port)->active_mtu = IBV_MTU_4096;
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	(void)context;
	channel->fd = eventfd(0, EFD_CLOEXEC);
	return channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int n, void *arg,
    struct ibv_comp_channel *channel, int vector)
{
	(void)context;
	(void)n;
	(void)arg;
	(void)channel;
	(void)vector;
	return calloc(1, sizeof(struct ibv_cq));
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return 0;
}

static int post_receives(
    struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)bad;
	for (; wr; wr = wr->next)
		n_posted++;
	return 0;
}

static struct ibv_device device = { .name = "fake0" };
static struct ibv_context context = {
	.device = &device,
	.ops = { .post_srq_recv = post_receives,
	    .req_notify_cq = req_notify_cq },
};
static struct ibv_cq arrivals = { .context = &context };

struct ibv_srq *ibv_create_srq(
    struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = calloc(1, sizeof(*srq));

	(void)pd;
	(void)attr;
	srq->context = &context;
	return srq;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = calloc(1, sizeof(*channel));

	channel->fd = eventfd(0, EFD_CLOEXEC);
	return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
    void *arg, enum rdma_port_space space)
{
	(void)channel;
	(void)arg;
	(void)space;
	*id = calloc(1, sizeof(**id));
	(*id)->verbs = &context;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)id;
	(void)address;
	return 0;
}

/* The tests */

static struct settings settings;
static struct verbs verbs = {
	.settings = &settings,
	.arrivals = &arrivals,
	.device = {
		.name = "fake0",
		.port = 1,
		.context = &context,
		.address.in.sin_family = AF_INET,
		.limits = { .receives = VERBS_MAX_RECEIVES, .sends = 64 },
	},
};

int __real_dfi__reservation_begin(struct reservation *reservation,
    const char *root, uint64_t bytes, const char *where);
int __wrap_dfi__reservation_begin(struct reservation *reservation,
    const char *root, uint64_t bytes, const char *where);
void __real_dfi__reservation_end(struct reservation *reservation);
void __wrap_dfi__reservation_end(struct reservation *reservation);

int __wrap_dfi__reservation_begin(struct reservation *reservation,
    const char *root, uint64_t bytes, const char *where)
{
	int ret;

	/* It may wait, and arrivals must be taken meanwhile. */
	cr_assert(lock_try(&verbs.poll));
	lock_release(&verbs.poll);
	n_asked++;
	ret = nothing_is_left
	    ? dfi__fail(-ENOMEM, "%s: nothing is left", where)
	    : __real_dfi__reservation_begin(reservation, root, bytes, where);
	reserved = ret < 0 ? 0 : bytes;
	return ret;
}

void __wrap_dfi__reservation_end(struct reservation *reservation)
{
	reserved = 0;
	__real_dfi__reservation_end(reservation);
}

static void create_memory(uint32_t huge_pages)
{
	struct verbs_memory memory;

	settings.huge_pages = huge_pages;
	cr_assert_eq(
	    dfi__verbs_memory_create(&verbs, 1 << 20, 0, &memory), -ENOMEM);
}

static void send_buffer(void)
{
	create_memory(HUGE_PAGES_NEVER);
}

static void send_buffer_of_huge_pages(void)
{
	struct memory_room room;

	dfi__memory_huge_room("", &room);
	if (room.bytes < TRANSPORT_HUGE_PAGE)
		cr_skip_test("this machine has no free huge pages");
	create_memory(HUGE_PAGES_REQUIRE);
}

static void receives(void)
{
	cr_assert_eq(dfi__verbs_receives_start(&verbs), -ENOMEM);
	dfi__verbs_receives_stop(&verbs);
	verbs.messages = NULL;
}

/* As if the first ones had been registered. */
static void more_receives(void)
{
	const uint64_t n = VERBS_RECEIVES + 1;

	cr_assert_eq(dfi__verbs_receives_start(&verbs), -ENOMEM);
	registered = (struct mappings){ 0 };
	n_unreserved = 0;
	atomic_set(&verbs.n_receives, VERBS_RECEIVES);
	dfi__verbs_receives_need(&verbs, n);
	cr_assert_eq(atomic_peek(&verbs.n_receives), VERBS_RECEIVES);
	cr_assert_eq(atomic_peek(&verbs.needed), n);
	dfi__verbs_receives_spare(&verbs, n);
	cr_assert_eq(atomic_peek(&verbs.needed), 0);
	dfi__verbs_receives_stop(&verbs);
	verbs.messages = NULL;
	atomic_set(&verbs.n_receives, 0);
}

static void datagrams(void)
{
	const struct multicast_attr attr = {
		.group = "239.1.2.3",
		.max_size = 1024,
		.receives = 8,
		.receive_size = 1024,
	};
	struct multicast_endpoint *endpoint;

	cr_assert_eq(dfi__verbs_multicast_open(
			 &verbs.base, &attr, deadline_in_ms(30000), &endpoint),
	    -ENOMEM);
}

static void expect_no_dump_unless_asked(void (*use_memory)(void))
{
	uint32_t asked;

	for (asked = 0; asked < 2; asked++) {
		settings.dump_rings = asked;
		registered = (struct mappings){ 0 };
		use_memory();
		cr_assert_eq(registered.n, 1);
		cr_assert_eq(registered.dumped, asked);
	}
}

Test(verbs_dumps, hold_send_buffers_only_if_asked)
{
	expect_no_dump_unless_asked(send_buffer);
}

Test(verbs_dumps, hold_send_buffers_of_huge_pages_only_if_asked)
{
	expect_no_dump_unless_asked(send_buffer_of_huge_pages);
}

Test(verbs_dumps, hold_received_messages_only_if_asked)
{
	expect_no_dump_unless_asked(receives);
}

Test(verbs_dumps, hold_datagrams_only_if_asked)
{
	expect_no_dump_unless_asked(datagrams);
}

static void expect_reservation(void (*use_memory)(void))
{
	registered = (struct mappings){ 0 };
	n_unreserved = 0;
	use_memory();
	cr_assert_eq(registered.n, 1);
	cr_assert_eq(n_unreserved, 0);
	cr_assert_eq(reserved, 0);
}

Test(verbs_memory, is_reserved_while_it_is_registered)
{
	expect_reservation(send_buffer);
	expect_reservation(receives);
	expect_reservation(more_receives);
	expect_reservation(datagrams);
}

static char logged[512];

static void note(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	snprintf(logged, sizeof(logged), "%s", line);
}

/* Fewer receives are slow, and no error. */
Test(verbs_memory, for_more_receives_is_not_taken_where_none_is_left)
{
	const uint64_t n = VERBS_RECEIVES + 1;

	dfi_log_set(DFI_LOG_INFO, note, NULL);
	nothing_is_left = true;
	atomic_set(&verbs.n_receives, VERBS_RECEIVES);
	dfi__verbs_receives_need(&verbs, n);
	cr_assert_eq(atomic_peek(&verbs.n_receives), VERBS_RECEIVES);
	cr_assert_eq(registered.n, 0);
	cr_assert(
	    strstr(logged, "4096 receives where 4097 may arrive at once") &&
		strstr(logged, "memory for receives: nothing is left"),
	    "%s", logged);
	/* Each time it may have waited for seconds. */
	dfi__verbs_receives_need(&verbs, n);
	cr_assert_eq(n_asked, 1, "%u", n_asked);
}

Test(verbs_memory, for_more_receives_is_taken_until_they_are_enough)
{
	registers = true;
	cr_assert_eq(dfi__verbs_receives_start(&verbs), 0);
	cr_assert_eq(atomic_peek(&verbs.n_receives), VERBS_RECEIVES);
	dfi__verbs_receives_need(&verbs, VERBS_RECEIVES);
	cr_assert_eq(atomic_peek(&verbs.n_receives), VERBS_RECEIVES);
	dfi__verbs_receives_need(&verbs, VERBS_RECEIVES + 1);
	cr_assert_eq(atomic_peek(&verbs.n_receives), 3 * VERBS_RECEIVES);
	/* The device has no more. */
	dfi__verbs_receives_need(&verbs, VERBS_MAX_RECEIVES);
	cr_assert_eq(atomic_peek(&verbs.n_receives), VERBS_MAX_RECEIVES);
	cr_assert_eq(n_posted, VERBS_MAX_RECEIVES);
	cr_assert_eq(n_unreserved, 0);
	dfi__verbs_receives_stop(&verbs);
}
