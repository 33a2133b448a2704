"""Child process of the checker. It imports the libraries that read models, tokenizers and datasets."""

from __future__ import annotations
