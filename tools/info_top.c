/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-info top: a screen of the flows of a registry, which it draws again every
 * second: rates, how long endpoints stand still, and who waits for whom. The
 * counters are those of "stat"; endpoints of other hosts do not answer.
 */
#include <curses.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/complain.h"
#include "info.h"

#define NS_PER_S 1e9
#define MAX_LINE 256
/* A line below a flow for each of those that wait longest. */
#define MAX_WAITERS 8

struct waiter {
	uint32_t role, index, waits_for;
	uint64_t ns;
};

struct flow_row {
	char name[DFI_MAX_FLOW_NAME + 1];
	uint64_t instance;
	uint32_t n_sources, n_targets;
	/* Per second, sent, or taken if no source answers. */
	double sent[2], taken[2]; /* tuples and bytes */
	double stalled;           /* seconds of waiting of all endpoints */
	struct waiter waiters[MAX_WAITERS]; /* the longest first */
	uint32_t n_waiters, n_waiting;
	/* Of an open flow: as in dfi_endpoint_stats, of all that answer. */
	uint64_t epoch, dropped, evictions;
	uint32_t n_partitions, n_moving;
};

enum sort_key {
	BY_BYTES,
	BY_TUPLES,
	BY_WAIT,
	BY_NAME,
	N_SORTS,
};

static const char *const sorts[] = { "bytes/s", "tuples/s", "waiting", "name" };

/* One look at all processes. */
struct look {
	struct flow_row *rows;
	size_t n, room;
	uint32_t n_nodes, n_unanswered;
	double seconds; /* since the look before; 0: there was none */
	bool no_memory;
};

struct screen {
	struct look look;
	enum sort_key sort;
	const char *registry;
	double period;
};

/* ---- Counters ------------------------------------------------------------ */

static double seconds_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / NS_PER_S;
}

static struct flow_row *row_of(
    struct look *look, const struct dfi_endpoint_stats *stats)
{
	struct flow_row *rows;
	size_t i;

	for (i = 0; i < look->n; i++)
		if (look->rows[i].instance == stats->instance)
			return &look->rows[i];
	if (look->n == look->room) {
		rows = reallocarray(
		    look->rows, look->room * 2 + 16, sizeof(*rows));
		if (!rows)
			return NULL;
		look->rows = rows;
		look->room = look->room * 2 + 16;
	}
	look->rows[look->n] = (struct flow_row){ .instance = stats->instance };
	memcpy(look->rows[look->n].name, stats->flow, sizeof(stats->flow));
	return &look->rows[look->n++];
}

static void add_waiter(
    struct flow_row *row, const struct dfi_endpoint_stats *stats)
{
	uint32_t i;

	row->n_waiting++;
	for (i = row->n_waiters;
	     i > 0 && row->waiters[i - 1].ns < stats->waiting_ns; i--)
		if (i < MAX_WAITERS)
			row->waiters[i] = row->waiters[i - 1];
	if (i == MAX_WAITERS)
		return;
	row->waiters[i] = (struct waiter){
		.role = stats->role,
		.index = stats->index,
		.waits_for = stats->waits_for,
		.ns = stats->waiting_ns,
	};
	if (row->n_waiters < MAX_WAITERS)
		row->n_waiters++;
}

static void add_rates(
    struct look *look, struct flow_row *row, const struct info_sample *sample)
{
	const struct info_sample *old = info_sample_before(sample);
	double *rate = info_sends(sample->role) ? row->sent : row->taken;

	if (!old || look->seconds <= 0)
		return;
	rate[0] += (double)(int64_t)(sample->tuples - old->tuples) /
	    look->seconds;
	rate[1] += (double)(int64_t)(sample->bytes - old->bytes) /
	    look->seconds;
	row->stalled += (double)(int64_t)(sample->stall_ns - old->stall_ns) /
	    NS_PER_S;
}

