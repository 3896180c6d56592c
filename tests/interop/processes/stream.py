"""A stream of bytes that a seed determines: a writer in a box, and whoever checks what comes out."""

import os
import random
import select
import sys

BLOCK = 1 << 20
LARGEST = 9 << 20


class Stream:
    def __init__(self, seed):
        self.seed = seed
        self.blocks = {}

    def block(self, number):
        if number not in self.blocks:
            if len(self.blocks) > 24:
                self.blocks.clear()
            self.blocks[number] = random.Random(self.seed * 1_000_003 + number).randbytes(BLOCK)
        return self.blocks[number]

    def read(self, offset, size):
        parts = []
        while size > 0:
            part = self.block(offset // BLOCK)[offset % BLOCK : offset % BLOCK + size]
            parts.append(part)
            offset += len(part)
            size -= len(part)
        return b"".join(parts)


def random_size(chance, largest):
    """From one byte on: small ones as often as large ones."""
    return min(largest, int(largest ** chance.random()))


def write_until_told(seed):
    """Pieces of random sizes, until somebody closes standard input; then their sum on standard error."""
    stream, chance, offset = Stream(seed), random.Random(seed), 0
    while not select.select([0], [], [], 0)[0]:
        data = memoryview(stream.read(offset, random_size(chance, LARGEST)))
        offset += len(data)
        while data:
            data = data[os.write(1, data) :]
    sys.stderr.write(f"{offset}\n")


if __name__ == "__main__":
    write_until_told(int(sys.argv[1]))
