"""LangBot's boxes are the daemon's, with the configuration that LangBot has by default."""

from rest.host import processes_with

from .agent import long_sleep
from .boxes import crash, is_old, sessions


def test_the_box_is_available(langbot):
    status = langbot.get("/box/status")
    assert (status["enabled"], status["available"]) == (True, True), status
    assert status["backend"] == {"available": True, "name": "native"}
    assert langbot.get("/box/errors") == []


def test_a_command_of_the_agent_works_where_langbot_keeps_its_files(langbot, chat):
    (done,) = chat.run(["exec", {"command": "pwd; echo made > made-in-a-box; id -un"}])
    assert (done["exit_code"], done["stdout"], done["backend"]) == (0, "/workspace\nbox", "native"), done
    (made,) = (langbot.directory / "data" / "box" / "default" / "tenants").glob("*/made-in-a-box")
    assert made.read_text() == "made\n"
    made.unlink()
    assert done["session_id"] in {session["session_id"] for session in langbot.get("/box/sessions")}


def test_the_files_and_processes_of_a_box_survive_the_daemon(box, chat):
    sleep = long_sleep()
    (begun,) = chat.run(["exec", {"command": f"echo kept > /tmp/note; {sleep} & echo $!"}])
    before = processes_with(sleep)
    if not crash(box, begun["session_id"]):
        return
    assert processes_with(sleep) == before and len(before) == 1
    assert any(session.endswith(f"-{begun['session_id']}") for session in sessions(box))
    if is_old(box):
        return  # the conversation has ended with LangBot, and its box is never asked for again
    (found,) = chat.run(["exec", {"command": f"cat /tmp/note; kill -0 {begun['stdout'].strip()} && echo alive"}])
    assert found["stdout"] == "kept\nalive", found
