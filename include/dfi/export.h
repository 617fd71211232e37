/* SPDX-License-Identifier: Apache-2.0 */
/* DFI_API marks what the shared library exports. All else is hidden. */
#ifndef DFI_EXPORT_H
#define DFI_EXPORT_H

#define DFI_API __attribute__((visibility("default")))

/* The declarations between these have C linkage, in C++ too. */
#ifdef __cplusplus
#define DFI_BEGIN_DECLS extern "C" {
#define DFI_END_DECLS }
#else
#define DFI_BEGIN_DECLS
#define DFI_END_DECLS
#endif

/*
 * The per-tuple functions (DFI_INLINE), and their parts. A compiler takes them
 * for large and would not inline them, but little is left of them. The library
 * exports each DFI_INLINE as a function, for bindings of other languages.
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

/* An attribute struct with its size set and all else zero. */
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
