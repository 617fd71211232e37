/* SPDX-License-Identifier: Apache-2.0 */
/* A plan is made when an endpoint opens. Folding reads no schemas or names. */
#include "fold.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/bits.h"
#include "base/error.h"
#include "base/schema.h"
#include "spread.h"

#define WORD sizeof(uint64_t)

static const char *const functions[] = {
	[DFI_COUNT] = "count",
	[DFI_SUM] = "sum",
	[DFI_MIN] = "min",
	[DFI_MAX] = "max",
	[DFI_AVG] = "avg",
};
#define N_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

static bool is_real(uint32_t type)
{
	return type == DFI_FLOAT || type == DFI_DOUBLE;
}

static bool is_number(uint32_t type)
{
	return is_real(type) || dfi__type_is_integer(type);
}

/* ---- The key --------------------------------------------------------------
 */

static int add_key(
    struct plan *plan, const struct dfi_schema *schema, uint32_t key)
{
	const struct dfi_field *field = &schema->fields[key];
	struct plan_column *column = &plan->columns[plan->n_columns];
	uint32_t i;

	if (!dfi__type_is_integer(field->type) && field->type != DFI_BYTES)
		return dfi__fail(-EINVAL,
		    "group_by: field '%s' is neither an integer nor bytes",
		    field->name);
	for (i = 0; i < plan->n_columns; i++)
		if (plan->columns[i].offset == field->offset &&
		    plan->columns[i].size == field->size)
			return dfi__fail(-EINVAL,
			    "group_by: field '%s' comes twice", field->name);
	column->offset = field->offset;
	column->size = field->size;
	column->at = plan->key_words; /* bytes so far */
	plan->key_words += field->size;
	plan->n_columns++;
	return 0;
}

static int add_keys(struct plan *plan, const struct dfi_schema *schema,
    const uint32_t *keys, uint32_t n_keys)
{
	uint32_t i;
	int ret;

	if (n_keys > PLAN_MAX_KEYS)
		return dfi__fail(-EINVAL,
		    "group_by: %u fields are more than %d", n_keys,
		    PLAN_MAX_KEYS);
	for (i = 0; i < n_keys; i++) {
		ret = add_key(plan, schema, keys[i]);
		if (ret < 0)
			return ret;
	}
	/* Without a key, word 0 is zero, so that no accumulator is word 0. */
	plan->key_words = n_keys
	    ? (uint32_t)(align_up(plan->key_words, WORD) / WORD)
	    : 1;
	plan->record_words = plan->key_words;
	return 0;
}

/* ---- Accumulators ---------------------------------------------------------
 */

static uint64_t identity_of(enum fold_kind kind, uint32_t type)
{
	double nan = NAN;
	uint64_t word = 0;

	if (kind != FOLD_MIN && kind != FOLD_MAX)
		return 0;
	if (is_real(type))
		memcpy(&word, &nan, sizeof(word));
	else if (dfi__type_is_signed(type))
		word = kind == FOLD_MIN ? INT64_MAX : (uint64_t)INT64_MIN;
	else
		word = kind == FOLD_MIN ? UINT64_MAX : 0;
	return word;
}

/* Whether the next accumulator extends the last vector. */
static bool continues(
    const struct fold *last, const struct fold *next, uint32_t size)
{
	return last->kind == next->kind && last->type == next->type &&
	    next->kind != FOLD_COUNT && next->kind != FOLD_WIDE &&
	    last->word + last->width == next->word &&
	    last->offset + last->width * size == next->offset;
}

/* Append a field of this size to a list of folds, or widen the last fold. */
static void append(
    struct fold *folds, uint32_t *n, const struct fold *next, uint32_t size)
{
	if (*n && continues(&folds[*n - 1], next, size)) {
		folds[*n - 1].width++;
		return;
	}
	folds[*n] = *next;
	folds[*n].functions = dfi__fold_functions(next);
	(*n)++;
}

