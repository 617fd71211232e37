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

/* What a peer asks for, and the start of the answer. */
struct shm_request {
	uint32_t magic;
	uint32_t version;
	uint64_t key; /* of a region, or what the report is about */
};

struct shm_reply {
	uint32_t magic;
	int32_t error; /* 0, or a negative errno value */
};

/* The same for showing: base.key is of the region that it is shown for. */
struct shm_show_request {
	struct shm_request base;
	uint32_t ring;
	uint32_t reserved;
	uint64_t key, size; /* of what is shown, whose descriptor comes along */
};

#define SHM_PASS_MAGIC UINT32_C(0x44464950) /* "DFIP" */
#define SHM_SHOW_MAGIC UINT32_C(0x44464956) /* "DFIV" */
#define SHM_PASS_VERSION 1
#define SHM_REPORT_MAGIC UINT32_C(0x44464953) /* "DFIS" */
#define SHM_REPORT_VERSION 1

/* A socket that is not connected, as socket(2) returns it. */
int dfi__shm_message_socket(void);

/* The address that a text is, whose '@' stands for a zero byte; its size. */
uint32_t dfi__shm_message_address(
    const char *text, struct sockaddr_un *address);

/* The other end may have our memory: it is our user, or root. Else -EACCES. */
int dfi__shm_message_check(int socket, const char *name, struct ucred *peer);

/* Send one, with fd if that isn't -1. A bare negative errno value. */
int dfi__shm_message_send(
    int socket, const void *bytes, size_t size, int fd, int flags);

/*
 * One message, as recvmsg(2) returns its size, with the descriptor that it
 * carries in *fd, or -1 there, or -EMFILE if it carries one, but this process
 * may have no more.
 */
ssize_t dfi__shm_message_receive(
    int socket, void *to, size_t size, int flags, int *fd);

#endif
