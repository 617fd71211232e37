/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS and message authentication where OpenSSL is not linked in: the functions
 * of tls.h and mac.h, which call the module's (ops.h). Nobody has a struct tls
 * before the module is open. A libdfi.a without TLS has no module either.
 */
#include <errno.h>
#include <stddef.h>
#include "base/error.h"
#include "ops.h"

#if DFI_MODULES
#include "modules/module.h"

static int load(const struct security_ops **ops)
{
	static struct module_location location = {
		.file = "libdfi-tls.so",
		.what = "TLS and message authentication",
		.option = "DFI_TLS",
		.packages = "libssl3 and libevent-openssl-2.1-7",
		.abi = MODULE_ABI(struct security_ops),
	};
	const void *table;
	int ret = dfi__module_open(&location, &table);

	*ops = table;
	return ret;
}
#else
static int load(const struct security_ops **ops)
{
	*ops = NULL;
	return dfi__fail(-ENODEV,
	    "TLS and message authentication: this library was built without "
	    "them: build DFI with -DDFI_TLS=ON");
}
#endif

int dfi__tls_create(enum tls_role role,
    const struct registry_security *security, struct tls **tls)
{
	const struct security_ops *ops;
	int ret;

	*tls = NULL;
	if (!security->key && !security->cert && !security->ca &&
	    !security->private_key)
		return 0;
	ret = load(&ops);
	if (ret < 0)
		return dfi__fail_within(ret == -ENODEV ? -EINVAL : ret,
		    "registry: a key or certificates are given");
	return ops->tls_create(role, security, tls);
}

void dfi__tls_destroy(struct tls *tls)
{
	const struct security_ops *ops;

	if (tls && !load(&ops))
		ops->tls_destroy(tls);
}

struct bufferevent *dfi__tls_stream(struct tls *tls, struct event_base *base,
    int fd, const struct sockaddr *peer)
{
	const struct security_ops *ops;

	return load(&ops) < 0 ? NULL : ops->tls_stream(tls, base, fd, peer);
}

int dfi__tls_check(struct tls *tls, struct bufferevent *stream)
{
	const struct security_ops *ops;
	int ret = load(&ops);

	return ret < 0 ? ret : ops->tls_check(tls, stream);
}

int dfi__tls_failure(
    struct tls *tls, struct bufferevent *stream, enum tls_cause *cause)
{
	const struct security_ops *ops;
	int ret = load(&ops);

	return ret < 0 ? ret : ops->tls_failure(tls, stream, cause);
}

int dfi__mac_ready(void)
{
	const struct security_ops *ops;
	int ret = load(&ops);

	return ret < 0 ? ret : ops->mac_ready();
}

bool dfi__mac_make(const void *key, size_t key_size, const void *message,
    size_t size, uint8_t mac[MAC_SIZE])
{
	const struct security_ops *ops;

	return !load(&ops) && ops->mac_make(key, key_size, message, size, mac);
}

bool dfi__mac_check(const void *key, size_t key_size, const void *message,
    size_t size, const uint8_t mac[MAC_SIZE])
{
	const struct security_ops *ops;

	return !load(&ops) && ops->mac_check(key, key_size, message, size, mac);
}
