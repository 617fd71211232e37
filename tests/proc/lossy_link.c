/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network between two network namespaces that delays packets and loses some:
 * a device "lossy" in each, and this process between them, until it is ended.
 *
 * lossy_link NAMESPACE NAMESPACE DELAY_MS LOSS_PERCENT
 *
 * Prints "ready" when both devices are there; the caller gives them addresses.
 */
#include <err.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#define PACKET_SIZE 2048
/* More wait nowhere, as at a switch. */
#define MOST_PACKETS 4096

struct packet {
	STAILQ_ENTRY(packet) link;
	int64_t due_ns;
	size_t size;
	char bytes[PACKET_SIZE];
};

STAILQ_HEAD(queue, packet);

/* What goes to one of the ends. */
struct way {
	int from, to;
	struct queue queue;
	unsigned n;
};

static int64_t delay_ns;
static uint32_t loss_percent;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int open_in(const char *name)
{
	struct ifreq request = { .ifr_flags = IFF_TUN | IFF_NO_PI };
	char path[256];
	int ns, fd;

	snprintf(path, sizeof(path), "/run/netns/%s", name);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
		err(77, "%s", path);
	close(ns);
	fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		err(77, "/dev/net/tun");
	strcpy(request.ifr_name, "lossy");
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		err(77, "TUNSETIFF");
	return fd;
}

static void take(struct way *way)
{
	struct packet *packet;
	ssize_t size;

	for (;;) {
		packet = malloc(sizeof(*packet));
		if (!packet)
			err(1, "malloc");
		size = read(way->from, packet->bytes, sizeof(packet->bytes));
		if (size <= 0)
			break;
		if ((uint32_t)rand() % 100 < loss_percent ||
		    way->n == MOST_PACKETS) {
			free(packet);
			continue;
		}
		packet->size = (size_t)size;
		packet->due_ns = now_ns() + delay_ns;
		STAILQ_INSERT_TAIL(&way->queue, packet, link);
		way->n++;
	}
	free(packet);
}

/* Returns how many milliseconds the next one has time, or -1. */
static int pass(struct way *way)
{
	struct packet *packet;
	int64_t now = now_ns();

	while ((packet = STAILQ_FIRST(&way->queue)) && packet->due_ns <= now) {
		(void)!write(way->to, packet->bytes, packet->size);
		STAILQ_REMOVE_HEAD(&way->queue, link);
		way->n--;
		free(packet);
	}
	return packet ? (int)((packet->due_ns - now) / 1000000) + 1 : -1;
}

int main(int argc, char **argv)
{
	struct way ways[2];
	struct pollfd fds[2];
	int ends[2], left[2], i;

	if (argc != 5)
		errx(2,
		    "usage: lossy_link NAMESPACE NAMESPACE DELAY_MS "
		    "LOSS_PERCENT");
	delay_ns = strtol(argv[3], NULL, 10) * INT64_C(1000000);
	loss_percent = (uint32_t)strtoul(argv[4], NULL, 10);
	for (i = 0; i < 2; i++)
		ends[i] = open_in(argv[1 + i]);
	for (i = 0; i < 2; i++) {
		ways[i].from = ends[i];
		ways[i].to = ends[!i];
		ways[i].n = 0;
		STAILQ_INIT(&ways[i].queue);
		fds[i] = (struct pollfd){ .fd = ends[i], .events = POLLIN };
	}
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (i = 0; i < 2; i++) {
			take(&ways[i]);
			left[i] = pass(&ways[i]);
		}
		if (left[0] < 0 || (left[1] >= 0 && left[1] < left[0]))
			left[0] = left[1];
		poll(fds, 2, left[0]);
	}
}
