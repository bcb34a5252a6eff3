#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The disk tier beside fio, in turn, on one file system: both read and write half each, in order, with the same sizes.
#
#     disk_against_fio.sh PATH/bench_disk FOLDER [ROUNDS [SECONDS [BLOCK [DEPTH [MIB [KIND]]]]]]
#
# fio runs without checking what it reads; bench_disk computes and compares the CRC32C of every byte.
set -eu
bench=$1 folder=$2 rounds=${3:-5} seconds=${4:-5} block=${5:-1048576} depth=${6:-8} mib=${7:-1024} kind=${8:-uring}
engine=io_uring depth_of_fio=$depth fixed=--fixedbufs=1
if [ "$kind" = threads ]; then engine=psync depth_of_fio=1 fixed="--numjobs=$depth --thread --group_reporting --offset_increment=$((mib / depth))M"; fi
command -v fio > /dev/null || { echo "fio is not installed (Debian package fio)" >&2; exit 1; }
file=$(mktemp "$folder/fio.XXXXXX")
trap 'rm -f "$file"' EXIT

fio_mb_s() { # of reads and writes, in MB/s
    fio --name=mixed --filename="$file" --rw="$1" --bs="$block" --iodepth="$depth_of_fio" --ioengine=$engine $fixed --direct=1 \
        --size="$2" $3 --output-format=json |
        python3 -c 'import json, sys; j = json.load(sys.stdin)["jobs"][0]; print("%.1f" % ((j["read"]["bw_bytes"] + j["write"]["bw_bytes"]) / 1e6))'
}

# All blocks are written before, as bench_disk does.
fio --name=fill --filename="$file" --rw=write --bs=1M --ioengine=psync --direct=1 --size="${mib}M" --output-format=json > /dev/null
size=${mib}M
if [ "$kind" = threads ]; then size=$((mib / depth))M; fi
echo "block $block, depth $depth, $mib MiB, $seconds s each, $kind against fio's $engine; MB/s read and written"
bench_mb_s() { "$bench" "$folder" mib="$mib" block="$block" depth="$depth" seconds="$seconds" kind="$kind" quiet=1; }
mixed() { fio_mb_s rw "$size" "--time_based --runtime=$seconds --rwmixread=50"; }
for i in $(seq "$rounds"); do
    # Who comes first changes: a device that allows bursts favours that one.
    if [ $((i % 2)) = 1 ]; then b=$(bench_mb_s); f=$(mixed); else f=$(mixed); b=$(bench_mb_s); fi
    echo "$b $f"
done | python3 -c '
import statistics, sys
rows = [tuple(map(float, line.split())) for line in sys.stdin]
for b, f in rows:
    print("bench_disk %8.1f   fio %8.1f   ratio %.2f" % (b, f, b / f))
print("median of ratios %.2f" % statistics.median(b / f for b, f in rows))'
