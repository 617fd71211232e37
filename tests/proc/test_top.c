/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dfi-info top on a pseudo terminal, whose screen this test emulates as far as
 * a vt100 needs: what it shows of two flows of this process, its keys, another
 * size of the screen, and where it refuses to draw.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dfi/dfi.h>

#define LIMIT_MS 60000
#define MAX_ROWS 24
#define MAX_COLUMNS 100
#define SEGMENT 8
#define RING 8

extern char **environ;

struct kv {
	uint64_t key, val;
};

static struct screen {
	int fd; /* of the terminal */
	pid_t pid;
	int rows, columns, y, x;
	int top, bottom; /* of the rows that scroll */
	char cells[MAX_ROWS][MAX_COLUMNS + 1];
	char escape[32]; /* a sequence that has begun */
	size_t n_escape;
	char raw[8192]; /* all bytes, for texts before the screen */
	size_t n_raw;
} screen;

static struct dfi_registry *registry;
static struct dfi *dfi;
static struct dfi_source *sources[2];
static struct dfi_target *targets[2];
static pthread_t threads[3];
static _Atomic bool stops;

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- Two flows ----------------------------------------------------------- */

static void create(const char *name)
{
	struct dfi_field fields[] = {
		DFI_FIELD(struct kv, key),
		DFI_FIELD(struct kv, val),
	};
	const struct dfi_schema schema = DFI_SCHEMA(struct kv, fields);
	const struct dfi_flow_attr attr = {
		.size = sizeof(attr),
		.kind = DFI_SHUFFLE,
		.schema = &schema,
		.n_sources = 2,
		.n_targets = 2,
		.routing = DFI_ROUTE_DIRECT,
		.segment_size = SEGMENT * (uint32_t)sizeof(struct kv),
		.segment_count = RING,
		.open.membership = DFI_MEMBERS_OPEN,
		.open.on_loss = DFI_ON_LOSS_DROP,
	};

	cr_assert_eq(dfi_flow_create(dfi, name, &attr), 0, "%s", dfi_errmsg());
}

static void *push(void *arg)
{
	struct dfi_source *source = *(struct dfi_source **)arg;
	struct kv kv = { 1, 2 };

	while (!atomic_load(&stops) && dfi_source_push_to(source, 1, &kv) == 0)
		if (kv.key++ % 1000 == 0)
			poll(NULL, 0, 1);
	return NULL;
}

static void *consume(void *arg)
{
	const void *tuple;

	while (dfi_target_consume(targets[0], &tuple) > 0)
		;
	return arg;
}

static void start_flow(int i, const char *name)
{
	create(name);
	cr_assert_eq(dfi_target_open(dfi, name, 1, NULL, &targets[i]), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(dfi_source_open(dfi, name, 0, NULL, &sources[i]), 0, "%s",
	    dfi_errmsg());
	cr_assert_eq(pthread_create(&threads[i], NULL, push, &sources[i]), 0);
}

/* Nobody takes from "stuck", so its source waits. */
static void setup(void)
{
	struct dfi_attr attr = DFI_ATTR_INIT;

	cr_assert_eq(
	    dfi_registry_start(NULL, &registry), 0, "%s", dfi_errmsg());
	attr.registry = dfi_registry_address(registry);
	cr_assert_eq(dfi_open(&attr, &dfi), 0, "%s", dfi_errmsg());
	start_flow(0, "moving");
	start_flow(1, "stuck");
	cr_assert_eq(pthread_create(&threads[2], NULL, consume, NULL), 0);
}

static void teardown(void)
{
	int i;

	atomic_store(&stops, true);
	for (i = 0; i < 2; i++) {
		dfi_source_abort(sources[i]);
		pthread_join(threads[i], NULL);
		(void)dfi_source_close(sources[i]);
	}
	dfi_target_abort(targets[0]);
	pthread_join(threads[2], NULL);
	for (i = 0; i < 2; i++)
		(void)dfi_target_close(targets[i]);
	cr_assert_eq(dfi_close(dfi), 0, "%s", dfi_errmsg());
	cr_assert_eq(dfi_registry_stop(registry), 0);
}

TestSuite(top, .init = setup, .fini = teardown);

/* ---- A terminal ---------------------------------------------------------- */

static void set_size(int rows, int columns)
{
	struct winsize size = {
		.ws_row = (unsigned short)rows,
		.ws_col = (unsigned short)columns,
	};

	screen.rows = rows;
	screen.columns = columns;
	screen.top = 0;
	screen.bottom = rows - 1;
	cr_assert_eq(ioctl(screen.fd, TIOCSWINSZ, &size), 0);
}

static void open_terminal(int rows, int columns)
{
	memset(&screen, 0, sizeof(screen));
	memset(screen.cells, ' ', sizeof(screen.cells));
	screen.fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	cr_assert_geq(screen.fd, 0);
	cr_assert_eq(grantpt(screen.fd), 0);
	cr_assert_eq(unlockpt(screen.fd), 0);
	set_size(rows, columns);
}

/* out: its standard output, or -1: the terminal, which is its own. */
static void start_top(const char *type, int out)
{
	char *argv[] = { (char *)(uintptr_t)DFI_BIN_DIR "/dfi-info", "top",
		"--watch=0.1", "--registry", NULL, NULL };
	posix_spawn_file_actions_t actions;
	char name[64];
	posix_spawnattr_t attr;

	argv[4] = (char *)(uintptr_t)dfi_registry_address(registry);
	cr_assert_eq(ptsname_r(screen.fd, name, sizeof(name)), 0);
	setenv("TERM", type, 1);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, name, O_RDWR, 0);
	posix_spawn_file_actions_adddup2(&actions, out < 0 ? 0 : out, 1);
	posix_spawn_file_actions_adddup2(&actions, 0, 2);
	cr_assert_eq(
	    posix_spawn(&screen.pid, argv[0], &actions, &attr, argv, environ),
	    0);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
}

