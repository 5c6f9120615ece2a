# SPDX-License-Identifier: GPL-3.0-or-later
"""What other programs import from SGLang's runtime."""
