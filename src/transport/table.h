/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a transport's row, which may be a module's. */
#ifndef DFI_TRANSPORT_TABLE_H
#define DFI_TRANSPORT_TABLE_H

#include "transports.h"

/*
 * Get the table of a row. -ENODEV: its module can't be used
 * (modules/module.h).
 */
static inline int transport_table(
    const struct transport_row *row, const struct transport_ops **ops)
{
	if (!row->ops)
		return row->load(ops);
	*ops = row->ops;
	return 0;
}

#endif
