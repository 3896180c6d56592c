"""What is told and kept of processes that have ended."""

import datetime
import json
import time
from pathlib import Path

from rest.host import processes_with, wait_until

from .managed import start_shell, wait_for_end


def test_a_process_that_ended_while_no_daemon_ran_is_told_with_the_time_of_its_end(start_daemon, tmp_path, name):
    daemon = start_daemon(json.dumps({"box": {"local": {"allowed_mount_roots": [str(tmp_path)]}}}))
    tmp_path.chmod(0o777)
    daemon.client.create("s", host_path=str(tmp_path))
    start_shell(daemon.client, "s", f": {name}; touch started; until [ -e go ]; do sleep 0.1; done; exit 3")
    wait_until((tmp_path / "started").exists, "the process")
    pids = processes_with(name)
    assert pids
    daemon.kill()
    begun = time.time()
    (tmp_path / "go").touch()
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "its end")
    over = time.time()
    daemon.start()
    shown = wait_for_end(daemon.client, "s")
    assert shown["exit_code"] == 3
    assert begun <= datetime.datetime.fromisoformat(shown["exited_at"]).timestamp() <= over, (begun, shown, over)
