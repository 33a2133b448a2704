"""Findings `model.…` and `tokenizer.…` from the facts of a model and its tokenizer."""

from __future__ import annotations

import difflib
import re

from grpo_tui.config.adapters import merge_first
from grpo_tui.config.rules import row_findings
from grpo_tui.config.rules_vllm import tensor_parallel_findings
from grpo_tui.config.settings import Change, Settings
from grpo_tui.core.findings import Finding
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import Facts, ModelFacts, TokenizerFacts
from grpo_tui.present.formatting import plural, size

_KEY = "model_name_or_path"
_NO_POLICY = re.compile(
    r"For(MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|PreTraining|MultipleChoice)$"
    r"|(?<!LMHead)Model$"
)
"""Classes that do not generate text: reward models and encoders."""


def model_findings(facts: ModelFacts, s: Settings) -> list[Finding]:
    """Return findings on the model that do not need its weights."""
    found = _where(facts, s)
    if facts.adapter:
        found.append(s.error("model.adapter", _KEY, merge_first(facts.adapter, facts.where.name)))
    if facts.problem and facts.where.place in ("folder", "cached", "hub"):
        message = f"the model's config cannot be used: {facts.problem}"
        found.append(s.error("model.architecture", _KEY, message))
    elif _NO_POLICY.search(facts.architecture):
        message = (
            f"the model is a {facts.architecture}, which writes no text: its config names that class, and "
            "TRL loads it; a policy is a …ForCausalLM"
        )
        found.append(s.error("model.no-policy", _KEY, message))
    return [*found, *_lora(facts, s)]


def _where(facts: ModelFacts, s: Settings) -> list[Finding]:
    where = facts.where
    if where.place in ("missing", "broken", "gated"):
        return [s.finding(f"model.{where.place}", "error", _KEY, f"{where.problem}")]
    if where.place == "unreachable":
        message = f"{where.problem}. Fetch it where there is a network: hf download {where.name}"
        return [s.error("model.unreachable", _KEY, message)]
    needed, free = where.download_bytes, where.free_bytes
    if where.place != "hub" or needed is None:
        return []
    if free is not None and needed > free:
        message = (
            f"{where.name} has to be fetched, {size(needed)}, and {size(free)} are free in the cache; set "
            "HF_HOME to a larger disk, or free some"
        )
        return [s.error("model.disk", _KEY, message)]
    message = f"{where.name} is not on this machine; the start fetches {size(needed)} first"
    return [s.info("model.download", _KEY, message)]


def _lora(facts: ModelFacts, s: Settings) -> list[Finding]:
    lora = facts.lora
    if lora is None or not (lora.problem or lora.unmatched):
        return []
    key = "lora_target_modules" if lora.targets else "use_peft"
    if lora.problem:
        return [s.error("model.lora-targets", key, lora.problem, _lora_fix(facts))]
    names = list(dict.fromkeys(kind.name for kind in facts.linears if kind.part != "head"))
    message = (
        f"lora_target_modules {', '.join(lora.unmatched)} matches nothing and is left out without a word "
        f"({plural(lora.matched, 'module')} match the others); the model's Linear modules: {', '.join(names)}"
    )
    near = {t: difflib.get_close_matches(t, names, n=1) for t in lora.unmatched}
    meant = list(dict.fromkeys(name for t in lora.targets for name in near.get(t, [t])))
    return [s.warning("model.lora-unmatched", key, message, (key, meant))]


def _lora_fix(facts: ModelFacts) -> Change | None:
    """Suggest existing targets: those that were probably meant, or all of the attention."""
    lora = facts.lora
    names = list(dict.fromkeys(kind.name for kind in facts.linears if kind.part != "head"))
    if lora is None or not names:
        return None
    asked = [part.strip() for target in lora.targets for part in target.split(",")]
    meant = [part for part in asked if part in names]
    if len(meant) == 1:
        return ("lora_target_modules", [f".*\\.{meant[0]}"])
    if meant:
        return ("lora_target_modules", meant)
    attention = list(dict.fromkeys(k.name for k in facts.linears if k.part == "attention"))
    return ("lora_target_modules", attention if len(attention) > 1 else names)


