# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m sglang.launch_server`, as in the real package."""

import sys
import warnings

from sglang.cli import serve
from sglang.release import RELEASE

if __name__ == "__main__":
    if RELEASE.at_least("0.5.10"):
        warnings.warn(
            "'python -m sglang.launch_server' is still supported, but 'sglang serve' is the recommended entrypoint.\n"
            "  Example: sglang serve --model-path <model> [options]",
            UserWarning,
            stacklevel=1,
        )
    serve(sys.argv[1:])
