/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line for each combination of the members that name lines, with a dashed one
 * of the same colour for its baseline. gnuplot gets its commands as a file, so
 * that it needs no pipe that it could leave.
 */
#include "figure.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/children.h"
#include "../common/complain.h"
#include "claims.h"
#include "labels.h"

#define MAX_LINES 12
#define LABEL_SIZE 128

/* They can be told apart on white and on black, and mostly without colours. */
static const char *const colours[] = { "#1f83c9", "#d9661f", "#2f9e5b",
	"#b04fc4", "#c2a100", "#d64573", "#6b7a8f", "#00a3a3" };

#define N_COLOURS (sizeof(colours) / sizeof(colours[0]))

/* Stands for the colour of text; replaced in gnuplot's output. */
#define INK "#010101"

bool figure_can_draw(void)
{
	char *path = getenv("PATH"), *copy, *folder, *rest, name[4096];
	bool found = false;

	copy = path ? strdup(path) : NULL;
	for (folder = copy ? strtok_r(copy, ":", &rest) : NULL;
	     folder && !found; folder = strtok_r(NULL, ":", &rest)) {
		snprintf(name, sizeof(name), "%s/gnuplot", folder);
		found = access(name, X_OK) == 0;
	}
	free(copy);
	return found;
}

struct lines {
	const struct figure *figure;
	char labels[MAX_LINES][LABEL_SIZE];
	uint32_t n;
	bool baselines; /* rows have them */
};

/* Replace what would end a text in gnuplot's language. */
static void make_plain(char *text)
{
	for (; *text; text++)
		if (*text == '\'' || *text == '\\' || (uint8_t)*text < ' ')
			*text = ' ';
}

static bool is_drawn(const struct figure *figure, const json_t *row)
{
	return (!figure->rows || claim_selects(figure->rows, row)) &&
	    json_is_integer(json_object_get(row, figure->x)) &&
	    json_is_number(json_object_get(row, figure->y));
}

/* The number of a row's line; MAX_LINES: it is not drawn. */
static uint32_t line_of(struct lines *lines, const json_t *row)
{
	char label[LABEL_SIZE];
	uint32_t i;

	if (!is_drawn(lines->figure, row))
		return MAX_LINES;
	label_row(row, lines->figure->lines, label, sizeof(label));
	make_plain(label);
	for (i = 0; i < lines->n; i++)
		if (strcmp(lines->labels[i], label) == 0)
			return i;
	if (i < MAX_LINES)
		memcpy(lines->labels[lines->n++], label, sizeof(label));
	return i;
}

/* The data of one line: x, y, and its baseline or NaN. */
static void write_line(
    FILE *file, struct lines *lines, const json_t *rows, uint32_t line)
{
	const json_t *row, *baseline;
	size_t i;

	fprintf(file, "$line%u << END\n", line);
	json_array_foreach(rows, i, row)
	{
		if (line_of(lines, row) != line)
			continue;
		baseline = strcmp(lines->figure->y, "value") == 0
		    ? json_object_get(row, "baseline_value")
		    : NULL;
		fprintf(file, "%" JSON_INTEGER_FORMAT " %.9g ",
		    json_integer_value(json_object_get(row, lines->figure->x)),
		    json_number_value(json_object_get(row, lines->figure->y)));
		if (json_is_number(baseline)) {
			fprintf(file, "%.9g\n", json_number_value(baseline));
			lines->baselines = true;
		} else {
			fputs("NaN\n", file);
		}
	}
	fputs("END\n", file);
}

/* A mark for each value of x, as people write it. */
static void write_marks(
    FILE *file, const struct figure *figure, const json_t *rows)
{
	const json_t *row, *x;
	const char *comma = "";
	char label[32];
	size_t i;

	fputs("set xtics (", file);
	json_array_foreach(rows, i, row)
	{
		x = json_object_get(row, figure->x);
		if (!is_drawn(figure, row))
			continue;
		label_number(figure->x, json_integer_value(x), false, label,
		    sizeof(label));
		fprintf(file, "%s'%s' %" JSON_INTEGER_FORMAT, comma, label,
		    json_integer_value(x));
		comma = ", ";
	}
	fputs(")\n", file);
}

static void write_plot(FILE *file, const struct lines *lines)
{
	/* Filled marks first: circle, square, triangle, rhomb, other triangle.
	 */
	static const int marks[] = { 7, 5, 9, 13, 11, 6, 4, 8 };
	const char *colour;
	uint32_t i;

	for (i = 0; i < lines->n; i++) {
		colour = colours[i % N_COLOURS];
		fprintf(file,
		    "%s $line%u using 1:2 with linespoints lc rgb '%s' lw 2 "
		    "pt %d ps 0.6 title '%s'",
		    i ? "," : "plot", i, colour, marks[i % N_COLOURS],
		    lines->labels[i]);
		if (lines->baselines)
			fprintf(file,
			    ", $line%u using 1:3 with lines lc rgb '%s' lw "
			    "1.5 dt 2 notitle",
			    i, colour);
	}
	fputs("\n", file);
}

/* The height that the names of all lines need below the drawing. */
static unsigned key_height(const struct lines *lines)
{
	size_t longest = 1, columns;
	uint32_t i;

	for (i = 0; i < lines->n; i++)
		if (strlen(lines->labels[i]) > longest)
			longest = strlen(lines->labels[i]);
	columns = 48 / (longest + 6);
	if (columns < 1)
		columns = 1;
	return (unsigned)((lines->n + columns - 1) / columns) * 20;
}

