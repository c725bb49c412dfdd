"""Cluster launcher files by Ray's own check, and by what they promise."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest
import yaml

from cluster.growth import GROWS_TO, read_label

ROOT = Path(__file__).parents[3]
FILES = ("aws", "gcp")


def config(name: str) -> dict:
    return yaml.safe_load((ROOT / "infra" / "ray" / f"{name}.yaml").read_text())


def check(raw: dict) -> dict:
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(copy.deepcopy(raw))
    validate_config(prepared)
    return prepared


@pytest.mark.parametrize("name", FILES)
def test_ray_takes_it(name: str) -> None:
    assert check(config(name))["head_node_type"] == "head"


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "mistake", [{"idle_timeout": 5}, {"head_node_type": "nobody"}, {"max_workers": -1}, {"available_node_types": {}}]
)
def test_ray_would_see_a_mistake(name: str, mistake: dict) -> None:
    with pytest.raises(Exception, match=r"(?i)validat|head_node_type|nobody|minimum|additional|available_node"):
        check({**config(name), **mistake})


@pytest.mark.parametrize("name", FILES)
def test_nothing_stands_idle(name: str) -> None:
    raw = config(name)
    assert raw["idle_timeout_minutes"] <= 10
    for kind, node in raw["available_node_types"].items():
        assert {"CPU", "GPU"} <= set(node["resources"])
        assert kind == "head" or node["min_workers"] == 0
    assert raw["available_node_types"]["head"]["resources"] == {"CPU": 0, "GPU": 0}
    start = " ".join(raw["head_start_ray_commands"])
    assert "--num-cpus=0" in start
    assert "ray stop" not in str(raw)


@pytest.mark.parametrize("name", FILES)
def test_the_head_says_what_may_come(name: str) -> None:
    types = config(name)["available_node_types"]
    told = read_label(types["head"]["labels"][GROWS_TO])
    most = [n["resources"]["GPU"] for n in types.values() for _ in range(n.get("max_workers", 0))]
    assert told == tuple(sorted((gpus for gpus in most if gpus), reverse=True))
    assert sum(node.get("max_workers", 0) for node in types.values()) <= config(name)["max_workers"]


def spot(node: dict) -> bool:
    return "spot" in str(node["node_config"].get("InstanceMarketOptions", "")).lower() or (
        node["node_config"].get("scheduling", {}).get("provisioningModel") == "SPOT"
    )


@pytest.mark.parametrize("name", FILES)
def test_every_gpu_kind_is_there_as_spot_and_on_demand(name: str) -> None:
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
def test_the_token_is_a_file_and_nothing_is_open(name: str) -> None:
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
def test_ray_is_started_with_flags_that_ray_has(name: str) -> None:
    from ray.scripts.scripts import start

    known = {option for parameter in start.params for option in parameter.opts}
    raw = config(name)
    for line in (*raw["head_start_ray_commands"], *raw["worker_start_ray_commands"]):
        assert set(re.findall(r"--[a-z-]+", line)) <= known
