"""`python -m medley`."""

from medley.cli import main

raise SystemExit(main())
