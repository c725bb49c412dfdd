"""`docker-compose.yml` and all files in infra/compose, by their schemas and our rules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import compose_spec
import pytest
import yaml

from pipelines.predict.metrics import COUNTERS, GAUGES
from tests.support.paths import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]
OURS = ("head", "worker", "gpu-worker", "demo")
HERE = ROOT / "infra" / "compose"


def accepted(document: dict) -> list[str]:
    """Validate by the Compose specification: unknown keys and undefined names are refused."""
    compose = compose_spec.PyCompose.from_json(json.dumps(document))
    compose.validate()
    return compose.service_names()


def test_compose_file_is_valid() -> None:
    assert set(accepted(COMPOSE)) == {"head", "worker", "gpu-worker", "store", "prometheus", "grafana", "demo"}


def test_published_ports_are_on_loopback_and_exclude_rays_own() -> None:
    published = {port for service in SERVICES.values() for port in service.get("ports", [])}
    assert published == {f"127.0.0.1:{n}:{n}" for n in (8265, 8333, 9090, 3000)}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_hardened(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert not service.get("privileged")
    assert service.get("network_mode") is None
    assert service["networks"] == ["inside"]
    assert "/var/run/docker.sock" not in json.dumps(service)


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_images_are_pinned(name: str) -> None:
    image, _, tag = SERVICES[name]["image"].rpartition(":")
    assert image
    if name in OURS:
        assert SERVICES[name]["build"]["dockerfile"] == "infra/docker/Dockerfile"
        assert SERVICES[name]["build"]["target"] == tag
    else:
        assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?", tag)


def test_tokens_and_keys_are_files_not_variables() -> None:
    for name in OURS:
        assert SERVICES[name]["environment"]["RAY_AUTH_MODE"] == "token"
        assert SERVICES[name]["environment"]["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray_token"
        assert "ray_token" in SERVICES[name]["secrets"]
    for service in SERVICES.values():
        for variable, value in service.get("environment", {}).items():
            if re.search("TOKEN|PASSWORD|SECRET|KEY|CREDENTIAL", variable):
                assert value.startswith("/run/secrets/"), variable


def test_dependencies_have_a_health_check() -> None:
    dockerfile = (ROOT / "infra" / "docker" / "Dockerfile").read_text()
    for service in SERVICES.values():
        for name, how in service.get("depends_on", {}).items():
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in SERVICES[name] or (name in OURS and "HEALTHCHECK" in dockerfile)


def test_workers_scale_and_have_shared_memory() -> None:
    for name in ("worker", "gpu-worker"):
        assert "container_name" not in SERVICES[name]
        assert "ports" not in SERVICES[name]
        assert SERVICES[name]["shm_size"].endswith("gb")
        assert "/tmp/ray" in SERVICES[name]["volumes"]  # nameless: one a container
    assert SERVICES["gpu-worker"]["profiles"] == ["gpu"]
    assert "--num-cpus=0" in SERVICES["head"]["command"]


def size(text: str) -> int:
    """Return bytes as Docker reads them: its gb are GiB."""
    number, unit = re.fullmatch(r"(\d+)([mg])b?", text).groups()
    return int(number) << {"m": 20, "g": 30}[unit]


@pytest.mark.parametrize("name", ["head", "worker", "gpu-worker"])
def test_objects_fit_shared_memory_and_that_fits_the_container(name: str) -> None:
    service = SERVICES[name]
    (store,) = [int(word.split("=")[1]) for word in service["command"] if word.startswith("--object-store-memory=")]
    shared, memory = size(service["shm_size"]), size(service["mem_limit"])
    assert shared // 2 < store < 0.95 * shared
    assert shared + (256 << 20) < memory  # both are memory of the container, and so is its /tmp


def test_worker_claims_its_container_resources_only() -> None:
    assert f"--num-cpus={SERVICES['worker']['cpus']:g}" in SERVICES["worker"]["command"]
    assert any(word.startswith("--num-cpus=") for word in SERVICES["gpu-worker"]["command"])


def test_ray_start_flags_exist() -> None:
    from ray.scripts.scripts import start

    options = {option for parameter in start.params for option in parameter.opts}
    for name in ("head", "worker", "gpu-worker"):
        flags = {word.partition("=")[0] for word in SERVICES[name]["command"] if word.startswith("--")}
        assert flags <= options


def test_named_files_exist() -> None:
    assert {Path(entry["file"]).parent.name for entry in COMPOSE["secrets"].values()} == {"secrets"}
    mounts = [v.split(":") for s in SERVICES.values() for v in s.get("volumes", []) if v.startswith("./")]
    assert len(mounts) == 5
    assert all((ROOT / source).exists() and mode == "ro" for source, _, mode in mounts)


def test_files_are_mounted_as_volumes_because_podman_compose_ignores_configs() -> None:
    assert "configs" not in COMPOSE
    assert not [name for name, service in SERVICES.items() if "configs" in service]


def test_secrets_script_creates_the_files_of_compose_once(tmp_path: Path) -> None:
    script = tmp_path / "secrets.sh"
    script.write_text((HERE / "secrets.sh").read_text())
    runs = []
    for _ in range(2):
        subprocess.run(["sh", str(script)], check=True, capture_output=True)
        runs.append({path.name: path.read_text() for path in (tmp_path / "secrets").iterdir()})
    created = runs[0]
    assert runs[1] == created
    assert set(created) == {Path(entry["file"]).name for entry in COMPOSE["secrets"].values()}
    assert (tmp_path / "secrets").stat().st_mode & 0o077 == 0
    assert re.fullmatch("[0-9a-f]{64}", created["ray_token"])
    (identity,) = json.loads(created["s3_identities.json"])["identities"]
    (pair,) = identity["credentials"]
    assert f"aws_access_key_id = {pair['accessKey']}\n" in created["aws_credentials"]
    assert f"aws_secret_access_key = {pair['secretKey']}\n" in created["aws_credentials"]
    ignored = subprocess.run(
        ["git", "check-ignore", "infra/compose/secrets/ray_token"], cwd=ROOT, capture_output=True, text=True
    )
    assert ignored.returncode == 0 or not (ROOT / ".git").exists()


def test_demo_script_uses_existing_flags() -> None:
    import typer.main

    from jobs.cli.main import app

    text = (HERE / "demo.sh").read_text().replace("\\\n", " ")
    subprocess.run(["sh", "-n", str(HERE / "demo.sh")], check=True)
    commands = typer.main.get_command(app).commands
    used = re.findall(r"^vlmsweep (\w+) (.*)$", text, re.MULTILINE)
    assert [name for name, _ in used] == ["ingest", "submit"]
    for name, rest in used:
        options = {option for parameter in commands[name].params for option in parameter.opts}
        assert set(re.findall(r"--[a-z-]+", rest)) <= options


def test_demo_script_names_the_sample_data() -> None:
    (code,) = re.findall(r"sample=\$\(python -c '(.+)'\)", (HERE / "demo.sh").read_text())
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert (Path(result.stdout.strip()) / "dataset").is_dir()


def exported() -> set[str]:
    """Return the metrics that Ray 2.60's own dashboards draw, and ours."""
    import ray.dashboard.modules.metrics.dashboards as drawn

    sources = Path(drawn.__file__).parent.glob("*.py")
    ours = {f"ray_{name}_total" for name in COUNTERS} | {f"ray_{name}" for name in GAUGES}
    return ours | set(re.findall(r"\bray_[a-z_]+", " ".join(path.read_text() for path in sources)))


