/* SPDX-License-Identifier: Apache-2.0 */
/* Gives up sources of open flows that do not return (R7 of docs/open-flows.md).
 */
#include <dfi/open_flow.h>
#include <string.h>
#include "base/error.h"
#include "base/error_list.h"
#include "flows/context/context.h"
#include "flows/descriptor/descriptor.h"
#include "flows/open/keys.h"
#include "open_flow.h"
#include "registry/client/client.h"

static int check_give_up(
    const struct dfi *dfi, const struct flow *flow, uint32_t source)
{
	if (!flow->input_position)
		return dfi__fail(-EPROTOTYPE,
		    "flow '%s' was not created with DFI_ON_LOSS_REPLAY: it "
		    "waits for no source that was lost",
		    flow->name);
	if (source >= flow->n_sources)
		return dfi__fail(-ERANGE,
		    "flow '%s': source %u: the flow has the seats 0 to %u",
		    flow->name, source, flow->n_sources - 1);
	return dfi__open_check_creator(dfi, flow, "gives up its sources");
}

static int give_up(
    struct dfi *dfi, const struct flow *flow, uint32_t source, int64_t deadline)
{
	struct open_key open = { .kind = OPEN_KEY_SOURCE, .source = source };
	struct registry_value value;
	char key[KEY_SIZE];
	size_t n;
	int ret;

	dfi__flow_prefix(key, flow);
	n = strlen(key);
	dfi__open_key_write(key + n, &open);
	ret = dfi__client_get(dfi->registry, key, deadline, &value);
	if (!ret) {
		dfi__registry_value_free(&value);
		return dfi__fail(-EBUSY,
		    "flow '%s': source %u is attached: only one that was lost "
		    "can be given up",
		    flow->name, source);
	}
	if (ret != -ENOENT)
		return dfi__fail_within(ret, "flow '%s'", flow->name);
	open.kind = OPEN_KEY_GIVEN_UP;
	dfi__open_key_write(key + n, &open);
	ret = dfi__client_put(dfi->registry, key, "", 0, 0, deadline, NULL);
	return ret < 0 ? dfi__fail_within(ret, "flow '%s'", flow->name) : 0;
}

int dfi_flow_give_up(struct dfi *dfi, const char *name, uint32_t source)
{
	struct flow flow;
	int64_t deadline;
	CONTEXT_USE(dfi, ret);

	if (!ret)
		ret = dfi__flow_check_name(name);
	if (ret < 0)
		return ret;
	deadline = context_deadline(dfi, 0);
	ret = dfi__open_get_flow(dfi, name, deadline, &flow);
	if (ret < 0)
		return dfi__error_keep(ret);
	ret = check_give_up(dfi, &flow, source);
	if (!ret)
		ret = give_up(dfi, &flow, source, deadline);
	dfi__flow_free(&flow);
	return dfi__error_keep(ret);
}
