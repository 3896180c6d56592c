"""Much output, and long lines of it."""

from host import until

from capabilities import attach, capability, check, place

BLOCKS, LINES, WIDTH = 24, 1000, 995  # a megabyte in a block
NUMBERED = f"""
echo 0 > progress
line=$(head -c {WIDTH} /dev/zero | tr '\\0' x)
block=0
while [ $block -lt {BLOCKS} ]; do
  echo "block $block"
  yes $line | head -n {LINES} | sed =
  block=$((block + 1))
  echo $block > progress
done
echo end
exec sleep 600
"""
LONGEST = 16 << 20  # without its newline


def written():
    """All of it, without the newlines: whether messages have them is not the same everywhere."""
    block = "".join(f"{number}{'x' * WIDTH}" for number in range(1, LINES + 1))
    return "".join(f"block {number}{block}" for number in range(BLOCKS)) + "end"


async def comes_to_rest(progress):
    """Until the process has written everything, or has been kept from it for a second."""
    seen = {"text": None, "times": 0}

    async def at_rest():
        text = progress.read_text().strip() if progress.exists() else ""
        seen["times"] = seen["times"] + 1 if text == seen["text"] else 0
        seen["text"] = text
        return text == str(BLOCKS) or (text and seen["times"] > 50)

    await until(at_rest, "the process to come to rest", 60)


@capability("relay: 24 MB that were written while nobody was attached", seconds=90)
async def unattached(host):
    shown = place(host, "unattached")
    await host.create("unattached", host_path=str(shown), workdir="/workspace")
    await host.start("unattached", NUMBERED, cwd="/workspace")
    await comes_to_rest(shown / "progress")
    pieces = []
    async with attach(host, "unattached", max_size=None) as socket:
        while "".join(pieces[-3:])[-3:] != "end":
            pieces.append((await socket.recv()).replace("\n", ""))
    await host.call("delete_session", "unattached")
    got, wanted = "".join(pieces), written()
    check(len(got) >= len(wanted), "some of it is lost")
    check(got == wanted, "it is changed")


@capability("relay: a line of 16 MiB, and the one behind it", seconds=60)
async def longest_line(host):
    await host.create("longest")
    script = f"head -c {LONGEST} /dev/zero | tr '\\0' x; echo; echo behind; exec sleep 600"
    await host.start("longest", script)
    async with attach(host, "longest", max_size=None) as socket:
        first = (await socket.recv()).strip()
        check(len(first) == LONGEST, "the line comes in pieces")
        check((await socket.recv()).strip() == "behind", "the line behind it is another")
    await host.call("delete_session", "longest")
