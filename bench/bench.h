/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The experiments. Each parses its own options; argv[0] is the text before
 * usage messages. They return the exit status: 0, or 1 after an error or an
 * unverified result.
 */
#ifndef DFI_BENCH_BENCH_H
#define DFI_BENCH_BENCH_H

/* Run the command that argv[0] names. */
int bench_command(int argc, char **argv);

int bench_raw(int argc, char **argv);
int bench_shuffle(int argc, char **argv);
int bench_replicate(int argc, char **argv);
int bench_combine(int argc, char **argv);
int bench_latency(int argc, char **argv);
int bench_idle(int argc, char **argv);
int bench_sequencer(int argc, char **argv);
int bench_rpc(int argc, char **argv);
int bench_open(int argc, char **argv);
int bench_pauses(int argc, char **argv);
int bench_setup(int argc, char **argv);
int bench_memory(int argc, char **argv);
int bench_scale(int argc, char **argv);
int bench_list(int argc, char **argv);
int bench_run(int argc, char **argv);
int bench_tcp(int argc, char **argv);
int bench_peers(int argc, char **argv);
int bench_report(int argc, char **argv);
int bench_compare(int argc, char **argv);

#endif
