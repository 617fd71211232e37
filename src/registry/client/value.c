/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of values, and lists of them, that an implementation hands out. */
#include "ops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int dfi__registry_value_copy(
    const struct registry_value *from, struct registry_value *to)
{
	char *data = malloc(from->size + 1);
	char *key = strdup(from->key);

	if (!data || !key) {
		free(data);
		free(key);
		return dfi__fail(-ENOMEM, "no memory for a registry value");
	}
	if (from->size)
		memcpy(data, from->data, from->size);
	data[from->size] = '\0';
	to->key = key;
	to->data = data;
	to->size = from->size;
	to->revision = from->revision;
	return 0;
}

/* The room is a power of two: 1, 2, 4, ... */
static bool is_full(const struct registry_list *list)
{
	return !(list->count & (list->count - 1));
}

int dfi__registry_list_add(
    struct registry_list *list, const struct registry_value *value)
{
	struct registry_value *grown;
	int ret;

	if (is_full(list)) {
		grown = reallocarray(list->values,
		    list->count ? 2 * list->count : 1, sizeof(*grown));
		if (!grown)
			return dfi__fail(-ENOMEM,
			    "no memory for %zu registry values",
			    list->count + 1);
		list->values = grown;
	}
	ret = dfi__registry_value_copy(value, &list->values[list->count]);
	if (!ret)
		list->count++;
	return ret;
}

void dfi__registry_list_free(struct registry_list *list)
{
	size_t i;

	for (i = 0; i < list->count; i++) {
		free(list->values[i].key);
		free(list->values[i].data);
	}
	free(list->values);
	*list = (struct registry_list){ .count = 0 };
}
