/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DFI, the Data Flow Interface: named flows of typed tuples between threads,
 * processes and machines. This is the only header an application includes.
 *
 * A process opens a context (context.h), some process creates a flow (flow.h),
 * threads open its sources (source.h) and targets (target.h), and tuples pushed
 * into a source (push.h) come out at the target that its routing chooses.
 */
#ifndef DFI_DFI_H
#define DFI_DFI_H

#include <dfi/aggregate.h>
#include <dfi/barrier.h>
#include <dfi/combiner.h>
#include <dfi/context.h>
#include <dfi/device.h>
#include <dfi/error.h>
#include <dfi/event.h>
#include <dfi/flow.h>
#include <dfi/flow_info.h>
#include <dfi/log.h>
#include <dfi/mark.h>
#include <dfi/open_flow.h>
#include <dfi/push.h>
#include <dfi/registry.h>
#include <dfi/replay.h>
#include <dfi/route.h>
#include <dfi/schema.h>
#include <dfi/sequencer.h>
#include <dfi/setting.h>
#include <dfi/source.h>
#include <dfi/stats.h>
#include <dfi/target.h>
#include <dfi/target_group.h>

#endif
