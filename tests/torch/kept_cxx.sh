#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The tests' C++ compiler: g++, whose objects are kept in $WEFT_TEST_OBJECTS, as torch's headers take a minute each time. What was
# compiled from the same sources, headers of weft, version of torch and options is the same object, wherever the sources lie.
set -u
cxx=g++
source='' object=''
compiles=no
next=''
for arg; do
    case $next$arg in
    o*) object=$arg ;;
    -c) compiles=yes ;;
    *.cpp) source=$arg ;;
    esac
    case $arg in -o) next=o ;; *) next='' ;; esac
done
[ $compiles = yes ] && [ -n "$source" ] && [ -n "$object" ] && [ -n "${WEFT_TEST_OBJECTS:-}" ] || exec $cxx "$@"

key=$({
    $cxx --version
    basename "$source"
    cat "$source" || exit
    for arg; do
        case $arg in
        -isystem*) cat "${arg#-isystem}/../version.py" 2>/dev/null || echo "$arg" ;; # torch's
        -I*) cat "${arg#-I}"/*.[ch]pp "${arg#-I}"/weft/*.h 2>/dev/null ;;
        "$source" | "$object") ;;
        *) echo "$arg" ;;
        esac
    done
    uname -m
} | sha256sum | cut -c1-32)
kept=$WEFT_TEST_OBJECTS/$key.o
if [ ! -f "$kept" ]; then
    mkdir -p "$WEFT_TEST_OBJECTS" || exit
    # Another process may be compiling the same: it is waited for.
    exec 8>"$kept.lock"
    flock 8
    if [ ! -f "$kept" ]; then
        $cxx "$@" || exit
        cp "$object" "$kept.$$" && mv "$kept.$$" "$kept" || exit
        exit 0
    fi
fi
cp "$kept" "$object"
