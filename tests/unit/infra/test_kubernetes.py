"""Kubernetes objects: core kinds and pod templates by the API's own schema, Ray's kinds by their fields."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator

import kubernetes_validate
import pytest
import yaml

from cluster.connection import MAX_NODES_LABEL, parse_max_nodes_label
from tests.support import kuberay
from tests.support.paths import ROOT

HERE = ROOT / "infra" / "kubernetes"
VERSION = "1.34"
OBJECTS = {path.stem: list(yaml.safe_load_all(path.read_text())) for path in sorted(HERE.glob("*.yaml"))}


def ray_cluster(name: str) -> dict:
    (item,) = OBJECTS[name]
    spec = item["spec"]
    return {"raycluster": lambda: spec, "rayjob": lambda: spec["rayClusterSpec"],
            "raycronjob": lambda: spec["jobTemplate"]["rayClusterSpec"]}[name]()  # fmt: skip


def pods(cluster: dict) -> Iterator[tuple[str, dict]]:
    yield "head", cluster["headGroupSpec"]["template"]
    for group in cluster["workerGroupSpecs"]:
        yield group["groupName"], group["template"]


def api_check(document: dict) -> None:
    kubernetes_validate.validate(document, VERSION, strict=True)


def as_pod(template: dict) -> dict:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, **template}


def test_core_kinds_are_valid() -> None:
    kinds = [document["kind"] for document in OBJECTS["store"]]
    assert kinds == ["Namespace", "ServiceAccount", "ConfigMap", "PersistentVolumeClaim", "NetworkPolicy"]
    for document in OBJECTS["store"]:
        api_check(document)


@pytest.mark.parametrize("name", ["raycluster", "rayjob", "raycronjob"])
def test_pod_templates_are_valid_pods(name: str) -> None:
    for _, template in pods(ray_cluster(name)):
        api_check(as_pod(template))


@pytest.mark.parametrize("name", ["raycluster", "rayjob", "raycronjob"])
def test_every_field_is_in_kuberays_reference(name: str) -> None:
    (item,) = OBJECTS[name]
    kuberay.check(item)


def test_ray_version_is_the_locked_one() -> None:
    locked = re.search(r"^ray(?:\[.*?\])?==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked
    assert {ray_cluster(name)["rayVersion"] for name in ("raycluster", "rayjob", "raycronjob")} == {locked[1]}


def test_ray_kinds_have_the_same_node_groups() -> None:
    def shape(name: str) -> list[dict]:
        groups = copy.deepcopy(ray_cluster(name)["workerGroupSpecs"])
        for group in groups:
            del group["template"]["spec"]["containers"][0]["env"]
        return groups

    assert shape("raycluster") == shape("rayjob") == shape("raycronjob")


@pytest.mark.parametrize("name", ["raycluster", "rayjob", "raycronjob"])
def test_groups_scale_to_zero_and_tolerate_gpu_nodes(name: str) -> None:
    cluster = ray_cluster(name)
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["autoscalerOptions"]["idleTimeoutSeconds"] <= 600
    assert cluster["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    gpus, most = set(), []
    for group in cluster["workerGroupSpecs"]:
        assert group["minReplicas"] == group["replicas"] == 0 < group["maxReplicas"]
        spec = group["template"]["spec"]
        limits = spec["containers"][0]["resources"]["limits"]
        assert limits == spec["containers"][0]["resources"]["requests"]
        gpus.add(limits.get("nvidia.com/gpu", 0))
        most += [limits["nvidia.com/gpu"]] * group["maxReplicas"] if "nvidia.com/gpu" in limits else []
        keys = {item["key"] for item in spec.get("tolerations", [])}
        assert ("nvidia.com/gpu" in keys) == ("nvidia.com/gpu" in limits)
        assert ("vlmsweep/spot" in keys) == (group["labels"]["market"] == "spot")
        assert group.get("priority", 0) == (group["labels"]["market"] == "spot")  # spot first, on demand where it fails
    assert gpus == {0, 1, 8}
    assert parse_max_nodes_label(cluster["headGroupSpec"]["labels"][MAX_NODES_LABEL]) == tuple(
        sorted(most, reverse=True)
    )


@pytest.mark.parametrize("name", ["raycluster", "rayjob", "raycronjob"])
def test_pods_have_shared_memory_model_cache_and_few_rights(name: str) -> None:
    for group, template in pods(ray_cluster(name)):
        spec = template["spec"]
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
        assert volumes["models"]["persistentVolumeClaim"]["claimName"] == "models"
        (container,) = spec["containers"]
        mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
        assert mounts["/dev/shm"] == "shm"
        assert mounts["/home/vlmsweep/.cache/huggingface"] == "models"
        assert set(mounts.values()) <= set(volumes)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert {"/tmp", "/tmp/ray", "/dev/shm"} <= set(mounts)  # where Ray and decoders write
        assert spec["automountServiceAccountToken"] is (group == "head")
        assert not container["image"].endswith(":latest")
        for variable in container["env"]:
            if "KEY" in variable["name"]:
                assert "secretKeyRef" in variable["valueFrom"]


@pytest.mark.parametrize("name", ["raycluster", "rayjob", "raycronjob"])
def test_objects_fit_shared_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray derives the object store's size from memory and shared memory unless a group sets it."""
    from ray._private import utils

    cluster = ray_cluster(name)
    groups = [
        ("head", cluster["headGroupSpec"]),
        *((worker_group["groupName"], worker_group) for worker_group in cluster["workerGroupSpecs"]),
    ]
    for group, spec in groups:
        pod = spec["template"]["spec"]
        (shared,) = [gib(volume["emptyDir"]["sizeLimit"]) for volume in pod["volumes"] if volume["name"] == "shm"]
        memory = gib(pod["containers"][0]["resources"]["limits"]["memory"])
        monkeypatch.setattr(utils, "get_shared_memory_bytes", lambda shared=shared: shared)
        store_size = spec["rayStartParams"].get("object-store-memory")
        assert 0 < utils.resolve_object_store_memory(memory, store_size and int(store_size)) < shared < memory, group