/* Add the fold of another record's accumulator into this one. */
static void add_merge(struct plan *plan, const struct fold *fold)
{
	struct fold merge = *fold;

	merge.offset = fold->word * (uint32_t)WORD;
	if (fold->kind == FOLD_COUNT)
		merge.kind = FOLD_SUM;
	if (fold->kind == FOLD_WIDE)
		merge.type = 0;
	else if (is_real(fold->type))
		merge.type = DFI_DOUBLE;
	else if (dfi__type_is_signed(fold->type))
		merge.type = DFI_INT64;
	else
		merge.type = DFI_UINT64;
	append(plan->merges, &plan->n_merges, &merge, WORD);
}

/* Add an accumulator; returns its first word. */
static uint32_t add_accumulator(
    struct plan *plan, enum fold_kind kind, const struct dfi_field *field)
{
	struct fold fold = {
		.kind = kind,
		.type = field ? field->type : 0,
		.offset = field ? field->offset : 0,
		.word = plan->record_words,
		.width = 1,
	};

	plan->identity[fold.word] = identity_of(kind, fold.type);
	plan->record_words += kind == FOLD_WIDE ? 2 : 1;
	append(plan->folds, &plan->n_folds, &fold, field ? field->size : 0);
	add_merge(plan, &fold);
	return fold.word;
}

static uint32_t count_word(struct plan *plan)
{
	if (!plan->count_word)
		plan->count_word = add_accumulator(plan, FOLD_COUNT, NULL);
	return plan->count_word;
}

static int check_aggregate(const struct dfi_schema *schema, uint32_t i,
    const struct dfi_aggregate *aggregate, const struct dfi_field **field)
{
	const char *name = aggregate->field;

	*field = NULL;
	if (!aggregate->function || aggregate->function >= N_FUNCTIONS)
		return dfi__fail(-EINVAL,
		    "aggregate %u: %u is no enum dfi_aggregate_function", i,
		    aggregate->function);
	if (aggregate->flags &&
	    (aggregate->flags != DFI_AGGREGATE_CHECKED ||
		aggregate->function != DFI_SUM))
		return dfi__fail(-EINVAL,
		    "aggregate %u: flags 0x%x: only DFI_AGGREGATE_CHECKED, and "
		    "only with DFI_SUM",
		    i, aggregate->flags);
	if (aggregate->function == DFI_COUNT) {
		if (name)
			return dfi__fail(-EINVAL,
			    "aggregate %u: DFI_COUNT counts tuples: it takes "
			    "no "
			    "field, here '%s'",
			    i, name);
		return 0;
	}
	*field = name ? dfi__schema_field(schema, name, strlen(name)) : NULL;
	if (!*field)
		return dfi__fail(-EINVAL,
		    "aggregate %u: no field is called '%s'", i,
		    name ? name : "");
	if (!is_number((*field)->type))
		return dfi__fail(-EINVAL,
		    "aggregate %u: field '%s' is not a number", i, name);
	if (aggregate->flags && is_real((*field)->type))
		return dfi__fail(-EINVAL,
		    "aggregate %u: DFI_AGGREGATE_CHECKED is for integers, "
		    "and field '%s' is none",
		    i, name);
	return 0;
}

static void add_result(struct plan *plan, const struct dfi_field *field,
    const struct dfi_aggregate *aggregate)
{
	struct plan_result *result = &plan->results[plan->n_results++];
	enum fold_kind kind = FOLD_SUM;

	result->function = aggregate->function;
	result->type = field ? field->type : 0;
	switch (aggregate->function) {
	case DFI_COUNT:
		result->word = count_word(plan);
		return;
	case DFI_MIN:
		kind = FOLD_MIN;
		break;
	case DFI_MAX:
		kind = FOLD_MAX;
		break;
	case DFI_AVG:
		(void)count_word(plan);
		result->wide = !is_real(field->type);
		break;
	default:
		result->wide = aggregate->flags & DFI_AGGREGATE_CHECKED;
		break;
	}
	if (result->wide)
		kind = FOLD_WIDE;
	result->word = add_accumulator(plan, kind, field);
}

/* ---- The schema of results ------------------------------------------------
 */

