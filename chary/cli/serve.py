"""`chary serve RUN`: a policy with its doubt, over HTTP."""

import os
import secrets
import shlex
from pathlib import Path
from typing import Annotated

import tyro

from chary.cli.output import Flag, TrustCode
from chary.config import require
from chary.errors import CharyError
from chary.host.http import LOOPBACK, bind, is_loopback
from chary.host.importing import trust
from chary.host.terminal import say

SHORTEST = 16
"""Characters of a token: a shorter one may be guessed."""


def main(arguments: list[str]) -> int:
    def serve(
        policy: Annotated[Path, tyro.conf.Positional],
        /,
        host: str = LOOPBACK,
        port: int = 8000,
        token_file: Path | None = None,
        no_token: Flag = False,
        flag_rate: float | None = None,
        trust_code: TrustCode = (),
        max_rows: int = 4096,
        timeout: float = 10.0,
    ) -> None:
        """Serve a policy's decisions over HTTP: actions, values, doubt, and what is outside the data.

        Requests need a token. It is made at random and printed, unless --token-file or the environment
        variable CHARY_TOKEN has one. Ctrl-C or SIGTERM stops the server.

        Args:
            policy: A run folder, or an exported agent.onnx or agent.npz.
            host: Address to listen at. The default is reached from this machine only.
            port: Port; 0 takes any free port.
            token_file: File with the token.
            no_token: Take requests without a token; only at a loopback address.
            flag_rate: Share of states like the logged ones that is flagged as outside the data; of run
                folders only, 0.005 by default. Exported files have their own.
            trust_code: Import this module:Name, which the run names (an ensemble or a simulator).
            max_rows: Rows that one request may have.
            timeout: Seconds in which a request must have arrived.
        """
        require(port == 0 or 1024 <= port < 65536, "port", port, "0, or from 1024 to 65535")
        require(max_rows >= 1, "max-rows", max_rows, "at least 1")
        require(0.0 < timeout <= 3600.0, "timeout", timeout, "above 0 and at most 3600")
        if not policy.exists():
            raise CharyError(f"{policy}: no such run folder or file.")
        token, shown = _token(token_file, no_token, host)
        from chary.deploy.serve import Options, make_server, run
        from chary.deploy.source import open_source

        trust(trust_code)
        with bind(host, port) as listening:  # a taken port is known before the policy is loaded
            source = open_source(policy, flag_rate)
            source.warm_up()
            server = make_server(source, str(policy), Options(host, token, max_rows, timeout))
            listening.listen()
            named = f"[{host}]" if ":" in host else host
            address = f"http://{named}:{listening.getsockname()[1]}/"
            print(address, flush=True)
            header = f' -H "Authorization: Bearer {shown}"' if shown else ""
            row = [0.0] * source.size("observations")
            say(f"Serving {policy}. Ctrl-C stops the server. Try:")
            say(f"curl{header} {address}decide -d '{{\"observations\": {row}}}'")
            run(server, listening)

    tyro.cli(serve, args=arguments, prog="chary serve")
    return 0


def _token(file: Path | None, none: bool, host: str) -> tuple[str | None, str]:
    """The token, and how a shell says it: only one that was made here is shown."""
    if none:
        if file is not None:
            raise CharyError("--no-token and --token-file exclude each other.")
        if not is_loopback(host):
            raise CharyError(
                f"--no-token at {host}: everybody who reaches this machine could use the policy. Leave "
                "--no-token out, or listen at 127.0.0.1."
            )
        return None, ""
    if file is not None:
        try:
            token, where = file.read_text().strip(), str(file)
        except UnicodeDecodeError as error:
            raise CharyError(f"{file}: not a file of text.") from error
        shown = f"$(cat {shlex.quote(str(file))})"
    elif "CHARY_TOKEN" in os.environ:
        token, where, shown = os.environ["CHARY_TOKEN"].strip(), "CHARY_TOKEN", "$CHARY_TOKEN"
    else:
        token = shown = secrets.token_urlsafe(24)
        where = ""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise CharyError(
            f"{where}: a token is one word of at least {SHORTEST} ASCII characters. "
            "`openssl rand -hex 24` makes one."
        )
    return token, shown
