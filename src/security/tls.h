/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 on a registry connection, as a libevent stream that looks like any
 * other once it is connected. All of OpenSSL is behind this header.
 */
#ifndef DFI_SECURITY_TLS_H
#define DFI_SECURITY_TLS_H

#include <stdbool.h>

#include "security.h"

struct bufferevent;
struct event_base;
struct sockaddr;
struct tls;

enum tls_role {
	TLS_SERVER,
	TLS_CLIENT,
};

/* Why a handshake came to nothing, as the registry's log counts it. */
enum tls_cause {
	TLS_NO_KEY,      /* the client has no key */
	TLS_WRONG_KEY,   /* another one */
	TLS_NO_CERT,     /* no certificate */
	TLS_EXPIRED,     /* one that is not valid now */
	TLS_WRONG_CERT,  /* one that the CA did not sign, or for another use */
	TLS_REFUSED,     /* the client does not accept the registry */
	TLS_OLD_VERSION, /* no TLS 1.3 */
	TLS_BROKEN,      /* bytes that are not of this handshake: replayed? */
	TLS_NOT_TLS,     /* bytes that are no TLS */
	TLS_PLAIN,       /* a client of a registry without TLS */
	TLS_LATE,        /* not done by the deadline */
	TLS_CROWDED,     /* too many others were at it */
	TLS_N_CAUSES,
};

/*
 * Read the files that security names: 0 and *tls, which is NULL if it names
 * none. -EINVAL: a file is not as it must be, or they do not go together; the
 * text says why. -ENOMEM, -EMFILE.
 */
int dfi__tls_create(enum tls_role role,
    const struct registry_security *security, struct tls **tls);

/* Streams may outlive it. NULL is allowed. */
void dfi__tls_destroy(struct tls *tls);

/*
 * A stream that does its handshake over fd and then says BEV_EVENT_CONNECTED;
 * its callbacks come from the loop, never from within a call. The client
 * expects a certificate, if any, to be that of peer, an IPv4 or IPv6 address;
 * the server passes NULL. Owns fd; NULL: no memory, then fd is closed.
 */
struct bufferevent *dfi__tls_stream(struct tls *tls, struct event_base *base,
    int fd, const struct sockaddr *peer);

/*
 * On BEV_EVENT_CONNECTED: 0 if the other side has proved who it is, or -EACCES
 * with a text. It always has, if OpenSSL is right.
 */
int dfi__tls_check(struct tls *tls, struct bufferevent *stream);

/*
 * On BEV_EVENT_ERROR: -EACCES (who is who was not proved) or -EPROTO (no TLS
 * 1.3) with a text, and *cause (may be NULL); 0 if the error is not TLS's but
 * the socket's.
 */
int dfi__tls_failure(
    struct tls *tls, struct bufferevent *stream, enum tls_cause *cause);

/* Whether a stream that begins with this byte may be TLS. */
bool dfi__tls_begins(unsigned char byte);

#endif
