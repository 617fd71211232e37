/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of all kinds, and the opening of sources and targets by name: the
 * flow's entry in the registry chooses the row.
 */
#include "kinds.h"

#include <string.h>
#include <dfi/event.h>
#include <dfi/mark.h>
#include <dfi/source.h>
#include <dfi/target.h>
#include "base/attr.h"
#include "base/error.h"
#include "base/error_list.h"
#include "flows/context/context.h"
#include "flows/endpoint/source.h"
#include "flows/endpoint/target.h"
#include "flows/members/attach.h"
#include "open/open.h"

static const struct kind *const kinds[] = {
#define ROW(number, name) [number] = &dfi__##name##_kind,
	EACH_KIND(ROW)
#undef ROW
};

static int check_attr(
    const char *name, uint32_t flags, uint32_t known, uint64_t reserved)
{
	if (flags & ~(known | DFI_NONBLOCK | DFI_EVENTS))
		return dfi__fail(
		    -EINVAL, "%s.flags %#x are not all known", name, flags);
	if (flags & DFI_ALIGN && !(flags & DFI_EVENTS))
		return dfi__fail(-EINVAL,
		    "%s.flags has DFI_ALIGN without DFI_EVENTS, whose events "
		    "tell of the marks that it aligns: set both",
		    name);
	return reserved ? dfi__fail(-E2BIG,
			      "%s.reserved is not 0: set it to 0, or use a "
			      "newer library that knows the member",
			      name)
			: 0;
}

/* Whether endpoints of a role have events. */
static bool has_events(const struct flow *flow, const char *role)
{
	return flow->membership ||
	    (flow->kind != DFI_COMBINE && strcmp(role, "target") == 0);
}

/* What a target may want of marks, from the flow's sources. */
static int check_marks(const struct flow *flow, bool align)
{
	if (flow->kind == DFI_COMBINE)
		return dfi__fail(-EINVAL,
		    "flow '%s': dfi_target_attr.idle_after_ms is not for "
		    "combiner flows, in which marks end windows: set it to 0",
		    flow->name);
	if (align && flow->ordered)
		return dfi__fail(-EINVAL,
		    "flow '%s': DFI_ALIGN, but it is ordered: its tuples come "
		    "in the flow's order, in which a mark has a place: leave "
		    "DFI_ALIGN out",
		    flow->name);
	if (align && flow_is_multicast(flow) &&
	    flow->loss_policy == DFI_LOSS_NOTIFY)
		return dfi__fail(-EINVAL,
		    "flow '%s': DFI_ALIGN, but its datagrams, marks among "
		    "them, may be lost (DFI_LOSS_NOTIFY): leave one of them "
		    "out",
		    flow->name);
	return 0;
}

/* What a target may say of its store. */
static int check_store(const struct flow *flow, uint64_t store_epoch)
{
	if (!flow->partitions && store_epoch)
		return dfi__fail(-EINVAL,
		    "flow '%s': dfi_target_attr.store_epoch %lu: only open "
		    "shuffle flows that route by keys have epochs: set it to 0",
		    flow->name, (unsigned long)store_epoch);
	return store_epoch <= INT64_MAX
	    ? 0
	    : dfi__fail(-EINVAL,
		  "flow '%s': dfi_target_attr.store_epoch %lu: it is at most "
		  "%ld, so that later ones can be higher",
		  flow->name, (unsigned long)store_epoch, (long)INT64_MAX);
}

/* What opening an endpoint needs. */
struct opening {
	struct wait_policy wait;
	struct flow flow;
	int64_t deadline;
};

/*
 * Check what an endpoint's attributes say, and wait for its flow. attr: those
 * of a target, or the same members of a source's. reserved: the rest. name: of
 * their type.
 */
