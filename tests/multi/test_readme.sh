#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
# The first program of README.md compiles as it stands there and says what README.md says; its commands run.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

# The text of the first block in language $1.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence && !done { inside = 1; next } inside && /^```/ { inside = 0; done = 1 } inside' \
        "$WEFT_SRCDIR/README.md"
}
lines() { [ "$(wc -l <"$tap_dir/first.c")" -gt 5 ] && [ "$(wc -l <"$tap_dir/first.c")" -le 20 ]; }
build() {
    ${WEFT_TEST_CC:-cc} -Wall -Wextra -Werror -I"$WEFT_SRCDIR/include" "$tap_dir/first.c" -o "$tap_dir/first" \
        -L.libs -lweft -Wl,-rpath,"$PWD/.libs"
}
run() { timeout 30 ./weft-run -n 4 "$tap_dir/first" >"$tap_dir/out" 2>&1; local status=$?; cat "$tap_dir/out"; return $status; }
says() { cat "$tap_dir/out"; [ "$(grep -c 'sum of 4 ranks: 10' "$tap_dir/out")" -eq 1 ]; }

# Each command of "Looking ahead" that needs no file but its own, from the build directory.
ahead() {
    sed -n '/^## Looking ahead/,/^## /s/^    \(weft-[^#]*\).*/\1/p' "$WEFT_SRCDIR/README.md" | grep -v plan.xml >"$tap_dir/commands"
    sed 's/^/# /' "$tap_dir/commands"
    [ "$(wc -l <"$tap_dir/commands")" -eq 3 ]
}
each_ahead() {
    local line bad=0
    while read -r line; do
        (cd "$tap_dir" && timeout 150 bash -c "$WEFT_BUILDDIR/$line" >"$tap_dir/said" 2>&1 </dev/null) && [ -s "$tap_dir/said" ] ||
            { bad=1; echo "failed: $line"; cat "$tap_dir/said"; }
    done <"$tap_dir/commands"
    [ $bad -eq 0 ] && [ -s "$tap_dir/here.svg" ]
}

block c >"$tap_dir/first.c"
tap "README.md has a first program of at most 20 lines" lines
tap "it compiles" build
tap "it runs" run
tap "rank 0 prints the sum" says
tap "README.md has commands that predict" ahead
tap "they run" each_ahead
tap_end
