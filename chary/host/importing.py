"""What users name as `module:Name`: found from the current folder, or among what is installed."""

import importlib
import os
import sys
from typing import Any

from chary.errors import CharyError, reason, unknown_name


def find_named(option: str, name: str, example: str) -> Any:
    """The object that `module:Name` names, or an error that says which option asks for it."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise CharyError(f"{option} {name}: write module:Name, such as {example}.")
    here = os.getcwd()
    if here not in sys.path:
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
