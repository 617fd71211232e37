/* SPDX-License-Identifier: Apache-2.0 */
/* See tls_help.h. Uses OpenSSL itself, not the tested code. */
#include "tls_help.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dfi/error.h>
#include <dfi/registry.h>

#define DAY_S (24 * 60 * 60)

static char directory[] = "/tmp/dfi-test-XXXXXX";
static pid_t owner;

static void remove_directory(void)
{
	struct dirent *entry;
	char name[512];
	DIR *dir;

	if (owner != getpid())
		return;
	dir = opendir(directory);
	while (dir && (entry = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", directory, entry->d_name);
		unlink(name);
	}
	if (dir)
		closedir(dir);
	rmdir(directory);
}

const char *file_named(const char *name)
{
	static char names[64][64];
	static size_t n;
	size_t i;

	if (!owner) {
		cr_assert_not_null(mkdtemp(directory));
		owner = getpid();
		atexit(remove_directory);
	}
	for (i = 0; i < n; i++)
		if (!strcmp(strrchr(names[i], '/') + 1, name))
			return names[i];
	cr_assert_lt(n, 64);
	snprintf(names[n], sizeof(names[n]), "%s/%s", directory, name);
	return names[n++];
}

const char *write_file(
    const char *name, const void *bytes, size_t size, unsigned mode)
{
	const char *path = file_named(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
	cr_assert_eq(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

const char *make_key(const char *name)
{
	const char *path = file_named(name);

	cr_assert_eq(dfi_registry_key_create(path), 0, "%s", dfi_errmsg());
	return path;
}

static FILE *open_pem(const char *name, const char *suffix, const char *mode)
{
	char file[64];
	FILE *pem;

	snprintf(file, sizeof(file), "%s.%s", name, suffix);
	pem = fopen(file_named(file), mode);
	cr_assert_not_null(pem);
	cr_assert_eq(fchmod(fileno(pem), 0600), 0);
	return pem;
}

static void save(const char *name, X509 *cert, EVP_PKEY *key)
{
	FILE *pem = open_pem(name, "pem", "w");

	cr_assert_eq(PEM_write_X509(pem, cert), 1);
	fclose(pem);
	pem = open_pem(name, "key", "w");
	cr_assert_eq(
	    PEM_write_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(pem);
}

static void load(const char *name, X509 **cert, EVP_PKEY **key)
{
	FILE *pem = open_pem(name, "pem", "r");

	*cert = PEM_read_X509(pem, NULL, NULL, NULL);
	fclose(pem);
	pem = open_pem(name, "key", "r");
	*key = PEM_read_PrivateKey(pem, NULL, NULL, NULL);
	fclose(pem);
	cr_assert(*cert && *key);
}

static void extend(X509 *cert, int nid, const char *value)
{
	X509_EXTENSION *extension;
	X509V3_CTX context;

	if (!value)
		return;
	X509V3_set_ctx_nodb(&context);
	X509V3_set_ctx(&context, cert, cert, NULL, NULL, 0);
	extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
	cr_assert_not_null(extension);
	cr_assert_eq(X509_add_ext(cert, extension, -1), 1);
	X509_EXTENSION_free(extension);
}

static X509 *new_cert(const char *name, EVP_PKEY *key, enum cert_time time)
{
	static long serial;
	X509 *cert = X509_new();
	X509_NAME *subject = X509_get_subject_name(cert);
	long from = time == CERT_FUTURE ? DAY_S : -2 * DAY_S;

	X509_set_version(cert, X509_VERSION_3);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
	X509_gmtime_adj(X509_getm_notBefore(cert), from);
	X509_gmtime_adj(X509_getm_notAfter(cert),
	    time == CERT_EXPIRED ? from + DAY_S : from + 10 * DAY_S);
	X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
	    (const unsigned char *)name, -1, -1, 0);
	X509_set_pubkey(cert, key);
	return cert;
}

void make_ca(const char *name)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = new_cert(name, key, CERT_VALID);

	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	extend(cert, NID_basic_constraints, "critical,CA:TRUE");
	cr_assert_gt(X509_sign(cert, key, EVP_sha256()), 0);
	save(name, cert, key);
	X509_free(cert);
	EVP_PKEY_free(key);
}

void make_cert(const char *name, const char *ca, const char *names,
    const char *usage, enum cert_time time)
{
	EVP_PKEY *key = EVP_EC_gen("P-256"), *ca_key;
	X509 *cert = new_cert(name, key, time), *ca_cert;

	load(ca, &ca_cert, &ca_key);
	X509_set_issuer_name(cert, X509_get_subject_name(ca_cert));
	extend(cert, NID_basic_constraints, "CA:FALSE");
	extend(cert, NID_subject_alt_name, names);
	extend(cert, NID_ext_key_usage, usage);
	cr_assert_gt(X509_sign(cert, ca_key, EVP_sha256()), 0);
	save(name, cert, key);
	X509_free(cert);
	EVP_PKEY_free(key);
	X509_free(ca_cert);
	EVP_PKEY_free(ca_key);
}

const char *routable_address(void)
{
	static char text[64];
	struct ifaddrs *all, *one;

	text[0] = '\0';
	cr_assert_eq(getifaddrs(&all), 0);
	for (one = all; one; one = one->ifa_next) {
		const struct sockaddr_in *in = (void *)one->ifa_addr;

		if (!in || in->sin_family != AF_INET ||
		    !(one->ifa_flags & IFF_UP) ||
		    (one->ifa_flags & IFF_LOOPBACK))
			continue;
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		break;
	}
	freeifaddrs(all);
	return text[0] ? text : NULL;
}