/* Each partition that moves is counted by both of its owners. */
static void add_member(
    struct flow_row *row, const struct dfi_endpoint_stats *stats)
{
	if (stats->epoch > row->epoch)
		row->epoch = stats->epoch;
	row->dropped += stats->dropped;
	row->evictions += stats->evictions;
	row->n_partitions += stats->n_partitions;
	row->n_moving += stats->n_moving;
}

/* A ring's counters are within those of its endpoint. */
static void add_endpoint(
    struct look *look, uint64_t node, const struct dfi_endpoint_stats *stats)
{
	struct info_sample sample = info_sample(node, stats);
	struct flow_row *row;

	if (stats->peer)
		return;
	row = row_of(look, stats);
	if (!row) {
		look->no_memory = true;
		return;
	}
	if (info_sends(stats->role))
		row->n_sources++;
	else
		row->n_targets++;
	/* The wait in progress counts when it is over, in the library. */
	sample.stall_ns += stats->waiting_ns;
	add_rates(look, row, &sample);
	add_member(row, stats);
	info_sample_keep(&sample);
	if (stats->waiting_ns)
		add_waiter(row, stats);
}

static int add_node(void *arg, const struct dfi_node_stats *stats)
{
	struct look *look = arg;
	uint32_t i;

	if (stats->node.is_own)
		return 0;
	look->n_nodes++;
	look->n_unanswered += stats->error != NULL;
	for (i = 0; !stats->error && i < stats->n_endpoints; i++)
		add_endpoint(look, stats->node.id, &stats->endpoints[i]);
	return 0;
}

static int look_again(struct dfi *dfi, struct look *look)
{
	static double last;
	double before = last;
	int ret;

	look->n = look->n_nodes = look->n_unanswered = 0;
	last = seconds_now();
	look->seconds = before > 0 ? last - before : 0;
	info_samples_next();
	ret = dfi_stats_list(dfi, add_node, look);
	return !ret && look->no_memory ? NO_JSON : ret;
}

/* ---- Order --------------------------------------------------------------- */

/* What a flow moves, whoever of it answers. */
static double rate_of(const struct flow_row *row, int unit)
{
	return row->n_sources ? row->sent[unit] : row->taken[unit];
}

static double measure(const struct flow_row *row, enum sort_key key)
{
	if (key == BY_WAIT)
		return row->n_waiters ? (double)row->waiters[0].ns : 0;
	return rate_of(row, key == BY_BYTES);
}

static enum sort_key sort_key;

static int compare(const void *a, const void *b)
{
	const struct flow_row *left = a, *right = b;
	double of_left, of_right;

	if (sort_key != BY_NAME) {
		of_left = measure(left, sort_key);
		of_right = measure(right, sort_key);
		if (of_left < of_right || of_left > of_right)
			return of_left > of_right ? -1 : 1;
	}
	return strcmp(left->name, right->name);
}

/* ---- The screen ---------------------------------------------------------- */

/* "999", "12.3k", "4.56M": five characters at most. */
static void format_rate(double rate, char *text, size_t size)
{
	static const char units[] = " kMGTP";
	size_t unit = 0;

	if (rate < 0)
		rate = 0;
	while (rate >= 999.5 && unit < sizeof(units) - 2) {
		rate /= 1000;
		unit++;
	}
	if (!unit)
		snprintf(text, size, "%.0f", rate);
	else
		snprintf(text, size, "%.*f%c",
		    rate < 9.995       ? 2
			: rate < 99.95 ? 1
				       : 0,
		    rate, units[unit]);
}

/* Cut at the right edge; a row below the screen is none. */
static void put(int y, const char *text)
{
	if (y < LINES)
		mvaddnstr(y, 0, text, COLS);
}

static void put_reversed(int y, const char *text)
{
	char line[MAX_LINE];

	snprintf(line, sizeof(line), "%-*.*s", COLS < MAX_LINE ? COLS : 255,
	    COLS < MAX_LINE ? COLS : 255, text);
	attron(A_REVERSE);
	put(y, line);
	attroff(A_REVERSE);
}

/* Narrow screens have no columns for the numbers of endpoints. */
static bool is_wide(void)
{
	return COLS >= 60;
}

