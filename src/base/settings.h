/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings: defaults that the environment can change. One table makes the
 * struct, the reading, and the documentation.
 */
#ifndef DFI_BASE_SETTINGS_H
#define DFI_BASE_SETTINGS_H

#include <stdint.h>

/*
 * X(kind, member, variable, default, help)
 * kinds: text; size: bytes with an optional suffix K, M or G; ms: milliseconds;
 * choice: one of the words of the setting's table in settings.c.
 */
#define DFI_SETTINGS(X)                                                    \
	X(text, registry, "DFI_REGISTRY", NULL,                            \
	    "address of the registry: unix:PATH, unix:@NAME or "           \
	    "tcp:127.0.0.1:PORT")                                          \
	X(size, ring_memory, "DFI_RING_MEMORY", "1M",                      \
	    "payload bytes of all rings of a target, where a flow leaves " \
	    "them open")                                                   \
	X(choice, wait, "DFI_WAIT", "adaptive",                            \
	    "how calls wait: adaptive, spin or block")                     \
	X(choice, huge_pages, "DFI_HUGE_PAGES", "try",                     \
	    "huge pages for rings: try, never, or require reserved ones")  \
	X(ms, open_timeout_ms, "DFI_OPEN_TIMEOUT", "10000",                \
	    "milliseconds to wait for the registry, a flow or its endpoints")

enum huge_pages {
	HUGE_PAGES_TRY = 1,
	HUGE_PAGES_NEVER,
	HUGE_PAGES_REQUIRE,
};

#define SETTING_TYPE_text const char *
#define SETTING_TYPE_size uint64_t
#define SETTING_TYPE_ms uint32_t
#define SETTING_TYPE_choice uint32_t

struct settings {
#define X(kind, member, variable, value, help) SETTING_TYPE_##kind member;
	DFI_SETTINGS(X)
#undef X
};

/*
 * Read all settings; texts point into the environment. -EINVAL: a variable has
 * a value that it can't have; the text names it.
 */
int dfi__settings_load(struct settings *settings);

#endif
