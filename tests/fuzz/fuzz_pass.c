/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The socket over which processes of a host pass regions and ask for reports.
 * One end is a real transport; the other sends any bytes and descriptors, as a
 * peer that asks or grants, or as an owner that answers. In all cases a region
 * is passed on only for its key, only one of the right kind and size is used,
 * and no descriptor stays open.
 *
 * The input: a byte of enum scene and, above, what else is special; the rest is
 * the one packet that is sent.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <dfi/log.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/settings.h"
#include "fuzz.h"
#include "transport/shm/message.h"
#include "transport/shm/shm.h"

/* As in shm/pass.c. */
#define PASS_MAGIC UINT32_C(0x44464950)
#define GRANT_MAGIC UINT32_C(0x44464956)
#define PASS_VERSION 1
#define PACKET_MAX (1u << 16)
#define REGION_SIZE 8192u
#define SMALL_SIZE 4096u
#define DESCRIPTORS_MAX 4

enum scene {
	ASK,    /* a peer asks; RIGHT_KEY: for a region that there is */
	ANSWER, /* an owner is asked for a region; enum gift */
	REPORT, /* and for a report */
	GRANT,  /* a peer grants; RIGHT_KEY; and above, enum gift */
	SCENES,
};

#define SPECIAL_SHIFT 2
#define RIGHT_KEY 1
#define GIFT_SHIFT 1

/* The descriptors of an answer or a grant. */
enum gift {
	GIFT_NONE,
	GIFT_REGION,
	GIFT_UNSEALED,
	GIFT_SMALL,
	GIFT_PIPE,
	GIFT_TWO,
	GIFTS,
};

static struct settings settings;
static struct loop *loop;
static struct transport *shm;
static struct region *region;

/* The owner that answers is a thread of its own, which answers once. */
static struct {
	pthread_t thread;
	int listener;
	char address[TRANSPORT_ADDRESS_SIZE];
	sem_t begin, done;
	const uint8_t *packet;
	size_t size;
	enum gift gift;
} owner;

