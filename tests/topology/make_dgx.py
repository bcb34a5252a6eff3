#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write dgx.xml: hwloc XML of a machine with the published layout of NVIDIA's DGX H100 (user guide, "system topology"): two
packages, four PCI switches, each with two GPUs, two InfiniBand adapters and a disk. The number of cores is cut to 8."""

import itertools
import subprocess
import sys
import xml.etree.ElementTree as tree

number = itertools.count(1000)
bus = itertools.count(1)


def add(parent: tree.Element, **fields: str) -> tree.Element:
    return tree.SubElement(parent, "object", gp_index=str(next(number)), **fields)


def add_bridge(parent: tree.Element, depth: int, domain: str, last: int) -> tree.Element:
    at = next(bus)
    return add(parent, type="Bridge", bridge_type="1-1", depth=str(depth), bridge_pci=f"0000:[{at:02x}-{last:02x}]",
               pci_busid=f"0000:{domain}:{at % 32:02x}.0", pci_type="0604 [1000:c030] [1000:100b] b0", pci_link_speed="63.015385")


def add_device(parent: tree.Element, kind: str, link: float) -> tree.Element:
    return add(parent, type="PCIDev", pci_busid=f"0000:{next(bus):02x}:00.0", pci_type=kind, pci_link_speed=f"{link:.6f}")


def fill_switch(bridge: tree.Element, domain: str, index: int) -> None:
    for i in range(2):
        gpu = add_device(add_bridge(bridge, 2, domain, 0xfe), "0302 [10de:2330] [10de:16c1] a1", 63.015385)
        add(gpu, type="OSDev", name=f"cuda{2 * index + i}", osdev_type="5")
    for i in range(2):
        nic = add_device(add_bridge(bridge, 2, domain, 0xfe), "0207 [15b3:1021] [15b3:0041] 00", 63.015385)
        add(nic, type="OSDev", name=f"ib{2 * index + i}", osdev_type="2")
        add(nic, type="OSDev", name=f"mlx5_{2 * index + i}", osdev_type="3")
    disk = add_device(add_bridge(bridge, 2, domain, 0xfe), "0108 [144d:a824] [144d:a801] 00", 7.876923)
    add(disk, type="OSDev", name=f"nvme{index}n1", osdev_type="0")


def main() -> None:
    command = ["lstopo-no-graphics", "-i", "pack:2 numa:1(memory=1TB) l3:1(size=105MB) core:4 pu:1", "--of", "xml", "-"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    head, body = text.split("<topology", 1)
    root = tree.fromstring("<topology" + body)
    for p, package in enumerate(root.iter("object")):
        if package.get("type") != "Package":
            continue
        index = int(package.get("os_index", "0"))
        for switch in range(2):
            domain = f"{0x20 + 0x40 * index + 0x10 * switch:02x}"
            host = add(package, type="Bridge", bridge_type="0-1", depth="0", bridge_pci=f"0000:[{domain}-{domain}]")
            fill_switch(add_bridge(host, 1, domain, 0xfe), domain, 2 * index + switch)
    sys.stdout.write(head + tree.tostring(root, encoding="unicode") + "\n")


if __name__ == "__main__":
    main()
