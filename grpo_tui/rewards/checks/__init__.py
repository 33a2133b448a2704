"""What is wrong with a reward, by kind of evidence: signature, source, calls, scores, company, gold."""

from __future__ import annotations
