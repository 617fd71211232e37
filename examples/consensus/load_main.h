/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of a load generator, for any stores. */
#ifndef KV_LOAD_MAIN_H
#define KV_LOAD_MAIN_H

#include "load.h"

/*
 * main() of a program that puts load on the store that the user names, or on
 * the first of these. stores ends with NULL. doc: the first text of --help.
 */
int load_main(int argc, char **argv, const char *doc,
    const struct load_backend *const *stores);

#endif
