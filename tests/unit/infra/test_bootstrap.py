"""Ray's own AWS launcher with our file, against moto: security groups, and the rights that the head needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from moto import mock_aws

from tests.support.paths import ROOT

HERE = ROOT / "infra" / "ray"
EVERYWHERE = "0.0.0.0/0"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A simulated EC2, fake keys, and a home where Ray may write its ssh key."""
    from ray.autoscaler._private.aws import config, utils

    # Ray keeps its clients: they would outlive the cloud that they speak to.
    caches = [
        variable for module in (config, utils) for variable in vars(module).values() if hasattr(variable, "cache_clear")
    ]
    with mock_aws(), pytest.MonkeyPatch.context() as patch:  # undone before moto takes its own keys away
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "none")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        import boto3

        for cache in caches:
            cache.cache_clear()
        yield boto3.client("ec2")
    for cache in caches:
        cache.cache_clear()


@pytest.fixture(scope="module")
def group(cloud: Any) -> str:
    """A security group of the user's, without rules."""
    vpc = cloud.describe_vpcs()["Vpcs"][0]["VpcId"]
    return str(cloud.create_security_group(GroupName="own", Description="own", VpcId=vpc)["GroupId"])


def text_with(group: str) -> str:
    return (HERE / "aws.yaml").read_text().replace("sg-REPLACE", group)


def started(raw: dict) -> dict:
    from ray.autoscaler._private.aws.config import bootstrap_aws
    from ray.autoscaler._private.util import prepare_config

    return bootstrap_aws(prepare_config(raw))


def open_ports(ec2: Any) -> list[str]:
    groups = ec2.describe_security_groups()["SecurityGroups"]
    opened = {g["GroupName"]: [r["CidrIp"] for p in g["IpPermissions"] for r in p["IpRanges"]] for g in groups}
    return [name for name, ranges in opened.items() if EVERYWHERE in ranges]


def test_ssh_is_not_open_to_the_internet(cloud: Any, group: str) -> None:
    config = started(yaml.safe_load(text_with(group)))
    assert {tuple(n["node_config"]["SecurityGroupIds"]) for n in config["available_node_types"].values()} == {(group,)}
    assert open_ports(cloud) == []

    # And this is why every node names a group: rules of ours beside Ray's group would not close it.
    raw = yaml.safe_load(text_with(group))
    for node in raw["available_node_types"].values():
        node["node_config"].pop("SecurityGroupIds", None)
    rule = {"FromPort": 22, "ToPort": 22, "IpProtocol": "tcp", "IpRanges": [{"CidrIp": "192.0.2.1/32"}]}
    raw["provider"]["security_group"] = {"GroupName": "made-by-ray", "IpPermissions": [rule]}
    started(raw)
    assert open_ports(cloud) == ["made-by-ray"]


def allowed(name: str) -> list[str]:
    statements = json.loads((HERE / name).read_text())["Statement"]
    assert all(statement["Effect"] == "Allow" for statement in statements)
    actions = [statement["Action"] for statement in statements]
    return [name for action in actions for name in ([action] if isinstance(action, str) else action)]


def test_head_policy_allows_only_what_ray_calls(cloud: Any, group: str) -> None:
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider

    config = started(yaml.safe_load(text_with(group)))
    node = config["available_node_types"]["cpu"]["node_config"]
    actions: set[str] = set()
    provider = AWSNodeProvider({**config["provider"], "cache_stopped_nodes": False}, config["cluster_name"])
    for client in (provider.ec2.meta.client, provider.ec2_fail_fast.meta.client):
        client.meta.events.register("before-call.ec2", lambda model, **_: actions.add(f"ec2:{model.name}"))
    image = cloud.describe_images()["Images"][0]["ImageId"]
    provider.create_node({**node, "ImageId": image, "IamInstanceProfile": {}}, {"ray-node-type": "worker"}, 1)
    (item,) = provider.non_terminated_nodes({})
    provider.set_node_tags(item, {"ray-node-status": "up-to-date"})
    provider.terminate_node(item)
    assert provider.non_terminated_nodes({}) == []
    rights, few = allowed("aws-head-policy.json"), allowed("aws-worker-policy.json")
    assert {"ec2:RunInstances", "ec2:CreateTags", "ec2:DescribeInstances", "ec2:TerminateInstances"} <= actions
    assert actions <= {*rights}
    assert "iam:PassRole" in rights
    assert not [action for action in rights + few if "*" in action]
    assert not [action for action in few if action.startswith(("ec2:", "iam:"))]


def test_head_may_pass_only_the_workers_role() -> None:
    raw = yaml.safe_load((HERE / "aws.yaml").read_text())
    nodes = raw["available_node_types"]
    profiles = {kind: node["node_config"]["IamInstanceProfile"]["Name"] for kind, node in nodes.items()}
    worker = {name for kind, name in profiles.items() if kind != "head"}
    assert len(worker) == 1
    assert profiles["head"] not in worker
    statements = json.loads((HERE / "aws-head-policy.json").read_text())["Statement"]
    (passed,) = [statement["Resource"] for statement in statements if statement["Action"] == "iam:PassRole"]
    assert passed.rpartition("/")[2] in worker
    ours = [
        statement["Condition"]["StringEquals"]
        for statement in statements
        if "ec2:TerminateInstances" in statement["Action"]
    ]
    assert ours == [{"ec2:ResourceTag/ray-cluster-name": raw["cluster_name"]}]
