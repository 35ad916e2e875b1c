"""The same sweep on a SLURM that this test starts and stops."""

import subprocess

import pytest

from tests.book.evidence import slurm, sweep_toys


@pytest.mark.skipif(bool(slurm.missing()), reason=slurm.missing())
def test_a_sweep_on_slurm(tmp_path):
    source = sweep_toys.notebook(tmp_path / "work")
    resources = ["--default-resources", "mem_mb=400", "gpu=1", "runtime=7"]
    words = ["--profile", str(slurm.profile(tmp_path)), "--", *resources]
    with slurm.running(tmp_path / "slurm") as env:
        command = sweep_toys.command(source, "-p", "epsilon=2,-1", *words)
        done = subprocess.run(command, capture_output=True, text=True, env=sweep_toys.env(**env), check=False)
        jobs = subprocess.run(["scontrol", "show", "job"], capture_output=True, text=True, env=env, check=True).stdout
    assert done.returncode == 1, done.stdout + done.stderr
    rows = sweep_toys.table(source)
    assert [(row["epsilon"], row["status"]) for row in rows] == [("2", "done"), ("-1", "refused")]
    assert rows[0]["A.thm6.risk"] == "0.5"
    assert jobs.count("JobState=COMPLETED") == 2
    assert jobs.count("TimeLimit=00:07:00") == 2
    for asked in ("MinMemoryNode=400M", "NumCPUs=1", "TresPerJob=gres:gpu:1"):
        assert jobs.count(asked) == 2, jobs
