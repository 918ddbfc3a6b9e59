"""Part (e): the live page and `chary serve` under many clients at once: honest ones, slow ones, and
those with wrong hosts, wrong tokens, wrong words and paths that lead elsewhere."""

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.torture import parts
from tests.torture.parts import Budget, Check

MAIN, WANTED, LANES = "servers", 2, 1
CLIENTS = 200
EACH = 10
"""Requests of a client."""
SLOW = 0.1
"""Share of clients that send half a request and wait."""
ANSWER = 30.0
"""Seconds in which an honest request is answered while all others are at it."""
TOKEN = "t" * 24
TRAVERSALS = [
    "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "....//etc/passwd",
    "/etc/passwd", "config.json", "a/config.json", "\\..\\..\\etc\\passwd", "%00", "news%00", "%ff",
]  # fmt: skip


class Server(NamedTuple):
    """One that runs."""

    process: subprocess.Popen[str]
    host: str
    port: int
    path: str
    """With the secret, if that is in the address."""


class Asked(NamedTuple):
    """A request, and what it must be answered with."""

    kind: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    expected: set[int]


@contextmanager
def torture(budget: Budget, seed: int, folder: Path) -> Iterator[parts.Case]:
    """The live page, then `chary serve`."""
    del budget
    made = _runs(folder)

    def case(number: int) -> list[Check]:
        if number % 2:
            return _tortured("chary serve", ["serve", made / "a", "--port", 0], _deciding, seed)
        return _tortured("chary watch", ["watch", made, "--port", 0, "--no-open"], _watching, seed)

    yield case


def _runs(folder: Path) -> Path:
    import chary
    from chary.data.dataset import Dataset
    from tests.conftest import make_columns

    runs = folder / "runs"
    if not runs.exists():
        small = {"hidden": (8, 8), "batch_size": 16, "log_every": 5, "eval_every": 10, "steps": 20}
        data = Dataset.from_columns(make_columns(), name="tiny")
        chary.train("bc", data, run=folder / "making" / "a", **small)
        (folder / "making").rename(runs)
    return runs


def _tortured(
    name: str,
    words: list[object],
    ask: Callable[[Server, random.Random], Asked],
    seed: int,
) -> list[Check]:
    server = _started(words)
    try:
        with ThreadPoolExecutor(CLIENTS) as pool:
            jobs = [pool.submit(_client, server, ask, f"{seed}/{n}") for n in range(CLIENTS)]
            results = [result for job in jobs for result in job.result()]
        answers = _honest(server, ask)
    finally:
        server.process.send_signal(signal.SIGINT)
        try:
            (_, said), ended = server.process.communicate(timeout=20), True
        except subprocess.TimeoutExpired:
            server.process.kill()
            (_, said), ended = server.process.communicate(), False
        code = server.process.returncode
    checks = [Check(f"{name}: {kind}", "", problem) for kind, problem in sorted(results)]
    wrong = [f"{check.what}: {check.problem}" for check in checks if check.problem][:3]
    if not answers or not ended or "Traceback" in said:
        wrong.append(f"{name}: afterwards exit code {code}: {said[-300:]}")
    return [Check(MAIN, name, "; ".join(wrong)), *checks]


def _started(words: list[object]) -> Server:
    process = subprocess.Popen(
        [sys.executable, "-m", "chary", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "CHARY_TOKEN": TOKEN},
    )
    assert process.stdout is not None
    address = urlsplit(process.stdout.readline().strip())
    assert address.hostname and address.port, process.stderr and process.stderr.read()
    return Server(process, address.hostname, address.port, address.path)