static int name_width(void)
{
	int rest = COLS - (is_wide() ? 39 : 24);

	return rest < 8 ? 8 : rest > 60 ? 60 : rest;
}

static void put_columns(int y)
{
	char line[MAX_LINE];
	int used = snprintf(line, sizeof(line), "%-*s", name_width(), "FLOW");

	if (is_wide())
		used += snprintf(line + used, sizeof(line) - (size_t)used,
		    "%7s%7s", "SOURCES", " TARGETS");
	snprintf(line + used, sizeof(line) - (size_t)used, "%9s%8s%7s",
	    "TUPLES/S", "BYTES/S", "STALL");
	put_reversed(y, line);
}

/* The last line of the log, which would disturb the screen. */
static char log_line[MAX_LINE];
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_log(void *arg, enum dfi_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	pthread_mutex_lock(&log_lock);
	escape_text(log_line, sizeof(log_line), line);
	pthread_mutex_unlock(&log_lock);
}

/* Share of the endpoints' time that they waited. */
static double stall_percent(const struct look *look, const struct flow_row *row)
{
	double whole = look->seconds * (row->n_sources + row->n_targets);
	double percent = whole > 0 ? 100 * row->stalled / whole : 0;

	return percent < 0 ? 0 : percent > 100 ? 100 : percent;
}

static void put_flow(int y, const struct look *look, const struct flow_row *row)
{
	char line[MAX_LINE], tuples[16], bytes[16];
	int used = snprintf(line, sizeof(line), "%-*.*s", name_width(),
	    name_width() - 1, row->name);

	format_rate(rate_of(row, 0), tuples, sizeof(tuples));
	format_rate(rate_of(row, 1), bytes, sizeof(bytes));
	if (is_wide())
		used += snprintf(line + used, sizeof(line) - (size_t)used,
		    "%7u%8u", row->n_sources, row->n_targets);
	snprintf(line + used, sizeof(line) - (size_t)used, "%8s%8s%6.0f%%",
	    look->seconds > 0 ? tuples : "-", look->seconds > 0 ? bytes : "-",
	    stall_percent(look, row));
	put(y, line);
}

static void put_waiter(int y, const struct waiter *waiter)
{
	static const char *const roles[] = { "?", "source", "target",
		"combiner", "combiner" };
	char line[MAX_LINE];
	int used = snprintf(line, sizeof(line), "  %s %u waits %.1f s for ",
	    roles[waiter->role < 5 ? waiter->role : 0], waiter->index,
	    (double)waiter->ns / NS_PER_S);

	if (!info_sends(waiter->role))
		snprintf(line + used, sizeof(line) - (size_t)used, "data");
	else if (waiter->waits_for == UINT32_MAX)
		snprintf(
		    line + used, sizeof(line) - (size_t)used, "any target");
	else
		snprintf(line + used, sizeof(line) - (size_t)used, "target %u",
		    waiter->waits_for);
	put(y, line);
}

/* "  epoch 7, 64 partitions; evictions: 2; tuples dropped: 120"; or false. */
static bool format_open(const struct flow_row *row, char *line, size_t size)
{
	size_t used = 0;

	if (row->epoch)
		used = (size_t)snprintf(line, size,
		    "  epoch %" PRIu64 ", %u partitions", row->epoch,
		    row->n_partitions);
	if (row->n_moving)
		used += (size_t)snprintf(line + used, size - used,
		    ", to be taken or released: %u", row->n_moving);
	if (row->evictions)
		used += (size_t)snprintf(line + used, size - used,
		    "%s evictions: %" PRIu64, used ? ";" : " ", row->evictions);
	if (row->dropped)
		used += (size_t)snprintf(line + used, size - used,
		    "%s tuples dropped: %" PRIu64, used ? ";" : " ",
		    row->dropped);
	return used != 0;
}

