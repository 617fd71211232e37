/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Imitates the libraries as far as a caller can see. Sanitizers find any use
 * after the end.
 */
#include "fake_rdma.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/loop.h"
#include "fuzz.h"

struct fake_cq {
	struct ibv_cq cq;
	enum fake_sends sends;
};

/* Few at once: no more than a message and what answers to it. */
#define ARRIVALS 8

static struct ibv_wc arrivals[ARRIVALS];
static int n_arrivals;

unsigned fake_objects;
void (*fake_posted)(struct verbs_conn *conn, const struct ibv_send_wr *wr);
void (*fake_freed)(struct verbs_conn *conn);
void (*fake_answered)(
    struct rdma_cm_id *id, const struct handshake *answer, bool accepted);

static void *create(size_t size)
{
	void *object = calloc(1, size);

	fuzz_check(object);
	fake_objects++;
	return object;
}

static void destroy(void *object)
{
	fuzz_check(fake_objects);
	fake_objects--;
	free(object);
}

/* All bytes that are sent must be readable. */
static int post_send(
    struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	volatile char sum = 0;
	const char *at;
	uint32_t k;
	int i;

	(void)bad;
	for (; wr; wr = wr->next) {
		for (i = 0; i < wr->num_sge; i++) {
			at = (const char *)(uintptr_t)wr->sg_list[i].addr;
			for (k = 0; k < wr->sg_list[i].length; k++)
				sum = (char)(sum + at[k]);
		}
		fake_posted(qp->qp_context, wr);
	}
	return 0;
}

static int post_receives(
    struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)wr;
	(void)bad;
	return 0;
}

static int poll_arrivals(int n, struct ibv_wc *wcs)
{
	int i;

	fuzz_check(n >= n_arrivals);
	n = n_arrivals;
	n_arrivals = 0;
	for (i = 0; i < n; i++)
		wcs[i] = arrivals[i];
	return n;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wcs)
{
	const struct verbs_conn *conn = cq->cq_context;
	enum fake_sends sends;

	if (cq == &fake_arrivals)
		return poll_arrivals(n, wcs);
	sends = ((struct fake_cq *)cq)->sends;
	wcs[0] = (struct ibv_wc){ .wr_id = conn->posted };
	if (conn->stopped)
		wcs[0].status = IBV_WC_WR_FLUSH_ERR;
	else if (sends == FAKE_WAIT || conn->completed == conn->posted)
		return 0;
	else if (sends == FAKE_FAIL)
		wcs[0].status = IBV_WC_RETRY_EXC_ERR;
	return 1;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)cq;
	(void)solicited_only;
	return 0;
}

static struct ibv_device device = { .name = "fake0" };
struct ibv_context fake_context = {
	.device = &device,
	.ops = { .post_send = post_send,
	    .post_srq_recv = post_receives,
	    .poll_cq = poll_cq,
	    .req_notify_cq = req_notify_cq },
};
struct ibv_cq fake_arrivals = { .context = &fake_context };
struct ibv_srq fake_receives = { .context = &fake_context };

void fake_arrive(struct ibv_wc wc)
{
	fuzz_check(n_arrivals < ARRIVALS);
	arrivals[n_arrivals++] = wc;
}

void fake_complete(struct verbs_conn *conn, enum fake_sends sends)
{
	((struct fake_cq *)conn->sends)->sends = sends;
}

/* libibverbs */

struct ibv_mr *(
    ibv_reg_mr)(struct ibv_pd *pd, void *at, size_t length, int access)
{
	struct ibv_mr *mr = create(sizeof(*mr));

	(void)access;
	mr->pd = pd;
	mr->addr = at;
	mr->length = length;
	mr->rkey = FAKE_RKEY;
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t length,
    uint64_t iova, unsigned int access)
{
	(void)iova;
	return (ibv_reg_mr)(pd, at, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	destroy(mr);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int n, void *arg,
    struct ibv_comp_channel *channel, int vector)
{
	struct fake_cq *fake = create(sizeof(*fake));

	(void)n;
	(void)channel;
	(void)vector;
	fake->cq.context = context;
	fake->cq.cq_context = arg;
	return &fake->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	destroy(cq);
	return 0;
}

/* Only settings decide how a ring's owner learns of segments. */
int ibv_query_qp_data_in_order(
    struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)qp;
	(void)op;
	(void)flags;
	return 0;
}

