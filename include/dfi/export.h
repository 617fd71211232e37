/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DFI_API marks what the shared library exports; everything else is hidden.
 */
#ifndef DFI_EXPORT_H
#define DFI_EXPORT_H

#define DFI_API __attribute__((visibility("default")))

/*
 * An attribute struct with its size set and all else zero; for the _INIT
 * macros.
 */
#ifdef __cplusplus
template <typename T> inline T dfi_init()
{
	T attr = T();

	attr.size = sizeof(T);
	return attr;
}
#define DFI_INIT(type) dfi_init<type>()
#else
#define DFI_INIT(type)               \
	{                            \
		.size = sizeof(type) \
	}
#endif

#endif
