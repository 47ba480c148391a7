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
FRESH = "--fresh"


def add_fresh(parser):
    """For its help: `translate_and_train` takes the flag away before."""
    parser.add_argument(FRESH, action="store_true", help="start anew; what stands in the folder is kept beside it")


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


def translate_and_train(script, translate, keep=lambda arguments, words, anew: None):
    """`translate(arguments)` gives words, remarks, and whether to print only; shows the command, then runs it.

    `keep(arguments, words, anew)` writes what the script has in the run's folder beside medley's own files."""
    medley = find_medley(script)
    from medley.errors import MedleyError

    arguments = [word for word in sys.argv[1:] if word != FRESH]
    fresh = [FRESH] if FRESH in sys.argv[1:] else []  # for medley, whose files they are
    try:
        words, remarks, print_only = translate(arguments)
        if not print_only and not fresh:
            keep(arguments, words, False)
    except MedleyError as error:
        print(f"{Path(script).name}: {error}", file=sys.stderr)
        return 2
    for remark in remarks:
        print(remark, file=sys.stderr)
    print("medley train " + " ".join(shlex.quote(word) for word in [*words, *fresh]), flush=True)
    if print_only:
        return 0
    code = medley(["train", *words, *fresh])
    if fresh and code != 2:  # the folder was moved aside, with all that was in it
        keep(arguments, words, True)
    return code
