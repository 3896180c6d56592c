"""A language model that says what it was told to: an OpenAI-compatible server on loopback."""

import http.server
import json
import threading


def last_script(messages):
    """Of the last message of the user, and how many tools have answered since."""
    last = max(number for number, message in enumerate(messages) if message["role"] == "user")
    content = messages[last]["content"]
    text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    return json.loads(text), [message for message in messages[last:] if message["role"] == "tool"]


def reply_to(messages):
    """The next call of the script, or all that the tools have answered."""
    script, answered = last_script(messages)
    if len(answered) == len(script["calls"]):
        return {"role": "assistant", "content": json.dumps([message["content"] for message in answered])}
    name, arguments = script["calls"][len(answered)]
    call = {"name": name, "arguments": json.dumps(arguments)}
    wanted = {"id": f"call-{len(answered)}", "type": "function", "function": call}
    return {"role": "assistant", "content": None, "tool_calls": [wanted]}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = reply_to(asked["messages"])
        reason = "tool_calls" if "tool_calls" in message else "stop"
        answer = {
            "id": "answer",
            "object": "chat.completion",
            "created": 0,
            "model": asked["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Model:
    def __enter__(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
