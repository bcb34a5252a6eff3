#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The hosts that other tests stand on: can they talk, does cutting and shaping work, is everything removed?
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"

# From host $1, send a line to a server on host $2 at address $3, and have it sent back.
talk() {
    python3 - "$hosts_prefix" "$@" <<'END'
import subprocess, sys
prefix, client, server, address = sys.argv[1:]
serve = """
import socket, sys
s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET)
s.settimeout(5)
print(s.getsockname()[1], flush=True)
c, _ = s.accept()
c.sendall(c.recv(100))
"""
connect = """
import socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=2)
s.sendall(b'hello')
sys.exit(s.recv(100) != b'hello')
"""
def on(host, *args, **kw):
    return subprocess.Popen(["ip", "netns", "exec", f"{prefix}-h{host}", "python3", "-c", *args], **kw)
with on(server, serve, address, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as s:
    port = s.stdout.readline().strip()
    good = bool(port) and on(client, connect, address, port, stderr=subprocess.DEVNULL).wait() == 0
    s.kill()
sys.exit(not good)
END
}
cannot_talk() { ! talk "$@"; }

hosts_create 3 100mbit
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT
tap "host 0 reaches host 2" talk 0 2 "$(hosts_address 2)"
tap "host 2 reaches host 1 over IPv6" talk 2 1 "$(hosts_address6 1)"
hosts_cut 2
tap "a cut host is not reached" cannot_talk 0 2 "$(hosts_address 2)"
hosts_join 2
tap "a joined host is reached again" talk 0 2 "$(hosts_address 2)"
shaped() { hosts_on 1 tc qdisc show dev eth0 | grep -q 'tbf.*rate 100Mbit'; }
tap "links are shaped" shaped
hosts_on 1 sleep 1000 &
left=$(hosts_name 1)
hosts_remove
gone() { ! ip netns list | grep -q "^$hosts_prefix-"; }
tap "nothing is left" gone
wait
tap "what ran on a host has ended" test -z "$(ip netns pids "$left" 2>/dev/null)"
tap_end
