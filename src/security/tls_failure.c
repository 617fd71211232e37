/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a handshake failed, in terms of the keys and certificates of registries.
 * OpenSSL gives a reason: what is wrong with the other side or, from 1000 on,
 * the alert by which the other side says what is wrong with this one.
 */
#include "tls_impl.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>

#include "base/error.h"

struct explanation {
	int reason;
	enum tls_cause cause;
	int err;
	const char *text;
};

/* About a client, in the log: "refuses the client at ...: it has ..." */
static const struct explanation of_client[] = {
	{ SSL_R_BINDER_DOES_NOT_VERIFY, TLS_WRONG_KEY, -EACCES,
	    "it has another key" },
	{ SSL_R_UNSUPPORTED_PROTOCOL, TLS_OLD_VERSION, -EPROTO,
	    "it does not speak TLS 1.3" },
	{ SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE, TLS_NO_CERT, -EACCES,
	    "it shows no certificate" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, TLS_REFUSED, -EACCES,
	    "it says that the registry's certificate has expired" },
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA, TLS_REFUSED, -EACCES,
	    "it does not know who signed the registry's certificate" },
};

/* About a client's key, if the registry uses a key. */
static const struct explanation of_keyless_client[] = {
	{ SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM, TLS_NO_KEY, -EACCES,
	    "it has no key" },
	{ SSL_R_NO_SHARED_CIPHER, TLS_NO_KEY, -EACCES, "it has no key" },
};

/* About a registry, as the end of "registry tcp:...: ". */
static const struct explanation of_registry[] = {
	{ SSL_R_WRONG_VERSION_NUMBER, TLS_NOT_TLS, -EPROTO,
	    "what answers there does not speak TLS: it is no registry, or one "
	    "without a key and certificates" },
	{ SSL_R_UNSUPPORTED_PROTOCOL, TLS_OLD_VERSION, -EPROTO,
	    "what answers there does not speak TLS 1.3" },
	{ SSL_R_TLSV1_ALERT_PROTOCOL_VERSION, TLS_OLD_VERSION, -EPROTO,
	    "what answers there does not speak TLS 1.3" },
	{ SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED, TLS_REFUSED, -EACCES,
	    "it wants a certificate: set DFI_REGISTRY_CERT and "
	    "DFI_REGISTRY_PRIVATE_KEY" },
	{ SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED, TLS_REFUSED, -EACCES,
	    "it says that this process's certificate has expired" },
	{ SSL_R_TLSV1_ALERT_UNKNOWN_CA, TLS_REFUSED, -EACCES,
	    "it does not know who signed this process's certificate" },
	{ SSL_R_SSLV3_ALERT_BAD_CERTIFICATE, TLS_REFUSED, -EACCES,
	    "it does not accept this process's certificate" },
	{ SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE, TLS_REFUSED, -EACCES,
	    "this process's certificate is not one for clients" },
};

#define OTHER_KEY                                                         \
	"it has another key: use the same key file for the registry and " \
	"all processes"

static const struct explanation of_registry_with_key[] = {
	/* OpenSSL sends the first alert, the standard says the second. */
	{ SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER, TLS_REFUSED, -EACCES,
	    OTHER_KEY },
	{ SSL_R_TLSV1_ALERT_DECRYPT_ERROR, TLS_REFUSED, -EACCES, OTHER_KEY },
	{ SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC, TLS_WRONG_KEY, -EACCES,
	    OTHER_KEY },
	{ SSL_R_CERTIFICATE_VERIFY_FAILED, TLS_WRONG_CERT, -EACCES,
	    "it shows a certificate and does not know this process's key: set "
	    "DFI_REGISTRY_CA instead of DFI_REGISTRY_KEY" },
	{ SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, TLS_REFUSED, -EACCES,
	    "it does not know this process's key" },
};

static const struct explanation of_registry_with_certificate[] = {
	{ SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE, TLS_REFUSED, -EACCES,
	    "it wants a key instead of certificates: set DFI_REGISTRY_KEY" },
};

static const struct explanation *find(
    const struct explanation *table, size_t n, int reason)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (table[i].reason == reason)
			return &table[i];
	return NULL;
}

#define FIND(table, reason) \
	find(table, sizeof(table) / sizeof((table)[0]), reason)

static const struct explanation *explain(const struct tls *tls, int reason)
{
	const struct explanation *found = NULL;

	if (tls->role == TLS_SERVER) {
		if (tls->keyed)
			found = FIND(of_keyless_client, reason);
		return found ? found : FIND(of_client, reason);
	}
	found = tls->keyed ? FIND(of_registry_with_key, reason)
			   : FIND(of_registry_with_certificate, reason);
	return found ? found : FIND(of_registry, reason);
}

/* The other side's certificate was not accepted. */
static int certificate_failure(long result, enum tls_cause *cause)
{
	switch (result) {
	case X509_V_ERR_CERT_HAS_EXPIRED:
		*cause = TLS_EXPIRED;
		return dfi__fail(-EACCES, "its certificate has expired");
	case X509_V_ERR_CERT_NOT_YET_VALID:
		*cause = TLS_EXPIRED;
		return dfi__fail(-EACCES, "its certificate is not valid yet");
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		*cause = TLS_WRONG_CERT;
		return dfi__fail(-EACCES,
		    "its certificate is not for this address: it must name it "
		    "as an IP in subjectAltName");
	default:
		*cause = TLS_WRONG_CERT;
		return dfi__fail(-EACCES,
		    "its certificate is not one that the certificate authority "
		    "signed for this: %s",
		    X509_verify_cert_error_string(result));
	}
}

static int other_failure(
    int reason, unsigned long error, enum tls_role role, enum tls_cause *cause)
{
	const char *text = ERR_reason_error_string(error);

	*cause = reason >= SSL_AD_REASON_OFFSET ? TLS_REFUSED : TLS_BROKEN;
	if (!text)
		text = "unknown error";
	if (*cause == TLS_REFUSED)
		return dfi__fail(-EACCES,
		    "it refuses this side of the connection: %s", text);
	return dfi__fail(-EPROTO,
	    role == TLS_SERVER ? "what it sends is not of this handshake: %s"
			       : "what answers there breaks TLS: %s",
	    text);
}

int dfi__tls_failure(
    struct tls *tls, struct bufferevent *stream, enum tls_cause *cause)
{
	unsigned long error = 0, next;
	const struct explanation *found;
	enum tls_cause unused;
	int reason;

	if (!cause)
		cause = &unused;
	/*
	 * The first error counts; the last comes first, and SSL_get_error()'s
	 * value comes with them.
	 */
	while ((next = bufferevent_get_openssl_error(stream)))
		if (ERR_GET_LIB(next) == ERR_LIB_SSL)
			error = next;
	if (!error)
		return 0;
	reason = ERR_GET_REASON(error);
	found = explain(tls, reason);
	if (found) {
		*cause = found->cause;
		return dfi__fail(found->err, "%s", found->text);
	}
	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return certificate_failure(
		    SSL_get_verify_result(bufferevent_openssl_get_ssl(stream)),
		    cause);
	return other_failure(reason, error, tls->role, cause);
}
