/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What uses OpenSSL, as a table: the module libdfi-tls.so has it. Each member
 * is the function dfi__<member>() of tls.h or mac.h. libdfi.a has these
 * functions themselves; in libdfi.so load.c has them, which opens the module.
 */
#ifndef DFI_SECURITY_OPS_H
#define DFI_SECURITY_OPS_H

#include "mac.h"
#include "tls.h"

struct security_ops {
	__typeof__(dfi__tls_create) *tls_create;
	__typeof__(dfi__tls_destroy) *tls_destroy;
	__typeof__(dfi__tls_stream) *tls_stream;
	__typeof__(dfi__tls_check) *tls_check;
	__typeof__(dfi__tls_failure) *tls_failure;
	__typeof__(dfi__mac_ready) *mac_ready;
	__typeof__(dfi__mac_make) *mac_make;
	__typeof__(dfi__mac_check) *mac_check;
};

#endif