static void ignore_line(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static void *report(void *arg, uint64_t after, size_t *size)
{
	(void)arg;
	*size = (size_t)(after & 0xff);
	return calloc(1, *size + 1);
}

static int make_memory(size_t size, bool sealed)
{
	int fd = memfd_create("dfi-fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	fuzz_check(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	if (sealed)
		fuzz_check(fcntl(fd, F_ADD_SEALS,
			       F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

/* How many descriptors. */
static int make_gift(enum gift gift, int fds[2])
{
	switch (gift) {
	case GIFT_REGION:
	case GIFT_TWO:
		fds[0] = make_memory(REGION_SIZE, true);
		if (gift == GIFT_REGION)
			return 1;
		fds[1] = make_memory(REGION_SIZE, true);
		return 2;
	case GIFT_UNSEALED:
		fds[0] = make_memory(REGION_SIZE, false);
		return 1;
	case GIFT_SMALL:
		fds[0] = make_memory(SMALL_SIZE, true);
		return 1;
	case GIFT_PIPE:
		fuzz_check(pipe2(fds, O_CLOEXEC) == 0);
		return 2;
	default:
		return 0;
	}
}

/* It may be too long: then not all is sent. */
static ssize_t send_gift(
    int socket, const uint8_t *packet, size_t size, enum gift gift)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { .bytes = { 0 } };
	struct iovec data = { .iov_base = (void *)packet, .iov_len = size };
	struct msghdr message = { .msg_iov = &data, .msg_iovlen = 1 };
	int fds[2], n = make_gift(gift, fds), i;
	ssize_t sent;

	if (n) {
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(
		    CMSG_DATA(&control.header), fds, (size_t)n * sizeof(int));
	}
	sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (i = 0; i < n; i++)
		close(fds[i]);
	return sent;
}

static void answer(int socket)
{
	struct shm_request request;

	fuzz_check(recv(socket, &request, sizeof(request), 0) ==
	    (ssize_t)sizeof(request));
	/* If it doesn't fit, the peer sees the end. */
	(void)send_gift(socket, owner.packet, owner.size, owner.gift);
}

static void *serve(void *arg)
{
	int socket;

	for (;;) {
		/* Not in accept4(), which takes a descriptor first. */
		while (sem_wait(&owner.begin) < 0)
			;
		socket = accept4(owner.listener, NULL, NULL, SOCK_CLOEXEC);
		fuzz_check(socket >= 0);
		answer(socket);
		/* A peer without an answer connects again, and finds nobody. */
		close(owner.listener);
		close(socket);
		sem_post(&owner.done);
	}
	return arg;
}

static void listen_as_owner(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	socklen_t size;

	strcpy(name.sun_path + 1, owner.address + 1);
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
	    strlen(owner.address));
	owner.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	fuzz_check(owner.listener >= 0);
	fuzz_check(bind(owner.listener, (struct sockaddr *)&name, size) == 0);
	fuzz_check(listen(owner.listener, 1) == 0);
}

static void start_owner(void)
{
	sigset_t all, mask;

	snprintf(owner.address, sizeof(owner.address), "@dfi-fuzz-%d",
	    (int)getpid());
	sem_init(&owner.begin, 0, 0);
	sem_init(&owner.done, 0, 0);
	/*
	 * The alarm is for the first thread only, as in the library's threads.
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &mask);
	fuzz_check(pthread_create(&owner.thread, NULL, serve, NULL) == 0);
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void start(void)
{
	dfi_log_set(DFI_LOG_ERROR, ignore_line, NULL);
	fuzz_check(dfi__settings_load(&settings) == 0);
	fuzz_check(dfi__loop_start("fuzz", &loop) == 0);
	fuzz_check(dfi__shm_ops.start(loop, &settings, NULL, &shm) == 0);
	fuzz_check(dfi__shm_ops.region.create(shm, REGION_SIZE, &region) == 0);
	region->granted_size = REGION_SIZE;
	dfi__shm_report(shm, report, NULL);
	start_owner();
}

static int64_t soon(void)
{
	return deadline_in_ms(20000);
}

/*
 * The fuzzer has an alarm every few seconds, which ends a poll(). And it may be
 * stopped for a while, which at most one of them takes for its time.
 */
static void await(int socket)
{
	struct pollfd pollfd = { .fd = socket, .events = POLLIN };
	int ret = 0, seconds = 0;

	while (ret != 1 && seconds < 20) {
		ret = poll(&pollfd, 1, 1000);
		fuzz_check(ret >= 0 || errno == EINTR);
		seconds += ret == 0;
	}
	fuzz_check(ret == 1);
}

/* Descriptors of a reply that came, which are closed; -1 bytes: the end. */
static int take_reply(int socket, ssize_t *bytes, char packet[PACKET_MAX])
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
	} control;
	struct iovec data = { .iov_base = packet, .iov_len = PACKET_MAX };
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	int fds[DESCRIPTORS_MAX], n = 0, i;
	struct cmsghdr *header;

	await(socket);
	*bytes = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
	header = *bytes > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_type == SCM_RIGHTS) {
		n = (int)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(header), (size_t)n * sizeof(int));
	}
	for (i = 0; i < n; i++)
		close(fds[i]);
	return n;
}

/* A socket that has sent a packet; -1: it couldn't. */
static int ask_with(const uint8_t *packet, size_t size, enum gift gift)
{
	int socket;

	fuzz_check(dfi__shm_pass_connect(
		       shm->address, WAIT_LIMIT(soon()), &socket) == 0);
	if (send_gift(socket, packet, size, gift) == (ssize_t)size)
		return socket;
	close(socket);
	return -1;
}

/* We have read enough, and close first. */
static void hang_up(int socket)
{
	shutdown(socket, SHUT_WR);
	await(socket);
	close(socket);
}

/* Only a peer with the key gets the region. */
static void ask(const uint8_t *data, size_t size, bool right_key)
{
	static char reply[PACKET_MAX];
	struct shm_request request = { .key = 0 };
	uint8_t *packet = malloc(size + 1);
	int socket, n;
	ssize_t got;

	fuzz_check(packet);
	memcpy(packet, data, size);
	if (right_key && size == sizeof(request))
		memcpy(packet + offsetof(struct shm_request, key),
		    &region->name.key, sizeof(region->name.key));
	if (size == sizeof(request))
		memcpy(&request, packet, sizeof(request));
	socket = ask_with(packet, size, GIFT_NONE);
	if (socket >= 0) {
		n = take_reply(socket, &got, reply);
		fuzz_check(n <= 1);
		if (n)
			fuzz_check(request.key == region->name.key &&
			    got == sizeof(struct shm_reply));
		if (got > 0)
			fuzz_check(size == sizeof(request) ||
			    size == sizeof(struct shm_grant_request) ||
			    got == sizeof(struct shm_other_version));
		hang_up(socket);
	}
	free(packet);
}

