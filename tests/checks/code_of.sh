# SPDX-License-Identifier: Apache-2.0
# For checks of the source: to be sourced.

# Print file:line:code without comments and without the contents of strings.
code_of() # FILE...
{
	awk '
	FNR == 1 { comment = 0 }
	{
		out = ""
		rest = $0
		while (rest != "") {
			if (comment) {
				end = index(rest, "*/")
				if (!end)
					break
				comment = 0
				rest = substr(rest, end + 2)
				continue
			}
			if (!match(rest, /\/\*|\/\/|"|'\''/)) {
				out = out rest
				break
			}
			out = out substr(rest, 1, RSTART - 1)
			mark = substr(rest, RSTART, RLENGTH)
			rest = substr(rest, RSTART + RLENGTH)
			if (mark == "//")
				break
			if (mark == "/*") {
				comment = 1
				out = out " "
				continue
			}
			while (rest != "") { # to the end of the literal
				c = substr(rest, 1, 1)
				rest = substr(rest, c == "\\" ? 3 : 2)
				if (c == mark)
					break
			}
			out = out mark mark
		}
		print FILENAME ":" FNR ":" out
	}' "$@"
}
