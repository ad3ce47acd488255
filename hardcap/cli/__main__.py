"""``python -m hardcap.cli``: the same as the command ``hardcap``."""

import sys

from hardcap.cli.main import main

sys.exit(main())
