/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The settings as this process sees them: what each variable of the environment
 * is, and where its value comes from. Needs no context and no registry;
 * "dfi-info config" shows it.
 *
 * Variables that begin with DFI_ and are no settings are logged as warnings,
 * with the name of the nearest setting, once a process, by the first call that
 * reads the settings: this one, dfi_open() or dfi_device_list().
 */
#ifndef DFI_SETTING_H
#define DFI_SETTING_H

#include <stdint.h>
#include <dfi/export.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 * error. A non-zero return of fn ends the call, which returns it. info and what
 * it points to are valid during the call of fn only. Any thread.
 *
 * -EINVAL: fn is NULL, or attr's size is 0. -E2BIG: attr is newer than the
 * library.
 */
DFI_API int dfi_setting_list(const struct dfi_attr *attr,
    int (*fn)(void *arg, const struct dfi_setting_info *info), void *arg);

#ifdef __cplusplus
}
#endif

#endif
