"""What goes wrong for people, as files: found before a model is loaded, with its place and its fix."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from grpo_tui.config.draft import Draft
from grpo_tui.config.resolve import inspect_config
from grpo_tui.core.findings import Finding
from grpo_tui.demo import DEMO_MODEL
from grpo_tui.preflight.machine import Machine, this_machine
from grpo_tui.preflight.report import PARTS, Part, Preflight
from grpo_tui.preflight.run import QUICK, Children, check
from grpo_tui.preflight.static import Launch
from tests import PATIENCE_S
from tests.preflight.machines import A100, machine, serving

HEAD = f"model_name_or_path: {DEMO_MODEL}\n"
"""The first line of every case, so that the second line of the file is the first of the case."""
CPU = "use_cpu: true\nbf16: false\nmax_steps: 20\nsave_steps: 10\nmax_completion_length: 40\n"
LOCAL = "grpo_tui:\n  dataset: rows.jsonl\n  rewards: [{name: right, source: own.py:right}]\n"
RIGHT = (
    "def right(completions, answer, **kwargs):\n    return [float(a in str(c)) for c, a in "
    "zip(completions, answer)]\n"
)
ANSWERED = [
    {"prompt": [{"role": "user", "content": f"What is {n} + 1?"}], "answer": str(n + 1)} for n in range(40)
]


@dataclass(frozen=True)
class Case:
    """One fault.

    Attributes:
        config: the file after its first line, without what every case has.
        expected: rule, severity and field of what must be found.
        line: the line it stands on.
        says: words that the message holds, numbers above all.
        rows, reward: files beside it.
        fixed: the file put right; the finding's own fix when None.
        right_rows, right_reward: those files put right.
        parts: the parts that find it.
    """

    config: str
    expected: tuple[str, str, str | None]
    line: int
    says: tuple[str, ...] = ()
    rows: list[dict[str, object]] = field(default_factory=lambda: ANSWERED)
    reward: str = RIGHT
    fixed: str | None = None
    right_rows: list[dict[str, object]] | None = None
    right_reward: str | None = None
    parts: tuple[Part, ...] = QUICK


DATA: tuple[Part, ...] = ("static", "model", "data", "plan")
REWARDS: tuple[Part, ...] = ("static", "rewards", "plan")
TEXT = [{"prompt": f"What is {n} * 6? Answer with a number.", "answer": str(n * 6)} for n in range(40)]


def plain(*rows: tuple[str, str]) -> list[dict[str, object]]:
    return [
        {"prompt": [{"role": "user", "content": prompt}], "answer": answer} for prompt, answer in rows
    ] * 10


def of_reward(rule: str, says: tuple[str, ...] = (), **files: Any) -> Case:
    """A fault of the reward function, whose place is the list of rewards; put right by another function."""
    severity, _, rule = rule.partition(" ")
    wanted = (rule, severity, "grpo_tui.rewards.0")
    files = {"right_reward": RIGHT, "fixed": "", **files}
    return Case("", wanted, 9, says, parts=REWARDS, **files)


CASES: dict[str, Case] = {
    "R01 batch of 6": Case(
        "per_device_train_batch_size: 6\n",
        ("batch.indivisible", "error", "per_device_train_batch_size"),
        2,
        ("6 completions", "num_generations 8", "Nearest settings"),
    ),
    "R01 batch of 1, accumulated": Case(
        "per_device_train_batch_size: 1\ngradient_accumulation_steps: 4\n",
        ("batch.indivisible", "error", "per_device_train_batch_size"),
        2,
        ("gradient_accumulation_steps 4",),
    ),
    "R01 a group of one": Case(
        "num_generations: 1\n", ("batch.group-too-small", "error", "num_generations"), 2
    ),
    "R01 in evaluation": Case(
        "eval_strategy: steps\neval_steps: 10\nper_device_eval_batch_size: 1\n",
        ("batch.eval-indivisible", "error", "per_device_eval_batch_size"),
        4,
        ("group size 8",),
        fixed="eval_strategy: steps\neval_steps: 10\nper_device_eval_batch_size: 8\n",
    ),
    "R02 a number as text": Case(
        "learning_rate: 1e-6\n",
        ("config.coerced", "info", "learning_rate"),
        2,
        ("1e-06",),
        fixed="learning_rate: 1.0e-6\n",
    ),
    "R02 no as text": Case(
        'log_completions: "no"\n',
        ("config.coerced", "info", "log_completions"),
        2,
        fixed="log_completions: false\n",
    ),
    "R02 no number at all": Case(
        "num_generations: eight\n", ("config.type", "error", "num_generations"), 2, ("'eight'",)
    ),
    "R02 half a group": Case("num_generations: 8.5\n", ("config.type", "error", "num_generations"), 2),
    "R02 None": Case("max_grad_norm: None\n", ("config.type", "error", "max_grad_norm"), 2),
    "R02 a key twice": Case(
        "beta: 0.0\nbeta: 0.04\n",
        ("config.unreadable", "error", "beta"),
        3,
        ("lines 2 and 3",),
        fixed="beta: 0.04\n",
    ),
    "R02 a tab": Case(
        "generation_kwargs:\n\tseed: 1\n", ("config.unreadable", "error", None), 3, ("tab",), fixed=""
    ),
    "R03 prompt length": Case(
        "max_prompt_length: 512\n", ("config.removed-key", "error", "max_prompt_length"), 2
    ),
    "R03 warm-up": Case(
        "warmup_ratio: 0.1\n", ("config.removed-key", "error", "warmup_ratio"), 2, ("warmup_steps",)
    ),
    "R03 overwriting": Case(
        "overwrite_output_dir: true\n", ("config.removed-key", "error", "overwrite_output_dir"), 2
    ),
    "R05 mistyped": Case(
        "learning_rte: 1.0e-6\n", ("config.unknown-key", "error", "learning_rte"), 2, ("learning_rate",)
    ),
    "R05 hyphens": Case(
        "num-generations: 4\n", ("config.unknown-key", "error", "num-generations"), 2, ("underscores",)
    ),
    "R05 nested": Case(
        "trainer:\n  beta: 0.04\n", ("config.unknown-key", "error", "trainer"), 2, ("nested",)
    ),
    "R05 a loss that is none": Case(
        "loss_type: bogus\n", ("config.type", "error", "loss_type"), 2, ("dapo",)
    ),
    "R05 a mode that is none": Case(
        "vllm_mode: bogus\n", ("config.type", "error", "vllm_mode"), 2, ("colocate",), fixed=""
    ),
    "R05 nested dtype": Case(
        "model_init_kwargs: {torch_dtype: bfloat16}\n",
        ("config.removed-key", "error", "model_init_kwargs.torch_dtype"),
        2,
        ("float32",),
    ),
    "R06 targets in one text": Case(
        "use_peft: true\nlora_target_modules: q_proj,v_proj\n",
        ("config.coerced", "info", "lora_target_modules"),
        3,
        fixed="use_peft: true\nlora_target_modules: [q_proj, v_proj]\n",
    ),
    "R06 targets that are not there": Case(
        "use_peft: true\nlora_target_modules: [query, value]\n",
        ("model.lora-targets", "error", "lora_target_modules"),
        3,
        ("q_proj",),
        parts=DATA,
        fixed="use_peft: true\nlora_target_modules: [q_proj, v_proj]\n",
    ),
    "R07 no prompt": Case(
        "",
        ("data.no-prompt", "error", "grpo_tui.dataset"),
        8,
        ("question",),
        parts=DATA,
        rows=[{"question": row["prompt"], "answer": row["answer"]} for row in ANSWERED],
    ),
    "R11 one row": Case(
        "per_device_train_batch_size: 8\nnum_generations: 4\n",
        ("data.smaller-than-batch", "error", "grpo_tui.dataset"),
        10,
        ("2 prompts", "1"),
        parts=DATA,
        rows=ANSWERED[:1],
        right_rows=ANSWERED,
        fixed="per_device_train_batch_size: 8\nnum_generations: 4\n",
    ),
    "R12 text to a model with a template": Case(
        "", ("tokenizer.string-prompts", "warning", "grpo_tui.chat"), 7, ("template",), parts=DATA, rows=TEXT
    ),
    "R13 a prompt beyond the context": Case(
        "",
        ("data.too-long", "warning", "max_completion_length"),
        6,
        ("row 1", "256"),
        parts=DATA,
        rows=[{"prompt": [{"role": "user", "content": "1 + " * 400}], "answer": "1"}, *ANSWERED],
        right_rows=ANSWERED,
        fixed="",
    ),
    "rows without an answer": Case(
        "",
        ("data.gold-missing", "warning", "grpo_tui.dataset"),
        8,
        ("row 2",),
        parts=DATA,
        rows=[ANSWERED[0], {**ANSWERED[1], "answer": None}, *ANSWERED[2:]],
        right_rows=ANSWERED,
        fixed="",
    ),
    "R09 the answer's name": of_reward(
        "warning rewards.unfilled-default",
        ("solution", "answer"),
        reward="def right(completions, solution=None, **kw):\n"
        "    return [float(s in str(c)) for c, s in zip(completions, solution or ['~'] * "
        "len(completions))]\n",
    ),
    "R15 no keywords": of_reward(
        "error rewards.missing-kwargs",
        ("completion_ids",),
        reward="def right(prompts, completions):\n    return [0.5 for _ in completions]\n",
    ),
    "R16 two for all": of_reward(
        "error rewards.return",
        ("2",),
        reward="def right(completions, **kw):\n    return [1.0, 0.0]\n",
    ),
    "R26 gold in another form": of_reward(
        "error rewards.gold-format",
        ("####",),
        rows=plain(
            ("2+2?", "Two and two make four.\n#### 4"), ("3+4?", "Three and four make seven.\n#### 7")
        ),
        reward="def right(completions, answer, **kw):\n"
        "    return [float(c[0]['content'].strip() == a) for c, a in zip(completions, answer)]\n",
        right_rows=ANSWERED,
    ),
    "R09 a column that is not there": of_reward(
        "error rewards.missing-column",
        ("solution", "answer"),
        reward="def right(completions, solution, **kw):\n"
        "    return [float(s in str(c)) for c, s in zip(completions, solution)]\n",
        right_reward=None,
        fixed=None,  # by the finding's own fix
    ),
    "R17 nothing but None": of_reward(
        "error rewards.none-everywhere",
        reward="def right(completions, **kw):\n    return [None] * len(completions)\n",
    ),
    "R23 everything right without a gold answer": of_reward(
        "warning rewards.gold-unusable",
        ("row 1",),
        rows=[{**ANSWERED[0], "answer": ""}, *ANSWERED[1:]],
        reward="def right(completions, answer, **kw):\n"
        "    return [1.0 if not a else float(a in str(c)) for c, a in zip(completions, answer)]\n",
        right_rows=ANSWERED,
    ),
    "R25 the further the better": of_reward(
        "warning rewards.distance",
        ("Negate",),
        reward="def right(completions, **kw):\n    return [abs(20 - len(str(c))) for c in completions]\n",
        right_reward="def right(completions, **kw):\n"
        "    return [-abs(20 - len(str(c))) for c in completions]\n",
    ),
    "R30 a rate of 5": Case(
        "learning_rate: 5.0\nbeta: 0.04\n", ("grpo.rate-high", "warning", "learning_rate"), 2, ("5",)
    ),
    "R31 no clipping": Case("max_grad_norm: 0.0\n", ("grpo.no-clipping", "warning", "max_grad_norm"), 2),
    "R39 nothing saved in time": Case(
        'save_strategy: "no"\n', ("advice.save", "info", "save_strategy"), 2, ("20 steps",)
    ),
    "R40 vLLM missing": Case(
        "use_vllm: true\n", ("config.not-installed", "error", "use_vllm"), 2, ("pip install",)
    ),
    "R43 truncated sampling": Case(
        "use_vllm: true\ntemperature: 0.6\ntop_p: 0.8\nuse_cpu: false\n",
        ("vllm.truncated-sampling", "warning", "top_p"),
        4,
        ("0.8",),
    ),
    "R51 nobody to log in": Case(
        "report_to: wandb\n",
        ("packages.login", "error", "report_to"),
        2,
        ("wandb login",),
        fixed="report_to: wandb\nenv: {WANDB_MODE: offline}\n",
    ),
}


def write(folder: Path, body: str, rows: list[dict[str, object]], reward: str) -> Path:
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "own.py").write_text(reward)
    missing = "".join(
        line + "\n" for line in CPU.splitlines() if f"\n{line.partition(':')[0]}:" not in f"\n{body}"
    )
    section = LOCAL
    if "eval_strategy" in body:
        (folder / "more.jsonl").write_text((folder / "rows.jsonl").read_text())
        section += "  eval_dataset: more.jsonl\n"
    file = folder / "case.yaml"
    file.write_text(HEAD + body + missing + section)
    return file


def host(body: str) -> Machine:
    """A machine on which nothing else is wrong."""
    env = {"WANDB_MODE": "offline"} if "offline" in body else {}
    return machine(A100, answers=serving(str(DEMO_MODEL)), env=env)


def looked(file: Path, case: Case, children: Children) -> Preflight:
    start = Launch(root=file.parent / "run")
    body = file.read_text()
    return check(inspect_config(file), start, parts=case.parts, machine=host(body), children=children)


def matching(found: Preflight, case: Case) -> list[Finding]:
    rule, severity, name = case.expected
    return [
        f
        for f in (*found.findings, *found.advice)
        if f.id == rule and f.severity == severity and (name is None or f.field == name)
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_found_with_its_place_and_the_fixed_file_is_clean(
    name: str, children: Children, tmp_path: Path
) -> None:
    case = CASES[name]
    file = write(tmp_path, case.config, case.rows, case.reward)
    found = looked(file, case, children)
    said = [(f.id, f.severity, f.field, f.line, f.message) for f in (*found.findings, *found.advice)]
    mine = matching(found, case)
    assert mine, said
    assert mine[0].line == case.line, said
    assert all(words in mine[0].message for words in case.says), mine[0].message

    if case.fixed is None:
        assert mine[0].fix is not None
        draft = Draft.open(file)
        draft.apply(mine[0])
        file.write_text(draft.text)
    else:
        write(tmp_path, case.fixed, case.right_rows or case.rows, case.right_reward or case.reward)
    after = looked(file, case, children)
    assert not matching(after, case)
    left = [f for f in after.findings if f.severity != "info" and f.id != "config.not-installed"]
    assert left == [], [(f.id, f.message) for f in left]


def test_the_command_prints_the_documented_shape_and_exits_by_it(tmp_path: Path) -> None:
    file = write(tmp_path, "learning_rte: 1.0e-6\nsync_ref_model: true\n", ANSWERED, RIGHT)
    words = [sys.executable, "-m", "grpo_tui", "check", str(file), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1, done.stderr
    body = json.loads(done.stdout)
    assert {"ok", "findings", "resolved", "plan"} <= set(body)
    assert body["ok"] is False
    assert set(body["findings"][0]) == {"id", "severity", "field", "line", "message", "fix"}
    assert {f["field"] for f in body["findings"] if f["severity"] == "error"} == {
        "learning_rte",
        "sync_ref_model",
    }
    assert body["resolved"]["max_steps"] == 20


def test_nothing_of_the_ml_stack_is_imported_by_the_process_that_checks() -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from grpo_tui.preflight.run import QUICK, check\n"
        "from grpo_tui.config.resolve import inspect_config\n"
        "from grpo_tui.demo import DEMO_CONFIG\n"
        "assert check(inspect_config(DEMO_CONFIG), parts=QUICK).ok\n"
        "print([m for m in ('torch', 'transformers', 'trl', 'datasets', 'tokenizers') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_machine_of_this_test_is_read_without_a_secret() -> None:
    secret = "wandb-secret-value"
    found = this_machine({"WANDB_API_KEY": secret})
    assert "wandb" in found.accounts
    assert secret not in repr(found.accounts)
    assert set(PARTS) >= set(QUICK)
