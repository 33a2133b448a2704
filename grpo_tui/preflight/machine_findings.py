"""Findings on what a run needs of this machine: precision, GPUs, launcher, vLLM server, port for the ranks.

The server is asked what it serves, with a short time limit. Memory is checked by the plan. Supported versions
of optional packages come from the metadata and source of the installed TRL and transformers.
`config.packages` reports packages that are missing although a TRL key names them. This module adds versions,
packages implied by a value, and accounts that a tracker needs.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from grpo_tui.config.accelerate_file import (
    AccelerateFileError,
    Option,
    accelerate_settings,
    meeting_port,
    option_value,
    options_of,
    spans_machines,
    underscored,
)
from grpo_tui.config.meant import nearest
from grpo_tui.config.packages import ASKED, installed
from grpo_tui.config.rules import row_findings
from grpo_tui.config.rules_sharded import mismatches
from grpo_tui.config.rules_vllm import server_address, server_command
from grpo_tui.config.settings import Settings
from grpo_tui.config.stages_reader import SHARDING, sharded_start
from grpo_tui.config.trl_fields import source_root
from grpo_tui.config.yaml_edit import get_value
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line
from grpo_tui.preflight.machine import Machine

VersionOf = Callable[[str], str | None]

_OPTIMIZERS: tuple[tuple[str, str], ...] = (
    (r"adamw_8bit|.*bnb.*|paged_.*|ademamix.*|lion.*", "bitsandbytes"),
    (r"adamw_torch_(4|8)bit", "torchao"),
    (r"galore_.*", "galore-torch"),
    (r"apollo_.*", "apollo-torch"),
    (r"(ada)?lomo", "lomo-optim"),
    (r"grokadamw", "grokadamw"),
    (r"schedule_free_.*", "schedulefree"),
    (r"stable_adamw", "torch-optimi"),
)
"""Patterns of optimizer names, and the package with these optimizers."""
_MATH_REWARDS = ("accuracy_reward", "reasoning_accuracy_reward")
_ATTENTION = {"flash_attention_2": "flash-attn", "flash_attention_3": "flash-attn-3"}


def version_findings(settings: Settings, machine: Machine) -> list[Finding]:
    """Return findings on packages and accounts that the config needs."""
    found = list(_windows(settings, machine.version))
    found += _implied(settings, machine.version)
    found += _trackers(settings, machine)
    return found


def window(package: str) -> SpecifierSet:
    """Return the versions of a package that the installed TRL or transformers supports, empty if unknown."""
    found = SpecifierSet()
    for owner in ("trl", "transformers"):
        try:
            lines = metadata.requires(owner) or []
        except metadata.PackageNotFoundError:
            continue
        for line in lines:
            try:
                wanted = Requirement(line)
            except InvalidRequirement:
                continue
            if wanted.name.lower().replace("_", "-") == package:
                found &= wanted.specifier
        if found:
            break
    return found if package != "vllm" else found or _vllm_in_source()


def _vllm_in_source() -> SpecifierSet:
    """Read vLLM's supported versions from TRL's source, in case the metadata does not name them."""
    try:
        text = (source_root("trl") / "import_utils.py").read_text(encoding="utf-8")
    except (OSError, RuntimeError):
        return SpecifierSet()
    bounds = re.search(r'Version\("([\d.]+)"\) <= _vllm_base_version <= Version\("([\d.]+)"\)', text)
    return SpecifierSet(f">={bounds[1]},<={bounds[2]}") if bounds else SpecifierSet()


def _windows(s: Settings, version: VersionOf) -> Iterator[Finding]:
    for field, instead, package, name, _ in ASKED:
        if not s.get(field):
            continue
        have, wanted = version(package), window(package)
        if have is None or not wanted or _inside(have, wanted):
            continue
        message = (
            f"{name} {have} is installed, and this TRL takes {_words(wanted)}; "
            f'`pip install "{package}{wanted}"` brings one that fits'
        )
        yield s.error("packages.version", field, message, (field, instead))


def _implied(s: Settings, version: VersionOf) -> Iterator[Finding]:
    optim = str(s.get("optim") or "")
    package = next((name for pattern, name in _OPTIMIZERS if re.fullmatch(pattern, optim)), None)
    if package is not None and version(package) is None:
        message = f"optim {optim} comes from {package}, which is not installed here; "
        message += f"`pip install {package}` gets it"
        yield s.error("config.not-installed", "optim", message, ("optim", "adamw_torch_fused"))
    attention = s.get("attn_implementation") or s.mapping("model_init_kwargs").get("attn_implementation")
    field = "attn_implementation" if s.get("attn_implementation") else "model_init_kwargs.attn_implementation"
    wheel = _ATTENTION.get(str(attention))
    message = ""
    if wheel is not None and version(wheel) is None:
        message = (
            f"{field} {attention} comes from {wheel}, which is not installed here; `pip install {wheel} "
            "--no-build-isolation` builds it, `pip install kernels` fetches it built"
        )
    elif isinstance(attention, str) and "/" in attention:
        message = f"{field} {attention} is a kernel of the Hub, and kernels is not installed here; "
        message += "`pip install kernels` gets it"
    if message and version("kernels") is None:
        yield s.error("config.not-installed", field, message, (field, "sdpa"))
    yield from _math(s, version)


def _math(s: Settings, version: VersionOf) -> Iterator[Finding]:
    if version("math-verify") is not None:
        return
    named = [("reward_funcs", name) for name in s.get("reward_funcs") or ()]
    named += [(f"grpo_tui.rewards.{i}.source", entry.source) for i, entry in enumerate(s.section.rewards)]
    for field, name in named:
        if name not in _MATH_REWARDS:
            continue
        message = f"{name} reads mathematics with math-verify, which is not installed here; "
        message += "`pip install math-verify` gets it"
        yield s.error("config.not-installed", field, message)


def _trackers(s: Settings, machine: Machine) -> Iterator[Finding]:
    named = s.get("report_to") or ()
    trackers = [named] if isinstance(named, str) else list(named)
    for name, switch, package, login in (
        ("wandb", "WANDB_MODE", "wandb", "`wandb login` makes one"),
        ("comet_ml", "COMET_MODE", "comet-ml", "`comet login` makes one"),
    ):
        if name not in trackers or machine.version(package) is None or name in machine.accounts:
            continue
        if machine.environment.get(switch, "").lower() in ("offline", "disabled", "dryrun"):
            continue
        message = (
            f"report_to names {name}, and there is no login on this machine: the run would end at its start, "
            f"for there is nobody to ask. {login}; {switch}: offline under env: keeps the figures here"
        )
        yield s.error("packages.login", "report_to", message, (f"env.{switch}", "offline"))
    if s.get("push_to_hub") and "huggingface" not in machine.accounts:
        message = "push_to_hub needs a login, and there is none on this machine; `hf auth login` makes one"
        yield s.error("packages.login", "push_to_hub", message, ("push_to_hub", False))


def _inside(version: str, wanted: SpecifierSet) -> bool:
    try:
        return wanted.contains(Version(version).base_version)
    except InvalidVersion:
        return True


def _words(wanted: SpecifierSet) -> str:
    low = next((s.version for s in wanted if s.operator == ">="), None)
    high = next((s for s in wanted if s.operator in ("<=", "<")), None)
    if low and high:
        return f"{low} to {'below ' * (high.operator == '<')}{high.version}"
    return f"{low} or later" if low else str(wanted)


AMPERE = (8, 0)
"""First compute capability with bfloat16 and TF32 in hardware."""


def hardware_findings(settings: Settings, machine: Machine) -> list[Finding]:
    """Return findings on precision and number of processes that the GPUs do not support."""
    if settings.get("use_cpu"):
        return list(row_findings(settings, "hardware-cpu"))
    gpus, in_bf16 = machine.gpus, trains_in_bf16(settings)
    if not gpus:
        return [] if machine.other_device else list(row_findings(settings, "hardware-none", in_bf16=in_bf16))
    known = [(gpu.capability, gpu.name) for gpu in gpus if gpu.capability is not None]
    found: list[Finding] = []
    if known and min(known)[0] < AMPERE:
        (major, minor), name = min(known, key=lambda gpu: gpu[0])
        who = f"{name} has compute capability {major}.{minor}"
        found += row_findings(settings, "hardware-old", in_bf16=in_bf16, who=who)
    return [*found, *row_findings(settings, "hardware", in_bf16=in_bf16, gpus=len(gpus))]


def trains_in_bf16(settings: Settings) -> bool:
    """Return whether training uses bfloat16, TRL's default unless fp16 is on."""
    bf16 = settings.get("bf16")
    return not settings.get("fp16") if bf16 is None else bool(bf16)


