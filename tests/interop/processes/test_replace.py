"""A daemon takes the place of another, again and again: what runs does not notice."""

import http.client
import os
import threading

from rest.daemon import Client, session_path
from rest.host import wait_until

from .managed import output, show, start_shell

KEY = "Idempotency-Key"
COUNTER = "i=0; while [ ! -e stop ]; do echo $i; i=$((i + 1)); sleep 0.002; done; echo end; cat"


class Caller(threading.Thread):
    """Commands with request ids, one after the other, to whatever daemon is there; again until it is answered. One
    that was at work when its daemon was killed is answered as well: it is interrupted, and may have run."""

    def __init__(self, scene, session):
        super().__init__(daemon=True)
        self.scene, self.session = scene, session
        self.answered, self.interrupted = 0, set()
        self.failure, self.done = None, threading.Event()

    def run(self):
        try:
            while not self.done.is_set():
                self.ask(self.answered)
                self.answered += 1
        except Exception as failure:  # the test tells it
            self.failure = failure

    def ask(self, number):
        body = {"cmd": f"echo {number} >> numbers; echo {number}"}

        def answer():
            client = Client(path=self.scene.socket, headers={"Connection": "close"})
            try:
                reply = client("POST", session_path(self.session) + "/exec", body, {KEY: f"{self.session}-{number}"})
                return reply if reply.status == 200 or reply.status == 409 else None
            except (OSError, http.client.HTTPException):
                return None
            finally:
                client.close()

        reply = wait_until(answer, f"an answer to {number}", 120)
        if reply.status == 200:
            assert reply.json["stdout"] == str(number)
        else:
            assert reply.code == "interrupted", reply
            self.interrupted.add(str(number))

    def finish(self):
        """How many commands were answered."""
        self.done.set()
        self.join(180)
        assert not self.is_alive()
        if self.failure:
            raise self.failure
        return self.answered


class Scene:
    """Processes with numbered output and callers, while daemons come and go."""

    def __init__(self, daemon, size=3):
        self.socket, self.names = daemon.state / "caisson.sock", [f"s{number}" for number in range(size)]
        client = daemon.client
        self.pids = {name: start_shell(client, name, COUNTER, journal_bytes=16 << 20)["pid"] for name in self.names}
        self.callers = [Caller(self, name) for name in self.names]
        for caller in self.callers:
            caller.start()

    def progress(self):
        """A command of everybody is answered that was not before."""
        before = [caller.answered for caller in self.callers]

        def all_went_on():
            for caller in self.callers:
                if caller.failure:
                    raise caller.failure
            return all(caller.answered > count + 1 for caller, count in zip(self.callers, before))

        wait_until(all_went_on, "answers to everybody", 180)

    def check(self, client):
        """Nothing is lost, nothing came twice, and the processes are those of the beginning."""
        for caller in self.callers:
            count = caller.finish()
            assert count > 0
            ran = client.output(caller.session, "touch stop; cat numbers").split()
            answered = [str(number) for number in range(count)]
            assert ran == [number for number in answered if number in ran or number not in caller.interrupted]
        for name in self.names:
            assert show(client, name)["pid"] == self.pids[name]
            wait_until(lambda: output(client, name).body.endswith(b"end\n"), "the last number")
            *numbers, _ = output(client, name).body.split()
            assert numbers == [str(number).encode() for number in range(len(numbers))]


def test_ten_daemons_in_a_row_take_each_others_place_under_load(start_daemon):
    daemon = start_daemon()
    scene = Scene(daemon)

    def successor():
        return start_daemon(launch=False, state=daemon.state, arguments=["--replace"])

    def has_the_lock(process):
        return lambda: (daemon.state / "lock").read_bytes().strip() == str(process.pid).encode()

    for number in range(10):
        scene.progress()
        before = daemon
        if number == 5:  # one is killed as soon as it has the directory
            unlucky = successor()
            unlucky.launch()
            wait_until(has_the_lock(unlucky.process), "the name of the next in the lock")
            unlucky.process.kill()
            unlucky.process.wait(60)
        daemon = successor()
        daemon.start(120)
        assert before.process.wait(60) == 0, before.read_log()
        assert (daemon.state / "lock").read_text() == f"{daemon.process.pid}\n"
    scene.progress()
    scene.check(daemon.client)
    daemon.stop()


def test_two_that_replace_at_the_same_time_come_one_after_the_other(start_daemon):
    first = start_daemon()
    first.client.output("s", "echo kept > file")
    both = [start_daemon(launch=False, state=first.state, arguments=["--replace"]) for _ in range(2)]
    for daemon in both:
        daemon.launch()
    assert first.process.wait(60) == 0, first.read_log()
    # Whoever came first is asked to go by the other.
    gone = wait_until(lambda: [daemon for daemon in both if daemon.process.poll() is not None], "the end of one")
    assert [daemon.process.poll() for daemon in gone] == [0], gone[0].read_log()
    last = next(daemon for daemon in both if daemon not in gone)
    client = Client(int(wait_until(last.announced_port, "the port of the last")))
    assert wait_until(lambda: client.output("s", "cat file"), "an answer") == "kept"
    last.pid = last.find_pid()
    last.learn_names()
    last.stop()
    assert os.path.getsize(first.state / "lock") == 0
