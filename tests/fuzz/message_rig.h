/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of connections by the fake device: what it has accepted, exported,
 * opened and posted, and what has to hold of that, whatever its peers send.
 */
#ifndef DFI_TESTS_MESSAGE_RIG_H
#define DFI_TESTS_MESSAGE_RIG_H

#include "buffers/reader.h"
#include "buffers/writer.h"
#include "fake_rdma.h"
#include "fuzz.h"

enum {
	RIG_PEER = 1, /* the node that connects */
	TUPLE = 8,
	TUPLES = 3,
	SLOTS = 4,
	RINGS = 2,
	CONNS = 3,
	OURS = CONNS - 1, /* the connection that we have made */
	REMOTES = 2,
	RING_KEY = 1,
	WORD_KEY = 2,
	SENDS = 8,
	OPENED_MAX = 16,
	LINKS_MAX = 64,
};

struct rig {
	struct verbs verbs;
	struct verbs_message message;    /* the one that arrives */
	struct verbs_conn *conns[CONNS]; /* NULL: it was freed */
	struct ring_geometry geometry;
	struct region regions[2]; /* of rings and words; base NULL: freed */
	struct verbs_export *exports[2]; /* NULL: nobody reads it */
	struct reader readers[RINGS];
	bool refused[RINGS]; /* by its reader */
	bool told;           /* somebody knows how to write the rings */
	struct verbs_remote *remotes[REMOTES];
	struct writer writers[REMOTES]; /* remote NULL: it has ended */
	uint32_t n_opened;
	/* Of the message that is handled: by whom, and how it was answered. */
	struct verbs_conn *from;
	unsigned n_answers;
	int32_t error;
	bool answers; /* it is the answer to the next request of ours */
	/* Who wants to connect, and how that was answered. */
	struct verbs_handshake hello;
	struct verbs_conn *accepted;
	uint16_t refusal;
};

extern struct rig rig;

void rig_start(const struct settings *settings);

/* All leave; then nothing may be left. */
void rig_stop(void);

/* A connection, which is made if there is none. */
struct verbs_conn *rig_conn(unsigned i);

/* What a member sends to connect, and that it, or else, is what came: whether
 * it was accepted, as connection i. */
struct verbs_handshake rig_hello(void);
bool rig_request(unsigned i, const void *data, uint8_t size);

/* What arrives, of that opcode, is seen by who looks next. */
void rig_arrive(struct verbs_conn *conn, enum ibv_wc_opcode opcode,
    uint32_t imm, uint32_t size);

void rig_unexport(unsigned i);
void rig_close(unsigned i);

/* What messages may change. */
struct rig_state {
	struct verbs_link links[LINKS_MAX];
	struct verbs_ring rings[RINGS];
	uint32_t n_export_links[2], n_polled;
	struct verbs_remote remotes[REMOTES];
	uint64_t region_sum;
};

bool rig_is_error_of_open(int32_t error);
void rig_take_state(struct rig_state *state);
void rig_check(void);

#endif
