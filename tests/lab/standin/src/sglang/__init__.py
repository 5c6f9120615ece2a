# SPDX-License-Identifier: GPL-3.0-or-later
"""Lab stand-in for SGLang: takes its command line, prints its lines, answers its endpoints. It serves no model."""

from .version import __version__

__all__ = ["__version__"]
