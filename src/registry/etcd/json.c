/* SPDX-License-Identifier: Apache-2.0 */
/* See json.h. */
#include "json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "abcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *dfi__json_bytes(const void *data, size_t size)
{
	const unsigned char *from = data;
	char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;
	json_t *json;
	uint32_t bits;
	size_t i, n;

	if (!text)
		return NULL;
	for (i = 0; i < size; i += 3) {
		n = size - i;
		bits = (uint32_t)from[i] << 16;
		bits |= n > 1 ? (uint32_t)from[i + 1] << 8 : 0;
		bits |= n > 2 ? from[i + 2] : 0;
		*to++ = digits[bits >> 18];
		*to++ = digits[bits >> 12 & 63];
		*to++ = n > 1 ? digits[bits >> 6 & 63] : '=';
		*to++ = n > 2 ? digits[bits & 63] : '=';
	}
	json = json_stringn_nocheck(text, (size_t)(to - text));
	free(text);
	return json;
}

static bool digit(char c, uint32_t *value)
{
	const char *at = c ? strchr(digits, c) : NULL;

	if (at)
		*value = (uint32_t)(at - digits);
	return at != NULL;
}

void *dfi__json_decode(const json_t *text, size_t *size)
{
	const char *from = json_string_value(text);
	size_t i, n = json_string_length(text), bits = 0;
	unsigned char *data = malloc(n / 4 * 3 + 1), *to = data;
	uint32_t value = 0, word = 0;

	*size = 0;
	if (!data)
		return NULL;
	for (i = 0; i < n && from[i] != '='; i++) {
		if (n % 4 || !digit(from[i], &value)) {
			free(data);
			return NULL;
		}
		word = word << 6 | value;
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			*to++ = (unsigned char)(word >> bits);
		}
	}
	*to = '\0';
	*size = (size_t)(to - data);
	return data;
}

json_t *dfi__json_number(uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	return json_string(text);
}

/* etcd's numbers are signed; a lease is never negative here. */
uint64_t dfi__json_get(const json_t *object, const char *member)
{
	const json_t *value = json_object_get(object, member);

	if (json_is_integer(value))
		return (uint64_t)json_integer_value(value);
	return json_is_string(value)
	    ? strtoull(json_string_value(value), NULL, 10)
	    : 0;
}

json_t *dfi__json_item(const json_t *object, const char *list, size_t i)
{
	return json_array_get(json_object_get(object, list), i);
}

json_t *dfi__json_add(json_t *list, json_t *item)
{
	if (!list || !item || json_array_append_new(list, item)) {
		if (!list)
			json_decref(item);
		json_decref(list);
		return NULL;
	}
	return list;
}

/* Set a member of an object, unless value is NULL: that is a failure. */
static json_t *with(json_t *object, const char *member, json_t *value)
{
	if (!object || !value || json_object_set_new(object, member, value)) {
		if (!object)
			json_decref(value);
		json_decref(object);
		return NULL;
	}
	return object;
}

static json_t *condition(const char *target, const char *result, json_t *key,
    const char *member, json_t *value)
{
	json_t *object = json_object();

	object = with(object, "target", json_string(target));
	object = with(object, "result", json_string(result));
	object = with(object, "key", key);
	return with(object, member, value);
}

json_t *dfi__json_absent(json_t *key)
{
	return condition(
	    "CREATE", "EQUAL", key, "create_revision", dfi__json_number(0));
}

json_t *dfi__json_present(json_t *key)
{
	return condition(
	    "CREATE", "GREATER", key, "create_revision", dfi__json_number(0));
}

json_t *dfi__json_unchanged(json_t *key, uint64_t revision)
{
	return condition(
	    "MOD", "EQUAL", key, "mod_revision", dfi__json_number(revision));
}

json_t *dfi__json_value(json_t *key, const char *result, json_t *value)
{
	return condition("VALUE", result, key, "value", value);
}

static json_t *operation(const char *name, json_t *value)
{
	return with(json_object(), name, value);
}

json_t *dfi__json_one(json_t *key)
{
	return operation("request_range", with(json_object(), "key", key));
}

json_t *dfi__json_range(json_t *key, json_t *end)
{
	json_t *range = with(json_object(), "key", key);

	return operation("request_range", with(range, "range_end", end));
}

json_t *dfi__json_put(json_t *key, json_t *value, uint64_t lease)
{
	json_t *put = with(json_object(), "key", key);

	put = with(put, "value", value);
	if (lease)
		put = with(put, "lease", dfi__json_number(lease));
	return operation("request_put", put);
}

json_t *dfi__json_delete(json_t *key)
{
	return operation(
	    "request_delete_range", with(json_object(), "key", key));
}

json_t *dfi__json_txn(json_t *conditions, json_t *success, json_t *failure)
{
	json_t *txn = with(json_object(), "compare", conditions);

	txn = with(txn, "success", success);
	return with(txn, "failure", failure);
}

json_t *dfi__json_nested(json_t *txn)
{
	return operation("request_txn", txn);
}

json_t *dfi__json_answer(const json_t *answer, size_t i)
{
	return json_object_get(
	    dfi__json_item(answer, "responses", i), "response_txn");
}

char *dfi__json_text(json_t *json)
{
	char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;

	json_decref(json);
	return text;
}
