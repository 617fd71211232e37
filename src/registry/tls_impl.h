/* SPDX-License-Identifier: Apache-2.0 */
/* What tls.c and tls_failure.c share. */
#ifndef DFI_REGISTRY_TLS_IMPL_H
#define DFI_REGISTRY_TLS_IMPL_H

#include <openssl/ssl.h>

#include "key_file.h"
#include "tls.h"

struct tls {
	SSL_CTX *ctx;
	enum tls_role role;
	bool keyed;    /* the other side proves itself by the key */
	bool verifies; /* by a certificate; neither: it does not */
	unsigned char key[REGISTRY_KEY_BYTES];
};

#endif
