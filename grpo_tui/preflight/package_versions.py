"""Findings on versions of optional packages, and on accounts that a tracker needs.

Supported versions come from the metadata and source of the installed TRL and transformers. `config.packages`
reports packages that are missing although a TRL key names them. This module adds versions, and packages
implied by a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from grpo_tui.config.packages import ASKED
from grpo_tui.config.settings import Settings
from grpo_tui.config.trl_fields import source_root
from grpo_tui.core.findings import Finding
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
        message = (
            f"optim {optim} comes from {package}, which is not installed here; `pip install "
            f"{package}` gets it"
        )
        yield s.error("config.not-installed", "optim", message, ("optim", "adamw_torch_fused"))
    attention = s.get("attn_implementation") or s.mapping("model_init_kwargs").get("attn_implementation")
    field = "attn_implementation" if s.get("attn_implementation") else "model_init_kwargs.attn_implementation"
    wheel = _ATTENTION.get(str(attention))
    if wheel is not None and version(wheel) is None:
        kernel = version("kernels") is not None
        if not kernel:
            message = (
                f"{field} {attention} comes from {wheel}, which is not installed here; "
                f"`pip install {wheel} --no-build-isolation` builds it, `pip install kernels` fetches it "
                "built"
            )
            yield s.error("config.not-installed", field, message, (field, "sdpa"))
    if isinstance(attention, str) and "/" in attention and version("kernels") is None:
        message = f"{field} {attention} is a kernel of the Hub, and kernels is not installed here; "
        message += "`pip install kernels` gets it"
        yield s.error("config.not-installed", field, message, (field, "sdpa"))
    yield from _math(s, version)


def _math(s: Settings, version: VersionOf) -> Iterator[Finding]:
    if version("math-verify") is not None:
        return
    named = [("reward_funcs", name) for name in s.get("reward_funcs") or () if name in _MATH_REWARDS]
    named += [
        (f"grpo_tui.rewards.{i}.source", entry.source)
        for i, entry in enumerate(s.section.rewards)
        if entry.source in _MATH_REWARDS
    ]
    for field, name in named:
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
            f"report_to names {name}, and there is no login on this machine: the run would end at its "
            "start, for there "
            f"is nobody to ask. {login}; {switch}: offline under env: keeps the figures here"
        )
        yield s.error("packages.login", "report_to", message, (f"env.{switch}", "offline"))
    if s.get("push_to_hub") and "huggingface" not in machine.accounts:
        message = "push_to_hub needs a login, and there is none on this machine; `hf auth login` makes one"
        yield s.error("packages.login", "push_to_hub", message, ("push_to_hub", False))


def _inside(version: str, wanted: SpecifierSet) -> bool:
    try:
        return wanted.contains(Version(Version(version).base_version), prereleases=True)
    except InvalidVersion:
        return True


def _words(wanted: SpecifierSet) -> str:
    low = next((s.version for s in wanted if s.operator == ">="), None)
    high = next((s for s in wanted if s.operator in ("<=", "<")), None)
    if low and high:
        return f"{low} to {'below ' * (high.operator == '<')}{high.version}"
    return f"{low} or later" if low else str(wanted)
