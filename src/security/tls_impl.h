/* SPDX-License-Identifier: Apache-2.0 */
/* What tls.c and tls_failure.c share. */
#ifndef DFI_SECURITY_TLS_IMPL_H
#define DFI_SECURITY_TLS_IMPL_H

#include <openssl/ssl.h>

#include "key_file.h"
#include "tls.h"

struct tls {
	SSL_CTX *ctx;
	enum tls_role role;
	bool keyed;    /* the other side proves itself by the key */
	bool verifies; /* by a certificate; neither: it proves nothing */
	unsigned char key[REGISTRY_KEY_BYTES];
};

int dfi__tls_no_memory(void);

/* Load a certificate with its chain and private key, and the CA to trust. */
int dfi__tls_load_certificate(
    SSL_CTX *ctx, const struct registry_security *security);
int dfi__tls_load_ca(SSL_CTX *ctx, const char *path);

#endif
