#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# install.sh CMAKE GENERATOR BUILD_DIR CC: what `cmake --install` puts under a prefix is
# complete: a program builds against it and runs, through pkg-config with the
# shared and with the static library, and through the CMake package with both. As a
# part of another project, DFI installs nothing.
set -euo pipefail
cd "$(dirname "$0")/../.."

cmake=$1 generator=$2 build=$3 cc=$4
consumer=$PWD/tests/checks/consumer
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
prefix=$tmp/prefix

step() # DESCRIPTION COMMAND...
{
	local what=$1

	shift
	if "$@" > "$tmp/log" 2>&1; then
		echo "ok: $what"
	else
		echo "failed: $what: $*"
		cat "$tmp/log"
		exit 1
	fi
}

shared_library_of() # PROGRAM: the libdfi.so that it finds, if any
{
	LD_LIBRARY_PATH=${2-} ldd "$1" 2>&1 |
		sed -n 's/^[[:space:]]*libdfi\.so[^ ]* => \([^ ]*\).*/\1/p'
}

step "install" "$cmake" --install "$build" --prefix "$prefix"

for header in include/dfi/*.h; do
	step "${header##*/} is installed" cmp "$header" "$prefix/$header"
done

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name dfi.pc)")
export PKG_CONFIG_PATH
libdir=$(realpath "$PKG_CONFIG_PATH/..")
modules=$(cd "$build/lib" && echo libdfi-*.so)
for name in libdfi.so libdfi.so.0 libdfi.a $modules; do
	step "$name is installed" test -e "$libdir/$name"
done

# The words of flags are meant to be split.
flags=$(pkg-config --cflags --libs dfi)
step "pkg-config, shared: build" "$cc" -std=c11 -o "$tmp/shared" \
	"$consumer/main.c" $flags
step "pkg-config, shared: run" env LD_LIBRARY_PATH="$libdir" "$tmp/shared"
step "pkg-config, shared: uses the installed library" \
	test "$(realpath "$(shared_library_of "$tmp/shared" "$libdir")")" = \
	"$(realpath "$libdir/libdfi.so")"

# As a newcomer does, who gives no options.
step "pkg-config, hello_flow: build" "$cc" -Werror -o "$tmp/hello" \
	examples/hello_flow.c $flags
step "pkg-config, hello_flow: run" env LD_LIBRARY_PATH="$libdir" "$tmp/hello"

flags=$(pkg-config --static --cflags --libs dfi)
step "pkg-config, static: build" "$cc" -std=c11 -static -o "$tmp/static" \
	"$consumer/main.c" $flags
step "pkg-config, static: run" "$tmp/static"

step "pkg-config, shared: needs no package of the dependencies" \
	env PKG_CONFIG_LIBDIR="$PKG_CONFIG_PATH" pkg-config --cflags dfi

step "CMake package: configure" "$cmake" -S "$consumer" -B "$tmp/consumer" \
	-G "$generator" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc"
step "CMake package: build" "$cmake" --build "$tmp/consumer"
step "CMake package, dfi::dfi: run" "$tmp/consumer/consumer"
step "CMake package, dfi::dfi_static: run" "$tmp/consumer/consumer_static"
step "CMake package, dfi::dfi_static: needs no libdfi.so" \
	test -z "$(shared_library_of "$tmp/consumer/consumer_static")"

step "as a part of another project: configure" "$cmake" \
	-S tests/checks/parent -B "$tmp/parent" -G "$generator" \
	-DDFI_SOURCE="$PWD" -DCMAKE_C_COMPILER="$cc"
step "as a part of another project: install" \
	"$cmake" --install "$tmp/parent" --prefix "$tmp/parent-prefix"
step "as a part of another project: installs nothing of DFI" \
	test "$(find "$tmp/parent-prefix" -type f -printf '%P ')" = \
	"share/parent/CMakeLists.txt "

# Where the installed dfi-bench looks for them.
for program in dfi-bench-openmpi dfi-bench-mpich; do
	if [ -e "$build/bin/$program" ]; then
		step "$program is beside dfi-bench" "$prefix/bin/$program" --version
	fi
done

for program in dfi-registry dfi-info dfi-bench; do
	if [ -e "$build/bin/$program" ]; then
		step "$program --version" "$prefix/bin/$program" --version
		step "$program uses the installed library" \
			test "$(realpath "$(shared_library_of "$prefix/bin/$program")")" = \
			"$(realpath "$libdir/libdfi.so")"
	fi
done
