# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts beside it: packages and builds.

set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "${BASH_SOURCE[0]}")/.."

jobs=${DFI_JOBS:-$(nproc)}

say()
{
	printf '\n== %s\n' "$*"
}

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# The packages of the given groups that are not installed.
missing_packages() # GROUP...
{
	local group package status

	while read -r group package; do
		case " $* " in
		*" $group "*) ;;
		*) continue ;;
		esac
		status=$(env -u DPKG_ADMINDIR dpkg-query -W -f '${Status}' "$package" 2> /dev/null ||
			true)
		[ "$status" = "install ok installed" ] || echo "$package"
	done < <(sed -e 's/#.*//' -e '/^[[:space:]]*$/d' scripts/packages.txt) |
		sort -u
}

# Install what is missing, and nothing if nothing is.
install_packages() # GROUP...
{
	local missing=() as_root=()

	if ! command -v dpkg-query > /dev/null ||
		! command -v apt-get > /dev/null; then
		echo "not a Debian system: the packages that scripts/packages.txt" \
			"names have to be there already" >&2
		return 0
	fi
	mapfile -t missing < <(missing_packages "$@")
	[ ${#missing[@]} -gt 0 ] || return 0

	say "installing ${missing[*]}"
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo > /dev/null ||
			die "run this as root: apt-get install ${missing[*]}"
		as_root=(sudo)
	fi
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q ||
		echo "apt-get update failed: trying with the lists there are" >&2
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y \
		--no-install-recommends "${missing[@]}" ||
		die "could not install ${missing[*]}"
}

# Configure and build one preset of CMakePresets.json.
build_preset() # PRESET [CMAKE_ARGUMENT...]
{
	local preset=$1

	shift
	cmake --preset "$preset" "$@" &&
		cmake --build --preset "$preset" --parallel "$jobs"
}

# The fuzz targets, with clang.
build_fuzz()
{
	CC=clang cmake -S . -B build-fuzz -G Ninja -DCMAKE_BUILD_TYPE=Debug \
		-DDFI_SANITIZE=fuzzer -DDFI_BUILD_TESTS=ON -DDFI_BUILD_TOOLS=OFF \
		-DDFI_BUILD_BENCH=OFF -DDFI_BUILD_EXAMPLES=OFF &&
		cmake --build build-fuzz --parallel "$jobs"
}
