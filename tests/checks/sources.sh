#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# sources.sh BUILD_DIR: every C file of the tree is compiled, every proto file is
# generated from: the lists in CMakeLists.txt leave none out.
set -euo pipefail
cd "$(dirname "$0")/../.."

build=$1
compiled=$build/compile_commands.json
failed=0

option() # NAME: is it on in this build?
{
	grep -qE "^$1:BOOL=(ON|TRUE|1|YES)$" "$build/CMakeCache.txt"
}

dirs=(src common tests)
if option DFI_BUILD_TOOLS; then dirs+=(tools); fi
if option DFI_BUILD_BENCH; then dirs+=(bench); fi
if option DFI_BUILD_EXAMPLES; then dirs+=(examples); fi

# bench/mpi is compiled by bench/mpi_experiment, where there is MPI, and
# bench/consensus_experiment where the stores' libraries are. A rival's file is left out
# where its library is missing.
optional=()
grep -qE '^DFI_BENCH_FABRIC_FOUND:INTERNAL=1$' "$build/CMakeCache.txt" ||
	optional+=(bench/rival_fabric.c bench/rival_fabric_shm.c)
grep -qE '^DFI_BENCH_ZEROMQ_FOUND:INTERNAL=1$' "$build/CMakeCache.txt" ||
	optional+=(bench/rival_zeromq.c bench/rival_zeromq_ipc.c)
{ grep -qE '^DFI_BENCH_(OPENMPI|MPICH)_FOUND:INTERNAL=1$' "$build/CMakeCache.txt" &&
	! grep -qE '^DFI_SANITIZE:[A-Z]*=.' "$build/CMakeCache.txt"; } ||
	optional+=(bench/mpi_{exchange,gather,messages,rank}.c
		examples/radix_join/mpi_join.c)
grep -qE '^DFI_BENCH_UCX_FOUND:INTERNAL=1$' "$build/CMakeCache.txt" ||
	optional+=(bench/rival_ucx.c)
grep -qE '^DFI_BENCH_NNG_LIBRARY:FILEPATH=/' "$build/CMakeCache.txt" ||
	optional+=(bench/rival_nng.c)
while IFS= read -r file; do
	echo "$file is in no list of CMakeLists.txt or tests/CMakeLists.txt"
	failed=1
done < <(comm -23 <(find "${dirs[@]}" \( -path tests/checks/consumer -o \
	-path tests/testbed -o -path bench/mpi -o \
	-path bench/consensus_experiment \) -prune -o -name '*.c' -print |
	grep -vxF "${optional[@]/#/-e}" -e '' | sort) \
	<(sed -n "s|^ *\"file\": \"$PWD/\(.*\)\",*\$|\1|p" "$compiled" | sort -u))

while IFS= read -r file; do
	name=$(basename "$file" .proto).pb-c.c
	if ! grep -qF "/$name\"" "$compiled"; then
		echo "$file is in no list of CMakeLists.txt"
		failed=1
	fi
done < <(find src -name '*.proto' | sort)

[ $failed -ne 0 ] || echo "all files are built"
exit $failed
