/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one side of a registry connection over TCP proves who it is: the names of
 * the files. Either key, or certificates, or nothing.
 */
#ifndef DFI_SECURITY_SECURITY_H
#define DFI_SECURITY_SECURITY_H

#include <stdbool.h>
#include <sys/types.h>

#define NO_USER ((uid_t)-1)

struct registry_security {
	const char *key;         /* of dfi_registry_key_create() */
	const char *ca;          /* who signs the other side's certificate */
	const char *cert;        /* one's own, with what leads to the CA */
	const char *private_key; /* of cert */
	bool insecure;           /* without any of it */
	bool has_user;           /* at a Unix socket, user is trusted, too */
	uid_t user;
};

#endif
