/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proofs that a process knows a secret, without revealing it: HMAC-SHA-256, of
 * which the first half is kept.
 */
#ifndef DFI_SECURITY_MAC_H
#define DFI_SECURITY_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAC_SIZE 16

/*
 * Call it first, not on the control thread: it may read files. -ENODEV: there
 * is no OpenSSL here; the text says why, and what to install.
 */
int dfi__mac_ready(void);

/* False: OpenSSL could not compute it. */
bool dfi__mac_make(const void *key, size_t key_size, const void *message,
    size_t size, uint8_t mac[MAC_SIZE]);

/* Takes the same time wherever the difference lies. */
bool dfi__mac_check(const void *key, size_t key_size, const void *message,
    size_t size, const uint8_t mac[MAC_SIZE]);

#endif