def tokenizer_findings(facts: Facts, s: Settings) -> list[Finding]:
    """Return findings on tokenizer, model and prompts together."""
    tokenizer, data, model = facts.tokenizer, facts.data, facts.model
    if tokenizer is None:
        return []
    if not tokenizer.name:
        if model is not None and not model.where.here and model.where.place != "hub":
            return []  # the finding on the model says why
        return [s.error("tokenizer.unreadable", _KEY, tokenizer.problem)]
    form = data.form if data is not None else ""
    if data is not None and any(odd.what == "quoted" for odd in data.odd):
        form = ""  # has its own finding
    return [
        *_template(tokenizer, form, s),
        *_ends(tokenizer, s),
        *_vocabulary(tokenizer, model, s),
        *_think(tokenizer, s),
    ]


def _template(facts: TokenizerFacts, form: str, s: Settings) -> list[Finding]:
    tail = f" The first prompt ends with: {one_line(facts.tail)}" if facts.rendered else ""
    section = s.section
    written = set(facts.special) - {facts.bos}  # text with the template's own marks
    if facts.has_template and form == "text" and section.chat is None and not written:
        message = (
            "the prompts are plain texts, and TRL puts no chat template around those, although the tokenizer "
            f"has one: an instruct model may never end its answer.{tail}"
        )
        key = "grpo_tui.chat"
        return [s.warning("tokenizer.string-prompts", key, message, (key, True))]
    if not facts.has_template and form in ("messages", "mixed"):
        message = (
            "the prompts are messages, and the tokenizer has no chat template to write them: TRL stops in "
            "the first step. Name an instruct model, or make the prompts texts"
        )
        key = "grpo_tui.chat" if section.wants_chat else s.data_key
        fix = ("grpo_tui.chat", False) if section.chat else None
        return [s.error("tokenizer.no-template", key, message, fix)]
    if facts.problem:
        key = "grpo_tui.system_prompt" if section.system_prompt is not None else s.data_key
        return [s.error("tokenizer.refused", key, f"row by row, {facts.problem}")]
    return []


def _ends(facts: TokenizerFacts, s: Settings) -> list[Finding]:
    if facts.eos is None:
        message = "the tokenizer has no end token, so no completion ever ends by itself: each is cut off at "
        message += "max_completion_length"
        return [(s.error if facts.pad is None else s.warning)("tokenizer.no-eos", _KEY, message)]
    if facts.pad is None:
        message = f"the tokenizer has no padding token; TRL pads with the end token {facts.eos}"
        return [s.info("tokenizer.no-pad", _KEY, message)]
    return []


def _vocabulary(facts: TokenizerFacts, model: ModelFacts | None, s: Settings) -> list[Finding]:
    rows = (model.vocab or 0) if model is not None else 0
    if not rows or not facts.size or facts.size <= rows:
        return []
    message = (
        f"the tokenizer has {facts.size:,} tokens and the model's embedding {rows:,} rows: a token "
        "beyond them ends the run. They do not belong together, or the embedding was not resized"
    )
    return [s.error("tokenizer.vocabulary", _KEY, message)]


def _think(facts: TokenizerFacts, s: Settings) -> list[Finding]:
    if not facts.opens_think:
        return []
    named = [*map(str, s.get("reward_funcs") or ()), *(entry.source for entry in s.section.rewards)]
    strict = [name for name in named if "think_format" in name]
    message = (
        "the rendered prompt already ends with <think>, so completions hold only </think>: a reward that "
        "looks for both tags gives 0"
    )
    if strict:
        message = f"{message}, as {strict[0]} does"
        return [s.warning("tokenizer.opens-think", "reward_funcs", message)]
    return [s.info("tokenizer.opens-think", _KEY, message)]


def facts_findings(settings: Settings, facts: Facts) -> list[Finding]:
    """Return findings on settings that the model does not support. None while the model is unknown."""
    model = facts.model
    if model is None or model.problem or not model.architecture:
        return []
    shape = model.shape
    split = tensor_parallel_findings(settings, shape.heads, shape.kv_heads) if shape is not None else []
    known = {"context": model.context, "experts": shape.experts if shape is not None else 0}
    return [*row_findings(settings, "model", architecture=model.architecture, **known), *split]
