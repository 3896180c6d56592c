"""A daemon that is killed again and again, and what must not be lost with it."""

import http.client
import os
import random
import signal
import time
from pathlib import Path

from processes.lossless import Reader, Sender
from processes.managed import show, start, wait_for_end
from processes.stream import Stream
from rest.daemon import Client, Daemon, session_path
from rest.host import wait_until
from rest.test_recovery import keeper_of

KEY = "Idempotency-Key"
WRITER = Path(__file__).parents[1].joinpath("processes", "stream.py").read_text()
IDLE = 3  # sessions that only have to be there
MOST_AT_ONCE = 64 << 10
LONGEST_LINE = 2000


class Victim(Daemon):
    """Started and killed thousands of times: nothing of a start is done twice, and its log is kept for three runs."""

    def launch(self):
        self.tables_before = set()
        for number in (1, 0):
            log = self.directory / (f"log.{number}" if number else "log")
            if log.exists():
                log.rename(self.directory / f"log.{number + 1}")
        self.spawn()

    def back(self):
        """Everything that survived is there again."""
        wait_until(lambda: self.client.metric("sessions_returning") == 0, "the last session")


class Requests:
    """Numbered commands with request ids, asked for until somebody says what became of them."""

    def __init__(self):
        self.answers = []  # how each ended
        self.asked = None

    def command(self):
        return {"cmd": f"echo {len(self.answers)} >> numbers; echo {len(self.answers)}"}

    def begin(self, daemon):
        """Without waiting for the answer."""
        key = f"r{len(self.answers)}"
        client = Client(daemon.port, headers={"Connection": "close", KEY: key})
        client.send("POST", session_path("s") + "/exec", self.command())
        self.asked = client

    def finish(self, daemon):
        """The answer of the one that may have been at work; by a repetition, when its daemon is gone."""
        if self.asked is None:
            return
        try:
            reply = self.asked.receive()
        except (OSError, http.client.HTTPException):
            reply = daemon.client("POST", session_path("s") + "/exec", self.command(), {KEY: f"r{len(self.answers)}"})
        self.asked.close()
        self.asked = None
        if reply.status == 200:
            assert reply.json["stdout"] == str(len(self.answers)), reply
            self.answers.append("completed")
        else:
            assert reply.code == "interrupted", reply
            self.answers.append("interrupted")

    def check(self, numbers):
        """What was answered ran once, what was interrupted at most once, and all in order."""
        assert numbers == sorted(set(numbers)), "twice or out of order"
        done = {number for number, answer in enumerate(self.answers) if answer == "completed"}
        assert done <= set(numbers), f"lost: {sorted(done - set(numbers))}"


