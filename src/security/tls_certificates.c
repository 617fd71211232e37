/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files by which both sides of TLS with certificates prove their identity.
 * OpenSSL never opens one: it would wait for the writer of a FIFO, and its
 * texts name no errno value. It must not ask the terminal for a passphrase.
 */
#include "tls_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

#define MAX_SIZE (16 << 20) /* lists of revoked certificates may be large */
#define DER_SEQUENCE 0x30   /* the first byte of such a file */

static const char certificate[] = "certificate";
static const char authority[] = "certificate authority";
static const char private_key[] = "private key";

struct pem_file {
	const char *what; /* "certificate" or "private key" */
	const char *path;
	char *bytes;
	size_t size;
	BIO *bio; /* size of the bytes */
};

static int no_passphrase(char *text, int size, int writing, void *arg)
{
	(void)text;
	(void)size;
	(void)writing;
	(void)arg;
	return -1;
}

static int bad_file(const char *what, const char *path, const char *why)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());
	int ret = dfi__fail(-EINVAL, "%s '%s': %s%s%s", what, path, why,
	    reason ? ": " : "", reason ? reason : "");

	ERR_clear_error();
	return ret;
}

/* ---- Files in memory -------------------------------------------------------
 */

/* OpenSSL would read byte by byte: a large file would take hours. */
static int read_bytes(int fd, struct pem_file *file)
{
	size_t n = 0;
	ssize_t got;

	while (n < file->size) {
		got = read(fd, file->bytes + n, file->size - n);
		if (got < 0 && errno != EINTR)
			return bad_file(
			    file->what, file->path, strerrordesc_np(errno));
		if (got == 0)
			break;
		if (got > 0)
			n += (size_t)got;
	}
	file->size = n;
	file->bio = BIO_new_mem_buf(file->bytes, (int)n);
	return file->bio ? 0 : dfi__tls_no_memory();
}

static void free_file(struct pem_file *file)
{
	BIO_free(file->bio);
	if (file->bytes)
		explicit_bzero(file->bytes, file->size);
	free(file->bytes);
}

/* Read an open file and close it. */
static int load_file(int fd, struct pem_file *file)
{
	struct stat st;
	int ret;

	if (fstat(fd, &st) < 0)
		ret = bad_file(file->what, file->path, strerrordesc_np(errno));
	else if (!S_ISREG(st.st_mode))
		ret = bad_file(file->what, file->path, "it is no regular file");
	else if (st.st_size > MAX_SIZE)
		ret = dfi__fail(-EINVAL,
		    "%s '%s': it has %jd bytes, but a PEM file at most %d",
		    file->what, file->path, (intmax_t)st.st_size, MAX_SIZE);
	else {
		file->size = (size_t)st.st_size;
		file->bytes = malloc(file->size + 1);
		ret = file->bytes ? read_bytes(fd, file) : dfi__tls_no_memory();
	}
	close(fd);
	if (ret)
		free_file(file);
	return ret;
}

static int open_file(const char *what, const char *path, struct pem_file *file)
{
	/* O_NONBLOCK: opening a FIFO would wait for its writer. */
	int fd = file_up(
	    open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));

	*file = (struct pem_file){ .what = what, .path = path };
	if (fd < 0)
		return bad_file(what, path, strerrordesc_np(errno));
	return load_file(fd, file);
}

static bool has(const struct pem_file *file, const char *word)
{
	return memmem(file->bytes, file->size, word, strlen(word));
}

/* Returns NULL, or what kind of file it obviously is instead. */
static const char *other_kind(const struct pem_file *file)
{
	bool has_cert = has(file, "CERTIFICATE-----");
	bool has_key = has(file, "PRIVATE KEY-----");

	if (file->size == 0)
		return "it is empty";
	if (file->bytes[0] == DER_SEQUENCE && !has_cert && !has_key)
		return "it is in DER, or a PKCS #12 file: convert it to PEM "
		       "(openssl x509, pkey or pkcs12)";
	if (file->what == private_key && has_cert && !has_key)
		return "it is a certificate, and no private key";
	if (file->what != private_key && has_key && !has_cert)
		return "it is a private key, and no certificate";
	if (file->what == private_key &&
	    (has(file, "-----BEGIN ENCRYPTED PRIVATE KEY-----") ||
		has(file, "Proc-Type: 4,ENCRYPTED")))
		return "it needs a passphrase, for which nobody can be asked: "
		       "make a private key without a passphrase (openssl "
		       "pkey)";
	return NULL;
}