/* ---- A vt100 ------------------------------------------------------------- */

static void erase(int y, int from, int to)
{
	memset(&screen.cells[y][from], ' ', (size_t)(to - from));
}

static void erase_display(void)
{
	int y;

	erase(screen.y, screen.x, MAX_COLUMNS);
	for (y = screen.y + 1; y < MAX_ROWS; y++)
		erase(y, 0, MAX_COLUMNS);
}

static int within(int value, int most)
{
	return value < 0 ? 0 : value > most ? most : value;
}

static void move_to(int y, int x)
{
	screen.y = within(y, screen.rows - 1);
	screen.x = within(x, screen.columns - 1);
}

/* Move the rows that scroll up, or down, and empty the one that is new. */
static void scroll(bool up)
{
	size_t size = (size_t)(screen.bottom - screen.top) *
	    sizeof(screen.cells[0]);
	char *first = screen.cells[screen.top];
	char *second = first + sizeof(screen.cells[0]);

	memmove(up ? first : second, up ? second : first, size);
	erase(up ? screen.bottom : screen.top, 0, MAX_COLUMNS);
}

static void move_down(void)
{
	if (screen.y == screen.bottom)
		scroll(true);
	else
		move_to(screen.y + 1, screen.x);
}

static void move_up(void)
{
	if (screen.y == screen.top)
		scroll(false);
	else
		move_to(screen.y - 1, screen.x);
}

static void set_margins(int top, int bottom)
{
	screen.top = within(top - 1, screen.rows - 1);
	screen.bottom = within(
	    (bottom ? bottom : screen.rows) - 1, screen.rows - 1);
	move_to(0, 0);
}

/* The end of "ESC [ a ; b". Colours and modes change nothing here. */
static void control(char end, int a, int b)
{
	int n = a ? a : 1;

	if (end == 'H' || end == 'f')
		move_to(n - 1, (b ? b : 1) - 1);
	else if (end == 'A')
		move_to(screen.y - n, screen.x);
	else if (end == 'B')
		move_to(screen.y + n, screen.x);
	else if (end == 'C')
		move_to(screen.y, screen.x + n);
	else if (end == 'D')
		move_to(screen.y, screen.x - n);
	else if (end == 'K')
		erase(screen.y, a == 1 ? 0 : screen.x,
		    a == 1 ? screen.x + 1 : MAX_COLUMNS);
	else if (end == 'J')
		erase_display();
	else if (end == 'r')
		set_margins(n, b);
	else
		cr_assert(strchr("mhl", end), "ESC [ %d ; %d %c", a, b, end);
}

/* Take a byte of a sequence; its last one ends it. */
static void take_escape(char c)
{
	int a = 0, b = 0;

	cr_assert_lt(screen.n_escape, sizeof(screen.escape) - 1);
	screen.escape[screen.n_escape++] = c;
	screen.escape[screen.n_escape] = '\0';
	if (screen.n_escape == 1 || (screen.n_escape == 2 && strchr("[()", c)))
		return;
	if (screen.escape[1] == '[') {
		if (c < '@')
			return;
		(void)sscanf(screen.escape + 2, "%d;%d", &a, &b);
		control(c, a, b);
	} else if (c == 'M') {
		move_up();
	}
	screen.n_escape = 0;
}

static void take_byte(char c)
{
	if (screen.n_escape || c == '\033') {
		take_escape(c);
	} else if (c == '\r') {
		screen.x = 0;
	} else if (c == '\n') {
		move_down();
	} else if (c == '\t') {
		move_to(screen.y, screen.x / 8 * 8 + 8);
	} else if (c == '\b') {
		move_to(screen.y, screen.x - 1);
	} else if (c >= ' ') {
		screen.cells[screen.y][screen.x] = c;
		if (screen.x < screen.columns - 1)
			screen.x++;
	}
}

