"""caisson image: root file systems made of a directory or a tar."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tarfile

import pytest

SOURCE = r"""
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  printf("hello from %s as %d\n", argc > 1 ? argv[1] : "nobody", (int)getuid());
  return access("/etc/marker", R_OK) == 0 ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory):
    """The smallest root there is: one static program and one file."""
    if not shutil.which("gcc"):
        pytest.skip("there is no gcc to make a static program with")
    root = tmp_path_factory.mktemp("image") / "root"
    (root / "bin").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc" / "marker").write_text("x")
    program = root / "bin" / "hello"
    subprocess.run(
        ["gcc", "-static", "-O1", "-x", "c", "-", "-o", program],
        input=SOURCE,
        text=True,
        check=True,
    )
    root.chmod(0o755)
    return root


@pytest.fixture
def imported(caisson, rootfs):
    done = caisson("image", "import", "small:1", rootfs)
    assert done.returncode == 0, done.stderr
    yield "small:1"
    caisson("image", "rm", "small:1")


def test_a_command_runs_in_an_imported_directory(caisson, imported):
    done = caisson.exec("hello", "me", options=["--image", imported])
    assert (done.returncode, done.stdout) == (0, "hello from me as 1000\n"), done.stderr
    # Nothing of the host is in there.
    assert caisson.exec("sh", options=["--image", imported]).returncode == 127


def test_a_tar_comes_from_a_file_or_from_standard_input(caisson, rootfs, tmp_path):
    archive = tmp_path / "root.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(rootfs, arcname=".")
    assert caisson("image", "import", "from-file", archive).returncode == 0
    with open(archive, "rb") as stream:
        done = caisson("image", "import", "from-stdin", "-", stdin=stream)
    assert done.returncode == 0, done.stderr
    for name in ["from-file", "from-stdin"]:
        assert caisson.exec("hello", options=["--image", name]).returncode == 0
    removed = caisson("image", "rm", "from-file", "from-stdin")
    assert removed.stdout == "removed from-file\nremoved from-stdin\n"


def test_images_are_listed(caisson, imported):
    table = caisson("image", "ls")
    assert table.stdout.splitlines()[0].split() == ["NAME", "SIZE", "ENTRIES", "CREATED"]
    assert any(line.startswith("small:1 ") for line in table.stdout.splitlines())
    assert "small:1" in caisson("image", "ls", "-q").stdout.split()
    images = json.loads(caisson("image", "ls", "--json").stdout)["images"]
    (image,) = [entry for entry in images if entry["name"] == imported]
    assert image["source"] == "directory" and image["bytes"] > 0
    assert imported in json.loads(caisson("doctor", "--json").stdout)["images"]


def test_json_describes_what_was_done(caisson, rootfs):
    done = caisson("image", "import", "described", rootfs, "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["name"] == "described"
    removed = caisson("image", "rm", "described", "--json")
    assert json.loads(removed.stdout) == {"removed": ["described"]}


def test_refusals_name_the_image(caisson, rootfs, imported):
    taken = caisson("image", "import", imported, rootfs)
    assert taken.returncode == 125
    assert 'image "small:1" exists already' in taken.stderr
    bad = caisson("image", "import", "Bad Name", rootfs)
    assert bad.returncode == 2 and "Bad Name" in bad.stderr
    missing = caisson("image", "import", "x", "/no/such/place")
    assert missing.returncode != 0 and "/no/such/place" in missing.stderr
    unknown = caisson("image", "rm", imported, "never-imported", "--json")
    assert json.loads(unknown.stdout)["error"]["code"] == "image_not_found"
    # A mistyped name is found before anything is gone.
    assert imported in caisson("image", "ls", "-q").stdout.split()


def test_an_interrupted_import_leaves_nothing(caisson, rootfs, tmp_path):
    archive = tmp_path / "many.tar"
    with tarfile.open(archive, "w") as tar:
        for number in range(1000):
            tar.add(rootfs / "etc" / "marker", arcname=f"etc/{number}")
    content = archive.read_bytes()[: 1000 * 1024]  # entries only: the end of the tar never comes
    process = caisson.start("image", "import", "half", "-", stdin=subprocess.PIPE)
    with contextlib.suppress(BrokenPipeError):
        # More than a pipe holds: what follows is written while the import reads.
        process.stdin.write(content)
        process.send_signal(signal.SIGTERM)
        while True:
            process.stdin.write(content)
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    process.stdout.close()
    process.stderr.close()
    assert "half" not in caisson("image", "ls", "-q").stdout.split()
    drafts = os.listdir(os.path.join(caisson.env["CAISSON_STATE"], "images"))
    assert not [name for name in drafts if name.startswith(".new-")]
