/* SPDX-License-Identifier: Apache-2.0 */
/* Writes pages; see page.h. */
#include "page.h"

#include <math.h>
#include <string.h>

static const char style[] =
    ":root{color-scheme:light dark;--ink:#1c1e21;--quiet:#5c6370;"
    "--paper:#fff;--line:#d9dce1;--soft:#f4f5f7;--good:#146c2e;"
    "--bad:#a33c00;--accent:#0b5cad}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e4e6ea;--quiet:#a0a7b4;"
    "--paper:#16181c;--line:#363a42;--soft:#1f2228;--good:#6bd089;"
    "--bad:#ff9d5c;--accent:#7ab8ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem 1rem 4rem;max-width:62rem;"
    "color:var(--ink);background:var(--paper);"
    "font:16px/1.5 system-ui,sans-serif}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:1rem 0}\n"
    "h2{font-size:1.3rem;margin:2.5rem 0 .5rem;padding-top:.7rem;"
    "border-top:1px solid var(--line)}\n"
    "h3{font-size:1.05rem;margin:1.5rem 0 .5rem}\n"
    "p,ul{margin:.5rem 0}ul{padding-left:1.2rem}a{color:var(--accent)}\n"
    ".wide{overflow-x:auto;margin:.8rem 0}\n"
    "table{border-collapse:collapse;font-size:.9rem;min-width:50%}\n"
    "th,td{padding:.3rem .7rem .3rem 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid var(--line)}\n"
    "th{color:var(--quiet);font-weight:600}\n"
    "td.n{font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    ".agrees,.ahead{color:var(--good);font-weight:600}\n"
    ".differs,.failed,.behind{color:var(--bad);font-weight:600}\n"
    ".open,.skipped,.even{color:var(--quiet)}\n"
    "figure{margin:1rem 0;max-width:40rem}\n"
    "figure svg{display:block;width:100%;height:auto}\n"
    "figcaption{color:var(--quiet);font-size:.85rem}\n"
    "details{margin:.6rem 0}\n"
    "summary{cursor:pointer;color:var(--accent)}\n"
    "pre{background:var(--soft);padding:.6rem .8rem;overflow-x:auto;"
    "font-size:.8rem;border-radius:4px}\n";

static void escape_html(FILE *file, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '&':
			fputs("&amp;", file);
			break;
		case '<':
			fputs("&lt;", file);
			break;
		case '>':
			fputs("&gt;", file);
			break;
		case '"':
			fputs("&quot;", file);
			break;
		default:
			fputc(*text, file);
			break;
		}
}

static void escape_markdown(FILE *file, const char *text)
{
	for (; *text; text++) {
		if (strchr("\\`*_{}[]<>|#", *text))
			fputc('\\', file);
		fputc(*text == '\n' ? ' ' : *text, file);
	}
}

static void escape(const struct page *page, const char *text)
{
	if (page->html)
		escape_html(page->file, text);
	else
		escape_markdown(page->file, text);
}

/* Write one of two texts, as they are. */
static void either(const struct page *page, const char *html, const char *other)
{
	fputs(page->html ? html : other, page->file);
}

void page_open(struct page *page, FILE *file, bool html, const char *title)
{
	*page = (struct page){ .file = file, .html = html };
	if (html) {
		fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
		      "<meta charset=\"utf-8\">\n"
		      "<meta name=\"viewport\" content=\"width=device-width,"
		      "initial-scale=1\">\n<title>",
		    file);
		escape_html(file, title);
		fprintf(file,
		    "</title>\n<style>\n%s</style>\n</head>\n<body>\n", style);
	}
	page_heading(page, 1, NULL, title);
}

void page_close(struct page *page)
{
	either(page, "</body>\n</html>\n", "");
}

