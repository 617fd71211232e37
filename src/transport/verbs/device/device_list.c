/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of devices for users. It joins the kernel's list of devices and
 * ports with the candidates that device/device.c chooses from, so it agrees
 * with what a context would choose.
 */
#include "device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dfi/device.h>
#include "base/error.h"
#include "base/files.h"
#include "base/settings.h"
#include "transport/transport.h"

/* An address of a device. */
struct found {
	struct verbs_device device;
	char interface[16];
	bool chosen;
	const char *why;
};

struct list {
	struct found *found;
	size_t n_found;
	struct verbs_device chosen[SETTING_PARTS]; /* name "": no device */
	bool no_rdma_cm; /* no address could be tried */
	int (*fn)(void *arg, const struct dfi_device_info *info);
	void *arg;
};

static int keep(void *arg, const struct verbs_candidate *candidate)
{
	struct list *list = arg;
	struct found *found;
	size_t i;

	if (!candidate->device.name[0])
		return 0;
	found = realloc(list->found, (list->n_found + 1) * sizeof(*found));
	if (!found)
		return dfi__fail(-ENOMEM, "verbs: out of memory");
	list->found = found;
	found += list->n_found++;
	*found = (struct found){
		.device = candidate->device,
		.why = candidate->why,
	};
	snprintf(found->interface, sizeof(found->interface), "%s",
	    candidate->interface);
	if (!found->why && !candidate->wanted)
		found->why = "not the address that DFI_VERBS_ADDRESS names";
	for (i = 0; !found->why && i < SETTING_PARTS; i++)
		found->chosen |= list->chosen[i].name[0] &&
		    dfi__ip_same_host(
			&list->chosen[i].address, &candidate->device.address);
	return 0;
}

static const char *link_layer_text(uint8_t link_layer)
{
	switch (link_layer) {
	case IBV_LINK_LAYER_INFINIBAND:
		return "InfiniBand";
	case IBV_LINK_LAYER_ETHERNET:
		return "Ethernet";
	default:
		return "";
	}
}

static const char *state_text(enum ibv_port_state state)
{
	switch (state) {
	case IBV_PORT_DOWN:
		return "down";
	case IBV_PORT_INIT:
		return "init";
	case IBV_PORT_ARMED:
		return "armed";
	case IBV_PORT_ACTIVE:
		return "active";
	case IBV_PORT_ACTIVE_DEFER:
		return "active-defer";
	default:
		return "";
	}
}

static int report(struct list *list, struct dfi_device_info *info)
{
	const struct found *found;
	bool any = false;
	size_t i;
	int ret = 0;

	for (i = 0; !ret && i < list->n_found; i++) {
		found = &list->found[i];
		if (found->device.port != info->port ||
		    strcmp(found->device.name, info->device) != 0)
			continue;
		any = true;
		memcpy(
		    info->interface, found->interface, sizeof(info->interface));
		memcpy(info->address, found->device.address_text,
		    sizeof(found->device.address_text));
		snprintf(info->reason, sizeof(info->reason), "%s",
		    found->why ? found->why : "");
		info->chosen = found->chosen;
		snprintf(info->gid, sizeof(info->gid), "%s", found->device.gid);
		info->gid_index = found->device.gid_index;
		ret = list->fn(list->arg, info);
	}
	if (any)
		return ret;
	snprintf(info->reason, sizeof(info->reason), "%s",
	    list->no_rdma_cm
		? "/dev/infiniband/rdma_cm can't be opened: load the kernel "
		  "module rdma_ucm, or see who may open it"
		: "no network interface that is up has an IP address on it");
	return list->fn(list->arg, info);
}

static int report_port(struct list *list, struct ibv_context *context,
    const char *device, uint8_t n)
{
	struct dfi_device_info info = {
		.transport = "verbs",
		.port = n,
		.gid_index = -1,
		.plain_text = 1,
	};
	struct ibv_port_attr port = { .state = IBV_PORT_NOP };

	snprintf(info.device, sizeof(info.device), "%s", device);
	if (ibv_query_port(context, n, &port) == 0) {
		snprintf(info.state, sizeof(info.state), "%s",
		    state_text(port.state));
		snprintf(info.link_layer, sizeof(info.link_layer), "%s",
		    link_layer_text(port.link_layer));
		/* enum ibv_mtu counts powers of two, starting at 256. */
		if (port.active_mtu >= IBV_MTU_256 &&
		    port.active_mtu <= IBV_MTU_4096)
			info.mtu = 128u << port.active_mtu;
	}
	return report(list, &info);
}

/* Report a device that can't be queried. */
static int report_closed(struct list *list, const char *device, int err)
{
	struct dfi_device_info info = {
		.transport = "verbs",
		.gid_index = -1,
		.plain_text = 1,
	};

	snprintf(info.device, sizeof(info.device), "%s", device);
	snprintf(info.reason, sizeof(info.reason), "it can't be opened: %s",
	    strerror(err));
	return list->fn(list->arg, &info);
}

static int report_device(struct list *list, struct ibv_device *device)
{
	const char *name = ibv_get_device_name(device);
	struct ibv_context *context;
	struct ibv_device_attr attr;
	int ret = 0, err;
	unsigned n;

	dfi__files_take_standard();
	context = ibv_open_device(device);
	err = errno;
	dfi__files_free_standard();
	if (!context)
		return report_closed(list, name, err);
	err = ibv_query_device(context, &attr);
	if (err)
		ret = report_closed(list, name, err);
	for (n = 1; !err && !ret && n <= attr.phys_port_cnt; n++)
		ret = report_port(list, context, name, (uint8_t)n);
	ibv_close_device(context);
	return ret;
}

int dfi__verbs_list(const struct settings *settings,
    int (*fn)(void *arg, const struct dfi_device_info *info), void *arg)
{
	struct list list = { .fn = fn, .arg = arg };
	struct ibv_device **devices = NULL;
	uint32_t number;
	int i, n = 0, ret;

	/* If there is none, the choice gives the reason that the list shows. */
	for (number = 0; number < dfi__verbs_n_devices(settings); number++)
		if (dfi__verbs_choose(settings, number, settings->registry,
			&list.chosen[number]) < 0)
			list.chosen[number].name[0] = '\0';
	ret = dfi__verbs_candidates(settings, keep, &list);
	if (ret < 0 && ret != -ENODEV)
		goto free_found;
	list.no_rdma_cm = ret == -ENODEV;
	devices = ibv_get_device_list(&n);
	if (!devices || n == 0)
		ret = dfi__fail(-ENODEV,
		    "verbs: this host has no RDMA device (the kernel's are "
		    "shown by: rdma link; one of soft-RoCE is made by: rdma "
		    "link add rxe0 type rxe netdev eth0)");
	else
		ret = 0;
	for (i = 0; !ret && i < n; i++)
		ret = report_device(&list, devices[i]);
	if (devices)
		ibv_free_device_list(devices);
free_found:
	free(list.found);
	return ret;
}