class Scene:
    """Processes that speak and listen, commands with ids, idle sessions; and those who kill."""

    def __init__(self, daemon, chance, times):
        self.daemon, self.chance, self.times = daemon, chance, times
        client = daemon.client
        seed = chance.randrange(1 << 32)
        self.stream = Stream(seed)
        spec = {"process_id": "w", "overflow": "hold", "journal_bytes": 1 << 20}
        self.pid = start(client, "s", "python3", "-c", WRITER, str(seed), **spec)["pid"]
        self.pids = {("s", "w"): self.pid, ("s", "default"): start(client, "s", "sh", "-c", "cat > got")["pid"]}
        for number in range(IDLE):
            self.pids[f"idle{number}", "default"] = start(client, f"idle{number}", "sleep", "86400")["pid"]
        self.boxes = {name: client.get(name).json["backend_session_id"] for name, _ in self.pids}
        self.reader, self.sender, self.requests = Reader(self), Sender(daemon, chance, LONGEST_LINE), Requests()
        self.kills = 0

    def work(self):
        """Leaves a command, lines and output on their way."""
        self.reader.read(self.chance.randint(1, MOST_AT_ONCE))
        self.sender.send()
        self.requests.begin(self.daemon)

    def cut(self):
        """Whoever was connected to a daemon that is gone."""
        if self.chance.random() < 0.5:
            self.reader.read_what_is_left()
        else:
            self.reader.leave()
        self.sender.leave()

    def pause(self, most):
        time.sleep(self.chance.uniform(0, most))

    def start(self):
        began = time.monotonic()
        self.daemon.start()
        self.daemon.back()
        self.times.append(time.monotonic() - began)

    def check(self):
        """All are back, nobody is another."""
        for (session, process), pid in self.pids.items():
            shown = show(self.daemon.client, session, process)
            assert (shown["status"], shown["pid"]) == ("running", pid), (session, process, shown)
        for name, box in self.boxes.items():
            assert self.daemon.client.get(name).json["backend_session_id"] == box
        self.requests.finish(self.daemon)
        if self.chance.random() < 0.3:
            self.sender.leave()
            self.sender.send_and_hear()
            self.sender.leave()

    def end(self, process):
        self.kills += process.poll() is None  # one that has left by itself is no kill
        process.kill()
        process.wait(60)

    # Each of these kills at least once, but for a replacement in which nobody dies.

    def kill_daemon(self):
        self.pause(0.03)
        self.end(self.daemon.process)
        self.cut()
        self.start()

    def kill_recovering(self):
        """Again and again, before it is back or a moment after."""
        self.end(self.daemon.process)
        self.cut()
        usual = sorted(self.times)[len(self.times) // 2]
        for _ in range(self.chance.randint(1, 6)):
            self.daemon.launch()
            self.pause(1.5 * usual)
            self.end(self.daemon.process)
        self.start()

    def kill_keeper(self):
        """The daemon tells another one everything; until then it is alone with it, and must live."""
        keeper = keeper_of(self.daemon)
        self.pause(0.03)
        os.kill(keeper, signal.SIGKILL)
        self.kills += 1
        wait_until(lambda: other_keeper(self.daemon, keeper), "another keeper")
        self.daemon.back()
        if self.chance.random() < 0.5:
            self.kill_daemon()

    def kill_keeper_of_recovering(self):
        """As soon as the daemon has heard from it."""
        self.end(self.daemon.process)
        self.cut()
        self.daemon.launch()
        wait_until(self.daemon.announced_port, "the port in the log")
        keeper = keeper_of(self.daemon)
        os.kill(keeper, signal.SIGKILL)
        self.kills += 1
        self.daemon.connect()
        wait_until(lambda: other_keeper(self.daemon, keeper), "another keeper")
        self.daemon.back()

    def replace(self):
        """One of the two dies on the way, or none; then there is one."""
        before = self.daemon.process
        self.daemon.arguments = ["--replace"]
        self.daemon.launch()
        self.daemon.arguments = []
        after = self.daemon.process
        dies = self.chance.choice(["before", "after", "nobody"])
        self.pause(0.15)
        if dies == "before":
            self.end(before)
        elif dies == "after":
            self.end(after)
            self.end(before)  # it has left, is about to, or was never told
        self.cut()
        if dies == "after":
            self.start()
        else:
            before.wait(60)
            self.daemon.connect()
            self.daemon.back()

    ACTIONS = {kill_daemon: 40, kill_recovering: 25, kill_keeper: 12, kill_keeper_of_recovering: 8, replace: 15}

    def run(self, kills):
        while self.kills < kills:
            self.work()
            action = self.chance.choices(list(self.ACTIONS), self.ACTIONS.values())[0]
            action(self)
            self.check()
        self.finish()
        return self.kills

    def finish(self):
        """Up to the last byte and line."""
        client = self.daemon.client
        told = self.reader.finish()
        ended = wait_for_end(client, "s", "w")
        assert (told["exit_code"], ended["exit_code"]) == (0, 0)
        assert self.reader.next == ended["stdout"]["end"] == int(ended["stderr_preview"]), "output lost"
        self.reader.leave()
        self.sender.leave()
        self.sender.send_and_hear()
        self.sender.connection.tell("close_input")
        assert self.sender.connection.event("exit")["exit_code"] == 0
        self.sender.leave()
        assert client.get_file("s", "got").body == b"".join(self.sender.lines), "input lost, repeated or out of order"
        self.requests.begin(self.daemon)
        self.requests.finish(self.daemon)
        self.requests.check([int(line) for line in client.get_file("s", "numbers").body.split()])
        for name in self.boxes:
            assert client.delete(name).status == 200


def other_keeper(daemon, before):
    try:
        return keeper_of(daemon) != before
    except AssertionError:
        return False


def chances(seed, count):
    dice = random.Random(seed)
    return [random.Random(dice.randrange(1 << 64)) for _ in range(count)]


