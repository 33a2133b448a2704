"""Arguments of config, check, plan, gpus, data, new and export."""

from __future__ import annotations

from grpo_tui.cli.words import Commands, add_command, flag, path, positive, shared

_SIDES = """\
A and B are config files, run folders, names of presets as preset:gsm8k, or the word `defaults`. Without B,
A is compared with the preset it came from, else with TRL's defaults. Exit codes: 0 no
difference, 1 differences, 2 usage error.

examples:
  grpo-tui config diff my.yaml                      against its preset, or the defaults
  grpo-tui config diff my.yaml outputs/first        against what a run was started with
  grpo-tui config diff my.yaml preset:gsm8k --text  line by line"""

_FIELDS = """\
examples:
  grpo-tui config fields                 the most important ones, by group
  grpo-tui config fields loss_type       one field: help, advice, every choice explained
  grpo-tui config fields clip            everything about clipping
  grpo-tui config fields --config my.yaml batch   with the values of a file, and where each came from"""

_SET = """\
Only the lines of these keys change; comments, order and quoting are kept. `K=` removes a key. Values are
read as their field's type. If one does not fit, nothing is written.

examples:
  grpo-tui config set my.yaml learning_rate=5e-6 max_steps=300
  grpo-tui config set my.yaml grpo_tui.rewards.0.weight=1.5 beta=
  grpo-tui config set my.yaml use_peft=true --dry-run"""


def _config(commands: Commands) -> None:
    config = add_command(
        commands, "config", "a config file: fields with help and advice, differences, single keys set"
    )
    kinds = config.add_subparsers(dest="kind", metavar="WHAT")
    _config_diff(kinds)
    _config_fields(kinds)
    _config_set(kinds)


def _config_diff(kinds: Commands) -> None:
    diff = add_command(
        kinds, "diff", "differences between two configs, by the values a run would use", _SIDES
    )
    add = diff.add_argument
    add("first", metavar="A", help="a config file, a run folder, preset:NAME or `defaults`")
    add("second", metavar="B", nargs="?", help="the other side")
    shape = diff.add_mutually_exclusive_group()
    flag(shape, "--text", "a unified diff of the lines")
    flag(shape, "--json", "one JSON object")


def _config_fields(kinds: Commands) -> None:
    fields = add_command(kinds, "fields", "the keys of a config: search in names, help and advice", _FIELDS)
    add = fields.add_argument
    add("words", metavar="WORDS", nargs="*", help="words that must all match")
    flag(fields, "--all", "every field, not only the most important ones")
    add("--config", type=path, metavar="FILE", help="show the values of a config")
    shape = fields.add_mutually_exclusive_group()
    flag(shape, "--json", "one JSON list")
    flag(shape, "--markdown", "all advice as one page")


def _config_set(kinds: Commands) -> None:
    put = add_command(kinds, "set", "set keys in a config file, changing only their lines", _SET)
    add = put.add_argument
    add("file", type=path, metavar="FILE", help="the config file")
    add("pairs", metavar="K=V", nargs="+", help="a key, dotted where nested, and its value")
    flag(put, "--dry-run", "show what would change and write nothing")


def _check(commands: Commands) -> None:
    check = add_command(
        commands,
        "check",
        "find everything that would stop or spoil a run, without loading the model",
        "Exit codes: 0 ready to start, 1 errors, 2 usage error. See docs/check.md.",
    )
    shared(check, "config")
    check.add_argument(
        "--world-size",
        type=positive,
        metavar="N",
        help="training processes to check for (default: what grpo_tui.launcher starts, else 1)",
    )
    shared(check, "--set", "--trust", "--run-dir")
    flag(check, "--quick", "check only the config: no model, no data, no rewards")
    flag(check, "--fix", "fix wrong keys and values in the file first, and show the diff")
    shared(check, "--json")


def _plan(commands: Commands) -> None:
    plan = add_command(
        commands,
        "plan",
        "what a config amounts to: prompts, steps, hours, checkpoints, memory; loads no model",
        "See docs/plan.md.",
    )
    add = plan.add_argument
    shared(plan, "config")
    add(
        "--world-size",
        type=positive,
        metavar="N",
        help="training processes (default: what grpo_tui.launcher starts, else 1)",
    )
    add(
        "--gpu",
        metavar="NAME|80GB",
        help="a card or an amount of memory to fit on (default: this machine's GPU)",
    )
    add("--rows", type=positive, metavar="N", help="number of training rows, if not counted")
    add("--prompt-tokens", type=positive, metavar="N", help="tokens of the longest prompt (default 256)")
    flag(plan, "--count", "count rows, tokens and parameters first; takes seconds")
    shared(plan, "--set", "--trust", "--json")


