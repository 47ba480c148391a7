"""What every command line in this folder begins with: find medley, then hand words to `medley train`.

Nothing here needs more than Python itself, so that the scripts can be started by any `python3` and find the
repository's own one.
"""

import os
import re
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"


def quoted(name):
    """A name as a value of an option; spaces and commas would otherwise mean something."""
    if re.fullmatch(r"[\w./+-]+", name):
        return name
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def find_medley(script):
    """medley's own `main`; starts `script` again under the repository's Python where this one does not have it."""
    try:
        import medley.config.load  # noqa: F401  (needs everything that training needs)
        from medley.cli import main
    except ImportError as error:
        python = VENV / "bin" / "python"
        if not python.exists() or Path(sys.prefix).resolve() == VENV:
            print(f"medley is not installed ({error}): run `make install` in {ROOT}.", file=sys.stderr)
            raise SystemExit(2) from None
        os.execv(python, [str(python), "-u", script, *sys.argv[1:]])
    return main


def translate_and_train(script, translate):
    """`translate(arguments)` gives words, remarks, and whether to print only; shows the command, then runs it."""
    medley = find_medley(script)
    from medley.errors import MedleyError

    try:
        words, remarks, print_only = translate(sys.argv[1:])
    except MedleyError as error:
        print(f"{Path(script).name}: {error}", file=sys.stderr)
        return 2
    for remark in remarks:
        print(remark, file=sys.stderr)
    print("medley train " + " ".join(shlex.quote(word) for word in words), flush=True)
    return 0 if print_only else medley(["train", *words])
