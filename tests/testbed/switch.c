/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The network between the VMs of a testbed: an Ethernet switch for QEMU's
 * `-netdev dgram` over Unix sockets. It needs no privileges, keeps packets in
 * order and loses none: a sender that is too fast is stopped by its socket.
 * (QEMU's own hub changes their order, which looks like loss to soft-RoCE.)
 *
 * switch NODES DEVICES, in the folder of the cluster: receives the frames of
 * node K's ethI on switch/nodeK.I and sends to K/ethI. On stdin come "cut K",
 * after which nothing passes from or to node K, and "heal K"; each is answered
 * with "ok".
 */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_PORTS 32u
#define FRAME_SIZE (4096u + 65536u) /* the largest that QEMU sends */
#define MAC_SIZE 6u
#define BURST 32u
/* A stopped node, which reads nothing, must not stop the others. */
#define MAX_QUEUED 8192u

struct frame {
	struct frame *next;
	size_t size;
	unsigned char bytes[];
};

struct port {
	int in;
	int out; /* connected, so that poll() knows when there is space */
	struct sockaddr_un node;
	unsigned char mac[MAC_SIZE]; /* of the last frame from there */
	bool cut;
	struct frame *first, **last; /* wait for space */
	uint32_t n_queued;
};

static struct port ports[MAX_PORTS];
static uint32_t n_nodes; /* port i is device i / n_nodes of a node */
static uint32_t n_ports;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	if (fd < 0)
		fail("socket");
	return fd;
}

static void open_port(uint32_t index)
{
	uint32_t node = index % n_nodes, nic = index / n_nodes;
	struct port *port = &ports[index];
	struct sockaddr_un own = { .sun_family = AF_UNIX };

	snprintf(
	    own.sun_path, sizeof(own.sun_path), "switch/node%u.%u", node, nic);
	port->in = new_socket();
	if (bind(port->in, (struct sockaddr *)&own, sizeof(own)))
		fail(own.sun_path);
	port->out = new_socket();
	port->node.sun_family = AF_UNIX;
	snprintf(port->node.sun_path, sizeof(port->node.sun_path), "%u/eth%u",
	    node, nic);
	port->last = &port->first;
}

/* False if there is no space now. Frames for a node that is off are lost. */
static bool try_send(struct port *port, const void *bytes, size_t size)
{
	if (send(port->out, bytes, size, 0) >= 0)
		return true;
	if (errno == ENOTCONN || errno == ECONNREFUSED) {
		/* Not yet connected, or the VM was started again. */
		if (connect(port->out, (struct sockaddr *)&port->node,
			sizeof(port->node)))
			return true;
		if (send(port->out, bytes, size, 0) >= 0)
			return true;
	}
	return errno != EAGAIN && errno != ENOBUFS;
}

static void flush_queue(struct port *port)
{
	struct frame *frame;

	while ((frame = port->first) != NULL &&
	    (port->cut || try_send(port, frame->bytes, frame->size))) {
		port->first = frame->next;
		port->n_queued--;
		free(frame);
	}
	if (port->first == NULL)
		port->last = &port->first;
}

static void forward(struct port *port, const void *bytes, size_t size)
{
	struct frame *frame;

	if (port->cut || port->n_queued == MAX_QUEUED)
		return;
	if (port->n_queued == 0 && try_send(port, bytes, size))
		return;
	frame = malloc(sizeof(*frame) + size);
	if (frame == NULL)
		fail("malloc");
	frame->next = NULL;
	frame->size = size;
	memcpy(frame->bytes, bytes, size);
	*port->last = frame;
	port->last = &frame->next;
	port->n_queued++;
}

/* To the port where the address was seen, or to all. */
static void switch_frame(
    struct port *from, const unsigned char *frame, size_t size)
{
	uint32_t i;

	if (size < 2 * MAC_SIZE || from->cut)
		return;
	memcpy(from->mac, frame + MAC_SIZE, MAC_SIZE);
	for (i = 0; i < n_ports; i++) {
		if (memcmp(ports[i].mac, frame, MAC_SIZE) == 0) {
			if (&ports[i] != from)
				forward(&ports[i], frame, size);
			return;
		}
	}
	for (i = 0; i < n_ports; i++) {
		if (&ports[i] != from)
			forward(&ports[i], frame, size);
	}
}

static void receive(struct port *port)
{
	static unsigned char frame[FRAME_SIZE];
	ssize_t size;
	uint32_t i;

	for (i = 0; i < BURST; i++) {
		size = recv(port->in, frame, sizeof(frame), 0);
		if (size < 0)
			return;
		switch_frame(port, frame, (size_t)size);
	}
}

/* Commands come one at a time, as each waits for its answer. */
static void obey(void)
{
	char line[64], verb[8];
	unsigned int index;
	ssize_t size = read(STDIN_FILENO, line, sizeof(line) - 1);

	if (size <= 0)
		exit(0);
	line[size] = '\0';
	if (sscanf(line, "%7s %u", verb, &index) == 2 && index < n_nodes) {
		for (; index < n_ports; index += n_nodes)
			ports[index].cut = strcmp(verb, "cut") == 0;
		puts("ok");
	} else {
		puts("unknown command");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct pollfd fds[2 * MAX_PORTS + 1];
	uint32_t i;

	n_nodes = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	n_ports = argc == 3 ? n_nodes * (uint32_t)strtoul(argv[2], NULL, 10)
			    : 0;
	if (n_ports == 0 || n_ports > MAX_PORTS) {
		fprintf(stderr, "usage: switch NODES DEVICES, from 1 to %u\n",
		    MAX_PORTS);
		return 1;
	}
	for (i = 0; i < n_ports; i++)
		open_port(i);
	for (;;) {
		for (i = 0; i < n_ports; i++) {
			fds[2 * i].fd = ports[i].in;
			fds[2 * i].events = POLLIN;
			/* A negative one is left out. */
			fds[2 * i + 1].fd = ports[i].n_queued ? ports[i].out
							      : -1;
			fds[2 * i + 1].events = POLLOUT;
		}
		fds[2 * n_ports].fd = STDIN_FILENO;
		fds[2 * n_ports].events = POLLIN;
		if (poll(fds, 2 * n_ports + 1, -1) < 0)
			fail("poll");
		if (fds[2 * n_ports].revents)
			obey();
		for (i = 0; i < n_ports; i++) {
			if (ports[i].n_queued)
				flush_queue(&ports[i]);
			if (fds[2 * i].revents)
				receive(&ports[i]);
		}
	}
}