static uint32_t result_type(const struct plan_result *result)
{
	switch (result->function) {
	case DFI_COUNT:
		return DFI_UINT64;
	case DFI_AVG:
		return DFI_DOUBLE;
	case DFI_SUM:
		if (is_real(result->type))
			return DFI_DOUBLE;
		return dfi__type_is_signed(result->type) ? DFI_INT64
							 : DFI_UINT64;
	default:
		return result->type;
	}
}

static uint32_t size_of(uint32_t type)
{
	switch (type) {
	case DFI_INT8:
	case DFI_UINT8:
		return 1;
	case DFI_INT16:
	case DFI_UINT16:
		return 2;
	case DFI_INT32:
	case DFI_UINT32:
	case DFI_FLOAT:
		return 4;
	default:
		return 8;
	}
}

/* Gives a field its offset, as a compiler does. */
static void set_offset(struct dfi_field *field, uint64_t *size, uint32_t *most)
{
	uint32_t align = field->type == DFI_BYTES ? 1 : field->size;

	*size = align_up(*size, align);
	field->offset = (uint32_t)*size;
	*size += field->size;
	if (align > *most)
		*most = align;
}

static void name_result(const struct dfi_aggregate *aggregate, char *name)
{
	if (aggregate->name)
		snprintf(name, DFI_MAX_FIELD_NAME + 2, "%s", aggregate->name);
	else if (!aggregate->field)
		strcpy(name, functions[aggregate->function]);
	else
		snprintf(name, DFI_MAX_FIELD_NAME + 2, "%s_%s",
		    functions[aggregate->function], aggregate->field);
}

/* Whether the result is the accumulator's word itself. */
static bool is_word(
    const struct plan_result *result, const struct dfi_field *field)
{
	return result->function != DFI_AVG && !result->wide &&
	    field->size == WORD;
}

/* Find neighbouring results that are laid out as their accumulators. */
static void find_runs(struct plan *plan)
{
	const struct dfi_field *field = plan->schema->fields + plan->n_columns;
	struct plan_result *result = plan->results;
	uint32_t i;

	for (i = plan->n_results; i-- > 0;) {
		if (!is_word(&result[i], &field[i]))
			continue;
		result[i].run = 1;
		if (i + 1 < plan->n_results && result[i + 1].run &&
		    result[i + 1].word == result[i].word + 1 &&
		    field[i + 1].offset == field[i].offset + WORD)
			result[i].run += result[i + 1].run;
	}
}

/* Whether a record is its own result; the key's padding is zero. */
static bool are_records(const struct plan *plan)
{
	const struct dfi_field *field = plan->schema->fields;
	const struct plan_result *result = plan->results;
	uint32_t i;

	for (i = 0; i < plan->n_columns; i++, field++)
		if (plan->columns[i].at != field->offset)
			return false;
	for (i = 0; i < plan->n_results; i++, field++, result++)
		if (!is_word(result, field) ||
		    result->word * WORD != field->offset)
			return false;
	return plan->schema->tuple_size == plan->record_words * WORD;
}

static int make_schema(struct plan *plan, const struct dfi_schema *schema,
    const uint32_t *keys, const struct dfi_aggregate *aggregates)
{
	static struct dfi_field none;
	uint32_t n = plan->n_columns + plan->n_results, i, most = 1;
	struct dfi_field *fields = calloc(n, sizeof(*fields)), *field = fields;
	/* One byte more than the longest name, to detect longer ones. */
	char(*names)[DFI_MAX_FIELD_NAME + 2] = calloc(
	    plan->n_results, sizeof(*names));
	struct dfi_schema results = { fields ? fields : &none, n, 0 };
	uint64_t size = 0;
	int ret = 0;

	if (!fields || !names) {
		ret = dfi__fail(-ENOMEM, "no memory for a schema of results");
		goto out;
	}
	for (i = 0; i < plan->n_columns; i++, field++) {
		*field = schema->fields[keys[i]];
		set_offset(field, &size, &most);
	}
	for (i = 0; i < plan->n_results; i++, field++) {
		name_result(&aggregates[i], names[i]);
		field->name = names[i];
		field->type = result_type(&plan->results[i]);
		field->size = size_of(field->type);
		set_offset(field, &size, &most);
	}
	results.tuple_size = (uint32_t)align_up(size, most);
	ret = dfi__schema_check(&results);
	if (ret < 0) {
		dfi__fail_within(ret, "the results of group_by and aggregates");
		goto out;
	}
	plan->schema = dfi__schema_copy(&results);
	if (!plan->schema) {
		ret = dfi__fail(-ENOMEM, "no memory for a schema of results");
		goto out;
	}
	find_runs(plan);
	plan->results_are_records = are_records(plan);
out:
	free(names);
	free(fields);
	return ret;
}

