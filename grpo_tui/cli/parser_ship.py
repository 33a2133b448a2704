"""Arguments of the commands for finished runs, from compare, chat and seeds to reproduce."""

from __future__ import annotations

import argparse

from grpo_tui.cli.words import Commands, add_command, flag, path, positive, shared


def _compare(commands: Commands) -> None:
    compare = add_command(
        commands,
        "compare",
        "is the trained model better than the base model, by how much, and on what",
        "Exit codes: 0 better or not shown, 1 worse, 2 usage error or failure, 3 code to confirm first, "
        "130 interrupted. See docs/after-training.md.",
    )
    add = compare.add_argument
    add(
        "policies",
        nargs="+",
        metavar="POLICY",
        help="base, RUN, RUN@STEP, RUN@live while paused, a model folder or an adapter folder; the first is "
        "what the others are compared with, and one alone is compared with base",
    )
    add(
        "--config",
        type=path,
        metavar="CONFIG_OR_RUN",
        help="where data, rewards and sampling settings come from (default: the first run named)",
    )
    add("--rows", type=positive, default=100, metavar="N", help="prompts (default 100)")
    add("--samples", type=positive, default=4, metavar="N", help="completions per prompt (default 4)")
    rows = compare.add_mutually_exclusive_group()
    flag(rows, "--held", "fail instead of using training rows when no row is held out")
    rows.add_argument(
        "--prompts", type=path, metavar="FILE", help="rows of another file, mapped as the config's dataset"
    )
    flag(rows, "--probes", "the config's probe prompts instead of dataset rows")
    shared(compare, "--correct", "--seed", "--timeout", "--set", "--trust", "--json")
    flag(compare, "--progress", argparse.SUPPRESS)  # for the screen


def _race(commands: Commands) -> None:
    command = add_command(
        commands,
        "race",
        "continue one checkpoint with different settings for some steps: which change helps",
        "Each branch is a fork in RUN-STEP-NAME with the schedule of the whole run, so it can go on. "
        "The same command continues a race. Exit codes: 0 better or not shown, 1 a branch is worse than "
        "the control, 2 usage error or failure, 3 code to confirm first or a branch was stopped, 130 "
        "interrupted. See docs/after-training.md.",
    )
    add = command.add_argument
    add("checkpoint", metavar="RUN[@STEP]", help="where the branches start (default: the newest checkpoint)")
    add("--steps", type=positive, required=True, metavar="N", help="optimizer steps of each branch")
    add(
        "--branch",
        action="append",
        default=[],
        metavar="'[NAME:] K=V …'",
        help="settings of one branch, with optimizer=new to empty the optimizer; repeat it for others",
    )
    add("--branches", type=path, metavar="FILE", help="YAML file that maps names of branches to settings")
    flag(command, "--no-control", "no unchanged branch: compare with the checkpoint instead")
    add("--rows", type=positive, default=100, metavar="N", help="prompts (default 100)")
    add("--samples", type=positive, default=4, metavar="N", help="completions per prompt (default 4)")
    shared(command, "--correct", help="as in compare")
    add("--gpus", metavar="N,N", help="train one branch on each of these GPUs")
    flag(command, "--detach", "start in the background, with a log file")
    shared(command, "--timeout", "--trust", "--json")


def _seeds(commands: Commands) -> None:
    command = add_command(
        commands,
        "seeds",
        "compare sets of runs that differ only by seed: is a difference more than seed noise",
        "The first run names the set that the others are compared with. Exit codes: 0 better or within "
        "seed noise, 1 worse, 2 usage error. See docs/after-training.md.",
    )
    shared(command, "runs", "--json")


def _chat(commands: Commands) -> None:
    chat = add_command(
        commands,
        "chat",
        "chat with a base model, a run or a checkpoint, or with two of them side by side",
        "In a terminal, ctrl+c stops an answer, ctrl+d ends the chat, and /help lists the commands. "
        "Otherwise every line of stdin is a separate prompt. Exit codes: 0 done, 2 usage error "
        "or failure, 3 code to confirm first, 130 interrupted. See docs/after-training.md.",
    )
    add = chat.add_argument
    add(
        "policy",
        metavar="POLICY",
        help="base, RUN, RUN@STEP, RUN@live while it trains, a model folder or an adapter folder",
    )
    add("--with", metavar="POLICY", dest="beside", help="ask a second model the same prompts")
    add(
        "--config",
        type=path,
        metavar="CONFIG_OR_RUN",
        help="where system prompt, rewards and sampling settings come from (default: the first run named)",
    )
    add("--prompt", metavar="TEXT", help="ask this prompt and exit")
    shared(chat, "--seed", help="seed of every answer (default: the config's)")
    shared(chat, "--timeout", "--set", "--trust")
    flag(chat, "--json", "the documented JSON object, one per prompt")
    flag(chat, "--events", argparse.SUPPRESS)  # for the screen