/* Take what has come; false: the terminal was closed at its other end. */
static bool read_screen(void)
{
	struct pollfd pollfd = { .fd = screen.fd, .events = POLLIN };
	char bytes[512];
	ssize_t n, i;

	poll(&pollfd, 1, 100);
	n = read(screen.fd, bytes, sizeof(bytes));
	for (i = 0; i < n; i++) {
		take_byte(bytes[i]);
		if (screen.n_raw < sizeof(screen.raw) - 1)
			screen.raw[screen.n_raw++] = bytes[i];
	}
	return n > 0 || (n < 0 && errno == EAGAIN);
}

/* The row that has the text, from a row on; or -1. */
static int find_row(int from, const char *text)
{
	char row[MAX_COLUMNS + 1];
	int y;

	for (y = from; y < screen.rows; y++) {
		memcpy(row, screen.cells[y], (size_t)screen.columns);
		row[screen.columns] = '\0';
		if (strstr(row, text))
			return y;
	}
	return -1;
}

static void show_screen(void)
{
	int y;

	for (y = 0; y < screen.rows; y++)
		fprintf(stderr, "|%.*s|\n", screen.columns, screen.cells[y]);
}

/* Wait until a text is in that row; y -1: in any. Returns the row. */
static int await_text(int y, const char *text)
{
	int64_t until = now_ms() + LIMIT_MS;
	int found;

	do {
		found = find_row(y < 0 ? 0 : y, text);
		if (found >= 0 && (y < 0 || found == y))
			return found;
	} while (read_screen() && now_ms() < until);
	show_screen();
	cr_assert(false, "no '%s' in row %d", text, y);
	return -1;
}

static void press(char key)
{
	cr_assert_eq(write(screen.fd, &key, 1), 1);
}

static void end_top(int expected)
{
	int64_t until = now_ms() + LIMIT_MS;
	int status = 0;
	pid_t pid;

	while ((pid = waitpid(screen.pid, &status, WNOHANG)) == 0 &&
	    now_ms() < until)
		(void)read_screen();
	if (!pid)
		kill(screen.pid, SIGKILL);
	cr_assert_eq(pid, screen.pid);
	close(screen.fd);
	cr_assert(WIFEXITED(status));
	cr_assert_eq(WEXITSTATUS(status), expected, "%s", screen.raw);
}

/* ---- Tests --------------------------------------------------------------- */

Test(top, shows_rates_and_who_waits_for_whom)
{
	int moving, stuck;

	open_terminal(24, 80);
	start_top("vt100", -1);
	await_text(0, "2 flows, 1 process ");
	await_text(1, "FLOW");
	await_text(1, "SOURCES TARGETS TUPLES/S BYTES/S  STALL");
	await_text(23, "q quit   s sort: bytes/s");
	await_text(-1, "  source 0 waits ");
	await_text(-1, "s for target 1");
	/* Rates need two looks, and "moving" is first then. */
	await_text(2, "moving ");
	moving = find_row(2, "moving ");
	stuck = await_text(-1, "stuck ");
	cr_assert_lt(moving, stuck);
	press('q');
	end_top(0);
}

Test(top, sorts_when_asked)
{
	open_terminal(24, 80);
	start_top("vt100", -1);
	await_text(23, "sort: bytes/s");
	press('s');
	await_text(23, "sort: tuples/s");
	press('s');
	await_text(23, "sort: waiting");
	await_text(2, "stuck ");
	press('s');
	await_text(23, "sort: name");
	await_text(2, "moving ");
	press('q');
	end_top(0);
}

Test(top, follows_the_size_of_the_terminal)
{
	open_terminal(24, 80);
	start_top("vt100", -1);
	await_text(23, "q quit");
	set_size(12, 40);
	await_text(11, "q quit");
	await_text(1, "FLOW             TUPLES/S BYTES/S  STALL");
	cr_assert_eq(find_row(1, "SOURCES"), -1);
	await_text(-1, "s for target 1");
	set_size(24, 80);
	await_text(23, "q quit");
	await_text(1, "SOURCES");
	press('q');
	end_top(0);
}

Test(top, needs_a_terminal)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
	open_terminal(24, 80);
	start_top("vt100", fds[1]);
	close(fds[1]);
	await_text(0, "standard input or output is none");
	end_top(1);
	close(fds[0]);
}

Test(top, needs_a_terminal_that_can_draw)
{
	open_terminal(24, 80);
	start_top("dumb", -1);
	await_text(0, "TERM is 'dumb'");
	end_top(1);
	open_terminal(24, 80);
	start_top("no-such-type", -1);
	await_text(0, "'no-such-type'");
	end_top(1);
}