# -- the launcher -----------------------------------------------------------------------------------

_LAUNCHER = "grpo_tui.launcher"


def launch_findings(settings: Settings, launcher: Sequence[str], machine: Machine) -> list[Finding]:
    """Return findings on the launch command.

    Args:
        launcher: words such as `accelerate launch --num_processes 2`. Empty for a single process.
    """
    found = [*_chosen(settings, machine), *_launcher_options(settings, launcher)]
    try:
        file = accelerate_settings(launcher) or {}
        several = bool(launcher) and spans_machines(launcher)
    except AccelerateFileError as error:
        return [*found, settings.error("launch.file", _LAUNCHER, str(error))]
    found += _gpu_each(settings, machine, sure=bool(launcher) and not several)
    if not launcher:
        chosen = "CUDA_VISIBLE_DEVICES" in machine.environment
        return [*found, *row_findings(settings, "launch-alone", chosen=chosen, gpus=len(machine.gpus))]
    found += _deepspeed(settings, file)
    found += _stages(settings, file)
    found += _mixed_precision(settings, file, launcher)
    if settings.world_size != 1:
        found += row_findings(settings, "launch-several", launcher=launcher)
    return found


def _launcher_options(s: Settings, launcher: Sequence[str]) -> Iterator[Finding]:
    """Report unknown options, which the launcher would reject or mistake for the script."""
    known = options_of(launcher[0]) if launcher else {}
    command = " ".join(launcher[:2]) if launcher[:1] == ("accelerate",) else "torchrun"
    at = len(command.split())
    while known and at < len(launcher):
        word, equals, value = launcher[at].partition("=")
        at += 1
        option = known.get(underscored(word)) or _shortened(launcher, word, known)
        if not word.startswith("-"):
            message = f"{command} takes '{word}' for the script to start; a launcher here has options only"
            yield s.error("launch.option", _LAUNCHER, message)
            return
        if option is None:
            near = nearest(underscored(word), known, cutoff=0.7)
            message = f"{command} has no option {word}" + (f". Did you mean {near}?" if near else "")
            words = [*launcher[: at - 1], f"{near}={value}" if equals else str(near), *launcher[at:]]
            fix = (_LAUNCHER, shlex.join(words)) if near and s.section.launcher else None
            yield s.error("launch.option", _LAUNCHER, message, fix)
            option = known[near] if near else Option(at < len(launcher) and launcher[at][:1] != "-")
        if option.takes_value and not equals:
            value = launcher[at] if at < len(launcher) else ""
            at += 1
        if option.takes_value:
            yield from _option_value(s, word, value, option)


