/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How OpenSSL is used: TLS 1.3 only, an external pre-shared key with an
 * ephemeral exchange, or certificates; no tickets, no resumption, no early
 * data, so that recorded traffic is useless later. tls_failure.c tells why a
 * handshake failed. docs/decisions/0009 has the reasons.
 *
 * It leaves no error in OpenSSL's queue, which belongs to the application's
 * thread.
 */
#include "tls_impl.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "crypto.h"
#include "base/error.h"
#include "base/files.h"
#include "base/fork_files.h"
#include "base/ip.h"

/*
 * An external key has one hash, so a side with a key has one cipher suite. The
 * bytes are the number of that suite.
 */
#define KEY_SUITE "TLS_AES_128_GCM_SHA256"
#define KEY_DIGEST "SHA256"
#define CERT_SUITES "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"
static const unsigned char key_suite_number[] = { 0x13, 0x01 };

/* The key's name on the wire. It reveals nothing about the key. */
static const unsigned char identity[] = "dfi-registry";
#define IDENTITY_SIZE (sizeof(identity) - 1)

int dfi__tls_no_memory(void)
{
	ERR_clear_error();
	return dfi__fail(-ENOMEM, "no memory for TLS");
}

/* One for each handshake: OpenSSL ends a session after 304 s. */
static SSL_SESSION *key_session(SSL *ssl, const struct tls *tls)
{
	const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, key_suite_number);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && suite &&
	    SSL_SESSION_set1_master_key(session, tls->key, sizeof(tls->key)) &&
	    SSL_SESSION_set_cipher(session, suite) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static const struct tls *tls_of(const SSL *ssl)
{
	return SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
}

/* For the server: find the key with this name. */
static int find_session(
    SSL *ssl, const unsigned char *name, size_t size, SSL_SESSION **session)
{
	*session = NULL;
	if (size != IDENTITY_SIZE || memcmp(name, identity, size) != 0)
		return 1; /* not ours: the handshake fails */
	*session = key_session(ssl, tls_of(ssl));
	return *session != NULL;
}

/* For the client: select the key, with this digest if it is known already. */
static int use_session(SSL *ssl, const EVP_MD *digest,
    const unsigned char **name, size_t *size, SSL_SESSION **session)
{
	*session = NULL;
	*name = identity;
	*size = IDENTITY_SIZE;
	if (digest && !EVP_MD_is_a(digest, KEY_DIGEST))
		return 1;
	*session = key_session(ssl, tls_of(ssl));
	return *session != NULL;
}

static int set_key(struct tls *tls, const char *path)
{
	int ret = dfi__key_file_read(path, tls->key);

	if (ret)
		return ret;
	tls->keyed = true;
	if (SSL_CTX_set_ciphersuites(tls->ctx, KEY_SUITE) != 1)
		return dfi__tls_no_memory();
	if (tls->role == TLS_SERVER) {
		/* Without certificate, each handshake needs the key. */
		SSL_CTX_set_psk_find_session_callback(tls->ctx, find_session);
	} else {
		SSL_CTX_set_psk_use_session_callback(tls->ctx, use_session);
		/* No certificate of the registry is accepted either. */
		SSL_CTX_set_verify(tls->ctx, SSL_VERIFY_PEER, NULL);
	}
	return 0;
}

static int set_certificates(
    struct tls *tls, const struct registry_security *security)
{
	int ret = 0;

