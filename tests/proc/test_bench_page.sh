#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test_bench_page.sh BIN_DIR [KEEP]: a browser shows the page of dfi-bench report at the
# widths of a phone and a desk, and nothing of it is wider than the window. KEEP is a folder
# for the pictures.
set -euo pipefail
# shellcheck source=tests/proc/script_help.sh
. "$(dirname "$0")/script_help.sh"
bin=$1 keep=${2-}
for program in chromium gnuplot; do
	command -v $program > /dev/null || {
		echo "skipped: there is no $program"
		exit 77
	}
done
tmp=$(mktemp -d)
trap 'end_children; rm -rf "$tmp"' EXIT
cd "$tmp"

# Its sandbox needs namespaces, which a container may lack; the page is ours.
browse() # OPTION... URL
{
	timeout $wait_limit chromium --headless --no-sandbox --disable-gpu --hide-scrollbars \
		--user-data-dir="$tmp/profile" "$@" 2> err
}

timeout $wait_limit "$bin/dfi-bench" run --seconds 0.001 --repeat 1 --out results \
	E8 B6 B4 > out 2> err || fail "run: $(cat out)"
"$bin/dfi-bench" report results > out 2> err || fail "report: $(cat out)"
# Rows are hidden until they are opened; the widest tables are there.
sed 's/<details>/<details open>/' results/report.html > page.html
# A browser without a display has windows of 500 or more; a frame takes any width.
cat > measured.html << 'END'
<iframe src="page.html"></iframe><script>
const frame = document.querySelector("iframe");
frame.style.border = "0";
frame.style.width = location.hash.slice(1) + "px";
onload = () => {
	const page = frame.contentDocument;
	document.title = "width " + page.documentElement.scrollWidth + " of " +
		frame.contentWindow.innerWidth + ", drawings " +
		page.querySelectorAll("figure svg").length;
};
</script>
END
for width in 390 1280; do
	browse --window-size=$width,2400 --screenshot="$tmp/$width.png" "file://$tmp/page.html" \
		> out || fail "chromium: $(cat out)"
	# The size is in the first part of a PNG: bytes 16 to 23, the highest first.
	read -r w h <<< "$(od -An -j16 -N8 --endian=big -tu4 $width.png)"
	[ "$w $h" = "$width 2400" ] || fail "the picture has $w x $h"
	# An empty page of this size takes less than 20 KB.
	[ "$(stat -c %s $width.png)" -gt 40000 ] || fail "the picture is almost empty"
	browse --allow-file-access-from-files --window-size=1400,2400 --dump-dom \
		"file://$tmp/measured.html#$width" > dom
	grep -q "<title>width $width of $width, drawings 1</title>" dom ||
		fail "the page does not fit: $(grep '<title>' dom)"
	[ -z "$keep" ] || cp $width.png "$keep/"
done
