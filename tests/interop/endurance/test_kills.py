"""Daemons, keepers and replacing daemons are killed at any moment, and nothing is lost, repeated or out of order.

$CAISSON_KILLS is the number of kills, $CAISSON_SEED repeats the choices of an earlier run, $CAISSON_VICTIMS is the
number of daemons that are killed side by side.
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

from .victim import Scene, Victim, chances

KILLS = int(os.environ.get("CAISSON_KILLS", 60))
VICTIMS = int(os.environ.get("CAISSON_VICTIMS", 2))
KILLS_OF_A_SCENE = 150  # then everything is read to its end, and begins anew


def torture(directory, chance, kills):
    """Gives the kills and how long each start took until everything was back."""
    times, done, daemon = [], 0, Victim(directory)
    try:
        daemon.start()
        times.append(0.1)
        while done < kills:
            done += Scene(daemon, chance, times).run(min(KILLS_OF_A_SCENE, kills - done))
        daemon.signal(15)
        assert daemon.process.wait(60) == 0, daemon.read_log()
    finally:
        daemon.end()
    return done, times[1:]


def test_nothing_is_lost_whoever_is_killed_when(tmp_path_factory, seed):
    began = time.monotonic()
    share = -(-KILLS // VICTIMS)
    places = [tmp_path_factory.mktemp("victim") for _ in range(VICTIMS)]
    with ThreadPoolExecutor(VICTIMS) as pool:
        results = list(pool.map(torture, places, chances(seed, VICTIMS), [share] * VICTIMS))
    kills, times = sum(done for done, _ in results), sorted(time for _, times in results for time in times)
    of = lambda part: f"{1000 * times[int(part * (len(times) - 1))]:.0f}"  # noqa: E731
    print(f"{kills} kills in {time.monotonic() - began:.0f} s; until everything was back, in ms: "
          f"median {of(0.5)}, 99 % {of(0.99)}, most {of(1)}")  # fmt: skip
    assert kills >= KILLS
