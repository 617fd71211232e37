/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and certificates for tests, in files of a directory that is removed at
 * exit. Errors fail the test.
 */
#ifndef DFI_TESTS_TLS_HELP_H
#define DFI_TESTS_TLS_HELP_H

#include <stddef.h>

/* The path of a file in the directory, whether it exists or not. */
const char *file_named(const char *name);

/* Write a file with this mode; returns its path. */
const char *write_file(
    const char *name, const void *bytes, size_t size, unsigned mode);

/* Make a key file; returns its path. */
const char *make_key(const char *name);

enum cert_time {
	CERT_VALID,
	CERT_EXPIRED,
	CERT_FUTURE,
};

/* Make NAME.pem and NAME.key for an authority. */
void make_ca(const char *name);

/*
 * Make NAME.pem and NAME.key, signed by an authority that exists. names is a
 * subjectAltName, such as "IP:127.0.0.1", usage an extendedKeyUsage, such as
 * "clientAuth"; each may be NULL.
 */
void make_cert(const char *name, const char *ca, const char *names,
    const char *usage, enum cert_time time);

/* A TCP address of this machine that is not loopback, as IP:, or NULL. */
const char *routable_address(void);

#endif