/* ---- All of it ------------------------------------------------------------
 */

static int make(struct plan *plan, const struct dfi_schema *schema,
    const uint32_t *keys, uint32_t n_keys,
    const struct dfi_aggregate *aggregates, uint32_t n_aggregates)
{
	const struct dfi_field *field;
	uint32_t i;
	int ret;

	ret = dfi__spread_draw(&plan->factor);
	if (ret < 0)
		return ret;
	plan->tuple_size = schema->tuple_size;
	ret = add_keys(plan, schema, keys, n_keys);
	if (ret < 0)
		return ret;
	/* Each aggregate has at most two words, and all share one count. */
	plan->folds = calloc(n_aggregates + 1, sizeof(*plan->folds));
	plan->merges = calloc(n_aggregates + 1, sizeof(*plan->merges));
	plan->results = calloc(n_aggregates, sizeof(*plan->results));
	plan->identity = calloc(
	    plan->key_words + 2 * n_aggregates + 1, sizeof(uint64_t));
	if (!plan->folds || !plan->merges || !plan->results || !plan->identity)
		return dfi__fail(
		    -ENOMEM, "no memory for %u aggregates", n_aggregates);
	for (i = 0; i < n_aggregates; i++) {
		ret = check_aggregate(schema, i, &aggregates[i], &field);
		if (ret < 0)
			return ret;
		add_result(plan, field, &aggregates[i]);
	}
	return make_schema(plan, schema, keys, aggregates);
}

int dfi__plan_new(const struct dfi_schema *schema, const uint32_t *keys,
    uint32_t n_keys, const struct dfi_aggregate *aggregates,
    uint32_t n_aggregates, struct plan **out)
{
	struct plan *plan;
	int ret;

	if (!aggregates || !n_aggregates)
		return dfi__fail(-EINVAL, "no aggregates are given");
	if (n_aggregates > DFI_MAX_AGGREGATES)
		return dfi__fail(-EINVAL, "%u aggregates are more than %d",
		    n_aggregates, DFI_MAX_AGGREGATES);
	plan = calloc(1, sizeof(*plan));
	if (!plan)
		return dfi__fail(-ENOMEM, "no memory for aggregates");
	ret = make(plan, schema, keys, n_keys, aggregates, n_aggregates);
	if (ret < 0) {
		dfi__plan_free(plan);
		return ret;
	}
	*out = plan;
	return 0;
}

void dfi__plan_free(struct plan *plan)
{
	if (!plan)
		return;
	free(plan->schema);
	free(plan->results);
	free(plan->identity);
	free(plan->merges);
	free(plan->folds);
	free(plan);
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

static char *put_text(char *to, const char **text)
{
	size_t size = text_size(*text);

	if (!size)
		return to;
	memcpy(to, *text, size);
	*text = to;
	return to + size;
}

struct dfi_aggregate *dfi__aggregates_copy(
    const struct dfi_aggregate *aggregates, uint32_t n)
{
	size_t size = n * sizeof(*aggregates);
	struct dfi_aggregate *copy;
	char *texts;
	uint32_t i;

	for (i = 0; i < n; i++)
		size += text_size(aggregates[i].field) +
		    text_size(aggregates[i].name);
	copy = malloc(size);
	if (!copy)
		return NULL;
	memcpy(copy, aggregates, n * sizeof(*aggregates));
	texts = (char *)&copy[n];
	for (i = 0; i < n; i++) {
		texts = put_text(texts, &copy[i].field);
		texts = put_text(texts, &copy[i].name);
	}
	return copy;
}
