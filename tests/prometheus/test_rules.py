"""The shipped rules by Prometheus' own tool: each alert fires when its cause lasts long enough, and not before."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.paths import ROOT

SHIPPED = ROOT / "infra" / "compose"
SERIES = Path(__file__).parent / "alerts.test.yml"


def check(promtool: Path, *arguments: str, folder: Path = SHIPPED) -> str:
    result = subprocess.run([promtool, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_configuration_and_rules_are_valid(promtool: Path) -> None:
    assert "6 rules found" in check(promtool, "check", "config", "prometheus.yml")


def test_every_alert_fires_and_not_too_early(promtool: Path) -> None:
    check(promtool, "test", "rules", str(SERIES))


def test_every_alert_has_a_time_at_which_it_fires_and_one_at_which_it_does_not() -> None:
    rules = yaml.safe_load((SHIPPED / "alerts.yml").read_text())["groups"]
    alerts = {rule["alert"] for group in rules for rule in group["rules"]}
    expected = [
        expectation for test in yaml.safe_load(SERIES.read_text())["tests"] for expectation in test["alert_rule_test"]
    ]
    assert alerts == {item["alertname"] for item in expected if item.get("exp_alerts")}
    assert alerts == {item["alertname"] for item in expected if not item.get("exp_alerts")}


@pytest.mark.parametrize("change", [("> 0.05", "> 0.5"), ("offset 30m", "offset 1m"), ('{job="ray"}', '{job="rays"}')])
def test_changed_rule_fails_its_test(change: tuple[str, str], promtool: Path, tmp_path: Path) -> None:
    rules = (SHIPPED / "alerts.yml").read_text()
    assert change[0] in rules
    (tmp_path / "alerts.yml").write_text(rules.replace(*change))
    series = yaml.safe_load(SERIES.read_text()) | {"rule_files": ["alerts.yml"]}
    (tmp_path / "test.yml").write_text(yaml.safe_dump(series))
    result = subprocess.run([promtool, "test", "rules", "test.yml"], cwd=tmp_path, capture_output=True, timeout=60)
    assert result.returncode == 1