/* what_else: the text for a file whose kind cannot be told. */
static int bad_content(const struct pem_file *file, const char *what_else)
{
	const char *kind = other_kind(file);

	if (kind)
		ERR_clear_error(); /* the error queue says less */
	return bad_file(file->what, file->path, kind ? kind : what_else);
}

/* ---- What is in them -------------------------------------------------------
 */

/* Tells whether the reading of a PEM file stopped at its end. */
static bool is_at_end(void)
{
	unsigned long error = ERR_peek_last_error();

	if (ERR_GET_LIB(error) != ERR_LIB_PEM ||
	    ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
		return false;
	ERR_clear_error();
	return true;
}

static int load_private_key(SSL_CTX *ctx, const char *path)
{
	struct pem_file file = { .what = private_key, .path = path };
	EVP_PKEY *key;
	int fd, ret;

	fd = dfi__secret_file_open(path, private_key, SECRET_GROUP_FROM_ROOT);
	if (fd < 0)
		return fd;
	ret = load_file(fd, &file);
	if (ret)
		return ret;
	key = PEM_read_bio_PrivateKey(file.bio, NULL, no_passphrase, NULL);
	if (!key)
		ret = bad_content(&file,
		    "it is no PEM file of a private key without a passphrase");
	else if (SSL_CTX_use_PrivateKey(ctx, key) != 1)
		ret = bad_file(
		    private_key, path, "it is not the certificate's");
	EVP_PKEY_free(key);
	free_file(&file);
	return ret;
}

/* Use the certificate, and then those between it and its authority. */
static bool use_chain(SSL_CTX *ctx, BIO *file)
{
	X509 *cert = PEM_read_bio_X509_AUX(file, NULL, no_passphrase, NULL);
	bool used = cert && SSL_CTX_use_certificate(ctx, cert) == 1 &&
	    SSL_CTX_clear_chain_certs(ctx) == 1;

	X509_free(cert);
	while (used) {
		cert = PEM_read_bio_X509(file, NULL, no_passphrase, NULL);
		if (!cert)
			return is_at_end();
		/* The context takes the certificate. */
		used = SSL_CTX_add0_chain_cert(ctx, cert) == 1;
		if (!used)
			X509_free(cert);
	}
	return false;
}

static bool trust(X509_STORE *store, const X509_INFO *info)
{
	return (!info->x509 || X509_STORE_add_cert(store, info->x509) == 1) &&
	    (!info->crl || X509_STORE_add_crl(store, info->crl) == 1);
}

/* Trust all certificates of a file, and use its revocation lists. */
static bool trust_all(X509_STORE *store, BIO *file)
{
	STACK_OF(X509_INFO) *infos = PEM_X509_INFO_read_bio(
	    file, NULL, no_passphrase, NULL);
	bool trusted = infos != NULL, any = false;
	int i;

	for (i = 0; trusted && i < sk_X509_INFO_num(infos); i++) {
		trusted = trust(store, sk_X509_INFO_value(infos, i));
		any = any || sk_X509_INFO_value(infos, i)->x509;
	}
	sk_X509_INFO_pop_free(infos, X509_INFO_free);
	return trusted && any;
}

int dfi__tls_load_certificate(
    SSL_CTX *ctx, const struct registry_security *security)
{
	struct pem_file file;
	int ret = open_file(certificate, security->cert, &file);

	if (ret)
		return ret;
	if (!use_chain(ctx, file.bio))
		ret = bad_content(&file,
		    "it is no PEM file of a certificate that can be used");
	free_file(&file);
	return ret ? ret : load_private_key(ctx, security->private_key);
}

int dfi__tls_load_ca(SSL_CTX *ctx, const char *path)
{
	struct pem_file file;
	int ret = open_file(authority, path, &file);

	if (ret)
		return ret;
	if (!trust_all(SSL_CTX_get_cert_store(ctx), file.bio))
		ret = bad_content(&file, "it is no PEM file of certificates");
	free_file(&file);
	return ret;
}
