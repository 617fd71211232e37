#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# symbols.sh LIBDFI_SO LIBDFI_A NM READELF [MODULE]...: the functions that the headers
# declare with DFI_API or DFI_INLINE, those that cmake/dfi.map lists and those
# that libdfi.so exports are the same; its soname and dependencies are as
# decided, also of the modules, which export dfi_module only, and use no symbol of the
# library; libdfi.a defines no name outside dfi_*, where it could clash with an
# application's; and nothing is called that ends the process, writes to stdout,
# or changes what signals and processors the application has chosen.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/../.."

library=$1 archive=$2 nm=$3 readelf=$4
shift 4
failed=0

differ() # WHAT FILE_A FILE_B: lines that are only in A
{
	local names

	names=$(comm -23 "$2" "$3")
	if [ -n "$names" ]; then
		printf '%s:\n' "$1"
		printf '\t%s;\n' $names
		failed=1
	fi
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Declarations: the first name before a parenthesis in each statement with
# DFI_API or DFI_INLINE, with comments and preprocessor lines left out.
cat include/dfi/*.h | sed -z -e 's/\\\n/ /g' |
	sed -e '/^[[:space:]]*#/d' | tr '\n' ' ' |
	sed -e 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/, ,g' | tr ';{}' '\n\n\n' |
	sed -n 's/^.*\<\(DFI_API\|DFI_INLINE\)\>\(.*\)$/\2/p' |
	sed -n 's/^[^(]*\<\(dfi_[a-z0-9_]*\) *(.*$/\1/p' |
	sort > "$tmp/declared"
sed -e 's,/\*[^*]*\*/,,g' cmake/dfi.map |
	sed -n '/global:/,/local:/s/^[[:space:]]*\(dfi_[a-z0-9_]*\);.*$/\1/p' |
	sort > "$tmp/listed"
"$nm" -D --defined-only --format=posix "$library" |
	awk '$2 != "A" { sub(/@.*/, "", $1); print $1 }' |
	sort > "$tmp/exported"
if [ ! -s "$tmp/declared" ]; then
	echo "found no declarations in include/dfi"
	exit 1
fi

if ! sort -cu "$tmp/declared" 2> /dev/null; then
	echo "declared more than once: $(uniq -d "$tmp/declared" | xargs)"
	failed=1
fi
if grep -q '[*?[]' <(sed -n '/global:/,/local:/p' cmake/dfi.map |
	sed -e 's,/\*.*\*/,,'); then
	echo "cmake/dfi.map has a pattern: list the functions"
	failed=1
fi
differ "declared in include/dfi, missing in cmake/dfi.map" \
	"$tmp/declared" "$tmp/listed"
differ "listed in cmake/dfi.map, not declared in include/dfi" \
	"$tmp/listed" "$tmp/declared"
differ "listed in cmake/dfi.map, not defined by the library" \
	"$tmp/listed" "$tmp/exported"
differ "exported by the library, not listed in cmake/dfi.map" \
	"$tmp/exported" "$tmp/listed"

needed_by() # LIBRARY
{
	"$readelf" -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p'
}

dynamic=$("$readelf" -dW "$library")
soname=$(sed -n 's/.*(SONAME).*\[\(.*\)\]$/\1/p' <<< "$dynamic")
if [ "$soname" != libdfi.so.0 ]; then
	echo "soname is '$soname', not libdfi.so.0"
	failed=1
fi
for needed in $(needed_by "$library"); do
	case $needed in
	libc.so.6 | libm.so.6 | ld-linux-*) ;;
	libevent_core-* | libevent_pthreads-* | libprotobuf-c.so.*) ;;
	*)
		echo "the library depends on $needed"
		failed=1 ;;
	esac
done

for module in "$@"; do
	if "$nm" -D --undefined-only --format=posix "$module" | grep '^dfi_'; then
		echo "${module##*/} uses these symbols of the library: add them to src/modules"
		failed=1
	fi
	exported=$("$nm" -D --defined-only --format=posix "$module" |
		awk '{ print $1 }' | xargs)
	if [ "$exported" != dfi_module ]; then
		echo "${module##*/} exports '$exported', not dfi_module alone"
		failed=1
	fi
	for needed in $(needed_by "$module"); do
		case ${module##*/}:$needed in
		libdfi-tls.so:libcrypto.so.3 | libdfi-tls.so:libssl.so.3) ;;
		libdfi-tls.so:libevent_openssl-*) ;;
		*:libc.so.6 | *:ld-linux-* | *:libevent_core-*) ;;
		libdfi-etcd.so:libcurl.so.4 | libdfi-etcd.so:libjansson.so.4) ;;
		libdfi-ofi.so:libfabric.so.*) ;;
		libdfi-verbs.so:libibverbs.so.* | libdfi-verbs.so:librdmacm.so.*) ;;
		*)
			echo "${module##*/} depends on $needed"
			failed=1 ;;
		esac
	done
done

foreign=$("$nm" -g --defined-only --format=posix "$archive" |
	awk 'NF > 1 && $1 !~ /^dfi_/ { print $1 }')
if [ -n "$foreign" ]; then
	printf 'libdfi.a defines names that do not begin with dfi_:\n'
	printf '\t%s\n' $foreign
	failed=1
fi

# What a guest in a process leaves alone. __assert_fail is in debug builds only.
forbidden='_?exit|_Exit|quick_exit|abort|atexit|on_exit|system|stdout|puts'
forbidden+='|putchar|printf|vprintf|__v?printf_chk|signal|sigprocmask'
forbidden+='|bsd_signal|raise|sched_setaffinity|pthread_setaffinity_np|setenv'
forbidden+='|putenv|unsetenv|setlocale|chdir|umask|setrlimit64?'
for file in "$library" "$@"; do
	"$nm" -D --undefined-only --format=posix "$file"
done | awk '{ sub(/@.*/, "", $1); print $1 }' > "$tmp/called"
if ! grep -qx memcpy "$tmp/called"; then
	echo "found no call of memcpy in the library: is this list whole?"
	failed=1
fi
# It puts back what a module's libraries have changed.
if grep -rl --include='*.[ch]' '\<sigaction *(' src | grep -vx src/modules/module.c; then
	echo "only src/modules/module.c may call sigaction()"
	failed=1
fi
if grep -Ex "$forbidden" "$tmp/called" > "$tmp/found"; then
	echo "the library uses what belongs to the application:" \
		"$(xargs < "$tmp/found")"
	failed=1
fi

[ $failed -ne 0 ] || echo "$(wc -l < "$tmp/exported") functions exported"
exit $failed
