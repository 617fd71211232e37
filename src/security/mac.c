/* SPDX-License-Identifier: Apache-2.0 */
/* See mac.h. */
#include "mac.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include "base/error.h"
#include "crypto.h"

int dfi__mac_ready(void)
{
	return crypto_init()
	    ? 0
	    : dfi__fail(-ENODEV, "OpenSSL can't be initialised");
}

bool dfi__mac_make(const void *key, size_t key_size, const void *message,
    size_t size, uint8_t mac[MAC_SIZE])
{
	unsigned char whole[EVP_MAX_MD_SIZE];
	unsigned length = 0;

	if (!crypto_init() ||
	    !HMAC(EVP_sha256(), key, (int)key_size, message, size, whole,
		&length) ||
	    length < MAC_SIZE)
		return false;
	memcpy(mac, whole, MAC_SIZE);
	return true;
}

bool dfi__mac_check(const void *key, size_t key_size, const void *message,
    size_t size, const uint8_t mac[MAC_SIZE])
{
	uint8_t right[MAC_SIZE];

	return dfi__mac_make(key, key_size, message, size, right) &&
	    CRYPTO_memcmp(right, mac, MAC_SIZE) == 0;
}
