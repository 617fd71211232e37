/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How one side of a registry connection over TCP proves its identity: the names
 * of the files. Either a key, or certificates, or nothing.
 */
#ifndef DFI_SECURITY_SECURITY_H
#define DFI_SECURITY_SECURITY_H

#include <stdbool.h>
#include <sys/types.h>

#define NO_USER ((uid_t)-1)

struct registry_security {
	const char *key;  /* of dfi_registry_key_create() */
	const char *ca;   /* which signs the other side's certificate */
	const char *cert; /* of this side, with those that lead to the CA */
	const char *private_key;   /* belongs to cert */
	const char *etcd_user;     /* of etcd, */
	const char *etcd_password; /* and the file of that user's password */
	bool insecure;             /* nothing of the above */
	bool has_user;             /* at a Unix socket, user is also trusted */
	uid_t user;
};

#endif