static int put_row(int y, const struct look *look, const struct flow_row *row)
{
	char line[MAX_LINE];
	uint32_t i;

	put_flow(y++, look, row);
	if (format_open(row, line, sizeof(line)))
		put(y++, line);
	for (i = 0; i < row->n_waiters; i++)
		put_waiter(y++, &row->waiters[i]);
	if (row->n_waiting > row->n_waiters) {
		snprintf(line, sizeof(line), "  and %u more wait",
		    row->n_waiting - row->n_waiters);
		put(y++, line);
	}
	return y;
}

static void draw(const struct screen *screen)
{
	const struct look *look = &screen->look;
	char line[MAX_LINE], registry[128];
	size_t i;
	int y = 2;

	erase();
	snprintf(line, sizeof(line), "%zu flow%s, %u process%s", look->n,
	    look->n == 1 ? "" : "s", look->n_nodes,
	    look->n_nodes == 1 ? "" : "es");
	if (look->n_unanswered)
		snprintf(line + strlen(line), sizeof(line) - strlen(line),
		    ", %u without counters", look->n_unanswered);
	snprintf(line + strlen(line), sizeof(line) - strlen(line), "  %s",
	    escape_text(registry, sizeof(registry), screen->registry));
	put(0, line);
	put_columns(1);
	for (i = 0; i < look->n && y < LINES - 1; i++)
		y = put_row(y, look, &look->rows[i]);
	if (!look->n)
		put(2, "no process of this host has a flow open");
	pthread_mutex_lock(&log_lock);
	snprintf(line, sizeof(line), "q quit   s sort: %s   %.*s",
	    sorts[screen->sort], MAX_LINE / 2, log_line);
	pthread_mutex_unlock(&log_lock);
	move(LINES - 1, 0);
	clrtoeol();
	put_reversed(LINES - 1, line);
	refresh();
}

static void sort_rows(struct screen *screen)
{
	sort_key = screen->sort;
	if (screen->look.n)
		qsort(screen->look.rows, screen->look.n,
		    sizeof(screen->look.rows[0]), compare);
}

/* Until the next look is due; false: the user quits. */
static bool serve_keys(struct screen *screen)
{
	double due = seconds_now() + screen->period, rest;
	int key;

	while ((rest = due - seconds_now()) > 0) {
		timeout((int)ceil(rest * 1000));
		key = getch();
		if (key == 'q' || key == 'Q')
			return false;
		if (key == 's') {
			screen->sort = (screen->sort + 1) % N_SORTS;
			sort_rows(screen);
		}
		if (key == 's' || key == KEY_RESIZE)
			draw(screen);
	}
	return true;
}

bool info_top_has_screen(void)
{
	const char *type = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		complain("top draws on a terminal, and standard input or "
			 "output is none: use 'stat --watch'");
	else if (!type || !*type || !strcmp(type, "dumb"))
		complain("top draws on a terminal that can move its cursor, "
			 "and TERM is '%s': use 'stat --watch'",
		    type ? type : "");
	else
		return true;
	return false;
}

int info_top(struct dfi *dfi, const char *registry, double seconds)
{
	struct screen screen = { .registry = registry, .period = seconds };
	/* Standard output is checked (output.h), and has no descriptor. */
	FILE *out = fdopen(dup(STDOUT_FILENO), "w");
	SCREEN *terminal = out ? newterm(NULL, out, stdin) : NULL;
	int ret;

	if (!terminal) {
		complain("top: nothing is known of terminals of the type '%s' "
			 "(TERM): use 'stat --watch'",
		    getenv("TERM"));
		return EXIT_FAILURE;
	}
	dfi_log_set(DFI_LOG_WARN, keep_log, NULL);
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	do {
		ret = look_again(dfi, &screen.look);
		if (ret)
			break;
		sort_rows(&screen);
		draw(&screen);
	} while (serve_keys(&screen));
	endwin();
	dfi_log_set(DFI_LOG_WARN, NULL, NULL);
	delscreen(terminal);
	fclose(out);
	free(screen.look.rows);
	if (ret)
		complain("%s", ret == NO_JSON ? "out of memory" : dfi_errmsg());
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
