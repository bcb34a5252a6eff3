# SPDX-License-Identifier: BSD-3-Clause
"""weft-compare: hosts made of network namespaces, joined by a bridge that sits in a namespace of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

RATE_BITS = 1_000_000_000
# TCP payload and bytes on the wire of a full Ethernet frame: 1500 less IP, TCP and timestamps; 1500 plus the header.
PAYLOAD_SHARE = 1448 / 1514


def payload_line_rate() -> float:
    """Payload bytes per second of a shaped link."""
    return RATE_BITS / 8 * PAYLOAD_SHARE


def ip(*args: str) -> None:
    """Run ip(8); a failure raises CalledProcessError with its message."""
    subprocess.run(["ip", *args], check=True, capture_output=True, text=True)


class Hosts:
    """N namespaces with one interface each. Use as a context manager: everything made is removed again."""

    interface = "eth0"

    def __init__(self, count: int, shaped: bool, work: Path, ranks_per_host: int = 1, rate_bits: int = RATE_BITS) -> None:
        self.count = count
        self.ranks_per_host = ranks_per_host
        self.shaped = shaped
        self.rate_bits = rate_bits
        self.work = work
        self.tag = f"weftcmp{os.getpid()}"

    @staticmethod
    def refused() -> str | None:
        """Return why namespaces cannot be made here, or None."""
        name = f"weftcmp{os.getpid()}-probe"
        try:
            ip("netns", "add", name)
            ip("netns", "del", name)
        except FileNotFoundError:
            return "ip(8) is not installed"
        except subprocess.CalledProcessError as e:
            return e.stderr.strip() or "ip netns add failed"
        return None

    def name(self, host: int) -> str:
        """Return the namespace of a host."""
        return f"{self.tag}-{host}"

    def address(self, host: int) -> str:
        """Return the IPv4 address of a host."""
        return f"10.77.0.{host + 1}"

    def host_of(self, rank: int) -> int:
        """Return the host of a rank: ranks are dealt out, so that neighbours are never on the same one."""
        return rank % self.count

    def prefix(self, host: int) -> list[str]:
        """Return what to put before a command so that it runs on the host."""
        return ["ip", "netns", "exec", self.name(host)]

    def __enter__(self) -> Hosts:
        try:
            self.make()
        except subprocess.CalledProcessError as e:
            self.remove()
            raise RuntimeError(f"{' '.join(e.cmd)}: {e.stderr.strip()}") from e
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()

    def make(self) -> None:
        """Create the switch and the hosts."""
        switch = f"{self.tag}-sw"
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", self.interface, "type", "bridge")
        ip("-n", switch, "addr", "add", "10.77.0.254/24", "dev", self.interface)
        ip("-n", switch, "link", "set", self.interface, "up")
        ip("-n", switch, "link", "set", "lo", "up")
        for host in range(self.count):
            name, port = self.name(host), f"p{host}"
            ip("netns", "add", name)
            ip("-n", switch, "link", "add", port, "type", "veth", "peer", "name", self.interface, "netns", name)
            ip("-n", switch, "link", "set", port, "master", self.interface, "up")
            ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", self.interface)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", self.interface, "up")
            if self.shaped:
                self.shape(name, self.interface)
                self.shape(switch, port)
        self.write_agent()

    def shape(self, namespace: str, device: str) -> None:
        """Limit what leaves a device."""
        subprocess.run(["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate",
                        f"{self.rate_bits // 1000}kbit", "burst", "128kb", "latency", "50ms"],
                       check=True, capture_output=True, text=True)

    def remove(self) -> None:
        """Delete every namespace made; their interfaces go with them."""
        for name in [self.name(h) for h in range(self.count)] + [f"{self.tag}-sw"]:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)

    # ---- MPI: the launchers reach a "host" through an agent that takes the place of ssh ----

    def write_agent(self) -> None:
        """Write the agent: `agent [ssh options] ADDRESS COMMAND...`. Each host gets its own name and temporary files."""
        agent = self.work / "agent"
        agent.write_text(f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$((${{1##*.}} - 1)); shift
mkdir -p {self.work}/host$host
exec ip netns exec {self.tag}-$host unshare --uts sh -c '
    hostname weft-host'$host'; export TMPDIR={self.work}/host'$host'; cd {self.work}; exec sh -c "$*"' sh "$@"
""")
        agent.chmod(0o755)

    def launcher_prefix(self) -> list[str]:
        """Return what to put before mpirun: it runs in the switch's namespace, which is a host of its own."""
        return ["ip", "netns", "exec", f"{self.tag}-sw"]

    def addresses(self) -> str:
        """Return all addresses, comma-separated."""
        return ",".join(self.address(h) for h in range(self.count))

    def openmpi_options(self) -> list[str]:
        """Return mpirun's options: ranks dealt out over the hosts, TCP between these, shared memory inside."""
        net, slots = self.interface, self.ranks_per_host
        return ["--host", ",".join(f"{self.address(h)}:{slots}" for h in range(self.count)), "--bind-to", "none",
                "--map-by", "node", "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", str(self.work / "agent"),
                "--mca", "pml", "ob1", "--mca", "btl", "tcp,self" + (",vader" if slots > 1 else ""),
                "--mca", "btl_tcp_if_include", net,
                "--mca", "oob_tcp_if_include", net, "--mca", "mpi_yield_when_idle", "1"]

    def mpi_environment(self) -> dict[str, str]:
        """Return what keeps MPICH's transports on the network: the hosts share a kernel, and it would notice."""
        return {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": self.interface,
                "FI_PROVIDER": "tcp", "FI_TCP_IFACE": self.interface}

    def mpich_options(self) -> list[str]:
        """Return hydra's options for one rank per host over TCP."""
        return ["-hosts", self.addresses(), "-ppn", "1", "-launcher", "ssh", "-launcher-exec",
                str(self.work / "agent"), "-iface", self.interface]
