"""What users name as `module:Name`: found from the current folder, or among what is installed.

Importing it runs it. A run folder may come from anybody, so what its config.json names is imported only
if the user has named it too, on this command line or an earlier one, and it is still in the same file.
"""

import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from chary.errors import CharyError, reason, unknown_name
from chary.host.files import open_plain, parse_json
from chary.host.machine import state_folder

NAMED = "own-code.jsonl"
"""In the state folder: a line for each name, with the file that it was found in."""
_named_here: set[tuple[str, str]] = set()
"""The same of this process, should the state folder not be writable."""


def trust(names: Iterable[str]) -> None:
    """Remember code that the user has named."""
    new = {(name, _home(name)) for name in names} - _known()
    _named_here.update(new)
    with suppress(OSError):  # then it has to be named again
        state_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(state_folder() / NAMED, "a") as file:
            file.writelines(json.dumps({"name": n, "file": f}) + "\n" for n, f in sorted(new))


def require_trusted(names: Iterable[str], where: Path) -> None:
    """Refuse code that is named in a folder, and that the user has never named."""
    known = _known()
    for name in names:
        if (name, _home(name)) not in known:
            raise CharyError(
                f"{where}: names code of its maker's, '{name}', which you have not named yet. It would "
                f"be imported from {_home(name) or 'nowhere: there is no such module here'}. If you "
                f"trust it, add --trust-code {name} (in Python: chary.trust_code({name!r}))."
            )


def trust_code(*names: str) -> None:
    """Say that code named in run folders, such as `"mine:MyEnsemble"`, may be imported."""
    trust(names)


def _known() -> set[tuple[str, str]]:
    found = set(_named_here)
    with suppress(OSError), open_plain(state_folder() / NAMED) as file:
        for line in file:
            with suppress(ValueError, KeyError, TypeError):
                record = parse_json(line)
                found.add((str(record["name"]), str(record["file"])))
    return found


def _home(name: str) -> str:
    """The file that a module would be imported from, found without running any of it: its package's, if
    it is in one."""
    top = name.partition(":")[0].partition(".")[0]
    if top in sys.modules:
        return os.path.realpath(getattr(sys.modules[top], "__file__", None) or top)
    try:
        spec = PathFinder.find_spec(top, [os.getcwd()]) or importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return ""
    places = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]
    return os.pathsep.join(map(os.path.realpath, places))


def find_named(option: str, name: str, example: str, *, installed: bool = False) -> Any:
    """The object that `module:Name` names, or an error that says which option asks for it.

    What is `installed` is not looked for in the current folder, where anything of that name may be.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise CharyError(f"{option} {name}: write module:Name, such as {example}.")
    here = os.getcwd()
    if not installed:
        trust([name])  # whoever asks has named it, or made sure
    if not installed and here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever a user's file raises
        absent = error.name if isinstance(error, ModuleNotFoundError) else None
        if absent is not None and f"{module_name}.".startswith(f"{absent}."):
            raise CharyError(
                f"{option} {name}: no module '{module_name}' in {here} or among the installed "
                "ones. Run from the folder that holds it."
            ) from error
        raise CharyError(
            f"{option} {name}: module '{module_name}' fails to import ({in_short(error)})."
        ) from error
    if not hasattr(module, attribute):
        names = [known for known in vars(module) if not known.startswith("_")]
        raise unknown_name("name", attribute, names, f"(in module '{module_name}', for {option})")
    return getattr(module, attribute)


def in_short(error: Exception) -> str:
    """An exception of a user's code in one line."""
    kind = type(error).__name__
    return f"{kind}: {reason(error)}" if str(error).strip() else kind
