/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process of another user, for test_shm.c: asks the owner of a region for it,
 * or for a report, says so with a byte on stdout, and exits with the errno
 * value of the answer, or 0 if it was served.
 *
 * shm_peer ADDRESS [report]
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NOBODY 65534

int main(int argc, char **argv)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint32_t request[4] = { UINT32_C(0x44464950), 1, 1, 0 };
	struct pollfd pollfd = { .events = POLLIN };
	int32_t reply[2] = { 0, 0 };
	socklen_t size;

	if (argc > 2)
		request[0] = UINT32_C(0x44464953);
	if (argc < 2 || setgid(NOBODY) < 0 || setuid(NOBODY) < 0)
		return EXIT_FAILURE;
	strncpy(
	    address.sun_path + 1, argv[1] + 1, sizeof(address.sun_path) - 2);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
	    strlen(argv[1]));
	pollfd.fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	if (connect(pollfd.fd, (struct sockaddr *)&address, size) < 0)
		return errno;
	/* The refusal may have closed the connection already. */
	send(pollfd.fd, request, sizeof(request), MSG_NOSIGNAL);
	if (write(STDOUT_FILENO, "x", 1) != 1)
		return EXIT_FAILURE;
	if (poll(&pollfd, 1, 10000) != 1 ||
	    recv(pollfd.fd, reply, sizeof(reply), 0) != sizeof(reply))
		return EXIT_FAILURE;
	return -reply[1];
}