def _shortened(launcher: Sequence[str], word: str, known: Mapping[str, Option]) -> Option | None:
    """Return the option that an abbreviation means. torchrun accepts unique ones, accelerate none."""
    if launcher[0] != "torchrun" or not word.startswith("--"):
        return None
    fits = {name for name in known if name.startswith(underscored(word))}
    return known[fits.pop()] if len(fits) == 1 else None


def _option_value(s: Settings, word: str, value: str, option: Option) -> Iterator[Finding]:
    if option.whole and not value.lstrip("+-").isdigit():
        message = f"{word} of the launcher needs a whole number; it is '{value}'"
    elif option.choices and value not in option.choices:
        message = f"{word} of the launcher is '{value}'; it knows {', '.join(option.choices)}"
    else:
        return
    yield s.error("launch.option", _LAUNCHER, message)


def _gpu_each(s: Settings, machine: Machine, *, sure: bool) -> Iterator[Finding]:
    """Report more processes than GPUs. `sure` if all of them start on this machine."""
    ranks, gpus = s.world_size or 1, len(machine.gpus)
    if not gpus or s.get("use_cpu") or ranks <= max(1, gpus):
        return
    message = f"{ranks} processes need a GPU each, and this machine has {gpus} that they may use"
    if sure:
        message += f". Start {gpus} with --num_processes {gpus}"
    field = _LAUNCHER if sure else "per_device_train_batch_size"
    yield s.finding("hardware.too-few", "error" if sure else "warning", field, message)


