import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import filelock
import pytest

from chary.cli import main
from chary.data import download, load
from chary.data.download import CHUNK, download_file
from chary.data.sources import d4rl
from chary.errors import CharyError

CONTENT = bytes(range(256)) * (10 * CHUNK // 1024)  # two chunks and a half


@dataclass
class Server:
    """What the server does, and what it was asked."""

    url: str = ""
    content: bytes = CONTENT
    cut_after: int | None = None
    """Bytes after which it drops the connection."""
    ranges: bool = True
    says_length: bool = True
    status: int = 200
    headings: dict[str, str] = field(default_factory=dict)
    """Sent with the content, such as an ETag."""
    conditions: bool = True
    """Whether it knows If-Range."""
    asked: list[str | None] = field(default_factory=list)
    on_condition: list[str | None] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers["Range"]
            state.asked.append(wanted)
            condition = self.headers["If-Range"]
            state.on_condition.append(condition)
            if state.conditions and condition and condition not in state.headings.values():
                wanted = None
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and state.ranges else 0
            total = len(state.content)
            if state.status == 302:
                self.send_response(302)
                self.send_header("Location", state.headings["Location"])
                self.end_headers()
                return
            if state.status != 200:
                self.send_error(state.status)
                return
            if start >= total:
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{total}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
            for key, text in state.headings.items():
                self.send_header(key, text)
            if state.says_length:
                self.send_header("Content-Length", str(total - start))
            self.end_headers()
            with suppress(ConnectionError):  # whoever asked may have heard enough
                self.wfile.write(state.content[start : start + (state.cut_after or total)])

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setenv("no_proxy", "*")
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
    thread.start()
    state.url = f"http://127.0.0.1:{httpd.server_port}/data.hdf5"
    yield state
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def begin(server: Server, target: Path) -> None:
    """A download that breaks after 100 bytes."""
    server.cut_after = 100
    with pytest.raises(CharyError, match="after 100 of"):
        download_file(server.url, target)
    server.cut_after = None


def test_a_download_is_whole_and_leaves_nothing_else(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "data.hdf5"
    assert download_file(server.url, target) == target
    assert target.read_bytes() == CONTENT
    assert files(target.parent) == ["data.hdf5"]
    download_file(server.url, target)
    assert server.asked == [None]  # what is there is not asked for again


def test_a_cut_download_goes_on_where_it_was(server: Server, tmp_path: Path) -> None:
    target, part = tmp_path / "data.hdf5", tmp_path / "data.hdf5.part"
    server.cut_after = CHUNK + 100
    with pytest.raises(CharyError, match=f"after {CHUNK + 100} of {len(CONTENT)} bytes") as caught:
        download_file(server.url, target)
    assert "run the same command again" in str(caught.value)
    assert files(tmp_path) == ["data.hdf5.part", "data.hdf5.part.version"]
    assert part.read_bytes() == CONTENT[: CHUNK + 100]
    server.cut_after = None
    download_file(server.url, target)
    assert server.asked == [None, f"bytes={CHUNK + 100}-"]
    assert target.read_bytes() == CONTENT and files(tmp_path) == ["data.hdf5"]


def test_a_server_that_cannot_go_on_sends_all_of_it(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "data.hdf5"
    (tmp_path / "data.hdf5.part").write_bytes(b"something else")
    server.ranges = False
    assert download_file(server.url, target).read_bytes() == CONTENT


def test_a_part_that_is_already_whole(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "data.hdf5"
    begin(server, target)
    (tmp_path / "data.hdf5.part").write_bytes(CONTENT)
    assert download_file(server.url, target).read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={len(CONTENT)}-"]


def test_a_part_that_is_too_long_is_of_another_file(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "data.hdf5"
    begin(server, target)
    (tmp_path / "data.hdf5.part").write_bytes(CONTENT + b"more")
    assert download_file(server.url, target).read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={len(CONTENT) + 4}-", None]


@pytest.mark.parametrize("text", ["", "[]", "{", '{"length": "many"}', None])
def test_a_part_of_unknown_version_is_begun_again(
    server: Server, tmp_path: Path, text: str | None
) -> None:
    (tmp_path / "data.hdf5.part").write_bytes(CONTENT[:100])
    if text is not None:
        (tmp_path / "data.hdf5.part.version").write_text(text)
    assert download_file(server.url, tmp_path / "data.hdf5").read_bytes() == CONTENT
    assert server.asked == [None]


OLD = {"ETag": '"old"', "Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
NEW = {"ETag": '"new"', "Last-Modified": "Tue, 02 Jan 2024 00:00:00 GMT"}


@pytest.mark.parametrize("conditions", [True, False])
@pytest.mark.parametrize("known", [["ETag"], ["Last-Modified"], ["ETag", "Last-Modified"]])
def test_a_part_of_another_version_is_thrown_away(
    server: Server, tmp_path: Path, known: list[str], conditions: bool
) -> None:
    server.headings = {key: OLD[key] for key in known}
    begin(server, tmp_path / "data.hdf5")
    server.conditions = conditions
    server.content = CONTENT[::-1]  # as long as the other
    server.headings = {key: NEW[key] for key in known}
    assert download_file(server.url, tmp_path / "data.hdf5").read_bytes() == CONTENT[::-1]
    assert server.on_condition[1] == OLD[known[0]] and files(tmp_path) == ["data.hdf5"]


def test_a_part_of_the_same_version_goes_on(server: Server, tmp_path: Path) -> None:
    server.headings = {"ETag": 'W/"weak"', "Last-Modified": OLD["Last-Modified"]}
    begin(server, tmp_path / "data.hdf5")
    assert download_file(server.url, tmp_path / "data.hdf5").read_bytes() == CONTENT
    assert server.asked == [None, "bytes=100-"]
    assert server.on_condition == [None, OLD["Last-Modified"]]


def test_a_part_of_a_file_of_another_length(server: Server, tmp_path: Path) -> None:
    """Even where the server says nothing of versions."""
    begin(server, tmp_path / "data.hdf5")
    server.content = CONTENT + b"more"
    assert download_file(server.url, tmp_path / "data.hdf5").read_bytes() == CONTENT + b"more"


@pytest.mark.parametrize(
    "address",
    [
        "ftp://127.0.0.1/data.hdf5",
        "file:///etc/passwd",
        "http://[::1",
        "http://127.0.0.1:99999999/x",
        "javascript:alert(1)",
    ],
)
def test_a_redirect_to_no_address(server: Server, tmp_path: Path, address: str) -> None:
    server.status, server.headings = 302, {"Location": address}
    with pytest.raises(CharyError, match="which is not followed") as caught:
        download_file(server.url, tmp_path / "data.hdf5")
    assert str(caught.value).startswith(server.url) and files(tmp_path) == []


def test_redirects_that_never_end(server: Server, tmp_path: Path) -> None:
    server.status, server.headings = 302, {"Location": server.url}
    with pytest.raises(CharyError, match="the server answers 302"):
        download_file(server.url, tmp_path / "data.hdf5")
    server.headings = {"Location": "http://127.0.0.1:9/" + 100 * "x\u00e9 "}
    with pytest.raises(CharyError, match=r"cannot be reached|connection broke"):
        download_file(server.url, tmp_path / "data.hdf5")
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "sent",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX-Header: and another\r\n",
        b"X",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nContent-Length: 20\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 206 Partial\r\nContent-Length: 5\r\n\r\n01234",
        b"\x00\xff" * 100_000,
        b"",
    ],
)
def test_answers_that_make_no_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """Each is sent again and again, until the reader has heard enough."""
    monkeypatch.setattr(download, "PATIENCE", 0.5)
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    with connection, suppress(OSError):
                        connection.recv(2**16)
                        while True:
                            connection.sendall(sent)
                            time.sleep(0.001)

        Thread(target=answer, daemon=True).start()
        start = time.monotonic()
        with pytest.raises(CharyError) as caught:
            download_file(
                f"http://127.0.0.1:{listening.getsockname()[1]}/x", tmp_path / "data.hdf5"
            )
        assert time.monotonic() - start < 10 and str(caught.value).isprintable()
        assert "cannot be written" not in str(caught.value)
        listening.shutdown(socket.SHUT_RDWR)
    assert not (tmp_path / "data.hdf5").exists()


def test_what_is_not_the_file_is_not_kept(server: Server, tmp_path: Path) -> None:
    server.content = b"<html>please log in</html>"
    with pytest.raises(CharyError, match="is not the file"):
        download_file(server.url, tmp_path / "data.hdf5", signature=d4rl.SIGNATURE)
    assert files(tmp_path) == []


def test_a_server_that_does_not_say_the_length_is_refused(server: Server, tmp_path: Path) -> None:
    server.says_length = False
    with pytest.raises(CharyError, match="does not say how long"):
        download_file(server.url, tmp_path / "data.hdf5")
    assert files(tmp_path) == []


@pytest.mark.parametrize("status", [404, 503])
def test_an_answer_that_is_no_file(server: Server, tmp_path: Path, status: int) -> None:
    server.status = status
    (tmp_path / "data.hdf5.part").write_bytes(b"begun")
    with pytest.raises(CharyError, match=f"the server answers {status}") as caught:
        download_file(server.url, tmp_path / "data.hdf5")
    assert str(caught.value).startswith(server.url)
    assert files(tmp_path) == ["data.hdf5.part"]


def test_without_a_network(server: Server, tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:9/data.hdf5"  # the discard port, where nothing listens
    with pytest.raises(CharyError, match="cannot be reached") as caught:
        download_file(nobody, tmp_path / "data.hdf5")
    assert str(caught.value).startswith(nobody) and not server.asked
    assert files(tmp_path) == []


def test_a_silent_server_is_given_up(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/data.hdf5"
        with pytest.raises(CharyError, match="timed out"):
            download_file(url, tmp_path / "data.hdf5")
    assert not server.asked


def test_no_room_or_no_permission(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CharyError, match="cannot be written"):
        download_file(server.url, tmp_path / "file" / "data.hdf5")

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(download, "_receive", full)
    with pytest.raises(CharyError, match="cannot be written: No space left on device"):
        download_file(server.url, tmp_path / "data.hdf5")
    assert files(tmp_path) == ["file"]


def test_two_at_once(server: Server, tmp_path: Path) -> None:
    with (
        filelock.FileLock(tmp_path / "data.hdf5.part.lock"),
        pytest.raises(CharyError, match="another download"),
    ):
        download_file(server.url, tmp_path / "data.hdf5")
    assert not server.asked


@pytest.mark.parametrize("given", [True, False])
def test_the_command(
    server: Server,
    real_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    given: bool,
) -> None:
    monkeypatch.setattr(d4rl, "ADDRESS", server.url.removesuffix("/data.hdf5"))
    monkeypatch.setenv("CHARY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("D4RL_DATASET_DIR", str(tmp_path / "own"))
    server.content = (real_data / "d4rl" / "hopper_medium-v2.hdf5").read_bytes()
    folder = tmp_path / "own" if given else tmp_path / "cache" / "datasets" / "d4rl"
    options = ["--to", str(folder)] if given else []
    assert main(["data", "download", "hopper-medium-v2", *options, "--json"]) == 0
    assert str(folder / "hopper_medium-v2.hdf5") in capsys.readouterr().out
    assert load("hopper-medium-v2").size == 911


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hopper-medium-v3", "Did you mean hopper-medium-v2"),
        ("pointmaze-umaze", "cannot download"),
        ("rlu-walker-walk", "cannot download"),
    ],
)
def test_names_that_cannot_be_downloaded(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "download", name]) == 2
    assert message in capsys.readouterr().err
