/* SPDX-License-Identifier: Apache-2.0 */
/* The transports that this library knows. */
#ifndef DFI_TRANSPORT_TRANSPORTS_H
#define DFI_TRANSPORT_TRANSPORTS_H

#include <string.h>
#include <dfi/flow.h>
#include "transport.h"

struct transport_row {
	const char *name;          /* as in the table that it stands for */
	enum dfi_transport choice; /* by which users demand it */
	/* Linked in; NULL: load() opens a module, and returns its table
	 * (table.h). */
	const struct transport_ops *ops;
	int (*load)(const struct transport_ops **ops);
	/* Its counter.add() is done by a processor: memory serves as well. */
	bool processor_adds;
};

/*
 * They end with a name that is NULL. The first transport is linked in, and
 * makes regions, in memory that the contexts of one host share. The others
 * export these regions to other hosts, the best first: a context starts all
 * that its user allows and whose devices it has. transports.c has the rows of
 * libdfi.a, transports_modules.c those of libdfi.so.
 */
extern const struct transport_row dfi__transports[];

/* Where footers stand in the flows that this library creates. */
extern const enum footer_side dfi__footer_side;

/* NULL: the library does not know the transport. */
static inline const struct transport_row *transport_row(const char *name)
{
	const struct transport_row *row = dfi__transports;

	while (row->name && strcmp(row->name, name) != 0)
		row++;
	return row->name ? row : NULL;
}

#endif
