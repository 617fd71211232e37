/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings of this process: the value of each environment variable, and
 * where it comes from. Needs no context; "dfi-info config" shows it.
 *
 * The first call that reads settings (dfi_setting_list(), dfi_open() or
 * dfi_device_list()) logs a warning for each variable that begins with DFI_ and
 * is no setting, with the name of the nearest one.
 */
#ifndef DFI_SETTING_H
#define DFI_SETTING_H

#include <stdint.h>
#include <dfi/export.h>

DFI_BEGIN_DECLS

struct dfi_attr;

enum dfi_setting_origin {
	DFI_SETTING_DEFAULT = 0,
	DFI_SETTING_ENVIRONMENT,
	DFI_SETTING_ATTRIBUTE, /* a member of dfi_attr, which counts more */
};

struct dfi_setting_info {
	const char *variable; /* "DFI_WAIT" */
	const char *value;    /* as text; NULL: none */
	const char *initial;  /* the default, as text; NULL: none */
	const char *help;     /* what it is, and which values it takes */
	const char *error;    /* why the value is not valid; NULL: it is */
	uint32_t origin;      /* enum dfi_setting_origin */
	uint32_t reserved;
};

/*
 * Call fn for each setting, in a fixed order, as dfi_open(attr) would take it;
 * attr NULL means all defaults. A value that is not valid is listed with its
 * error. Any thread.
 */
DFI_API int dfi_setting_list(const struct dfi_attr *attr,
    int (*fn)(void *arg, const struct dfi_setting_info *info), void *arg);

DFI_END_DECLS

#endif
