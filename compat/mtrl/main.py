"""mtrl's command line for medley: `python3 -u main.py setup=metaworld agent=state_sac env=metaworld-mt10 ...`.

The words go to `medley train` as they are.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
from starting import find_medley

if __name__ == "__main__":
    medley = find_medley(__file__)
    raise SystemExit(medley(["train", *sys.argv[1:]]))
