/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of another user, for test_shm.c: asks the owner of a region for it,
 * or for a report, says so with a byte on stdout, and exits with the errno
 * value of the answer, or 0 if it was served.
 *
 * shm_peer ADDRESS [report]
 *
 * A process of the same user, for test_spare.c: maps a region, writes over all
 * of it, says so with a byte on stdout, and waits until it is killed.
 *
 * shm_peer ADDRESS hold KEY SIZE
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NOBODY 65534

static int receive_descriptor(int socket)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_LEN(sizeof(int))];
	} control;
	int32_t reply[2] = { 0, 0 };
	struct iovec data = { .iov_base = reply, .iov_len = sizeof(reply) };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	int fd = -1;

	if (recvmsg(socket, &message, 0) == sizeof(reply) && !reply[1] &&
	    CMSG_FIRSTHDR(&message))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	return fd;
}

static int hold(int socket, uint64_t key, size_t size)
{
	uint32_t request[4] = { UINT32_C(0x44464950), 1 };
	void *region;

	memcpy(request + 2, &key, sizeof(key));
	if (send(socket, request, sizeof(request), MSG_NOSIGNAL) < 0)
		return EXIT_FAILURE;
	region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
	    receive_descriptor(socket), 0);
	if (region == MAP_FAILED)
		return EXIT_FAILURE;
	memset(region, 'h', size);
	if (write(STDOUT_FILENO, "x", 1) != 1)
		return EXIT_FAILURE;
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint32_t request[4] = { UINT32_C(0x44464950), 1, 1, 0 };
	bool holds = argc > 4 && !strcmp(argv[2], "hold");
	struct pollfd pollfd = { .events = POLLIN };
	int32_t reply[2] = { 0, 0 };
	socklen_t size;

	if (argc > 2)
		request[0] = UINT32_C(0x44464953);
	if (argc < 2 || (!holds && (setgid(NOBODY) < 0 || setuid(NOBODY) < 0)))
		return EXIT_FAILURE;
	strncpy(
	    address.sun_path + 1, argv[1] + 1, sizeof(address.sun_path) - 2);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
	    strlen(argv[1]));
	pollfd.fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (connect(pollfd.fd, (struct sockaddr *)&address, size) < 0)
		return errno;
	if (holds)
		return hold(pollfd.fd, strtoull(argv[3], NULL, 10),
		    strtoull(argv[4], NULL, 10));
	/* The refusal may have closed the connection already. */
	send(pollfd.fd, request, sizeof(request), MSG_NOSIGNAL);
	if (write(STDOUT_FILENO, "x", 1) != 1)
		return EXIT_FAILURE;
	if (poll(&pollfd, 1, 60000) != 1 ||
	    recv(pollfd.fd, reply, sizeof(reply), 0) != sizeof(reply))
		return EXIT_FAILURE;
	return -reply[1];
}
