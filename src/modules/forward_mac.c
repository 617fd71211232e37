/* SPDX-License-Identifier: Apache-2.0 */
/* As forward.c, for modules other than the one that authenticates messages. */
#include "module.h"

int dfi__mac_ready(void)
{
	return module_services()->mac_ready();
}

bool dfi__mac_make(const void *key, size_t key_size, const void *message,
    size_t size, uint8_t mac[MAC_SIZE])
{
	return module_services()->mac_make(key, key_size, message, size, mac);
}

bool dfi__mac_check(const void *key, size_t key_size, const void *message,
    size_t size, const uint8_t mac[MAC_SIZE])
{
	return module_services()->mac_check(key, key_size, message, size, mac);
}
