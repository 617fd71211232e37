/* SPDX-License-Identifier: Apache-2.0 */
/* What whoever calls OpenSSL calls first. */
#ifndef DFI_SECURITY_CRYPTO_H
#define DFI_SECURITY_CRYPTO_H

#include <openssl/crypto.h>
#include <stdbool.h>

/*
 * False: OpenSSL could not be initialised. A process may exit while threads of
 * this library are at it, and OpenSSL must not take itself apart then: it
 * registers no exit handler, unless the application's own use of it came first.
 */
static inline bool crypto_init(void)
{
	/* What it is asked first holds for good; later it costs nothing. */
	return OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
}

#endif
