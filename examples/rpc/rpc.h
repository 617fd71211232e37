/* SPDX-License-Identifier: Apache-2.0 */
/* What the server and its clients agree on. */
#ifndef RPC_H
#define RPC_H

#include <err.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <dfi/dfi.h>

#define REQUESTS "rpc.requests" /* from any client to the server */
#define REPLIES "rpc.replies"   /* from the server to the client it names */

enum {
	N_SEATS = 64 /* clients at once */
};

struct request {
	uint64_t id;    /* no other request has it; the reply repeats it */
	uint64_t value; /* to be squared */
	uint32_t seat;  /* of the client among the targets of replies */
	uint32_t unused;
};

struct reply {
	uint64_t id;
	uint64_t value;
};

static const struct dfi_field request_fields[] = {
	DFI_FIELD(struct request, id),
	DFI_FIELD(struct request, value),
	DFI_FIELD(struct request, seat),
	DFI_FIELD(struct request, unused),
};
static const struct dfi_schema request_schema = DFI_SCHEMA(
    struct request, request_fields);

static const struct dfi_field reply_fields[] = {
	DFI_FIELD(struct reply, id),
	DFI_FIELD(struct reply, value),
};
static const struct dfi_schema reply_schema = DFI_SCHEMA(
    struct reply, reply_fields);

static inline int check(int ret)
{
	if (ret < 0)
		errx(1, "%s", dfi_errmsg());
	return ret;
}

#endif
