#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The form of the C sources: no tabs, no space at line ends, at most 132 columns where clang-format does not wrap;
# .c and .cpp files as clang-format leaves them (its version 14, since others disagree in details). Headers are laid out by
# hand. `make format` puts things right.
#   format.sh [DIRECTORY]
set -u
cd "${1:-${WEFT_SRCDIR:-$(dirname "$0")/../..}}" || exit 99
files=$(git ls-files '*.[ch]' '*.[ch]pp' 2>/dev/null)
[ -n "$files" ] || files=$(find . \( -name '*.[ch]' -o -name '*.[ch]pp' \) -not -path './build*' -not -path './_*' -not -name config.h | sed 's,^\./,,')
[ -n "$files" ] || { echo "no sources found"; exit 1; }
files=$(for f in $files; do [ -f "$f" ] && echo "$f"; done)

status=0
# Bytes of a multi-byte character after the first are not columns.
LC_ALL=C awk '
    { columns = length($0) - gsub(/[\200-\277]/, "&") }
    /\t/ { print FILENAME ":" FNR ": a tab"; bad++ }
    /[ \r]$/ { print FILENAME ":" FNR ": space at the end of the line"; bad++ }
    columns > 132 { print FILENAME ":" FNR ": " columns " columns (132 at most)"; bad++ }
    END { exit bad > 0 }' $files || status=1
echo "$([ $status = 0 ] && echo ok || echo not ok) 1 - tabs, line ends, columns"

formatter=
for name in clang-format-14 clang-format; do
    $name --version 2>/dev/null | grep -q 'version 14\.' && { formatter=$name; break; }
done
if [ -n "$formatter" ]; then
    bad=$(echo "$files" | grep -E '\.c(pp)?$' | xargs $formatter --dry-run -Werror --ferror-limit=1 --style=file 2>&1 |
        sed -n 's/^\([^:]*:[0-9]*\):.*-Wclang-format-violations.*/\1: not as clang-format leaves it/p')
    [ -n "$bad" ] && echo "$bad"
    [ -z "$bad" ] || status=1
    echo "$([ -z "$bad" ] && echo ok || echo not ok) 2 - clang-format"
else
    echo "ok 2 - clang-format # SKIP clang-format 14 is not installed"
fi
echo 1..2
exit $status
