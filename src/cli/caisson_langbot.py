"""Lets a LangBot that starts its Box runtime itself start Caisson instead.

LangBot has no setting for that command: it runs `python -m langbot_plugin.cli.__init__ box ...` with its own interpreter.
`caisson langbot install` runs this file with the same interpreter. It puts a copy of itself beside LangBot's packages, and
a .pth file that has it called whenever the interpreter starts. Nothing of LangBot is changed, so its packages can be
upgraded and the two files removed. They are no distribution: tools that make an environment equal to a list would take
that away.
"""

import os
import sys

NAME = "caisson_langbot"
PACKAGE = "langbot_plugin"


def runtime_arguments(argv):
    """What the Box runtime would be given by this command line of the interpreter; None when it starts something else."""
    words = iter(argv[1:])
    for word in words:
        if word == "-m":
            return arguments_of_module(next(words, ""), list(words))
        if word in ("-W", "-X", "--check-hash-based-pycs"):
            next(words, None)
        elif word == "-c" or not word.startswith("-"):
            is_console_script = os.path.basename(word) == "lbp"
            return arguments_of_module(PACKAGE, list(words)) if is_console_script else None
    return None


def arguments_of_module(module, words):
    """Any module of the SDK counts, as releases name different ones; every other subcommand is left alone."""
    if module == f"{PACKAGE}.box" or module.startswith(f"{PACKAGE}.box."):
        return words
    ours = module == PACKAGE or module.startswith(f"{PACKAGE}.")
    return words[1:] if ours and words[:1] == ["box"] else None


def take_over(caisson):
    """Called by the .pth file. Becomes Caisson where LangBot's own Box runtime would start."""
    arguments = runtime_arguments(sys.orig_argv)
    if arguments is None:
        return
    import signal

    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores, and the program would go on to
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(caisson, [caisson, "box", *arguments])
    except OSError as error:
        fault = error.strerror
    # An exception would be printed and the interpreter go on: LangBot's own runtime would start unnoticed.
    sys.stderr.write(
        f"caisson: {caisson}: {fault}. LangBot is set up to start it as its Box runtime: put it back, or give LangBot"
        f" its own again with: {sys.executable} -m {NAME} remove\n"
    )
    sys.stderr.flush()
    os._exit(127)


class Fault(Exception):
    """Something that the caller has to mend."""


def places():
    """Where the two files are."""
    import sysconfig

    directory = sysconfig.get_path("purelib")
    return os.path.join(directory, f"{NAME}.py"), os.path.join(directory, f"{NAME}.pth")


def release():
    """Of the SDK in this environment."""
    from importlib import metadata

    try:
        return metadata.version("langbot-plugin")
    except metadata.PackageNotFoundError:
        raise Fault(f"{sys.executable} has no langbot-plugin: name the environment that LangBot runs in") from None


def answer(command):
    import subprocess

    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout


def starts(caisson):
    """Whether LangBot's command really is answered by this program."""
    own = [sys.executable, "-m", f"{PACKAGE}.cli.__init__"]
    code, said = answer([*own, "box", "--help"])
    return code == 0 and said == answer([caisson, "box", "--help"])[1]


def replace(path, content):
    temporary = f"{path}.{os.getpid()}"
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(content)
        os.replace(temporary, path)
    except OSError as error:
        raise Fault(f"{path}: {error.strerror}: run this as the user who owns LangBot's environment") from None


def install(caisson):
    version = release()
    module, hook = places()
    with open(__file__, encoding="utf-8") as own:
        replace(module, own.read())
    replace(hook, f"import {NAME}; {NAME}.take_over({ascii(caisson)})\n")
    if not starts(caisson):
        remove()
        raise Fault(f"{sys.executable} does not start {caisson} as the Box runtime of langbot-plugin {version};"
                    " nothing was changed. Use the websocket instead")
    print(f"LangBot in {sys.prefix} (langbot-plugin {version}) starts {caisson} as its Box runtime")


def remove():
    from importlib import util

    module, hook = places()
    there = [path for path in (hook, module) if os.path.lexists(path)]  # the one that calls the other goes first
    for path in [*there, util.cache_from_source(module)]:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Fault(f"{path}: {error.strerror}: run this as the user who owns LangBot's environment") from None
    return bool(there)


def check(caisson):
    version = release()
    if not starts(caisson):
        raise Fault(f"LangBot in {sys.prefix} (langbot-plugin {version}) does not start {caisson} as its Box runtime:"
                    f" caisson langbot install {sys.prefix}")
    print(f"LangBot in {sys.prefix} (langbot-plugin {version}) starts {caisson} as its Box runtime")


def main(action, caisson=""):
    try:
        if action == "remove":
            was_there = remove()
            print(f"LangBot in {sys.prefix} starts its own Box runtime" + ("" if was_there else ", as before"))
        else:
            {"install": install, "check": check}[action](caisson)
    except Fault as fault:
        print(f"caisson: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
