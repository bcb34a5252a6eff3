# SPDX-License-Identifier: BSD-3-Clause
"""The manifest of examples/kubernetes, for test_kubernetes.sh.

  kubernetes.py check MANIFEST            valid in every version of Kubernetes from 1.27 on; and what is wrong is refused
  kubernetes.py pod MANIFEST INDEX FOLDER what a cluster would make of a pod, as files in FOLDER: argv (each string ended by 0),
                                          env (NAME=VALUE, likewise), hostname, mounts ("KIND NAME PATH" a line), and service
"""

from __future__ import annotations

import copy
import re
import sys
from pathlib import Path

import yaml

OLDEST = (1, 27)  # `kubectl apply` of what is checked here is not promised for older ones
SECRET = "@secret@"  # noqa: S105  the test replaces it


def documents(path: str) -> dict[str, dict]:
    with open(path) as f:
        found = {document["kind"]: document for document in yaml.safe_load_all(f)}
    assert set(found) == {"Service", "Job"}, sorted(found)
    return found


def spoilt(found: dict[str, dict]) -> dict[str, tuple[dict, str]]:
    """What a validator must refuse, and a word of why."""
    misspelt, number, lacking, unknown = (copy.deepcopy(found["Job"]) for _ in range(4))
    misspelt["spec"]["template"]["spec"]["containers"][0]["comand"] = []
    number["spec"]["completions"] = "two"
    del lacking["spec"]["template"]["spec"]["containers"]
    unknown["spec"]["template"]["spec"]["volumes"][0]["emptyDir"]["size"] = "1Gi"
    return {"a misspelt key": (misspelt, "comand"), "text for a number": (number, "two"), "no containers": (lacking, "containers"),
            "an unknown key": (unknown, "size")}  # fmt: skip


def check(path: str) -> None:
    import kubernetes_validate

    found = documents(path)
    known = {tuple(map(int, version.split("."))) for version in kubernetes_validate.utils.all_versions()}
    versions = [".".join(map(str, version)) for version in sorted(known) if version[:2] >= OLDEST]
    assert len(versions) > 5, versions
    for version in versions:
        for document in found.values():
            kubernetes_validate.validate(document, version, strict=True)
    for what, (document, word) in spoilt(found).items():
        try:
            kubernetes_validate.validate(document, versions[-1], strict=True)
        except kubernetes_validate.ValidationError as error:
            assert word in str(error.message), (what, error.message)
        else:
            raise AssertionError(f"{what} is taken for valid")
    consistent(found)
    print(f"valid in {', '.join(versions)}")


def consistent(found: dict[str, dict]) -> None:
    """What a schema does not see: names that refer to each other."""
    service, job = found["Service"], found["Job"]
    pod, name = job["spec"]["template"]["spec"], job["metadata"]["name"]
    container = pod["containers"][0]
    assert service["spec"]["clusterIP"] == "None", "the Service must be headless"
    assert service["spec"]["selector"] == {"batch.kubernetes.io/job-name": name}, service["spec"]["selector"]
    assert pod["subdomain"] == service["metadata"]["name"], pod["subdomain"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"], "a pod that is not started keeps the others waiting"
    assert environment(job, "0")["NNODES"] == str(job["spec"]["completions"]), "NNODES must be the number of pods"
    assert f"{name}-0.{pod['subdomain']}" in " ".join(container["command"]), "pod 0 must be the one that the others meet at"
    assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
    assert "/" not in container["image"] and re.fullmatch("[A-Z]+", container["image"]), "the image is the user's to name"


def environment(job: dict, index: str) -> dict[str, str]:
    """As the job controller makes it: what the container names, and its number."""
    made = {"JOB_COMPLETION_INDEX": index}
    for variable in job["spec"]["template"]["spec"]["containers"][0]["env"]:
        if "value" in variable:
            made[variable["name"]] = variable["value"]
        else:
            assert set(variable["valueFrom"]) == {"secretKeyRef"}, variable
            made[variable["name"]] = SECRET
    return made


def mounts(pod: dict) -> list[str]:
    """Memory: a file system in memory, of that size; code: files."""
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    lines = []
    for mount in pod["containers"][0]["volumeMounts"]:
        volume = volumes[mount["name"]]
        if "emptyDir" in volume:
            assert volume["emptyDir"]["medium"] == "Memory", volume
            lines.append(f"memory {volume['emptyDir']['sizeLimit'].replace('Gi', 'g')} {mount['mountPath']}")
        else:
            lines.append(f"files {volume['configMap']['name']} {mount['mountPath']}")
    return lines


def pod(path: str, index: str, folder: Path) -> None:
    found = documents(path)
    job, spec = found["Job"], found["Job"]["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert len(spec["containers"]) == 1
    argv = container["command"] + container.get("args", [])
    folder.joinpath("argv").write_text("".join(f"{word}\0" for word in argv))
    folder.joinpath("env").write_text("".join(f"{name}={value}\0" for name, value in environment(job, index).items()))
    folder.joinpath("hostname").write_text(f"{job['metadata']['name']}-{index}\n")
    folder.joinpath("service").write_text(f"{found['Service']['metadata']['name']}\n")
    folder.joinpath("mounts").write_text("\n".join(mounts(spec)) + "\n")


if __name__ == "__main__":
    if sys.argv[1] == "check":
        check(sys.argv[2])
    else:
        pod(sys.argv[2], sys.argv[3], Path(sys.argv[4]))