def _gpus(commands: Commands) -> None:
    shared(
        add_command(commands, "gpus", "the GPUs of this machine: free memory, and who uses the rest"),
        "--json",
    )


def _data(commands: Commands) -> None:
    data = add_command(
        commands,
        "data",
        "the rows of a config as training will see them, and problems in them",
        "Without an option: statistics of all rows. Exit codes: 0 ready to train, 1 errors, 2 usage "
        "error. See docs/config.md.",
    )
    data.add_argument("config", type=path, metavar="CONFIG", help="TRL YAML config")
    which = data.add_mutually_exclusive_group()
    which.add_argument("--row", type=positive, metavar="N", help="row N of the source, from 1")
    which.add_argument("--search", metavar="TEXT", help="the first row that contains TEXT, and how many do")
    flag(which, "--random", "a random row")
    flag(data, "--no-rewards", "with a row: do not score its reference answer")
    shared(data, "--timeout")
    data.set_defaults(timeout=None)
    shared(data, "--set", "--trust")
    flag(data, "--json", "facts and findings, or the row, as JSON")


def _new(commands: Commands) -> None:
    new = add_command(
        commands, "new", "create a config from a preset, or a rewards file; --list shows the presets"
    )
    flag(new, "--list", "the presets: what each trains and on which GPU")
    kinds = new.add_subparsers(dest="kind", metavar="KIND")
    _new_config(kinds)
    _new_rewards(kinds)


def _new_config(kinds: Commands) -> None:
    config = add_command(
        kinds,
        "config",
        "a config copied from a preset, with its rewards and data files",
        "examples:\n  grpo-tui new --list                                      the presets\n  "
        "grpo-tui new config trial/my.yaml --preset json_task     a copy, with json_rewards.py and "
        "data\n  grpo-tui check trial/my.yaml                             does it fit this "
        "machine?\nNothing is overwritten. See docs/config.md.",
    )
    add = config.add_argument
    add("file", type=path, metavar="FILE.yaml", help="the config to write; never overwritten")
    add("--preset", metavar="NAME", help="see `grpo-tui new --list`")


def _new_rewards(kinds: Commands) -> None:
    rewards = add_command(
        kinds,
        "rewards",
        "a rewards file with one simple function; --next adds the next when these work",
        "examples:\n  grpo-tui new rewards rewards.py                    correctness alone\n  grpo-tui "
        "new rewards rewards.py --config my.yaml   with the answer format and columns of a config\n  "
        "grpo-tui new rewards rewards.py --next             tests the existing ones, adds the next\n  "
        "grpo-tui new rewards rewards.py --next length      adds this one; known are correctness,\n     "
        "                                                format, partial, length, style\nExit codes: 0 "
        "written, 1 nothing added (something to fix first, or nothing missing), 2 usage error.\nSee "
        "docs/rewards.md.",
    )
    add = rewards.add_argument
    add("file", type=path, metavar="FILE.py", help="never overwritten; --next adds to it")
    add("--config", type=path, metavar="CONFIG", help="write them for this config's prompts and columns")
    flag(rewards, "--write", "also add it to CONFIG; only the lines of the rewards change")
    add("--next", nargs="?", const="", metavar="NAME", help="add the next reward, or the one of this name")
    shared(rewards, "--timeout", "--trust")
    rewards.set_defaults(timeout=None)


def _export(commands: Commands) -> None:
    export = add_command(
        commands,
        "export",
        "a config as a train.py that needs only TRL, or a run as a bundle to train it again",
        "examples:\n  grpo-tui export my.yaml                    print it\n  grpo-tui export my.yaml -o "
        "train.py        write it; nothing is overwritten\n  grpo-tui export runs/first -o train.py     "
        "what a run was started with\n  grpo-tui export runs/first --format config -o ended.yaml   "
        "what it ended with\n  grpo-tui export runs/first --format bundle -o first.zip      to train it "
        "again\nOnly a bundle copies rewards and data; the script refers to them by relative paths. See "
        "docs/config.md and docs/after-training.md.",
    )
    add = export.add_argument
    shared(export, "config")
    add(
        "--format",
        choices=("script", "config", "bundle"),
        default="script",
        help="script: a train.py, or one per stage; config: the config of a run with what was set while it "
        "trained; bundle: all that is needed to train a run again, as a folder or .zip",
    )
    add(
        "-o",
        "--output",
        "--out",
        type=path,
        metavar="FILE",
        help="default: the terminal; for a bundle RUN-bundle, a folder",
    )
    flag(export, "--with-model", "in a bundle: also a local base model above 3 MB")
    flag(export, "--trust", "a bundle of a run that you did not start on this machine")
    shared(export, "--set")


CHECKING = {"check": _check, "plan": _plan, "gpus": _gpus, "data": _data}
WRITING = {"new": _new, "config": _config, "export": _export}
