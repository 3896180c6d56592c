"""A skill is installed and activated while a box runs."""

import io
import zipfile

import pytest

from rest.host import processes_with

from .agent import long_sleep
from .application import Answer

MANIFEST = """---
name: greeting
description: Says how to greet
---
Run greet.sh.
"""
FILES = {"SKILL.md": MANIFEST, "greet.sh": "echo greetings from $(basename $0)\n", "words.txt": "a word of the skill\n"}
PLACE = "/workspace/.skills/greeting"  # that both releases know; 4.11 puts the place of the revision there


def packed(files):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as writer:
        for name, content in files.items():
            writer.writestr(f"greeting/{name}", content)
    return archive.getvalue()


@pytest.fixture
def install(langbot):
    def install():
        langbot.upload("/skills/install/upload", "greeting.zip", packed(FILES))
        assert "greeting" in names(langbot)

    yield install
    if "greeting" in names(langbot):
        langbot.delete("/skills/greeting")


def names(langbot):
    return {skill["name"] for skill in langbot.get("/skills")["skills"]}


class Running:
    """A box with a file and a process, which are looked for later."""

    def __init__(self, box, chat):
        self.box, self.mark = box, long_sleep()
        (begun,) = chat.run(["exec", {"command": f"echo kept > /tmp/note; {self.mark} & echo $!"}])
        self.number, self.session = begun["stdout"].strip(), begun["session_id"]
        self.before = self.seen()

    def seen(self):
        """The box, and the process on this host."""
        sessions = self.box.client("GET", "/v1/sessions").json
        (shown,) = [session for session in sessions if session["session_id"].endswith(f"-{self.session}")]
        return shown["backend_session_id"], processes_with(self.mark)

    @property
    def question(self):
        return f"cat /tmp/note; kill -0 {self.number} && echo alive"


def test_it_is_activated_in_a_box_whose_files_and_processes_stay(box, chat, install):
    running = Running(box, chat)
    install()
    activated, done = chat.run(
        ["activate", {"skill_name": "greeting"}],
        ["exec", {"command": f"cat {PLACE}/words.txt; sh {PLACE}/greet.sh; {running.question}"}],
    )
    assert activated["activated"] and "Run greet.sh." in activated["content"]
    assert done["stdout"] == "a word of the skill\ngreetings from greet.sh\nkept\nalive", done
    assert running.seen() == running.before


def test_within_one_run_too(chat, install):
    install()
    begun, activated, done = chat.run(
        ["exec", {"command": f"echo kept > /tmp/note; {long_sleep()} & echo $!"}],
        ["activate", {"skill_name": "greeting"}],
        ["exec", {"command": f"cat {PLACE}/words.txt /tmp/note; pgrep -x sleep"}],
    )
    assert activated["activated"]
    assert done["stdout"] == f"a word of the skill\nkept\n{begun['stdout'].strip()}", done


def test_the_next_run_of_the_box_goes_on_when_it_is_removed(box, langbot, chat, install):
    install()
    running = Running(box, chat)
    chat.run(["activate", {"skill_name": "greeting"}], ["exec", {"command": f"cat {PLACE}/words.txt"}])
    langbot.delete("/skills/greeting")
    assert "greeting" not in names(langbot)
    with pytest.raises(Answer):
        langbot.get("/skills/greeting")
    search = "find /workspace/.skills /opt/langbot-artifacts -name words.txt"
    (done,) = chat.run(["exec", {"command": f"{running.question}; {search}"}])
    assert done["stdout"] == "kept\nalive", done
    assert running.seen() == running.before