void page_heading(
    struct page *page, int level, const char *id, const char *text)
{
	if (page->html && id)
		fprintf(page->file, "<h%d id=\"%s\">", level, id);
	else if (page->html)
		fprintf(page->file, "<h%d>", level);
	else if (id)
		fprintf(page->file, "\n<a id=\"%s\"></a>\n\n%.*s ", id, level,
		    "###");
	else
		fprintf(page->file, "\n%.*s ", level, "###");
	escape(page, text);
	if (page->html)
		fprintf(page->file, "</h%d>\n", level);
	else
		fputs("\n", page->file);
}

void page_paragraph(struct page *page, const char *label, const char *text)
{
	either(page, "<p>", "\n");
	if (label) {
		either(page, "<b>", "**");
		escape(page, label);
		either(page, "</b> ", "** ");
	}
	escape(page, text);
	either(page, "</p>\n", "\n");
}

void page_list(struct page *page, bool begins)
{
	either(page, begins ? "<ul>\n" : "</ul>\n", begins ? "\n" : "");
}

void page_item(struct page *page, const char *text)
{
	either(page, "<li>", "- ");
	escape(page, text);
	either(page, "</li>\n", "\n");
}

void page_code(struct page *page, bool begins)
{
	either(page, begins ? "<pre>" : "</pre>\n", "\n");
}

void page_code_line(struct page *page, const char *text)
{
	if (page->html)
		escape_html(page->file, text);
	else
		fprintf(page->file, "    %s", text);
	fputc('\n', page->file);
}

void page_part(struct page *page, const char *title)
{
	either(page, "<details><summary>", "\n<details><summary>");
	escape_html(page->file, title);
	either(page, "</summary>\n", "</summary>\n");
}

void page_part_end(struct page *page)
{
	either(page, "</details>\n", "\n</details>\n");
}

void page_table(struct page *page, const char *const *headings)
{
	size_t i;

	either(page, "<div class=\"wide\"><table>\n<thead><tr>", "\n|");
	for (i = 0; headings[i]; i++) {
		either(page, "<th>", " ");
		escape(page, headings[i]);
		either(page, "</th>", " |");
	}
	either(page, "</tr></thead>\n<tbody>", "\n|");
	for (i = 0; !page->html && headings[i]; i++)
		fputs("---|", page->file);
	page->in_body = false;
}

void page_row(struct page *page)
{
	if (page->in_body)
		either(page, "</tr>", "");
	either(page, "\n<tr>", "\n|");
	page->in_body = true;
}

void page_cell(struct page *page, const char *text)
{
	either(page, "<td>", " ");
	escape(page, text);
	either(page, "</td>", " |");
}

void page_number(struct page *page, double value, const char *format)
{
	char text[64] = "-";

	if (isfinite(value))
		snprintf(text, sizeof(text), format, value);
	either(page, "<td class=\"n\">", " ");
	escape(page, text);
	either(page, "</td>", " |");
}

void page_link(struct page *page, const char *id, const char *text)
{
	if (page->html)
		fprintf(page->file, "<td><a href=\"#%s\">", id);
	else
		fputs(" [", page->file);
	escape(page, text);
	if (page->html)
		fputs("</a></td>", page->file);
	else
		fprintf(page->file, "](#%s) |", id);
}

void page_outcome(struct page *page, const char *word)
{
	if (page->html)
		fprintf(page->file, "<td class=\"%s\">%s</td>", word, word);
	else
		fprintf(page->file,
		    strcmp(word, "differs") == 0 || strcmp(word, "failed") == 0
			? " **%s** |"
			: " %s |",
		    word);
}

void page_table_end(struct page *page)
{
	if (page->in_body)
		either(page, "</tr>", "");
	either(page, "\n</tbody></table></div>\n", "\n");
}

void page_drawing(struct page *page, const char *svg, const char *file_name,
    const char *caption)
{
	if (page->html)
		fprintf(page->file, "<figure>\n%s<figcaption>", svg);
	else
		fprintf(page->file, "\n![](%s)\n\n*", file_name);
	escape(page, caption);
	either(page, "</figcaption></figure>\n", "*\n");
}
