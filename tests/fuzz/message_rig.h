/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of connections by the fake device: what it has accepted, exported,
 * opened and posted. It checks the invariants of these, whatever the peers
 * send.
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
	OURS = CONNS - 1, /* the connection that this end has made */
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
	struct verbs_export *exports[2]; /* NULL: its reader is gone */
	struct reader readers[RINGS];
	bool refused[RINGS]; /* by its reader */
	bool queued;         /* a peer knows how to write the rings */
	struct verbs_remote *remotes[REMOTES];
	struct writer writers[REMOTES]; /* remote NULL: the writer has ended */
	uint32_t n_opened;
	/* The message that is handled: its sender, and its answers. */
	struct verbs_conn *from;
	unsigned n_answers;
	int32_t error;
	bool answers; /* it answers this end's next request */
	/* The peer that wants to connect, and the answer to it. */
	struct handshake handshake;
	struct verbs_conn *accepted;
	uint16_t refusal;
};

extern struct rig rig;

void rig_start(const struct settings *settings);

/* Close everything, and check that nothing is left. */
void rig_stop(void);

/* Connection i, which is made if it doesn't exist. */
struct verbs_conn *rig_conn(unsigned i);

/*
 * rig_handshake(): the handshake of a member. rig_request(): whether the bytes
 * that came were accepted as a handshake, as connection i.
 */
struct handshake rig_handshake(void);
bool rig_request(unsigned i, const void *data, uint8_t size);

/* A completion of that opcode arrives; the next poll sees it. */
void rig_arrive(struct verbs_conn *conn, enum ibv_wc_opcode opcode,
    uint32_t imm, uint32_t size);

void rig_unexport(unsigned i);
void rig_close(unsigned i);

/* The state that messages may change. */
struct rig_state {
	struct verbs_link links[LINKS_MAX];
	struct network_ring rings[RINGS];
	uint32_t n_export_links[2], n_polled;
	struct verbs_remote remotes[REMOTES];
	uint64_t region_sum;
};

bool rig_is_error_of_open(int32_t error);
void rig_take_state(struct rig_state *state);
void rig_check(void);

#endif
