/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets, and messages with descriptors: shm/message.h. */
#include "message.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "base/error.h"
#include "base/files.h"
#include "base/user.h"
#include "base/version.h"

/* Room for one descriptor; the kernel closes descriptors that do not fit. */
union control {
	struct cmsghdr header;
	char bytes[CMSG_LEN(sizeof(int))];
};

int dfi__shm_message_socket(void)
{
	return file_up(
	    socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

int dfi__shm_message_check(int socket, const char *name, struct ucred *peer)
{
	int ret = dfi__user_peer(socket, name, peer);

	return ret ? ret : dfi__user_check(peer, name, NULL, 0, "");
}

int dfi__shm_fail_version(const char *address, uint32_t theirs, uint32_t ours)
{
	return dfi__fail(-EPROTO,
	    "shared memory: the process at %s speaks version %u, this one %u: "
	    "%s",
	    address, theirs, ours, version_remedy(theirs, ours));
}

uint32_t dfi__shm_message_address(const char *text, struct sockaddr_un *address)
{
	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	strncpy(address->sun_path + 1, text + 1, sizeof(address->sun_path) - 2);
	return (uint32_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
	    strlen(address->sun_path + 1));
}

int dfi__shm_message_send(
    int socket, const void *bytes, size_t size, int fd, int flags)
{
	struct iovec data = { .iov_base = (void *)bytes, .iov_len = size };
	union control control = { .bytes = { 0 } };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };

	if (fd >= 0) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(int));
	}
	if (sendmsg(socket, &message, MSG_NOSIGNAL | flags) < 0)
		return -errno;
	return 0;
}

static void take_descriptor(struct cmsghdr *header, int *fd)
{
	memcpy(fd, CMSG_DATA(header), sizeof(int));
	*fd = file_up(*fd);
	if (*fd < 0)
		*fd = -EMFILE;
}

ssize_t dfi__shm_message_receive(
    int socket, void *to, size_t size, int flags, int *fd)
{
	struct iovec data = { .iov_base = to, .iov_len = size };
	union control control;
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *header;
	ssize_t got;

	*fd = -1;
	memset(to, 0, size);
	got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
	header = got >= 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_level == SOL_SOCKET &&
	    header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		take_descriptor(header, fd);
	else if (got >= 0 && message.msg_flags & MSG_CTRUNC)
		*fd = -EMFILE; /* unix(7): descriptors were cut off */
	return got;
}
