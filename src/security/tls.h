/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 on a registry connection, as a libevent stream that looks like any
 * other once it is connected. Only the files of this folder use OpenSSL.
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

/* Why a handshake failed, as the registry's log counts it. */
enum tls_cause {
	TLS_NO_KEY,      /* the client has no key */
	TLS_WRONG_KEY,   /* the client has another key */
	TLS_NO_CERT,     /* the client has no certificate */
	TLS_EXPIRED,     /* its certificate is not valid now */
	TLS_WRONG_CERT,  /* another CA signed it, or for another use */
	TLS_REFUSED,     /* the client does not accept the registry */
	TLS_OLD_VERSION, /* the client does not speak TLS 1.3 */
	TLS_BROKEN,      /* bytes that are not of this handshake: replayed? */
	TLS_NOT_TLS,     /* bytes that are no TLS */
	TLS_PLAIN,       /* it was not done by the deadline */
	TLS_LATE,        /* not done by the deadline */
	TLS_CROWDED,     /* too many others were in a handshake */
	TLS_N_CAUSES,
};

/*
 * Read the files that security names. Returns 0 and *tls, which is NULL if it
 * names none. -EINVAL: a file is faulty, or the files do not belong together;
 * the text says why. -ENOMEM, -EMFILE.
 */
int dfi__tls_create(enum tls_role role,
    const struct registry_security *security, struct tls **tls);

/* Streams may outlive it. NULL is allowed. */
void dfi__tls_destroy(struct tls *tls);

/*
 * Open a stream that does its handshake over fd and then reports
 * BEV_EVENT_CONNECTED. The loop calls its callbacks, never this call. The
 * client expects a certificate, if any, to be that of peer, an IPv4 or IPv6
 * address; the server passes NULL. Owns fd; NULL: no memory, and fd is closed.
 */
struct bufferevent *dfi__tls_stream(struct tls *tls, struct event_base *base,
    int fd, const struct sockaddr *peer);

/*
 * On BEV_EVENT_CONNECTED: 0 if the other side has proved its identity, or
 * -EACCES with a text. OpenSSL should never let it fail.
 */
int dfi__tls_check(struct tls *tls, struct bufferevent *stream);

/*
 * On BEV_EVENT_ERROR: -EACCES (an identity was not proved) or -EPROTO (no TLS
 * 1.3) with a text, and *cause (may be NULL); 0 if it is an error of the
 * socket, not of TLS.
 */
int dfi__tls_failure(
    struct tls *tls, struct bufferevent *stream, enum tls_cause *cause);

/* Tells whether a stream that begins with this byte may be TLS. */
#define TLS_RECORD_HANDSHAKE 22
static inline bool tls_begins(unsigned char byte)
{
	return byte == TLS_RECORD_HANDSHAKE;
}

#endif