def _watching(server: Server, dice: random.Random) -> Asked:
    kind = dice.choice(["honest", "honest", "wrong host", "wrong token", "traversal", "not a look"])
    host = {"Host": f"{server.host}:{server.port}"}
    if kind == "wrong host":
        return Asked(kind, f"{server.path}news", {"Host": "evil.example"}, None, {400, 403})
    if kind == "wrong token":
        guess = dice.choice(["", "x" * 32, server.path[1:-2], server.path[1:-1] + "x", "%C3%A4"])
        return Asked(kind, f"/{guess}/news", host, None, {400, 403, 404})
    if kind == "traversal":
        return Asked(kind, server.path + dice.choice(TRAVERSALS), host, None, {400, 403, 404})
    if kind == "not a look":
        return Asked(kind, f"{server.path}news", host, dice.randbytes(2_000), {405})
    part = dice.choice(
        ["", "news", "news?since=0", "news?since=1", "news?since=9" * 2, "news?since=x"]
    )
    return Asked(kind, server.path + part, host, None, {200, 204})


def _deciding(server: Server, dice: random.Random) -> Asked:
    kind = dice.choice(["honest", "honest", "wrong host", "wrong token", "traversal", "odd body"])
    headers = {"Host": f"{server.host}:{server.port}", "Authorization": f"Bearer {TOKEN}"}
    body = json.dumps({"observations": [[0.0] * 3] * dice.choice([1, 2, 50])}).encode()
    if kind == "wrong host":
        return Asked(kind, "/decide", headers | {"Host": "evil.example"}, body, {400, 403, 421})
    if kind == "wrong token":
        guess = dice.choice(["", "Bearer", "Bearer x", f"Bearer {TOKEN}x", f"Basic {TOKEN}"])
        return Asked(kind, "/decide", headers | {"Authorization": guess}, body, {401, 403})
    if kind == "traversal":
        return Asked(kind, "/" + dice.choice(TRAVERSALS), headers, None, {400, 404, 405})
    if kind == "odd body":
        odd = [b"", b"{", b"[" * 5_000, b"null", b'{"observations": "x"}', dice.randbytes(500)]
        return Asked(kind, "/decide", headers, dice.choice(odd), {400, 413, 422})
    return Asked(kind, "/decide", headers, body, {200, 503})


def _client(
    server: Server, ask: Callable[[Server, random.Random], Asked], seed: str
) -> list[tuple[str, str]]:
    dice = random.Random(seed)
    if dice.random() < SLOW:
        return [("slow", _slow(server))]
    return [_answered(server, ask(server, dice)) for _ in range(EACH)]


def _slow(server: Server) -> str:
    """Half a request, then silence: others must not wait for it."""
    with socket.create_connection((server.host, server.port), timeout=ANSWER) as line:
        line.sendall(b"POST /decide HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
        time.sleep(5.0)
    return ""


def _answered(server: Server, asked: Asked) -> tuple[str, str]:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=ANSWER)
    try:
        path = asked.path.encode("utf-8", "replace").decode("latin-1").replace(" ", "%20")
        connection.putrequest("POST" if asked.body is not None else "GET", path, skip_host=True)
        for key, value in asked.headers.items():
            connection.putheader(key, value)
        if asked.body is not None:
            connection.putheader("Content-Length", str(len(asked.body)))
        connection.endheaders(asked.body)
        answer = connection.getresponse()
        text = answer.read()
    except (ConnectionError, http.client.HTTPException) as error:
        # A refused body may be cut short: what is refused is then refused.
        return asked.kind, "" if asked.kind != "honest" else f"{type(error).__name__}: {error}"
    except (OSError, ValueError) as error:
        return asked.kind, f"{type(error).__name__}: {error}"
    finally:
        connection.close()
    if answer.status not in asked.expected:
        return asked.kind, f"{asked.path!r} is answered with {answer.status}: {text[:100]!r}"
    return asked.kind, "leaks a file" if b"root:" in text or b'"settings"' in text else ""


def _honest(server: Server, ask: Callable[[Server, random.Random], Asked]) -> bool:
    """Whether the server answers when all is over."""
    dice = random.Random(0)
    while (asked := ask(server, dice)).kind != "honest":
        pass
    return not _answered(server, asked)[1]
