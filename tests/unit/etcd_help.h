/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of an etcd on loopback, in a directory of their own. They end with
 * this process. Errors fail the test.
 */
#ifndef DFI_TESTS_ETCD_HELP_H
#define DFI_TESTS_ETCD_HELP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ETCD_MEMBERS 3

struct etcd_member {
	pid_t pid; /* 0: it does not run */
	uint16_t client_port, peer_port;
};

struct etcd {
	struct etcd_member member[ETCD_MEMBERS];
	unsigned n;
	const char *cert, *key, *ca; /* of TLS for clients; or NULL */
	char directory[32];
	char address[256]; /* "etcd:http..." */
};

/* Skips the test if Debian's etcd-server is not installed. */
void etcd_need(void);

/* Start n members and wait until they have a leader. */
void etcd_start(struct etcd *etcd, unsigned n);
/* With TLS for clients. The files are named as long as it runs. */
void etcd_start_tls(struct etcd *etcd, unsigned n, const char *cert,
    const char *key, const char *ca);
void etcd_stop(struct etcd *etcd);

/* End a member as SIGKILL does; start it again, with its data. */
void etcd_kill(struct etcd *etcd, unsigned i);
void etcd_restart(struct etcd *etcd, unsigned i);
void etcd_signal(struct etcd *etcd, unsigned i, int number);

/*
 * Run etcdctl with these arguments, of which NULL ends the list, by members[0];
 * user is "NAME:PASSWORD", or NULL. Returns its exit status.
 */
int etcd_control(const struct etcd *etcd, const char *user, ...)
    __attribute__((sentinel));

#endif