/* A queue pair that must end returns its receives at once. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct verbs_conn *conn = qp->qp_context;

	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_ERR)
		atomic_publish(&conn->gave_back, true);
	return 0;
}

/* librdmacm */

struct rdma_cm_id *fake_id(void)
{
	struct rdma_cm_id *id = create(sizeof(*id));

	id->verbs = &fake_context;
	return id;
}

int rdma_create_qp(
    struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	static uint32_t last;

	id->qp = create(sizeof(*id->qp));
	id->qp->pd = pd;
	id->qp->context = &fake_context;
	id->qp->qp_context = attr->qp_context;
	id->qp->qp_num = ++last;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	destroy(id->qp);
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

int rdma_set_option(
    struct rdma_cm_id *id, int level, int name, void *value, size_t size)
{
	(void)id;
	(void)level;
	(void)name;
	(void)value;
	(void)size;
	return 0;
}

static struct rdma_event_channel channel = { .fd = -1 };
static struct rdma_cm_event event;
static bool happened;

/* One, to listen: connections are made by the target alone. */
struct rdma_event_channel *rdma_create_event_channel(void)
{
	if (channel.fd >= 0) {
		errno = ENODEV;
		return NULL;
	}
	channel.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fuzz_check(channel.fd >= 0);
	return &channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *of)
{
	close(of->fd);
	of->fd = -1;
}

int rdma_create_id(struct rdma_event_channel *of, struct rdma_cm_id **id,
    void *context, enum rdma_port_space space)
{
	(void)of;
	(void)space;
	*id = fake_id();
	(*id)->context = context;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	memcpy(rdma_get_local_addr(id), address, sizeof(struct sockaddr_in));
	return 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	(void)backlog;
	return 0;
}

void fake_event(enum rdma_cm_event_type type, struct rdma_cm_id *id,
    const void *data, uint8_t size)
{
	void *copy = size ? malloc(size) : NULL;

	fuzz_check(!happened && (copy || !size));
	if (size)
		memcpy(copy, data, size);
	event = (struct rdma_cm_event){
		.event = type,
		.id = id,
		.param.conn = { .private_data = copy,
		    .private_data_len = size },
	};
	happened = true;
	fuzz_check(eventfd_write(channel.fd, 1) == 0);
}

int rdma_get_cm_event(struct rdma_event_channel *of, struct rdma_cm_event **out)
{
	eventfd_t n;

	if (!happened) {
		errno = EAGAIN;
		return -1;
	}
	happened = false;
	fuzz_check(eventfd_read(of->fd, &n) == 0);
	*out = &event;
	return 0;
}

/* From now on, the data of the event is gone. */
int rdma_ack_cm_event(struct rdma_cm_event *of)
{
	free((void *)of->param.conn.private_data);
	return 0;
}

/* The kernel drops events that are not delivered yet. */
int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct rdma_cm_event *dropped;

	if (happened && event.id == id) {
		fuzz_check(rdma_get_cm_event(&channel, &dropped) == 0);
		rdma_ack_cm_event(dropped);
	}
	fake_freed(id->context);
	destroy(id);
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	fuzz_check(param->private_data_len == sizeof(struct handshake));
	fake_answered(id, param->private_data, true);
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t size)
{
	fuzz_check(size == sizeof(struct handshake));
	fake_answered(id, data, false);
	return 0;
}

/* base/loop.h */

struct event_base *dfi__loop_base(struct loop *loop)
{
	static struct event_base *base;

	(void)loop;
	if (!base)
		base = event_base_new();
	fuzz_check(base);
	return base;
}

int dfi__loop_call(
    struct loop *loop, int (*fn)(void *arg), void *arg, int64_t deadline)
{
	(void)loop;
	(void)deadline;
	return fn(arg);
}

void dfi__loop_end(struct loop *loop, struct loop_post *post, int64_t deadline)
{
	(void)loop;
	(void)deadline;
	post->fn(post->arg);
}

void dfi__loop_post(struct loop *loop, struct loop_post *post)
{
	(void)loop;
	post->fn(post->arg);
}

void fake_turn(void)
{
	fuzz_check(event_base_loop(dfi__loop_base(NULL), EVLOOP_NONBLOCK) >= 0);
}
