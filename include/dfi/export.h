/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DFI_API marks what the shared library exports; everything else is hidden.
 */
#ifndef DFI_EXPORT_H
#define DFI_EXPORT_H

#define DFI_API __attribute__((visibility("default")))

/*
 * The per-tuple functions. Their use of many sizes and routings looks large to
 * a compiler, which would not inline it by itself, but little is left of it.
 * The library exports a function of the same name for each DFI_INLINE, for
 * bindings of other languages. DFI_INLINE_PART is what these consist of.
 */
#define DFI_INLINE_PART static inline __attribute__((__always_inline__))
#ifndef DFI_INLINE
#define DFI_INLINE DFI_INLINE_PART
#endif

/* A cast in a header: -Wold-style-cast of C++ warns of those of C. */
#ifdef __cplusplus
#define DFI_CAST(type, value) static_cast<type>(value)
#else
#define DFI_CAST(type, value) ((type)(value))
#endif

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
