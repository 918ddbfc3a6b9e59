"""What the server of the live page refuses, over real connections."""

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from chary.cli import main
from chary.errors import CharyError
from chary.report.watch import HEADERS, make_live

SECRET = "not for the page"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Page:
    """A page that is being served, and a way to ask for anything, exactly as written."""

    def __init__(self, address: str):
        parts = urlsplit(address)
        assert parts.hostname == "127.0.0.1" and parts.port is not None
        self.port, self.path = parts.port, parts.path

    def ask(self, path: str, method: str = "GET", host: str = "") -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, headers={"Host": host} if host else {})
        response: HTTPResponse = connection.getresponse()
        answer = Answer(response.status, dict(response.getheaders()), response.read())
        connection.close()
        return answer


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    root = tmp_path_factory.mktemp("served")
    (root / "secret.txt").write_text(SECRET)
    (root / "runs").mkdir()
    (root / "runs" / "notes.txt").write_text(SECRET)
    live = make_live(root / "runs")
    thread = threading.Thread(target=live.run)
    thread.start()
    yield Page(live.address)
    live.server.should_exit = True
    thread.join(60)


def test_the_page_its_files_and_its_news_are_there(page: Page) -> None:
    html = page.ask(page.path)
    assert html.status == 200 and html.headers["content-type"].startswith("text/html")
    assert page.ask(page.path + "watch.js").status == 200
    news: dict[str, Any] = json.loads(page.ask(page.path + "news").body)
    assert news["names"] == news["changed"] == []


@pytest.mark.parametrize("name", ["", "news", "watch.js"])
def test_without_the_token_nothing_is_told(page: Page, name: str) -> None:
    wrong = page.path[:-2] + ("A" if page.path[-2] != "A" else "B") + "/"
    for path in (
        "/",
        "//",
        wrong,
        page.path[:-2] + "/",
        "/%00/",
        "/%C3%A9/",
    ):
        answer = page.ask(path + name)
        assert answer.status == 403, path
        assert page.path.strip("/").encode() not in answer.body


@pytest.mark.parametrize(
    "host",
    ["example.com", "127.0.0.1.example.com", "example.com:{port}", "0.0.0.0:{port}", "[::1]"],
)
def test_other_hosts_are_refused(page: Page, host: str) -> None:
    answer = page.ask(page.path + "news", host=host.format(port=page.port))
    assert answer.status == 400 and b"names" not in answer.body


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1234", "LOCALHOST:{port}"])
def test_this_machine_is_not(page: Page, host: str) -> None:
    """The port may be another: `ssh -L` chooses its own."""
    assert page.ask(page.path, host=host.format(port=page.port)).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "../secret.txt",
        "..%2fsecret.txt",
        "%2e%2e/secret.txt",
        "%2e%2e%2fsecret.txt",
        "..%5csecret.txt",
        "watch.js/../../secret.txt",
        "%252e%252e%252fsecret.txt",
        "//etc/passwd",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "file:///etc/passwd",
        "notes.txt",
        "runs/notes.txt",
        "watch.py",
        "news/../notes.txt",
    ],
)
def test_no_path_leads_to_a_file(page: Page, path: str) -> None:
    answer = page.ask(page.path + path)
    assert answer.status == 404
    assert SECRET.encode() not in answer.body and b"root:" not in answer.body


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(page: Page, method: str) -> None:
    assert page.ask(page.path, method).status == 405


def test_requests_that_browsers_never_send(page: Page) -> None:
    for path in ("*", f"http://127.0.0.1{page.path}", f"http://example.com{page.path}", "x"):
        assert page.ask(path).status in (400, 403)
        assert page.ask(path, "OPTIONS").status in (400, 405)


def test_every_answer_forbids_what_the_page_does_not_need(page: Page) -> None:
    for path in (page.path, page.path + "news", page.path + "nothing", "/"):
        headers = {key.lower(): value for key, value in page.ask(path).headers.items()}
        for name, value in HEADERS.items():
            assert headers[name.lower()] == value
        assert "server" not in headers
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy


def test_a_version_that_is_none_is_the_beginning(page: Page) -> None:
    for since in ("-1", "x", "1e9", "%F0%9F%92%A5", "9" * 5000):
        assert page.ask(f"{page.path}news?since={since}").status == 200


def test_only_its_own_address_is_listened_to(page: Page) -> None:
    """Not any other of this machine's, of which 127.0.0.2 is one that every Linux has."""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", page.port), timeout=10)


def test_a_port_that_is_taken_is_an_error_for_people(page: Page, tmp_path: Path) -> None:
    with pytest.raises(CharyError, match=f"port {page.port}: Address already in use"):
        make_live(tmp_path, port=page.port)


def test_the_command_refuses_what_is_no_folder_and_no_port(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["watch", str(tmp_path), "--port", "80"]) == 2
    assert "--port is 80" in capsys.readouterr().err


def test_what_is_missing_is_named_with_the_command_that_brings_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "chary.report.watch")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert main(["watch", str(tmp_path)]) == 2
    assert "(uvicorn): pip install 'chary[watch]'" in capsys.readouterr().err


def test_the_command_prints_an_address_and_ends_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chary", "watch", str(tmp_path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        try:
            assert run.stdout is not None
            page = Page(run.stdout.readline().strip())
            assert page.ask(page.path).status == 200
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
        finally:
            run.kill()
    assert (run.returncode, out) == (0, "")
    assert err == f"Watching {tmp_path}. Ctrl-C stops the server.\n"
