#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The transport over UCX beside UCX itself (ucx_perftest, Debian package ucx-utils), in turn.

    bench_ucx.py BUILD [--tls posix,self --tls tcp,self] [--rounds 7] [--sizes 8,4096,...]

For every UCX_TLS and size: medians over the rounds of half a round trip in microseconds and of a stream of messages in MB/s, of
ucx_perftest's tag_lat and tag_bw and of the transport, and the transport's share. Processes of one host that watch each other do
without UCX's error handling, as ucx_perftest does.
"""
import argparse
import os
import socket
import statistics
import subprocess
import sys
import time


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def perftest(env, test, size, count):
    """The last figures that ucx_perftest prints: (microseconds, MB/s)."""
    port = str(free_port())
    # stdin of its own: it reads one if there is one
    server = subprocess.Popen(["ucx_perftest", "-p", port], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            client = subprocess.run(["ucx_perftest", "127.0.0.1", "-p", port, "-t", test, "-s", str(size), "-n", str(count), "-f"],
                                    env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
            if client.returncode == 0 and client.stdout.split():
                break
            time.sleep(0.1)
        else:
            sys.exit(f"ucx_perftest {test}: {client.stderr.strip()}")
        for line in reversed(client.stdout.splitlines()):
            fields = line.replace("Final:", "").split()
            if len(fields) >= 6 and fields[0].isdigit():
                return float(fields[3]), float(fields[5])
        sys.exit(f"ucx_perftest {test}: {client.stdout}")
    finally:
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def transport(env, build, test, size, count):
    out = subprocess.run([f"{build}/tests/bench/bench_transport", f"{build}/.libs/ucx.so", test, str(size), str(count),
                          "UCX_NETWORK=any"], env=env, capture_output=True, text=True, timeout=300, check=False)
    if out.returncode:
        sys.exit(f"bench_transport: {out.stdout}{out.stderr}")
    return float(out.stdout.split()[-1])


def counts(size, tcp):
    return (max(200, min(100000, (1 << 30) // (size + 20000))) // (10 if tcp else 1),
            max(100, min(200000, (4 << 30) // (size + 20000))) // (10 if tcp else 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--tls", action="append")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", default="8,64,512,4096,16384,65536,262144,1048576,4194304")
    args = parser.parse_args()
    for tls in args.tls or ["posix,self", "posix,cma,self", "tcp,self"]:
        env = dict(os.environ, UCX_TLS=tls, UCX_WARN_UNUSED_ENV_VARS="n")
        if "tcp" in tls:
            env["UCX_NET_DEVICES"] = "lo"
        print(f"UCX_TLS={tls}")
        print(f"{'bytes':>9} {'ucx us':>9} {'weft us':>9} {'ratio':>6} {'+us':>6} {'ucx MB/s':>9} {'weft MB/s':>9} {'share':>6}")
        for size in map(int, args.sizes.split(",")):
            n, m = counts(size, "tcp" in tls)
            lat, bw = ([], []), ([], [])
            for i in range(args.rounds):
                for which in ((0, 1) if i % 2 else (1, 0)):
                    if which:
                        lat[1].append(transport(env, args.build, "lat", size, n))
                        bw[1].append(transport(env, args.build, "bw", size, m))
                    else:
                        lat[0].append(perftest(env, "tag_lat", size, n)[0])
                        bw[0].append(perftest(env, "tag_bw", size, m)[1])
            a, b, c, d = (statistics.median(v) for v in (*lat, *bw))
            print(f"{size:>9} {a:>9.3f} {b:>9.3f} {b / a:>6.2f} {b - a:>6.2f} {c:>9.0f} {d:>9.0f} {d / c:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
