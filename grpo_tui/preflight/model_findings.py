"""What follows from the facts of a model and its tokenizer: findings `model.…` and `tokenizer.…`.

Pure; it asks nobody and needs no weights. The ids are listed in `checker`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from grpo_tui.config.adapters import merge_first
from grpo_tui.config.rules import REMOVE, Settings
from grpo_tui.config.rules_vllm import tensor_parallel_findings
from grpo_tui.core.findings import Finding, Fix
from grpo_tui.core.statistics import is_number
from grpo_tui.core.text import one_line
from grpo_tui.preflight.facts import Facts, ModelFacts, TokenizerFacts
from grpo_tui.preflight.judging import Judged
from grpo_tui.present.formatting import plural, size

_KEY = "model_name_or_path"
_NO_POLICY = re.compile(
    r"For(MaskedLM|SequenceClassification|TokenClassification|QuestionAnswering|PreTraining|MultipleChoice)$"
    r"|(?<!LMHead)Model$"
)
"""Classes without a head that writes: a reward model or an encoder named as the policy."""


def model_findings(facts: ModelFacts, judged: Judged) -> list[Finding]:
    """Return what is wrong with the model, or has to be known before it is loaded."""
    found = [*_where(facts, judged), *_adapter(facts, judged)]
    if facts.problem and facts.where.place in ("folder", "cached", "hub"):
        message = f"the model's config cannot be used: {facts.problem}"
        found.append(judged.found("model.architecture", "error", _KEY, message))
    elif _NO_POLICY.search(facts.architecture):
        message = (
            f"the model is a {facts.architecture}, which writes no text: its config names that class, and "
            "TRL loads it; a policy is a …ForCausalLM"
        )
        found.append(judged.found("model.no-policy", "error", _KEY, message))
    return [*found, *_lora(facts, judged)]


def _where(facts: ModelFacts, judged: Judged) -> list[Finding]:
    where = facts.where
    if where.place in ("missing", "broken", "gated"):
        return [judged.found(f"model.{where.place}", "error", _KEY, f"{where.problem}")]
    if where.place == "unreachable":
        message = f"{where.problem}. Fetch it where there is a network: hf download {where.name}"
        return [judged.found("model.unreachable", "error", _KEY, message)]
    needed, free = where.download_bytes, where.free_bytes
    if where.place != "hub" or needed is None:
        return []
    if free is not None and needed > free:
        message = (
            f"{where.name} has to be fetched, {size(needed)}, and {size(free)} are free in the cache; set "
            "HF_HOME to a larger disk, or free some"
        )
        return [judged.found("model.disk", "error", _KEY, message)]
    message = f"{where.name} is not on this machine; the start fetches {size(needed)} first"
    return [judged.found("model.download", "info", _KEY, message)]


def _adapter(facts: ModelFacts, judged: Judged) -> list[Finding]:
    if not facts.adapter:
        return []
    message = merge_first(facts.adapter, facts.where.name)
    return [judged.found("model.adapter", "error", _KEY, message)]


def _lora(facts: ModelFacts, judged: Judged) -> list[Finding]:
    lora = facts.lora
    if lora is None:
        return []
    key = "lora_target_modules" if lora.targets else "use_peft"
    if lora.problem:
        return [judged.found("model.lora-targets", "error", key, lora.problem, _lora_fix(facts))]
    if lora.unmatched:
        names = list(dict.fromkeys(kind.name for kind in facts.linears if kind.part != "head"))
        others = f"({plural(lora.matched, 'module')} match the others)"
        message = (
            f"lora_target_modules {', '.join(lora.unmatched)} matches nothing and is left out without a word "
            f"{others}; the model's Linear modules: {', '.join(names)}"
        )
        near = {t: difflib.get_close_matches(t, names, n=1) for t in lora.unmatched}
        meant = list(dict.fromkeys(name for t in lora.targets for name in near.get(t, [t])))
        return [judged.found("model.lora-unmatched", "warning", key, message, Fix(key, meant))]
    return []


def _lora_fix(facts: ModelFacts) -> Fix | None:
    """Targets that the model has: those that were meant, else all of the attention."""
    lora = facts.lora
    names = list(dict.fromkeys(kind.name for kind in facts.linears if kind.part != "head"))
    if lora is None or not names:
        return None
    asked = [part.strip() for target in lora.targets for part in target.split(",")]
    meant = [part for part in asked if part in names]
    if len(meant) == 1:
        return Fix("lora_target_modules", [f".*\\.{meant[0]}"])
    if meant:
        return Fix("lora_target_modules", meant)
    attention = list(dict.fromkeys(k.name for k in facts.linears if k.part == "attention"))
    return Fix("lora_target_modules", attention if len(attention) > 1 else names)


def tokenizer_findings(facts: Facts, judged: Judged) -> list[Finding]:
    """Return what is wrong between tokenizer, model and prompts."""
    tokenizer, data, model = facts.tokenizer, facts.data, facts.model
    if tokenizer is None:
        return []
    if not tokenizer.name:
        if model is not None and not model.where.here and model.where.place != "hub":
            return []  # the model's own finding says why
        return [judged.found("tokenizer.unreadable", "error", _KEY, tokenizer.problem)]
    form = data.form if data is not None else ""
    if data is not None and any(odd.what == "quoted" for odd in data.odd):
        form = ""  # told as what it is
    return [
        *_template(tokenizer, form, judged),
        *_ends(tokenizer, judged),
        *_vocabulary(tokenizer, model, judged),
        *_think(tokenizer, judged),
    ]


def _template(facts: TokenizerFacts, form: str, judged: Judged) -> list[Finding]:
    tail = f" The first prompt ends with: {one_line(facts.tail)}" if facts.rendered else ""
    section = judged.config.section
    written = set(facts.special) - {facts.bos}  # a text that holds the template's own marks needs no other
    if facts.has_template and form == "text" and section.chat is None and not written:
        message = (
            "the prompts are plain texts, and TRL puts no chat template around those, although the tokenizer "
            f"has one: an instruct model may never end its answer.{tail}"
        )
        key = "grpo_tui.chat"
        return [judged.found("tokenizer.string-prompts", "warning", key, message, Fix(key, True))]
    if not facts.has_template and form in ("messages", "mixed"):
        message = (
            "the prompts are messages, and the tokenizer has no chat template to write them: TRL stops in "
            "the first step. Name an instruct model, or make the prompts texts"
        )
        made_here = section.wants_chat
        key = "grpo_tui.chat" if made_here else judged.data_key
        fix = Fix("grpo_tui.chat", False) if section.chat else None
        return [judged.found("tokenizer.no-template", "error", key, message, fix)]
    if facts.problem:
        key = "grpo_tui.system_prompt" if section.system_prompt is not None else judged.data_key
        return [judged.found("tokenizer.refused", "error", key, f"row by row, {facts.problem}")]
    return []


def _ends(facts: TokenizerFacts, judged: Judged) -> list[Finding]:
    if facts.eos is None:
        message = (
            "the tokenizer has no end token, so no completion ever ends by itself: each is cut off at "
            "max_completion_length"
        )
        return [judged.found("tokenizer.no-eos", "error" if facts.pad is None else "warning", _KEY, message)]
    if facts.pad is None:
        message = f"the tokenizer has no padding token; TRL pads with the end token {facts.eos}"
        return [judged.found("tokenizer.no-pad", "info", _KEY, message)]
    return []


def _vocabulary(facts: TokenizerFacts, model: ModelFacts | None, judged: Judged) -> list[Finding]:
    if model is None or not model.vocab or not facts.size or facts.size <= model.vocab:
        return []
    message = (
        f"the tokenizer has {facts.size:,} tokens and the model's embedding {model.vocab:,} rows: a token "
        "beyond them ends the run. They do not belong together, or the embedding was not resized"
    )
    return [judged.found("tokenizer.vocabulary", "error", _KEY, message)]


def _think(facts: TokenizerFacts, judged: Judged) -> list[Finding]:
    if not facts.opens_think:
        return []
    named = [
        *map(str, judged.config.script.get("reward_funcs") or ()),
        *(entry.source for entry in judged.config.section.rewards),
    ]
    strict = [name for name in named if "think_format" in name]
    message = (
        "the rendered prompt already ends with <think>, so completions hold only </think>: a reward that "
        "looks for both tags gives 0"
    )
    if strict:
        message = f"{message}, as {strict[0]} does"
        return [judged.found("tokenizer.opens-think", "warning", "reward_funcs", message)]
    return [judged.found("tokenizer.opens-think", "info", _KEY, message)]


def facts_findings(settings: Settings, facts: Facts) -> list[Finding]:
    """Return what the config asks of a model that it cannot give; nothing while it is not known."""
    model = facts.model
    if model is None or model.problem or not model.architecture:
        return []
    heads = model.heads or 0
    split = tensor_parallel_findings(settings, heads, model.kv_heads or heads) if heads else []
    return [*_mixture(settings, model), *_context(settings, model), *split]


def _mixture(s: Settings, model: ModelFacts) -> Iterator[Finding]:
    weight = s.get("router_aux_loss_coef")
    if is_number(weight) and weight and not model.experts:
        message = (
            f"router_aux_loss_coef {weight:g} weighs a loss of the router, and "
            f"{model.architecture} has no experts"
        )
        fix = ("router_aux_loss_coef", REMOVE)
        yield s.error("model.no-router", "router_aux_loss_coef", message, fix)


def _context(s: Settings, model: ModelFacts) -> Iterator[Finding]:
    asked = s.get("vllm_max_model_length")
    if s.get("use_vllm") and is_number(asked) and model.context and asked > model.context:
        message = (
            f"vllm_max_model_length {asked} is beyond the model's context of {model.context}, "
            "which vLLM refuses"
        )
        fix = ("vllm_max_model_length", model.context)
        yield s.error("model.context", "vllm_max_model_length", message, fix)
