/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between the owner of regions and a peer, over an abstract Unix
 * socket: one request and one answer a connection, each with a descriptor or
 * without.
 */
#ifndef DFI_TRANSPORT_SHM_MESSAGE_H
#define DFI_TRANSPORT_SHM_MESSAGE_H

#include <stdint.h>
#include <sys/types.h>

struct sockaddr_un;
struct ucred;

/* A peer's request, and the start of the answer. */
struct shm_request {
	uint32_t magic;
	uint32_t version;
	uint64_t key; /* of the region, or subject of the report */
};

struct shm_reply {
	uint32_t magic;
	int32_t error; /* 0, or a negative errno value */
};

/*
 * The answer to a request of another version. This struct and struct
 * shm_request keep their layouts, and requests and answers begin with them,
 * so that any two versions can tell each other apart.
 */
struct shm_other_version {
	struct shm_reply base; /* -EPROTO */
	uint32_t version;      /* of who answers */
};

/* A request to grant a region for the one that base.key names. */
struct shm_grant_request {
	struct shm_request base;
	uint32_t ring;
	uint32_t reserved;
	uint64_t key, size; /* of the region that is granted */
};

#define SHM_PASS_MAGIC UINT32_C(0x44464950)  /* "DFIP" */
#define SHM_GRANT_MAGIC UINT32_C(0x44464956) /* "DFIV" */
#define SHM_PASS_VERSION 1
#define SHM_REPORT_MAGIC UINT32_C(0x44464953) /* "DFIS" */
#define SHM_REPORT_VERSION 1

/* A socket that is not connected, as socket(2) returns it. */
int dfi__shm_message_socket(void);

/* Convert a text, whose '@' stands for a zero byte; returns its size. */
uint32_t dfi__shm_message_address(
    const char *text, struct sockaddr_un *address);

/* -EPROTO, with a text that has both versions, and which one to upgrade. */
int dfi__shm_fail_version(const char *address, uint32_t theirs, uint32_t ours);

/* Check that the other end is our user or root: 0, or -EACCES. */
int dfi__shm_message_check(int socket, const char *name, struct ucred *peer);

/* Send one message, with fd unless that is -1. Bare errno values. */
int dfi__shm_message_send(
    int socket, const void *bytes, size_t size, int fd, int flags);

/*
 * Receive one message; returns its size as recvmsg(2) does. *fd is the
 * descriptor that it carries, or -1 if it has none, or -EMFILE if this process
 * may open no more.
 */
ssize_t dfi__shm_message_receive(
    int socket, void *to, size_t size, int flags, int *fd);

#endif