static void write_commands(FILE *file, const struct figure *figure,
    struct lines *lines, const json_t *rows)
{
	uint32_t i;

	fprintf(file,
	    "set terminal svg size 480,%u dynamic font 'sans-serif,14' "
	    "noenhanced\n"
	    "set border 3 lc rgb '" INK "'\n"
	    "set grid y lc rgb '#8a8f98' lt 1 lw 0.4\n"
	    "set tics nomirror textcolor rgb '" INK "'\n"
	    "set key outside bottom center horizontal textcolor rgb '" INK "'\n"
	    "set xlabel '%s' offset 0,0.4 textcolor rgb '" INK "'\n"
	    "set ylabel '%s' textcolor rgb '" INK "'\n"
	    "set logscale x 2\nset offsets graph 0.04, graph 0.04, 0, 0\n%s",
	    310 + key_height(lines), figure->x_title, figure->y_title,
	    figure->log_y ? "set logscale y 10\n" : "set yrange [0:*]\n");
	write_marks(file, figure, rows);
	for (i = 0; i < lines->n; i++)
		write_line(file, lines, rows, i);
	write_plot(file, lines);
}

/* The files of one drawing. */
struct drawing {
	FILE *commands, *svg;
};

static int run_gnuplot(void *arg)
{
	struct drawing *drawing = arg;

	if (dup2(fileno(drawing->commands), STDIN_FILENO) < 0 ||
	    dup2(fileno(drawing->svg), STDOUT_FILENO) < 0)
		return 1;
	execlp("gnuplot", "gnuplot", "-", (char *)NULL);
	complain("cannot start gnuplot: %s", strerror(errno));
	return 1;
}

/* Returns all of a file, to free; NULL with errno. */
static char *read_whole(FILE *file)
{
	char *text;
	long size;

	if (fseek(file, 0, SEEK_END) < 0 || (size = ftell(file)) < 0)
		return NULL;
	rewind(file);
	text = calloc(1, (size_t)size + 1);
	if (text && fread(text, 1, (size_t)size, file) != (size_t)size) {
		free(text);
		return NULL;
	}
	return text;
}

/* What replaces parts of gnuplot's output. */
static const struct {
	const char *from, *to;
} changes[] = {
	/* The colour of text, also where gnuplot chose black. */
	{ "rgb(  1,   1,   1)", "currentColor" },
	{ "rgb(1,1,1)", "currentColor" },
	{ " color=\"black\"", "" },
	{ " color=\"white\"", "" },
	/* Browsers show the title beside the pointer. */
	{ "<title>Gnuplot</title>\n", "" },
	/* As a file of its own; in a page, the page's colours win. */
	{ "<g id=\"gnuplot_canvas\">",
	    "<style>svg:root{color:#1c1e21}@media(prefers-color-scheme:dark)"
	    "{svg:root{color:#e4e6ea}}</style>\n<g>" },
};

#define N_CHANGES (sizeof(changes) / sizeof(changes[0]))

/* Returns text with all changes, to free; NULL: no memory. */
static char *change(const char *text)
{
	char *changed = NULL;
	size_t size, i, length;
	FILE *file = open_memstream(&changed, &size);

	if (!file)
		return NULL;
	while (*text) {
		for (i = 0; i < N_CHANGES; i++) {
			length = strlen(changes[i].from);
			if (strncmp(text, changes[i].from, length) == 0)
				break;
		}
		if (i < N_CHANGES) {
			fputs(changes[i].to, file);
			text += length;
		} else {
			fputc(*text++, file);
		}
	}
	return fclose(file) ? NULL : changed;
}

/* Run gnuplot. Returns SVG text from its root element on, to free. */
static char *draw(struct drawing *drawing)
{
	struct children children = { 0 };
	char *text, *svg = NULL, *root;

	rewind(drawing->commands);
	if (children_fork(&children, "gnuplot", run_gnuplot, drawing) ||
	    children_end(&children, 60000))
		return NULL;
	text = read_whole(drawing->svg);
	root = text ? strstr(text, "<svg") : NULL;
	if (root && strstr(root, "</svg>"))
		svg = change(root);
	else
		complain("gnuplot has drawn nothing");
	free(text);
	return svg;
}

/* Whether rows lie at different places of the horizontal axis. */
static bool is_a_line(const struct figure *figure, const json_t *rows)
{
	const json_t *row, *x, *first = NULL;
	size_t i;

	json_array_foreach(rows, i, row)
	{
		if (!is_drawn(figure, row))
			continue;
		x = json_object_get(row, figure->x);
		first = first ? first : x;
		if (json_integer_value(x) != json_integer_value(first))
			return true;
	}
	return false;
}

char *figure_draw(const struct figure *figure, const json_t *rows)
{
	struct lines lines = { .figure = figure };
	struct drawing drawing = { 0 };
	char *svg = NULL;
	size_t i;

	if (!figure->x || !is_a_line(figure, rows))
		return NULL;
	for (i = 0; i < json_array_size(rows); i++)
		line_of(&lines, json_array_get(rows, i));
	if (!lines.n)
		return NULL;
	drawing.commands = tmpfile();
	drawing.svg = tmpfile();
	if (drawing.commands && drawing.svg) {
		write_commands(drawing.commands, figure, &lines, rows);
		svg = draw(&drawing);
	} else {
		complain("cannot make a temporary file: %s", strerror(errno));
	}
	if (drawing.commands)
		fclose(drawing.commands);
	if (drawing.svg)
		fclose(drawing.svg);
	return svg;
}
