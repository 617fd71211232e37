/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before the sources of a libdfi.so for tests, which speaks the next
 * version of one protocol: of the one that DFI_TEST_NEXT names.
 */
#ifndef DFI_TESTS_TRANSPORT_NEXT_VERSIONS_H
#define DFI_TESTS_TRANSPORT_NEXT_VERSIONS_H

#include <stdlib.h>
#include <string.h>
#include "flows/descriptor/descriptor.h"
#include "registry/wire/wire.h"
#include "transport/shm/message.h"

enum {
	THIS_WIRE = WIRE_VERSION,
	THIS_RING_LAYOUT = RING_LAYOUT,
	THIS_PASS = SHM_PASS_VERSION,
	THIS_REPORT = SHM_REPORT_VERSION,
};

static inline uint32_t next_version(const char *what, uint32_t version)
{
	const char *next = getenv("DFI_TEST_NEXT");

	return version + (next && !strcmp(next, what));
}

#undef WIRE_VERSION
#undef RING_LAYOUT
#undef SHM_PASS_VERSION
#undef SHM_REPORT_VERSION
#define WIRE_VERSION next_version("registry", THIS_WIRE)
#define RING_LAYOUT next_version("rings", THIS_RING_LAYOUT)
#define SHM_PASS_VERSION next_version("memory", THIS_PASS)
#define SHM_REPORT_VERSION next_version("report", THIS_REPORT)

#if DFI_VERBS
#include "transport/verbs/connection/handshake.h"

enum {
	THIS_VERBS = VERBS_HANDSHAKE_VERSION
};

#undef VERBS_HANDSHAKE_VERSION
#define VERBS_HANDSHAKE_VERSION (uint16_t) next_version("verbs", THIS_VERBS)
#endif

#if DFI_OFI
#include "transport/ofi/ofi.h"

enum {
	THIS_OFI = OFI_HANDSHAKE_VERSION
};

#undef OFI_HANDSHAKE_VERSION
#define OFI_HANDSHAKE_VERSION (uint16_t) next_version("ofi", THIS_OFI)
#endif

#endif
