/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flood ADDRESS MODE: a stranger that connects to ADDRESS as fast as it can,
 * until it is killed or its parent ends. Root becomes user 65534 first. ADDRESS
 * is unix:@NAME, unix:PATH, tcp:PORT (of 127.0.0.1), or packets:@NAME for a
 * socket of packets. MODE is what it does with a connection:
 *
 *	close	close it at once
 *	keep	keep the latest 300, silently
 *	begin	the same, each with the first bytes of a TLS handshake
 */
#include <arpa/inet.h>
#include <error.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define N_KEPT 300

static union {
	struct sockaddr any;
	struct sockaddr_un un;
	struct sockaddr_in in;
} to;
static socklen_t size;
static int type = SOCK_STREAM;

static void parse(const char *text)
{
	const char *name = strchr(text, ':');

	if (!name)
		error(2, 0, "no address: %s", text);
	name++;
	if (!strncmp(text, "tcp:", 4)) {
		to.in.sin_family = AF_INET;
		to.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		to.in.sin_port = htons((in_port_t)atoi(name));
		size = sizeof(to.in);
		return;
	}
	if (!strncmp(text, "packets:", 8))
		type = SOCK_SEQPACKET;
	if (strlen(name) >= sizeof(to.un.sun_path))
		error(2, 0, "too long: %s", name);
	to.un.sun_family = AF_UNIX;
	memcpy(to.un.sun_path, name, strlen(name));
	size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
	    strlen(name) + (*name != '@'));
	if (*name == '@')
		to.un.sun_path[0] = '\0';
}

int main(int argc, char **argv)
{
	static const unsigned char handshake[] = { 22, 3, 1, 2, 0, 1 };
	static const struct linger none = { .l_onoff = 1 };
	static int kept[N_KEPT];
	unsigned next = 0;
	int fd;

	if (argc != 3)
		error(2, 0, "usage: flood ADDRESS MODE");
	parse(argv[1]);
	if (geteuid() == 0 && setresuid(65534, 65534, 65534))
		error(1, errno, "setresuid");
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* which setresuid() would undo */
	for (;;) {
		fd = socket(to.any.sa_family, type | SOCK_NONBLOCK, 0);
		if (fd < 0)
			error(1, errno, "socket");
		/* No port stays in use behind it. */
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
		if (connect(fd, &to.any, size) && errno != EINPROGRESS) {
			close(fd);
			continue;
		}
		if (!strcmp(argv[2], "close")) {
			close(fd);
			continue;
		}
		if (!strcmp(argv[2], "begin"))
			send(fd, handshake, sizeof(handshake), MSG_NOSIGNAL);
		if (kept[next])
			close(kept[next]);
		kept[next] = fd;
		next = (next + 1) % N_KEPT;
	}
}
