"""What the server answers and refuses, over real connections."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from chary.cli import main
from chary.deploy import batches, serve
from chary.deploy.export import export
from chary.deploy.serve import Options, make_server
from chary.deploy.source import FIELDS, SIZES, Source, open_source
from chary.errors import CharyError
from chary.evaluation.agent import Agent
from chary.host.http import bind
from tests.deploy.test_export import an_agent
from tests.evaluation.test_limits import walks

TOKEN = "a token of the tests".replace(" ", "-")
RATE = 0.05
ROW = [0.1, 0.2, 0.3]


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        def refuse(name: str) -> None:
            raise AssertionError(f"{name} in an answer")

        return json.loads(self.body, parse_constant=refuse)

    @property
    def error(self) -> str:
        assert list(self.json) == ["error"] and "Traceback" not in self.json["error"]
        return self.json["error"]


class Server:
    """A policy that is being served in a thread, and a way to ask it."""

    def __init__(self, source: Source, **options: Any):
        self.listening = bind("127.0.0.1", 0)
        self.listening.listen()
        self.port = self.listening.getsockname()[1]
        self.server = make_server(source, "agent", Options(**{"token": TOKEN, **options}))
        self.thread = threading.Thread(target=self.server.run, args=([self.listening],))

    def __enter__(self) -> "Server":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive()

    def ask(
        self, path: str, body: Any = None, method: str = "", token: str = TOKEN, **headers: str
    ) -> Answer:
        given = {**headers, **({"Authorization": f"Bearer {token}"} if token else {})}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        method = method or ("GET" if body is None else "POST")
        connection.request(method, path, content, given)
        response = connection.getresponse()
        answer = Answer(
            response.status,
            {k.lower(): v for k, v in response.getheaders()},
            response.read(),
        )
        connection.close()
        return answer

    def decide(self, observations: Any, **more: Any) -> Answer:
        return self.ask("/decide", {"observations": observations, **more})


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Agent:
    """An agent; its files are in the folder above its own."""
    folder = tmp_path_factory.mktemp("served")
    made = an_agent(folder / "run", "msg")
    for ending in (".onnx", ".npz"):
        export(made, folder / f"agent{ending}", flag_rate=RATE)
    return made


@pytest.fixture(scope="module")
def sources(agent: Agent) -> dict[str, Source]:
    """The agent as each kind of source."""
    folder = agent.folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("chary.deploy.export.open_to_export", lambda *_: agent)
        run = open_source(agent.folder, RATE)
    return {
        "run": run,
        "onnx": open_source(folder / "agent.onnx"),
        "npz": open_source(folder / "agent.npz"),
    }


@pytest.fixture(scope="module")
def server(sources: dict[str, Source]) -> Iterator[Server]:
    with Server(sources["npz"], max_rows=300, timeout=1.0) as made:
        yield made


def rows(count: int) -> np.ndarray:
    """States of the data, one far from it, and one that is no number."""
    made = walks(3, 5).observations[:count].copy()
    made[-2:] = [[50.0, 50.0, 50.0], [0.0, np.nan, 0.0]]
    return made


def as_json(values: np.ndarray) -> list[Any]:
    return [[None if np.isnan(x) else x for x in row] for row in values.tolist()]


def same(found: dict[str, Any], own: Any) -> None:
    """Answers and decisions are the same; what is not finite is null."""
    assert list(found) == list(FIELDS)
    assert found["reason"] == own.reason.tolist()
    assert found["outside_data"] == own.outside_data.tolist()
    for name in ("action", "mean", "std", "lcb", "distance"):
        value = getattr(own, name)
        given = np.array(found[name], float)
        np.testing.assert_array_equal(np.isnan(given), ~np.isfinite(value), err_msg=name)
        np.testing.assert_allclose(
            given, np.where(np.isfinite(value), value, np.nan), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["run", "onnx", "npz"])
def test_every_source_decides_as_the_agent(
    kind: str, agent: Agent, sources: dict[str, Source]
) -> None:
    actions = np.random.default_rng(0).uniform([-2, 0], [2, 5], (40, 2)).astype(np.float32)
    actions[0], actions[1] = np.nan, 9.0  # no number, and out of bounds
    given = rows(40)
    asked = {"flag_rate": RATE, "invalid": "outside"}
    with Server(sources[kind]) as server:
        answer = server.decide(as_json(given))
        assert answer.status == 200
        same(answer.json, agent.decide(given, **asked))
        assert answer.json["action"][-1] == [None, None]
        assert answer.json["reason"][-1] == "not a finite number, or out of bounds"
        assert "far from logged states" in answer.json["reason"][-2]
        judged = server.decide(as_json(given), actions=as_json(actions))
        same(judged.json, agent.decide(given, actions, **asked))
        one = server.decide(ROW, actions=[0.0, 1.0])
        same(one.json, agent.decide(np.array(ROW), np.array([0.0, 1.0]), **asked))


def test_a_run_is_padded_and_cut_to_few_sizes(
    sources: dict[str, Source], agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[int] = set()
    own = agent.decide

    def decide(observations: np.ndarray, *rest: Any, **more: Any) -> Any:
        seen.add(len(observations))
        return own(observations, *rest, **more)

    monkeypatch.setattr(agent, "decide", decide)
    sources["run"].warm_up()
    assert seen == set(SIZES)
    given = np.concatenate([walks(3, 5).observations] * 7)[:600]
    found = sources["run"].decide(given)
    assert seen == set(SIZES) and found["action"].shape == (600, 2)
    np.testing.assert_array_equal(found["action"], own(given).action)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "not JSON"),
        (b"", 400, "not JSON"),
        (b"\xff\xfe\xfd", 400, "not JSON"),
        (b'{"observations": [[NaN, 0, 0]]}', 400, "null is a missing reading"),
        (b"[" * 60_000, 400, "not JSON"),
        ([ROW], 422, "must be an object"),
        ({"actions": [ROW]}, 422, "must be an object"),
        ({"observations": [ROW], "action": [[0, 0]]}, 422, "'action' is unknown"),
        ({"observations": []}, 422, "observations must be a list of rows of 3 numbers"),
        ({"observations": "all"}, 422, "observations must be a list"),
        ({"observations": [[]]}, 422, "row 0 has 0 value(s), not 3"),
        ({"observations": [ROW, [1, 2]]}, 422, "observations: row 1 has 2 value(s), not 3"),
        ({"observations": [ROW, 7]}, 422, "row 1 has no list"),
        ({"observations": [[1, 2, "3"]]}, 422, "observations: row 0, column 2 is no number"),
        ({"observations": [[1, True, 3]]}, 422, "row 0, column 1 is no number"),
        ({"observations": [[1, [2], 3]]}, 422, "row 0, column 1 is no number"),
        ({"observations": [[1, 10**400, 3]]}, 422, "too large"),
        ({"observations": [ROW] * 301}, 422, "301 rows, but at most 300"),
        ({"observations": [ROW], "actions": [[0, 0, 0]]}, 422, "actions: row 0 has 3 value(s)"),
        ({"observations": [ROW], "actions": [[0, 0]] * 2}, 422, "1 observation(s) but 2 action(s)"),
    ],
)
def test_what_is_wrong_is_said(server: Server, body: Any, status: int, said: str) -> None:
    answer = server.ask("/decide", body)
    assert answer.status == status and said in answer.error


def test_numbers_too_large_for_float32_are_flagged(server: Server) -> None:
    answer = server.decide([[1e300, 0, 0], [1e38, 1e38, 1e38]])
    assert answer.status == 200 and answer.json["outside_data"] == [True, True]


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", "é"])
def test_without_the_token_nothing_is_told(server: Server, token: str) -> None:
    for path, body in (("/decide", {"observations": ROW}), ("/metrics", None)):
        answer = server.ask(path, body, token=token)
        assert answer.status == 401 and "Bearer TOKEN" in answer.error
        assert answer.headers["www-authenticate"] == "Bearer" and TOKEN not in str(answer)
    assert server.ask("/health", token=token).json == {"status": "ok"}


def test_health_usage_and_metrics(sources: dict[str, Source]) -> None:
    with Server(sources["npz"]) as server:
        health = server.ask("/health").json
        assert health["served"] == "agent" and health["dataset"] == "walks"
        assert health["algorithm"] == "msg" and health["step"] is None and health["uptime_s"] >= 0
        assert b"POST /decide" in server.ask("/", token="").body
        server.decide(as_json(rows(40)))
        server.ask("/decide", b"{")
        answer = server.ask("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        counted = dict(
            line.rsplit(" ", 1) for line in answer.body.decode().splitlines() if line[0] != "#"
        )
        assert counted['chary_responses_total{status="200"}'] == "3"
        assert counted['chary_responses_total{status="400"}'] == "1"
        assert counted["chary_rows_total"] == "40" and counted["chary_calls_total"] == "1"
        invalid = 'chary_flagged_rows_total{reason="not a finite number, or out of bounds"}'
        assert counted[invalid] == "1"
        assert counted['chary_decide_seconds_bucket{le="+Inf"}'] == "1"
        assert counted["chary_decide_seconds_count"] == "1"


def test_other_paths_and_methods(server: Server) -> None:
    for path in ("/nothing", "/decide/", "/../etc/passwd", "/%2e%2e/x", "//"):
        assert server.ask(path).status == 404
    assert server.ask("/decide").status == 405
    assert server.ask("/decide").headers["allow"] == "POST"
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert server.ask("/health", b"", method).status == 405


@pytest.mark.parametrize("host", ["example.com", "127.0.0.1.example.com", "0.0.0.0", "x:{port}"])
def test_other_hosts_are_refused(server: Server, host: str) -> None:
    answer = server.ask("/health", Host=host.format(port=server.port))
    assert answer.status == 400 and "Host" in answer.error


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:8000"])
def test_this_machine_is_not(server: Server, host: str) -> None:
    assert server.ask("/health", Host=host).status == 200


def test_elsewhere_any_name_is_taken_with_the_token(sources: dict[str, Source]) -> None:
    with Server(sources["npz"], host="0.0.0.0") as server:
        assert server.ask("/decide", {"observations": ROW}, Host="policy.example").status == 200
        assert server.ask("/decide", {"observations": ROW}, token="").status == 401


def received(connection: socket.socket) -> bytes:
    """All until the server closes."""
    found = b""
    while chunk := connection.recv(65536):
        found += chunk
    return found


def head(*lines: str) -> bytes:
    started = ["POST /decide HTTP/1.1", "Host: localhost", f"Authorization: Bearer {TOKEN}", *lines]
    return "\r\n".join([*started, "", ""]).encode()


def test_what_is_too_large_is_not_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert server.ask("/decide", b" " * 2_000_000).status == 413  # read, thrown away
    monkeypatch.setattr(serve, "DISCARDED", 100_000)
    for lines in (
        ("Content-Length: 99999999999",),
        ("Content-Length: 999999", "Expect: 100-continue"),
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(head(*lines))  # refused before anything of it is sent
            assert received(connection).startswith(b"HTTP/1.1 413")
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head("Transfer-Encoding: chunked"))
        chunks = b"2710\r\n" + b" " * 10_000 + b"\r\n"
        with pytest.raises(OSError, match=r"reset|pipe"):  # 100 MB, without an end
            connection.sendall(chunks * 10_000)


def test_slow_clients_are_cut(server: Server) -> None:
    for sent in (head("Content-Length: 100") + b"{", head("Transfer-Encoding: chunked")):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            began = time.monotonic()
            connection.sendall(sent)
            assert received(connection).startswith(b"HTTP/1.1 408")
            assert 0.9 < time.monotonic() - began < 10


@pytest.mark.parametrize("sent", [b"", b"POST /decide HTTP/1.1\r\nHost: local"])
def test_a_header_that_does_not_come_is_not_waited_for(server: Server, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        if sent:
            whole = json.dumps({"observations": ROW}).encode()
            connection.sendall(head(f"Content-Length: {len(whole)}") + whole)
            found = b""
            while not found.endswith(b"}"):
                found += connection.recv(65536)
        began = time.monotonic()
        connection.sendall(sent)
        assert received(connection) == b""
        assert time.monotonic() - began < 4  # Uvicorn's own limit, of silence, is 5


def test_requests_that_end_early_harm_nobody(server: Server) -> None:
    for sent in (b"nonsense\r\n\r\n", head("Content-Length: 100") + b"{"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
            connection.sendall(sent)
    assert server.decide(ROW).status == 200


class Gate:
    """A source whose calls wait until they are let through."""

    def __init__(self, source: Source):
        self.open, self.entered = threading.Event(), threading.Event()
        self.calls: list[int] = []
        self.source = source._replace(function=self.decide)
        self._function = source.function

    def decide(self, observations: np.ndarray, actions: np.ndarray | None) -> dict[str, np.ndarray]:
        self.calls.append(len(observations))
        self.entered.set()
        assert self.open.wait(60)
        return self._function(observations, actions)


def wait_until(met: Any) -> None:
    deadline = time.monotonic() + 60
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_requests_that_wait_are_decided_together_and_too_many_refused(
    sources: dict[str, Source], agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "WAITING", 6)
    made: list[batches.Batches] = []
    init = batches.Batches.__init__

    def remember(self: batches.Batches, *arguments: Any) -> None:
        made.append(self)
        init(self, *arguments)

    monkeypatch.setattr(batches.Batches, "__init__", remember)
    gate = Gate(sources["npz"])
    given = walks(3, 5).observations[:7]
    with Server(gate.source) as server, ThreadPoolExecutor(8) as clients:
        first = clients.submit(server.decide, ROW)
        assert gate.entered.wait(60)
        others = []
        for i, row in enumerate(given[:6].tolist()):  # every third one is judged
            more = {"actions": [[0.0, 1.0]] * 2} if i % 3 == 0 else {}
            others.append(clients.submit(server.decide, [row, row], **more))
            wait_until(lambda count=i + 1: len(made[0]._waiting) == count)
        busy = server.decide(ROW)
        assert busy.status == 503 and busy.headers["retry-after"] == "1" and "wait" in busy.error
        gate.open.set()
        assert first.result().status == 200
        answers = [other.result() for other in others]
    assert gate.calls == [1, 4, 8]
    for i, answer in enumerate(answers):
        actions = np.array([[0.0, 1.0]] * 2) if i % 3 == 0 else None
        same(answer.json, agent.decide(given[[i, i]], actions, flag_rate=RATE))


def test_what_is_in_work_is_finished(sources: dict[str, Source]) -> None:
    gate = Gate(sources["npz"])
    with Server(gate.source) as server, ThreadPoolExecutor(1) as clients:
        asked = clients.submit(server.decide, ROW)
        assert gate.entered.wait(60)
        server.server.should_exit = True
        time.sleep(0.3)
        gate.open.set()
        assert asked.result().status == 200


def test_failures_are_not_told(sources: dict[str, Source]) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("a secret")

    with Server(sources["npz"]._replace(function=fail)) as server:
        answer = server.decide(ROW)
        assert answer.status == 500 and "secret" not in answer.error
        assert server.decide(ROW).status == 500  # the server goes on


@pytest.mark.parametrize("ending", [".npz", ".onnx"])
def test_policies_of_noise_and_policies_without_critics(tmp_path: Path, ending: str) -> None:
    for algorithm in ("fql", "bc"):
        agent = an_agent(tmp_path / algorithm, algorithm)
        export(agent, tmp_path / f"{algorithm}{ending}")
    found = open_source(tmp_path / f"fql{ending}").decide(np.array([ROW] * 50, np.float32))
    assert len(np.unique(found["action"][:, 0])) > 40  # the same state, other noise
    cloning = open_source(tmp_path / f"bc{ending}")
    own = agent.decide(rows(9), invalid="outside")
    with Server(cloning) as server:
        same(server.decide(as_json(rows(9))).json, own)
        answer = server.decide(ROW, actions=[0.0, 1.0])
        assert answer.status == 422 and "without critics" in answer.error


def test_files_that_cannot_be_served(agent: Agent, tmp_path: Path) -> None:
    folder = agent.folder.parent
    for name, said in (
        ("agent.stablehlo", "neither a run folder nor an exported"),
        ("agent.npz", "not a file of `chary export`"),
        ("agent.onnx", "not a file of `chary export`"),
    ):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(CharyError, match=said):
            open_source(tmp_path / name)
    with pytest.raises(CharyError, match="chosen when it was exported"):
        open_source(folder / "agent.npz", 0.1)
    (tmp_path / "agent.onnx").write_bytes((folder / "agent.onnx").read_bytes())
    assert not open_source(tmp_path / "agent.onnx").judges
    other = an_agent(tmp_path / "run", "msg")
    export(other, tmp_path / "other.onnx", flag_rate=0.2)
    (tmp_path / "other-judge.onnx").replace(tmp_path / "agent-judge.onnx")
    with pytest.raises(CharyError, match="not of the same export"):
        open_source(tmp_path / "agent.onnx")


def test_the_command_refuses(
    agent: Agent,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = str(agent.folder.parent / "agent.npz")
    short, text = tmp_path / "short", tmp_path / "text"
    short.write_text("1234\n")
    text.write_bytes(b"\xff" * 40)
    for words, said in (
        ([str(tmp_path / "none.npz")], "no such run folder or file"),
        ([file, "--port", "80"], "--port is 80"),
        ([file, "--max-rows", "0"], "--max-rows is 0"),
        ([file, "--timeout", "0"], "--timeout is 0"),
        ([file, "--no-token", "--host", "0.0.0.0"], "--no-token at 0.0.0.0"),
        ([file, "--no-token", "--token-file", str(short)], "exclude each other"),
        ([file, "--token-file", str(short)], "at least 16"),
        ([file, "--token-file", str(text)], "not a file of text"),
        ([file, "--token-file", str(tmp_path / "none")], "No such file"),
        ([file, "--host", "192.0.2.1", "--port", "0"], "host 192.0.2.1"),
        ([file, "--port", "0", "--flag-rate", "0.1"], "chosen when it was exported"),
    ):
        assert main(["serve", *words]) == 2, words
        assert said in capsys.readouterr().err
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["serve", file, "--port", port]) == 2
    assert f"port {port}: Address already in use" in capsys.readouterr().err
    monkeypatch.setenv("CHARY_TOKEN", "two words of a token")
    assert main(["serve", file]) == 2
    assert "CHARY_TOKEN: a token is one word" in capsys.readouterr().err
    monkeypatch.delenv("CHARY_TOKEN")
    monkeypatch.delitem(sys.modules, "chary.deploy.serve")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["serve", file]) == 2
    assert "(uvicorn): pip install 'chary[watch]'" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_many_clients_and_ends_quietly(
    agent: Agent, ended_by: signal.Signals
) -> None:
    """In a process of its own, without JAX; the curl line that it prints has the token."""
    command = [sys.executable, "-m", "chary", "serve", str(agent.folder.parent / "agent.npz")]
    environment = {k: v for k, v in os.environ.items() if k != "CHARY_TOKEN"}
    with subprocess.Popen(
        [*command, "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as run:  # fmt: skip
        try:
            assert run.stdout is not None and run.stderr is not None
            address = run.stdout.readline().strip()
            assert "Ctrl-C stops" in run.stderr.readline()
            line = run.stderr.readline()
            token = line.split("Bearer ")[1].split('"')[0]
            curl = subprocess.run(
                ["sh", "-c", f"{line.strip()} -s"], capture_output=True, text=True, check=False
            )
            assert curl.returncode == 127 or len(json.loads(curl.stdout)["action"]) == 1
            port = int(address.rsplit(":", 1)[1].strip("/"))
            states = walks(3, 5).observations
            until = time.monotonic() + 3

            def client(number: int) -> int:
                connection = HTTPConnection("127.0.0.1", port, timeout=60)
                given = states[number : number + 1 + number % 5]
                own = agent.decide(given, flag_rate=RATE)
                body = json.dumps({"observations": given.tolist()})
                asked = 0
                while time.monotonic() < until or not asked:
                    headers = {"Authorization": f"Bearer {token}"}
                    connection.request("POST", "/decide", body, headers)
                    response = connection.getresponse()
                    assert response.status == 200
                    same(json.loads(response.read()), own)
                    asked += 1
                connection.close()
                return asked

            with ThreadPoolExecutor(32) as clients:
                assert min(clients.map(client, range(32))) >= 1
            run.send_signal(ended_by)
            out, err = run.communicate(timeout=60)
        finally:
            run.kill()
    assert (run.returncode, out, err) == (0, "", "")


def test_files_are_served_without_jax(agent: Agent) -> None:
    script = (
        "import sys; from pathlib import Path; from chary.deploy.source import open_source;"
        "from chary.deploy import serve; import chary.cli.serve;"
        "[open_source(Path(path)).warm_up() for path in sys.argv[1:]]; print('jax' in sys.modules)"
    )
    files = [str(agent.folder.parent / f"agent{ending}") for ending in (".onnx", ".npz")]
    done = subprocess.run(
        [sys.executable, "-c", script, *files], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