def _deepspeed(s: Settings, file: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that DeepSpeed, if the launcher uses it, is installed and matches the training settings."""
    if str(file.get("distributed_type", "")).upper() != "DEEPSPEED":
        return
    if not installed("deepspeed"):
        message = "the launcher asks for DeepSpeed, which is not installed here; "
        message += "`pip install deepspeed` gets it"
        yield s.error("config.not-installed", _LAUNCHER, message)
    inner = file.get("deepspeed_config")
    given = inner if isinstance(inner, dict) else {}
    path = given.get("deepspeed_config_file")
    body: Any = {name: given.get(name) for name in ("gradient_accumulation_steps", "gradient_clipping")}
    if path:
        try:
            body = json.loads(Path(str(path)).expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            message = f"the launcher's DeepSpeed config {path} cannot be read: {error}"
            yield s.error("sharded.deepspeed-file", _LAUNCHER, message)
            return
    if isinstance(body, dict):
        yield from mismatches(s, body)


def _stages(s: Settings, file: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield stages that cannot begin as they say, because the launcher's file shards the model."""
    by = str(file.get("distributed_type", "")).lower()
    if by in SHARDING and not any(s.get(name) for name in SHARDING):  # else the config's check says so
        for place, stage in enumerate(s.section.stages):
            yield from sharded_start(s, ("grpo_tui", "stages", place), stage, by)


def _mixed_precision(s: Settings, file: Mapping[str, Any], launcher: Sequence[str]) -> Iterator[Finding]:
    """Report a mixed precision of the launcher that differs from the config's, which takes precedence."""
    given = option_value(launcher, ("--mixed_precision", "--mixed-precision"))
    asked = given or str(file.get("mixed_precision") or "no")
    ours = "fp16" if s.get("fp16") else "bf16" if s.get("bf16") is not False else "no"
    if asked in ("no", ours) or asked not in ("fp16", "bf16"):
        return
    if ours == "no":
        stored = s.get("dtype")
        if asked == "fp16" and stored in ("float16", "bfloat16") and not s.get("use_peft"):
            message = "the launcher's mixed_precision fp16 trains weights that are kept in float32, and "
            message += f"dtype is {stored}, so the first step fails"
            yield s.error("training.precision", "dtype", message, ("dtype", "float32"))
        return
    default = "" if s.written(ours) else ", TRL's default"
    sharded = str(file.get("distributed_type", "")).upper() == "DEEPSPEED"
    message = f"the launcher's mixed_precision is {asked}, and the config trains in {ours}{default}. "
    message += "DeepSpeed needs one of them in both places" if sharded else f"The run trains in {ours}"
    field = ours if s.written(ours) else _LAUNCHER
    yield s.finding("launch.precision", "error" if sharded else "warning", field, message)


def _chosen(s: Settings, machine: Machine) -> Iterator[Finding]:
    """Report GPUs that the config names and this machine lacks."""
    if not machine.gpus or "CUDA_VISIBLE_DEVICES" in machine.environment:
        return  # reported elsewhere, or numbers relative to the variable
    there = [str(gpu.index) for gpu in machine.gpus]
    gone = [name for name in s.section.gpus if name.isdigit() and name not in there]
    if gone:
        field = "grpo_tui.gpus"
        left = [int(name) for name in s.section.gpus if name in there]
        message = f"{field} names {', '.join(gone)}, and this machine has {', '.join(there)}"
        yield s.error("launch.no-such-gpu", field, message, (field, left or None))


# -- server and port --------------------------------------------------------------------------------

_HERE = ("0.0.0.0", "127.0.0.1", "localhost", "::1")


def wants_server(settings: Settings) -> bool:
    """Return whether the run generates with a vLLM server."""
    return bool(settings.get("use_vllm")) and settings.get("vllm_mode") == "server"


def server_findings(settings: Settings, machine: Machine) -> list[Finding]:
    """Return findings on the vLLM server, none if the config does not use one."""
    return list(_server(settings, machine)) if wants_server(settings) else []


def server_note(settings: Settings) -> str:
    """Return how to start the server. Empty if the config does not use one."""
    if not wants_server(settings):
        return ""
    return f"the vLLM server, on GPUs that do not train: CUDA_VISIBLE_DEVICES=… {server_command(settings)}"


def _server(s: Settings, machine: Machine) -> Iterator[Finding]:
    address = server_address(s)
    field = "vllm_server_base_url" if s.get("vllm_server_base_url") else "vllm_server_port"
    if not s.written(field):
        field = "vllm_mode"
    health = machine.ask(f"{address}/health")
    if health.status is None:
        patience = s.get("vllm_server_timeout")
        message = (
            f"no vLLM server answers at {address} ({one_line(health.trouble, 80)}); TRL waits {patience:g} s "
            f"for it and then gives up. Start it with `{server_command(s)}`"
        )
        yield s.error("vllm.server", field, message)
        return
    if health.status != 200:
        message = f"what answers at {address} is not a vLLM server that is ready (HTTP {health.status})"
        port = s.get("vllm_server_port")
        ours = field != "vllm_server_base_url" and s.get("vllm_server_host") in _HERE
        if ours and machine.port_taken(port):
            message += (
                f": {one_line(machine.port_holder(port), 120)}. Start the server on a free port, such as "
                f"vllm_server_port: {machine.free_port(port)}"
            )
        yield s.error("vllm.server", field, message)
        return
    served = _served(machine.ask(f"{address}/v1/models").body)
    model = str(s.get("model_name_or_path"))
    if served and not _same(served, model):
        message = (
            f"the vLLM server at {address} serves {one_line(served, 80)}, and the run trains "
            f"{one_line(model, 80)}"
        )
        yield s.error("vllm.other-model", field, message)
    yield from _abilities(s, machine, address, field)


def _abilities(s: Settings, machine: Machine, address: str, field: str) -> Iterator[Finding]:
    info = machine.ask(f"{address}/server_info?config_format=json")
    if info.status == 404:
        message = (
            f"the vLLM server at {address} does not take new weights (it has no /server_info); "
            "`trl vllm-serve` starts it so that it does, or VLLM_SERVER_DEV_MODE=1"
        )
        yield s.error("vllm.no-weights", field, message)
        return
    mode = get_value(info.body, ("vllm_config", "model_config", "logprobs_mode"))
    if mode and mode != "processed_logprobs" and s.get("vllm_importance_sampling_correction"):
        message = (
            f"the vLLM server gives {one_line(str(mode), 40)}, which biases the importance sampling "
            "correction; start it with --logprobs-mode processed_logprobs, as `trl vllm-serve` does"
        )
        fix = ("vllm_importance_sampling_correction", False)
        yield s.warning("vllm.logprobs", field, message, fix)


def _served(body: Any) -> str:
    first = get_value(body, ("data", 0))
    return str(first.get("root") or first.get("id") or "") if isinstance(first, dict) else ""


def _same(served: str, model: str) -> bool:
    """Whether two names mean one model. A folder may be relative here and absolute there."""
    if served == model:
        return True
    one, other = Path(served).expanduser(), Path(model).expanduser()
    return one.exists() and other.exists() and one.resolve() == other.resolve()


def port_findings(settings: Settings, launcher: Sequence[str], machine: Machine) -> list[Finding]:
    """Report a port named for several processes that is already in use. Unnamed, it is a free one."""
    if not launcher or settings.world_size == 1:
        return []
    try:
        port = meeting_port(launcher)
    except AccelerateFileError:  # reported elsewhere
        return []
    if not port or not machine.port_taken(port):
        return []
    flag = "--main_process_port" if launcher[0] == "accelerate" else "--master_port"
    message = (
        f"port {port}, where the processes meet, is in use by {one_line(machine.port_holder(port), 120)}. "
        f"Choose another, such as `{flag} {machine.free_port(port)}`, or leave it out for a free one"
    )
    return [settings.error("launch.port", "grpo_tui.launcher", message)]
