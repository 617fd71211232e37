/* SPDX-License-Identifier: Apache-2.0 */
/* See crypto.h. */
#include "crypto.h"

#include <openssl/crypto.h>

bool dfi__crypto_init(void)
{
	/* What it is asked first holds for good; later it costs nothing. */
	return OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
}
