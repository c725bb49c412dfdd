"""Cluster launcher files by Ray's own check, and their documented properties."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from cluster.connection import MAX_NODES_LABEL, parse_max_nodes_label
from models.catalog_loader import load_models
from models.engines.gpu_check import driver_problem
from tests.support.paths import ROOT

FILES = ("aws", "gcp")


def config(name: str) -> dict:
    return yaml.safe_load((ROOT / "infra" / "ray" / f"{name}.yaml").read_text())


def check(raw: dict) -> dict:
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(copy.deepcopy(raw))
    validate_config(prepared)
    return prepared


@pytest.mark.parametrize("name", FILES)
def test_ray_accepts_the_cluster_file(name: str) -> None:
    assert check(config(name))["head_node_type"] == "head"


@pytest.mark.parametrize("name", FILES)
def test_worker_groups_scale_to_zero(name: str) -> None:
    raw = config(name)
    assert raw["idle_timeout_minutes"] <= 10
    for kind, node in raw["available_node_types"].items():
        assert {"CPU", "GPU"} <= set(node["resources"])
        assert kind == "head" or node["min_workers"] == 0
    assert raw["available_node_types"]["head"]["resources"] == {"CPU": 0, "GPU": 0}
    start = " ".join(raw["head_start_ray_commands"])
    assert "--num-cpus=0" in start


@pytest.mark.parametrize("name", FILES)
def test_ray_up_on_a_running_cluster_ends_no_sweep(name: str) -> None:
    """The head's commands run again at each `ray up`, a worker's when the head has lost it, in living containers."""
    from ray.scripts.scripts import up

    raw = config(name)
    assert "ray stop" not in " ".join([*raw["head_start_ray_commands"], *raw["setup_commands"]])
    assert raw["worker_start_ray_commands"][0] == "ray stop"
    assert "--no-restart" in {option for parameter in up.params for option in parameter.opts + parameter.secondary_opts}
    assert f"ray up --no-restart infra/ray/{name}.yaml" in (ROOT / "docs" / "operations.md").read_text()


def nodes(name: str, *, gpu: bool) -> dict[str, dict]:
    types = config(name)["available_node_types"]
    return {kind: node["node_config"] for kind, node in types.items() if bool(node["resources"]["GPU"]) == gpu}


def test_google_cloud_nodes_accept_rays_key_and_have_drivers_before_the_container() -> None:
    raw = config("gcp")
    assert "block-project-ssh-keys" not in (ROOT / "infra" / "ray" / "gcp.yaml").read_text()
    driver = {"key": "install-nvidia-driver", "value": "True"}
    assert {kind: node["metadata"]["items"] for kind, node in nodes("gcp", gpu=True).items()} == {
        kind: [driver] for kind in ("gpu1-spot", "gpu1-on-demand", "gpu8-spot", "gpu8-on-demand")
    }
    assert all("metadata" not in node for node in nodes("gcp", gpu=False).values())
    (wait,) = [line for line in raw["initialization_commands"] if "nvidia-smi" in line]
    assert raw["initialization_commands"].index(wait) == 1


@pytest.mark.parametrize(("vendor", "calls"), [("0x10de", 3), ("0x8086", 0)])
def test_only_gpu_machines_wait_for_the_driver(tmp_path: Path, vendor: str, calls: int) -> None:
    (wait,) = [line for line in config("gcp")["initialization_commands"] if "nvidia-smi" in line]
    card = tmp_path / "devices" / "0000:00:04.0" / "vendor"
    card.parent.mkdir(parents=True)
    card.write_text(f"{vendor}\n")
    called = tmp_path / "called"
    fake = tmp_path / "nvidia-smi"  # there from the third time on
    fake.write_text(f"#!/bin/sh\n[ $# = 0 ] || exec echo 580.95\necho x >> {called}\n[ $(wc -l < {called}) -ge 3 ]\n")
    fake.chmod(0o755)
    line = wait.replace("/sys/bus/pci/devices", str(tmp_path / "devices")).replace("sleep 5", "sleep 0.01")
    subprocess.run(["sh", "-c", line], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert (called.read_text().count("x") if called.exists() else 0) == calls


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("versions", "code"), [("580.95", 0), ("590.1\\n580.95", 0), ("550.54.15", 1)])
def test_driver_that_is_too_old_for_the_locked_torch_ends_the_start(
    tmp_path: Path, name: str, versions: str, code: int
) -> None:
    cuda = re.search(r"^cuda-toolkit==(\d+\.\d+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert cuda
    assert driver_problem("579.1", cuda[1])
    assert not driver_problem("580.1", cuda[1])
    (check,) = [line for line in config(name)["initialization_commands"] if "driver_version" in line]
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\nprintf '{versions}\\n'\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    (tmp_path / "vendor").write_text("0x10de\n")
    check = check.replace("/sys/bus/pci/devices/*/vendor", str(tmp_path / "vendor"))
    check = check.replace("/proc/driver/nvidia/version", str(tmp_path / "vendor"))
    result = subprocess.run(
        ["sh", "-c", check], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert result.returncode == code
    assert ("driver 550.54.15 is too old" in result.stdout) == bool(code)


@pytest.mark.parametrize("name", FILES)
def test_disks_of_gpu_nodes_hold_the_largest_models_of_the_catalog(name: str) -> None:
    largest = max((spec.parameters_b or 0) * 2 for spec in load_models().values() if spec.runs_locally)
    for kind, node in nodes(name, gpu=True).items():
        if name == "aws":
            (disk,) = (mapping["Ebs"] for mapping in node["BlockDeviceMappings"])
            size, is_fast = disk["VolumeSize"], disk.get("Throughput", 125) >= 1000 and disk["Iops"] >= 4000
        else:
            (disk,) = (disk["initializeParams"] for disk in node["disks"])
            size, is_fast = disk["diskSizeGb"], disk["diskType"].endswith("/pd-ssd")
        assert size >= 3 * min(largest, 150), kind
        assert is_fast, kind


@pytest.mark.parametrize("name", FILES)
def test_weights_are_on_a_disk_of_the_machine_that_the_image_may_write(name: str) -> None:
    raw = config(name)
    (volume,) = [option for option in raw["docker"]["run_options"] if option.endswith(":/weights")]
    folder = volume.removeprefix("--volume ").removesuffix(":/weights")
    assert "--env HF_HOME=/weights" in raw["docker"]["run_options"]
    lines = [
        line for line in raw["initialization_commands"] if f"sudo install -d -o 10001 -g 10001 -m 0700 {folder}" in line
    ]
    assert len(lines) == 1
    assert subprocess.run(["sh", "-n", "-c", lines[0]]).returncode == 0


def test_google_client_libraries_are_in_the_extra_and_the_image() -> None:
    """Imports need the lock file; the image installs the part of it that its extras need."""
    import ray.autoscaler._private.gcp.node_provider as provider

    assert provider.GCPNodeProvider
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    expected = {re.split("[<>=]", item)[0] for item in project["optional-dependencies"]["gcp"]}
    folder = Path(provider.__file__).parent
    imported = set(re.findall(r"^(?:from|import) (google\w*|httplib2)", " ".join(
        path.read_text() for path in folder.glob("*.py")), re.MULTILINE))  # fmt: skip
    homes = {"google": "google-auth", "googleapiclient": "google-api-python-client",
             "google_auth_httplib2": "google-auth-httplib2", "httplib2": "httplib2"}  # fmt: skip
    assert {homes[item] for item in imported} | {"cryptography"} == expected
    cut = [sys.executable, "infra/docker/requirements.py", "--cpu", "requirements.lock"]
    image = subprocess.run(cut, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert expected <= set(re.findall(r"^([\w.-]+)==", image, re.MULTILINE))
    assert "'vlmsweep[gcp]'" in (ROOT / "docs/how-to/cluster.md").read_text()


def test_aws_nodes_log_in_to_the_registry_before_the_pull() -> None:
    raw = config("aws")
    registry = raw["docker"]["image"].partition("/")[0]
    (login,) = [line for line in raw["initialization_commands"] if "docker login" in line]
    assert login.startswith("aws ecr get-login-password ")
    assert login.endswith(f"| docker login --username AWS --password-stdin {registry}")
    assert registry.startswith("ACCOUNT.")


@pytest.mark.parametrize("name", FILES)
def test_head_label_announces_the_maximum_nodes(name: str) -> None:
    types = config(name)["available_node_types"]
    max_nodes_label = parse_max_nodes_label(types["head"]["labels"][MAX_NODES_LABEL])
    most = [n["resources"]["GPU"] for n in types.values() for _ in range(n.get("max_workers", 0))]
    assert max_nodes_label == tuple(sorted((gpus for gpus in most if gpus), reverse=True))
    assert sum(node.get("max_workers", 0) for node in types.values()) <= config(name)["max_workers"]


def spot(node: dict) -> bool:
    return "spot" in str(node["node_config"].get("InstanceMarketOptions", "")).lower() or (
        node["node_config"].get("scheduling", {}).get("provisioningModel") == "SPOT"
    )


@pytest.mark.parametrize("name", FILES)
def test_every_gpu_type_has_spot_and_on_demand_groups(name: str) -> None:
    types = config(name)["available_node_types"]
    assert {node["resources"]["GPU"] for node in types.values()} == {0, 1, 8}
    for kind, node in types.items():
        if kind == "head":
            assert not spot(node)
            continue
        assert spot(node) == (node["labels"]["market"] == "spot")
        assert node.get("priority", 0) == spot(node)  # what is even is started first, what cannot be had last
    for pool in ("gpu1", "gpu8"):
        both = [node for node in types.values() if node.get("labels", {}).get("pool") == pool]
        assert {node["labels"]["market"] for node in both} == {"spot", "on-demand"}
        first, second = both
        assert first["resources"] == second["resources"]
        machine = [node["node_config"].get("InstanceType") or node["node_config"]["machineType"] for node in both]
        assert len(set(machine)) == 1


@pytest.mark.parametrize("name", FILES)
def test_token_is_a_file_and_no_port_is_open(name: str) -> None:
    raw = config(name)
    options = raw["docker"]["run_options"]
    assert "--env RAY_AUTH_MODE=token" in options
    assert any("RAY_AUTH_TOKEN_PATH=" in option for option in options)
    assert not any("RAY_AUTH_TOKEN=" in option for option in options)
    assert "--cap-drop=ALL" in options
    assert "--privileged" not in options
    start = " ".join(raw["head_start_ray_commands"])
    assert "--dashboard-host=127.0.0.1" in start
    if name == "aws":
        for node in raw["available_node_types"].values():
            assert node["node_config"]["MetadataOptions"]["HttpTokens"] == "required"


@pytest.mark.parametrize("name", FILES)
def test_ray_start_flags_exist(name: str) -> None:
    from ray.scripts.scripts import start

    options = {option for parameter in start.params for option in parameter.opts}
    raw = config(name)
    for line in (*raw["head_start_ray_commands"], *raw["worker_start_ray_commands"]):
        assert set(re.findall(r"--[a-z-]+", line)) <= options