	if (SSL_CTX_set_ciphersuites(tls->ctx, CERT_SUITES) != 1)
		return dfi__tls_no_memory();
	if (security->cert)
		ret = dfi__tls_load_certificate(tls->ctx, security);
	if (!ret && security->ca) {
		ret = dfi__tls_load_ca(tls->ctx, security->ca);
		tls->verifies = true;
		SSL_CTX_set_verify(tls->ctx,
		    SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	}
	return ret;
}

static SSL_CTX *create_context(enum tls_role role)
{
	const SSL_METHOD *method = role == TLS_SERVER ? TLS_server_method()
						      : TLS_client_method();
	SSL_CTX *ctx = NULL;

	/* The first context reads OpenSSL's configuration. */
	dfi__files_take_standard();
	if (crypto_init())
		ctx = SSL_CTX_new(method);
	dfi__files_free_standard();
	return ctx;
}

static int configure(struct tls *tls)
{
	SSL_CTX *ctx = tls->ctx;

	if (!SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) ||
	    !SSL_CTX_set_num_tickets(ctx, 0) ||
	    !SSL_CTX_set_max_early_data(ctx, 0) ||
	    !SSL_CTX_set_app_data(ctx, tls))
		return dfi__tls_no_memory();
	SSL_CTX_set_security_level(ctx, 2);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	/*
	 * However a connection ends, the other side is gone: a message that was
	 * cut short is never used.
	 */
	SSL_CTX_set_options(
	    ctx, SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* libevent may move its output; there are many idle connections. */
	SSL_CTX_set_mode(ctx,
	    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	return 0;
}

static int check_together(
    enum tls_role role, const struct registry_security *security)
{
	if (security->key &&
	    (security->cert || security->private_key || security->ca))
		return dfi__fail(-EINVAL,
		    "registry: a key and certificates are given: it is either "
		    "the one or the others");
	if (!security->cert != !security->private_key)
		return dfi__fail(-EINVAL,
		    "registry: a certificate and its private key are given "
		    "together or not at all");
	if (role == TLS_SERVER && security->ca && !security->cert)
		return dfi__fail(-EINVAL,
		    "registry: a certificate authority is given, but no "
		    "certificate");
	if (role == TLS_CLIENT && security->cert && !security->ca)
		return dfi__fail(-EINVAL,
		    "registry: a certificate is given, but no certificate "
		    "authority (DFI_REGISTRY_CA) to know the registry by");
	return 0;
}

int dfi__tls_create(enum tls_role role,
    const struct registry_security *security, struct tls **tls)
{
	struct tls *new;
	int ret = check_together(role, security);

	if (ret)
		return ret;
	*tls = NULL;
	if (!security->key && !security->cert && !security->ca)
		return 0;
	new = calloc(1, sizeof(*new));
	if (!new)
		return dfi__tls_no_memory();
	new->role = role;
	new->ctx = create_context(role);
	ret = new->ctx ? configure(new) : dfi__tls_no_memory();
	if (!ret)
		ret = security->key ? set_key(new, security->key)
				    : set_certificates(new, security);
	if (ret)
		dfi__tls_destroy(new);
	else
		*tls = new;
	return ret;
}

void dfi__tls_destroy(struct tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->ctx);
	explicit_bzero(tls->key, sizeof(tls->key));
	free(tls);
}

/* The certificate must be that of the address, which is numeric. */
static int expect_address(SSL *ssl, const struct sockaddr *address)
{
	struct in6_addr v6;
	union ip ip;

	if (!dfi__ip_copy(address, &ip))
		return 0;
	v6 = dfi__ip_as_v6(&ip);
	return IN6_IS_ADDR_V4MAPPED(&v6)
	    ? X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), v6.s6_addr + 12, 4)
	    : X509_VERIFY_PARAM_set1_ip(SSL_get0_param(ssl), v6.s6_addr, 16);
}

struct bufferevent *dfi__tls_stream(struct tls *tls, struct event_base *base,
    int fd, const struct sockaddr *peer)
{
	struct bufferevent *stream = NULL;
	SSL *ssl = SSL_new(tls->ctx);

	if (ssl && tls->role == TLS_CLIENT && tls->verifies &&
	    !expect_address(ssl, peer)) {
		SSL_free(ssl);
		ssl = NULL;
	}
	/* On failure it frees ssl as well, but leaves fd open. */
	if (ssl)
		stream = bufferevent_openssl_socket_new(base, fd, ssl,
		    tls->role == TLS_SERVER ? BUFFEREVENT_SSL_ACCEPTING
					    : BUFFEREVENT_SSL_CONNECTING,
		    BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS);
	if (!stream) {
		ERR_clear_error();
		dfi__fork_close(fd);
		return NULL;
	}
	bufferevent_openssl_set_allow_dirty_shutdown(stream, 1);
	return stream;
}

int dfi__tls_check(struct tls *tls, struct bufferevent *stream)
{
	SSL *ssl = bufferevent_openssl_get_ssl(stream);
	bool proved = true;

	if (tls->keyed)
		proved = SSL_session_reused(ssl);
	else if (tls->verifies)
		proved = SSL_get0_peer_certificate(ssl) &&
		    SSL_get_verify_result(ssl) == X509_V_OK;
	if (proved && SSL_version(ssl) == TLS1_3_VERSION)
		return 0;
	return dfi__fail(-EACCES, "the other side has not proved who it is");
}