/* Of the memory that can't shrink, of a gift; 0: it has none. */
static size_t sealed_size(enum gift gift)
{
	switch (gift) {
	case GIFT_REGION:
	case GIFT_TWO:
		return REGION_SIZE;
	case GIFT_SMALL:
		return SMALL_SIZE;
	default:
		return 0;
	}
}

/* A region of the stated size is granted for an existing one. */
static void grant(
    const uint8_t *data, size_t size, bool right_key, enum gift gift)
{
	static char packet[PACKET_MAX];
	struct shm_grant_request request = { .base.key = 0 };
	struct shm_reply reply;
	int socket;
	ssize_t got;

	if (size == sizeof(request)) {
		memcpy(&request, data, size);
		if (right_key)
			request.base.key = region->name.key;
		data = (const uint8_t *)&request;
	}
	socket = ask_with(data, size, gift);
	if (socket < 0)
		return;
	fuzz_check(take_reply(socket, &got, packet) <= 1);
	memcpy(&reply, packet, sizeof(reply));
	if (got == sizeof(reply) && !reply.error && size == sizeof(request) &&
	    request.base.magic == GRANT_MAGIC)
		fuzz_check(request.base.version == PASS_VERSION &&
		    request.base.key == region->name.key &&
		    request.ring < REGION_SIZE / CACHE_LINE &&
		    sealed_size(gift) && request.size == sealed_size(gift));
	hang_up(socket);
}

static void be_answered(const uint8_t *data, size_t size, enum gift gift)
{
	struct ring_layout layout = { .first_ring = 4096, .ring_size = 4096 };
	struct region_name name = { .key = 7, .size = REGION_SIZE };
	struct shm_reply reply = { .magic = 0 };
	struct remote *remote;
	bool valid; /* one too many is closed by the kernel */

	if (size == sizeof(reply))
		memcpy(&reply, data, size);
	valid = reply.magic == PASS_MAGIC && !reply.error &&
	    (gift == GIFT_REGION || gift == GIFT_TWO);
	strcpy(name.address, owner.address);
	owner.packet = data;
	owner.size = size;
	owner.gift = gift;
	listen_as_owner();
	sem_post(&owner.begin);
	if (dfi__shm_ops.ring.open(shm, NULL, &name, &layout, 0, NULL,
		WAIT_LIMIT(soon()), &remote) == 0) {
		fuzz_check(valid);
		valid = false;
		remote->ring[layout.ring_size - 1] = 1;
		dfi__shm_ops.ring.close(remote);
	}
	fuzz_check(!valid);
	while (sem_wait(&owner.done) < 0)
		;
}

static void be_reported(const uint8_t *data, size_t size, enum gift gift)
{
	size_t got = 0;
	void *said;

	owner.packet = data;
	owner.size = size;
	owner.gift = gift;
	listen_as_owner();
	sem_post(&owner.begin);
	if (dfi__shm_report_fetch(owner.address, 0, soon(), &said, &got) == 0) {
		fuzz_check(got + sizeof(struct shm_reply) == size);
		fuzz_check(!memcmp(said, data + sizeof(struct shm_reply), got));
		free(said);
	}
	while (sem_wait(&owner.done) < 0)
		;
}

static int lowest_descriptor(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);

	fuzz_check(fd >= 0);
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned special;
	int lowest;

	if (!size || size > PACKET_MAX)
		return 0;
	if (!loop)
		start();
	special = data[0] >> SPECIAL_SHIFT;
	lowest = lowest_descriptor();
	switch (data[0] % (1 << SPECIAL_SHIFT)) {
	case ASK:
		ask(data + 1, size - 1, special & RIGHT_KEY);
		break;
	case ANSWER:
		be_answered(data + 1, size - 1, special % GIFTS);
		break;
	case REPORT:
		be_reported(data + 1, size - 1, special % GIFTS);
		break;
	case GRANT:
		grant(data + 1, size - 1, special & RIGHT_KEY,
		    (special >> GIFT_SHIFT) % GIFTS);
		break;
	}
	fuzz_check(lowest_descriptor() == lowest);
	return 0;
}
