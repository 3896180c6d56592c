"""Runs as a user without rights, by itself: tries each attempt that comes by standard input and says what came of it.

An attempt is {"bytes": ...} to the port, on a connection of its own, {"socket": path, "bytes": ...} to a unix socket, or
{"file": path}. What comes of it is the answer, or the error's name.
"""

import json
import os
import socket
import struct
import sys


def converse(connection, attempt):
    connection.settimeout(60)
    connection.sendall(attempt["bytes"].encode("latin-1"))
    if attempt.get("end") == "reset":  # and gone before anybody can look who it was
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return ""
    if attempt.get("end") == "leave":
        return ""
    connection.shutdown(socket.SHUT_WR)
    answer = b""
    while piece := connection.recv(65536):
        answer += piece
    return answer.decode("latin-1")


def attempt_at(port, attempt):
    try:
        if "socket" in attempt:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(attempt["socket"])
                return converse(connection, attempt)
        if "file" in attempt:
            path = attempt["file"]
            return repr(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            return converse(connection, attempt)
    except OSError as error:
        return type(error).__name__


port, attempts = json.load(sys.stdin)
json.dump([attempt_at(port, attempt) for attempt in attempts], sys.stdout)
