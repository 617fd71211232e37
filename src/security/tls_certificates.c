/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files by which both sides of TLS with certificates prove who they are.
 * OpenSSL never opens one: it would wait for the writer of a FIFO, and its
 * texts name no errno value. May not ask the terminal for a passphrase.
 */
#include "tls_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files.h"

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

/*
 * A file of certificates, which OpenSSL is not to open: it would wait for the
 * writer of a FIFO, and its texts name no errno value.
 */
static int open_file(const char *what, const char *path, BIO **file)
{
	/* O_NONBLOCK: a FIFO would wait for its writer. */
	int fd = file_up(
	    open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
	struct stat st;
	int ret = 0;

	if (fd < 0)
		return bad_file(what, path, strerrordesc_np(errno));
	if (fstat(fd, &st) < 0)
		ret = bad_file(what, path, strerrordesc_np(errno));
	else if (!S_ISREG(st.st_mode))
		ret = bad_file(what, path, "it is no regular file");
	*file = ret ? NULL : BIO_new_fd(fd, BIO_CLOSE);
	if (*file)
		return 0;
	close(fd);
	return ret ? ret : dfi__tls_no_memory();
}

/* Whether what ended the reading of a PEM file is its end. */
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
	static const char what[] = "private key";
	EVP_PKEY *key = NULL;
	BIO *file;
	int fd, ret = 0;

	fd = dfi__secret_file_open(path, what, SECRET_GROUP_FROM_ROOT);
	if (fd < 0)
		return fd;
	file = BIO_new_fd(fd, BIO_CLOSE);
	if (!file) {
		close(fd);
		return dfi__tls_no_memory();
	}
	key = PEM_read_bio_PrivateKey(file, NULL, no_passphrase, NULL);
	if (!key)
		ret = bad_file(what, path,
		    "it is no PEM file of a private key without a passphrase");
	else if (SSL_CTX_use_PrivateKey(ctx, key) != 1)
		ret = bad_file(what, path, "it is not the certificate's");
	EVP_PKEY_free(key);
	BIO_free(file);
	return ret;
}

/* The certificate, and then those between it and its authority. */
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
		/* It takes the certificate. */
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

/* All certificates of a file, and the lists of revoked ones; one at least. */
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
	static const char what[] = "certificate";
	BIO *file;
	int ret = open_file(what, security->cert, &file);

	if (ret)
		return ret;
	if (!use_chain(ctx, file))
		ret = bad_file(what, security->cert,
		    "it is no PEM file of a certificate that can be used");
	BIO_free(file);
	return ret ? ret : load_private_key(ctx, security->private_key);
}

int dfi__tls_load_ca(SSL_CTX *ctx, const char *path)
{
	static const char what[] = "certificate authority";
	BIO *file;
	int ret = open_file(what, path, &file);

	if (ret)
		return ret;
	if (!trust_all(SSL_CTX_get_cert_store(ctx), file))
		ret = bad_file(what, path, "it is no PEM file of certificates");
	BIO_free(file);
	return ret;
}
