"""Export a config as stand-alone scripts: one, or one per stage that continues from the stage before."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from grpo_tui.config.export_script import Part, Script, call, exportable, literal, write_script
from grpo_tui.config.resolve import inspect_stage
from grpo_tui.config.run_config import RunConfig
from grpo_tui.core.conditions import parse
from grpo_tui.core.text import named_texts

_TEXTS = named_texts(Path(__file__).with_suffix(".txt"))
"""Functions that the script of a stage may need."""


def write_scripts(config: RunConfig, target: Path, versions: dict[str, str] | None = None) -> dict[Path, str]:
    """Return the source of the scripts that train as configured, by path.

    Args:
        target: Path of the only script. Those of stages have the number of the stage in their names.

    Raises:
        NoSourceError: A reward of this package cannot be copied.
        ConfigError: A stage cannot train.
    """
    found = {}
    folder = str(config.grpo.get("output_dir") or config.run_root)
    for place in range(len(config.section.stages)):
        path = target.with_name(f"{target.stem}_{place + 1}{target.suffix}")
        of_stage = exportable(inspect_stage(config, place, world_size=None))
        settings = {key: value for key, value in of_stage.grpo.items() if key != "max_steps"}
        settings["output_dir"] = f"{folder}/stage-{place + 1}"
        part = partial(_part, config=of_stage, place=place, before=f"{folder}/stage-{place}")
        found[path] = write_script(replace(of_stage, grpo=settings), path, versions, part)
    return found or {target: write_script(config, target, versions)}


def _part(script: Script, *, config: RunConfig, place: int, before: str) -> Part:
    """Return what trains a stage.

    Args:
        before: Folder of the stage before.
    """
    stages = config.section.stages
    stage, about = stages[place], f"Stage {place + 1} of {len(stages)}: {stages[place].name}."
    script.need(_TEXTS["STAGE"], "functools")
    script.imports.add(("transformers", "TrainerCallback"))
    words, after = ["trainer"], []
    if stage.until is not None:
        script.copy("grpo_tui.core.conditions.Watched")
        after.append(f"    until = {call('Condition', asdict(parse(stage.until)))}")
        words.append("until=Watched(until)")
    if place and stage.optimizer == "new":
        words.append("new_optimizer=True")
    after.append(f"    trainer.add_callback(Stage({', '.join(words)}))")
    if not place:
        length = f"        max_steps={stage.limit},\n"
        return Part(about, length=length, trainer="StageTrainer", after=tuple(after))
    script.need(_TEXTS["LAST_CHECKPOINT"], "os")
    script.imports.add(("transformers.trainer_utils", "get_last_checkpoint"))
    adapted = bool(config.model_args.get("use_peft"))
    from_start = stage.reference == "stage start"
    if from_start and adapted:
        script.need(_TEXTS["REFERENCE"], "functools")
        after.append("    add_reference(trainer, start)")
    return Part(
        about=f"{about} It starts from the last checkpoint of the stage before.",
        before=(
            f"    start = last_checkpoint({literal(before)})",
            '    first = int(start.rpartition("-")[2])',
        ),
        length=f"        max_steps=first + {stage.limit},\n",
        trainer="StageTrainer",
        model="start" if from_start and not adapted else "",
        start="start",
        after=("    trainer.first = first", *after),
    )