def gib(text: str) -> int:
    assert text.endswith("Gi")
    return int(text[:-2]) << 30


@pytest.mark.parametrize("name", ["raycluster", "rayjob", "raycronjob"])
def test_weights_volume_keeps_its_owner(name: str) -> None:
    for _, template in pods(ray_cluster(name)):
        context = template["spec"]["securityContext"]
        assert context["fsGroup"] == 10001
        assert context["fsGroupChangePolicy"] == "OnRootMismatch"


def test_placeholders_are_marked() -> None:
    """Addresses outside these files are placeholders; docs/how-to/cluster.md lists what has to be replaced."""
    settings = next(item for item in OBJECTS["store"] if item["kind"] == "ConfigMap")["data"]
    assert "REPLACE" in settings["AWS_ENDPOINT_URL"]
    page = (ROOT / "docs/how-to/cluster.md").read_text()
    for name in ("raycluster", "rayjob", "raycronjob"):
        for _, template in pods(ray_cluster(name)):
            assert template["spec"]["containers"][0]["image"].startswith("REGISTRY/")
    assert "`REGISTRY/`" in page
    assert "REPLACE-store" in page
    (cluster,) = OBJECTS["raycluster"]
    secret = f"-n {cluster['metadata']['namespace']} get secret {cluster['metadata']['name']}"
    assert f"kubectl {secret} -o jsonpath='{{.data.auth_token}}'" in page


def test_jobs_call_existing_commands() -> None:
    import typer.main

    from jobs.cli.main import app

    commands = typer.main.get_command(app).commands
    sweep = OBJECTS["rayjob"][0]["spec"]["entrypoint"]
    nightly = OBJECTS["raycronjob"][0]["spec"]["jobTemplate"]["entrypoint"]
    for line, start, command in ((sweep, "python -m jobs.sweep", "run"), (nightly, "vlmsweep nightly", "nightly")):
        assert line.startswith(start)
        options = {option for parameter in commands[command].params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", line)) <= options
