/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network without devices, for multicasts between the contexts of a process:
 * who links this has it as dfi__verbs_ops, so that flows whose transport is
 * DFI_TRANSPORT_VERBS use it as they would use RDMA. It has ports for datagrams
 * (transport/multicast.h), words that many add to, and nothing else. By itself
 * it loses only what finds no receive; the rest is up to DFI_TEST_FAULTS.
 */
#ifndef DFI_TESTS_FAKE_NETWORK_H
#define DFI_TESTS_FAKE_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

/* From now on nothing arrives. */
void fake_network_cut(void);

/* Break all ports that are open, as if their devices were removed. */
void fake_network_break(void);

/*
 * Whether answers to those who add to words are on their way, and how many were
 * asked for so far.
 */
void fake_network_hold_adds(bool hold);
uint32_t fake_network_adds(void);

#endif
