/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of text, tables and drawings, as HTML or as Markdown. All text is
 * escaped. The HTML needs no other file; Markdown names files of drawings.
 */
#ifndef DFI_BENCH_PAGE_H
#define DFI_BENCH_PAGE_H

#include <stdbool.h>
#include <stdio.h>

struct page {
	FILE *file;
	bool html;
	bool in_body; /* of a table */
};

/* Begin and end the whole page. */
void page_open(struct page *page, FILE *file, bool html, const char *title);
void page_close(struct page *page);

/* A heading of level 1 to 3; id: what page_link() names, or NULL. */
void page_heading(
    struct page *page, int level, const char *id, const char *text);

/* A paragraph, beginning with a bold word if label is not NULL. */
void page_paragraph(struct page *page, const char *label, const char *text);

/* A line of an unnumbered list, which page_list() begins and ends. */
void page_list(struct page *page, bool begins);
void page_item(struct page *page, const char *text);

/* Lines of code, which page_code() begins and ends. */
void page_code(struct page *page, bool begins);
void page_code_line(struct page *page, const char *text);

/* A part that readers open by a click on its title. */
void page_part(struct page *page, const char *title);
void page_part_end(struct page *page);

/*
 * A table: headings, which end with NULL; then for each row page_row() and its
 * cells.
 */
void page_table(struct page *page, const char *const *headings);
void page_row(struct page *page);
void page_cell(struct page *page, const char *text);
void page_number(struct page *page, double value, const char *format);
void page_link(struct page *page, const char *id, const char *text);
/* A cell with an outcome: its word gets a colour of its own. */
void page_outcome(struct page *page, const char *word);
void page_table_end(struct page *page);

/* A drawing: SVG text for HTML, the name of its file for Markdown. */
void page_drawing(struct page *page, const char *svg, const char *file_name,
    const char *caption);

#endif
