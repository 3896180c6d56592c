"""caisson config check."""

import json
import subprocess

import pytest


@pytest.fixture
def check(caisson, tmp_path):
    """Runs `config check` on a file with this content, in an environment of its own."""

    def run(content, *options, env=None):
        file = tmp_path / "caisson.yaml"
        file.write_text(content)
        return subprocess.run(
            [caisson.path, "config", "check", "--config", str(file), *options],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    run.file = str(tmp_path / "caisson.yaml")
    return run


def test_a_good_file_is_good(check):
    done = check("box:\n  backend: native\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"The configuration is good: {check.file}\n"


def test_langbots_other_fields_are_told_and_no_problem(check):
    done = check("box: {local: {hots_root: x}}\napi: {port: 1}\n", env={"BOX__BACKEND": "native"})
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "ignored: box.local.hots_root",
        "ignored: api",
        "changed by: BOX__BACKEND",
        f"The configuration is good: {check.file}",
    ]


@pytest.mark.parametrize(
    "content, problem",
    [
        ("box: {\n", ":2:1: "),
        ("box:\n  backend: a\n  backend: b\n", ':3:3: duplicate key "backend"'),
        ("caisson: {lisen: 1}\n", ": caisson.lisen: unknown field"),
        ("caisson: {listen: {host: 0.0.0.0}, token_required: false}\n", "token_required"),
    ],
)
def test_a_fault_is_told_with_its_place(check, content, problem):
    done = check(content)
    assert (done.returncode, done.stderr) == (1, "")
    first, last = done.stdout.splitlines()
    assert first.startswith(f"problem: {check.file}:")
    assert problem in first
    assert last == f"The configuration is not good: {check.file}"


def test_a_broken_admission_section_is_a_problem(check):
    done = check("box: {admission: {requird: true}}\n")
    assert done.returncode == 1
    assert "problem: box.admission.requird: unknown field\n" in done.stdout


def test_a_missing_file_is_a_problem(check, caisson):
    done = caisson("config", "check", "--config", "/nonexistent/caisson.yaml")
    assert done.returncode == 1
    assert "problem: /nonexistent/caisson.yaml: No such file or directory" in done.stdout


def test_secrets_are_masked_everywhere(check):
    secret = "e2b_0123456789"
    for options in [[], ["--json"]]:
        done = check(f"box: {{e2b: {{api_key: {secret}}}}}\n", *options)
        assert secret not in done.stdout + done.stderr
        done = check("box:\n", *options, env={"E2B_API_KEY": secret})
        assert secret not in done.stdout + done.stderr


def test_json_holds_the_effective_configuration(check):
    done = check(
        "box: {e2b: {api_key: k}, unknown: 1}\n",
        "--json",
        env={"CAISSON__SESSION_TTL_SEC": "60"},
    )
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    assert answer["ok"] is True
    assert answer["file"] == check.file
    assert answer["problems"] == []
    assert answer["ignored"] == ["box.unknown"]
    assert answer["variables"] == ["CAISSON__SESSION_TTL_SEC"]
    assert answer["config"]["caisson"]["session_ttl_sec"] == 60
    assert answer["config"]["box"]["e2b"]["api_key"] == "***"


def test_json_tells_problems(check):
    done = check("caisson: {pools: 7}\n", "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert (answer["ok"], answer["config"]) == (False, None)
    assert answer["problems"] == [f"{check.file}: caisson.pools: must be true or false"]
