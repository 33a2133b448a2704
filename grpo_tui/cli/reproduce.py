"""`grpo-tui reproduce`: train the run of a bundle again, and compare the values."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from grpo_tui.cli.errors import FAILED, OK, REFUSED, USAGE, CommandError, reported
from grpo_tui.cli.plain import print_text
from grpo_tui.cli.start import followed, next_free, prepared
from grpo_tui.core.exchange import mapping
from grpo_tui.core.text import one_line
from grpo_tui.present.formatting import plural
from grpo_tui.rewards.consent import required_to_start
from grpo_tui.ship.bundle import CONFIG, BundleError
from grpo_tui.ship.reproduce import (
    ROUNDING,
    Bundle,
    changed_files,
    differences,
    machine_here,
    open_bundle,
    rows_of,
    verify,
)
from grpo_tui.store.layout import RunFolder
from grpo_tui.store.read_series import all_metric_rows
from grpo_tui.store.reader import RunReader

MOST_VERSIONS = 10
"""Number of packages listed whose version differs."""
THREADS = "OMP_NUM_THREADS"


def reproduce(parsed: Any) -> int:
    """`grpo-tui reproduce BUNDLE [--run-dir DIR] [--verify] [--steps N]`.

    Exit 0 trained, or equal with `--verify`; 1 differs; 2 cannot; 3 code to confirm first.
    """
    with reported(BundleError):
        bundle = open_bundle(parsed.bundle)
        fork = bundle.fork
        print_text(_differences(bundle))
    root = parsed.run_dir or next_free(Path("outputs") / f"{_name(bundle)}-reproduced")
    words = argparse.Namespace(
        config=bundle.root / CONFIG, overrides=[], run_dir=root.absolute(), launcher=None, gpus=None,
        quick_check=True, force=False,
    )  # fmt: skip
    if bundle.threads is not None:
        os.environ[THREADS] = str(bundle.threads)  # the training process inherits it
    os.chdir(bundle.root)  # TRL's keys and dotted rewards are looked up in the working folder first
    start = prepared(words)
    last = parsed.steps
    if fork is not None:
        checkpoint, first, overridden = fork
        required_to_start(start.config, start.folder.root, start.spec.launcher, str(checkpoint))
        there = str(start.folder.root / checkpoint.name)
        spec = replace(start.spec, resume=there, forked_from=str(checkpoint), overridden=overridden)
        start, last = replace(start, spec=spec), last and first + last
    code = followed(replace(start, spec=replace(start.spec, stop_after=last)))
    if code not in (OK, REFUSED):
        return USAGE if code == FAILED else code
    if not parsed.verify:
        return OK if parsed.steps else code
    return _verified(bundle, start.folder, last)


def _name(bundle: Bundle) -> str:
    """Return the run's name, if it can be the name of a folder."""
    name = one_line(str(bundle.manifest.get("run") or ""), 60)
    return name if name and "/" not in name and not name.startswith(".") else "run"


def _differences(bundle: Bundle) -> list[str]:
    """Return what differs here as lines, or raise CommandError if a file is missing."""
    changed, missing = changed_files(bundle)
    if missing:
        models = mapping(bundle.manifest.get("model_files"))
        lines = [
            f"missing {'model file' if name in models else 'file'}: {one_line(name, 200)}" for name in missing
        ]
        raise CommandError("\n".join([*lines[:MOST_VERSIONS], f"Put them into {bundle.root}"]))
    found = differences(bundle, machine_here())
    versions = found.pop("versions", [])
    lines = [line for group in found.values() for line in group] + versions[:MOST_VERSIONS]
    if len(versions) > MOST_VERSIONS:
        lines.append(f"and {plural(len(versions) - MOST_VERSIONS, 'package')} more of another version")
    lines += [f"{one_line(name, 200)} changed since the export: its SHA-256 differs" for name in changed]
    for key, why in mapping(bundle.manifest.get("left_out")).items():
        lines.append(f"{one_line(str(key), 100)} is not in the bundle: {one_line(str(why), 100)}")
    if "threads" in found and bundle.threads is not None:
        lines.append(f"training here with {plural(bundle.threads, 'thread')}, as in the bundle")
    return lines or ["nothing differs here from the bundle"]


def _verified(bundle: Bundle, folder: RunFolder, steps: int | None) -> int:
    with closing(RunReader(folder.database)) as reader:
        record: Mapping[str, Any] = mapping(reader.fact("reproduction"))
        rows = list(all_metric_rows(reader))
    reasons = [
        "no threads and processor recorded" if bundle.threads is None else "",
        *(f"{subject} differ" if subject.endswith("s") else f"{subject} differs"
          for subject in differences(bundle, record)),
        "on a GPU, sums can differ from one run to the next" if bundle.machine.get("gpus") else "",
    ]  # fmt: skip
    reasons = [reason for reason in reasons if reason]
    bounds = [bound for bound in (steps, bundle.comparable_until) if bound is not None]
    with reported(BundleError):
        found = verify(rows_of(bundle), rows, min(bounds, default=None), exact=not reasons)
    if bundle.comparable_until is not None and bundle.comparable_until == min(bounds):
        print(f"compared up to step {bundle.comparable_until}: then the run was changed or resumed")
    how = f"to rounding (relative {ROUNDING:g})" if reasons else "bit for bit"
    if reasons:
        print(f"{', '.join(reasons)}: compared to rounding")
    if found.differs is not None:
        step, key, there, here = found.differs
        said = f"{one_line(key, 100)} is {one_line(str(there), 60)} in the bundle, {one_line(str(here), 60)}"
        print(f"differs first at step {step}: {said} here")
        if names := bundle.changed_at_resumes:
            named = one_line(", ".join(dict.fromkeys(names)), 200)
            print(f"a resume changed {named} in the config, and the bundle holds the later config")
        return FAILED
    if not found.values:
        raise CommandError("the bundle has no logged values to compare. Leave out --verify")
    print(f"equal {how}: {plural(found.values, 'value')} of {plural(found.steps, 'step')}")
    return OK