def expressions() -> list[str]:
    rules = yaml.safe_load((HERE / "alerts.yml").read_text())
    exprs = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    for path in (HERE / "grafana" / "dashboards").glob("*.json"):
        exprs += [target["expr"] for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]
    return exprs


def test_dashboards_and_alerts_use_exported_metrics() -> None:
    matching_expressions = {name for expression in expressions() for name in re.findall(r"\bray_[a-z_]+", expression)}
    assert len(matching_expressions) > 12
    assert matching_expressions <= exported()
    assert {name for name in matching_expressions if "vlmsweep" in name} == {
        name for name in exported() if "vlmsweep" in name
    }
    for expression in expressions():
        assert expression.count("(") == expression.count(")")
        assert expression.count("{") == expression.count("}")


def test_dashboards_are_provisioned() -> None:
    provider = yaml.safe_load((HERE / "grafana/provisioning/dashboards/vlmsweep.yaml").read_text())["providers"][0]
    mounts = dict(v.split(":")[:2] for v in SERVICES["grafana"]["volumes"] if v.startswith("./"))
    assert mounts["./infra/compose/grafana/dashboards"] == provider["options"]["path"]
    (source,) = yaml.safe_load((HERE / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    boards = [json.loads(path.read_text()) for path in (HERE / "grafana" / "dashboards").glob("*.json")]
    assert len({board["uid"] for board in boards}) == len(boards) == 2
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(ids) == len(set(ids))
        assert {t["datasource"]["uid"] for p in board["panels"] for t in p["targets"]} == {source["uid"]}


def test_prometheus_finds_every_ray_container_and_reads_the_alerts() -> None:
    config = yaml.safe_load((HERE / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    (results,) = job["dns_sd_configs"]
    assert set(results["names"]) == {"head", "worker", "gpu-worker"}
    for name in results["names"]:
        assert f"--metrics-export-port={results['port']}" in SERVICES[name]["command"]
    targets = {v.split(":")[1] for v in SERVICES["prometheus"]["volumes"] if v.startswith("./")}
    assert targets == {"/etc/prometheus/prometheus.yml", f"/etc/prometheus/{config['rule_files'][0]}"}
