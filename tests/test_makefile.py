"""Every target of the Makefile works on this folder alone, whatever the folder is called."""

import os
import re
import shutil
import subprocess
import sys
import venv

import pytest
import yaml

from tests.conftest import ROOT

TARGETS = re.findall(r"^([a-z-]+):.*?##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("target", [*TARGETS, "otter"])
def test_a_path_with_spaces_is_one_path(target, tmp_path):
    folder = tmp_path / "my own" / "book of $HOME"
    folder.mkdir(parents=True)
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "postBuild"):
        shutil.copy(ROOT / name, folder)
    for lock in ("book/assignments/requirements.lock", "tests/benchmarks/peers.lock"):
        (folder / lock).parent.mkdir(parents=True)
        shutil.copy(ROOT / lock, folder / lock)
    command = ["make", "--dry-run", "--no-print-directory", target]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}  # this make is no part
    shown = subprocess.run(command, cwd=folder, env=plain, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    for line in shown.stdout.splitlines():
        parts = re.sub(r'"[^"]*"', "", line)  # what is quoted is one word
        assert str(tmp_path) not in parts, line


def test_a_moved_folder_runs_its_own_code(tmp_path):
    """The environment of a checkout that is copied or moved led back to the old one."""
    first, moved = tmp_path / "first", tmp_path / "my own"
    (first / "dplib").mkdir(parents=True)
    (first / "dplib" / "__init__.py").touch()
    venv.create(first / ".venv", with_pip=False, symlinks=True)
    *_, lead = (ROOT / "postBuild").read_text(encoding="utf-8").partition("python -c ")
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(["bash", "-c", f".venv/bin/python -c {lead}"], cwd=first, env=plain, check=True)
    first.rename(moved)
    first.mkdir()
    command = [moved / ".venv" / "bin" / "python", "-c", "import dplib; print(dplib.__file__)"]
    shown = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == str(moved / "dplib" / "__init__.py")


def test_a_lock_that_cannot_be_resolved_stays_as_it_was(tmp_path):
    for name in ("Makefile", "requirements.lock", "pyproject.toml", "postBuild"):
        shutil.copy(ROOT / name, tmp_path)
    python = tmp_path / "python"  # whose environment has a uv without a network
    python.write_text(
        "#!/bin/sh\nmkdir -p .venv-lock/bin\ncd .venv-lock/bin\nprintf '#!/bin/sh\\nexit 0' > pip\n"
        "printf '#!/bin/sh\\nexit 2' > uv\nchmod +x pip uv\n"
    )
    python.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    ended = subprocess.run(["make", "lock", f"PYTHON={python}"], cwd=tmp_path, env=plain, check=False)
    assert ended.returncode
    assert (tmp_path / "requirements.lock").read_bytes() == (ROOT / "requirements.lock").read_bytes()


def test_what_make_starts_keeps_its_bytecode():
    """Else every process compiles every library anew, which takes most of the time that a chapter and a test take."""
    command = ["make", "--no-print-directory", "--eval", "told: ; @env", "told"]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    env = {**plain, "PYTHONDONTWRITEBYTECODE": "1"}
    shown = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert "JUPYTER_PREFER_ENV_PATH=1" in shown.stdout
    assert "PYTHONDONTWRITEBYTECODE" not in shown.stdout


PYTHON = """#!/bin/sh
echo "$@" >> log
case "$*" in
  *" config list") echo "$CONFIGURED" ;;
  *"--requirement "*) cat >> log; echo "$@" | grep -vqe "$BROKEN" ;;
esac
"""


@pytest.mark.parametrize(
    ("configured", "broken", "programs"),
    [
        ("global.extra-index-url='file:///more'", "none", ["pip", "uv"]),
        (":env:.index-url='https://mirror'", "none", ["pip"]),
        ("global.no-index='true'", "none", ["pip"]),
        ("", "-m pip", ["pip", "pip"]),
        ("", "-m uv", ["pip", "uv", "pip"]),
    ],
)
def test_every_file_but_that_of_torch_is_checked_by_its_hash(tmp_path, configured, broken, programs):
    """What make env, Binder and conda users run, on a stand-in for Python: by uv where it can be."""
    for name in ("postBuild", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "CONFIGURED": configured, "BROKEN": broken}
    status = subprocess.run([tmp_path / "postBuild", "--index-url", "cpu"], cwd=tmp_path, env=env, check=False)
    assert bool(status.returncode) == (broken == "-m pip"), "it is not silent about a failure"
    calls = re.split(r"^(?=-[mc] )", (tmp_path / "log").read_text(), flags=re.MULTILINE)[1:]
    assert re.search(r"^-m pip .* --index-url cpu torch==[\d.]+$", calls[0].strip())
    made = [call for call in calls[1:] if " --requirement " in call]
    assert [call.split()[1] for call in made] == programs
    assert all("--require-hashes" in call.partition("\n")[0] for call in made)
    text = (tmp_path / "requirements.lock").read_text()
    hashed = re.findall(r"^([\w.-]+)==[^#\n]*\\\n +--hash=sha256:[0-9a-f]{64}", text, re.MULTILINE)
    assert len(hashed) == len(re.findall(r"^\w", text, re.MULTILINE)) > 100
    if len(programs) > 1:
        assert re.findall(r"^([\w.-]+)==", made[0], re.MULTILINE) == ["uv"]
    asked = re.findall(r"^([\w.-]+)==", made[-1], re.MULTILINE)
    assert asked == [name for name in hashed if name != ("torch" if programs[-1] == "uv" else "uv")]


COMMAND = """
import subprocess, sys
from book import __main__
__main__.main = lambda **_: subprocess.run([sys.executable, "-c", "import book; print(book.__file__)"], cwd="/")
__main__.cli()
"""


def test_what_a_command_starts_runs_the_code_of_its_tree(tmp_path):
    for package in ("book", "dplib"):
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "runs", "_static")
        )
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", COMMAND]
    shown = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == str(tmp_path / "book" / "__init__.py")


def test_the_workflow_calls_targets_that_exist_on_every_python():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8"))
    book = workflow["jobs"]["book"]
    assert book["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    called = [
        word for step in book["steps"] for word in step.get("run", "").split() if word.islower() and word != "make"
    ]
    assert called[:2] == ["book", "test"], "the README's two commands, in its order"
    assert set(called) <= set(TARGETS)
    assert {job.get("needs", "book") for job in workflow["jobs"].values()} == {"book"}, "nothing is published untested"


def test_tests_of_the_site_stand_where_ci_looks_for_them():
    told = re.search(r'IN="([^"]+)" TESTS="site', (ROOT / ".ci" / "run").read_text(encoding="utf-8"))[1].split()
    marked = [path for path in (ROOT / "tests").rglob("*.py") if ("pytest.mark." + "site") in path.read_text("utf-8")]
    assert len(marked) > 5
    assert all(any(path.is_relative_to(ROOT / folder) for folder in told) for path in marked)
