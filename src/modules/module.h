/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: parts of the library that need libraries which not every program
 * wants. libdfi-NAME.so lies in the folder of libdfi.so. It exports one object,
 * dfi_module, with a table of functions, and gets the library's services
 * (services.h). libdfi.a has all parts linked in, and no modules.
 */
#ifndef DFI_MODULES_MODULE_H
#define DFI_MODULES_MODULE_H

#include <dfi/context.h>
/* CMake makes it: a hash of the headers that a module and the library share. */
#include <module_interface.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include "base/atomic.h"
#include "services.h"

/* What a module was built for. Its layout never changes. */
struct module_abi {
	uint32_t interface;
	uint32_t version[3]; /* of DFI */
	uint32_t services_size;
	uint32_t table_size;
};

#define MODULE_ABI(table)                                   \
	{                                                   \
		MODULE_INTERFACE,                           \
		    { DFI_VERSION_MAJOR, DFI_VERSION_MINOR, \
			    DFI_VERSION_PATCH },            \
		    sizeof(struct services), sizeof(table)  \
	}

/* A module's dfi_module; abi comes first. */
struct module {
	struct module_abi abi;
	const void *table;
	_Atomic(const struct services *) *services; /* set before the table */
};

/* In a module: the services that it has got (forward.c). */
extern _Atomic(const struct services *) dfi__module_services;
static inline const struct services *module_services(void)
{
	return atomic_peek(&dfi__module_services);
}

extern const struct module dfi_module __attribute__((visibility("default")));

/* Where a part of the library is. */
struct module_location {
	const char *file;
	const char *what;     /* for texts, as "transport verbs" */
	const char *option;   /* of CMake, which builds it */
	const char *packages; /* of Debian, with the libraries it needs */
	struct module_abi abi;
	_Atomic(const void *) table; /* once it is open */
};

/*
 * Open a module and return its table, NULL on failure. It is opened once and
 * never closed, as its threads' data and the libraries that it needs may not be
 * unloaded. Nothing in the environment says where to look. Any thread; reads
 * files. -ENODEV: there is none, it can't be loaded, or it was built for
 * another version of the library; the text says where it was looked for, and
 * what to install. -ENOMEM, -EMFILE.
 */
int dfi__module_open(struct module_location *location, const void **table);

#endif
