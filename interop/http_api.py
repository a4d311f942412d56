"""Requests to the HTTP API of a broker, ours or a RabbitMQ's."""
import base64
import json
import urllib.error
import urllib.request

ANSWER_MAX_S = 60


def ask(url, method, path, body=None, login="guest:guest"):
    """the status and the text of the answer; `path` is what stands behind /api/, a body of text goes as it is"""
    data = body if body is None or isinstance(body, str) else json.dumps(body)
    request = urllib.request.Request(
        url.rstrip("/") + "/api/" + path.lstrip("/"), None if data is None else data.encode(), method=method,
        headers={"Authorization": "Basic " + base64.b64encode(login.encode()).decode(),
                 "Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_MAX_S) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(errors="replace")
