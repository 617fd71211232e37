/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network without devices, for multicasts between contexts of one process. A
 * program that links this gets it as dfi__verbs_ops, so that flows with
 * DFI_TRANSPORT_VERBS use it like RDMA. It has only datagram endpoints
 * (transport/multicast.h) and shared words to add to. By itself it loses only
 * datagrams without a receive; DFI_TEST_FAULTS adds other losses.
 */
#ifndef DFI_TESTS_FAKE_NETWORK_H
#define DFI_TESTS_FAKE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

/* Afterwards nothing arrives. */
void fake_network_cut(void);

/* Break all open datagram endpoints, as if their devices were removed. */
void fake_network_break(void);

/*
 * Hold back the answers to additions, or release them. The second function
 * counts the additions asked for.
 */
void fake_network_hold_adds(bool hold);
uint32_t fake_network_adds(void);

#endif
