/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HMACs, and OpenSSL's effects on a process for them and for TLS: it registers
 * no exit handler, whichever use comes first. Each case is a process.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <string.h>

#include "security/mac.h"
#include "security/tls.h"
#include "tls_help.h"

typedef int at_exit(void (*fn)(void *), void *arg, void *library);

static unsigned n_handlers; /* of OpenSSL */

/* In place of the C library's, which atexit() is in each library. */
at_exit __cxa_atexit;

int __cxa_atexit(void (*fn)(void *), void *arg, void *library)
{
	at_exit *next;
	Dl_info info;

	*(void **)&next = dlsym(RTLD_NEXT, "__cxa_atexit");
	if (dladdr(library, &info) && info.dli_fname &&
	    (strstr(info.dli_fname, "libcrypto") ||
		strstr(info.dli_fname, "libssl")))
		n_handlers++;
	return next(fn, arg, library);
}

TestSuite(mac, .timeout = 300);

/* RFC 4231, test case 2, of which the first half is kept. */
Test(mac, is_that_of_the_standard)
{
	static const uint8_t right[MAC_SIZE] = { 0x5b, 0xdc, 0xc1, 0x46, 0xbf,
		0x60, 0x75, 0x4e, 0x6a, 0x04, 0x24, 0x26, 0x08, 0x95, 0x75,
		0xc7 };
	const char *message = "what do ya want for nothing?";
	uint8_t mac[MAC_SIZE];

	cr_assert(dfi__mac_make("Jefe", 4, message, strlen(message), mac));
	cr_assert_eq(memcmp(mac, right, MAC_SIZE), 0);
	cr_assert(dfi__mac_check("Jefe", 4, message, strlen(message), mac));
	cr_assert_not(dfi__mac_check("jefe", 4, message, strlen(message), mac));
	cr_assert_not(dfi__mac_check("Jefe", 4, message, 27, mac));
	mac[MAC_SIZE - 1] ^= 1;
	cr_assert_not(dfi__mac_check("Jefe", 4, message, strlen(message), mac));
}

Test(mac, made_first_registers_no_exit_handler)
{
	uint8_t mac[MAC_SIZE];

	cr_assert(dfi__mac_make("k", 1, "m", 1, mac));
	cr_assert_eq(n_handlers, 0);
}

Test(mac, after_tls_registers_no_exit_handler)
{
	struct registry_security security = { .key = make_key("key") };
	struct tls *server, *client;
	uint8_t mac[MAC_SIZE];

	cr_assert_eq(dfi__tls_create(TLS_SERVER, &security, &server), 0);
	cr_assert_eq(dfi__tls_create(TLS_CLIENT, &security, &client), 0);
	cr_assert(dfi__mac_make("k", 1, "m", 1, mac));
	dfi__tls_destroy(client);
	dfi__tls_destroy(server);
	cr_assert_eq(n_handlers, 0);
}