static int begin(struct dfi *dfi, const char *flow_name, const char *role,
    uint32_t index, const struct dfi_target_attr *attr, uint64_t reserved,
    const char *name, struct opening *opening)
{
	bool is_target = strcmp(role, "target") == 0;
	int ret = check_attr(
	    name, attr->flags, is_target ? DFI_ALIGN : 0, reserved);

	if (!ret)
		ret = dfi__context_wait(dfi, attr->wait, name, &opening->wait);
	if (ret < 0)
		return ret;
	opening->deadline = context_deadline(dfi, attr->open_timeout_ms);
	ret = dfi__attach_find(dfi, flow_name, role, index, attr->schema,
	    opening->deadline, &opening->flow);
	if (!ret && attr->flags & DFI_EVENTS &&
	    !has_events(&opening->flow, role)) {
		dfi__flow_free(&opening->flow);
		return dfi__fail(-EINVAL,
		    "flow '%s': %s.flags has DFI_EVENTS, but %s: leave it out",
		    flow_name, name,
		    opening->flow.kind == DFI_COMBINE
			? "combiner flows have windows instead of events"
			: "sources have events in open flows only "
			  "(DFI_MEMBERS_OPEN)");
	}
	if (!ret && (attr->flags & DFI_ALIGN || attr->idle_after_ms)) {
		ret = check_marks(&opening->flow, attr->flags & DFI_ALIGN);
		if (ret < 0)
			dfi__flow_free(&opening->flow);
	}
	if (!ret && attr->store_epoch) {
		ret = check_store(&opening->flow, attr->store_epoch);
		if (ret < 0)
			dfi__flow_free(&opening->flow);
	}
	return ret < 0 ? dfi__error_keep(ret) : 0;
}

/* It opens rings over the connections of those that it shares with. */
static int open_source(struct dfi *dfi, const char *flow_name, uint32_t index,
    const struct dfi_source_attr *attr, struct dfi_source **out)
{
	SOURCE_CALL(attr->share_with, SOURCE_SHARED(attr->share_with));
	struct opening opening;
	int ret = begin(dfi, flow_name, "source", index,
	    &(struct dfi_target_attr){
		.flags = attr->flags,
		.schema = attr->schema,
		.open_timeout_ms = attr->open_timeout_ms,
		.wait = attr->wait,
	    },
	    attr->reserved, "dfi_source_attr", &opening);

	if (ret < 0)
		return ret;
	return opening.flow.membership
	    ? dfi__open_source_open(dfi, &opening.flow, index, attr,
		  &opening.wait, opening.deadline, out)
	    : dfi__source_open(dfi, kinds[opening.flow.kind], &opening.flow,
		  index, attr, &opening.wait, opening.deadline, out);
}

int dfi_source_open(struct dfi *dfi, const char *flow_name, uint32_t index,
    const struct dfi_source_attr *user, struct dfi_source **out)
{
	struct dfi_source_attr attr;
	CONTEXT_USE(dfi, ret);

	if (!ret && !out)
		ret = dfi__fail(-EINVAL, "dfi_source_open: source is NULL");
	if (!ret)
		ret = dfi__attr_load(
		    &attr, sizeof(attr), user, "dfi_source_attr");
	if (!ret)
		ret = dfi__source_share_check(dfi, attr.share_with);
	if (!ret)
		ret = open_source(dfi, flow_name, index, &attr, out);
	if (!ret)
		context_use_keep(&use);
	return ret;
}

int dfi_target_open(struct dfi *dfi, const char *flow_name, uint32_t index,
    const struct dfi_target_attr *user, struct dfi_target **out)
{
	const char *name = "dfi_target_attr";
	struct dfi_target_attr attr;
	struct opening opening;
	CONTEXT_USE(dfi, ret);

	if (!ret && !out)
		ret = dfi__fail(-EINVAL, "dfi_target_open: target is NULL");
	if (!ret)
		ret = dfi__attr_load(&attr, sizeof(attr), user, name);
	if (!ret)
		ret = begin(
		    dfi, flow_name, "target", index, &attr, 0, name, &opening);
	if (!ret && opening.flow.membership)
		ret = dfi__open_target_open(dfi, &opening.flow, index, &attr,
		    &opening.wait, opening.deadline, out);
	else if (!ret)
		ret = dfi__target_open(dfi, kinds[opening.flow.kind],
		    &opening.flow, index, &attr, &opening.wait,
		    opening.deadline, out);
	if (!ret)
		context_use_keep(&use);
	return ret;
}
