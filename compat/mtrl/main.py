"""mtrl's command line for medley: `python3 -u main.py setup=metaworld agent=state_sac env=metaworld-mt10 ...`.

The words go to `medley train` as they are. Nothing here needs more than Python itself, so that this file can be
started by any `python3` and find the repository's own one.
"""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"


def main() -> int:
    try:
        import medley.config.load  # needs everything that training needs
        from medley.cli import main as medley
    except ImportError as error:
        python = VENV / "bin" / "python"
        if not python.exists() or Path(sys.prefix).resolve() == VENV:
            print(f"medley is not installed ({error}): run `make install` in {ROOT}.", file=sys.stderr)
            return 2
        os.execv(python, [str(python), "-u", __file__, *sys.argv[1:]])
    return medley(["train", *sys.argv[1:]])


if __name__ == "__main__":
    raise SystemExit(main())
