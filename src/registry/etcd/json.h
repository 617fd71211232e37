/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of etcd's requests and answers, as JSON. Bytes are base64 there,
 * and 64-bit numbers are texts. A function that returns JSON returns NULL if
 * there is no memory, and takes the references of its arguments, as jansson's
 * functions whose names end in _new do: so calls can be nested.
 */
#ifndef DFI_REGISTRY_ETCD_JSON_H
#define DFI_REGISTRY_ETCD_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes as base64, and back; the caller frees the latter. NULL also: none. */
json_t *dfi__json_bytes(const void *data, size_t size);
void *dfi__json_decode(const json_t *text, size_t *size);

/* A 64-bit number as text; and a member of an object as a number, or 0. */
json_t *dfi__json_number(uint64_t number);
uint64_t dfi__json_get(const json_t *object, const char *member);
/* Item i of a list in an object, or NULL. */
json_t *dfi__json_item(const json_t *object, const char *list, size_t i);

/* Add an item to a list; list NULL: fails. */
json_t *dfi__json_add(json_t *list, json_t *item);

/* Conditions of a transaction. */
json_t *dfi__json_absent(json_t *key);
json_t *dfi__json_present(json_t *key);
json_t *dfi__json_unchanged(json_t *key, uint64_t revision);
/* result is EQUAL, GREATER or LESS. */
json_t *dfi__json_value(json_t *key, const char *result, json_t *value);

/* Operations of a transaction. A range is one key, or those from it to end. */
json_t *dfi__json_one(json_t *key);
json_t *dfi__json_range(json_t *key, json_t *end);
json_t *dfi__json_put(json_t *key, json_t *value, uint64_t lease);
json_t *dfi__json_delete(json_t *key);
json_t *dfi__json_txn(json_t *conditions, json_t *success, json_t *failure);
/* A transaction as an operation of another one. */
json_t *dfi__json_nested(json_t *txn);

/* The transaction that was operation i of another one's success, or NULL. */
json_t *dfi__json_answer(const json_t *answer, size_t i);

/* As text, which the caller frees. Takes the reference. NULL: no memory. */
char *dfi__json_text(json_t *json);

#endif