def _merge(commands: Commands) -> None:
    command = add_command(
        commands,
        "merge",
        "merge a LoRA adapter into its base model, and check the result",
        "Exit codes: 0 merged, 1 the merged model answers differently and was not kept, 2 usage error. "
        "See docs/after-training.md.",
    )
    add = command.add_argument
    add("policy", metavar="RUN[@STEP]|ADAPTER", help="a run, one of its checkpoints, or an adapter's folder")
    add("destination", type=path, metavar="DEST", help="a new or empty folder")
    add(
        "--dtype",
        choices=("float32", "bfloat16", "float16"),
        help="dtype of the merged weights (default: as the base is stored)",
    )
    shared(command, "--trust", "--json")
    flag(command, "--progress", argparse.SUPPRESS)  # for the screen


def _push(commands: Commands) -> None:
    command = add_command(
        commands,
        "push",
        "upload a model with its card to the Hugging Face Hub, after showing the files",
        "Uploads only the files that a model needs. Exit codes: 0 done, 2 usage error or failure, "
        "3 not confirmed. See docs/after-training.md.",
    )
    add = command.add_argument
    add("policy", metavar="MODEL", help="a run, RUN@STEP, or the folder of a model or an adapter")
    add("repo", metavar="REPO", help="OWNER/NAME on the Hub")
    flag(command, "--private", "create a private repository")
    flag(command, "--update", "add a commit to an existing repository")
    flag(command, "--dry-run", "list what would be uploaded, and exit")
    flag(command, "--yes", "upload without asking")
    shared(command, "--json")


def _checkpoints(commands: Commands) -> None:
    command = add_command(
        commands,
        "checkpoints",
        "list the checkpoints of a run with size and reward, and delete some",
        "A live run keeps its newest checkpoint. Exit codes: 0 done, 2 usage error, 3 not "
        "confirmed. See docs/after-training.md.",
    )
    shared(command, "run")
    command.add_argument(
        "--delete", type=positive, nargs="+", metavar="STEP", help="delete these checkpoints, after asking"
    )
    flag(command, "--yes", "delete without asking")
    shared(command, "--json")


def _card(commands: Commands) -> None:
    command = add_command(
        commands,
        "card",
        "print a model card of a run from its record",
        "No existing file is overwritten. See docs/after-training.md.",
    )
    shared(command, "run")
    where = command.add_mutually_exclusive_group()
    where.add_argument("-o", "--output", type=path, metavar="FILE", help="write to a new file")
    flag(where, "--write", "write the run's README.md, replacing TRL's or an unedited earlier one")


def _report(commands: Commands) -> None:
    command = add_command(
        commands,
        "report",
        "one run or several in one file: results, settings that differ, charts",
        "No existing file is overwritten. See docs/after-training.md.",
    )
    add = command.add_argument
    shared(command, "runs")
    add("--format", choices=("md", "html"), help="of the text (default: html for FILE.html, else md)")
    add("-o", "--output", type=path, metavar="FILE", help="write to a new file")


def _reproduce(commands: Commands) -> None:
    command = add_command(
        commands,
        "reproduce",
        "train the run of a bundle again, and compare its values",
        "A zip file is unpacked beside itself. Exit codes: 0 trained (with --verify: equal), 1 differs, "
        "2 usage error or failure, 3 code to confirm first, 130 interrupted. See docs/after-training.md.",
    )
    add = command.add_argument
    add("bundle", type=path, metavar="BUNDLE", help="folder or .zip of `export --format bundle`")
    shared(command, "--run-dir", help="run folder (default: outputs/NAME-reproduced, or the next free name)")
    flag(command, "--verify", "compare the logged values with those of the bundle")
    add("--steps", type=positive, metavar="N", help="stop after N steps, with the schedule of the whole run")
    shared(command, "--trust")


COMPARING = {"compare": _compare, "seeds": _seeds, "race": _race, "chat": _chat}
SHIPPING = {
    "checkpoints": _checkpoints, "merge": _merge, "push": _push, "card": _card, "report": _report,
    "reproduce": _reproduce,
}  # fmt: skip
