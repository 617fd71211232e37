/* SPDX-License-Identifier: Apache-2.0 */
/* A call that comes before any other call of OpenSSL. */
#ifndef DFI_SECURITY_CRYPTO_H
#define DFI_SECURITY_CRYPTO_H

#include <openssl/crypto.h>
#include <stdbool.h>

/*
 * False: OpenSSL could not be initialised. A process may exit while threads of
 * this library use OpenSSL. So OpenSSL must not free its state at exit: it
 * registers no exit handler, unless the application initialised it earlier.
 */
static inline bool crypto_init(void)
{
	/* The first call decides; later ones cost nothing. */
	return OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
}

#endif
