"""What `chary serve` stands: many clients at once that never pause, for a minute.

    python -m benchmarks.serve                      # an untrained MSG, exported to ONNX
    python -m benchmarks.serve --policy agent.npz --clients 50 --rows 16

Every client keeps its connection and sends its next request when it has the answer to the last. Clients
and server share the machine.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from chary.cli.output import show
from chary.deploy.source import open_source
from chary.errors import CharyError
from chary.host.machine import cores

COLUMNS = {
    "clients": "clients", "rows": "rows a request", "seconds": "seconds",
    "requests_per_s": "requests/s", "errors": "errors", "p50_ms": "p50 ms", "p99_ms": "p99 ms",
    "rows_per_call": "rows a call", "mb_before": "MB before", "mb_after": "MB after",
}  # fmt: skip


def main() -> None:
    def bench(
        policy: Path | None = None, clients: int = 200, rows: int = 1, seconds: float = 60.0
    ) -> None:
        """Measure a served policy.

        Args:
            policy: A run folder, or an exported agent.onnx or agent.npz.
            clients: Clients at once.
            rows: Rows of every request.
            seconds: How long.
        """
        with tempfile.TemporaryDirectory(prefix="chary-bench-") as folder:
            served = policy or untrained(Path(folder))
            row = measure(served, clients, rows, seconds)
        load = f"load average {os.getloadavg()[0]:.1f} on {cores()} core(s)"
        show([row], COLUMNS, as_json=False, title=f"{policy or 'untrained MSG, ONNX'}; {load}")

    tyro.cli(bench, prog="python -m benchmarks.serve")


def untrained(folder: Path) -> Path:
    """MSG with 8 members of 2x256, as an ONNX file."""
    from chary.deploy.export import export
    from tests.deploy.test_export import an_agent

    agent = an_agent(folder / "run", "msg", members=8, hidden=(256, 256))
    return export(agent, folder / "agent.onnx").paths[0]


def measure(policy: Path, clients: int, rows: int, seconds: float) -> dict[str, Any]:
    """Start a server, ask it, end it."""
    size = open_source(policy).size("observations")
    environment = {**os.environ, "CHARY_TOKEN": "only-for-the-benchmark"}
    command = [sys.executable, "-m", "chary", "serve", str(policy), "--port", "0"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            if not address:
                raise CharyError("the server did not start")
            port = int(address.rsplit(":", 1)[1].strip("/"))
            before = resident_mb(server.pid)
            times, statuses, metrics = asyncio.run(ask_all(port, clients, rows, size, seconds))
            after = resident_mb(server.pid)
            server.terminate()
            if server.wait(60) != 0:
                raise CharyError(f"the server ended with {server.returncode}")
        finally:
            server.kill()
    errors = sum(count for status, count in statuses.items() if status != "200")
    return {
        "clients": clients,
        "rows": rows,
        "seconds": seconds,
        "requests_per_s": statuses["200"] / seconds,
        "errors": errors,
        "p50_ms": 1e3 * float(np.quantile(times, 0.5)),
        "p99_ms": 1e3 * float(np.quantile(times, 0.99)),
        "rows_per_call": metrics["chary_rows_total"] / metrics["chary_calls_total"],
        "mb_before": before,
        "mb_after": after,
    }


async def ask_all(
    port: int, clients: int, rows: int, size: int, seconds: float
) -> tuple[list[float], Counter[str], dict[str, float]]:
    """Seconds of every answer, their statuses, and what the server has counted."""
    times: list[float] = []
    statuses: Counter[str] = Counter()
    random = np.random.default_rng(0)
    until = time.monotonic() + seconds

    async def client() -> None:
        body = {"observations": random.standard_normal((rows, size)).tolist()}
        request = request_of("POST", "/decide", json.dumps(body).encode())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while (began := time.monotonic()) < until:
            try:
                status, _ = await asked(reader, writer, request)
            except (OSError, asyncio.IncompleteReadError):
                statuses["broken"] += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                continue
            statuses[status] += 1
            times.append(time.monotonic() - began)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    _, text = await asked(reader, writer, request_of("GET", "/metrics", b""))
    writer.close()
    lines = [line.rsplit(" ", 1) for line in text.decode().splitlines() if line[0] != "#"]
    return times, statuses, {name: float(value) for name, value in lines}


def request_of(method: str, path: str, body: bytes) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Authorization: Bearer only-for-the-benchmark",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def asked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[str, bytes]:
    """The status and the body of the answer."""
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.split("content-length: ")[1].split("\r\n")[0])
    return head.split(" ")[1], await reader.readexactly(length)


def resident_mb(process: int) -> float:
    """Memory of a process, of Linux."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
