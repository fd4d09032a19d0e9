# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The layers of a source tree, for the tests that read it."""

import re


def sources(root):
    """The files of all layers, those in rooms of a layer included."""
    layers = re.search(r"^set\(WEFT_LAYERS ([^)]*)\)", (root / "CMakeLists.txt").read_text(), re.MULTILINE)[1].split()
    return sorted(path for layer in layers for path in (root / layer).rglob("*") if path.suffix in (".h", ".cc"))
